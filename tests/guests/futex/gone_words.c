// A thread ends whose word of set_tid_address, or whose list of robust futexes, lies in memory that is gone, that cannot be written,
// or that belongs to another file by then. The kernel does not mind; nobody is woken, and nothing else is written.
#include "../guest.h"

#include <stddef.h>

static char *word_page, *list_page;
static int how;

struct lock {
  struct robust_list list;
  uint32_t futex;
};

static volatile uint32_t ended;

static void *map(int prot, int flags) {
  void *m = mmap(NULL, PAGE, prot, flags | MAP_ANONYMOUS, -1, 0);
  CHECK(m != MAP_FAILED);
  return m;
}

static int body(void *arg) {
  (void)arg;
  struct robust_list_head *head = (void *)list_page;
  struct lock *lock = (void *)(list_page + 256);
  head->futex_offset = offsetof(struct lock, futex);
  head->list.next = &lock->list;
  lock->list.next = &head->list;
  lock->futex = (uint32_t)tid_self();
  *(volatile uint32_t *)word_page = 77;
  CHECK(syscall(SYS_set_tid_address, word_page) == tid_self());
  CHECK(syscall(SYS_set_robust_list, head, sizeof *head) == 0);
  switch (how) {
    case 0:
      CHECK(munmap(word_page, PAGE) == 0 && munmap(list_page, PAGE) == 0);
      break;
    case 1:
      CHECK(mprotect(word_page, PAGE, PROT_READ) == 0 && mprotect(list_page, PAGE, PROT_READ) == 0);
      break;
    case 2:
      CHECK(mprotect(word_page, PAGE, PROT_NONE) == 0 && mprotect(list_page, PAGE, PROT_NONE) == 0);
      break;
    case 3:
      *(volatile uint32_t *)word_page = 0;
      CHECK(mprotect(word_page, PAGE, PROT_READ) == 0);
      break;
    default:
      break;
  }
  ended = 1;
  syscall(SYS_exit, 0);
  return 0;
}

static void thread(int flags) {
  word_page = map(PROT_READ | PROT_WRITE, flags), list_page = map(PROT_READ | PROT_WRITE, flags);
  char *stack = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  uint32_t tid_word = 1;
  ended = 0;
  int all = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_PARENT_SETTID;
  int tid = clone(body, stack + 16 * PAGE, all, NULL, &tid_word, NULL, NULL);
  CHECK(tid > 0);
  // It has no word that tells of its end: until the kernel does not know it any more.
  while (syscall(SYS_tgkill, getpid(), tid, 0) == 0) sched_yield();
  CHECK(ended);
  if (how == 0) return;
  CHECK(mprotect(word_page, PAGE, PROT_READ) == 0 && mprotect(list_page, PAGE, PROT_READ) == 0);
  uint32_t word = *(uint32_t *)word_page, futex = ((struct lock *)(list_page + 256))->futex;
  if (how == 4 || how == 3) CHECK(word == 0 && futex == FUTEX_OWNER_DIED);
  else CHECK(word == 77 && futex == (uint32_t)tid);
  printf("%d: thread %d, word %u, futex %x\n", how, tid, word, futex);
}

int main(void) {
  for (how = 0; how <= 4; how++) {
    thread(MAP_PRIVATE);
    thread(MAP_SHARED);
  }
  return guest_ok();
}
