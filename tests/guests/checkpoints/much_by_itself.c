// A process puts much of its memory back by itself: of pages that it may write, that it may only read, that it may not
// touch at all; where it has no descriptor left; while signals come, and beside threads.
#define _GNU_SOURCE
#include "checkpoints.h"
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>

enum { PAGES = 6000, THREADS = 6 };

static unsigned char *memory;
static volatile sig_atomic_t ticks;

static void on_alarm(int signal) { ticks += signal == SIGALRM; }

static unsigned char expected(long page, long at, int version) { return page * 7 + at * 3 + version; }

// Some bytes of each page; all of each 50th one.
static void fill(int version) {
  for (long page = 0; page < PAGES; page++)
    for (long at = 0; at < PAGE; at += page % 50 == 0 ? 1 : 61) memory[page * PAGE + at] = expected(page, at, version);
}

static void check(int version) {
  for (long page = 0; page < PAGES; page++)
    for (long at = 0; at < PAGE; at += page % 50 == 0 ? 1 : 61)
      CHECK(memory[page * PAGE + at] == expected(page, at, version));
}

// How much is mapped and by how many mappings.
static long mapped(void) {
  FILE *maps = fopen("/proc/self/maps", "re");
  CHECK(maps != NULL);
  unsigned long long start, end;
  long sum = 0;
  while (fscanf(maps, "%llx-%llx%*[^\n]", &start, &end) == 2) sum += 1 + (end - start) / PAGE;
  fclose(maps);
  return sum;
}

static void *waits(void *stop) {
  char byte;
  CHECK(read(*(int *)stop, &byte, 1) == 0);
  return NULL;
}

// One way back, to what `fill(0)` has written.
static void back(bis_handle *handle, const char *how, void (*before)(void)) {
  static int *times;
  if (times == NULL) times = stays();
  fill(0);
  *times = 0;
  int result = bis_checkpoint(handle);
  CHECK(result == *times);
  if (result == 0) {
    fill(1);
    if (before != NULL) before();
    *times = 1;
    CHECK(bis_rollback(*handle, BIS_RETRY) == -1000);
  }
  check(0);
  CHECK(bis_discard(*handle) == 0);
  printf("%s\n", how);
}

static void protect(void) {
  CHECK(mprotect(memory + 3000 * PAGE, 500 * PAGE, PROT_READ) == 0);
  CHECK(mprotect(memory + 5000 * PAGE, 500 * PAGE, PROT_NONE) == 0);
}

static struct rlimit files;
static void use_all_descriptors(void) {
  CHECK(getrlimit(RLIMIT_NOFILE, &files) == 0);
  int next = dup(0);
  CHECK(next >= 0 && close(next) == 0);
  struct rlimit low = {next, files.rlim_max};
  CHECK(setrlimit(RLIMIT_NOFILE, &low) == 0);
}

int main(void) {
  needs_bis();
  memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(memory != MAP_FAILED && madvise(memory, PAGES * PAGE, MADV_NOHUGEPAGE) == 0);
  bis_handle handle;
  fill(0);
  back(&handle, "first", NULL);
  long before = mapped();
  back(&handle, "again", NULL);
  CHECK(mapped() == before);
  back(&handle, "protected since", protect);

  // What may only be read then and now is put back, too.
  volatile long shown = mapped();
  fill(0);
  CHECK(mprotect(memory + 4500 * PAGE, PAGE, PROT_READ) == 0);
  int *volatile times = stays();
  *times = 0;
  CHECK(bis_checkpoint(&handle) == *times);
  if (*times == 0) {
    CHECK(mprotect(memory + 4500 * PAGE, PAGE, PROT_READ | PROT_WRITE) == 0);
    fill(1);
    CHECK(mprotect(memory + 4500 * PAGE, PAGE, PROT_READ) == 0);
    *times = 1;
    bis_rollback(handle, BIS_RETRY);
  }
  check(0);
  CHECK(bis_discard(handle) == 0 && mprotect(memory + 4500 * PAGE, PAGE, PROT_READ | PROT_WRITE) == 0);
  CHECK(munmap(times, PAGE) == 0 && mapped() == shown);

  struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
  struct itimerval often = {{0, 2000}, {0, 2000}}, never = {{0, 0}, {0, 0}};
  CHECK(sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &often, NULL) == 0);
  back(&handle, "while signals come", NULL);
  CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);

  pthread_t threads[THREADS];
  int passage[2];
  CHECK(pipe(passage) == 0);
  for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, waits, &passage[0]) == 0);
  back(&handle, "with threads", NULL);
  CHECK(close(passage[1]) == 0);
  for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);

  back(&handle, "without a descriptor left", use_all_descriptors);
  CHECK(setrlimit(RLIMIT_NOFILE, &files) == 0);
  return guest_ok();
}
