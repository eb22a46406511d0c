// Four megabytes through a pipe to a child and back, in odd sizes; the digest says that nothing was lost.
#include "../guest.h"

#define LEN (4 << 20)

int main(void) {
  static unsigned char data[LEN], got[LEN];
  int a[2], b[2];
  uint32_t x = 99;
  for (int i = 0; i < LEN; i++) data[i] = (unsigned char)((x = x * 1664525 + 1013904223) >> 24);
  CHECK(pipe(a) == 0 && pipe(b) == 0);
  pid_t filter = fork();
  if (filter == 0) {
    close(a[1]), close(b[0]);
    unsigned char buf[7777];
    ssize_t n;
    while ((n = read(a[0], buf, sizeof buf)) > 0) {
      for (ssize_t i = 0; i < n; i++) buf[i] ^= 0x55;
      for (ssize_t done = 0, w; done < n; done += w) CHECK((w = write(b[1], buf + done, (size_t)(n - done))) > 0);
    }
    _exit(0);
  }
  close(a[0]), close(b[1]);
  pid_t writer = fork();
  if (writer == 0) {
    for (size_t done = 0; done < LEN;) {
      size_t n = LEN - done < 50001 ? LEN - done : 50001;
      ssize_t w = write(a[1], data + done, n);
      CHECK(w > 0);
      done += (size_t)w;
    }
    _exit(0);
  }
  close(a[1]);
  size_t len = 0;
  ssize_t n;
  long reads = 0;
  while ((n = read(b[0], got + len, LEN - len)) > 0) len += (size_t)n, reads++;
  CHECK(len == LEN);
  for (int i = 0; i < LEN; i++) CHECK((got[i] ^ 0x55) == data[i]);
  check_exited(filter, 0), check_exited(writer, 0);
  printf("%ld reads, digest %lx\n", reads, digest(got, LEN));
  return guest_ok();
}
