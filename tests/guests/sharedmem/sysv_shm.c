// System V shared memory, semaphores and a message queue between two processes.
#include "../guest.h"
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>

static int sem;
static void sem_add(unsigned short n, short by) {
  struct sembuf op = {n, by, 0};
  while (semop(sem, &op, 1) == -1) CHECK(errno == EINTR);
}

int main(void) {
  int shm = shmget(IPC_PRIVATE, 3 * PAGE, IPC_CREAT | 0600);
  sem = semget(IPC_PRIVATE, 2, IPC_CREAT | 0600);
  int queue = msgget(IPC_PRIVATE, IPC_CREAT | 0600);
  if (shm == -1 || sem == -1 || queue == -1) {
    CHECK(errno == ENOSYS);
    puts("this kernel has no System V IPC");
    return guest_ok();
  }
  volatile int *m = shmat(shm, NULL, 0), *again = shmat(shm, NULL, SHM_RDONLY);
  CHECK(m != (void *)-1 && again != (void *)-1 && m != again);
  pid_t p = fork();
  if (p == 0) {
    volatile int *mine = shmat(shm, NULL, 0);
    for (int i = 0; i < 40; i++) {
      sem_add(0, -1);
      mine[1] += mine[0];
      sem_add(1, 1);
    }
    struct { long type; char text[8]; } msg = {5, "message"};
    CHECK(msgsnd(queue, &msg, 8, 0) == 0 && shmdt((void *)mine) == 0);
    _exit(0);
  }
  for (int i = 0; i < 40; i++) {
    m[0] = i;
    sem_add(0, 1);
    sem_add(1, -1);
    CHECK(again[1] == i * (i + 1) / 2);
  }
  struct { long type; char text[16]; } got;
  CHECK(msgrcv(queue, &got, 16, 0, 0) == 8 && got.type == 5 && strcmp(got.text, "message") == 0);
  check_exited(p, 0);
  struct shmid_ds ds;
  CHECK(shmctl(shm, IPC_STAT, &ds) == 0 && ds.shm_nattch == 2 && ds.shm_segsz == 3 * PAGE);
  CHECK(shmdt((void *)again) == 0 && shmctl(shm, IPC_RMID, NULL) == 0);
  CHECK(semctl(sem, 0, IPC_RMID) == 0 && msgctl(queue, IPC_RMID, NULL) == 0);
  CHECK(m[0] == 39 && shmdt((void *)m) == 0);
  printf("ids %d %d %d\n", shm, sem, queue);
  return guest_ok();
}
