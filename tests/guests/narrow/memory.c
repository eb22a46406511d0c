// cflags: -m32
// needs: /usr/lib32/crt1.o
// The address space: mappings that move and grow, protection, the break, and files in memory.
#include "../guest.h"
#include <setjmp.h>

static sigjmp_buf back;
static void *volatile fault_at;

static void on_fault(int sig, siginfo_t *info, void *context) {
  (void)sig, (void)context;
  fault_at = info->si_addr;
  siglongjmp(back, 1);
}

static bool faults(volatile char *at) {
  if (sigsetjmp(back, 1)) return true;
  *at = 1;
  return false;
}

int main(void) {
  on_siginfo(SIGSEGV, on_fault, 0);
  char *area = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(area != MAP_FAILED && is_all(area, 4 * PAGE, 0));
  memset(area, 'x', 4 * PAGE);
  CHECK(mprotect(area + PAGE, PAGE, PROT_READ) == 0);
  CHECK(faults(area + PAGE + 5) && fault_at == area + PAGE + 5 && !faults(area + 5));
  CHECK(mprotect(area + PAGE, PAGE, PROT_READ | PROT_WRITE) == 0 && !faults(area + PAGE + 5));
  char *moved = mremap(area, 4 * PAGE, 64 * PAGE, MREMAP_MAYMOVE);
  CHECK(moved != MAP_FAILED && moved[2 * PAGE] == 'x' && is_all(moved + 4 * PAGE, 60 * PAGE, 0));
  CHECK(munmap(moved + 8 * PAGE, 8 * PAGE) == 0 && faults(moved + 9 * PAGE) && !faults(moved + 16 * PAGE));
  CHECK(madvise(moved, PAGE, MADV_DONTNEED) == 0 && is_all(moved, PAGE, 0));
  unsigned char resident[4];
  CHECK(mincore(moved + 2 * PAGE, 2 * PAGE, resident) == 0 && (resident[0] & 1));
  char *end = sbrk(0);
  CHECK(sbrk(10 * PAGE) == end);
  memset(end, 'y', 10 * PAGE);
  CHECK(sbrk(-5 * PAGE) == end + 10 * PAGE && sbrk(0) == end + 5 * PAGE && end[4 * PAGE] == 'y');
  // Of a file, from its second page on.
  char data[3 * PAGE];
  for (int i = 0; i < 3 * PAGE; i++) data[i] = (char)(i / PAGE + 'a');
  make_file("mapped", data, sizeof data);
  int fd = open("mapped", O_RDWR);
  char *file = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, PAGE);
  CHECK(file != MAP_FAILED && file[0] == 'b' && file[PAGE] == 'c');
  file[10] = 'Z';
  CHECK(msync(file, PAGE, MS_SYNC) == 0);
  char got;
  CHECK(pread(fd, &got, 1, PAGE + 10) == 1 && got == 'Z');
  char *fixed = mmap(moved, PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0);
  CHECK(fixed == moved && fixed[0] == 'a');
  // Shared with a child.
  int *shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  pid_t child = fork();
  if (child == 0) {
    *shared = 77;
    _exit(0);
  }
  check_exited(child, 0);
  CHECK(*shared == 77);
  // More than there is room for in 32 bits.
  CHECK(mmap(NULL, 0xf0000000u, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED && errno == ENOMEM);
  char *code = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(code != MAP_FAILED);
  memcpy(code, "\xb8\x2a\x00\x00\x00\xc3", 6);
  CHECK(((int (*)(void))code)() == 42);
  puts("mapped");
  return guest_ok();
}
