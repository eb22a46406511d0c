// A signal finds a program that makes no calls, and asks for the time stamp or for what the processor is
// until its handler has run: it runs, whether the signal is a timer's or another process's.
#include "../guest.h"
#include <sys/time.h>

static volatile sig_atomic_t handled;

static void on_alarm(int signal) { handled = signal; }

static void asks_cpuid(void) {
  while (!handled) {
    unsigned eax = 0, ebx, ecx = 0, edx;
    __asm__ volatile("cpuid" : "+a"(eax), "=b"(ebx), "+c"(ecx), "=d"(edx));
  }
}

static void reads_counter(void) {
  while (!handled) {
    unsigned low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
  }
}

// In code that nobody has seen before it runs.
static void reads_counter_unseen(void) {
  static void *code;
  if (!code) {
    code = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(code != MAP_FAILED);
    memcpy(code, "\x0f\x31\xc3", 3); // rdtsc; ret
  }
  while (!handled) ((void (*)(void))code)();
}

static void (*const loops[])(void) = {asks_cpuid, reads_counter, reads_counter_unseen};

int main(void) {
  on_signal(SIGALRM, on_alarm, 0);
  for (int loop = 0; loop < 3; loop++) {
    for (int again = 0; again < 5; again++) {
      handled = 0;
      struct itimerval once = {.it_value = {.tv_usec = 5000}};
      CHECK(setitimer(ITIMER_REAL, &once, NULL) == 0);
      loops[loop]();
      CHECK(handled == SIGALRM);

      handled = 0;
      pid_t pid = getpid(), other = fork();
      CHECK(other >= 0);
      if (other == 0) {
        sleep_ms(5);
        CHECK(kill(pid, SIGALRM) == 0);
        _exit(0);
      }
      loops[loop]();
      CHECK(handled == SIGALRM);
      check_exited(other, 0);
    }
  }
  return guest_ok();
}
