// System V message queues and semaphores between processes and threads: waiting receives, operations on several
// semaphores at once, timeouts, undo, and the control calls.
#include "../guest.h"
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>

struct message {
  long type;
  char text[40];
};

static int q, s;

static void *receiver(void *arg) {
  struct message *m = arg;
  CHECK(msgrcv(q, m, 40, 7, 0) == 6);
  return NULL;
}

static int op(int which, int by, int flags) {
  struct sembuf b = {(unsigned short)which, (short)by, (short)flags};
  return semop(s, &b, 1);
}

int main(void) {
  CHECK((q = msgget(IPC_PRIVATE, 0600)) >= 0 && (s = semget(IPC_PRIVATE, 3, 0600)) >= 0);
  struct message m = {1, "one"}, got[2] = {{0}, {0}};
  CHECK(msgsnd(q, &m, 4, 0) == 0);
  CHECK_ERRNO(msgrcv(q, got, 40, 5, IPC_NOWAIT), ENOMSG);
  CHECK_ERRNO(msgrcv(q, got, 2, 0, 0), E2BIG);
  CHECK(msgrcv(q, got, 2, 0, MSG_NOERROR) == 2 && got[0].type == 1 && memcmp(got[0].text, "on", 3) == 0);

  pthread_t t = start_thread(receiver, &got[1]);
  pid_t pid = fork();
  if (pid == 0) {
    sleep_ms(3);
    struct message a = {7, "seven"}, b;
    CHECK(msgsnd(q, &a, 6, 0) == 0);
    CHECK(msgrcv(q, &b, 40, 8, 0) == 6 && strcmp(b.text, "eight") == 0);
    CHECK(op(0, 1, 0) == 0);
    CHECK(op(1, -2, 0) == 0);
    CHECK(op(2, 1, SEM_UNDO) == 0);
    _exit(0);
  }
  join_thread(t);
  CHECK(got[1].type == 7 && strcmp(got[1].text, "seven") == 0);
  m = (struct message){8, "eight"};
  CHECK(msgsnd(q, &m, 6, 0) == 0);
  CHECK(op(0, -1, 0) == 0);
  struct sembuf both[2] = {{1, 2, 0}, {0, 3, 0}};
  CHECK(semop(s, both, 2) == 0);
  check_exited(pid, 0);
  unsigned short all[3] = {9, 9, 9};
  CHECK(semctl(s, 0, GETALL, all) == 0 && all[0] == 3 && all[1] == 0 && all[2] == 0);
  CHECK_ERRNO(op(1, -1, IPC_NOWAIT), EAGAIN);
  struct timespec soon = {0, 2000000};
  struct sembuf down = {1, -1, 0};
  CHECK_ERRNO(semtimedop(s, &down, 1, &soon), EAGAIN);
  all[2] = 5;
  CHECK(semctl(s, 0, SETALL, all) == 0 && semctl(s, 2, GETVAL) == 5 && semctl(s, 0, GETPID) == getpid());
  struct semid_ds sd;
  struct msqid_ds qd;
  CHECK(semctl(s, 0, IPC_STAT, &sd) == 0 && sd.sem_nsems == 3 && sd.sem_otime > 0);
  CHECK(msgctl(q, IPC_STAT, &qd) == 0 && qd.msg_qnum == 0 && qd.msg_lrpid == pid && qd.msg_lspid == getpid());

  // Whoever waits is told when it goes away.
  pid = fork();
  if (pid == 0) {
    // EINVAL: it was gone before we came.
    CHECK(op(1, -1, 0) == -1 && (errno == EIDRM || errno == EINVAL));
    CHECK(msgrcv(q, got, 40, 0, 0) == -1 && (errno == EIDRM || errno == EINVAL));
    _exit(0);
  }
  sleep_ms(3);
  CHECK(semctl(s, 0, IPC_RMID) == 0);
  sleep_ms(3);
  CHECK(msgctl(q, IPC_RMID, NULL) == 0);
  check_exited(pid, 0);
  printf("queue %d, semaphores %d, %ld\n", q, s, (long)sd.sem_otime);
  return guest_ok();
}
