// What a process asks of itself again and again: how long it has computed, what is left of its timer, which signals wait.
// unstopped: getrusage times getitimer rt_sigpending
#include "../guest.h"
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/times.h>

int main(void) {
  sigset_t blocked, waiting;
  sigemptyset(&blocked), sigaddset(&blocked, SIGUSR1), sigaddset(&blocked, SIGUSR2);
  CHECK(sigprocmask(SIG_BLOCK, &blocked, NULL) == 0);
  struct itimerval hour = {{0, 0}, {3600, 0}}, left = {{0, 0}, {0, 0}};
  CHECK(setitimer(ITIMER_REAL, &hour, NULL) == 0);
  long user = 0, ticks = 0, micros = 0;
  for (int i = 0; i < 300; i++) {
    struct rusage usage;
    struct tms tms;
    CHECK(getrusage(i & 1 ? RUSAGE_SELF : RUSAGE_THREAD, &usage) == 0 && usage.ru_maxrss > 0);
    if (i & 1) {
      CHECK(usage.ru_utime.tv_sec * 1000000 + usage.ru_utime.tv_usec >= user);
      user = usage.ru_utime.tv_sec * 1000000 + usage.ru_utime.tv_usec;
    }
    long now = times(&tms);
    CHECK(now != -1 && now >= ticks && tms.tms_cutime == 0);
    ticks = now;
    CHECK(getitimer(ITIMER_REAL, &left) == 0 && left.it_value.tv_sec > 3000);
    micros += left.it_value.tv_usec;
    if (i == 100) CHECK(raise(SIGUSR1) == 0);
    if (i == 200) CHECK(kill(getpid(), SIGUSR2) == 0);
    CHECK(sigpending(&waiting) == 0);
    CHECK(sigismember(&waiting, SIGUSR1) == (i >= 100) && sigismember(&waiting, SIGUSR2) == (i >= 200));
    // A shorter set is filled as far as it goes.
    uint64_t part = ~(uint64_t)0;
    CHECK(syscall(SYS_rt_sigpending, &part, 1) == 0 && part >> 8 == ~(uint64_t)0 >> 8);
  }
  CHECK_ERRNO(syscall(SYS_rt_sigpending, &waiting, 64), EINVAL);
  CHECK_ERRNO(syscall(SYS_rt_sigpending, (void *)8, 8), EFAULT);
  CHECK_ERRNO(getitimer((__itimer_which_t)77, &left), EINVAL);
  CHECK_ERRNO(getrusage((__rusage_who_t)77, (struct rusage *)&left), EINVAL);
  printf("%ld %ld %ld\n", user, ticks, micros);
  return guest_ok();
}
