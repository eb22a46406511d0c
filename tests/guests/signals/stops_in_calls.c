// A process is stopped in a call that waits, and goes on: some calls say EINTR then, all others wait on (signal(7), "Interruption of
// system calls and library functions by stop signals").
#include "../guest.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>

// What there is to wait for: nothing comes before `ends` has a byte.
static int ends[2], epoll, semaphores, sockets[2];
static int word;

static void waits_in_epoll(void) { CHECK_ERRNO(epoll_wait(epoll, &(struct epoll_event){0}, 1, -1), EINTR); }

static void waits_in_epoll_for_a_time(void) { CHECK_ERRNO(epoll_wait(epoll, &(struct epoll_event){0}, 1, 100000), EINTR); }

static void waits_with_a_mask(void) {
  sigset_t none;
  sigemptyset(&none);
  CHECK_ERRNO(epoll_pwait(epoll, &(struct epoll_event){0}, 1, -1, &none), EINTR);
}

static void waits_for_a_semaphore(void) { CHECK_ERRNO(semop(semaphores, &(struct sembuf){.sem_op = -1}, 1), EINTR); }

static void waits_for_a_signal(void) {
  sigset_t user;
  sigemptyset(&user);
  sigaddset(&user, SIGUSR1);
  CHECK_ERRNO(sigtimedwait(&user, NULL, &(struct timespec){.tv_sec = 100}), EINTR);
}

static void receives_for_a_time(void) {
  char byte;
  struct timeval time = {.tv_sec = 100};
  CHECK(setsockopt(sockets[0], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time) == 0);
  CHECK_ERRNO(recv(sockets[0], &byte, 1, 0), EINTR);
}

static void reads(void) {
  char byte;
  CHECK(read(ends[0], &byte, 1) == 1);
}

static void polls(void) { CHECK(poll(&(struct pollfd){.fd = ends[0], .events = POLLIN}, 1, -1) == 1); }

static void selects(void) {
  fd_set set;
  FD_ZERO(&set);
  FD_SET(ends[0], &set);
  CHECK(select(ends[0] + 1, &set, NULL, NULL, NULL) == 1);
}

static void sleeps(void) { CHECK(nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL) == 0); }

static void receives(void) {
  char byte;
  CHECK(recv(sockets[1], &byte, 1, 0) == 1);
}

static void waits_for_a_word(void) { CHECK_ERRNO(futex(&word, FUTEX_WAIT, 0, &(struct timespec){.tv_nsec = 50000000}, NULL, 0), ETIMEDOUT); }

// The process shares memory with nobody, or has memory that others could share.
static void waits(void (*call)(void), bool has_shared, int ready) {
  if (has_shared) CHECK(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
  // What has been made before is made in hooks.
  for (int i = 0; i < 3; i++) CHECK(epoll_wait(epoll, &(struct epoll_event){0}, 1, 0) == 0 && getppid() > 0);
  CHECK(write(ready, "r", 1) == 1);
  call();
  _exit(0);
}

// Does it sleep in a call?
static bool sleeps_now(pid_t pid) {
  char path[64], text[512] = "";
  sprintf(path, "/proc/%d/stat", pid);
  int fd = open(path, O_RDONLY);
  CHECK(fd >= 0 && read(fd, text, sizeof text - 1) > 0 && close(fd) == 0);
  return strrchr(text, ')')[2] == 'S';
}

static void stopped_in(void (*call)(void), bool has_shared) {
  int ready[2], status;
  char byte;
  CHECK(pipe(ready) == 0);
  pid_t child = fork();
  if (child == 0) waits(call, has_shared, ready[1]);
  CHECK(read(ready[0], &byte, 1) == 1 && close(ready[0]) == 0 && close(ready[1]) == 0);
  if (call != sleeps && call != waits_for_a_word) {
    usleep(2000);
    while (!sleeps_now(child)) usleep(1000);
  }
  CHECK(kill(child, SIGSTOP) == 0);
  CHECK(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
  CHECK(kill(child, SIGCONT) == 0);
  if (call == reads || call == polls || call == selects || call == receives) {
    usleep(5000);
    CHECK(waitpid(child, &status, WNOHANG) == 0);
    CHECK(write(ends[1], "e", 1) == 1 && send(sockets[0], "e", 1, 0) == 1);
    check_exited(child, 0);
    if (call == polls || call == selects || call == receives) CHECK(read(ends[0], &byte, 1) == 1);
    if (call != receives) CHECK(recv(sockets[1], &byte, 1, 0) == 1);
  } else {
    check_exited(child, 0);
  }
}

int main(void) {
  sigset_t user;
  sigemptyset(&user);
  sigaddset(&user, SIGUSR1);
  CHECK(sigprocmask(SIG_BLOCK, &user, NULL) == 0);
  CHECK(pipe(ends) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
  CHECK((epoll = epoll_create1(0)) >= 0 && (semaphores = semget(IPC_PRIVATE, 1, 0600)) >= 0);
  void (*calls[])(void) = {
      waits_in_epoll, waits_in_epoll_for_a_time, waits_with_a_mask, waits_for_a_semaphore, waits_for_a_signal, receives_for_a_time,
      reads,          polls,                     selects,           sleeps,                receives,           waits_for_a_word,
  };
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
    for (int has_shared = 0; has_shared < 2; has_shared++) {
      printf("call %zu, %d\n", i, has_shared);
      stopped_in(calls[i], has_shared);
    }
  CHECK(semctl(semaphores, 0, IPC_RMID) == 0);
  return guest_ok();
}
