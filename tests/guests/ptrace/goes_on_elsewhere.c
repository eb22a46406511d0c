// At the entry of a call, a tracer sets another program counter: the call is made where it stands, and the tracee goes on there when
// it is over, with the call's result.
#include "../guest.h"
#include <sys/ptrace.h>
#include <sys/user.h>

// Makes the call; the result is -1000 less what the call has returned, where the task goes on at `elsewhere`.
long make_call(long number, long a, long b, long c, long *rcx);
extern char elsewhere[], behind_vfork[];
long make_vfork(void);
__asm__(".text\n"
        ".globl make_call\n"
        "make_call:\n"
        "  push %rbx\n"
        "  mov %r8, %rbx\n"
        "  mov %rdi, %rax\n"
        "  mov %rsi, %rdi\n"
        "  mov %rdx, %rsi\n"
        "  mov %rcx, %rdx\n"
        "  syscall\n"
        "  mov %rcx, (%rbx)\n"
        "  pop %rbx\n"
        "  ret\n"
        "  nop\n"
        "  nop\n"
        ".globl elsewhere\n"
        "elsewhere:\n"
        "  mov %rcx, (%rbx)\n"
        "  pop %rbx\n"
        "  neg %rax\n"
        "  sub $1000, %rax\n"
        "  ret\n"
        // As fork(2) is made, by vfork(2): the child must not use the stack.
        ".globl make_vfork\n"
        "make_vfork:\n"
        "  mov $58, %eax\n"
        "  syscall\n"
        "  ret\n"
        "  nop\n"
        ".globl behind_vfork\n"
        "behind_vfork:\n"
        "  neg %rax\n"
        "  jz 1f\n"
        "  sub $1000, %rax\n"
        "  ret\n"
        "1: mov $60, %eax\n"
        "  mov $9, %edi\n"
        "  syscall\n"
        "  hlt\n");

static int pipes[2];

static struct user_regs_struct wait_stop(pid_t pid, int expected) {
  int status;
  struct user_regs_struct regs;
  CHECK(waitpid(pid, &status, __WALL) == pid);
  if (!WIFSTOPPED(status) || status >> 8 != expected) fprintf(stderr, "status %#x\n", status);
  CHECK(WIFSTOPPED(status) && status >> 8 == expected);
  CHECK(ptrace(PTRACE_GETREGS, pid, 0, &regs) == 0);
  return regs;
}

static struct user_regs_struct next(pid_t pid, int expected) {
  CHECK(ptrace(PTRACE_SYSCALL, pid, 0, 0) == 0);
  return wait_stop(pid, expected);
}

static pid_t traced(void (*body)(void)) {
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    CHECK(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0);
    raise(SIGSTOP);
    body();
    _exit(7);
  }
  wait_stop(pid, SIGSTOP);
  CHECK(ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACESYSGOOD) == 0);
  return pid;
}

// The entry of the call of this number.
static struct user_regs_struct at_entry(pid_t pid, long number) {
  for (int stops = 0; stops < 40; stops++) {
    struct user_regs_struct regs = next(pid, SIGTRAP | 0x80);
    if ((long)regs.orig_rax == number && (long)regs.rax == -ENOSYS) return regs;
  }
  CHECK(!"the call");
  abort();
}

static struct user_regs_struct goes_to(pid_t pid, long number, char *where) {
  struct user_regs_struct regs = at_entry(pid, number);
  regs.rip = (uintptr_t)where;
  CHECK(ptrace(PTRACE_SETREGS, pid, 0, &regs) == 0);
  struct user_regs_struct now;
  CHECK(ptrace(PTRACE_GETREGS, pid, 0, &now) == 0 && now.rip == (uintptr_t)where);
  return regs;
}

static struct user_regs_struct goes_elsewhere(pid_t pid, long number) { return goes_to(pid, number, elsewhere); }

// It may have a child, which ends first.
static void ends(pid_t pid) {
  int status;
  do {
    CHECK(ptrace(PTRACE_CONT, pid, 0, 0) == 0);
    CHECK(waitpid(pid, &status, 0) == pid);
  } while (WIFSTOPPED(status) && WSTOPSIG(status) == SIGCHLD);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

static void asks(void) {
  long rcx = 0;
  CHECK(make_call(SYS_getppid, 0, 0, 0, &rcx) == -1000 - getppid());
  // What it does there is its own; and the next call comes back from where it was made.
  for (int i = 0; i < 3; i++) CHECK(make_call(SYS_getppid, 0, 0, 0, &rcx) == getppid());
}

static void asks_with_rcx(void) {
  long rcx = 0;
  CHECK(make_call(SYS_getppid, 0, 0, 0, &rcx) == -1000 - getppid() && rcx == 4711);
}

static void writes(void) {
  long rcx;
  CHECK(make_call(SYS_write, pipes[1], (long)"word", 4, &rcx) == -1004);
}

static void reads(void) {
  long rcx;
  char word[8] = "";
  CHECK(make_call(SYS_read, pipes[0], (long)word, 4, &rcx) == -1004 && !strcmp(word, "word"));
}

static void fails(void) {
  long rcx;
  CHECK(make_call(SYS_close, -1, 0, 0, &rcx) == -1000 + EBADF);
}

static void makes_nothing(void) {
  long rcx;
  CHECK(make_call(SYS_getppid, 0, 0, 0, &rcx) == -1000 + ENOSYS);
}

static void forks(void) {
  long rcx, pid = make_call(SYS_fork, 0, 0, 0, &rcx);
  CHECK(pid <= -1000);
  if (pid == -1000) _exit(9);
  check_exited(-1000 - pid, 9);
}

static void vforks(void) {
  long pid = make_vfork();
  CHECK(pid < -1000);
  check_exited(-1000 - pid, 9);
}

static void is_interrupted(void) {
  long rcx;
  CHECK(make_call(SYS_pause, 0, 0, 0, &rcx) == -1000 + EINTR);
}

static void handle(int signal) { (void)signal; }

static void counts(void) {
  long rcx, sum = 0;
  for (int i = 0; i < 300; i++) {
    long result = make_call(SYS_getuid, 0, 0, 0, &rcx);
    sum += result <= -1000;
  }
  CHECK(sum == 100);
}

int main(void) {
  CHECK(pipe(pipes) == 0);
  // Its end is told, and where it goes on.
  pid_t pid = traced(asks);
  goes_elsewhere(pid, SYS_getppid);
  struct user_regs_struct regs = next(pid, SIGTRAP | 0x80);
  CHECK(regs.rip == (uintptr_t)elsewhere && (long)regs.rax == getpid() && (long)regs.orig_rax == SYS_getppid);
  ends(pid);
  // Its end is not told.
  pid = traced(asks);
  goes_elsewhere(pid, SYS_getppid);
  ends(pid);
  pid = traced(asks_with_rcx);
  regs = goes_elsewhere(pid, SYS_getppid);
  regs.rcx = 4711;
  CHECK(ptrace(PTRACE_SETREGS, pid, 0, &regs) == 0);
  ends(pid);
  // One that has been told of its end may be sent elsewhere from there, too.
  pid = traced(asks);
  at_entry(pid, SYS_getppid);
  regs = next(pid, SIGTRAP | 0x80);
  regs.rip = (uintptr_t)elsewhere;
  CHECK(ptrace(PTRACE_SETREGS, pid, 0, &regs) == 0);
  ends(pid);

  pid = traced(writes);
  goes_elsewhere(pid, SYS_write);
  ends(pid);
  // In a call that waits.
  char word[8] = "";
  CHECK(read(pipes[0], word, 4) == 4 && !strcmp(word, "word"));
  pid = traced(reads);
  goes_elsewhere(pid, SYS_read);
  CHECK(ptrace(PTRACE_SYSCALL, pid, 0, 0) == 0);
  sleep_ms(20);
  CHECK(write(pipes[1], "word", 4) == 4);
  regs = wait_stop(pid, SIGTRAP | 0x80);
  CHECK(regs.rip == (uintptr_t)elsewhere && regs.rax == 4);
  ends(pid);
  pid = traced(fails);
  goes_elsewhere(pid, SYS_close);
  ends(pid);
  // The call is not made.
  pid = traced(makes_nothing);
  regs = goes_elsewhere(pid, SYS_getppid);
  regs.orig_rax = -1;
  CHECK(ptrace(PTRACE_SETREGS, pid, 0, &regs) == 0);
  ends(pid);

  pid = traced(forks);
  goes_elsewhere(pid, SYS_fork);
  ends(pid);
  pid = traced(vforks);
  goes_to(pid, SYS_vfork, behind_vfork);
  ends(pid);
  on_signal(SIGUSR1, handle, 0);
  pid = traced(is_interrupted);
  goes_elsewhere(pid, SYS_pause);
  CHECK(ptrace(PTRACE_SYSCALL, pid, 0, 0) == 0);
  sleep_ms(20);
  CHECK(kill(pid, SIGUSR1) == 0);
  wait_stop(pid, SIGTRAP | 0x80);
  CHECK(ptrace(PTRACE_CONT, pid, 0, 0) == 0);
  wait_stop(pid, SIGUSR1);
  CHECK(ptrace(PTRACE_CONT, pid, 0, SIGUSR1) == 0);
  check_exited(pid, 7);

  // Each third call of many.
  pid = traced(counts);
  for (int i = 0; i < 300; i++) {
    if (i % 3) at_entry(pid, SYS_getuid);
    else goes_elsewhere(pid, SYS_getuid);
  }
  ends(pid);
  return guest_ok();
}
