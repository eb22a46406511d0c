// Processes and threads that do by chance what programs do with each other: shared memory without order, locks, futexes, signals,
// timers, pipes, descriptors that are passed on, files that are mapped and cut, children that are stopped and killed, memory that
// is moved, faults that are caught, execs. Each task hashes all that it sees, and prints the hash at its end: a replay that shows
// any of them anything else is noticed. The same seed makes the same choices; BIS_TASKS_SEEDS=FROM-TO tries others than these.
// It showed how the sums of memory saw a mapping that another thread's call was about to make.
#include "../guest.h"
#include <poll.h>
#include <pty.h>
#include <semaphore.h>
#include <setjmp.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <x86intrin.h>

enum { SHARED_PAGES = 6, KNOWN = 64, FDS = 16, PROCESSES = 14, MUTEXES = 4, FUTEXES = 8, WORDS = 200, CHILDREN = 7, JOINS = 5, AREA = 8 * PAGE };

static struct shared {
  _Atomic int processes, known_len;
  struct { pid_t pid, tid; } known[KNOWN];
  pthread_mutex_t mutex[MUTEXES];
  sem_t sem;
  _Atomic uint32_t futex[FUTEXES];
  _Atomic uint64_t counter;
  volatile uint64_t racy[WORDS];
} *shared;

static volatile unsigned char *pages;
static volatile uint64_t *of_file;
static unsigned char *sysv;
static int fds[FDS], file, memory_file, sysv_id, queue, semaphore;
static pid_t first;
static _Atomic int threads_here;

struct task {
  uint64_t state, hash;
  int depth, children, threads;
  pid_t child[CHILDREN];
  pthread_t thread[JOINS];
  char *area, *stack, *signal_stack;
  timer_t timer;
  bool has_timer;
};

static __thread struct task *me;
static __thread volatile uint64_t handled;
static __thread sigjmp_buf fault;
static __thread volatile bool may_fault;

static unsigned draw(unsigned below) {
  me->state = me->state * 6364136223846793005UL + 1442695040888963407UL;
  return (unsigned)(me->state >> 33) % below;
}

static void see(uint64_t value) { me->hash = (me->hash ^ value) * 1099511628211UL + 7; }

static void see_bytes(const volatile void *at, ssize_t len) {
  for (ssize_t i = 0; i < len; i++) see(((const volatile unsigned char *)at)[i]);
}

static void on_any(int sig, siginfo_t *info, void *context) {
  (void)context;
  int before = errno;
  handled = handled * 31 + (uint64_t)sig + (uint64_t)info->si_code;
  if (info->si_code == SI_QUEUE) handled += (uint64_t)info->si_value.sival_int;
  shared->racy[sig]++;
  if (may_fault && info->si_code > 0 && (sig == SIGSEGV || sig == SIGBUS || sig == SIGFPE || sig == SIGILL)) siglongjmp(fault, sig);
  if (sig == SIGUSR2) (void)!write(fds[1], "h", 1);
  errno = before;
}

static int tid(void) { return (int)syscall(SYS_gettid); }

static void nap(long us) { nanosleep(&(struct timespec){0, us * 1000}, NULL); }

static struct timespec soon(clockid_t clock, long us) {
  struct timespec at;
  clock_gettime(clock, &at);
  at.tv_nsec += us * 1000;
  if (at.tv_nsec >= 1000000000) at.tv_sec++, at.tv_nsec -= 1000000000;
  return at;
}

static void become_known(void) {
  int at = atomic_fetch_add(&shared->known_len, 1);
  if (at < KNOWN) shared->known[at].tid = tid(), shared->known[at].pid = getpid();
}

// One of the tasks that there are or were.
static int any_task(void) {
  int len = shared->known_len;
  return (int)draw((unsigned)(len < KNOWN ? len : KNOWN));
}

static void report(const char *what) {
  char line[96];
  see(handled);
  (void)!write(1, line, (size_t)snprintf(line, sizeof line, "%s %d %d %lx\n", what, getpid(), tid(), me->hash));
}

static void *pages_of_own(size_t len) {
  void *at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(at != MAP_FAILED);
  return at;
}

static struct task *new_task(int depth, uint64_t seed) {
  struct task *task = pages_of_own(PAGE);
  task->state = seed * 0x9E3779B97F4A7C15UL + 1;
  task->depth = depth;
  return task;
}

static pid_t wait_for(pid_t pid) {
  int status = 0;
  pid_t got;
  do got = waitpid(pid, &status, 0);
  while (got == -1 && errno == EINTR);
  see((uint64_t)got), see((uint64_t)status);
  return got;
}

static void forget_child(pid_t pid) {
  for (int i = 0; i < me->children; i++)
    if (me->child[i] == pid) me->child[i] = me->child[--me->children];
}

static void join_last(void) {
  void *hash;
  CHECK(pthread_join(me->thread[--me->threads], &hash) == 0);
  see((uint64_t)hash);
}

static void choose(int count);

// Memory without order.
static void read_racy(void) {
  uint64_t hash = 0;
  for (unsigned i = draw(20000); i > 0; i--) hash = hash * 5 + shared->racy[i % WORDS];
  see(hash);
}
static void write_racy(void) {
  for (unsigned i = draw(3000); i > 0; i--) shared->racy[i % WORDS] += me->state + i;
}
static void add(void) { see(atomic_fetch_add(&shared->counter, 1 + draw(5))); }
static void through_file(void) {
  for (int i = 0; i < 200; i++) see(of_file[draw(PAGE / 8)]), of_file[draw(PAGE / 8)] += 3;
}
static void in_sysv(void) {
  for (int i = 0; i < 300; i++) sysv[draw(2 * PAGE)] += (unsigned char)me->state;
  see_bytes(sysv, 500);
}

// Locks and waits.
static void lock(void) {
  unsigned which = draw(MUTEXES);
  struct timespec until = soon(CLOCK_REALTIME, 3000);
  int result = pthread_mutex_timedlock(&shared->mutex[which], &until);
  see((uint64_t)result);
  if (result == EOWNERDEAD) result = pthread_mutex_consistent(&shared->mutex[which]);
  if (result != 0) return;
  for (int i = 0; i < 100; i++) shared->racy[which]++;
  if (draw(3) == 0) nap(200);
  see(shared->racy[which]);
  pthread_mutex_unlock(&shared->mutex[which]);
}
static void futex_wake(void) { see((uint64_t)syscall(SYS_futex, &shared->futex[draw(FUTEXES)], FUTEX_WAKE, draw(3), NULL)); }
static void futex_wait(void) {
  _Atomic uint32_t *word = &shared->futex[draw(FUTEXES)];
  see((uint64_t)syscall(SYS_futex, word, FUTEX_WAIT, *word, &(struct timespec){0, draw(2000) * 1000}));
  see((uint64_t)errno);
}
static void futex_requeue(void) {
  unsigned from = draw(FUTEXES), to = draw(FUTEXES), wake = draw(2);
  see((uint64_t)syscall(SYS_futex, &shared->futex[from], FUTEX_CMP_REQUEUE, wake, (void *)(long)draw(3), &shared->futex[to], 0));
}
static void semaphores(void) {
  if (draw(2)) sem_post(&shared->sem);
  else see((uint64_t)sem_trywait(&shared->sem));
  struct sembuf change = {0, draw(2) ? 1 : -1, (short)(SEM_UNDO * draw(2))};
  see((uint64_t)semtimedop(semaphore, &change, 1, &(struct timespec){0, 1500000}));
  see((uint64_t)semctl(semaphore, 0, GETVAL)), see((uint64_t)semctl(semaphore, 0, GETPID));
}
static void sleeps(void) { nap(draw(1500)); }
static void yields(void) { sched_yield(), see((uint64_t)getppid()); }

// Descriptors.
static void pipe_write(void) { see((uint64_t)write(fds[1], "some bytes of it", 1 + draw(16))); }
static void pipe_read(void) {
  char bytes[64];
  ssize_t len = read(fds[0], bytes, 1 + draw(64));
  see((uint64_t)len), see_bytes(bytes, len);
}
static void polls(void) {
  struct pollfd of[4];
  for (int i = 0; i < 4; i++) of[i] = (struct pollfd){fds[draw(FDS)], (short)(POLLIN | POLLOUT * (int)draw(2)), 0};
  see((uint64_t)poll(of, 4, (int)draw(3)));
  for (int i = 0; i < 4; i++) see((uint64_t)of[i].revents);
}
static void epolls(void) {
  struct epoll_event event = {EPOLLIN, {.u64 = draw(9)}}, got[4];
  see((uint64_t)epoll_ctl(fds[5], EPOLL_CTL_ADD, fds[draw(5)], &event));
  int count = epoll_wait(fds[5], got, 4, (int)draw(3));
  see((uint64_t)count);
  for (int i = 0; i < count; i++) see(got[i].data.u64);
}
static void selects(void) {
  struct timeval left = {0, draw(900)};
  fd_set set;
  FD_ZERO(&set);
  FD_SET(fds[0], &set);
  FD_SET(fds[2], &set);
  see((uint64_t)select(fds[2] + 1, &set, NULL, NULL, &left)), see((uint64_t)left.tv_usec);
}
static void counts_events(void) {
  uint64_t value = draw(4);
  see((uint64_t)(draw(2) ? write(fds[2], &value, 8) : read(fds[2], &value, 8))), see(value);
}
static void counts_time(void) {
  uint64_t times = 0;
  timerfd_settime(fds[6], 0, &(struct itimerspec){{0, 700000}, {0, 500000}}, NULL);
  see((uint64_t)read(fds[6], &times, 8)), see(times);
}
static void reads_signals(void) {
  struct signalfd_siginfo info = {0};
  see((uint64_t)read(fds[7], &info, sizeof info)), see(info.ssi_signo), see(info.ssi_pid);
}
static void passes_on(void) {
  char control[CMSG_SPACE(sizeof(int))] = {0};
  struct iovec byte = {"x", 1};
  struct msghdr message = {.msg_iov = &byte, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET, header->cmsg_type = SCM_RIGHTS, header->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(header), &fds[2], sizeof(int));
  see((uint64_t)sendmsg(fds[3], &message, MSG_DONTWAIT));
}
static void takes_over(void) {
  char bytes[8], control[CMSG_SPACE(sizeof(int))];
  struct iovec all = {bytes, 8};
  struct msghdr message = {.msg_iov = &all, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  ssize_t len = recvmsg(fds[4], &message, MSG_DONTWAIT);
  see((uint64_t)len);
  struct cmsghdr *header = len > 0 ? CMSG_FIRSTHDR(&message) : NULL;
  if (!header) return;
  int fd;
  memcpy(&fd, CMSG_DATA(header), sizeof fd);
  see((uint64_t)write(fd, &(uint64_t){1}, 8)), close(fd);
}
static void duplicates(void) {
  int made[10];
  for (int i = 0; i < 10; i++) made[i] = dup(fds[draw(FDS)]);
  for (int i = 0; i < 10; i++) see((uint64_t)made[i]), close(made[i]);
}
static void terminal(void) {
  int master, slave;
  char bytes[50];
  if (openpty(&master, &slave, NULL, NULL, NULL) != 0) return;
  // A signal may come before anything is written, and the line would be waited for in vain.
  while (write(master, "a line\n", 7) == -1) CHECK(errno == EINTR);
  see((uint64_t)read(slave, bytes, 50));
  fcntl(master, F_SETFL, O_NONBLOCK);
  (void)!write(slave, "back", 4);
  ssize_t len = read(master, bytes, 50);
  see((uint64_t)len), see_bytes(bytes, len), close(master), close(slave);
}
static void queues(void) {
  struct { long type; char bytes[16]; } message = {1 + draw(3), "message"};
  if (draw(2)) see((uint64_t)msgsnd(queue, &message, 8, IPC_NOWAIT));
  else see((uint64_t)msgrcv(queue, &message, 16, draw(4), IPC_NOWAIT)), see_bytes(&message, sizeof message);
}

// Files.
static void file_write(void) { see((uint64_t)pwrite(file, "file content to write", 1 + draw(20), draw(6000))); }
static void file_read(void) {
  char bytes[500];
  ssize_t len = pread(file, bytes, 1 + draw(500), draw(6000));
  see((uint64_t)len), see_bytes(bytes, len);
}
static void file_cut(void) { see((uint64_t)ftruncate(file, PAGE + draw(3000))); }
static void file_from_pipe(void) { see((uint64_t)splice(fds[0], NULL, file, &(loff_t){draw(100)}, 20, SPLICE_F_NONBLOCK)); }
static void file_map(void) {
  char *at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (at != MAP_FAILED) at[draw(4000)]++, see_bytes(at, 300), munmap(at, PAGE);
}
static void file_locks(void) {
  struct flock lock = {.l_type = (short)((int[]){F_RDLCK, F_WRLCK, F_UNLCK})[draw(3)], .l_start = draw(4) * 10, .l_len = 10};
  see((uint64_t)fcntl(file, F_SETLK, &lock));
  lock.l_type = F_WRLCK;
  see((uint64_t)fcntl(file, F_GETLK, &lock)), see((uint64_t)lock.l_type), see((uint64_t)lock.l_pid);
  see((uint64_t)flock(file, (int)(draw(2) ? LOCK_EX : LOCK_SH) | LOCK_NB));
  if (draw(2)) flock(file, LOCK_UN);
}
static void watches(void) {
  char name[32], events[400];
  int fd = inotify_init1(IN_NONBLOCK);
  if (fd < 0) return;
  snprintf(name, sizeof name, "w%d", tid());
  see((uint64_t)inotify_add_watch(fd, ".", IN_CREATE | IN_DELETE));
  close(open(name, O_CREAT | O_RDWR, 0600)), unlink(name);
  ssize_t len = read(fd, events, sizeof events);
  see((uint64_t)len), see_bytes(events, len), close(fd);
}

// Memory of its own, and what faults.
static void area(void) {
  if (!me->area) {
    me->area = memset(pages_of_own(AREA), (int)draw(256), AREA);
    return;
  }
  see_bytes(me->area, 64), munmap(me->area, AREA);
  me->area = NULL;
}
static void area_changes(void) {
  if (!me->area) return;
  char *page = me->area + draw(8) * PAGE;
  switch (draw(4)) {
    case 0: see((uint64_t)madvise(page, PAGE, MADV_DONTNEED)); break;
    case 1: see((uint64_t)(mprotect(page, PAGE, PROT_READ) | mprotect(page, PAGE, PROT_READ | PROT_WRITE))); break;
    case 2: me->area = page = mremap(me->area, AREA, AREA, MREMAP_MAYMOVE); break;
    default: page[5]++;
  }
  see_bytes(page, 100);
}
#define FAULTS(statement)                  \
  do {                                     \
    may_fault = true;                      \
    int got = sigsetjmp(fault, 1);         \
    if (got == 0) statement;               \
    may_fault = false, see((uint64_t)got); \
  } while (0)
static void not_writable(void) {
  volatile char *page = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  FAULTS(*page = 1);
  munmap((void *)page, PAGE);
}
static void divides(void) { volatile int zero = 0; FAULTS(see((uint64_t)(1 / zero))); }
static void undefined(void) { FAULTS(__builtin_trap()); }
static void behind_the_end(void) {
  volatile unsigned char *at = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, memory_file, 0);
  (void)!ftruncate(memory_file, draw(3) * PAGE);
  FAULTS((at[PAGE + 5]++, see(at[PAGE + 5]), see(at[10]), at[10]++));
  munmap((void *)at, 2 * PAGE);
}
static void shared_protected(void) {
  volatile unsigned char *page = pages + draw(SHARED_PAGES) * PAGE;
  mprotect((void *)page, PAGE, PROT_READ);
  FAULTS(page[3]++);
  mprotect((void *)page, PAGE, PROT_READ | PROT_WRITE), see(page[3]);
}
static void shared_given_back(void) {
  volatile unsigned char *page = pages + draw(SHARED_PAGES) * PAGE;
  see((uint64_t)madvise((void *)page, PAGE, draw(2) ? MADV_DONTNEED : MADV_REMOVE)), see(page[9]);
  // Another thread, or one that was not forked, may have protected it.
  FAULTS(page[9]++);
}
static void sysv_again(void) {
  unsigned char *at = shmat(sysv_id, NULL, draw(3) ? 0 : SHM_RDONLY);
  if (at != (void *)-1) see_bytes(at + draw(4000), 60), sysv[draw(2 * PAGE)]++, shmdt(at);
}
static void of_another(void) {
  char bytes[200];
  struct iovec to = {bytes, 200}, from = {(void *)shared->racy, 200};
  ssize_t len = process_vm_readv(shared->known[any_task()].pid, &to, 1, &from, 1, 0);
  see((uint64_t)len), see_bytes(bytes, len);
}

// Signals and timers.

// One that has ended may have given its number to a stranger, who is in another session.
static pid_t any_of_us(int which) {
  pid_t pid = shared->known[which].pid;
  return pid > 0 && getsid(pid) == getsid(0) ? pid : getpid();
}
static void queues_signal(void) {
  union sigval value = {(int)draw(99)};
  see((uint64_t)sigqueue(any_of_us(any_task()), draw(2) ? SIGUSR1 : SIGRTMIN + 2, value));
}
static void signals_thread(void) {
  int which = any_task();
  see((uint64_t)syscall(SYS_tgkill, any_of_us(which), shared->known[which].tid, draw(2) ? SIGUSR2 : SIGRTMIN + 3));
}
static void signals_group(void) { see((uint64_t)kill(draw(2) ? 0 : -getpgrp(), draw(3) ? 0 : SIGUSR2)); }
static void signals_by_descriptor(void) {
  int fd = (int)syscall(SYS_pidfd_open, any_of_us(any_task()), 0);
  see((uint64_t)fd);
  if (fd < 0) return;
  see((uint64_t)syscall(SYS_pidfd_send_signal, fd, draw(2) ? 0 : SIGUSR1, NULL, 0));
  struct pollfd of = {fd, POLLIN, 0};
  see((uint64_t)poll(&of, 1, 0)), close(fd);
}
static sigset_t two_signals(void) {
  sigset_t set;
  sigemptyset(&set), sigaddset(&set, SIGUSR1), sigaddset(&set, SIGRTMIN + 2);
  return set;
}
static void masks(void) {
  sigset_t set = two_signals(), before;
  pthread_sigmask(draw(2) ? SIG_BLOCK : SIG_UNBLOCK, &set, &before), see((uint64_t)sigismember(&before, SIGUSR1));
}
static void waits_for_signal(void) {
  sigset_t set = two_signals();
  siginfo_t info = {0};
  see((uint64_t)sigtimedwait(&set, &info, &(struct timespec){0, draw(2000) * 1000})), see((uint64_t)info.si_code), see((uint64_t)info.si_pid);
}
static void suspends(void) {
  sigset_t set = two_signals(), before, none;
  pthread_sigmask(SIG_BLOCK, &set, &before), raise(SIGUSR1);
  sigemptyset(&none), see((uint64_t)sigsuspend(&none)), see((uint64_t)errno);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}
static void interval(void) {
  suseconds_t us = draw(3) ? 800 + draw(4000) : 0;
  setitimer(draw(2) ? ITIMER_REAL : ITIMER_VIRTUAL, &(struct itimerval){{0, us}, {0, us}}, NULL);
}
static void timer(void) {
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 4};
  if (me->has_timer) see((uint64_t)timer_getoverrun(me->timer)), timer_delete(me->timer);
  me->has_timer = !me->has_timer && timer_create(CLOCK_MONOTONIC, &event, &me->timer) == 0;
  if (me->has_timer) timer_settime(me->timer, 0, &(struct itimerspec){{0, 1500000}, {0, 900000}}, NULL);
}
static void other_stack(void) {
  if (!me->signal_stack) me->signal_stack = pages_of_own(16 * PAGE);
  stack_t stack = {.ss_sp = me->signal_stack, .ss_size = 16 * PAGE, .ss_flags = draw(3) ? 0 : SS_DISABLE}, before;
  see((uint64_t)sigaltstack(&stack, &before)), see((uint64_t)before.ss_flags);
}

// The processor, the clock, chance, and what it is.
static void asks(void) {
  struct timespec now;
  unsigned core;
  unsigned char bytes[32];
  clock_gettime((clockid_t)draw(4), &now), see((uint64_t)now.tv_nsec), see(__rdtsc());
  see((uint64_t)syscall(SYS_getcpu, &core, NULL, NULL)), see(core);
  see((uint64_t)syscall(SYS_getrandom, bytes, 32, 0)), see_bytes(bytes, 32);
}
static void cores(void) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(draw(2), &set);
  see((uint64_t)sched_setaffinity(0, sizeof set, &set));
}
static void groups(void) {
  int result = 0;
  switch (draw(3)) {
    case 0: result = setpgid(0, draw(2) ? 0 : getppid()); break;
    case 1: result = me->depth > 1 ? setsid() : 0; break;
    default: result = prctl(PR_SET_CHILD_SUBREAPER, draw(2));
  }
  see((uint64_t)result), see((uint64_t)getpgrp()), see((uint64_t)getsid(0));
}
static void tells_of_itself(void) {
  char bytes[100];
  prctl(PR_SET_NAME, draw(2) ? "odd" : "even");
  int fd = open("/proc/self/status", O_RDONLY);
  see_bytes(bytes, pread(fd, bytes, 100, 0)), close(fd);
}

// Children and threads.
static void forks(void) {
  if (me->depth > 3 || me->children == CHILDREN || atomic_fetch_add(&shared->processes, 1) >= PROCESSES) return;
  uint64_t seed = me->state + 77, hash = me->hash;
  int depth = me->depth + 1;
  pid_t pid = fork();
  if (pid == 0) {
    me = new_task(depth, seed);
    me->hash = hash;
    threads_here = 0;
    become_known(), choose(8 + (int)draw(30)), report("child");
    if (draw(5) == 0) raise(SIGKILL);
    if (draw(5) == 0) abort();
    _exit((int)draw(100));
  }
  see((uint64_t)pid);
  if (pid > 0) me->child[me->children++] = pid;
}
static void executes(void) {
  char *argv[] = {"/proc/self/exe", "leaf", "17", NULL};
  pid_t pid = -1;
  switch (draw(3)) {
    case 0: see((uint64_t)posix_spawn(&pid, argv[0], NULL, NULL, argv, environ)); break;
    case 1: pid = vfork(); break;
    default: pid = fork();
  }
  if (pid == 0) execv(argv[0], argv), _exit(9);
  see((uint64_t)pid);
  if (pid > 0) wait_for(pid);
}
static int in_same_memory(void *at) {
  uint64_t *words = at;
  for (int i = 0; i < 50; i++) words[0] = words[0] * 3 + shared->racy[i] + (uint64_t)getpid();
  words[1] = __rdtsc();
  return 5;
}
static void clones(void) {
  uint64_t words[2] = {me->state};
  int flags = (int[]){CLONE_VM, CLONE_VM | CLONE_VFORK, CLONE_VM | CLONE_FS | CLONE_FILES, CLONE_VM | CLONE_SIGHAND | CLONE_FILES}[draw(4)];
  if (!me->stack) me->stack = pages_of_own(16 * PAGE);
  pid_t pid = clone(in_same_memory, me->stack + 16 * PAGE, flags | SIGCHLD, words);
  see((uint64_t)pid);
  if (pid > 0) wait_for(pid), see(words[0]), see(words[1]);
}
static void *in_thread(void *task) {
  me = task;
  become_known(), choose(10 + (int)draw(25)), report("thread");
  atomic_fetch_sub(&threads_here, 1);
  return (void *)me->hash;
}
static void starts_thread(void) {
  if (me->threads == JOINS || me->depth > 4 || atomic_fetch_add(&threads_here, 1) > 5) return;
  if (pthread_create(&me->thread[me->threads], NULL, in_thread, new_task(me->depth + 1, me->state + 5)) == 0) me->threads++;
}
static void joins(void) { if (me->threads) join_last(); }
static void reaps(void) {
  int status = 0;
  struct rusage used = {0};
  pid_t pid = wait4(-1, &status, WNOHANG | (draw(2) ? WUNTRACED | WCONTINUED : 0), &used);
  see((uint64_t)pid), see((uint64_t)status), see((uint64_t)used.ru_utime.tv_usec);
  if (pid > 0 && (WIFEXITED(status) || WIFSIGNALED(status))) forget_child(pid);
}
static void stops_child(void) {
  if (!me->children) return;
  pid_t pid = me->child[draw((unsigned)me->children)];
  siginfo_t info = {0};
  see((uint64_t)kill(pid, SIGSTOP));
  // Another thread may take the report.
  for (int i = 0; i < 30 && info.si_pid == 0; i++) {
    if (waitid(P_PID, (id_t)pid, &info, WSTOPPED | WEXITED | WNOWAIT | WNOHANG) != 0) break;
    nap(100);
  }
  see((uint64_t)info.si_code), kill(pid, SIGCONT);
}
static void kills_child(void) {
  if (!me->children || draw(2)) return;
  pid_t pid = me->child[draw((unsigned)me->children)];
  see((uint64_t)kill(pid, SIGKILL)), wait_for(pid), forget_child(pid);
}
static void ends_all(void) {
  if (getpid() == first || draw(6)) return;
  report("ends");
  if (draw(2)) execl("/proc/self/exe", "leaf", "leaf", "23", NULL);
  syscall(SYS_exit_group, 31);
}

static void (*const ways[])(void) = {
  read_racy, write_racy, add, through_file, in_sysv, lock, futex_wake, futex_wait, futex_requeue, semaphores, sleeps, yields,
  pipe_write, pipe_read, polls, epolls, selects, counts_events, counts_time, reads_signals, passes_on, takes_over, duplicates,
  terminal, queues, file_write, file_read, file_cut, file_from_pipe, file_map, file_locks, watches, area, area_changes, not_writable,
  divides, undefined, behind_the_end, shared_protected, shared_given_back, sysv_again, of_another, queues_signal, signals_thread,
  signals_group, signals_by_descriptor, masks, waits_for_signal, suspends, interval, timer, other_stack, asks, cores, groups,
  tells_of_itself, forks, forks, executes, clones, starts_thread, starts_thread, joins, reaps, stops_child, kills_child, ends_all,
};

static void choose(int count) {
  while (count-- > 0) ways[draw(sizeof ways / sizeof *ways)]();
  if (me->has_timer) timer_delete(me->timer);
  while (me->threads) join_last();
  while (me->children) {
    pid_t pid = me->child[--me->children];
    kill(pid, SIGCONT), wait_for(pid);
  }
}

static void make_shared(void) {
  shared = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  pages = mmap(NULL, SHARED_PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(shared != MAP_FAILED && pages != MAP_FAILED && sizeof *shared <= 2 * PAGE);
  pthread_mutexattr_t kind;
  pthread_mutexattr_init(&kind), pthread_mutexattr_setpshared(&kind, 1), pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
  for (int i = 0; i < MUTEXES; i++) CHECK(pthread_mutex_init(&shared->mutex[i], &kind) == 0);
  CHECK(sem_init(&shared->sem, 1, 2) == 0);
  CHECK((file = open("file", O_RDWR | O_CREAT | O_TRUNC, 0600)) >= 0 && ftruncate(file, 2 * PAGE) == 0);
  CHECK((of_file = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)) != MAP_FAILED);
  CHECK((memory_file = memfd_create("memory", 0)) >= 0 && ftruncate(memory_file, 2 * PAGE) == 0);
  CHECK((sysv_id = shmget(IPC_PRIVATE, 2 * PAGE, 0600 | IPC_CREAT)) >= 0 && (sysv = shmat(sysv_id, NULL, 0)) != (void *)-1);
  CHECK(shmctl(sysv_id, IPC_RMID, NULL) == 0);
  CHECK((queue = msgget(IPC_PRIVATE, 0600 | IPC_CREAT)) >= 0 && (semaphore = semget(IPC_PRIVATE, 1, 0600 | IPC_CREAT)) >= 0);
  sigset_t set;
  sigemptyset(&set), sigaddset(&set, SIGUSR1);
  CHECK(pipe2(fds, O_NONBLOCK) == 0 && socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, fds + 3) == 0);
  fds[2] = eventfd(0, EFD_NONBLOCK), fds[5] = epoll_create1(0), fds[6] = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
  fds[7] = signalfd(-1, &set, SFD_NONBLOCK);
  for (int i = 8; i < FDS; i++) fds[i] = fds[i - 8];
}

static void handle_signals(void) {
  struct sigaction action = {.sa_sigaction = on_any, .sa_flags = SA_SIGINFO};
  const int interrupt[] = {SIGUSR1, SIGUSR2, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGVTALRM};
  for (unsigned i = 0; i < sizeof interrupt / sizeof *interrupt; i++) CHECK(sigaction(interrupt[i], &action, NULL) == 0);
  action.sa_flags |= SA_RESTART;
  for (int i = 2; i < 6; i++) CHECK(sigaction(SIGRTMIN + i, &action, NULL) == 0);
  CHECK(sigaction(SIGALRM, &action, NULL) == 0);
}

static void try_seed(unsigned long seed) {
  CHECK(setpgid(0, 0) == 0);
  first = getpid();
  make_shared(), handle_signals();
  me = new_task(0, seed);
  become_known(), choose(60), report("first");
  msgctl(queue, IPC_RMID, NULL), semctl(semaphore, 0, IPC_RMID);
  // What was stopped by a parent that has ended since may be ours by now.
  int status;
  for (pid_t pid; (pid = waitpid(-1, &status, WUNTRACED)) > 0 || errno == EINTR;)
    if (pid > 0 && WIFSTOPPED(status)) kill(pid, SIGCONT);
}

static int leaf(const char *seed) {
  uint64_t hash = strtoul(seed, NULL, 10);
  for (int i = 0; i < 1000; i++) hash = hash * 7 + (uint64_t)i;
  printf("leaf %d %lx\n", getpid(), (unsigned long)(hash + __rdtsc()));
  return 50;
}

// One after the other, in a session of their own: numbers of tasks that have ended may be strangers' by now.
static void try_seeds(unsigned long from, unsigned long to) {
  CHECK(setsid() == getpid());
  for (unsigned long seed = from; seed <= to; seed++) {
    pid_t pid = fork();
    if (pid == 0) try_seed(seed), _exit(0);
    check_exited(pid, 0);
  }
}

int main(int argc, char **argv) {
  if (argc > 2) return leaf(argv[2]);
  unsigned long from = 1, to = 4;
  const char *others = getenv("BIS_TASKS_SEEDS");
  if (others) CHECK(sscanf(others, "%lu-%lu", &from, &to) == 2);
  pid_t pid = fork();
  if (pid == 0) try_seeds(from, to), _exit(0);
  check_exited(pid, 0);
  return guest_ok();
}
