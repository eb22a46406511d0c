// A limit of the address space (RLIMIT_AS) is the program's own, whatever else is mapped in the process: exactly so
// much can be had, and it is seen as it was set; by an ordinary user, who cannot raise it again, over fork, vfork and
// exec, by another process, and where it is below what the process has.
#include "../guest.h"
#include <sys/prctl.h>
#include <sys/resource.h>

enum { MIB = 1 << 20 };

static rlim_t mapped(void) {
  char text[100];
  int fd = open("/proc/self/statm", O_RDONLY);
  ssize_t len = read(fd, text, sizeof text - 1);
  CHECK(len > 0 && close(fd) == 0);
  text[len] = 0;
  return strtoull(text, NULL, 10) * PAGE;
}

static struct rlimit seen(void) {
  struct rlimit by_getrlimit, by_prlimit;
  CHECK(syscall(SYS_getrlimit, RLIMIT_AS, &by_getrlimit) == 0 && prlimit(0, RLIMIT_AS, NULL, &by_prlimit) == 0);
  CHECK(by_getrlimit.rlim_cur == by_prlimit.rlim_cur && by_getrlimit.rlim_max == by_prlimit.rlim_max);
  char text[4000], line[100];
  int fd = open("/proc/self/limits", O_RDONLY);
  ssize_t len = read(fd, text, sizeof text - 1);
  CHECK(len > 0 && close(fd) == 0);
  text[len] = 0;
  if (by_prlimit.rlim_max != RLIM_INFINITY) {
    snprintf(line, sizeof line, "\nMax address space         %-20lu %-20lu bytes     \n", by_prlimit.rlim_cur,
             by_prlimit.rlim_max);
    CHECK(strstr(text, line));
  }
  return by_prlimit;
}

static int limit_to(rlim_t soft, rlim_t hard) { return syscall(SYS_setrlimit, RLIMIT_AS, &(struct rlimit){soft, hard}); }

static void *map(size_t len) { return mmap(NULL, len, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0); }

// So many bytes can be had, and none more.
static void check_left(size_t len) {
  void *all = map(len);
  CHECK(all != MAP_FAILED);
  CHECK(map(PAGE) == MAP_FAILED && errno == ENOMEM);
  CHECK(munmap(all, len) == 0);
}

static void check_limit(rlim_t soft, rlim_t hard) {
  struct rlimit limit = seen();
  CHECK(limit.rlim_cur == soft && limit.rlim_max == hard);
  check_left(soft - mapped());
}

static int pipe_fds[2];

static void *wait_for_byte(void *arg) {
  char got;
  CHECK(read(pipe_fds[0], &got, 1) == 1);
  return arg;
}

// A call that waits while another thread goes on.
static void wait_in_thread(void) {
  pthread_t thread;
  CHECK(pipe(pipe_fds) == 0 && pthread_create(&thread, NULL, wait_for_byte, NULL) == 0);
  usleep(5000);
  CHECK(write(pipe_fds[1], "x", 1) == 1 && pthread_join(thread, NULL) == 0);
}

static int live_above_limit(void) {
  CHECK(limit_to(MIB, MIB) == 0);
  CHECK(map(PAGE) == MAP_FAILED && errno == ENOMEM);
  for (int i = 0; i < 20; i++) CHECK(getppid() > 0 && now_ns() > 0);
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    struct rlimit limit = seen();
    CHECK(limit.rlim_cur == MIB && limit.rlim_max == MIB && map(PAGE) == MAP_FAILED);
    pid_t last = fork();
    CHECK(last >= 0);
    if (last == 0) _exit(getppid() > 0 ? 4 : 5);
    check_exited(last, 4);
    _exit(3);
  }
  check_exited(pid, 3);
  return 2;
}

static void executes(rlim_t limit) {
  char number[32];
  snprintf(number, sizeof number, "%lu", limit);
  execl("/proc/self/exe", "self", number, NULL);
}

static void limit_another(rlim_t soft, rlim_t hard) {
  CHECK(pipe(pipe_fds) == 0);
  pid_t pid = fork();
  if (pid == 0) {
    wait_for_byte(NULL);
    check_limit(soft - MIB, hard - MIB);
    _exit(6);
  }
  struct rlimit new = {soft - MIB, hard - MIB}, old;
  CHECK(prlimit(pid, RLIMIT_AS, &new, &old) == 0 && old.rlim_cur == soft && old.rlim_max == hard);
  CHECK(prlimit(pid, RLIMIT_AS, NULL, &old) == 0 && old.rlim_cur == soft - MIB && old.rlim_max == hard - MIB);
  CHECK(write(pipe_fds[1], "x", 1) == 1);
  check_exited(pid, 6);
}

int main(int argc, char **argv) {
  if (argc > 1) {
    rlim_t limit = strtoull(argv[1], NULL, 10);
    check_limit(limit, limit);
    wait_in_thread();
    check_limit(limit, limit);
    return live_above_limit() == 2 ? 7 : 8;
  }
  if (geteuid() == 0) CHECK(setresuid(54321, 54321, 54321) == 0 && prctl(PR_SET_DUMPABLE, 1) == 0);
  rlim_t soft = mapped() + 16 * MIB, hard = soft + 64 * MIB;
  CHECK(limit_to(soft, hard) == 0);
  check_limit(soft, hard);
  CHECK_ERRNO(limit_to(soft, hard + 1), EPERM);
  CHECK_ERRNO(limit_to(hard + 1, hard), EINVAL);
  CHECK_ERRNO(syscall(SYS_setrlimit, RLIMIT_AS, (void *)8), EFAULT);
  check_limit(soft, hard);
  CHECK(limit_to(hard, hard) == 0);
  check_limit(hard, hard);
  hard -= MIB;
  CHECK(limit_to(soft, hard) == 0);
  CHECK_ERRNO(limit_to(soft, hard + 1), EPERM);
  wait_in_thread();
  check_limit(soft, hard);
  CHECK(execl("/nowhere", "nowhere", NULL) == -1 && errno == ENOENT);
  check_limit(soft, hard);

  pid_t pid = fork();
  if (pid == 0) {
    check_limit(soft, hard);
    _exit(live_above_limit());
  }
  check_exited(pid, 2);
  limit_another(soft, hard);

  pid = vfork();
  if (pid == 0) {
    if (limit_to(24 * MIB, 24 * MIB) == 0) executes(24 * MIB);
    _exit(9);
  }
  check_exited(pid, 7);
  check_limit(soft, hard);
  pid = fork();
  if (pid == 0) {
    CHECK(limit_to(48 * MIB, 48 * MIB) == 0);
    executes(48 * MIB);
    _exit(9);
  }
  check_exited(pid, 7);
  return guest_ok();
}
