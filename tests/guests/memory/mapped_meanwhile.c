// Two processes, which share other memory, map a file of memory shared, and unmap it, again and again, each in a thread of its own, while other threads of theirs make
// calls: what the one's call is about to map may be there already at an event of another thread's.
#include "../guest.h"

enum { ROUNDS = 150 };

static volatile int is_over;
static int fd;
static volatile int *shared;

static void *maps(void *arg) {
  for (int i = 0; i < ROUNDS; i++) {
    char *at = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(at != MAP_FAILED);
    at[i]++;
    CHECK(munmap(at, 2 * PAGE) == 0);
  }
  is_over = 1;
  return arg;
}

static void calls_meanwhile(void) {
  pthread_t thread = start_thread(maps, NULL);
  while (!is_over) {
    ++*shared;
    CHECK(kill(getpid(), 0) == 0);
    sleep_ms(0);
  }
  join_thread(thread);
}

int main(void) {
  CHECK((fd = memfd_create("file", 0)) >= 0 && ftruncate(fd, 2 * PAGE) == 0);
  shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(shared != MAP_FAILED);
  pid_t pid = fork();
  CHECK(pid >= 0);
  calls_meanwhile();
  if (pid == 0) _exit(0);
  check_exited(pid, 0);
  printf("%d\n", *shared);
  return guest_ok();
}
