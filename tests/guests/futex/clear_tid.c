// set_tid_address and CLONE_CHILD_CLEARTID: the kernel clears the word and wakes when a raw thread ends.
#include "../guest.h"

static volatile uint32_t ctid, ptid, ran;

static int body(void *arg) {
  (void)arg;
  ran = (uint32_t)tid_self();
  syscall(SYS_exit, 3);
  return 0;
}

int main(void) {
  char *stack = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_CHILD_SETTID |
              CLONE_CHILD_CLEARTID | CLONE_PARENT_SETTID;
  ctid = 1;
  int tid = clone(body, stack + 16 * PAGE, flags, NULL, &ptid, NULL, &ctid);
  CHECK(tid > 0 && ptid == (uint32_t)tid);
  uint32_t v;
  while ((v = ctid) != 0) futex((void *)&ctid, FUTEX_WAIT, v, NULL, NULL, 0);
  CHECK(ran == (uint32_t)tid);
  CHECK(syscall(SYS_set_tid_address, &ctid) == getpid());
  printf("raw thread %d\n", tid);
  return guest_ok();
}
