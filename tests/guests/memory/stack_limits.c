// How far stacks may grow, by limits that are not set by the process itself before it needs them: for a child, by
// its parent; by the number of a thread that is not the first; by a vfork's child, for itself alone; for memory that
// grows like a stack.
#include "../guest.h"
#include <setjmp.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

enum { MIB = 1 << 20 };
static char alternate[1 << 16];
static sigjmp_buf out;

static void on_fault(int signal) {
  (void)signal;
  siglongjmp(out, 1);
}

// Uses so many pieces of 64 KiB of the stack.
static void __attribute__((noinline)) use(long pieces) {
  char piece[(1 << 16) - 128];
  memset(piece, 1, sizeof piece);
  __asm__ volatile("" : : "r"(piece) : "memory");
  if (pieces > 1) use(pieces - 1);
  __asm__ volatile("" : : "r"(piece) : "memory");
}

// Is there room for so many MiB of stack?
static int has_room(int mib) {
  if (sigsetjmp(out, 1)) return 0;
  use(16L * mib);
  return 1;
}

static struct rlimit of_mib(rlim_t mib) {
  struct rlimit limit;
  CHECK(getrlimit(RLIMIT_STACK, &limit) == 0);
  limit.rlim_cur = mib * MIB;
  return limit;
}

// A child that waits until its parent has set its limit.
static int set_from_outside(rlim_t limit, int uses) {
  int pipes[2];
  CHECK(pipe(pipes) == 0);
  pid_t child = fork();
  if (child == 0) {
    char byte;
    CHECK(read(pipes[0], &byte, 1) == 1);
    int has = has_room(uses);
    getppid();
    _exit(has);
  }
  struct rlimit new = of_mib(limit);
  CHECK(prlimit(child, RLIMIT_STACK, &new, NULL) == 0);
  CHECK(write(pipes[1], "x", 1) == 1);
  int status;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
  close(pipes[0]);
  close(pipes[1]);
  return WEXITSTATUS(status);
}

static void *raise_own(void *arg) {
  struct rlimit new = of_mib(40);
  CHECK(prlimit((pid_t)syscall(SYS_gettid), RLIMIT_STACK, &new, NULL) == 0);
  return arg;
}

// How many MiB below the mapping can be used.
static int grows_by(rlim_t limit, char *volatile at, int most) {
  struct rlimit new = of_mib(limit);
  CHECK(setrlimit(RLIMIT_STACK, &new) == 0);
  volatile long page = 0;
  if (!sigsetjmp(out, 1))
    for (; page < most * 256L; page++) at[-4096 * page] = 1;
  return (int)(page / 256);
}

int main(void) {
  stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
  CHECK(sigaltstack(&stack, NULL) == 0);
  struct sigaction action = {.sa_handler = on_fault, .sa_flags = SA_ONSTACK | SA_NODEFER};
  CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
  struct rlimit limit = of_mib(8);
  CHECK(setrlimit(RLIMIT_STACK, &limit) == 0);

  // What lies in the room that the stack is to have no more stays.
  char *below = (char *)(((unsigned long)&limit & ~4095UL) - 6 * MIB);
  char *page = mmap(below, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  CHECK(page == below);
  strcpy(page, "here");
  struct rlimit low = of_mib(4);
  CHECK(setrlimit(RLIMIT_STACK, &low) == 0);
  getppid();
  CHECK(strcmp(page, "here") == 0 && munmap(page, 4096) == 0);
  CHECK(setrlimit(RLIMIT_STACK, &limit) == 0);

  CHECK(set_from_outside(32, 20) == 1);
  CHECK(set_from_outside(2, 5) == 0);

  pid_t child = vfork();
  if (child == 0) {
    struct rlimit low = {1 * MIB, limit.rlim_max};
    setrlimit(RLIMIT_STACK, &low);
    execl("/bin/true", "true", NULL);
    _exit(1);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
  CHECK(has_room(5));
  getppid();

  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, raise_own, NULL) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK(has_room(25));
  getppid();

  for (int i = 0; i < 2; i++) {
    char *at = mmap((void *)(0x200000000000 + ((long)i << 36)), 4096, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN | MAP_FIXED_NOREPLACE, -1, 0);
    CHECK(at != MAP_FAILED);
    int grown = grows_by(i == 0 ? 64 : 2, at, i == 0 ? 45 : 6);
    CHECK(i == 0 ? grown == 45 : grown <= 2);
    getppid();
  }
  puts("guest ok");
  return 0;
}
