// Where the last x87 instruction was, and its operand, as fnstenv and fnsave store them: AMD's processors lose it whenever the
// kernel switches tasks, unless an exception is pending. By libm and libc, by all kinds of addresses, behind calls that are
// hooked and such that are not, in a loop that takes its time; everything else of an environment, all registers and flags stay.
// cflags: -lm
// hooked: nothing makes them fault, so only text that is patched is recorded
#include "../guest.h"
#include <fenv.h>
#include <math.h>
#include <ucontext.h>

struct env {
  uint16_t control, r0, status, r1, tag, r2;
  uint32_t ip;
  uint16_t cs, opcode;
  uint32_t operand;
  uint16_t ds, r3;
};

static volatile double number = 1.5, zero;
static struct env env, env2[4];
static struct {
  struct env env;
  uint8_t registers[80];
} saved;

static void compute(void) { __asm__ volatile("fldl %0\nfmull %0\nfstpl %0\nfldl %1\nfstpl %0" : "+m"(number) : "m"(zero)); }

static void show(const char *what, const struct env *e) {
  CHECK(e->r0 == 0xffff && e->r1 == 0xffff && e->r2 == 0xffff && (e->r3 == 0xffff || e->r3 == 0));
  printf("%s: %x %x %x, at %x:%x, %x, of %x:%x\n", what, e->control, e->status, e->tag, e->cs, e->ip, e->opcode, e->ds, e->operand);
}

// With each kind of address that compilers make.
static void store_all(const char *what) {
  struct env local = {0};
  uint64_t at = 2;
  compute();
  __asm__ volatile("mov $1, %%eax\nfnstenv %0\nfldenv %0\nnop\nnop" : "=m"(env) : : "rax");
  show(what, &env);
  compute();
  __asm__ volatile("fnstenv (%0)\nfldenv (%0)\nmov $1, %%eax" : : "r"(&local) : "rax", "memory");
  show(what, &local);
  compute();
  __asm__ volatile("shl $2, %1\nfnstenv 28-0x38(%0,%1,8)\nfldcw %2\nmov $1, %%eax" : : "r"(env2), "r"(at), "m"(local.control) : "rax", "memory");
  show(what, (struct env *)((char *)env2 + 64 + 28 - 0x38));
  compute();
  __asm__ volatile("mov %0, %%r13\nfnstenv 8(%%r13)\nfnclex\nfldcw %1" : : "r"((char *)&env2[3] - 8), "m"(local.control) : "r13", "memory");
  show(what, &env2[3]);
  compute();
  __asm__ volatile("mov %%rsp, %%rax\nlea -0x100(%%rsp), %%rsp\nfnstenv -0x20(%%rsp)\nmov -0x14(%%rsp), %%ecx\nmov %%rax, %%rsp\n"
                   "mov %%ecx, %0\nfldcw %1" : "=m"(env.ip) : "m"(local.control) : "rax", "rcx", "memory");
  printf("%s: red zone %x\n", what, env.ip);
  compute();
  __asm__ volatile("fldl %1\nmov $7, %%eax\nfnsave %0\nadd $1, %%eax\nfrstor %0\nfstpl %1" : "=m"(saved), "+m"(number) : : "rax");
  show(what, &saved.env);
  CHECK((saved.env.status >> 11 & 7) == 7 && memcmp(saved.registers, &(long double){0}, 10) == 0);
}

static void of_libraries(const char *what) {
  fenv_t e;
  compute();
  CHECK(fegetenv(&e) == 0);
  show(what, (struct env *)&e);
  compute();
  CHECK(feholdexcept(&e) == 0);
  show(what, (struct env *)&e);
  CHECK(fesetenv(&e) == 0);
  static ucontext_t here;
  compute();
  CHECK(getcontext(&here) == 0);
  show(what, (struct env *)&here.__fpregs_mem);
  volatile long double up = 1.25L;
  CHECK(ceill(up) == 2 && floorl(up) == 1 && truncl(up) == 1);
}

// What is pending is kept.
static void pend(void) {
  uint16_t was, unmasked;
  __asm__ volatile("fnstcw %0" : "=m"(was));
  unmasked = was & ~4;
  for (int i = 0; i < 20; i++) {
    number = 2;
    __asm__ volatile("fldcw %1\nfldl %2\n2: fdivl %3\nmov $1, %%eax\nfnstenv %0\nmov $2, %%eax\nfnclex\nfldcw %4\nfstp %%st(0)"
                     : "=m"(env) : "m"(unmasked), "m"(number), "m"(zero), "m"(was) : "rax");
    CHECK((env.status & 0x84) == 0x84 && env.ip != 0);
    CHECK(env.ip - (uint32_t)(uint64_t)pend < 400 && env.operand == (uint32_t)(uint64_t)&zero);
    if (i % 5 == 0) usleep(100);
  }
  show("pending", &env);
}

// Nothing else changes, not even flags.
static void check_registers(void) {
  uint64_t flags_before = 0xad7 & ~0x100ul, flags, sums[2];
  __asm__ volatile("mov $0x1111, %%rax\nmov $0x2222, %%rcx\nmov $0x3333, %%rdx\nmov $0x4444, %%rsi\nmov $0x5555, %%rdi\nmov $0x6666, %%r8\n"
                   "mov $0x7777, %%r9\nmov $0x8888, %%r10\nmov $0x9999, %%r11\nmov $0xaaaa, %%r12\npush %3\npopfq\n"
                   "mov %%rbx, %%rbx\nfnstenv %2\nmov %%rbx, %%rbx\npushfq\npop %0\ncld\n"
                   "lea (%%rax,%%rcx,2), %%rax\nlea (%%rax,%%rdx,4), %%rax\nlea (%%rax,%%rsi,8), %%rax\nlea (%%rax,%%rdi,2), %%rax\n"
                   "lea (%%rax,%%r8,4), %%rax\nlea (%%rax,%%r9,8), %%rax\nlea (%%rax,%%r10,2), %%rax\nlea (%%rax,%%r11,4), %%rax\n"
                   "lea (%%rax,%%r12,8), %1"
                   : "=&r"(flags), "=&r"(sums[0]), "=m"(env) : "r"(flags_before)
                   : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "cc", "memory");
  sums[1] = 0x1111 + 2 * 0x2222 + 4 * 0x3333 + 8 * 0x4444 + 2 * 0x5555 + 4 * 0x6666 + 8 * 0x7777 + 2 * 0x8888 + 4 * 0x9999 + 8 * 0xaaaaul;
  CHECK(sums[0] == sums[1] && ((flags ^ flags_before) & 0xcd5) == 0);
  __asm__ volatile("fldcw %0" : : "m"(env.control));
}

int main(void) {
  check_registers();
  for (int i = 0; i < 12; i++) {
    store_all("direct");
    of_libraries("libraries");
    compute();
    CHECK(syscall(SYS_getppid) > 0);
    __asm__ volatile("mov $1, %%eax\nfnstenv %0\nfldenv %0\nnop" : "=m"(env) : : "rax");
    show("a call", &env);
    compute();
    usleep(i * 50);
    __asm__ volatile("mov $1, %%eax\nfnstenv %0\nfldenv %0\nnop" : "=m"(env) : : "rax");
    show("slept", &env);
    compute();
    CHECK(mmap(NULL, PAGE, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
    __asm__ volatile("mov $1, %%eax\nfnstenv %0\nfldenv %0\nnop" : "=m"(env) : : "rax");
    show("mapped", &env);
  }
  pend();
  uint64_t h = 0;
  for (int i = 0; i < 2000000; i++) {
    __asm__ volatile("fldl %1\nfstpl %1\nmov $1, %%eax\nfnstenv %0\nfldenv %0\nnop" : "=m"(env), "+m"(number) : : "rax");
    h = h * 31 + env.ip + env.operand;
  }
  printf("%lx\n", h);
  return guest_ok();
}
