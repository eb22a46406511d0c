// A file is mapped shared by one process while another, which does not map it, changes it by calls that show the data
// to nobody: sendfile, copy_file_range, fallocate, open with O_TRUNC; and at its end: O_APPEND, RWF_APPEND.
#include "../guest.h"
#include <sys/sendfile.h>
#include <sys/uio.h>

#define LEN (8 * PAGE)
static volatile char *m;
static int to[2], back[2];

static void step(void) {
  char c;
  CHECK(write(to[1], "g", 1) == 1 && read(back[0], &c, 1) == 1);
}

static void done(void) {
  char c;
  CHECK(write(back[1], "d", 1) == 1 && read(to[0], &c, 1) == 1);
}

// Programs fall back where the kernel cannot do it for these files.
static bool fell_back(ssize_t n) {
  if (n >= 0) return false;
  CHECK(errno == EINVAL || errno == EXDEV || errno == EOPNOTSUPP || errno == ENOSYS);
  return true;
}

static void child(void) {
  char c, big[300];
  int f = open("f", O_RDWR), g = open("g", O_RDWR), a = open("f", O_WRONLY | O_APPEND);
  CHECK(munmap((void *)m, LEN) == 0 && f >= 0 && g >= 0 && a >= 0);
  for (int i = 0; i < 300; i++) big[i] = (char)('A' + i % 26);
  CHECK(pwrite(g, big, 300, 0) == 300);
  CHECK(read(to[0], &c, 1) == 1);

  loff_t in = 1, out = 100;
  if (fell_back(copy_file_range(g, &in, f, &out, 200, 0))) CHECK(pwrite(f, big + 1, 200, 100) == 200);
  else CHECK(in == 201 && out == 300);
  done();
  CHECK(lseek(f, PAGE, SEEK_SET) == PAGE && lseek(g, 2, SEEK_SET) == 2);
  if (fell_back(copy_file_range(g, NULL, f, NULL, 50, 0))) CHECK(write(f, big + 2, 50) == 50);
  CHECK(lseek(f, 0, SEEK_CUR) == PAGE + 50);
  done();
  off_t from = 3;
  if (fell_back(sendfile(f, g, &from, 60))) CHECK(write(f, big + 3, 60) == 60);
  CHECK(lseek(f, 0, SEEK_CUR) == PAGE + 110);
  done();
  if (fallocate(f, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 110, 10) == -1) {
    CHECK(errno == EOPNOTSUPP);
    CHECK(pwrite(f, (char[10]){0}, 10, 110) == 10);
  }
  done();
  CHECK(ftruncate(f, 2 * PAGE) == 0);
  CHECK(write(a, "appended", 8) == 8 && pwrite(a, "again", 5, 0) >= 0);
  struct iovec v = {"flag", 4};
  CHECK(pwritev2(f, &v, 1, 0, RWF_APPEND) == 4);
  CHECK(lseek(f, 0, SEEK_END) == 2 * PAGE + 17);
  done();
  int t = open("f", O_WRONLY | O_TRUNC);
  CHECK(t >= 0 && ftruncate(t, LEN) == 0);
  done();
  CHECK(truncate("f", 10) == 0 && fallocate(f, 0, 0, LEN) == 0 && pwrite(t, "end", 3, LEN - 3) == 3);
  CHECK(write(back[1], "d", 1) == 1);
  _exit(0);
}

int main(void) {
  int fd = open("f", O_CREAT | O_RDWR, 0600), g = open("g", O_CREAT | O_RDWR, 0600);
  CHECK(ftruncate(fd, LEN) == 0 && g >= 0 && pipe(to) == 0 && pipe(back) == 0);
  m = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  CHECK(m != MAP_FAILED);
  pid_t pid = fork();
  if (pid == 0) child();
  m[0] = 'x';
  CHECK(m[100] == 0);
  step();
  CHECK(m[99] == 0 && m[100] == 'B' && m[299] == 'A' + 200 % 26 && m[300] == 0 && m[PAGE] == 0);
  step();
  CHECK(m[PAGE] == 'C' && m[PAGE + 49] == 'A' + 51 % 26 && m[PAGE + 50] == 0);
  step();
  CHECK(m[PAGE + 50] == 'D' && m[PAGE + 109] == 'A' + 62 % 26 && m[PAGE + 110] == 0);
  m[110] = '!';
  step();
  CHECK(m[109] == 'A' + 10 && m[110] == 0 && m[119] == 0 && m[120] == 'A' + 21);
  step();
  CHECK(memcmp((void *)(m + 2 * PAGE), "appendedagainflag", 18) == 0);
  uint64_t all = digest((void *)m, 3 * PAGE);
  step();
  CHECK(m[0] == 0 && m[100] == 0 && m[PAGE] == 0);
  m[5] = 'k';
  m[15] = 'l';
  step();
  CHECK(m[5] == 'k' && m[15] == 0 && memcmp((void *)(m + LEN - 3), "end", 3) == 0);
  check_exited(pid, 0);
  printf("%p %llx\n", (void *)m, (unsigned long long)all);
  return guest_ok();
}
