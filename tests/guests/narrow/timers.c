// cflags: -m32
// needs: /usr/lib32/crt1.o
// Timers of all kinds, and sleeps that they interrupt.
#include "../guest.h"
#include <sys/time.h>
#include <sys/timerfd.h>

static volatile sig_atomic_t alarms, value;

static void on_alarm(int sig) {
  (void)sig;
  alarms++;
}

static void on_timer(int sig, siginfo_t *info, void *context) {
  (void)sig, (void)context;
  CHECK(info->si_code == SI_TIMER);
  value = info->si_value.sival_int;
}

int main(void) {
  on_signal(SIGALRM, on_alarm, 0);
  // More than once, since the first may come before the sleep begins.
  struct itimerval often = {{0, 30000}, {0, 30000}}, once = {{0, 0}, {100, 0}}, none = {{0, 0}, {0, 0}}, old;
  CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
  struct timespec rest = {9, 9};
  CHECK_ERRNO(nanosleep(&(struct timespec){5, 0}, &rest), EINTR);
  CHECK(setitimer(ITIMER_REAL, &none, &old) == 0 && old.it_interval.tv_usec >= 30000);
  CHECK(alarms >= 1 && rest.tv_sec == 4 && rest.tv_nsec > 0 && rest.tv_nsec < 1000000000);
  CHECK(getitimer(ITIMER_REAL, &old) == 0 && old.it_value.tv_sec == 0 && old.it_value.tv_usec == 0);
  CHECK(setitimer(ITIMER_REAL, &once, NULL) == 0 && alarm(0) > 90);
  // Absolute sleeps have no rest.
  struct timespec until;
  CHECK(clock_gettime(CLOCK_MONOTONIC, &until) == 0);
  until.tv_sec += 5;
  rest = (struct timespec){7, 7};
  CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
  CHECK(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, &rest) == EINTR);
  CHECK(rest.tv_sec == 7 && rest.tv_nsec == 7 && setitimer(ITIMER_REAL, &none, NULL) == 0);
  // A timer with a value.
  on_siginfo(SIGUSR1, on_timer, 0);
  timer_t timer;
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1, .sigev_value.sival_int = 42};
  CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
  struct itimerspec spec = {{0, 0}, {0, 20000000}};
  CHECK(timer_settime(timer, 0, &spec, NULL) == 0);
  // The signal may come before the pause begins.
  while (value == 0) sleep_ms(1);
  CHECK(value == 42 && timer_gettime(timer, &spec) == 0 && spec.it_value.tv_nsec == 0);
  CHECK(timer_getoverrun(timer) == 0 && timer_delete(timer) == 0);
  // A timer as a descriptor.
  int fd = timerfd_create(CLOCK_MONOTONIC, 0);
  spec = (struct itimerspec){{0, 5000000}, {0, 5000000}};
  CHECK(fd >= 0 && timerfd_settime(fd, 0, &spec, NULL) == 0);
  uint64_t expired;
  CHECK(read(fd, &expired, sizeof expired) == 8 && expired >= 1);
  CHECK(timerfd_gettime(fd, &spec) == 0 && spec.it_interval.tv_nsec == 5000000);
  // A sleep goes on after a stop.
  pid_t child = fork();
  if (child == 0) {
    CHECK(nanosleep(&(struct timespec){0, 150000000}, NULL) == 0);
    _exit(0);
  }
  sleep_ms(30);
  CHECK(kill(child, SIGSTOP) == 0);
  sleep_ms(30);
  CHECK(kill(child, SIGCONT) == 0);
  check_exited(child, 0);
  puts("all timers ended");
  return guest_ok();
}
