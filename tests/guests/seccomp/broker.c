// A sandbox as browsers have it: threads may not open files; SIGSYS comes instead, and its handler asks a helper process
// over a socket, which opens the file and sends its descriptor. The handler's own calls, and its result, are the program's.
#include "filter.h"
#include <sys/socket.h>
#include <sys/uio.h>

enum { THREADS = 4, FILES = 12 };
static int helper = -1;
static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
static volatile int asked;

static void send_fd(int to, int fd, int error) {
  char room[CMSG_SPACE(sizeof fd)] = {0};
  struct iovec v = {&error, sizeof error};
  struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
  if (fd >= 0) {
    m.msg_control = room, m.msg_controllen = sizeof room;
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET, c->cmsg_type = SCM_RIGHTS, c->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
  }
  CHECK(sendmsg(to, &m, 0) == sizeof error);
}

static int receive_fd(int from) {
  int error, fd;
  char room[CMSG_SPACE(sizeof fd)];
  struct iovec v = {&error, sizeof error};
  struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
  CHECK(recvmsg(from, &m, 0) == sizeof error);
  if (error) return -error;
  memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof fd);
  return fd;
}

static void serve(int from) {
  char name[64];
  while (read(from, name, sizeof name) == sizeof name) {
    int fd = open(name, O_RDONLY);
    send_fd(from, fd, fd < 0 ? errno : 0);
    if (fd >= 0) CHECK(close(fd) == 0);
  }
  _exit(3);
}

static void on_sys(int sig, siginfo_t *info, void *context) {
  (void)sig;
  greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
  int saved = errno;
  CHECK(info->si_syscall == SYS_openat && info->si_errno == 7);
  char name[64] = {0};
  strncpy(name, (const char *)regs[REG_RSI], sizeof name - 1);
  CHECK(pthread_mutex_lock(&one) == 0);
  CHECK(write(helper, name, sizeof name) == sizeof name);
  regs[REG_RAX] = receive_fd(helper);
  asked++;
  CHECK(pthread_mutex_unlock(&one) == 0);
  errno = saved;
}

static void *opens(void *arg) {
  uint64_t *sum = arg;
  for (int i = 0; i < FILES; i++) {
    char name[32], text[64];
    snprintf(name, sizeof name, "file%d", i);
    int fd = open(name, O_RDONLY);
    if (i % 4 == 3) {
      CHECK(fd == -1 && errno == ENOENT);
      continue;
    }
    CHECK(fd >= 0);
    ssize_t n = read(fd, text, sizeof text);
    CHECK(n > 0 && close(fd) == 0);
    *sum += digest(text, n) + getpid();
    sched_yield();
  }
  return arg;
}

int main(void) {
  int pair[2];
  for (int i = 0; i < FILES; i++) {
    char name[32], text[32];
    snprintf(name, sizeof name, "file%d", i);
    int n = snprintf(text, sizeof text, "text %d\n", i * i);
    if (i % 4 != 3) make_file(name, text, n);
  }
  CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0);
  pid_t p = fork();
  if (p == 0) {
    close(pair[0]);
    serve(pair[1]);
  }
  CHECK(close(pair[1]) == 0);
  helper = pair[0];
  on_siginfo(SIGSYS, on_sys, SA_NODEFER);
  give_up_privileges();
  struct sock_filter no_files[] = ONE(SYS_openat, SECCOMP_RET_TRAP | 7);
  uint64_t sums[THREADS] = {0};
  pthread_t t[THREADS];
  CHECK(INSTALL(no_files, SECCOMP_FILTER_FLAG_TSYNC) == 0);
  for (int i = 0; i < THREADS; i++) t[i] = start_thread(opens, &sums[i]);
  for (int i = 0; i < THREADS; i++) join_thread(t[i]);
  for (int i = 1; i < THREADS; i++) CHECK(sums[i] == sums[0]);
  CHECK(asked >= THREADS * FILES);
  CHECK(close(helper) == 0);
  check_exited(p, 3);
  printf("%lx\n", sums[0]);
  return guest_ok();
}
