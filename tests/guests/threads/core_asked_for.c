// A task that has asked for one core is told that it runs there, however it asks; others, and children, each as they have asked.
#include "../guest.h"
#include <pthread.h>
#include <sched.h>

static void ask_for(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  CHECK(sched_setaffinity(0, sizeof set, &set) == 0);
}

static void is_told(int core) {
  unsigned by_library, by_call, node;
  CHECK(getcpu(&by_library, &node) == 0 && syscall(SYS_getcpu, &by_call, NULL, NULL) == 0);
  CHECK(sched_getcpu() == core && by_library == (unsigned)core && by_call == (unsigned)core);
}

static void *other(void *core) {
  for (int i = 0; i < 20; i++) {
    ask_for((int)(long)core);
    is_told((int)(long)core);
    sched_yield();
  }
  return NULL;
}

int main(void) {
  cpu_set_t set;
  CHECK(sched_getaffinity(0, sizeof set, &set) == 0);
  int first = 0, last = CPU_SETSIZE - 1;
  while (!CPU_ISSET(first, &set)) first++;
  while (!CPU_ISSET(last, &set)) last--;
  CHECK(CPU_ISSET(sched_getcpu(), &set));
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, other, (void *)(long)last) == 0);
  other((void *)(long)first);
  CHECK(pthread_join(thread, NULL) == 0);
  ask_for(last);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    is_told(last);
    ask_for(first);
    is_told(first);
    _exit(0);
  }
  is_told(last);
  check_exited(child, 0);
  return guest_ok();
}
