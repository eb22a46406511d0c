// pthread_kill and tgkill go to one thread; masks are per thread; a process signal finds the thread that may.
#include "../guest.h"

static __thread volatile int mine;
static int tell[2];
static volatile pid_t by_tid;

static void handler(int sig) {
  (void)sig;
  mine++;
  by_tid = tid_self();
  CHECK(write(tell[1], "h", 1) == 1);
}

static void *body(void *arg) {
  (void)arg;
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  CHECK(pthread_sigmask(SIG_UNBLOCK, &set, NULL) == 0);
  CHECK(write(tell[1], "r", 1) == 1);
  while (mine < 2) usleep(500);
  return (void *)(long)tid_self();
}

int main(void) {
  char c;
  CHECK(pipe(tell) == 0);
  on_signal(SIGUSR1, handler, 0);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
  pthread_t only = start_thread(body, NULL);
  CHECK(read(tell[0], &c, 1) == 1 && c == 'r');
  CHECK(kill(getpid(), SIGUSR1) == 0);  // only the thread has it unblocked
  CHECK(read(tell[0], &c, 1) == 1 && c == 'h');
  CHECK(by_tid != getpid());
  CHECK(pthread_kill(only, SIGUSR1) == 0);
  CHECK(read(tell[0], &c, 1) == 1 && c == 'h');
  pid_t t = (pid_t)(long)join_thread(only);
  CHECK(by_tid == t && mine == 0);
  CHECK(pthread_sigmask(SIG_UNBLOCK, &set, NULL) == 0);
  CHECK(syscall(SYS_tgkill, getpid(), tid_self(), SIGUSR1) == 0);
  CHECK(mine >= 1 && by_tid == getpid());
  // The kernel says that a thread is done with its stack shortly before it is gone.
  while (syscall(SYS_tgkill, getpid(), t, 0) == 0)
    sched_yield();
  CHECK(errno == ESRCH);
  printf("thread %d of %d had it\n", t, getpid());
  return guest_ok();
}
