// PTRACE_INTERRUPT, SIGSTOP and PTRACE_SEIZE of a task that makes no calls, and asks for the time stamp or
// for what the processor is, again and again: it stops each time, soon, and stays stopped.
#include "looping.h"

enum { ROUNDS = 8 };

static const int stopped = PTRACE_EVENT_STOP << 8;

static void asks_cpuid(void) {
  for (;;) {
    unsigned eax = 0, ebx, ecx = 0, edx;
    __asm__ volatile("cpuid" : "+a"(eax), "=b"(ebx), "+c"(ecx), "=d"(edx));
  }
}

static void reads_counter(void) {
  for (;;) {
    unsigned low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
  }
}

// In code that nobody has seen before it runs.
static void reads_counter_unseen(void) {
  int prot = PROT_READ | PROT_WRITE | PROT_EXEC;
  unsigned char *code = mmap(NULL, PAGE, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(code != MAP_FAILED);
  memcpy(code, "\x0f\x31\xeb\xfc", 4); // rdtsc; jmp .-2
  ((void (*)(void))code)();
}

static void (*const loops[])(void) = {asks_cpuid, reads_counter, reads_counter_unseen};

// They come soon.
enum { STOP_MS = 2000 };

// Its process is stopped, which its tracer hears of, and goes on.
static void goes_on_with_process(pid_t pid) {
  CHECK(stop_of(pid, STOP_MS) == (SIGSTOP | stopped));
  CHECK(ptrace(PTRACE_LISTEN, pid, 0, 0) == 0);
  int status;
  CHECK(waitpid(pid, &status, __WALL | WNOHANG) == 0);
  CHECK(kill(pid, SIGCONT) == 0);
  CHECK(stop_of(pid, STOP_MS) == (SIGTRAP | stopped));
}

static void stops_where_asked(void (*loop)(void)) {
  pid_t pid = starts(loop);
  CHECK(ptrace(PTRACE_SEIZE, pid, 0, 0) == 0);
  for (int again = 0; again < 3; again++) {
    CHECK(ptrace(PTRACE_INTERRUPT, pid, 0, 0) == 0);
    CHECK(stop_of(pid, STOP_MS) == (SIGTRAP | stopped));
    CHECK(ptrace(PTRACE_CONT, pid, 0, 0) == 0);
    CHECK(kill(pid, SIGSTOP) == 0);
    CHECK(stop_of(pid, STOP_MS) == SIGSTOP);
    CHECK(ptrace(PTRACE_CONT, pid, 0, SIGSTOP) == 0);
    goes_on_with_process(pid);
    CHECK(ptrace(PTRACE_CONT, pid, 0, 0) == 0);
    CHECK(stop_of(pid, STOP_MS) == SIGCONT);
    CHECK(ptrace(PTRACE_CONT, pid, 0, SIGCONT) == 0);
  }
  ends(pid);
}

static void is_seized_stopped(void (*loop)(void)) {
  pid_t pid = starts(loop);
  CHECK(kill(pid, SIGSTOP) == 0);
  int status;
  CHECK(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
  CHECK(ptrace(PTRACE_SEIZE, pid, 0, 0) == 0);
  goes_on_with_process(pid);
  CHECK(ptrace(PTRACE_DETACH, pid, 0, 0) == 0);
  ends(pid);
}

int main(void) {
  for (int round = 0; round < ROUNDS; round++) {
    for (int loop = 0; loop < 3; loop++) {
      stops_where_asked(loops[loop]);
      is_seized_stopped(loops[loop]);
    }
  }
  puts("all have stopped");
  return guest_ok();
}
