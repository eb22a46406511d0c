// What the guests with seccomp filters share: filters in one line, and calls that libc does not have.
#include "../guest.h"
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define LOAD_ARG(n) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args) + 8 * (n))
#define IS(k, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, k, yes, no)
#define ANSWER(k) BPF_STMT(BPF_RET | BPF_K, k)

// A call of this number gets this answer, all others are allowed.
#define ONE(call, answer) {LOAD(nr), IS(call, 0, 1), ANSWER(answer), ANSWER(SECCOMP_RET_ALLOW)}

#define INSTALL(code, flags) install(code, sizeof code / sizeof *code, flags)

static inline long install(struct sock_filter *code, size_t len, unsigned flags) {
  struct sock_fprog prog = {len, code};
  return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &prog);
}

static inline void give_up_privileges(void) { CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0); }

// The number after a name in /proc/thread-self/status.
static inline int status_of(const char *name) {
  char text[8192], *at;
  int fd = open("/proc/thread-self/status", O_RDONLY);
  CHECK(fd >= 0);
  ssize_t n = read(fd, text, sizeof text - 1);
  CHECK(n > 0 && close(fd) == 0);
  text[n] = 0;
  CHECK((at = strstr(text, name)));
  return atoi(at + strlen(name));
}
