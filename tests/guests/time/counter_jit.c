// rdtsc in code that the program makes: in memory that was writable and executable from the start, in memory that
// becomes executable, in a file that it writes and maps, in a shared mapping, and after a MAP_FIXED over older code. Before, in
// between and afterwards the program's own rdtsc and the clock, from two threads.
#include "counter.h"

typedef uint64_t read_fn(void);

// rdtsc; shl $32, %rdx; or %rdx, %rax; ret
static const unsigned char CODE[] = {0x0f, 0x31, 0x48, 0xc1, 0xe2, 0x20, 0x48, 0x09, 0xd0, 0xc3};

static uint64_t mixed;
static volatile int stage;

static void use(read_fn *made) {
  uint64_t last = rdtsc();
  for (int i = 0; i < 20; i++) {
    uint64_t a = made(), b = rdtsc();
    int64_t t = now_ns();
    CHECK(last < a && a < b);
    last = b;
    mixed = (mixed ^ a ^ b ^ t) * 1099511628211ull;
  }
}

// Waits in the kernel while the other thread makes code, then reads the counter and runs that.
static void *beside(void *arg) {
  int *pipe_ends = arg;
  read_often(10);
  char byte;
  CHECK(read(pipe_ends[0], &byte, 1) == 1);
  for (int i = 0; i < 10; i++) use(*(read_fn **)(pipe_ends + 2));
  return NULL;
}

int main(void) {
  mixed = read_often(1000);
  struct {
    int ends[2];
    read_fn *made;
  } shared;
  CHECK(pipe(shared.ends) == 0);
  pthread_t thread = start_thread(beside, &shared);
  sleep_ms(5);

  unsigned char *rwx = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(rwx != MAP_FAILED);
  memcpy(rwx + 100, CODE, sizeof CODE);
  shared.made = (read_fn *)(rwx + 100);
  CHECK(write(shared.ends[1], "x", 1) == 1);
  use((read_fn *)(rwx + 100));
  join_thread(thread);

  unsigned char *later = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(later != MAP_FAILED);
  memcpy(later, CODE, sizeof CODE);
  CHECK(mprotect(later, PAGE, PROT_READ | PROT_EXEC) == 0);
  use((read_fn *)later);

  make_file("code", CODE, sizeof CODE);
  int fd = open("code", O_RDONLY);
  CHECK(fd >= 0);
  void *file = mmap(later, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, 0);
  CHECK(file == later);
  use(file);
  CHECK(close(fd) == 0);

  unsigned char *both = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(both != MAP_FAILED);
  memcpy(both, CODE, sizeof CODE);
  CHECK(mprotect(both, PAGE, PROT_READ | PROT_EXEC) == 0);
  use((read_fn *)both);
  printf("mixed %lx, then %lx\n", mixed, read_often(100));
  return guest_ok();
}
