// getcpu by libc and raw, sched_getcpu, uname, sysinfo, getrusage, times, auxv, the environment of a run.
#include "../guest.h"
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <sys/times.h>
#include <sys/utsname.h>

int main(void) {
  unsigned cpu, node, cpu2, node2;
  CHECK(getcpu(&cpu, &node) == 0 && syscall(SYS_getcpu, &cpu2, &node2, NULL) == 0);
  CHECK(sched_getcpu() >= 0 && node == node2);
  struct utsname u;
  struct sysinfo s;
  struct rusage r;
  struct tms t;
  CHECK(uname(&u) == 0 && strcmp(u.sysname, "Linux") == 0 && strcmp(u.machine, "x86_64") == 0);
  CHECK(sysinfo(&s) == 0 && s.totalram > s.freeram && s.uptime > 0);
  CHECK(getrusage(RUSAGE_SELF, &r) == 0 && r.ru_maxrss > 0);
  CHECK(getrusage(RUSAGE_CHILDREN, &r) == 0);
  clock_t ticks = times(&t);
  CHECK(getauxval(AT_PAGESZ) == PAGE && getauxval(AT_UID) == getuid());
  double load[3];
  CHECK(getloadavg(load, 3) == 3);
  printf("core %u, then %u, of %d; %s; up %ld; ticks %ld; vdso at %lx; load %f\n", cpu, cpu2, get_nprocs(), u.release,
         s.uptime, (long)ticks, getauxval(AT_SYSINFO_EHDR), load[0]);
  return guest_ok();
}
