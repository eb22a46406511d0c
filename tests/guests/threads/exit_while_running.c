// exit_group while three threads block in read, futex and nanosleep: the process ends at once.
#include "../guest.h"

static int never[2], ready[2];

static void *reads(void *arg) {
  (void)arg;
  char c;
  CHECK(write(ready[1], "1", 1) == 1);
  return (void *)read(never[0], &c, 1);
}

static void *waits(void *arg) {
  (void)arg;
  static int word;
  CHECK(write(ready[1], "2", 1) == 1);
  for (;;) futex(&word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
}

static void *sleeps(void *arg) {
  (void)arg;
  CHECK(write(ready[1], "3", 1) == 1);
  for (;;) sleep(1000);
}

int main(void) {
  CHECK(pipe(never) == 0);
  pid_t child = fork();
  if (child == 0) {
    CHECK(pipe(ready) == 0);
    start_thread(reads, NULL), start_thread(waits, NULL), start_thread(sleeps, NULL);
    char c;
    for (int i = 0; i < 3; i++) CHECK(read(ready[0], &c, 1) == 1);
    sched_yield();
    exit(9);
  }
  check_exited(child, 9);
  CHECK(pipe(ready) == 0);
  start_thread(reads, NULL), start_thread(waits, NULL), start_thread(sleeps, NULL);
  char c;
  for (int i = 0; i < 3; i++) CHECK(read(ready[0], &c, 1) == 1);
  printf("leaving three behind, child was %d\n", child);
  return guest_ok();
}
