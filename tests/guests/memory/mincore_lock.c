// mincore, mlock, mlock2, munlockall, and process_vm_readv and process_vm_writev on oneself and a child.
#include "../guest.h"
#include <sys/prctl.h>
#include <sys/uio.h>

int main(void) {
  char *m = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  unsigned char v[4] = {9, 9, 9, 9};
  m[PAGE] = 1;
  CHECK(mincore(m, 4 * PAGE, v) == 0 && (v[1] & 1));
  CHECK(mlock(m, PAGE) == 0 && munlock(m, PAGE) == 0);
  CHECK(munlockall() == 0);
  strcpy(m, "vm source");
  char got[32] = "";
  struct iovec l = {got, 10}, r = {m, 10};
  CHECK(process_vm_readv(getpid(), &l, 1, &r, 1, 0) == 10 && strcmp(got, "vm source") == 0);
  int up[2], down[2];
  CHECK(pipe(up) == 0 && pipe(down) == 0);
  pid_t child = fork();
  char c;
  if (child == 0) {
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    CHECK(write(up[1], "r", 1) == 1 && read(down[0], &c, 1) == 1);
    CHECK(strcmp(m, c == 'x' ? "changed it" : "vm source") == 0);
    _exit(0);
  }
  CHECK(read(up[0], &c, 1) == 1);
  strcpy(got, "changed it");
  l.iov_len = r.iov_len = 11;
  // Writing into another process may be forbidden (by a security module, or by a recorder).
  ssize_t sent = process_vm_writev(child, &l, 1, &r, 1, 0);
  CHECK(sent == 11 || (sent == -1 && errno == EPERM));
  CHECK(write(down[1], sent == 11 ? "x" : "n", 1) == 1);
  check_exited(child, 0);
  CHECK(strcmp(m, "vm source") == 0);
  printf("resident %d %d %d %d\n", v[0] & 1, v[1] & 1, v[2] & 1, v[3] & 1);
  return guest_ok();
}
