// process_vm_writev into a child: several pieces, a target that waits, one that computes and is then signalled, partial
// results, errors; and into one that execs.
#include "../guest.h"
#include <sys/prctl.h>
#include <sys/uio.h>

static char *m;
static volatile sig_atomic_t seen;

static void on_usr1(int sig) { seen = sig + m[2 * PAGE + 7]; }

int main(void) {
  m = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(mprotect(m + 3 * PAGE, PAGE, PROT_READ) == 0);
  memset(m, '.', 3 * PAGE);
  int up[2], down[2];
  char c;
  CHECK(pipe(up) == 0 && pipe(down) == 0);
  pid_t pid = fork();
  if (pid == 0) {
    on_signal(SIGUSR1, on_usr1, 0);
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    CHECK(write(up[1], "r", 1) == 1 && read(down[0], &c, 1) == 1);
    CHECK(memcmp(m + 10, "first second .", 14) == 0 && memcmp(m + PAGE, "third", 5) == 0);
    CHECK(write(up[1], "r", 1) == 1);
    // Nothing but computing until the signal comes: it brings the bytes with it.
    while (!seen) getppid();
    CHECK(seen == SIGUSR1 + 'S');
    CHECK(write(up[1], "r", 1) == 1 && read(down[0], &c, 1) == 1);
    CHECK(memcmp(m + 3 * PAGE - 3, "par", 3) == 0 && m[3 * PAGE] == 0);
    CHECK(write(up[1], "r", 1) == 1 && read(down[0], &c, 1) == 1);
    printf("target %llx\n", (unsigned long long)digest(m, 4 * PAGE));
    execlp("true", "true", NULL);
    _exit(127);
  }
  CHECK(read(up[0], &c, 1) == 1);
  char data[] = "first second third";
  struct iovec l[2] = {{data, 8}, {data + 8, 10}};
  struct iovec r[2] = {{m + 10, 12}, {m + PAGE, 6}};
  CHECK(memcmp(data + 13, "third", 5) == 0);
  l[1].iov_base = data + 8;
  r[0].iov_len = 13;
  r[1].iov_len = 5;
  CHECK(process_vm_writev(pid, l, 2, r, 2, 0) == 18);
  CHECK(write(down[1], "x", 1) == 1 && read(up[0], &c, 1) == 1);
  char s = 'S';
  l[0] = (struct iovec){&s, 1};
  r[0] = (struct iovec){m + 2 * PAGE + 7, 1};
  CHECK(process_vm_writev(pid, l, 1, r, 1, 0) == 1 && kill(pid, SIGUSR1) == 0);
  CHECK(read(up[0], &c, 1) == 1);
  // The kernel stops at what cannot be written: between pieces, and between pages.
  l[0] = (struct iovec){"partial", 7};
  r[0] = (struct iovec){m + 3 * PAGE - 3, 3};
  r[1] = (struct iovec){m + 3 * PAGE, 4};
  CHECK(process_vm_writev(pid, l, 1, r, 2, 0) == 3);
  CHECK_ERRNO(process_vm_writev(pid, l, 1, r + 1, 1, 0), EFAULT);
  CHECK_ERRNO(process_vm_writev(pid, l, 1, r, 1, 5), EINVAL);
  l[0].iov_base = (void *)8;
  CHECK_ERRNO(process_vm_writev(pid, l, 1, r, 1, 0), EFAULT);
  l[0].iov_len = 0;
  CHECK(process_vm_writev(pid, l, 1, r, 1, 0) == 0);
  CHECK(write(down[1], "x", 1) == 1 && read(up[0], &c, 1) == 1);
  CHECK(write(down[1], "x", 1) == 1);
  check_exited(pid, 0);
  l[0] = (struct iovec){data, 3};
  CHECK_ERRNO(process_vm_writev(pid, l, 1, r, 1, 0), ESRCH);
  for (int i = 0; i < 3 * PAGE; i++) CHECK(m[i] == '.');
  printf("%d %p\n", pid, (void *)m);
  return guest_ok();
}
