// cflags: -m32
// needs: /usr/lib32/crt1.o
// Semaphores, queues and shared memory of System V.
#include "../guest.h"
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>

union semun {
  int val;
  struct semid_ds *buf;
  unsigned short *array;
};

static void semaphores(void) {
  int id = semget(IPC_PRIVATE, 3, 0600);
  CHECK(id >= 0);
  unsigned short values[] = {1, 2, 3}, got[3];
  CHECK(semctl(id, 0, SETALL, (union semun){.array = values}) == 0);
  CHECK(semctl(id, 1, SETVAL, (union semun){.val = 9}) == 0);
  CHECK(semctl(id, 0, GETALL, (union semun){.array = got}) == 0 && got[0] == 1 && got[1] == 9 && got[2] == 3);
  struct semid_ds state;
  CHECK(semctl(id, 0, IPC_STAT, (union semun){.buf = &state}) == 0);
  CHECK(state.sem_nsems == 3 && (state.sem_perm.mode & 0777) == 0600 && state.sem_perm.uid == getuid());
  state.sem_perm.mode = 0640;
  CHECK(semctl(id, 0, IPC_SET, (union semun){.buf = &state}) == 0);
  struct sembuf down = {0, -2, 0}, up = {0, 1, 0};
  CHECK_ERRNO(semtimedop(id, &down, 1, &(struct timespec){0, 10000000}), EAGAIN);
  pid_t child = fork();
  if (child == 0) {
    sleep_ms(20);
    CHECK(semop(id, &up, 1) == 0);
    _exit(0);
  }
  CHECK(semop(id, &down, 1) == 0 && semctl(id, 0, GETVAL) == 0);
  check_exited(child, 0);
  CHECK(semctl(id, 0, IPC_RMID) == 0);
}

static void queues(void) {
  int id = msgget(IPC_PRIVATE, 0600);
  CHECK(id >= 0);
  struct {
    long kind;
    char text[20];
  } message = {7, "a message"}, got;
  CHECK(msgsnd(id, &message, 10, 0) == 0);
  message.kind = 3;
  CHECK(msgsnd(id, &message, 5, 0) == 0);
  struct msqid_ds state;
  CHECK(msgctl(id, IPC_STAT, &state) == 0 && state.msg_qnum == 2 && state.msg_lspid == getpid());
  CHECK(msgrcv(id, &got, sizeof got.text, -5, 0) == 5 && got.kind == 3);
  CHECK(msgrcv(id, &got, sizeof got.text, 0, 0) == 10 && got.kind == 7 && strcmp(got.text, "a message") == 0);
  CHECK_ERRNO(msgrcv(id, &got, sizeof got.text, 0, IPC_NOWAIT), ENOMSG);
  CHECK(msgctl(id, IPC_RMID, NULL) == 0);
}

static void memory(void) {
  int id = shmget(IPC_PRIVATE, 10000, 0600);
  CHECK(id >= 0);
  char *area = shmat(id, NULL, 0);
  CHECK(area != (void *)-1);
  struct shmid_ds state;
  CHECK(shmctl(id, IPC_STAT, &state) == 0 && state.shm_segsz == 10000 && state.shm_nattch == 1);
  CHECK(state.shm_cpid == getpid());
  pid_t child = fork();
  if (child == 0) {
    strcpy(area, "from the child");
    CHECK(shmdt(area) == 0);
    _exit(0);
  }
  check_exited(child, 0);
  CHECK(strcmp(area, "from the child") == 0);
  char *second = shmat(id, NULL, SHM_RDONLY);
  CHECK(second != (void *)-1 && second != area && strcmp(second, area) == 0);
  CHECK(shmdt(area) == 0 && shmdt(second) == 0 && shmctl(id, IPC_RMID, NULL) == 0);
}

int main(void) {
  semaphores();
  queues();
  memory();
  puts("System V");
  return guest_ok();
}
