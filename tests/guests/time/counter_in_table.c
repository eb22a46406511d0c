// Numbers between functions that look like rdtsc: they are read as numbers, the clock goes on, and the program's maps look as they
// are; and when they are executed after all, they read the counter.
#include "../guest.h"

__asm__(".text\n.balign 4096\n.Ltable: .fill 4000, 1, 0x77\n.byte 0x0f, 0x31, 0xc3\n.byte 0x0f, 0x01, 0xf9, 0xc3\n.balign 4096, 0x78\n"
        // Over the end of a page.
        ".fill 4095, 1, 0x79\n.byte 0x0f, 0x31, 0xc3\n.balign 4096, 0x7a\n");

static const unsigned char *table(void) {
  const unsigned char *at;
  __asm__("lea .Ltable(%%rip), %0" : "=r"(at));
  return at;
}

typedef uint64_t counter(void);
static uint64_t ask(size_t at) {
  uint32_t low, high;
  __asm__ volatile("call *%2" : "=a"(low), "=d"(high) : "r"(table() + at) : "rcx", "memory");
  return low | (uint64_t)high << 32;
}

static void see(void) {
  char name[PATH_MAX], line[2 * PATH_MAX];
  ssize_t n = readlink("/proc/self/exe", name, sizeof name - 1);
  CHECK(n > 0);
  name[n] = 0;
  int executable = 0;
  FILE *maps = fopen("/proc/self/maps", "r");
  CHECK(maps);
  while (fgets(line, sizeof line, maps))
    if (strstr(line, name) && strstr(line, " r-xp ")) executable++;
  fclose(maps);
  CHECK(executable == 1);
}

static void *reads(void *arg) {
  CHECK(digest(table(), 3 * PAGE) == *(uint64_t *)arg);
  return arg;
}

int main(void) {
  uint64_t sum = digest(table(), 3 * PAGE);
  int64_t t = now_ns();
  see();
  for (int i = 0; i < 1000; i++) CHECK(now_ns() >= t);
  CHECK(sum == digest(table(), 3 * PAGE));
  pid_t p = fork();
  if (p == 0) {
    uint64_t first = ask(4000);
    CHECK(ask(4000) > first && now_ns() >= t);
    see();
    printf("child %lx\n", first);
    _exit(7);
  }
  check_exited(p, 7);
  join_thread(start_thread(reads, &sum));
  uint64_t a = ask(PAGE + 4095), b = ask(4003), c = ask(4000);
  CHECK(a < b && b < c && sum == digest(table(), 3 * PAGE));
  for (int i = 0; i < 1000; i++) CHECK(now_ns() >= t);
  see();
  CHECK(mprotect((void *)table(), PAGE, PROT_READ) == 0 && sum == digest(table(), 3 * PAGE));
  CHECK(mprotect((void *)table(), PAGE, PROT_READ | PROT_EXEC) == 0 && ask(4000) > c);
  printf("%lx %lx %lx %lx\n", sum, a, b, c);
  return guest_ok();
}
