// cflags: -m32
// needs: /usr/lib32/crt1.o
// Calls that C libraries do not make any more, by the instruction itself; and by the way that the kernel
// offers to 32-bit programs, which may be another instruction.
#include "../guest.h"
#include <poll.h>
#include <sys/auxv.h>

static long raw(long nr, long a, long b, long c, long d, long e) {
  long result;
  __asm__ volatile("int $0x80" : "=a"(result) : "0"(nr), "b"(a), "c"(b), "d"(c), "S"(d), "D"(e) : "memory");
  return result;
}

// By the function that the kernel maps (AT_SYSINFO).
static long offered(long nr, long a, long b) {
  long result;
  static long way;
  way = (long)getauxval(AT_SYSINFO);
  if (!way) return raw(nr, a, b, 0, 0, 0);
  __asm__ volatile("call *%3" : "=a"(result) : "0"(nr), "b"(a), "m"(way), "c"(b) : "memory", "edx");
  return result;
}

static volatile sig_atomic_t count;

static void on_usr1(int sig) { count += sig; }

struct old_action {
  void (*handler)(int);
  unsigned long mask, flags;
  void (*restorer)(void);
};

int main(void) {
  CHECK(raw(20, 0, 0, 0, 0, 0) == getpid() && offered(20, 0, 0) == getpid());
  // The ids of 16 bits.
  CHECK(raw(24, 0, 0, 0, 0, 0) == (long)(getuid() > 65535 ? 65534 : getuid()));
  CHECK(raw(164, 0xffff, 0xffff, 0xffff, 0, 0) == 0);
  unsigned short ids[3];
  CHECK(raw(165, (long)&ids[0], (long)&ids[1], (long)&ids[2], 0, 0) == 0 && ids[0] == ids[1]);
  // The oldest stat: size at 20.
  make_file("file", "content", 7);
  unsigned char st[64];
  CHECK(raw(106, (long)"file", (long)st, 0, 0, 0) == 0 && st[20] == 7 && st[21] == 0);
  CHECK(raw(106, (long)"nothing", (long)st, 0, 0, 0) == -ENOENT && raw(106, (long)"file", 16, 0, 0, 0) == -EFAULT);
  // mmap and select with their arguments in memory.
  long map[] = {0, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0};
  char *area = (char *)raw(90, (long)map, 0, 0, 0, 0);
  CHECK(is_all(area, PAGE, 0));
  area[5] = 1;
  int ends[2];
  CHECK(raw(42, (long)ends, 0, 0, 0, 0) == 0 && raw(4, ends[1], (long)"abc", 3, 0, 0) == 3);
  unsigned long set = 1ul << ends[0];
  long time[] = {1, 0}, arguments[] = {ends[0] + 1, (long)&set, 0, 0, (long)time};
  CHECK(raw(82, (long)arguments, 0, 0, 0, 0) == 1 && set == 1ul << ends[0]);
  // signal and sigaction.
  CHECK(raw(48, SIGUSR1, (long)on_usr1, 0, 0, 0) == 0);
  CHECK(raw(37, getpid(), SIGUSR1, 0, 0, 0) == 0 && count == SIGUSR1);
  struct old_action old = {0};
  CHECK(raw(67, SIGUSR1, 0, (long)&old, 0, 0) == 0 && old.handler == SIG_DFL);
  struct old_action action = {.handler = on_usr1, .mask = 1 << (SIGUSR2 - 1)};
  CHECK(raw(67, SIGUSR1, (long)&action, 0, 0, 0) == 0);
  CHECK(raw(37, getpid(), SIGUSR1, 0, 0, 0) == 0 && count == 2 * SIGUSR1);
  // Masks of 32 bits.
  CHECK(raw(69, 0x200, 0, 0, 0, 0) == 0 && raw(68, 0, 0, 0, 0, 0) == 0x200);
  unsigned long mask = 0x800, was = 7;
  CHECK(raw(126, SIG_SETMASK, (long)&mask, (long)&was, 0, 0) == 0 && was == 0x200);
  CHECK(raw(37, getpid(), SIGUSR2, 0, 0, 0) == 0 && raw(73, (long)&was, 0, 0, 0, 0) == 0 && was == 0x800);
  CHECK(raw(48, SIGUSR2, (long)SIG_IGN, 0, 0, 0) == 0);
  CHECK(raw(69, 0, 0, 0, 0, 0) == 0x800);
  // socketcall and ipc.
  long pair[2], sockets[] = {1, 1, 0, (long)pair}, sends[] = {0, (long)"hello", 5, 0}, receives[] = {0, (long)area, 9, 0};
  CHECK(raw(102, 8, (long)sockets, 0, 0, 0) == 0);
  sends[0] = pair[0], receives[0] = pair[1];
  CHECK(raw(102, 9, (long)sends, 0, 0, 0) == 5 && raw(102, 10, (long)receives, 0, 0, 0) == 5);
  CHECK(memcmp(area, "hello", 5) == 0 && raw(102, 99, (long)sends, 0, 0, 0) == -EINVAL);
  CHECK(raw(117, 30, 0, 0, 0, 0) == -ENOSYS);
  // Numbers that are no calls.
  CHECK(raw(17, 0, 0, 0, 0, 0) == -ENOSYS && raw(222, 0, 0, 0, 0, 0) == -ENOSYS);
  CHECK(raw(9999, 0, 0, 0, 0, 0) == -ENOSYS && raw(-1, 0, 0, 0, 0, 0) == -ENOSYS);
  long now = raw(13, 0, 0, 0, 0, 0);
  CHECK(now > 1600000000 && raw(13, (long)&was, 0, 0, 0, 0) == (long)was);
  puts("raw calls");
  return guest_ok();
}
