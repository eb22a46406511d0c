// A tracer steps its child over string instructions that repeat themselves: each step is one round, behind
// which the program counter is where it was until the last; where there is none to make, it is one step, too.
// unsummed: each step is an event
#include "stepping.h"

#define DIRECTION 0x400
#define ZERO 0x40
#define LEN 4096

// op(to, from, count, value, is_backwards): the registers of a string instruction, a trap, and the
// instruction with labels around it.
#define OP(name, insn)                                                                                       \
  extern char at_##name[], behind_##name[];                                                                  \
  void op_##name(void *to, const void *from, long count, long value, long is_backwards);                     \
  __asm__(".text\nop_" #name ":\n mov %rcx, %rax\n mov %rdx, %rcx\n test %r8, %r8\n jz 1f\n std\n1: int3\n"  \
          " nop\nat_" #name ": " insn "\nbehind_" #name ": nop\n int3\n cld\n ret\n")

OP(stosb, "rep stosb");
OP(stosq, "rep stosq");
OP(movsb, "rep movsb");
OP(movsq, "rep movsq");
OP(lodsb, "rep lodsb");
OP(scasb, "repne scasb");
OP(scasq, "repe scasq");
OP(cmpsb, "repe cmpsb");
OP(small, "addr32 rep stosb");

static const struct op {
  const char *name, *at, *behind;
  void (*run)(void *, const void *, long, long, long);
  int unit;
  bool moves_to, moves_from, writes, compares;
} ops[] = {
    {"rep stosb", at_stosb, behind_stosb, op_stosb, 1, true, false, true, false},
    {"rep stosq", at_stosq, behind_stosq, op_stosq, 8, true, false, true, false},
    {"rep movsb", at_movsb, behind_movsb, op_movsb, 1, true, true, true, false},
    {"rep movsq", at_movsq, behind_movsq, op_movsq, 8, true, true, true, false},
    {"rep lodsb", at_lodsb, behind_lodsb, op_lodsb, 1, false, true, false, false},
    {"repne scasb", at_scasb, behind_scasb, op_scasb, 1, true, false, false, true},
    {"repe scasq", at_scasq, behind_scasq, op_scasq, 8, true, false, false, true},
    {"repe cmpsb", at_cmpsb, behind_cmpsb, op_cmpsb, 1, true, true, false, true},
    {"addr32 rep stosb", at_small, behind_small, op_small, 1, true, false, true, false},
};
enum { OPS = sizeof ops / sizeof *ops };

static const long counts[] = {0, 1, 2, 5, 40};
enum { COUNTS = sizeof counts / sizeof *counts };

// Below 4 GiB, for the one that has short addresses.
static unsigned char *to, *from;

// Comparisons end in their third round, where there are so many.
static void fill(const struct op *op, long is_backwards) {
  for (int i = 0; i < LEN; i++) {
    from[i] = (unsigned char)(i * 7 + 1);
    to[i] = op->compares ? 0 : 0x11;
  }
  long third = is_backwards ? LEN / 2 - 2 * op->unit : LEN / 2 + 2 * op->unit;
  if (op->run == op_scasb) to[third] = 0xa5;
  if (op->run == op_scasq) {
    memset(to, 0xa5, LEN);
    to[third] = 0;
  }
  if (op->run == op_cmpsb) {
    memcpy(to, from, LEN);
    to[third]++;
  }
}

static void run(const struct op *op, long count, long is_backwards) {
  fill(op, is_backwards);
  op->run(to + LEN / 2, from + LEN / 2, count, (long)0xa5a5a5a5a5a5a5a5, is_backwards);
}

static int tracee(void) {
  CHECK(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0);
  raise(SIGSTOP);
  for (int i = 0; i < OPS; i++)
    for (int j = 0; j < COUNTS; j++)
      for (long is_backwards = 0; is_backwards < 2; is_backwards++) run(&ops[i], counts[j], is_backwards);
  // Of these, the tracer leaves the rest to the processor.
  for (int i = 0; i < OPS; i++) run(&ops[i], ops[i].unit == 8 ? 200 : 1500, 0);
  // And these go on in the middle with other counts.
  for (int i = 0; i < 2; i++) run(&ops[i], 5, 0);
  _exit(5);
}

static long word_at(pid_t pid, const void *at) {
  errno = 0;
  long word = ptrace(PTRACE_PEEKDATA, pid, at, 0);
  CHECK(errno == 0);
  return word;
}

// The child stands at the instruction: steps through so many rounds at most, and says whether it is behind.
static bool rounds(pid_t pid, const struct op *op, long count, long is_backwards, long most) {
  fill(op, is_backwards);
  struct user_regs_struct last = regs_of(pid);
  CHECK(last.rip == (unsigned long)op->at && last.rcx == (unsigned long)count);
  CHECK(!(last.eflags & DIRECTION) == !is_backwards);
  CHECK(last.rdi == (unsigned long)to + LEN / 2 && last.rsi == (unsigned long)from + LEN / 2);
  long way = is_backwards ? -op->unit : op->unit;
  for (long round = 1; round <= most; round++) {
    CHECK(step(pid) == SIGTRAP);
    struct user_regs_struct regs = regs_of(pid);
    if (count == 0) {
      CHECK(regs.rip == (unsigned long)op->behind && regs.rcx == 0 && regs.rdi == last.rdi);
      CHECK(regs.rsi == last.rsi && regs.rax == last.rax);
      return true;
    }
    CHECK(regs.rcx == last.rcx - 1 && regs.rcx == (unsigned long)(count - round));
    CHECK(regs.rdi == last.rdi + (op->moves_to ? way : 0));
    CHECK(regs.rsi == last.rsi + (op->moves_from ? way : 0));
    CHECK(regs.rbx == last.rbx && regs.rdx == last.rdx && regs.rsp == last.rsp);
    unsigned char *first = to + (last.rdi - (unsigned long)to);
    unsigned char *second = from + (last.rsi - (unsigned long)from);
    if (op->writes) {
      if (op->moves_from) memcpy(first, second, op->unit);
      else memset(first, 0xa5, op->unit);
    }
    if (op->run == op_lodsb) {
      CHECK((regs.rax & 0xff) == *second && regs.rax >> 8 == last.rax >> 8);
    } else {
      CHECK(regs.rax == last.rax);
    }
    // What was written, and what is not written yet.
    for (int i = -16; i <= 16; i += 8) {
      long word;
      memcpy(&word, first + i, 8);
      CHECK(word_at(pid, first + i) == word);
    }
    bool is_last = round == count;
    if (op->compares) {
      const void *wanted = op->run == op_cmpsb ? second : (void *)"\xa5\xa5\xa5\xa5\xa5\xa5\xa5\xa5";
      bool is_same = memcmp(first, wanted, op->unit) == 0;
      CHECK(!(regs.eflags & ZERO) == !is_same);
      is_last |= is_same == (op->run == op_scasb);
      CHECK(is_last == (round == 3 || round == count));
    }
    CHECK(regs.rip == (unsigned long)(is_last ? op->behind : op->at));
    if (is_last) return true;
    last = regs;
  }
  return false;
}

static void check_memory(pid_t pid) {
  for (int i = 0; i < LEN; i += 8) {
    long word;
    memcpy(&word, to + i, 8);
    CHECK(word_at(pid, to + i) == word);
  }
}

int main(void) {
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT;
  to = mmap(NULL, 2 * LEN, PROT_READ | PROT_WRITE, flags, -1, 0);
  CHECK(to != MAP_FAILED);
  from = to + LEN;
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) return tracee();
  CHECK(wait_stop(pid) == SIGSTOP);
  for (int i = 0; i < OPS; i++) {
    for (int j = 0; j < COUNTS; j++) {
      for (long is_backwards = 0; is_backwards < 2; is_backwards++) {
        go_to_trap(pid);
        CHECK(step(pid) == SIGTRAP);
        CHECK(rounds(pid, &ops[i], counts[j], is_backwards, LEN));
        check_memory(pid);
        go_to_trap(pid);
      }
    }
    printf("%s: in steps\n", ops[i].name);
  }
  for (int i = 0; i < OPS; i++) {
    go_to_trap(pid);
    CHECK(step(pid) == SIGTRAP);
    long count = ops[i].unit == 8 ? 200 : 1500;
    CHECK(!rounds(pid, &ops[i], count, 0, 2));
    go_to_trap(pid);
    struct user_regs_struct regs = regs_of(pid);
    CHECK(regs.rip == (unsigned long)ops[i].behind + 2);
    CHECK(regs.rcx == (unsigned long)(ops[i].compares ? count - 3 : 0));
    printf("%s: %lld left of %ld\n", ops[i].name, regs.rcx, count);
  }
  for (int i = 0; i < 2; i++) {
    go_to_trap(pid);
    CHECK(step(pid) == SIGTRAP);
    CHECK(!rounds(pid, &ops[i], 5, 0, 2));
    struct user_regs_struct regs = regs_of(pid);
    regs.rcx = 9;
    CHECK(ptrace(PTRACE_SETREGS, pid, 0, &regs) == 0);
    for (int left = 8; left >= 0; left--) {
      CHECK(step(pid) == SIGTRAP);
      regs = regs_of(pid);
      CHECK((int)regs.rcx == left && regs.rip == (unsigned long)(left ? ops[i].at : ops[i].behind));
    }
    go_to_trap(pid);
    printf("%s: eleven rounds instead of five\n", ops[i].name);
  }
  CHECK(ptrace(PTRACE_CONT, pid, 0, 0) == 0);
  check_exited(pid, 5);
  return guest_ok();
}
