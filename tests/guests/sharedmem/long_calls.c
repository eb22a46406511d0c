// A process that shares memory makes one call after the other, each of which keeps the kernel busy for long, until the
// other process says in that memory that it is enough: each turn ends, whatever it is made of.
#include "../guest.h"

// The pages are there after the first time. From then on the kernel only looks at each of them, for tens of milliseconds.
enum { LEN = 128 << 20 };

static void *allocate(void *stop) {
  int fd = memfd_create("pages", 0), rounds = 0;
  do {
    CHECK(fallocate(fd, 0, 0, LEN) == 0);
    rounds++;
  } while (!__atomic_load_n((int *)stop, __ATOMIC_SEQ_CST));
  printf("%d rounds\n", rounds);
  CHECK(close(fd) == 0);
  return NULL;
}

int main(void) {
  int *stop = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(stop != MAP_FAILED);
  pid_t child = fork();
  if (child == 0) {
    allocate(stop);
    _exit(0);
  }
  sleep_ms(400);
  __atomic_store_n(stop, 1, __ATOMIC_SEQ_CST);
  check_exited(child, 0);
  // The same with two threads.
  *stop = 0;
  pthread_t thread = start_thread(allocate, stop);
  sleep_ms(400);
  __atomic_store_n(stop, 1, __ATOMIC_SEQ_CST);
  join_thread(thread);
  return guest_ok();
}
