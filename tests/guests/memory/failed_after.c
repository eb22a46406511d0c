// Calls that say EFAULT, or less than was asked, after they have done what they were asked for: messages are taken, dispositions and masks
// changed, timers set, data is where it was to go; only the last thing that was to be told could not be.
#include "../guest.h"

#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/time.h>
#include <sys/uio.h>

static char *area, *bad, *edge;

static void sum(const char *what, long r) {
  int why = r < 0 ? errno : 0;
  unsigned s = 0;
  for (char *at = area; at < bad; at++) s = s * 31 + (unsigned char)*at;
  printf("%s: %ld, errno %d, %08x\n", what, r, why, s);
  memset(area, 0x5a, PAGE);
}

static void handler(int sig) { (void)sig; }
static void *volatile seen;
static void other(int sig) { seen = (void *)(long)sig; }

// The new one is there although the old one could not be told.
static void old_values(void) {
  struct {
    void *handler;
    unsigned long flags;
    void *restorer;
    unsigned long mask;
  } act, old;
  CHECK(signal(SIGUSR1, handler) != SIG_ERR);
  CHECK(syscall(SYS_rt_sigaction, SIGUSR1, NULL, &act, 8) == 0);
  act.handler = (void *)other;
  sum("rt_sigaction", syscall(SYS_rt_sigaction, SIGUSR1, &act, bad, 8));
  CHECK(syscall(SYS_rt_sigaction, SIGUSR1, NULL, &old, 8) == 0);
  CHECK(old.handler == (void *)other && raise(SIGUSR1) == 0 && seen == (void *)(long)SIGUSR1);
  // A disposition that is gone for a signal that is on its way.
  act.handler = (void *)SIG_IGN;
  sum("rt_sigaction to ignore", syscall(SYS_rt_sigaction, SIGUSR1, &act, bad - 5, 8));
  seen = NULL;
  CHECK(raise(SIGUSR1) == 0 && seen == NULL);
  unsigned long set = 1UL << (SIGUSR2 - 1), now = 0;
  CHECK(signal(SIGUSR2, other) != SIG_ERR);
  sum("rt_sigprocmask", syscall(SYS_rt_sigprocmask, SIG_BLOCK, &set, bad, 8));
  CHECK(syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &now, 8) == 0 && now == set);
  CHECK(raise(SIGUSR2) == 0 && seen == NULL);
  sum("rt_sigprocmask back", syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &set, bad, 8));
  CHECK(seen == (void *)(long)SIGUSR2);
  stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536}, was;
  sum("sigaltstack", syscall(SYS_sigaltstack, &stack, bad - 3));
  CHECK(sigaltstack(NULL, &was) == 0 && was.ss_sp == stack.ss_sp);
  struct itimerval soon = {{0, 0}, {1000, 0}}, left;
  sum("setitimer", syscall(SYS_setitimer, ITIMER_VIRTUAL, &soon, bad));
  CHECK(getitimer(ITIMER_VIRTUAL, &left) == 0 && left.it_value.tv_sec > 900);
  soon.it_value.tv_sec = 0;
  CHECK(setitimer(ITIMER_VIRTUAL, &soon, NULL) == 0);
  timer_t timer;
  struct itimerspec some = {{0, 0}, {1000, 0}}, more;
  CHECK(timer_create(CLOCK_MONOTONIC, NULL, &timer) == 0);
  sum("timer_settime", syscall(SYS_timer_settime, timer, 0, &some, bad - 9));
  CHECK(timer_gettime(timer, &more) == 0);
  printf("timer: %ld\n", (long)more.it_value.tv_sec);
  int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
  sum("timerfd_settime", syscall(SYS_timerfd_settime, fd, 0, &some, bad - 9));
  CHECK(timerfd_gettime(fd, &more) == 0);
  printf("timerfd: %ld\n", (long)more.it_value.tv_sec);
  struct rlimit limit, then;
  CHECK(getrlimit(RLIMIT_CORE, &limit) == 0);
  limit.rlim_cur = 0;
  sum("prlimit64", syscall(SYS_prlimit64, 0, RLIMIT_CORE, &limit, bad));
  CHECK(getrlimit(RLIMIT_CORE, &then) == 0 && then.rlim_cur == 0);
}

static void messages(void) {
  int s[2];
  CHECK(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, s) == 0);
  for (int i = 0; i < 40; i++) CHECK(send(s[0], "message and more of it", 23, 0) == 23);
  socklen_t len = 16;
  sum("recvfrom", syscall(SYS_recvfrom, s[1], area, 30, 0, bad, &len));
  sum("recvfrom with a length", syscall(SYS_recvfrom, s[1], area, 30, 0, area + 100, bad));
  sum("recvfrom at the edge", syscall(SYS_recvfrom, s[1], edge, 30, 0, NULL, NULL));
  struct iovec two[2] = {{area + 10, 8}, {bad, 8}};
  sum("readv", readv(s[1], two, 2));
  struct msghdr h = {.msg_iov = two, .msg_iovlen = 2};
  sum("recvmsg", recvmsg(s[1], &h, 0));
  two[1].iov_base = area + 50;
  h.msg_name = bad, h.msg_namelen = 20;
  sum("recvmsg with a name", recvmsg(s[1], &h, 0));
  h.msg_name = NULL, h.msg_control = bad, h.msg_controllen = 100;
  sum("recvmsg with control", recvmsg(s[1], &h, 0));
  int one = 1;
  CHECK(setsockopt(s[1], SOL_SOCKET, SO_PASSCRED, &one, sizeof one) == 0);
  for (int room = 4; room < 40; room += 5) {
    h.msg_control = bad - room, h.msg_controllen = 100;
    sum("recvmsg with credentials", recvmsg(s[1], &h, 0));
    printf("control: %ld, flags %x\n", (long)h.msg_controllen, h.msg_flags);
  }
  CHECK(send(s[0], "after credentials", 17, 0) == 17);
  // The header itself can be read only.
  struct msghdr *header = (struct msghdr *)(bad - 40);
  CHECK(mprotect(bad, PAGE, PROT_READ | PROT_WRITE) == 0);
  h.msg_control = NULL, h.msg_controllen = 0;
  *header = h;
  CHECK(mprotect(bad, PAGE, PROT_READ) == 0);
  sum("recvmsg with a header", recvmsg(s[1], header, 0));
  // Several at once, the second or third of which fails.
  for (int which = 0; which < 5; which++) {
    struct mmsghdr *many = (struct mmsghdr *)(area + 1024);
    struct iovec pieces[4];
    memset(many, 0, 4 * sizeof *many);
    for (int i = 0; i < 4; i++) {
      pieces[i] = (struct iovec){area + 100 + i * 30, 30};
      many[i].msg_hdr.msg_iov = &pieces[i];
      many[i].msg_hdr.msg_iovlen = 1;
    }
    if (which == 1) pieces[2].iov_base = edge;
    if (which == 2) pieces[0].iov_base = bad;
    if (which == 3) many[1].msg_hdr.msg_control = bad - 8, many[1].msg_hdr.msg_controllen = 100;
    if (which == 4) many[2].msg_hdr.msg_iov = (struct iovec *)16;
    struct timespec *wait = (struct timespec *)(area + 3000);
    *wait = (struct timespec){5, 0};
    long got = syscall(SYS_recvmmsg, s[1], many, 4, 0, wait);
    int why = got < 0 ? errno : 0;
    printf("recvmmsg %d: %ld, %d, lengths %u %u %u %u\n", which, got, why, many[0].msg_len, many[1].msg_len, many[2].msg_len, many[3].msg_len);
    memset(many, 0, 4 * sizeof *many);
    sum("recvmmsg", got);
    // An error that was kept for the next call.
    sum("and then", recv(s[1], area, 30, 0));
  }
  struct mmsghdr *many = (struct mmsghdr *)(area + 1024);
  struct iovec pieces[3] = {{"one", 3}, {(void *)16, 4}, {"three", 5}};
  memset(many, 0, 3 * sizeof *many);
  for (int i = 0; i < 3; i++) many[i].msg_hdr = (struct msghdr){.msg_iov = &pieces[i], .msg_iovlen = 1};
  int t[2];
  CHECK(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, t) == 0);
  long sent = syscall(SYS_sendmmsg, t[0], many, 3, 0);
  printf("sendmmsg: %ld, %u %u %u\n", sent, many[0].msg_len, many[1].msg_len, many[2].msg_len);
  for (int i = 0; i < 4; i++) sum("sent", recv(t[1], area, 30, 0));
}

static void data(void) {
  int p[2];
  CHECK(pipe2(p, O_NONBLOCK) == 0 && write(p[1], "0123456789abcdefghij", 20) == 20);
  make_file("f", "0123456789abcdefghij", 20);
  int f = open("f", O_RDONLY);
  struct iovec two[3] = {{area + 10, 4}, {bad, 8}, {area + 20, 4}};
  sum("readv of a pipe", readv(p[0], two, 3));
  sum("readv of a file", readv(f, two, 3));
  sum("preadv", preadv(f, two, 3, 2));
  two[1].iov_base = edge;
  sum("preadv at the edge", preadv(f, two, 3, 2));
  sum("readv at the edge", readv(p[0], two, 3));
  two[0].iov_base = bad;
  sum("preadv at once", preadv(f, two, 3, 2));
  struct iovec far[2] = {{"these are bytes", 15}, {(void *)16, 8}}, near[2] = {{area + 100, 10}, {edge, 30}};
  sum("process_vm_readv", process_vm_readv(getpid(), near, 2, far, 2, 0));
  far[1].iov_base = "more of them, many";
  far[1].iov_len = 18;
  sum("process_vm_readv at the edge", process_vm_readv(getpid(), near, 2, far, 2, 0));
  struct iovec there[2] = {{area + 200, 10}, {edge, 30}}, from[1] = {{"what is written by itself, to two places", 40}};
  sum("process_vm_writev", process_vm_writev(getpid(), from, 1, there, 2, 0));
  // A wait that is over too soon, and cannot say so.
  for (int way = 0; way < 4; way++) {
    struct itimerval soon = {{0, 0}, {0, 20000}};
    struct sigaction act = {.sa_handler = handler};
    CHECK(sigaction(SIGALRM, &act, NULL) == 0);
    struct timespec *wish = (struct timespec *)(area + 64), *rest = (struct timespec *)(way & 1 ? bad - 12 : area + 128);
    *wish = (struct timespec){5, 5};
    CHECK(setitimer(ITIMER_REAL, &soon, NULL) == 0);
    long r = way < 2 ? syscall(SYS_nanosleep, wish, rest) : syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, wish, rest);
    sum("sleep", r);
  }
  // Numbers of pages where they are: some of them nowhere.
  void *pages[4] = {area, bad, (void *)16, area};
  int *status = (int *)(bad - 10);
  sum("move_pages", syscall(SYS_move_pages, 0, 4, pages, NULL, status, 0));
  // What a signalfd has, of which one and a part fit.
  sigset_t set;
  CHECK(sigemptyset(&set) == 0 && sigaddset(&set, SIGRTMIN) == 0 && sigprocmask(SIG_BLOCK, &set, NULL) == 0);
  int fd = signalfd(-1, &set, SFD_NONBLOCK);
  for (int i = 0; i < 5; i++) CHECK(sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = i}) == 0);
  sum("signalfd", read(fd, bad - 128 - 60, 3 * 128));
  sum("signalfd again", read(fd, bad - 60, 3 * 128));
  sum("the rest", read(fd, area, 3 * 128));
  siginfo_t *info = (siginfo_t *)(bad - 20);
  struct timespec now = {0, 0};
  CHECK(sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = 7}) == 0);
  sum("sigtimedwait", syscall(SYS_rt_sigtimedwait, &set, info, &now, 8));
  sum("it is gone", syscall(SYS_rt_sigtimedwait, &set, NULL, &now, 8));
}

static void *holds(void *lock) {
  CHECK(pthread_mutex_lock(lock) == 0);
  pause();
  return NULL;
}

// A lock that is waited for in vain has a mark in it from then on.
static void locks(void) {
  static pthread_mutex_t lock;
  pthread_mutexattr_t attr;
  pthread_t thread;
  CHECK(pthread_mutexattr_init(&attr) == 0 && pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT) == 0);
  CHECK(pthread_mutex_init(&lock, &attr) == 0 && pthread_create(&thread, NULL, holds, &lock) == 0);
  volatile unsigned *word = (unsigned *)&lock;
  while (*word == 0) usleep(1000);
  unsigned before = *word;
  struct timespec past = {1, 0};
  long r = syscall(SYS_futex, word, FUTEX_LOCK_PI | FUTEX_PRIVATE_FLAG, 0, &past);
  printf("lock: %ld, errno %d, %x %x\n", r, errno, before, *word);
  r = syscall(SYS_futex, word, FUTEX_TRYLOCK_PI | FUTEX_PRIVATE_FLAG, 0, NULL);
  printf("try: %ld, errno %d, %x\n", r, errno, *word);
  unsigned mine = 0;
  r = syscall(SYS_futex, &mine, FUTEX_LOCK_PI | FUTEX_PRIVATE_FLAG, 0, NULL);
  unsigned held = mine;
  long again = syscall(SYS_futex, &mine, FUTEX_LOCK_PI | FUTEX_PRIVATE_FLAG, 0, NULL);
  printf("mine: %ld, %x, again %ld, errno %d, %x\n", r, held, again, errno, mine);
}

int main(void) {
  area = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(area != MAP_FAILED);
  bad = area + PAGE;
  edge = bad - 6;
  CHECK(mprotect(bad, PAGE, PROT_READ) == 0 && munmap(bad + PAGE, PAGE) == 0);
  sum("begin", 0);
  old_values();
  messages();
  data();
  locks();
  return guest_ok();
}
