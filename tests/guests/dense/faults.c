// Faults of a thread's own instructions in loops, which may have moved elsewhere: the handler sees the program's own
// program counter, in its context and in si_addr, and the program goes on behind the instruction.
#include "../guest.h"

#include <execinfo.h>
#include <ucontext.h>

extern char __executable_start, etext;
static _Atomic int wrong, faults;
static char *page;

static void handler(int signal, siginfo_t *info, void *context) {
  ucontext_t *uc = context;
  greg_t *regs = uc->uc_mcontext.gregs;
  char *pc = (char *)regs[REG_RIP];
  if (pc < &__executable_start || pc >= &etext) wrong |= 1;
  faults++;
  if (signal == SIGFPE) {
    if (info->si_addr != pc) wrong |= 2;
    // idiv of ecx has two bytes.
    if ((unsigned char)pc[0] != 0xf7) wrong |= 4;
    regs[REG_RAX] = 7, regs[REG_RDX] = 0, regs[REG_RIP] += 2;
  } else if (signal == SIGILL) {
    if (info->si_addr != pc) wrong |= 8;
    regs[REG_RIP] += 2;
  } else {
    if (info->si_addr != page) wrong |= 16;
    regs[REG_RIP] += 2;
    regs[REG_RAX] = 3;
  }
}

// The faulting instruction is right before a short branch back, with which it moves.
__attribute__((noinline)) static int divide(int turns) {
  int sum = 0, by = 0;
  __asm__ volatile(
      "1: mov $100, %%eax\n cdq\n mov $25, %%r8d\n"
      "2: add $1, %%r9d\n add $2, %%r10d\n add $3, %%r11d\n xor %%r9d, %%r10d\n add $1, %%r9d\n add $2, %%r10d\n"
      "add $3, %%r11d\n xor %%r9d, %%r10d\n add $1, %%r9d\n add $2, %%r10d\n add $3, %%r11d\n xor %%r9d, %%r10d\n"
      "add $1, %%r9d\n add $2, %%r10d\n add $3, %%r11d\n xor %%r9d, %%r10d\n sub $1, %%r8d\n jnz 2b\n"
      "idiv %[by]\n add %%eax, %[sum]\n sub $1, %[turns]\n jnz 1b\n"
      : [sum] "+&b"(sum), [turns] "+&S"(turns), [by] "+&c"(by)
      :
      : "rax", "rdx", "r8", "r9", "r10", "r11", "cc");
  return sum;
}

__attribute__((noinline)) static int load(int turns) {
  int sum = 0;
  char *from = page;
  __asm__ volatile(
      "1: mov $25, %%r8d\n"
      "2: add $1, %%r9d\n add $2, %%r10d\n add $3, %%r11d\n xor %%r9d, %%r10d\n add $1, %%r9d\n add $2, %%r10d\n"
      "add $3, %%r11d\n xor %%r9d, %%r10d\n add $1, %%r9d\n add $2, %%r10d\n add $3, %%r11d\n xor %%r9d, %%r10d\n"
      "add $1, %%r9d\n add $2, %%r10d\n add $3, %%r11d\n xor %%r9d, %%r10d\n sub $1, %%r8d\n jnz 2b\n"
      "mov %[from], %%rdi\n mov (%%rdi), %%eax\n add %%eax, %[sum]\n sub $1, %[turns]\n jnz 1b\n"
      : [sum] "+&b"(sum), [turns] "+&S"(turns)
      : [from] "c"(from)
      : "rax", "rdx", "rdi", "r8", "r9", "r10", "r11", "cc", "memory");
  return sum;
}

__attribute__((noinline)) static int illegal(int turns) {
  int sum = 0;
  for (int i = 0; i < turns; i++) {
    for (int k = 0; k < 50; k++) sum = sum * 31 + k ^ i;
    __asm__ volatile("ud2");
  }
  return sum & 0xff;
}

static void *work(void *which) {
  long sum = 0;
  switch ((long)which) {
    case 0: sum = divide(300); break;
    case 1: sum = load(300); break;
    default: sum = illegal(300); break;
  }
  return (void *)sum;
}

int main(void) {
  page = mmap(0, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
  sigaction(SIGFPE, &action, 0), sigaction(SIGSEGV, &action, 0), sigaction(SIGILL, &action, 0);
  pthread_t threads[3];
  long sums[3];
  for (long i = 0; i < 3; i++) CHECK(pthread_create(&threads[i], 0, work, (void *)i) == 0);
  for (int i = 0; i < 3; i++) {
    void *sum;
    CHECK(pthread_join(threads[i], &sum) == 0);
    sums[i] = (long)sum;
  }
  CHECK(sums[0] == 2100);
  CHECK(sums[1] == 900);
  CHECK(wrong == 0);
  CHECK(faults == 900);
  // What is mapped is the program's own, and so are the addresses on the stack.
  char line[4096];
  FILE *maps = fopen("/proc/self/maps", "r");
  int own = 0;
  while (fgets(line, sizeof line, maps)) {
    uintptr_t from, to;
    char prot[8], path[4000] = "";
    sscanf(line, "%lx-%lx %7s %*s %*s %*s %3999s", &from, &to, prot, path);
    if (prot[2] != 'x') continue;
    // A rewritten text, which the cache of bis keeps as `HASH.text`, is shown under the name of the file that it replaces.
    size_t length = strlen(path);
    CHECK(length < 5 || strcmp(path + length - 5, ".text") != 0);
    char self[4096] = "";
    CHECK(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    if (from <= (uintptr_t)main && (uintptr_t)main < to) own += strcmp(path, self) == 0;
    else CHECK(path[0] == '/' || path[0] == '[');
  }
  CHECK(own == 1);
  void *frames[16];
  int count = backtrace(frames, 16);
  CHECK(count >= 2 && (char *)frames[0] > &__executable_start && (char *)frames[0] < &etext);
  return guest_ok();
}
