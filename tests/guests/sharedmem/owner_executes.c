// A process that holds a robust futex in shared memory executes a program: the kernel marks the futex on the way, and another
// process sees that without a call.
#include "../guest.h"
#include <linux/futex.h>

struct held {
  struct robust_list entry;
  volatile unsigned word;
};

int main(void) {
  struct held *held = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(held != MAP_FAILED);
  unsigned long looks = 0;
  for (int round = 0; round < 20; round++) {
    held->word = 0;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      static struct robust_list_head list;
      list.list.next = &held->entry;
      list.futex_offset = (char *)&held->word - (char *)&held->entry;
      held->entry.next = &list.list;
      CHECK(syscall(SYS_set_robust_list, &list, sizeof list) == 0);
      held->word = (unsigned)tid_self();
      execl("/bin/true", "true", NULL);
      _exit(1);
    }
    while (!(held->word & FUTEX_OWNER_DIED)) looks++;
    check_exited(child, 0);
  }
  printf("%lu looks\n", looks);
  return guest_ok();
}
