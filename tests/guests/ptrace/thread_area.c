// A tracer is given its tracee's descriptors of thread-local storage (PTRACE_GET_THREAD_AREA): one that the
// tracee has set by a call of the 32-bit table, and empty ones. It sets another one (PTRACE_SET_THREAD_AREA), which
// the tracee then has.
#include "../guest.h"
#include <asm/ldt.h>
#include <sys/ptrace.h>

static const enum __ptrace_request get_thread_area = 25, set_thread_area = 26;
enum { SET_THREAD_AREA = 243, GET_THREAD_AREA = 244, OTHER_BASE = 0x54321000, FIRST = 12, BASE = 0x12345000 };

static int narrow_call(long nr, void *arg) {
  long result;
  __asm__ volatile("int $0x80" : "=a"(result) : "a"(nr), "b"(arg) : "memory", "r8", "r9", "r10", "r11");
  return (int)result;
}

static void tracee(int *told) {
  CHECK(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0);
  struct user_desc *desc =
      mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
  CHECK(desc != MAP_FAILED);
  *desc = (struct user_desc){.entry_number = -1, .base_addr = BASE, .limit = 0xfffff, .seg_32bit = 1, .useable = 1};
  CHECK(narrow_call(SET_THREAD_AREA, desc) == 0);
  *told = desc->entry_number;
  raise(SIGSTOP);
  desc->entry_number = FIRST + 1;
  CHECK(narrow_call(GET_THREAD_AREA, desc) == 0 && desc->base_addr == OTHER_BASE && desc->limit == 0x1234);
  _exit(3);
}

int main(void) {
  int *told = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(told != MAP_FAILED);
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) tracee(told);
  int status;
  CHECK(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
  for (long entry = FIRST; entry < FIRST + 3; entry++) {
    struct user_desc desc = {0};
    CHECK(ptrace(get_thread_area, pid, entry, &desc) == 0);
    CHECK((long)desc.entry_number == entry);
    CHECK(entry == *told ? desc.base_addr == BASE && desc.seg_32bit : desc.base_addr == 0 && desc.seg_not_present);
  }
  struct user_desc desc;
  CHECK_ERRNO(ptrace(get_thread_area, pid, FIRST - 1, &desc), EINVAL);
  CHECK_ERRNO(ptrace(get_thread_area, pid, FIRST + 3, &desc), EINVAL);
  struct user_desc other = {.base_addr = OTHER_BASE, .limit = 0x1234, .seg_32bit = 1, .useable = 1};
  CHECK(ptrace(set_thread_area, pid, (long)FIRST + 1, &other) == 0);
  CHECK(ptrace(get_thread_area, pid, (long)FIRST + 1, &desc) == 0 && desc.base_addr == OTHER_BASE);
  CHECK_ERRNO(ptrace(set_thread_area, pid, (long)FIRST + 3, &other), EINVAL);
  other.seg_not_present = 1;
  CHECK_ERRNO(ptrace(set_thread_area, pid, (long)FIRST + 1, &other), EINVAL);
  CHECK(ptrace(PTRACE_CONT, pid, 0, 0) == 0);
  check_exited(pid, 3);
  return guest_ok();
}
