// mprotect and PROT_NONE: faults where they must be, with the right address and code; code made at run time.
#include "../guest.h"
#include <setjmp.h>

static sigjmp_buf back;
static void *volatile fault_addr;
static volatile int fault_code;

static void handler(int sig, siginfo_t *info, void *ctx) {
  (void)sig, (void)ctx;
  fault_addr = info->si_addr;
  fault_code = info->si_code;
  siglongjmp(back, 1);
}

static int faults(volatile char *p, bool write) {
  if (sigsetjmp(back, 1)) return 1;
  if (write) *p = 1;
  else (void)*p;
  return 0;
}

int main(void) {
  on_siginfo(SIGSEGV, handler, 0);
  char *m = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  m[PAGE] = 7;
  CHECK(mprotect(m + PAGE, PAGE, PROT_READ) == 0);
  CHECK(!faults(m, true) && !faults(m + PAGE, false) && !faults(m + 2 * PAGE, true));
  CHECK(faults(m + PAGE + 3, true) && fault_addr == m + PAGE + 3 && fault_code == SEGV_ACCERR);
  CHECK(mprotect(m + PAGE, PAGE, PROT_NONE) == 0 && faults(m + PAGE, false));
  CHECK_ERRNO(write(1, m + PAGE, 1), EFAULT);
  CHECK(mprotect(m + PAGE, PAGE, PROT_READ) == 0 && m[PAGE] == 7);
  CHECK(munmap(m + PAGE, PAGE) == 0 && faults(m + PAGE, false) && fault_code == SEGV_MAPERR);
  CHECK_ERRNO(mprotect(m, 3 * PAGE, PROT_READ), ENOMEM);
  CHECK(faults(NULL, false) && fault_addr == NULL);
  unsigned char *code = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memcpy(code, "\xb8\x2a\x00\x00\x00\xc3", 6);  // mov eax, 42; ret
  CHECK(mprotect(code, PAGE, PROT_READ | PROT_EXEC) == 0);
  CHECK(((int (*)(void))code)() == 42);
  printf("last fault at %p, code at %p\n", fault_addr, code);
  return guest_ok();
}
