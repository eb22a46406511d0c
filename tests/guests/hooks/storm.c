// Signals from another process find the program in the calls that it makes most: each call does what it says, and each
// handler runs whole. The handler makes such calls itself, on another stack and on the same.
#include "../guest.h"

static volatile int handled[2], inside;
static int pipes[2];

static void handler(int sig) {
  int keep = errno;
  inside++;
  CHECK(inside <= 2);
  char got[16] = "";
  // The pipe is this handler's: what it writes, it reads.
  CHECK(write(pipes[1], "abc", 3) == 3);
  CHECK(read(pipes[0], got, 3) == 3 && memcmp(got, "abc", 3) == 0);
  CHECK(getpid() > 0);
  CHECK_ERRNO(read(-1, got, 1), EBADF);
  inside--;
  handled[sig == SIGUSR2]++;
  errno = keep;
}

int main(void) {
  stack_t ss = {.ss_size = 64 * 1024, .ss_sp = malloc(64 * 1024)};
  CHECK(sigaltstack(&ss, NULL) == 0 && pipe(pipes) == 0);
  on_signal(SIGUSR1, handler, SA_ONSTACK | SA_RESTART);
  on_signal(SIGUSR2, handler, SA_RESTART);
  sigset_t both, none;
  sigemptyset(&none);
  sigemptyset(&both);
  sigaddset(&both, SIGUSR1);
  sigaddset(&both, SIGUSR2);
  pid_t pid = getpid();
  int done[2];
  CHECK(pipe(done) == 0);
  pid_t child = fork();
  if (child == 0) {
    char c;
    close(done[1]);
    CHECK(fcntl(done[0], F_SETFL, O_NONBLOCK) == 0);
    for (int i = 0; read(done[0], &c, 1) == -1 && i < 100000; i++) {
      // Ever slower, so that where a handler takes longer than that, the program comes to its calls all the same.
      struct timespec pause = {0, 30000 + i * 100};
      CHECK(kill(pid, i & 1 ? SIGUSR1 : SIGUSR2) == 0);
      nanosleep(&pause, NULL);
    }
    _exit(0);
  }
  close(done[0]);
  int zero = open("/dev/zero", O_RDONLY), file = open("f", O_CREAT | O_RDWR, 0600);
  CHECK(zero >= 0 && file >= 0);
  uint64_t sum = 0;
  for (int i = 0; handled[0] + handled[1] < 150; i++) {
    char buf[300], back[300];
    memset(buf, 1, sizeof buf);
    CHECK(read(zero, buf, 200) == 200 && buf[0] == 0 && buf[199] == 0 && buf[200] == 1);
    CHECK(pwrite(file, &i, sizeof i, 0) == sizeof i && pread(file, back, 300, 0) == sizeof i);
    CHECK(memcmp(back, &i, sizeof i) == 0);
    struct timespec t;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &t) == 0);
    struct stat st;
    CHECK(fstat(file, &st) == 0 && st.st_size == sizeof i);
    CHECK_ERRNO(open("nothing", O_RDONLY), ENOENT);
    CHECK(lseek(file, i, SEEK_SET) == i && lseek(file, 0, SEEK_CUR) == i);
    CHECK(syscall(SYS_getpid) == pid);
    sum = sum * 31 + (uint64_t)(handled[0] + handled[1]) + (uint64_t)t.tv_nsec;
  }
  CHECK(close(done[1]) == 0);
  check_exited(child, 0);
  CHECK(sigprocmask(SIG_BLOCK, &both, NULL) == 0 && inside == 0);
  printf("%d %d %#lx\n", handled[0], handled[1], sum);
  return guest_ok();
}
