// Every pointer of the calls that programs make most, pointing to nothing, to what cannot be written, and to the last
// byte before nothing: the call fails with EFAULT, or does what fits, and changes nothing else.
#include "../guest.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/utsname.h>

static long bad(long nr, int which, long *args, char *at) {
  long a[6];
  memcpy(a, args, sizeof a);
  a[which] = (long)at;
  errno = 0;
  return syscall(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
}

int main(void) {
  char *area = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(area != MAP_FAILED);
  char *last = area + PAGE - 1, *only_read = area + 2 * PAGE;
  CHECK(mprotect(area + PAGE, PAGE, PROT_NONE) == 0 && mprotect(only_read, PAGE, PROT_READ) == 0);
  make_file("f", "0123456789", 10);
  CHECK(symlink("f", "l") == 0);
  int f = open("f", O_RDWR), p[2], s[2], ep = epoll_create1(0);
  CHECK(f >= 0 && ep >= 0 && pipe(p) == 0 && socketpair(AF_UNIX, SOCK_DGRAM, 0, s) == 0);
  static char buf[4096];
  static socklen_t len = 64;
  // number, the pointer's argument, is it read (a page that can only be read is good then), is what is there a string,
  // the arguments
  struct {
    long nr;
    int which, reads;
    long args[6];
  } all[] = {
      {SYS_pread64, 1, 0, {f, 0, 10, 0}},
      {SYS_pwrite64, 1, 1, {f, 0, 10, 0}},
      {SYS_write, 1, 1, {p[1], 0, 100}},
      {SYS_open, 0, 2, {0, O_RDONLY}},
      {SYS_openat, 1, 2, {AT_FDCWD, 0, O_RDONLY}},
      {SYS_stat, 0, 2, {0, (long)buf}},
      {SYS_stat, 1, 0, {(long)"f", 0}},
      {SYS_fstat, 1, 0, {f, 0}},
      {SYS_lstat, 1, 0, {(long)"l", 0}},
      {SYS_newfstatat, 2, 0, {AT_FDCWD, (long)"f", 0, 0}},
      {SYS_statx, 4, 0, {AT_FDCWD, (long)"f", 0, 0x7ff, 0}},
      {SYS_access, 0, 2, {0, R_OK}},
      {SYS_readlink, 0, 2, {0, (long)buf, 10}},
      {SYS_readlink, 1, 0, {(long)"l", 0, 10}},
      {SYS_getcwd, 0, 0, {0, 4096}},
      {SYS_clock_gettime, 1, 0, {CLOCK_MONOTONIC, 0}},
      {SYS_gettimeofday, 0, 0, {0, 0}},
      {SYS_gettimeofday, 1, 0, {(long)buf, 0}},
      {SYS_uname, 0, 0, {0}},
      {SYS_sysinfo, 0, 0, {0}},
      {SYS_getrusage, 1, 0, {RUSAGE_SELF, 0}},
      {SYS_times, 0, 0, {0}},
      {SYS_poll, 0, 3, {0, 1, 0}},
      {SYS_epoll_ctl, 3, 1, {ep, EPOLL_CTL_ADD, p[0], 0}},
      {SYS_ioctl, 2, 0, {p[0], FIONREAD, 0}},
      {SYS_pipe2, 0, 0, {0, 0}},
      {SYS_socketpair, 3, 0, {AF_UNIX, SOCK_STREAM, 0, 0}},
      {SYS_getsockname, 1, 0, {s[0], 0, (long)&len}},
      {SYS_getsockname, 2, 3, {s[0], (long)buf, 0}},
      {SYS_getsockopt, 3, 0, {s[0], SOL_SOCKET, SO_TYPE, 0, (long)&len}},
      {SYS_getsockopt, 4, 3, {s[0], SOL_SOCKET, SO_TYPE, (long)buf, 0}},
      {SYS_sendto, 1, 1, {s[0], 0, 100, 0, 0, 0}},
      {SYS_rt_sigprocmask, 1, 1, {SIG_BLOCK, 0, 0, 8}},
      {SYS_rt_sigprocmask, 2, 0, {SIG_BLOCK, 0, 0, 8}},
      {SYS_rt_sigaction, 1, 1, {SIGUSR1, 0, 0, 8}},
      {SYS_rt_sigaction, 2, 0, {SIGUSR1, 0, 0, 8}},
      {SYS_getrandom, 0, 0, {0, 100, 0}},
      {SYS_getdents64, 1, 0, {-2, 0, 4096}},
      {SYS_unlink, 0, 2, {0}},
      {SYS_rename, 1, 2, {(long)"f", 0}},
      {SYS_mkdir, 0, 2, {0, 0700}},
      {SYS_writev, 1, 1, {p[1], 0, 3}},
      {SYS_readv, 1, 1, {f, 0, 3}},
  };
  for (int round = 0; round < 3; round++) {
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
      int dir = open(".", O_RDONLY | O_DIRECTORY);
      if (all[i].nr == SYS_getdents64) all[i].args[0] = dir;
      char *places[] = {area + PAGE, (char *)16, (char *)0x7ffffffff000, (char *)-4096, only_read, last};
      for (int k = 0; k < 6; k++) {
        if (places[k] == only_read && all[i].reads) continue;
        *last = 'n';
        // One byte of room is enough for nothing but a part: what it does then is the kernel's business.
        long r = bad(all[i].nr, all[i].which, all[i].args, places[k]);
        if (places[k] == last) {
          printf("%ld %ld %d\n", all[i].nr, r, errno);
          if (r >= 0 && all[i].nr == SYS_write) CHECK(read(p[0], buf, 4096) == r);
          continue;
        }
        if (r != -1 || errno != EFAULT)
          fprintf(stderr, "call %ld, argument %d at %p: %ld, errno %d\n", all[i].nr, all[i].which, (void *)places[k], r, errno);
        CHECK(r == -1 && errno == EFAULT);
      }
      CHECK(close(dir) == 0);
    }
    // Nothing has happened to what they are about.
    CHECK(write(p[1], "q", 1) == 1 && read(p[0], buf, 1) == 1 && *buf == 'q');
  }
  return guest_ok();
}
