// What the kernel keeps for each thread comes back for all of them, not only for the one that has made the checkpoint: its mask,
// its stack for handlers, what is cleared at its end, its list of robust futexes.
#include "checkpoints.h"
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>

#define THREADS 4

static int ready[2];
static int wakes[THREADS][2];
static char stacks[THREADS][2][1 << 16] __attribute__((aligned(4096)));
static volatile int *changes;
static volatile int has_changed[THREADS];
static int words[THREADS];
static struct { void *next; long offset; void *pending; } heads[THREADS][2];

static void set_stack(int number, int which) {
  stack_t stack = {.ss_sp = stacks[number][which], .ss_size = sizeof stacks[number][which]};
  CHECK(sigaltstack(&stack, NULL) == 0);
}

static void set_list(int number, int which) {
  heads[number][which].next = &heads[number][which];
  CHECK(syscall(SYS_set_robust_list, &heads[number][which], 24) == 0);
}

static void check(int number, int which) {
  stack_t stack;
  sigset_t mask;
  void *head;
  size_t len;
  CHECK(sigaltstack(NULL, &stack) == 0 && stack.ss_sp == stacks[number][which]);
  CHECK(pthread_sigmask(SIG_SETMASK, NULL, &mask) == 0 && sigismember(&mask, SIGUSR1) == !which);
  CHECK(sigismember(&mask, SIGUSR2) == which);
  CHECK(syscall(SYS_get_robust_list, 0, &head, &len) == 0 && head == &heads[number][which]);
}

// They wait in different calls: a read, a poll with a time, a sleep in pieces.
static void await(int number) {
  char byte;
  struct pollfd wait = {.fd = wakes[number][0], .events = POLLIN};
  if (number == 1) CHECK(poll(&wait, 1, 100000) == 1);
  if (number == 2) while (poll(&wait, 1, 0) == 0) usleep(20000);
  CHECK(read(wakes[number][0], &byte, 1) == 1);
}

static void *runs(void *arg) {
  int number = (int)(long)arg;
  sigset_t mask;
  CHECK(sigemptyset(&mask) == 0 && sigaddset(&mask, SIGUSR1) == 0);
  set_stack(number, 0);
  set_list(number, 0);
  CHECK(pthread_sigmask(SIG_SETMASK, &mask, NULL) == 0);
  CHECK(write(ready[1], "r", 1) == 1);
  await(number);
  check(number, 0);
  CHECK(sigemptyset(&mask) == 0 && sigaddset(&mask, SIGUSR2) == 0);
  CHECK(pthread_sigmask(SIG_SETMASK, &mask, NULL) == 0);
  set_stack(number, 1);
  set_list(number, 1);
  if (number == 3) syscall(SYS_set_tid_address, &words[number]);
  check(number, 1);
  has_changed[number] = 1;
  CHECK(write(ready[1], "r", 1) == 1);
  // One of them computes, the others wait again.
  if (number == 0) while (changes[0] < 3) usleep(1);
  await(number);
  return NULL;
}

static void all(void) {
  for (int i = 0; i < THREADS; i++) {
    char byte;
    CHECK(read(ready[0], &byte, 1) == 1);
  }
}

int main(void) {
  needs_bis();
  changes = stays();
  CHECK(pipe(ready) == 0);
  pthread_t threads[THREADS];
  for (long i = 0; i < THREADS; i++) {
    CHECK(pipe(wakes[i]) == 0);
    CHECK(pthread_create(&threads[i], NULL, runs, (void *)i) == 0);
  }
  all();
  usleep(30000);
  bis_handle handle;
  int times = bis_checkpoint(&handle);
  CHECK(times >= 0 && changes[0] == times);
  printf("%d\n", times);
  for (int i = 0; i < THREADS; i++) CHECK(!has_changed[i]);
  for (int i = 0; i < THREADS; i++) CHECK(write(wakes[i][1], "x", 1) == 1);
  all();
  changes[0]++;
  if (times < 2) CHECK(bis_rollback(handle, BIS_RETRY) == -1000);
  for (int i = 0; i < THREADS; i++) CHECK(write(wakes[i][1], "x", 1) == 1);
  // That of thread 3 has another word cleared at its end: joined, it would never be seen to end.
  for (int i = 0; i < THREADS - 1; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  CHECK(bis_discard(handle) == 0);
  return guest_ok();
}
