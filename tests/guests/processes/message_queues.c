// POSIX message queues: priorities, waiting, timeouts, attributes, and the signal when a message comes.
#include "../guest.h"
#include <mqueue.h>

static volatile sig_atomic_t notified;

static void on_message(int sig, siginfo_t *info, void *context) {
  (void)context;
  CHECK(info->si_code == SI_MESGQ && info->si_value.sival_int == 42);
  notified = sig;
}

int main(void) {
  char name[40], buf[64];
  snprintf(name, sizeof name, "/bis-guest-%d", getpid());
  struct mq_attr attr = {.mq_maxmsg = 4, .mq_msgsize = 64}, now;
  mqd_t q = mq_open(name, O_CREAT | O_EXCL | O_RDWR, 0600, &attr);
  if (q == (mqd_t)-1) {
    // A kernel or container without them.
    CHECK(errno == ENOSYS || errno == EACCES || errno == EPERM);
    return guest_ok();
  }
  unsigned prio = 99;
  CHECK(mq_send(q, "low", 4, 1) == 0 && mq_send(q, "high", 5, 9) == 0);
  CHECK(mq_getattr(q, &now) == 0 && now.mq_curmsgs == 2 && now.mq_maxmsg == 4 && now.mq_msgsize == 64);
  CHECK(mq_receive(q, buf, 64, &prio) == 5 && prio == 9 && strcmp(buf, "high") == 0);
  CHECK(mq_receive(q, buf, 64, NULL) == 4 && strcmp(buf, "low") == 0);
  CHECK_ERRNO(mq_receive(q, buf, 8, NULL), EMSGSIZE);
  struct timespec soon;
  CHECK(clock_gettime(CLOCK_REALTIME, &soon) == 0);
  soon.tv_nsec += 3000000;
  if (soon.tv_nsec >= 1000000000) soon.tv_sec++, soon.tv_nsec -= 1000000000;
  CHECK_ERRNO(mq_timedreceive(q, buf, 64, NULL, &soon), ETIMEDOUT);

  pid_t pid = fork();
  if (pid == 0) {
    for (int i = 0; i < 10; i++) {
      snprintf(buf, sizeof buf, "message %d", i);
      CHECK(mq_send(q, buf, strlen(buf) + 1, 3) == 0);
    }
    _exit(0);
  }
  for (int i = 0; i < 10; i++) {
    char want[64];
    snprintf(want, sizeof want, "message %d", i);
    CHECK(mq_receive(q, buf, 64, &prio) == (ssize_t)strlen(want) + 1 && prio == 3 && strcmp(buf, want) == 0);
  }
  check_exited(pid, 0);

  on_siginfo(SIGUSR1, on_message, 0);
  struct sigevent e = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1, .sigev_value.sival_int = 42};
  CHECK(mq_notify(q, &e) == 0);
  pid = fork();
  if (pid == 0) _exit(mq_send(q, "wake", 5, 0) == 0 ? 0 : 1);
  while (!notified) sleep_ms(1);
  check_exited(pid, 0);
  struct mq_attr nonblock = {.mq_flags = O_NONBLOCK}, old = {.mq_flags = 1};
  CHECK(mq_setattr(q, &nonblock, &old) == 0 && old.mq_flags == 0);
  CHECK(mq_receive(q, buf, 64, &prio) == 5 && prio == 0);
  CHECK_ERRNO(mq_receive(q, buf, 64, &prio), EAGAIN);
  CHECK(mq_unlink(name) == 0 && mq_close(q) == 0);
  printf("%s %d %d\n", name, pid, (int)notified);
  return guest_ok();
}
