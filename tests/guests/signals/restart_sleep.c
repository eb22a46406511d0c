// nanosleep with a signal: EINTR and the rest; a sleep over a stop and continue is restarted by the kernel.
#include "../guest.h"

static volatile int caught;
static void handler(int sig) { (void)sig, caught++; }

int main(void) {
  on_signal(SIGUSR1, handler, SA_RESTART);
  pid_t me = getpid(), p = fork();
  if (p == 0) {
    sleep_ms(20);
    kill(me, SIGUSR1);
    _exit(0);
  }
  // Long enough for the child to send it meanwhile, however late a busy machine lets it run.
  struct timespec t = {30, 0}, rest = {0, 0};
  CHECK_ERRNO(nanosleep(&t, &rest), EINTR);
  CHECK(caught == 1 && rest.tv_sec < 30 && rest.tv_sec + rest.tv_nsec > 0);
  check_exited(p, 0);
  // SIGSTOP and SIGCONT, no handler: restart_syscall.
  int tell[2];
  CHECK(pipe(tell) == 0);
  p = fork();
  if (p == 0) {
    // Long enough for the parent to stop it meanwhile: chaos may keep that from running for a good tenth of a second.
    struct timespec s = {0, 400000000};
    int64_t began = now_ns();
    CHECK(write(tell[1], "s", 1) == 1);
    CHECK(nanosleep(&s, NULL) == 0);
    CHECK(now_ns() - began >= 400000000);
    _exit(6);
  }
  char c;
  CHECK(read(tell[0], &c, 1) == 1);
  sleep_ms(10);
  CHECK(kill(p, SIGSTOP) == 0);
  int status;
  CHECK(waitpid(p, &status, WUNTRACED) == p && WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
  CHECK(kill(p, SIGCONT) == 0);
  CHECK(waitpid(p, &status, WCONTINUED) == p && WIFCONTINUED(status));
  check_exited(p, 6);
  printf("%ld.%09ld s were left\n", rest.tv_sec, rest.tv_nsec);
  return guest_ok();
}
