// A tracer writes to its tracee by process_vm_writev: what the tracee does next finds that, be it the call in front of
// which it stands or an instruction, and so does whoever reads it meanwhile.
#include "stepping.h"
#include <sys/uio.h>

static char name[32] = "there-is-no-such-file";
static volatile long number = 1;
// Text that the tracer changes: `mov $5, %eax; ret`.
static unsigned char *code;

static int tracee(void) {
  CHECK(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0);
  raise(SIGSTOP);
  // In front of it the name becomes another one.
  int fd = (int)syscall(SYS_open, name, O_RDONLY);
  CHECK(fd >= 0 && close(fd) == 0);
  __asm__ volatile("int3" ::: "memory");
  CHECK(number == 77);
  int got = ((int (*)(void))code)();
  __asm__ volatile("int3" ::: "memory");
  got += ((int (*)(void))code)();
  _exit(got);
}

static void write_to(pid_t pid, volatile void *to, const void *from, size_t len) {
  struct iovec local = {(void *)from, len}, remote = {(void *)to, len};
  CHECK(process_vm_writev(pid, &local, 1, &remote, 1, 0) == (ssize_t)len);
  char back[64];
  CHECK(len <= sizeof back);
  local.iov_base = back;
  CHECK(process_vm_readv(pid, &local, 1, &remote, 1, 0) == (ssize_t)len && memcmp(back, from, len) == 0);
}

int main(void) {
  code = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(code != MAP_FAILED && mprotect(code + PAGE, PAGE, PROT_READ) == 0);
  memcpy(code, "\xb8\x05\0\0\0\xc3", 6);
  int fd = open("file", O_CREAT | O_WRONLY, 0600);
  CHECK(fd >= 0 && close(fd) == 0);
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) return tracee();
  CHECK(wait_stop(pid) == SIGSTOP);
  CHECK(ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACESYSGOOD) == 0);
  do {
    CHECK(ptrace(PTRACE_SYSCALL, pid, 0, 0) == 0 && wait_stop(pid) == (SIGTRAP | 0x80));
  } while (regs_of(pid).orig_rax != SYS_open);
  write_to(pid, name, "file", 5);
  go_to_trap(pid);
  write_to(pid, &number, &(long){77}, sizeof number);
  write_to(pid, code + 1, "\x07", 1);
  go_to_trap(pid);
  write_to(pid, code + 1, "\x23", 1);
  // What cannot be written: the second half of this.
  struct iovec local = {code, 32}, remote = {(char *)code + PAGE - 16, 32};
  CHECK(process_vm_writev(pid, &local, 1, &remote, 1, 0) == 16);
  remote.iov_base = code + PAGE;
  CHECK_ERRNO(process_vm_writev(pid, &local, 1, &remote, 1, 0), EFAULT);
  CHECK(ptrace(PTRACE_CONT, pid, 0, 0) == 0);
  check_exited(pid, 7 + 35);
  return guest_ok();
}
