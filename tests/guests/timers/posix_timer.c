// timer_create: signals with values, to a thread, by a thread; overruns; gettime; delete.
#include "../guest.h"

static volatile int fired, value, overruns;
static volatile pid_t fired_in;

static void handler(int sig, siginfo_t *info, void *ctx) {
  (void)sig, (void)ctx;
  CHECK(info->si_code == SI_TIMER);
  fired++;
  value = info->si_value.sival_int;
  overruns += info->si_overrun;
  fired_in = tid_self();
}

static int tell[2];
static void notify(union sigval v) { CHECK(write(tell[1], &v.sival_int, 4) == 4); }

int main(void) {
  on_siginfo(SIGRTMIN, handler, 0);
  struct sigevent ev = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN, .sigev_value.sival_int = 17};
  timer_t id;
  CHECK(timer_create(CLOCK_MONOTONIC, &ev, &id) == 0);
  struct itimerspec t = {{0, 5000000}, {0, 5000000}}, now;
  CHECK(timer_settime(id, 0, &t, NULL) == 0);
  sigset_t block, old;
  sigemptyset(&block), sigaddset(&block, SIGRTMIN);
  CHECK(sigprocmask(SIG_BLOCK, &block, &old) == 0);
  while (fired < 3) sigsuspend(&old);
  CHECK(value == 17);
  CHECK(timer_gettime(id, &now) == 0 && now.it_interval.tv_nsec == 5000000);
  CHECK(timer_delete(id) == 0);
  CHECK_ERRNO(timer_gettime(id, &now), EINVAL);
  fired = 0;
  ev.sigev_notify = SIGEV_THREAD_ID;
  ev._sigev_un._tid = tid_self();
  CHECK(timer_create(CLOCK_REALTIME, &ev, &id) == 0);
  t = (struct itimerspec){{0, 0}, {0, 1000000}};
  CHECK(timer_settime(id, 0, &t, NULL) == 0);
  while (!fired) sigsuspend(&old);
  CHECK(fired == 1 && fired_in == tid_self());
  CHECK(timer_delete(id) == 0 && pipe(tell) == 0);
  ev = (struct sigevent){.sigev_notify = SIGEV_THREAD, .sigev_notify_function = notify, .sigev_value.sival_int = 5};
  CHECK(timer_create(CLOCK_MONOTONIC, &ev, &id) == 0 && timer_settime(id, 0, &t, NULL) == 0);
  int got;
  ssize_t r;
  while ((r = read(tell[0], &got, 4)) == -1) CHECK(errno == EINTR);
  CHECK(r == 4 && got == 5);
  CHECK(timer_delete(id) == 0);
  printf("%d overruns\n", overruns);
  return guest_ok();
}
