// sendfile, copy_file_range, splice and tee: the bytes arrive, offsets move as documented.
#include "../guest.h"
#include <sys/sendfile.h>

int main(void) {
  static char data[100000], got[100000];
  for (size_t i = 0; i < sizeof data; i++) data[i] = (char)(i * 7 + i / 256);
  make_file("in", data, sizeof data);
  int in = open("in", O_RDONLY), out = open("out", O_CREAT | O_RDWR, 0600);
  off_t at = 1000;
  CHECK(sendfile(out, in, &at, 5000) == 5000 && at == 6000);
  CHECK(lseek(in, 0, SEEK_CUR) == 0 && lseek(out, 0, SEEK_CUR) == 5000);
  CHECK(pread(out, got, 5000, 0) == 5000 && memcmp(got, data + 1000, 5000) == 0);
  loff_t from = 10, to = 0;
  ssize_t n = copy_file_range(in, &from, out, &to, 50000, 0);
  CHECK(n > 0 && from == 10 + n && to == n);
  CHECK(pread(out, got, n, 0) == n && memcmp(got, data + 10, n) == 0);
  int p[2], q[2];
  CHECK(pipe(p) == 0 && pipe(q) == 0);
  loff_t off = 77;
  ssize_t s = splice(in, &off, p[1], NULL, 4000, 0);
  CHECK(s > 0 && off == 77 + s);
  ssize_t t = tee(p[0], q[1], s, 0);
  CHECK(t > 0 && t <= s);
  CHECK(read(p[0], got, s) == s && memcmp(got, data + 77, s) == 0);
  CHECK(read(q[0], got, t) == t && memcmp(got, data + 77, t) == 0);
  CHECK(write(p[1], "spliced", 7) == 7);
  to = 3;
  CHECK(splice(p[0], NULL, out, &to, 100, 0) == 7 && to == 10);
  CHECK(pread(out, got, 7, 3) == 7 && memcmp(got, "spliced", 7) == 0);
  CHECK_ERRNO(splice(in, NULL, out, NULL, 10, 0), EINVAL);
  printf("copy %zd, splice %zd, tee %zd\n", n, s, t);
  return guest_ok();
}
