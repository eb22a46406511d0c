// Files copied as cp does it, again and again by the same instructions: cloned where the filesystem can, else by
// copy_file_range with offsets of its own and of the files; into files that are new, mapped, standard output and no files.
#include "../guest.h"

#include <linux/fs.h>
#include <sys/ioctl.h>

#define LEN 30000

static char data[LEN], got[LEN];

static void is(int fd, size_t len) {
  CHECK(pread(fd, got, LEN, 0) == (ssize_t)len && memcmp(got, data, len) == 0);
}

static ssize_t copy(int in, loff_t *from, int out, loff_t *to, size_t len) {
  return copy_file_range(in, from, out, to, len, 0);
}

int main(void) {
  for (size_t i = 0; i < LEN; i++) data[i] = (char)(i * 7 + i / 256);
  int in = open("in", O_CREAT | O_RDWR, 0600);
  CHECK(in >= 0 && write(in, data, LEN) == LEN);
  int cloned = 0;
  for (int i = 0; i < 20; i++) {
    int out = open("out", O_CREAT | O_TRUNC | O_RDWR, 0600);
    CHECK(out >= 0);
    if (ioctl(out, FICLONE, in) == 0) {
      cloned++;
      is(out, LEN);
    } else {
      CHECK(errno == EOPNOTSUPP || errno == EXDEV || errno == EINVAL || errno == ENOTTY);
    }
    CHECK(ftruncate(out, 0) == 0);
    CHECK(lseek(in, 0, SEEK_SET) == 0);
    CHECK(copy(in, NULL, out, NULL, 1 << 20) == LEN && copy(in, NULL, out, NULL, 1 << 20) == 0);
    is(out, LEN);
    loff_t from = 0, to = 100;
    CHECK(copy(in, &from, out, &to, 1000) == 1000 && from == 1000 && to == 1100);
    CHECK(pread(out, got, 1000, 100) == 1000 && memcmp(got, data, 1000) == 0);
    from = LEN;
    CHECK(copy(in, &from, out, &to, 1000) == 0 && from == LEN && to == 1100);
    from = -1;
    CHECK_ERRNO(copy(in, &from, out, &to, 1000), EOVERFLOW);
    CHECK_ERRNO(copy(in, (loff_t *)8, out, NULL, 1000), EFAULT);
    CHECK_ERRNO(copy(in, NULL, 999, NULL, 1000), EBADF);
    close(out);
  }
  // Where it is mapped, what is copied there is seen there.
  int out = open("mapped", O_CREAT | O_TRUNC | O_RDWR, 0600);
  CHECK(out >= 0 && ftruncate(out, LEN) == 0);
  char *map = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, out, 0);
  CHECK(map != MAP_FAILED);
  for (int i = 0; i < 5; i++) {
    memset(map, i, LEN);
    loff_t from = 0, to = 0;
    CHECK(copy(in, &from, out, &to, LEN) == LEN);
    CHECK(memcmp(map, data, LEN) == 0);
  }
  int ends[2];
  CHECK(pipe(ends) == 0);
  CHECK_ERRNO(copy(in, &(loff_t){0}, ends[1], NULL, 100), EINVAL);
  // The same number is another file now.
  int number = dup(out);
  CHECK(dup2(ends[1], number) == number);
  CHECK_ERRNO(copy(in, &(loff_t){0}, number, NULL, 100), EINVAL);
  printf("cloned %s\n", cloned == 20 ? "always" : cloned ? "sometimes" : "never");
  return guest_ok();
}
