// A tracer watches its tracee's data with debug registers: each write to it stops the tracee behind the
// instruction, DR6 says which register it was, a register for reads stops at those, and one that is taken out
// no more. A child has none.
#include "../guest.h"
#include <stddef.h>
#include <sys/ptrace.h>
#include <sys/user.h>

#define DR(n) offsetof(struct user, u_debugreg[n])

static volatile long counted, other;
static volatile char bytes[8];

static void stops_at(pid_t pid, int signal) {
  int status;
  CHECK(waitpid(pid, &status, 0) == pid);
  CHECK(WIFSTOPPED(status) && status >> 8 == signal);
}

static void go_on(pid_t pid) { CHECK(ptrace(PTRACE_CONT, pid, 0, 0) == 0); }

static long peek(pid_t pid, size_t offset) {
  errno = 0;
  long word = ptrace(PTRACE_PEEKUSER, pid, offset, 0);
  CHECK(errno == 0);
  return word;
}

static void poke(pid_t pid, size_t offset, unsigned long word) {
  CHECK(ptrace(PTRACE_POKEUSER, pid, offset, word) == 0);
}

// It has touched what this register watches.
static void touched(pid_t pid, int number) {
  stops_at(pid, SIGTRAP);
  siginfo_t info;
  CHECK(ptrace(PTRACE_GETSIGINFO, pid, 0, &info) == 0);
  CHECK(info.si_signo == SIGTRAP && info.si_code == 4);  // TRAP_HWBKPT
  CHECK((peek(pid, DR(6)) & 15) == 1 << number);
  poke(pid, DR(6), 0);
}

static void tracee(void) {
  CHECK(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0);
  raise(SIGSTOP);
  for (int i = 0; i < 5; i++) {
    for (volatile int spin = 0; spin < 1000; spin++) {
    }
    counted = counted + 1;
    getppid();
  }
  raise(SIGSTOP);
  long read = other;
  bytes[3] = 1;
  raise(SIGSTOP);
  counted = read;
  pid_t child = fork();
  if (child == 0) {
    bytes[3] = 2;
    _exit(7);
  }
  check_exited(child, 7);
  _exit(5);
}

int main(void) {
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) tracee();
  stops_at(pid, SIGSTOP);
  // Of 8 bytes, for writes, in register 1.
  CHECK(peek(pid, DR(7)) == 0);
  poke(pid, DR(1), (unsigned long)&counted);
  poke(pid, DR(7), 1 << 2 | 0x9 << 20);
  CHECK(peek(pid, DR(1)) == (long)&counted && peek(pid, DR(7)) == (1 << 2 | 0x9 << 20));
  CHECK_ERRNO(ptrace(PTRACE_POKEUSER, pid, DR(1), (long)&counted + 1), EINVAL);
  CHECK_ERRNO(ptrace(PTRACE_POKEUSER, pid, DR(4), 1), EIO);
  for (long i = 1; i <= 5; i++) {
    go_on(pid);
    touched(pid, 1);
    CHECK(ptrace(PTRACE_PEEKDATA, pid, &counted, 0) == i);
  }
  go_on(pid);
  stops_at(pid, SIGSTOP);

  // Of reads, too, and of one byte.
  poke(pid, DR(7), 0);
  poke(pid, DR(0), (unsigned long)&other);
  poke(pid, DR(2), (unsigned long)&bytes[3]);
  poke(pid, DR(7), 1 | 0xb << 16 | 1 << 4 | 0x1 << 24);
  go_on(pid);
  touched(pid, 0);
  go_on(pid);
  touched(pid, 2);
  CHECK((ptrace(PTRACE_PEEKDATA, pid, bytes, 0) >> 24 & 0xff) == 1);
  go_on(pid);
  stops_at(pid, SIGSTOP);

  // What is watched by nobody stops nobody, nor what a child writes. (SIGCHLD is told.)
  go_on(pid);
  stops_at(pid, SIGCHLD);
  go_on(pid);
  check_exited(pid, 5);
  return guest_ok();
}
