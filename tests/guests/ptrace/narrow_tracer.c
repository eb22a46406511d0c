// cflags: -m32 -O1
// needs: /usr/lib32/crt1.o
// A 32-bit tracer of a 32-bit program: words of four bytes, its registers, signals and sets in the layout of 32-bit
// programs, calls by their own numbers, steps, a watch, thread-local storage, and a stop in a call that sleeps.
#include "../guest.h"
#include <asm/ldt.h>
#include <elf.h>
#include <stddef.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>

enum { GET_THREAD_AREA = 25, SET_THREAD_AREA = 26, FIRST_AREA = 12, AREAS = 3, BASE = 0x12345000 };

static volatile unsigned words[4] = {1, 2, 3, 4};
static volatile int watched;
static int *edge;

static long request(int what, pid_t pid, long addr, void *data) {
  errno = 0;
  return ptrace((enum __ptrace_request)what, pid, (void *)addr, data);
}

static void tracee(void) {
  CHECK(request(PTRACE_TRACEME, 0, 0, 0) == 0);
  long double half = 0.5L;
  // A number on the x87's stack, a register that the tracer changes, and a stop.
  int seen, pid = getpid(), tid = pid;
  __asm__ volatile("fldt %2\n\tint $0x80\n\tfstpt %2"
                   : "=a"(seen), "+b"(pid), "+m"(half)
                   : "a"(270), "c"(tid), "d"(SIGSTOP)
                   : "memory");
  CHECK(seen == 4711 && half == 0.25L);
  CHECK(words[1] == 0x22222222 && words[0] == 1 && words[2] == 3);
  CHECK(*edge == 77);
  // The descriptor that the tracer has set.
  struct user_desc desc = {.entry_number = FIRST_AREA + 2};
  CHECK(syscall(SYS_get_thread_area, &desc) == 0);
  CHECK(desc.base_addr == BASE && desc.limit == 0xfffff);
  // Calls that the tracer is told of.
  CHECK(syscall(SYS_getppid) == getppid());
  CHECK(syscall(SYS_close, -1) == -1 && errno == EBADF);
  for (int i = 0; i < 3; i++) watched = i + 5;
  pid_t grandchild = fork();
  CHECK(grandchild >= 0);
  if (grandchild == 0) _exit(6);
  check_exited(grandchild, 6);
  // A fault, which the tracer makes another address of.
  __asm__ volatile("movl $5, 0x40" ::: "memory");
  sleep(1000000);
  _exit(9);
}

static int goes(pid_t pid, int how) {
  int status;
  CHECK(request(how, pid, 0, 0) == 0);
  CHECK(waitpid(pid, &status, __WALL) == pid);
  return status;
}

static int stop_of(int status) {
  CHECK(WIFSTOPPED(status));
  return WSTOPSIG(status);
}

static struct user_regs_struct regs_of(pid_t pid) {
  struct user_regs_struct regs;
  CHECK(request(PTRACE_GETREGS, pid, 0, &regs) == 0);
  return regs;
}

static void changes_words(pid_t pid) {
  CHECK(request(PTRACE_PEEKDATA, pid, (long)&words[1], 0) == 2 && errno == 0);
  CHECK(request(PTRACE_POKEDATA, pid, (long)&words[1], (void *)0x22222222) == 0);
  CHECK(request(PTRACE_PEEKDATA, pid, (long)&words[1], 0) == 0x22222222);
  CHECK(request(PTRACE_PEEKDATA, pid, (long)&words[2], 0) == 3);
  // The last word of a mapping.
  CHECK(request(PTRACE_PEEKDATA, pid, (long)edge, 0) == 5);
  CHECK(request(PTRACE_POKEDATA, pid, (long)edge, (void *)77) == 0);
  CHECK(request(PTRACE_PEEKDATA, pid, (long)edge + 1, 0) == -1 && errno == EIO);
  unsigned copy[2] = {0};
  struct iovec to = {copy, sizeof copy}, from = {(void *)&words[0], sizeof copy};
  CHECK(process_vm_readv(pid, &to, 1, &from, 1, 0) == sizeof copy && copy[0] == 1 && copy[1] == 0x22222222);
}

static void changes_registers(pid_t pid) {
  struct user_regs_struct regs = regs_of(pid);
  CHECK(regs.xcs == 0x23 && regs.orig_eax == 270 && regs.edx == SIGSTOP && regs.eax == 0);
  CHECK(request(PTRACE_PEEKUSER, pid, offsetof(struct user, regs.edx), 0) == SIGSTOP);
  CHECK(request(PTRACE_PEEKUSER, pid, offsetof(struct user, regs.eip), 0) == regs.eip);
  CHECK(request(PTRACE_PEEKUSER, pid, 2, 0) == -1 && errno == EIO);
  CHECK(request(PTRACE_PEEKUSER, pid, sizeof(struct user) + 4, 0) == -1 && errno == EIO);
  regs.eax = 4712;
  CHECK(request(PTRACE_SETREGS, pid, 0, &regs) == 0);
  CHECK(regs_of(pid).eax == 4712);
  CHECK(request(PTRACE_POKEUSER, pid, offsetof(struct user, regs.eax), (void *)4711) == 0);
  CHECK(regs_of(pid).eax == 4711 && regs_of(pid).ebx == regs.ebx);

  unsigned char set[4096];
  struct iovec iov = {set, sizeof set};
  CHECK(request(PTRACE_GETREGSET, pid, NT_PRSTATUS, &iov) == 0 && iov.iov_len == sizeof regs);
  regs.eax = 4711;
  CHECK(memcmp(set, &regs, sizeof regs) == 0);
  CHECK(request(PTRACE_SETREGSET, pid, NT_PRSTATUS, &iov) == 0 && iov.iov_len == sizeof regs);

  struct user_fpregs_struct fp;
  CHECK(request(PTRACE_GETFPREGS, pid, 0, &fp) == 0);
  long double top = 0;
  memcpy(&top, fp.st_space, 10);
  CHECK(top == 0.5L && (fp.cwd & 0xffff) == 0x37f && (fp.swd >> 11 & 7) == 7 && (fp.twd & 0xffff) == 0x3fff);
  iov = (struct iovec){set, sizeof set};
  CHECK(request(PTRACE_GETREGSET, pid, NT_PRFPREG, &iov) == 0 && iov.iov_len == sizeof fp);
  CHECK(memcmp(set, &fp, sizeof fp) == 0);
  top = 0.25L;
  memcpy(fp.st_space, &top, 10);
  CHECK(request(PTRACE_SETFPREGS, pid, 0, &fp) == 0);
  struct user_fpxregs_struct fpx;
  CHECK(request(PTRACE_GETFPXREGS, pid, 0, &fpx) == 0);
  top = 0;
  memcpy(&top, fpx.st_space, 10);
  CHECK(top == 0.25L && fpx.twd == 0x80 && fpx.mxcsr == 0x1f80);
  iov = (struct iovec){set, sizeof set};
  CHECK(request(PTRACE_GETREGSET, pid, NT_X86_XSTATE, &iov) == 0 && iov.iov_len >= 576);
}

static void changes_area(pid_t pid) {
  struct user_desc desc = {.base_addr = BASE, .limit = 0xfffff, .seg_32bit = 1, .limit_in_pages = 1, .useable = 1};
  CHECK(request(SET_THREAD_AREA, pid, FIRST_AREA + 2, &desc) == 0);
  struct user_desc told = {0};
  CHECK(request(GET_THREAD_AREA, pid, FIRST_AREA + 2, &told) == 0);
  CHECK(told.entry_number == FIRST_AREA + 2 && told.base_addr == BASE && told.limit_in_pages);
  CHECK_ERRNO(request(SET_THREAD_AREA, pid, FIRST_AREA + AREAS, &desc), EINVAL);
  CHECK_ERRNO(request(SET_THREAD_AREA, pid, -1, &desc), EIO);
  desc.seg_32bit = 0;
  CHECK_ERRNO(request(SET_THREAD_AREA, pid, FIRST_AREA + 2, &desc), EINVAL);
}

static void hears_of_calls(pid_t pid) {
  int nr = 0;
  while (nr != SYS_close) {
    CHECK(stop_of(goes(pid, PTRACE_SYSCALL)) == (SIGTRAP | 0x80));
    struct user_regs_struct entry = regs_of(pid);
    CHECK(entry.eax == -ENOSYS);
    struct __ptrace_syscall_info info;
    CHECK(request(PTRACE_GET_SYSCALL_INFO, pid, sizeof info, &info) > 0);
    CHECK(info.op == PTRACE_SYSCALL_INFO_ENTRY && info.arch == 0x40000003 && info.entry.nr == (unsigned)entry.orig_eax);
    CHECK(stop_of(goes(pid, PTRACE_SYSCALL)) == (SIGTRAP | 0x80));
    struct user_regs_struct exit = regs_of(pid);
    nr = exit.orig_eax;
    CHECK(nr == entry.orig_eax);
    CHECK(request(PTRACE_GET_SYSCALL_INFO, pid, sizeof info, &info) > 0);
    CHECK(info.op == PTRACE_SYSCALL_INFO_EXIT && info.exit.rval == exit.eax && info.exit.is_error == (exit.eax < 0));
    printf("call %d: %ld\n", nr, exit.eax);
    if (nr == SYS_getppid) CHECK(exit.eax == getpid());
    if (nr == SYS_close) CHECK(exit.eax == -EBADF);
  }
}

static void watches(pid_t pid) {
  CHECK(request(PTRACE_POKEUSER, pid, offsetof(struct user, u_debugreg[0]), (void *)&watched) == 0);
  CHECK(request(PTRACE_POKEUSER, pid, offsetof(struct user, u_debugreg[7]), (void *)0xd0001) == 0);
  for (int i = 0; i < 3; i++) {
    CHECK(stop_of(goes(pid, PTRACE_CONT)) == SIGTRAP);
    CHECK(request(PTRACE_PEEKDATA, pid, (long)&watched, 0) == i + 5);
    CHECK(request(PTRACE_PEEKUSER, pid, offsetof(struct user, u_debugreg[6]), 0) & 1);
  }
  CHECK(request(PTRACE_POKEUSER, pid, offsetof(struct user, u_debugreg[7]), 0) == 0);
  long eip = regs_of(pid).eip;
  for (int i = 0; i < 5; i++) {
    CHECK(stop_of(goes(pid, PTRACE_SINGLESTEP)) == SIGTRAP);
    printf("step to %#lx\n", regs_of(pid).eip - eip);
  }
}

int main(void) {
  char *pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(pages != MAP_FAILED && munmap(pages + PAGE, PAGE) == 0);
  edge = (int *)(pages + PAGE) - 1;
  *edge = 5;
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) tracee();
  int status;
  CHECK(waitpid(pid, &status, 0) == pid && stop_of(status) == SIGSTOP);
  CHECK(request(PTRACE_SETOPTIONS, pid, 0, (void *)(PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK)) == 0);
  siginfo_t info;
  CHECK(request(PTRACE_GETSIGINFO, pid, 0, &info) == 0 && info.si_signo == SIGSTOP && info.si_pid == pid);
  changes_words(pid);
  changes_registers(pid);
  changes_area(pid);
  hears_of_calls(pid);
  watches(pid);

  status = goes(pid, PTRACE_CONT);
  CHECK(status >> 8 == (SIGTRAP | PTRACE_EVENT_FORK << 8));
  unsigned long message[2] = {0, 7};
  CHECK(request(PTRACE_GETEVENTMSG, pid, 0, message) == 0 && message[1] == 7);
  pid_t grandchild = message[0];
  CHECK(waitpid(grandchild, &status, __WALL) == grandchild && stop_of(status) == SIGSTOP);
  CHECK(request(PTRACE_DETACH, grandchild, 0, 0) == 0);
  CHECK(stop_of(goes(pid, PTRACE_CONT)) == SIGCHLD);

  CHECK(stop_of(goes(pid, PTRACE_CONT)) == SIGSEGV);
  CHECK(request(PTRACE_GETSIGINFO, pid, 0, &info) == 0 && info.si_addr == (void *)0x40);
  // Past the instruction, whose ten bytes have its operands.
  CHECK(request(PTRACE_POKEUSER, pid, offsetof(struct user, regs.eip), (void *)(regs_of(pid).eip + 10)) == 0);
  CHECK(request(PTRACE_DETACH, pid, 0, 0) == 0);
  CHECK(request(PTRACE_SEIZE, pid, 0, (void *)PTRACE_O_TRACESYSGOOD) == 0);
  // It sleeps; the call, which its tracer interrupts, is its own and not one that is made in its place.
  char state = 0, path[64];
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  while (state != 'S') {
    FILE *stat = fopen(path, "r");
    CHECK(stat && fscanf(stat, "%*d %*s %c", &state) == 1);
    fclose(stat);
  }
  CHECK(request(PTRACE_INTERRUPT, pid, 0, 0) == 0);
  CHECK(waitpid(pid, &status, 0) == pid && status >> 8 == (SIGTRAP | 128 << 8));
  struct user_regs_struct regs = regs_of(pid);
  printf("stopped in call %ld: %ld\n", regs.orig_eax, regs.eax);
  CHECK(regs.xcs == 0x23 && regs.eax == -516 && (regs.orig_eax == 407 || regs.orig_eax == SYS_clock_nanosleep || regs.orig_eax == SYS_nanosleep));
  CHECK(request(PTRACE_PEEKUSER, pid, offsetof(struct user, regs.esp), 0) == regs.esp);
  CHECK(request(PTRACE_PEEKTEXT, pid, regs.eip - 2, 0) != -1 || errno == 0);
  CHECK(kill(pid, SIGKILL) == 0);
  check_killed(pid, SIGKILL);
  return guest_ok();
}
