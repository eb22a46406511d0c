// sched_getaffinity, setaffinity, policies, nice and getpriority, for the process and a thread.
#include "../guest.h"
#include <sys/resource.h>

static void *body(void *arg) {
  cpu_set_t *main_set = arg, set;
  CHECK(sched_getaffinity(0, sizeof set, &set) == 0 && CPU_EQUAL(&set, main_set));
  CHECK(setpriority(PRIO_PROCESS, tid_self(), 5) == 0);
  CHECK(getpriority(PRIO_PROCESS, tid_self()) == 5);
  return NULL;
}

int main(void) {
  cpu_set_t set, one;
  CPU_ZERO(&set);
  CHECK(sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) >= 1);
  int first = 0;
  while (!CPU_ISSET(first, &set)) first++;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
  CHECK(sched_getaffinity(0, sizeof set, &set) == 0 && CPU_EQUAL(&set, &one));
  join_thread(start_thread(body, &set));
  errno = 0;
  int mine = getpriority(PRIO_PROCESS, 0);
  CHECK(errno == 0 && sched_getscheduler(0) == SCHED_OTHER);
  struct sched_param p;
  CHECK(sched_getparam(0, &p) == 0 && p.sched_priority == 0);
  CHECK(sched_get_priority_max(SCHED_FIFO) == 99);
  CHECK(nice(3) == (mine + 3 < 19 ? mine + 3 : 19));
  CHECK(sched_getcpu() >= 0);
  printf("nice %d, core %d of %ld\n", mine, first, sysconf(_SC_NPROCESSORS_ONLN));
  return guest_ok();
}
