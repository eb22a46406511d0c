// The kernel writes into memory that another process maps too: read, readv, recvmsg, getrandom, stat, a wait, from pipes
// that block; the other process polls for it.
#include "../guest.h"
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/uio.h>

struct box {
  _Atomic int turn;
  char text[64], more[64];
  struct stat st;
  int status;
  unsigned char noise[32];
  uint64_t seen;
};

static void *bystander(void *arg) {
  struct box *b = arg;
  while (b->turn < 6) sched_yield();
  return NULL;
}

int main(void) {
  struct box *b = mmap(NULL, sizeof *b, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  int p[2], s[2];
  CHECK(pipe(p) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, s) == 0);
  pid_t pid = fork();
  if (pid == 0) {
    // The one who sends, and looks at what has come.
    CHECK(write(p[1], "from a pipe", 12) == 12);
    while (b->turn < 1) sched_yield();
    CHECK(strcmp(b->text, "from a pipe") == 0);
    sleep_ms(5);
    CHECK(write(p[1], "in two parts", 13) == 13);
    while (b->turn < 2) sched_yield();
    CHECK(memcmp(b->text, "in two", 6) == 0 && strcmp(b->more, " parts") == 0);
    CHECK(send(s[1], "message", 8, 0) == 8);
    while (b->turn < 3) sched_yield();
    CHECK(strcmp(b->more, "message") == 0);
    while (b->turn < 4) sched_yield();
    CHECK(S_ISDIR(b->st.st_mode));
    b->seen = digest(b->noise, 32);
    b->turn = 5;
    _exit(9);
  }
  pthread_t t = start_thread(bystander, b);
  CHECK(read(p[0], b->text, 64) == 12);
  b->turn = 1;
  struct iovec v[2] = {{b->text, 6}, {b->more, 64}};
  CHECK(readv(p[0], v, 2) == 13);
  b->turn = 2;
  struct iovec one = {b->more, 64};
  struct msghdr m = {.msg_iov = &one, .msg_iovlen = 1};
  CHECK(recvmsg(s[0], &m, 0) == 8);
  b->turn = 3;
  CHECK(stat(".", &b->st) == 0 && getrandom(b->noise, 32, 0) == 32);
  uint64_t mine = digest(b->noise, 32);
  b->turn = 4;
  CHECK(waitpid(pid, &b->status, 0) == pid && WEXITSTATUS(b->status) == 9);
  CHECK(b->turn == 5 && b->seen == mine);
  b->turn = 6;
  join_thread(t);
  printf("%p %llx %ld\n", (void *)b, (unsigned long long)mine, (long)b->st.st_ino);
  return guest_ok();
}
