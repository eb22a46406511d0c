// vmsplice of user memory into a pipe and out of one; splice between pipes; tee.
#include "../guest.h"
#include <sys/uio.h>

int main(void) {
  int p[2], q[2];
  static char page[PAGE] __attribute__((aligned(PAGE)));
  char got[64] = "";
  CHECK(pipe(p) == 0 && pipe(q) == 0);
  strcpy(page, "from user memory");
  struct iovec v = {page, 17};
  CHECK(vmsplice(p[1], &v, 1, 0) == 17);
  CHECK(splice(p[0], NULL, q[1], NULL, 17, 0) == 17);
  CHECK(read(q[0], got, 64) == 17 && strcmp(got, "from user memory") == 0);
  CHECK(write(p[1], "into user memory", 17) == 17);
  v = (struct iovec){got, 64};
  memset(got, 0, sizeof got);
  CHECK(vmsplice(p[0], &v, 1, 0) == 17 && strcmp(got, "into user memory") == 0);
  CHECK_ERRNO(vmsplice(0, &v, 1, 0), EBADF);
  CHECK_ERRNO(splice(p[0], NULL, q[1], NULL, 1, SPLICE_F_NONBLOCK), EAGAIN);
  printf("%p\n", page);
  return guest_ok();
}
