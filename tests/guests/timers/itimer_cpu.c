// ITIMER_VIRTUAL and ITIMER_PROF count the process's own time: they end a loop that makes calls.
#include "../guest.h"
#include <sys/time.h>

static volatile int virt, prof;
static void on_virt(int sig) { (void)sig, virt++; }
static void on_prof(int sig) { (void)sig, prof++; }

int main(void) {
  on_signal(SIGVTALRM, on_virt, SA_RESTART);
  on_signal(SIGPROF, on_prof, SA_RESTART);
  struct itimerval t = {{0, 0}, {0, 10000}};
  CHECK(setitimer(ITIMER_VIRTUAL, &t, NULL) == 0 && setitimer(ITIMER_PROF, &t, NULL) == 0);
  volatile uint64_t x = 1;
  long calls = 0;
  while (!virt || !prof) {
    for (int i = 0; i < 20000; i++) x = x * 3 + 1;
    getppid();
    calls++;
  }
  CHECK(virt == 1 && prof == 1);
  printf("%ld calls until then\n", calls);
  return guest_ok();
}
