// A thread that does nothing but sleep for moments, as Go's runtime has one, beside one that computes; sleeps of no time,
// until a time that is over, with a bad address, and one that a signal cuts, whose rest is told.
#include "../guest.h"

static int over;
static long turns, failed;

static void *sleeper(void *unused) {
  (void)unused;
  struct timespec t = {0, 20000}, none = {0, 0}, now;
  while (!__atomic_load_n(&over, __ATOMIC_SEQ_CST)) {
    turns++;
    CHECK(syscall(SYS_nanosleep, &t, NULL) == 0);
    CHECK(syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &t, NULL) == 0);
    CHECK(syscall(SYS_nanosleep, &none, NULL) == 0);
    clock_gettime(CLOCK_MONOTONIC, &now);
    CHECK(syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, &now, NULL) == 0);
    failed += syscall(SYS_nanosleep, (void *)8, NULL) == -1 && errno == EFAULT;
  }
  return NULL;
}

static void nothing(int sig) { (void)sig; }

static void *cut(void *unused) {
  (void)unused;
  struct timespec t = {1000, 0}, rest = {0, 0};
  CHECK_ERRNO(syscall(SYS_nanosleep, &t, &rest), EINTR);
  CHECK(rest.tv_sec >= 990 && rest.tv_sec < 1000);
  return NULL;
}

int main(void) {
  struct sigaction act = {.sa_handler = nothing};
  CHECK(sigaction(SIGUSR1, &act, NULL) == 0);
  pthread_t a, b;
  CHECK(pthread_create(&a, NULL, sleeper, NULL) == 0 && pthread_create(&b, NULL, cut, NULL) == 0);
  uint64_t sum = 1;
  for (int i = 0; i < 20000000; i++) sum = sum * 6364136223846793005u + (uint64_t)i;
  usleep(100000);
  CHECK(pthread_kill(b, SIGUSR1) == 0 && pthread_join(b, NULL) == 0);
  __atomic_store_n(&over, 1, __ATOMIC_SEQ_CST);
  CHECK(pthread_join(a, NULL) == 0 && turns > 0 && failed == turns);
  printf("%llx, %ld turns\n", (unsigned long long)sum, turns);
  return guest_ok();
}
