// Results that end in memory that cannot be written: what fitted is there, although the call says EFAULT (or a smaller number). And
// results of two parts of which the second cannot be written: the first is there.
#include "../guest.h"

#include <linux/capability.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/utsname.h>

static unsigned char *area;

// Page 0 can be written; page 1 only read, or not at all.
static void fill(void) { memset(area, 0xa5, PAGE); }

static unsigned sum(void) {
  unsigned s = 0;
  for (int i = PAGE - 512; i < PAGE; i++) s = s * 31 + area[i];
  return s;
}

static void say(const char *what, long nr, int room, long r) {
  int why = r < 0 ? errno : 0;
  printf("%s %ld, %d: %ld, errno %d, %08x\n", what, nr, room, r, why, sum());
}

static void at_the_end(void) {
  int p[2], s[2], ep = epoll_create1(0), in = inotify_init1(IN_NONBLOCK);
  CHECK(pipe(p) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, s) == 0 && ep >= 0 && in >= 0);
  make_file("f", "0123456789012345678901234567890123456789", 40);
  CHECK(symlink("a-long-name-to-nowhere", "l") == 0 && mkdir("d", 0700) == 0);
  make_file("d/one", "", 0);
  make_file("d/two-and-a-longer-name", "", 0);
  int f = open("f", O_RDWR);
  struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "socket-with-a-name"};
  int named = socket(AF_UNIX, SOCK_DGRAM, 0);
  CHECK(f >= 0 && bind(named, (struct sockaddr *)&name, sizeof name) == 0);
  struct epoll_event event = {.events = EPOLLOUT, .data.u64 = 0x1122334455667788};
  CHECK(epoll_ctl(ep, EPOLL_CTL_ADD, p[1], &event) == 0 && epoll_ctl(ep, EPOLL_CTL_ADD, s[0], &event) == 0);
  CHECK(inotify_add_watch(in, "d", IN_ALL_EVENTS) >= 0);
  timer_t timer;
  CHECK(timer_create(CLOCK_REALTIME, NULL, &timer) == 0);
  static char buf[4096];
  struct {
    long nr;
    int which;
    long args[6];
  } all[] = {
      {SYS_read, 1, {f, 0, 30}},
      {SYS_pread64, 1, {f, 0, 30, 0}},
      {SYS_stat, 1, {(long)"f", 0}},
      {SYS_fstat, 1, {f, 0}},
      {SYS_statx, 4, {AT_FDCWD, (long)"f", 0, 0x7ff, 0}},
      {SYS_statfs, 1, {(long)".", 0}},
      {SYS_readlink, 1, {(long)"l", 0, 100}},
      {SYS_getcwd, 0, {0, 4096}},
      {SYS_clock_gettime, 1, {CLOCK_MONOTONIC, 0}},
      {SYS_clock_getres, 1, {CLOCK_MONOTONIC, 0}},
      {SYS_gettimeofday, 0, {0, 0}},
      {SYS_uname, 0, {0}},
      {SYS_sysinfo, 0, {0}},
      {SYS_getrusage, 1, {RUSAGE_SELF, 0}},
      {SYS_times, 0, {0}},
      {SYS_epoll_wait, 1, {ep, 0, 8, 0}},
      {SYS_pipe2, 0, {0, 0}},
      {SYS_socketpair, 3, {AF_UNIX, SOCK_STREAM, 0, 0}},
      {SYS_rt_sigprocmask, 2, {SIG_BLOCK, 0, 0, 8}},
      {SYS_rt_sigaction, 2, {SIGUSR1, 0, 0, 8}},
      {SYS_rt_sigpending, 0, {0, 8}},
      {SYS_sigaltstack, 1, {0, 0}},
      {SYS_getrandom, 0, {0, 100, 0}},
      {SYS_getdents64, 1, {-2, 0, 4096}},
      {SYS_getitimer, 1, {ITIMER_REAL, 0}},
      {SYS_timer_gettime, 1, {(long)timer, 0}},
      {SYS_getrlimit, 1, {RLIMIT_NOFILE, 0}},
      {SYS_prlimit64, 3, {0, RLIMIT_NOFILE, 0, 0}},
      {SYS_sched_getparam, 1, {0, 0}},
      {SYS_sched_getattr, 1, {0, 0, 56, 0}},
      {SYS_sched_getaffinity, 2, {0, 128, 0}},
      {SYS_sched_rr_get_interval, 1, {0, 0}},
      {SYS_getgroups, 1, {0x10000, 0}},
      {SYS_getpriority, 1, {PRIO_PROCESS, 0}},
      {SYS_mincore, 2, {(long)area, PAGE, 0}},
      {SYS_adjtimex, 0, {0}},
      {SYS_ioctl, 2, {p[0], FIONREAD, 0}},
      {SYS_ioctl, 2, {s[0], FIONREAD, 0}},
      {SYS_prctl, 1, {PR_GET_NAME, 0}},
      {SYS_prctl, 1, {37 /* PR_GET_CHILD_SUBREAPER */, 0}},
      {SYS_getxattr, 2, {(long)"f", (long)"user.x", 0, 100}},
      {SYS_listxattr, 1, {(long)"f", 0, 100}},
      {SYS_readv, 1, {f, 0, 3}},
  };
  static const int rooms[] = {1, 3, 4, 8, 12, 17, 24, 40, 100, 300};
  for (int closed = 0; closed < 2; closed++) {
    CHECK(mprotect(area + PAGE, PAGE, closed ? PROT_NONE : PROT_READ) == 0);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
      for (size_t k = 0; k < sizeof rooms / sizeof *rooms; k++) {
        int dir = open("d", O_RDONLY | O_DIRECTORY);
        CHECK(dir >= 0 && lseek(f, 0, SEEK_SET) == 0);
        long a[6];
        memcpy(a, all[i].args, sizeof a);
        if (all[i].nr == SYS_getdents64) a[0] = dir;
        fill();
        if (all[i].nr == SYS_adjtimex) memset(area, 0, PAGE);
        a[all[i].which] = (long)area + PAGE - rooms[k];
        long r = syscall(all[i].nr, a[0], a[1], a[2], a[3], a[4], a[5]);
        say("call", all[i].nr, rooms[k], r);
        if (r == 0 && (all[i].nr == SYS_pipe2 || all[i].nr == SYS_socketpair)) {
          int *fds = (int *)(area + PAGE - rooms[k]);
          CHECK(close(fds[0]) == 0 && close(fds[1]) == 0);
        }
        CHECK(close(dir) == 0);
      }
    }
    for (size_t k = 0; k < sizeof rooms / sizeof *rooms; k++) {
      // Names of sockets, with their length elsewhere.
      unsigned char *at = area + PAGE - rooms[k];
      socklen_t len = 100;
      fill();
      long r = syscall(SYS_getsockname, named, at, &len);
      say("name", len, rooms[k], r);
      len = 200;
      fill();
      r = syscall(SYS_getsockopt, s[0], SOL_SOCKET, SO_PEERCRED, at, &len);
      say("credentials", len, rooms[k], r);
      fill();
      CHECK(open("d/one", O_RDONLY) >= 0);
      r = read(in, at, 600);
      say("inotify", SYS_read, rooms[k], r);
      while (read(in, buf, sizeof buf) > 0) {
      }
    }
  }
  printf("%d files\n", f);
}

// The second of two places cannot be written.
static void second_place(void) {
  int *good = (int *)(area + PAGE - 64);
  char *bad = (char *)area + PAGE;
  CHECK(mprotect(area + PAGE, PAGE, PROT_READ) == 0);
  fill();
  say("getresuid", 1, 0, syscall(SYS_getresuid, good, good + 1, bad));
  say("getresgid", 2, 0, syscall(SYS_getresgid, good + 2, bad, good + 3));
  say("getcpu", 3, 0, syscall(SYS_getcpu, good + 4, bad, NULL));
  say("gettimeofday", 4, 0, syscall(SYS_gettimeofday, good + 6, bad));
  say("get_robust_list", 5, 0, syscall(SYS_get_robust_list, 0, good + 8, bad));
  for (int i = 0; i < 3; i++) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) _exit(i + 5);
    fill();
    siginfo_t info;
    memset(&info, 0, sizeof info);
    // The child is gone all the same, but for the first time.
    if (i == 0) CHECK(syscall(SYS_waitid, P_PID, child, &info, WEXITED | WNOWAIT, NULL) == 0);
    long r = i == 2 ? syscall(SYS_waitid, P_PID, child, good, WEXITED, bad) : syscall(SYS_wait4, child, good, 0, bad);
    say("wait", i, 0, r);
    CHECK_ERRNO(waitpid(child, NULL, 0), ECHILD);
  }
  for (int i = 0; i < 3; i++) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) _exit(i + 5);
    fill();
    unsigned char *at = area + PAGE - 10 - i * 10;
    long r = i == 2 ? syscall(SYS_wait4, child, NULL, 0, at) : syscall(SYS_waitid, P_PID, child, at, WEXITED, NULL);
    say("wait with no room", i, 0, r);
    CHECK_ERRNO(waitpid(child, NULL, 0), ECHILD);
  }
  // poll: what it says of the first descriptors, the last ones can be read but not written.
  int p[2];
  CHECK(pipe(p) == 0 && write(p[1], "x", 1) == 1);
  CHECK(mprotect(area + PAGE, PAGE, PROT_READ | PROT_WRITE) == 0);
  struct pollfd *fds = (struct pollfd *)(area + PAGE) - 2;
  for (int i = 0; i < 4; i++) fds[i] = (struct pollfd){.fd = p[i & 1], .events = POLLIN | POLLOUT, .revents = 77};
  CHECK(mprotect(area + PAGE, PAGE, PROT_READ) == 0);
  say("poll", 0, 0, poll(fds, 4, 0));
  printf("revents: %d %d %d %d\n", fds[0].revents, fds[1].revents, fds[2].revents, fds[3].revents);
  fds[0].revents = fds[1].revents = 78;
  struct timespec *brief = (struct timespec *)(area + 64);
  *brief = (struct timespec){0, 1000};
  say("ppoll", 0, 0, syscall(SYS_ppoll, fds, 4, brief, NULL, 8));
  printf("revents: %d %d %d %d, left %ld\n", fds[0].revents, fds[1].revents, fds[2].revents, fds[3].revents, brief->tv_nsec);
  // select: the sets that it reads, of which the last cannot be written.
  fd_set *sets = (fd_set *)(area + 1024);
  for (int i = 0; i < 2; i++) {
    FD_ZERO(&sets[i]);
    FD_SET(p[i], &sets[i]);
  }
  struct timeval *soon = (struct timeval *)(area + 512);
  *soon = (struct timeval){0, 100};
  long r = syscall(SYS_select, p[1] + 1, &sets[0], &sets[1], area + PAGE, soon);
  printf("select: %ld, %d, %d %d, %ld\n", r, r < 0 ? errno : 0, FD_ISSET(p[0], &sets[0]), FD_ISSET(p[1], &sets[1]), soon->tv_usec);
  // sendfile, splice and copy_file_range with a place that can be read but not written.
  CHECK(mprotect(area + PAGE, PAGE, PROT_READ | PROT_WRITE) == 0);
  memset(area + PAGE, 0, PAGE);
  CHECK(mprotect(area + PAGE, PAGE, PROT_READ) == 0);
  int f = open("f", O_RDWR), g = open("g", O_RDWR | O_CREAT, 0600);
  char got[16] = "";
  say("sendfile", 0, 0, syscall(SYS_sendfile, p[1], f, area + PAGE, 5));
  say("splice", 0, 0, syscall(SYS_splice, f, area + PAGE, p[1], NULL, 5, 0));
  say("copy_file_range", 0, 0, syscall(SYS_copy_file_range, f, area + PAGE, g, NULL, 5, 0));
  int there = 0;
  CHECK(ioctl(p[0], FIONREAD, &there) == 0);
  long n = read(p[0], got, 15);
  printf("in the pipe: %d, %ld %s\n", there, n, got);
  n = pread(g, got, 15, 0);
  printf("in the file: %ld\n", n);
}

// The kernel tells in memory what it would have wanted.
static void wanted(void) {
  CHECK(mprotect(area + PAGE, PAGE, PROT_READ | PROT_WRITE) == 0);
  unsigned *at = (unsigned *)(area + PAGE - 256);
  fill();
  *at = 4000;
  say("sched_setattr", *at, 0, syscall(SYS_sched_setattr, 0, at, 0));
  printf("size %u\n", *at);
  struct __user_cap_header_struct *header = (void *)at;
  *header = (struct __user_cap_header_struct){.version = 0x123, .pid = 0};
  say("capget", 0, 0, syscall(SYS_capget, header, at + 4));
  printf("version %x\n", header->version);
  header->version = 0x124;
  say("capset", 0, 0, syscall(SYS_capset, header, at + 4));
  printf("version %x\n", header->version);
  fill();
  *at = 0;
  say("name_to_handle_at", 0, 0, syscall(SYS_name_to_handle_at, AT_FDCWD, "f", at, at + 60, 0));
  printf("bytes %u\n", *at);
  struct timex *adjust = (void *)area;
  memset(area, 0, PAGE);
  adjust->modes = 0x4000;
  adjust->tick = 1;
  long r = syscall(SYS_adjtimex, adjust);
  printf("adjtimex: %ld, %ld %ld\n", r, (long)adjust->time.tv_sec, (long)adjust->tick);
}

int main(void) {
  area = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(area != MAP_FAILED);
  at_the_end();
  second_place();
  wanted();
  return guest_ok();
}
