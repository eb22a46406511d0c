// What every guest shares: CHECK, exit helpers, and small wrappers for calls that libc does not have.
//
// A guest is a program that knows what the kernel promises and checks it. It prints what it observed (pids,
// times and addresses included: they differ from run to run, so they prove that a replay shows the recorded
// run), and ends with the line "guest ok". It uses nothing but its current folder, which is fresh and empty.
#ifndef GUEST_H
#define GUEST_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096

#define CHECK(cond)                                                                                        \
  do {                                                                                                     \
    if (!(cond)) {                                                                                         \
      int check_errno = errno;                                                                             \
      fprintf(stderr, "%s:%d: check failed: %s (errno %d: %s)\n", __FILE__, __LINE__, #cond, check_errno, \
              strerror(check_errno));                                                                      \
      fflush(NULL);                                                                                        \
      _exit(1);                                                                                            \
    }                                                                                                      \
  } while (0)

// The call must fail with exactly this errno.
#define CHECK_ERRNO(call, expected)  \
  do {                               \
    errno = 0;                       \
    CHECK((call) == -1);             \
    CHECK(errno == (expected));      \
  } while (0)

// Line by line, so that a fork never inherits unwritten output and lines of several processes stay whole.
__attribute__((constructor)) static void guest_begin(void) { setvbuf(stdout, NULL, _IOLBF, 0); }

static inline bool is_all(const char *at, size_t len, char c) {
  for (size_t i = 0; i < len; i++)
    if (at[i] != c) return false;
  return true;
}

static inline int guest_ok(void) {
  puts("guest ok");
  fflush(stdout);
  return 0;
}

// Waits for the child and checks that it exited with `code`.
static inline void check_exited(pid_t pid, int code) {
  int status = -1;
  pid_t got;
  do got = waitpid(pid, &status, 0);
  while (got == -1 && errno == EINTR);
  if (got != pid || !WIFEXITED(status) || WEXITSTATUS(status) != code)
    fprintf(stderr, "child %d: waitpid gave %d, status %#x, wanted exit %d\n", pid, got, status, code);
  CHECK(got == pid && WIFEXITED(status) && WEXITSTATUS(status) == code);
}

// Waits for the child and checks that signal `sig` killed it.
static inline void check_killed(pid_t pid, int sig) {
  int status = -1;
  pid_t got;
  do got = waitpid(pid, &status, 0);
  while (got == -1 && errno == EINTR);
  if (got != pid || !WIFSIGNALED(status) || WTERMSIG(status) != sig)
    fprintf(stderr, "child %d: waitpid gave %d, status %#x, wanted signal %d\n", pid, got, status, sig);
  CHECK(got == pid && WIFSIGNALED(status) && WTERMSIG(status) == sig);
}

static inline void on_signal(int sig, void (*handler)(int), int flags) {
  struct sigaction sa = {.sa_handler = handler, .sa_flags = flags};
  CHECK(sigaction(sig, &sa, NULL) == 0);
}

static inline void on_siginfo(int sig, void (*handler)(int, siginfo_t *, void *), int flags) {
  struct sigaction sa = {.sa_sigaction = handler, .sa_flags = flags | SA_SIGINFO};
  CHECK(sigaction(sig, &sa, NULL) == 0);
}

static inline int64_t now_ns(void) {
  struct timespec t;
  CHECK(clock_gettime(CLOCK_MONOTONIC, &t) == 0);
  return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static inline void sleep_ms(int ms) {
  struct timespec t = {ms / 1000, ms % 1000 * 1000000l};
  while (nanosleep(&t, &t) == -1) CHECK(errno == EINTR);
}

static inline pid_t tid_self(void) { return (pid_t)syscall(SYS_gettid); }

// The threads of a process, its first one first, but not more than `max`: how many there are. (A thread's number says nothing of its
// process's: numbers begin anew where they come to their end.)
static inline int threads_of(pid_t pid, pid_t *tids, int max) {
  char path[64];
  sprintf(path, "/proc/%d/task", pid);
  DIR *folder = opendir(path);
  if (!folder) return 0;
  int count = 0;
  for (struct dirent *entry; count < max && (entry = readdir(folder));)
    if (entry->d_name[0] != '.') tids[count++] = (pid_t)atoi(entry->d_name);
  closedir(folder);
  return count;
}

static inline long futex(void *word, int op, uint32_t val, const struct timespec *timeout, void *word2, uint32_t val3) {
  return syscall(SYS_futex, word, op, val, timeout, word2, val3);
}

static inline pthread_t start_thread(void *(*body)(void *), void *arg) {
  pthread_t t;
  CHECK(pthread_create(&t, NULL, body, arg) == 0);
  return t;
}

static inline void *join_thread(pthread_t t) {
  void *result;
  CHECK(pthread_join(t, &result) == 0);
  return result;
}

// Writes the whole of `data` to a new file.
static inline void make_file(const char *path, const void *data, size_t len) {
  int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0644);
  CHECK(fd >= 0);
  CHECK(write(fd, data, len) == (ssize_t)len);
  CHECK(close(fd) == 0);
}

// A checksum that shows every byte of a buffer in one printed number (FNV-1a).
static inline uint64_t digest(const void *data, size_t len) {
  uint64_t h = 14695981039346656037ull;
  const unsigned char *p = data;
  for (size_t i = 0; i < len; i++) h = (h ^ p[i]) * 1099511628211ull;
  return h;
}
#endif
