// A SIGSEGV handler that maps the page, and one that changes registers in the context, and both resume.
#include "../guest.h"
#include <ucontext.h>

static char *base;
static volatile int faults;

static void map_it(int sig, siginfo_t *info, void *ctx) {
  (void)sig;
  ucontext_t *uc = ctx;
  CHECK(uc->uc_mcontext.gregs[REG_TRAPNO] == 14);
  char *page = (char *)((uintptr_t)info->si_addr & ~(uintptr_t)(PAGE - 1));
  CHECK(page >= base && page < base + 64 * PAGE);
  CHECK(mprotect(page, PAGE, PROT_READ | PROT_WRITE) == 0);
  faults++;
}

static void skip_it(int sig, siginfo_t *info, void *ctx) {
  (void)sig, (void)info;
  ucontext_t *uc = ctx;
  uc->uc_mcontext.gregs[REG_RIP] += 3;  // the length of mov rax, [rcx]
  uc->uc_mcontext.gregs[REG_RAX] = 4711;
  faults++;
}

int main(void) {
  base = mmap(NULL, 64 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  on_siginfo(SIGSEGV, map_it, 0);
  for (int i = 0; i < 64; i += 3) base[i * PAGE + i] = (char)i;
  CHECK(faults == 22);
  uint64_t sum = 0;
  for (int i = 0; i < 64; i++) sum += (unsigned char)base[i * PAGE + i];
  CHECK(faults == 64 && sum == 693);
  on_siginfo(SIGSEGV, skip_it, 0);
  uint64_t rax = 0;
  __asm__ volatile("movq (%%rcx), %%rax" : "=a"(rax) : "c"(8ul) : "memory");
  CHECK(rax == 4711 && faults == 65);
  printf("%p\n", base);
  return guest_ok();
}
