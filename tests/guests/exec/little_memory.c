// Programs are executed with little more address space (ulimit -v) than they begin with: each does what it does
// without bis, and one that has not even that ends alone.
// cflags: -static
#include "../guest.h"
#include <sys/resource.h>

enum { MIB = 1 << 20 };

static void *count(void *arg) { return (void *)((intptr_t)arg + 1); }

// Executed with this much: half of it can be had, and given back, and what is usual works.
static int use_it(rlim_t limit) {
  void *half = mmap(NULL, limit / 2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (half == MAP_FAILED) return 6;
  memset(half, 1, MIB);
  CHECK(munmap(half, limit / 2) == 0);
  CHECK(mmap(NULL, limit, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED && errno == ENOMEM);
  int pipe_fds[2];
  CHECK(pipe(pipe_fds) == 0);
  pid_t pid = fork();
  if (pid == 0) _exit(write(pipe_fds[1], "x", 1) == 1 ? 7 : 8);
  char got;
  CHECK(read(pipe_fds[0], &got, 1) == 1 && got == 'x');
  check_exited(pid, 7);
  void *result;
  pthread_attr_t small;
  pthread_t thread;
  CHECK(pthread_attr_init(&small) == 0 && pthread_attr_setstacksize(&small, 64 << 10) == 0);
  CHECK(pthread_create(&thread, &small, count, (void *)4) == 0);
  CHECK(pthread_join(thread, &result) == 0 && (intptr_t)result == 5);
  for (int i = 0; i < 100; i++) CHECK(getppid() > 0 && now_ns() > 0);
  return 5;
}

// A process that has more than its soft limit forks, and its child, too.
static void fork_over_limit(void) {
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_AS, &limit) == 0);
    limit.rlim_cur = 64 << 10;
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      struct rlimit own;
      CHECK(getrlimit(RLIMIT_AS, &own) == 0 && own.rlim_cur == limit.rlim_cur && own.rlim_max == limit.rlim_max);
      CHECK(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED && errno == ENOMEM);
      for (int i = 0; i < 100; i++) CHECK(getppid() > 0 && now_ns() > 0);
      pid_t last = fork();
      if (last == 0) _exit(getppid() > 0 ? 4 : 5);
      check_exited(last, 4);
      _exit(3);
    }
    check_exited(child, 3);
    _exit(2);
  }
  check_exited(pid, 2);
}

static int executed_with(const char *self, rlim_t limit) {
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    const struct rlimit both = {limit, limit};
    CHECK(setrlimit(RLIMIT_AS, &both) == 0);
    char number[32];
    snprintf(number, sizeof number, "%llu", (unsigned long long)limit);
    execv(self, (char *[]){(char *)self, number, NULL});
    _exit(9);
  }
  int status;
  CHECK(waitpid(pid, &status, 0) == pid);
  return status;
}

int main(int argc, char **argv) {
  if (argc > 1) return use_it(strtoull(argv[1], NULL, 10));
  // Less than it needs to be executed, by a page each: it is not, or is killed, or fails, as the kernel has it.
  int last = 0;
  for (rlim_t limit = 256 << 10; limit <= 2 * MIB; limit += 4096) {
    int status = executed_with(argv[0], limit);
    if (status != last) printf("%llu KiB: status %x\n", (unsigned long long)limit >> 10, status);
    last = status;
    if (WIFEXITED(status) && WEXITSTATUS(status) != 9) break;
  }
  fork_over_limit();
  static const int enough[] = {6, 8, 12, 24, 48, 96, 192};
  for (size_t i = 0; i < sizeof enough / sizeof *enough; i++) {
    int status = executed_with(argv[0], (rlim_t)enough[i] * MIB);
    printf("%d MiB: status %x\n", enough[i], status);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 5);
  }
  return guest_ok();
}
