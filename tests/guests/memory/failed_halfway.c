// Calls that fail at a hole, or at a mapping that refuses, after they have changed what is before it: the memory there is as the
// kernel has left it. And calls that write something before they fail.
#include "../guest.h"

#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <setjmp.h>

static char *hole(int pages, int at) {
  char *m = mmap(NULL, (size_t)pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(m != MAP_FAILED);
  memset(m, 'x', (size_t)pages * PAGE);
  CHECK(munmap(m + at * PAGE, PAGE) == 0);
  return m;
}

static sigjmp_buf *back;
static void fault(int sig) {
  (void)sig;
  siglongjmp(*back, 1);
}

static bool writes(char *at) {
  sigjmp_buf here;
  back = &here;
  if (sigsetjmp(here, 1) != 0) return false;
  *(volatile char *)at = 'w';
  return true;
}

static void protections(void) {
  char *m = hole(6, 3);
  CHECK_ERRNO(mprotect(m, 6 * PAGE, PROT_READ), ENOMEM);
  CHECK(!writes(m) && !writes(m + 2 * PAGE) && writes(m + 4 * PAGE));
  CHECK_ERRNO(mprotect(m + 3 * PAGE, 2 * PAGE, PROT_NONE), ENOMEM);
  CHECK(writes(m + 4 * PAGE));
  // A shared mapping of a file that cannot be written refuses.
  char *n = hole(6, 3);
  make_file("r", "read only", 9);
  int fd = open("r", O_RDONLY);
  CHECK(mprotect(n, 3 * PAGE, PROT_READ) == 0);
  CHECK(mmap(n + 3 * PAGE, PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED);
  CHECK_ERRNO(mprotect(n, 6 * PAGE, PROT_READ | PROT_WRITE), EACCES);
  CHECK(writes(n) && writes(n + 2 * PAGE) && !writes(n + 3 * PAGE) && writes(n + 4 * PAGE));
}

static void advices(void) {
  char *m = hole(6, 3);
  // It goes on behind the hole.
  CHECK_ERRNO(madvise(m + PAGE, 4 * PAGE, MADV_DONTNEED), ENOMEM);
  CHECK(m[0] == 'x' && m[PAGE] == 0 && m[2 * PAGE] == 0 && m[4 * PAGE] == 0 && m[5 * PAGE] == 'x');
  char *n = hole(8, 6);
  // It stops at locked memory.
  CHECK(mlock(n + 2 * PAGE, PAGE) == 0);
  CHECK_ERRNO(madvise(n, 8 * PAGE, MADV_DONTNEED), EINVAL);
  CHECK(n[0] == 0 && n[PAGE] == 0 && n[2 * PAGE] == 'x' && n[3 * PAGE] == 'x' && n[7 * PAGE] == 'x');
  CHECK(munlock(n + 2 * PAGE, PAGE) == 0);
  CHECK_ERRNO(madvise(n, 8 * PAGE, MADV_FREE), ENOMEM);
  printf("freed: %d\n", n[3 * PAGE]);
  // Locks over a hole change nothing that a program sees.
  CHECK_ERRNO(mlock(m, 6 * PAGE), ENOMEM);
  CHECK_ERRNO(munlock(m, 6 * PAGE), ENOMEM);
  unsigned char seen[6] = {7, 7, 7, 7, 7, 7};
  CHECK_ERRNO(mincore(m, 6 * PAGE, seen), ENOMEM);
  printf("mincore: %d %d %d %d %d %d\n", seen[0], seen[1], seen[2], seen[3], seen[4], seen[5]);
}

static void moves(void) {
  // The target is gone although the move fails: more memory than may be had.
  char *m = hole(4, 3), *to = hole(80, 79);
  struct rlimit old, all;
  CHECK(getrlimit(RLIMIT_AS, &old) == 0);
  all = old;
  all.rlim_cur = 1;
  CHECK(setrlimit(RLIMIT_AS, &all) == 0);
  void *moved = mremap(m, PAGE, 64 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to);
  int why = errno;
  CHECK(setrlimit(RLIMIT_AS, &old) == 0);
  CHECK(moved == MAP_FAILED && why == ENOMEM);
  printf("after the move: %d %d\n", writes(m), writes(to));
  CHECK(mmap(to, PAGE, PROT_READ, MAP_FIXED | MAP_ANONYMOUS | MAP_PRIVATE, -1, 0) == to);
  // A mapping that is refused.
  char *n = hole(4, 3);
  CHECK(setrlimit(RLIMIT_AS, &all) == 0);
  void *mapped = mmap(n, 64 * PAGE, PROT_READ, MAP_FIXED | MAP_ANONYMOUS | MAP_PRIVATE, -1, 0);
  CHECK(setrlimit(RLIMIT_AS, &old) == 0);
  CHECK(mapped == MAP_FAILED);
  printf("after the mapping: %d\n", writes(n));
}

static void results(void) {
  int fds[2] = {-5, -5};
  CHECK_ERRNO(socketpair(AF_INET, SOCK_STREAM, 0, fds), EOPNOTSUPP);
  printf("no pair: %d %d\n", fds[0], fds[1]);
  siginfo_t info;
  memset(&info, 0x55, sizeof info);
  CHECK_ERRNO(waitid(P_ALL, 0, &info, WEXITED), ECHILD);
  printf("nobody: %d %d\n", info.si_signo, info.si_pid);
  for (int clock = 0; clock < 12; clock++) {
    int id = -7;
    long made = syscall(SYS_timer_create, clock, NULL, &id);
    printf("timer of clock %d: %ld, id %d\n", clock, made, id);
  }
  int s = socket(AF_INET, SOCK_DGRAM, 0);
  for (int level = 0; level <= 1; level++) {
    for (int name = 0; name < 130; name++) {
      char value[64];
      memset(value, 'v', sizeof value);
      for (socklen_t room = 0; room < 64; room += 21) {
        socklen_t len = room;
        int got = getsockopt(s, level, name, value, &len);
        unsigned sum = 0;
        for (size_t i = 0; i < sizeof value; i++) sum = sum * 31 + (unsigned char)value[i];
        if (got == 0 || errno != ENOPROTOOPT) printf("%d %d: %d, %u, %x\n", level, name, got, len, sum);
      }
    }
  }
}

int main(void) {
  CHECK(signal(SIGSEGV, fault) != SIG_ERR);
  protections();
  advices();
  moves();
  results();
  return guest_ok();
}
