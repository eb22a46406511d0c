// Calls with arguments that are half sensible and half not: null and read-only pointers, buffers that end where nothing is mapped,
// wrong descriptors, lengths and flags. What each gives, and a sum of the memory that it may have written, is printed, so that
// a replay which writes anything else in its place is seen. The same seed makes the same calls;
// BIS_CALLS_SEEDS=FROM-TO tries others than these three, of which one once failed (memory/torn_reads).
#include "../guest.h"
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

enum { PAGES = 3, LEN = PAGES * PAGE, CALLS = 400, FDS = 12, FIRST_FD = 300 };
// Between pages that are not mapped.
#define AREA ((char *)0x20001000)

// By a letter for each argument: p a pointer, q a path, g a page, f a descriptor, l a length, s a small number or any, o this
// process, m advice, n an ioctl, d flags of a message that does not wait, w WNOHANG, k SPLICE_F_NONBLOCK, z two zeros (a timeout),
// - minus one, 0 and 8 themselves.
static const struct {
  long nr;
  const char *args;
} calls[] = {
    {SYS_read, "fpl"}, {SYS_pread64, "fpls"}, {SYS_readv, "fps"}, {SYS_preadv, "fpss0"}, {SYS_preadv2, "fpss0s"},
    {SYS_write, "fpl"}, {SYS_stat, "pp"}, {SYS_fstat, "fp"}, {SYS_statx, "fqssp"}, {SYS_statfs, "qp"}, {SYS_poll, "ps0"},
    {SYS_select, "spppz"}, {SYS_epoll_wait, "fps0"}, {SYS_epoll_ctl, "fsfp"}, {SYS_mprotect, "pls"}, {SYS_mincore, "glp"},
    {SYS_madvise, "glm"}, {SYS_mlock, "gl"}, {SYS_munlock, "gl"}, {SYS_mlock2, "gls"}, {SYS_msync, "gls"}, {SYS_mbind, "glspss"},
    {SYS_munmap, "gl"}, {SYS_mremap, "gll0g"}, {SYS_rt_sigprocmask, "s0p8"}, {SYS_rt_sigpending, "p8"},
    {SYS_rt_sigtimedwait, "ppz8"}, {SYS_sigaltstack, "0p"}, {SYS_ioctl, "fnp"}, {SYS_pipe2, "p0"}, {SYS_pipe, "p"},
    {SYS_socketpair, "sssp"}, {SYS_accept4, "fpps"}, {SYS_recvfrom, "fpldpp"}, {SYS_sendto, "fpldps"}, {SYS_recvmsg, "fpd"},
    {SYS_sendmsg, "fpd"}, {SYS_recvmmsg, "fpsdp"}, {SYS_sendmmsg, "fpsd"}, {SYS_getsockname, "fpp"}, {SYS_getpeername, "fpp"},
    {SYS_getsockopt, "fsspp"}, {SYS_setsockopt, "fsspl"}, {SYS_uname, "p"}, {SYS_getdents64, "fpl"}, {SYS_getcwd, "pl"},
    {SYS_readlink, "qpl"}, {SYS_getrlimit, "sp"}, {SYS_prlimit64, "0s0p"}, {SYS_getgroups, "sp"}, {SYS_getresuid, "ppp"},
    {SYS_getresgid, "ppp"}, {SYS_sched_getparam, "0p"}, {SYS_sched_rr_get_interval, "0p"}, {SYS_sched_getattr, "0pls"},
    {SYS_getxattr, "qqpl"}, {SYS_listxattr, "qpl"}, {SYS_fsetxattr, "fqpls"}, {SYS_clock_getres, "sp"}, {SYS_getitimer, "sp"},
    {SYS_get_robust_list, "0pp"}, {SYS_sendfile, "ffpl"}, {SYS_splice, "fpfplk"}, {SYS_tee, "fflk"}, {SYS_vmsplice, "fpsk"},
    {SYS_copy_file_range, "fpfpl0"}, {SYS_name_to_handle_at, "fqpps"}, {SYS_process_vm_readv, "opspss"},
    {SYS_process_vm_writev, "opspss"}, {SYS_waitid, "ssps0"}, {SYS_wait4, "-pw0"}, {SYS_get_mempolicy, "ppsgs"},
    {SYS_move_pages, "0spsps"}, {SYS_timerfd_settime, "fspp"}, {SYS_openat, "fqs"}, {SYS_inotify_add_watch, "fqs"},
    {SYS_signalfd4, "fps0"}, {SYS_fallocate, "fsss"}, {SYS_capget, "pp"}, {SYS_remap_file_pages, "glsss"}, {SYS_kcmp, "oosss"},
};

static unsigned long state;
static int fds[FDS];

static unsigned draw(unsigned below) {
  state = state * 6364136223846793005UL + 1442695040888963407UL;
  return (unsigned)(state >> 33) % below;
}

static long pointer(void) {
  long at = (long)AREA;
  switch (draw(8)) {
    case 0: return 0;
    case 1: return at + LEN - 1 - draw(64);
    case 2: return at + LEN - draw(9);
    case 3: return at + LEN + 5;
    case 4: return at - 8;
    case 5: return at + PAGE - draw(32);
    default: return at + draw(LEN);
  }
}

static long argument(char what) {
  static const long lengths[] = {0, 1, 4, 8, 16, 24, 64, 100, 144, 4096, 5000, 8192, 20000};
  static const char *const paths[] = {"f", ".", "/proc/self/exe", "", "nowhere", "other"};
  static const long ioctls[] = {0x5401, 0x541b, 0x5413, 0x8912, 0x8913, 0x8927, 0xc020660b, 0x80086601, 0x801c581f, 0x8933};
  static const long advice[] = {0, 1, 2, 3, 4, 8, 9, 10, 12, 13, 14, 15, 16, 17, 20, 21, 22, 23, 100};
  static long none[2];
  switch (what) {
    case 'p': return pointer();
    case 'q': return draw(9) == 0 ? pointer() : (long)paths[draw(6)];
    case 'g': return (long)AREA + (long)draw(PAGES + 1) * PAGE;
    case 'f': return draw(10) == 0 ? -1 : fds[draw(FDS)];
    case 'l': return lengths[draw(13)];
    case 's': return draw(8) == 0 ? (long)(int)(draw(1U << 31) * 2) : draw(20);
    case 'o': return getpid();
    case 'm': return advice[draw(19)];
    case 'n': return ioctls[draw(10)];
    case 'd': return MSG_DONTWAIT | (draw(3) == 0 ? draw(0x10000) & ~MSG_OOB : 0);
    case 'w': return WNOHANG;
    case 'k': return SPLICE_F_NONBLOCK;
    case 'z': none[0] = none[1] = 0; return (long)none;
    case '-': return -1;
    default: return what - '0';
  }
}

static int is_there(const char *page) {
  unsigned char in;
  return mincore((void *)page, PAGE, &in) == 0;
}

static void make_area(void) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
  CHECK(munmap(AREA - PAGE, LEN + 2 * PAGE) == 0);
  CHECK(mmap(AREA, LEN, PROT_READ | PROT_WRITE, flags, -1, 0) == AREA);
  unsigned from = draw(256);
  for (int i = 0; i < LEN; i++) AREA[i] = (char)((i * 7 + (int)from) >> 3);
  if (draw(2)) CHECK(mmap(AREA + PAGE, PAGE, PROT_READ, flags, -1, 0) == AREA + PAGE);
  if (draw(6) == 0) CHECK(munmap(AREA + PAGE, PAGE) == 0);
}

static void make_fds(void) {
  int pairs[3][2], made[FDS];
  CHECK(pipe2(pairs[0], O_NONBLOCK) == 0);
  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pairs[1]) == 0);
  CHECK(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, pairs[2]) == 0);
  memcpy(made, pairs, sizeof pairs);
  made[6] = open("f", O_RDWR | O_CREAT | O_TRUNC, 0600);
  made[7] = open(".", O_RDONLY);
  made[8] = epoll_create1(0);
  made[9] = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
  made[10] = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
  // All paths are in this folder: what is opened with any flags may be cut, or made.
  int other = open("other", O_RDWR | O_CREAT | O_TRUNC, 0600);
  CHECK(other >= 0);
  for (int i = 0; i < 40; i++) CHECK(write(other, "a line of a file that is read\n", 30) == 30);
  CHECK(close(other) == 0);
  made[11] = open("other", O_RDONLY);
  for (int i = 0; i < FDS; i++) {
    CHECK(made[i] >= 0 && dup2(made[i], FIRST_FD + i) == FIRST_FD + i && close(made[i]) == 0);
    fds[i] = FIRST_FD + i;
  }
}

static void fill(void) {
  for (int k = 0; k < 4; k++) {
    (void)!write(fds[1], "what a pipe has", 15);
    (void)!write(fds[2], "stream", 6);
    (void)!write(fds[4], "a datagram of it", 16);
  }
  (void)!pwrite(fds[6], "what a file has, to be read", 27, draw(9000));
  lseek(fds[6], draw(100), SEEK_SET);
  lseek(fds[7], 0, SEEK_SET);
  lseek(fds[11], 0, SEEK_SET);
}

static unsigned sum(void) {
  unsigned sum = 0;
  for (char *page = AREA; page < AREA + LEN; page += PAGE)
    for (int i = 0, end = is_there(page) ? PAGE : 0; i < end; i++) sum = sum * 31 + (unsigned char)((volatile char *)page)[i];
  return sum;
}

static void try_seed(unsigned long seed) {
  state = seed;
  make_fds();
  make_area();
  for (int i = 0; i < CALLS; i++) {
    if (i % 20 == 0 || !is_there(AREA) || !is_there(AREA + 2 * PAGE)) make_area();
    fill();
    unsigned which = draw(sizeof calls / sizeof *calls);
    long args[6] = {0};
    for (int k = 0; calls[which].args[k]; k++) args[k] = argument(calls[which].args[k]);
    // What is allocated is a disk's.
    if (calls[which].nr == SYS_fallocate && args[3] > 100000) args[3] = 1000;
    // Nothing is made elsewhere.
    if (calls[which].nr == SYS_openat && is_there((char *)(args[1] & -PAGE)) && *(volatile char *)args[1] == '/') args[1] = (long)"f";
    long result = syscall(calls[which].nr, args[0], args[1], args[2], args[3], args[4], args[5]);
    int error = result < 0 ? errno : 0;
    // Text is summed where it can be read: a mapping that cannot be makes the sum end the program.
    if (calls[which].nr == SYS_mprotect) make_area();
    printf("%lu.%d call %ld = %ld %d, %x\n", seed, i, calls[which].nr, result, error, sum());
    if (result > 2 && result < FIRST_FD && (calls[which].nr == SYS_openat || calls[which].nr == SYS_signalfd4)) close((int)result);
  }
}

int main(void) {
  unsigned long from = 1401, to = 1403;
  const char *others = getenv("BIS_CALLS_SEEDS");
  if (others) CHECK(sscanf(others, "%lu-%lu", &from, &to) == 2);
  for (int nr = 1; nr < 32; nr++)
    if (nr != SIGKILL && nr != SIGSTOP && nr != SIGSEGV && nr != SIGBUS && nr != SIGALRM && nr != SIGTERM && nr != SIGCHLD) signal(nr, SIG_IGN);
  CHECK(mmap(AREA - PAGE, LEN + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == AREA - PAGE);
  for (unsigned long seed = from; seed <= to; seed++) {
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
      try_seed(seed);
      fflush(stdout);
      _exit(0);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    if (status != 0) printf("seed %lu ended with %x\n", seed, status);
    CHECK(status == 0);
  }
  return guest_ok();
}
