// /proc/self/mem, opened for writing: what goes there changes the process's own memory, also where the process itself may not write.
// Text, too: a function that makes a system call, one that reads the clock, and one that does neither.
#include "../guest.h"
#include <sys/uio.h>

__attribute__((noinline, aligned(64))) static long number(void) {
  long n;
  __asm__ volatile("mov $1000, %0; nop; nop; nop; nop; nop; nop; nop; nop; nop; nop" : "=r"(n));
  return n;
}

// A call that a hook makes, once its instruction is known.
__attribute__((noinline, aligned(64))) static long parent(void) {
  long result = SYS_getppid;
  __asm__ volatile("syscall; mov %0, %0; nop; nop; nop" : "+a"(result) : : "rcx", "r11", "memory");
  return result;
}

static int mem;

static void put(const volatile void *at, const void *data, size_t len) {
  CHECK(pwrite(mem, data, len, (off_t)(uintptr_t)at) == (ssize_t)len);
}

static uint64_t clock_value(void) {
  uint64_t low, high;
  __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
  return high << 32 | low;
}

int main(void) {
  mem = open("/proc/self/mem", O_RDWR);
  CHECK(mem >= 0);
  // Data; a page that is only read; one that is not even that.
  char *pages = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(pages != MAP_FAILED && munmap(pages + 2 * PAGE, PAGE) == 0);
  put(pages + 100, "hello", 6);
  CHECK(strcmp(pages + 100, "hello") == 0);
  CHECK(mprotect(pages, PAGE, PROT_READ) == 0);
  put(pages + 100, "HELLO", 5);
  CHECK(strcmp(pages + 100, "HELLO") == 0);
  CHECK(mprotect(pages, PAGE, PROT_NONE) == 0);
  put(pages + 101, "i", 1);
  CHECK(mprotect(pages, PAGE, PROT_READ) == 0);
  CHECK(strcmp(pages + 100, "HiLLO") == 0);
  // Two pages, of which the second ends what is there: as much as there is. Then nothing.
  char *source = malloc(2 * PAGE);
  memset(source, 'x', 2 * PAGE);
  CHECK(pwrite(mem, source, 2 * PAGE, (off_t)(uintptr_t)(pages + PAGE)) == PAGE);
  CHECK(pages[PAGE] == 'x' && pages[2 * PAGE - 1] == 'x');
  CHECK_ERRNO(pwrite(mem, "x", 1, (off_t)(uintptr_t)(pages + 2 * PAGE)), EIO);
  // What is not there cannot be written either, and what may not be is not.
  char *volatile nowhere = (char *)8;
  CHECK_ERRNO(pwrite(mem, nowhere, 1, (off_t)(uintptr_t)pages), EFAULT);
  int reader = open("/proc/self/mem", O_RDONLY);
  CHECK(reader >= 0);
  CHECK_ERRNO(pwrite(reader, "x", 1, (off_t)(uintptr_t)pages), EBADF);
  // At the file's position, from several buffers, and read back.
  char back[8] = {0};
  struct iovec parts[2] = {{"one", 3}, {"two", 4}};
  CHECK(lseek(mem, (off_t)(uintptr_t)(pages + 200), SEEK_SET) == (off_t)(uintptr_t)(pages + 200));
  CHECK(writev(mem, parts, 2) == 7 && write(mem, "!", 1) == 1);
  CHECK(lseek(mem, 0, SEEK_CUR) == (off_t)(uintptr_t)(pages + 208));
  CHECK(strcmp(pages + 200, "onetwo") == 0 && pages[207] == '!');
  CHECK(pread(reader, back, 8, (off_t)(uintptr_t)(pages + 200)) == 8 && memcmp(back, "onetwo\0!", 8) == 0);
  // Memory that others share.
  char *shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(shared != MAP_FAILED);
  put(shared, "shared", 7);
  pid_t child = fork();
  if (child == 0) {
    CHECK(strcmp(shared, "shared") == 0);
    // The descriptor shows the parent's memory, as long as that is there.
    put(source, "by the child", 13);
    CHECK(strcmp(source, "by the child") != 0);
    _exit(0);
  }
  check_exited(child, 0);
  CHECK(strcmp(source, "by the child") == 0);
  // Text.
  pid_t ppid = getppid();
  unsigned char saved[16], seen[16];
  for (int round = 0; round < 3; round++) {
    static const unsigned char answer[] = {0xb8, 0x2a, 0, 0, 0, 0xc3};       // mov $42, %eax; ret
    static const unsigned char clock[] = {0x0f, 0x31, 0xc3};                 // rdtsc; ret
    for (int i = 0; i < 20; i++) CHECK(number() == 1000 && parent() == ppid);
    memcpy(saved, (void *)parent, sizeof saved);
    put((void *)parent, answer, sizeof answer);
    memcpy(seen, (void *)parent, sizeof seen);
    CHECK(memcmp(seen, answer, sizeof answer) == 0);
    CHECK(parent() == 42);
    CHECK(pread(reader, seen, sizeof seen, (off_t)(uintptr_t)(void *)parent) == sizeof seen);
    CHECK(memcmp(seen, answer, sizeof answer) == 0);
    put((void *)parent, saved, sizeof saved);
    CHECK(parent() == ppid);
    memcpy(saved, (void *)number, sizeof saved);
    put((void *)number, clock, sizeof clock);
    printf("%lx\n", number() & 0xffffffff);
    put((void *)number, saved, sizeof saved);
  }
  printf("%d %lu\n", ppid, clock_value());
  return guest_ok();
}
