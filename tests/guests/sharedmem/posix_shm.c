// cflags: -lrt
// shm_open and a named semaphore, used by a parent and an exec'd child; cleaned up at the end.
#include "../guest.h"
#include <semaphore.h>

int main(int argc, char **argv) {
  char name[64];
  snprintf(name, sizeof name, "/guest-%d", argc > 1 ? atoi(argv[1]) : getpid());
  int fd = shm_open(name, O_CREAT | O_RDWR, 0600);
  CHECK(fd >= 0 && ftruncate(fd, PAGE) == 0);
  volatile int *m = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  sem_t *sem = sem_open(name, O_CREAT, 0600, 0);
  CHECK(m != MAP_FAILED && sem != SEM_FAILED);
  if (argc > 1) {
    for (int i = 0; i < 10; i++) {
      m[i] = i * i;
      CHECK(sem_post(sem) == 0);
    }
    return 23;
  }
  char pid[16];
  snprintf(pid, sizeof pid, "%d", getpid());
  pid_t p = fork();
  if (p == 0) {
    execl("/proc/self/exe", argv[0], pid, NULL);
    _exit(99);
  }
  for (int i = 0; i < 10; i++) {
    CHECK(sem_wait(sem) == 0);
    CHECK(m[i] == i * i);
  }
  check_exited(p, 23);
  CHECK(shm_unlink(name) == 0 && sem_unlink(name) == 0);
  printf("%s\n", name);
  return guest_ok();
}
