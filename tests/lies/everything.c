// A little of everything that comes to an event: calls that are traced, and calls that are not, signals of both kinds, threads
// that are stopped in their computation (unless there is an argument), instructions that trap, a child. Replay is told lies of each
// (crates/bis/tests/lies.rs).
#include "../guests/guest.h"
#include <setjmp.h>
#include <stdatomic.h>
#include <sys/time.h>
#include <x86intrin.h>

static atomic_int turn;
static volatile sig_atomic_t alarms;
static volatile unsigned long count, spins[2];
static sigjmp_buf back;

static void on_alarm(int sig) {
  (void)sig;
  alarms++;
}

static void on_fault(int sig) { siglongjmp(back, sig); }

// No call tells whose turn it is.
static void *take_turns(void *arg) {
  int me = (int)(intptr_t)arg;
  for (int i = 0; i < 4; i++) {
    // In a register, so that one round more or less is seen.
    unsigned long n = 0;
    while (atomic_load(&turn) % 2 != me) n++;
    spins[me] += n;
    atomic_fetch_add(&turn, 1);
  }
  return arg;
}

static void *wait_for_it(void *fd) {
  char c;
  CHECK(read((int)(intptr_t)fd, &c, 1) == 0);
  return fd;
}

// While there are several threads.
static void compute(void) {
  int fds[2];
  CHECK(pipe(fds) == 0);
  pthread_t waits = start_thread(wait_for_it, (void *)(intptr_t)fds[0]), threads[2];
  for (intptr_t i = 0; i < 2; i++) threads[i] = start_thread(take_turns, (void *)i);
  for (int i = 0; i < 2; i++) join_thread(threads[i]);
  struct itimerval on = {{0, 2000}, {0, 2000}}, off = {0};
  on_signal(SIGALRM, on_alarm, SA_RESTART);
  CHECK(setitimer(ITIMER_REAL, &on, NULL) == 0);
  // In a register, too.
  unsigned long n = 0;
  while (alarms < 5) n++;
  count = n;
  CHECK(setitimer(ITIMER_REAL, &off, NULL) == 0 && alarms >= 5);
  CHECK(close(fds[1]) == 0);
  join_thread(waits);
}

int main(int argc, char **argv) {
  (void)argv;
  char word[16] = "";
  int fd = open("/dev/zero", O_RDONLY);
  CHECK(fd >= 0 && read(fd, word, sizeof word) == sizeof word && getppid() > 0);
  CHECK(pread(fd, word, sizeof word, 0) == sizeof word && close(fd) == 0);

  // Traced: what changes the address space.
  char *page = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(page != MAP_FAILED);
  on_signal(SIGSEGV, on_fault, 0);
  if (sigsetjmp(back, 1) == 0) *(volatile char *)page = 1;
  CHECK(munmap(page, PAGE) == 0);

  if (argc == 1) compute();
  printf("%d\n", __rdtsc() > 0);

  on_signal(SIGUSR1, on_alarm, 0);
  CHECK(raise(SIGUSR1) == 0 && alarms > 0);
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) _exit(3);
  int status;
  CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 3);
  puts("all of it");
  return guest_ok();
}
