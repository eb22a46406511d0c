// Files are opened, cut and written again and again while others, and then they themselves, are mapped: what is mapped shows
// each change, and what is not is none of anybody's business.
#include "rounds.h"
#include <sys/sendfile.h>

#define LEN (2 * PAGE)

static int file(const char *name, int flags) {
  int fd = open(name, O_RDWR | O_CREAT | flags, 0600);
  CHECK(fd >= 0);
  return fd;
}

static void put(const char *name, int flags, char c) {
  char page[PAGE];
  memset(page, c, PAGE);
  int fd = file(name, flags);
  CHECK(write(fd, page, PAGE) == PAGE && pwrite(fd, page, PAGE, PAGE) == PAGE && close(fd) == 0);
}

static void check(int round) {
  char name[32];
  char c = (char)('a' + round);
  for (int i = 0; i < 5; i++) {
    snprintf(name, sizeof name, "free.%d", i);
    put(name, O_TRUNC, c);
    struct stat st;
    CHECK(stat(name, &st) == 0 && st.st_size == LEN);
  }
  put("shared", 0, 'x');
  int fd = file("shared", 0), one = file("own", O_TRUNC);
  char *shared = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  CHECK(ftruncate(one, LEN) == 0);
  char *own = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE, one, 0);
  CHECK(shared != MAP_FAILED && own != MAP_FAILED && shared[0] == 'x' && own[0] == 0);
  for (int i = 0; i < 4; i++) {
    put("shared", 0, (char)(c + i));
    CHECK(shared[1] == c + i && shared[LEN - 1] == c + i);
    // Cut, and written again, by its name, by another name, and by a link.
    put("shared", O_TRUNC, 'y');
    CHECK(shared[5] == 'y');
    if (i == 0 && round == 0) CHECK(link("shared", "other") == 0 && symlink("own", "link") == 0);
    int cut = open(i % 2 ? "other" : "shared", O_WRONLY | O_TRUNC);
    CHECK(cut >= 0 && ftruncate(cut, LEN) == 0 && shared[5] == 0 && pwrite(cut, "now", 3, 5) == 3);
    CHECK(shared[5] == 'n' && close(cut) == 0);
    shared[6] = 'O';
    char back;
    CHECK(pread(fd, &back, 1, 6) == 1 && back == 'O');
    put("link", i % 2 ? O_TRUNC : 0, (char)(c + i));
    CHECK(own[3] == c + i && own[LEN - 1] == c + i);
    CHECK_ERRNO(open("link", O_WRONLY | O_TRUNC | O_NOFOLLOW), ELOOP);
    CHECK_ERRNO(open("nowhere/at/all", O_WRONLY | O_TRUNC), ENOENT);
    CHECK_ERRNO(open((char *)8, O_WRONLY | O_TRUNC), EFAULT);
    CHECK_ERRNO(open(".", O_WRONLY | O_TRUNC), EISDIR);
    int from = open("free.1", O_RDONLY), to = open("free.2", O_WRONLY | O_TRUNC);
    CHECK(sendfile(to, from, NULL, LEN) == LEN && close(to) == 0);
    off_t start = 0;
    to = open("shared", O_WRONLY);
    ssize_t n = sendfile(to, from, &start, 10);
    if (n == 10) CHECK(shared[0] == c && shared[9] == c);
    else CHECK(n == -1 && errno == EINVAL);
    CHECK(close(to) == 0 && close(from) == 0);
    put("free.3", O_TRUNC | O_APPEND, 'A');
  }
  // One that is written through a descriptor which is older than its mapping.
  fd = file("later", O_TRUNC);
  for (int i = 0; i < 3; i++) CHECK(pwrite(fd, &c, 1, LEN - 1) == 1);
  char *later = mmap(NULL, LEN, PROT_READ, MAP_SHARED, fd, 0);
  CHECK(later != MAP_FAILED);
  for (int i = 0; i < 3; i++) {
    char d = (char)(c + i);
    CHECK(pwrite(fd, &d, 1, i) == 1 && later[i] == d);
  }
  CHECK(munmap(later, LEN) == 0 && munmap(shared, LEN) == 0 && munmap(own, LEN) == 0);
  printf("round %d: %ld %p\n", round, (long)now_ns(), (void *)shared);
}

int main(void) {
  rounds(check);
  return guest_ok();
}
