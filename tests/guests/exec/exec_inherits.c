// steps:
// What exec keeps and what not: descriptors without CLOEXEC, ignored signals, mask, pending, umask, cwd; not handlers.
#include "../guest.h"

static void handler(int sig) { (void)sig; }

int main(int argc, char **argv) {
  struct sigaction sa;
  sigset_t set;
  if (argc > 1) {
    CHECK(fcntl(60, F_GETFD) == 0);
    CHECK_ERRNO(fcntl(61, F_GETFD), EBADF);
    CHECK(sigaction(SIGUSR1, NULL, &sa) == 0 && sa.sa_handler == SIG_DFL);
    CHECK(sigaction(SIGUSR2, NULL, &sa) == 0 && sa.sa_handler == SIG_IGN);
    CHECK(sigprocmask(SIG_BLOCK, NULL, &set) == 0 && sigismember(&set, SIGHUP) == 1);
    CHECK(sigpending(&set) == 0 && sigismember(&set, SIGHUP) == 1);
    CHECK(umask(0) == 031 && access("here", F_OK) == 0);
    stack_t st;
    CHECK(sigaltstack(NULL, &st) == 0 && st.ss_flags == SS_DISABLE);
    CHECK(lseek(60, 0, SEEK_CUR) == 3);
    return guest_ok();
  }
  make_file("here", "abcdef", 6);
  int fd = open("here", O_RDONLY);
  char buf[3];
  CHECK(read(fd, buf, 3) == 3);
  CHECK(dup2(fd, 60) == 60 && dup3(fd, 61, O_CLOEXEC) == 61);
  on_signal(SIGUSR1, handler, 0);
  signal(SIGUSR2, SIG_IGN);
  sigemptyset(&set), sigaddset(&set, SIGHUP);
  CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0 && raise(SIGHUP) == 0);
  umask(031);
  static char alt[1 << 15];
  CHECK(sigaltstack(&(stack_t){.ss_sp = alt, .ss_size = sizeof alt}, NULL) == 0);
  printf("%d\n", getpid());
  execl("/proc/self/exe", argv[0], "again", NULL);
  CHECK(!"exec came back");
}
