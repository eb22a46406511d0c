// A thread that has not done anything yet is killed by its process's end, just after it was found that code which is
// made at run time may have an rdtsc in it, which is to fault in all threads from then on.
#include "../guest.h"

static void *idles(void *arg) {
  for (;;) pause();
  return arg;
}

int main(void) {
  // mov eax, 7; ret; and rdtsc, which nobody executes.
  static const unsigned char code[] = {0xb8, 7, 0, 0, 0, 0xc3, 0x0f, 0x31, 0xc3};
  for (int i = 0; i < 50; i++) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      CHECK(page != MAP_FAILED);
      memcpy(page, code, sizeof code);
      start_thread(idles, NULL);
      CHECK(mprotect(page, PAGE, PROT_READ | PROT_EXEC) == 0);
      _exit(((int (*)(void))page)());
    }
    check_exited(child, 7);
  }
  printf("%d\n", getpid());
  return guest_ok();
}
