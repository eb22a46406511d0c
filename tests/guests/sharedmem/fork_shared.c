// MAP_SHARED|MAP_ANONYMOUS over fork: a counter under a process-shared mutex, four processes.
#include "../guest.h"

struct shared {
  pthread_mutex_t lock;
  long count;
  int order[400];
};

int main(void) {
  struct shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  pthread_mutexattr_t attr;
  pthread_mutexattr_init(&attr);
  CHECK(pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED) == 0 && pthread_mutex_init(&s->lock, &attr) == 0);
  pid_t kids[4];
  for (int k = 0; k < 4; k++) {
    kids[k] = fork();
    if (kids[k] == 0) {
      for (int i = 0; i < 100; i++) {
        CHECK(pthread_mutex_lock(&s->lock) == 0);
        long at = s->count;
        if (i % 10 == 0) sched_yield();
        s->order[at] = k + 1;
        s->count = at + 1;
        CHECK(pthread_mutex_unlock(&s->lock) == 0);
        if (i % 25 == 0) usleep(500);
      }
      _exit(0);
    }
  }
  for (int k = 0; k < 4; k++) check_exited(kids[k], 0);
  CHECK(s->count == 400);
  int each[5] = {0}, switches = 0;
  for (int i = 0; i < 400; i++) each[s->order[i]]++, switches += i && s->order[i] != s->order[i - 1];
  for (int k = 1; k < 5; k++) CHECK(each[k] == 100);
  printf("%d switches, digest %lx\n", switches, digest(s->order, sizeof s->order));
  return guest_ok();
}
