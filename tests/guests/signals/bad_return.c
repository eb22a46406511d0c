// A return from a handler with a frame that is none: the kernel raises SIGSEGV at the end of the call, no instruction does.
#include "../guest.h"
#include <setjmp.h>

static sigjmp_buf back;
static volatile int saved;

static void save(int sig, siginfo_t *info, void *context) {
  (void)sig, (void)context;
  CHECK(info->si_code == SI_KERNEL && info->si_addr == NULL);
  saved++;
  siglongjmp(back, 1);
}

static void return_from(char *stack) {
  __asm__ volatile(
      "movq %0, %%rsp\n\t"
      "movl $15, %%eax\n\t"  // rt_sigreturn
      "syscall\n\t"
      "ud2"
      :
      : "r"(stack)
      : "memory", "rax", "rcx", "r11");
}

// How much of what the dynamic linker has left on the stack is under later frames depends on where that begins.
static void with_another_stack(char *program, int longer) {
  static char room[512] = "ROOM=";
  memset(room + 5, 'x', longer);
  pid_t child = fork();
  if (child == 0) CHECK(execve("/proc/self/exe", (char *[]){program, "again", NULL}, (char *[]){room, NULL}));
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
}

int main(int argc, char **argv) {
  if (argc == 1)
    for (int longer = 16; longer < 256; longer += 16) with_another_stack(argv[0], longer);
  char *alt = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(sigaltstack(&(stack_t){.ss_sp = alt, .ss_size = 1 << 16}, NULL) == 0);
  on_siginfo(SIGSEGV, save, SA_ONSTACK);
  char *none = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (int i = 0; i < 5; i++)
    if (sigsetjmp(back, 1) == 0) return_from(none + 64 * i);
  CHECK(saved == 5);
  // Nobody handles it.
  pid_t child = fork();
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL);
    return_from(none);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
  printf("%d times\n", saved);
  return guest_ok();
}
