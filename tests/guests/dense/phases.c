// cflags: -ldl -lm
// A program that has threads only at times: its text counts while it has, and is as it was in between. Libraries come while
// it counts, forks happen then, and handlers interrupt both.
#include "../guest.h"

#include <dlfcn.h>
#include <sys/time.h>

static volatile sig_atomic_t alarms;

static void on_alarm(int sig) {
  (void)sig;
  alarms++;
}

static int compare(const void *a, const void *b) {
  unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;
  return x < y ? -1 : x > y;
}

__attribute__((noinline)) static unsigned long compute(unsigned seed, int turns) {
  enum { N = 4000 };
  static __thread unsigned values[N];
  unsigned long sum = 0;
  while (turns-- > 0) {
    for (int i = 0; i < N; i++) {
      seed = seed * 1664525 + 1013904223;
      values[i] = seed >> 3;
    }
    qsort(values, N, sizeof *values, compare);
    for (int i = 0; i < N; i++) sum = sum * 31 + values[i];
  }
  return sum;
}

static void *body(void *which) { return (void *)compute((unsigned)(long)which, 20); }

// A library that comes while text counts, counts too.
static void *with_library(void *which) {
  void *library = dlopen("libz.so.1", RTLD_NOW);
  unsigned long sum = compute((unsigned)(long)which, 5);
  if (library) {
    unsigned long (*crc)(unsigned long, const unsigned char *, unsigned) =
        (unsigned long (*)(unsigned long, const unsigned char *, unsigned))dlsym(library, "crc32");
    unsigned char bytes[5000];
    for (int i = 0; i < 5000; i++) bytes[i] = (unsigned char)(i * 7);
    unsigned long first = crc(0, bytes, sizeof bytes);
    for (int i = 0; i < 300; i++) CHECK(crc(0, bytes, sizeof bytes) == first);
    CHECK(dlclose(library) == 0);
  }
  return (void *)sum;
}

// A child that is forked while text counts computes with threads of its own, and ends by an exec or not.
static void *with_child(void *which) {
  unsigned long expected = compute((unsigned)(long)which, 5);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    pthread_t thread;
    void *sum;
    if (pthread_create(&thread, NULL, body, (void *)7l) != 0) _exit(2);
    unsigned long own = compute((unsigned)(long)which, 5);
    if (pthread_join(thread, &sum) != 0 || own != expected) _exit(3);
    if ((unsigned long)sum != compute(7, 20)) _exit(4);
    _exit(0);
  }
  check_exited(child, 0);
  return (void *)expected;
}

int main(void) {
  on_signal(SIGALRM, on_alarm, SA_RESTART);
  unsigned long expected[5];
  for (int i = 0; i < 5; i++) expected[i] = compute((unsigned)i, i < 3 ? 20 : 5);
  for (int phase = 0; phase < 4; phase++) {
    if (phase & 1) {
      struct itimerval often = {{0, 4000}, {0, 4000}};
      CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
    }
    pthread_t threads[5];
    for (long i = 0; i < 5; i++) {
      void *(*what)(void *) = i < 3 ? body : i == 3 ? with_library : with_child;
      CHECK(pthread_create(&threads[i], NULL, what, (void *)i) == 0);
    }
    for (int i = 0; i < 5; i++) {
      void *sum;
      CHECK(pthread_join(threads[i], &sum) == 0);
      CHECK((unsigned long)sum == expected[i]);
    }
    struct itimerval never = {0};
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    // Alone, with calls that stop.
    for (int i = 0; i < 8; i++) {
      CHECK(compute(1, 20) == expected[1]);
      void *page = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      CHECK(page != MAP_FAILED && munmap(page, PAGE) == 0);
    }
  }
  printf("%d alarms\n", (int)alarms);
  return guest_ok();
}
