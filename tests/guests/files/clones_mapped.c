// Files that get another's blocks (FICLONE, FICLONERANGE) while they are mapped, shared and privately, by the process that
// asks for it and by one that does not. Where nothing is cloned, the same is copied; the first line says which it was.
#include "../guest.h"

#include <linux/fs.h>
#include <sys/ioctl.h>

#define LEN (16 * PAGE)

static char data[LEN];
static int to[2], back[2], made, refused;

// `in` from `from` on, `len` bytes (0: all there is), becomes what `out` has at `at`.
static void clone_part(int out, int in, size_t from, size_t len, size_t at) {
  struct file_clone_range range = {.src_fd = in, .src_offset = from, .src_length = len, .dest_offset = at};
  bool whole = !from && !len && !at;
  if ((whole ? ioctl(out, FICLONE, in) : ioctl(out, FICLONERANGE, &range)) == 0) {
    made++;
    return;
  }
  CHECK(errno == EOPNOTSUPP || errno == EXDEV || errno == ENOTTY || errno == EINVAL);
  refused++;
  if (len == 0) len = LEN - from;
  CHECK(pwrite(out, data + from, len, (off_t)at) == (ssize_t)len);
}

static int new_file(const char *name, size_t len) {
  int fd = open(name, O_CREAT | O_TRUNC | O_RDWR, 0600);
  CHECK(fd >= 0 && ftruncate(fd, (off_t)len) == 0);
  return fd;
}

static void child(int in, int out) {
  char c;
  CHECK(read(to[0], &c, 1) == 1);
  clone_part(out, in, 0, 0, 0);
  CHECK(write(back[1], "d", 1) == 1 && read(to[0], &c, 1) == 1);
  clone_part(out, in, 4 * PAGE, 2 * PAGE, PAGE);
  CHECK(write(back[1], "d", 1) == 1 && read(to[0], &c, 1) == 1);
  // From there to the source's end: the file gets longer.
  clone_part(out, in, 2 * PAGE, 0, 8 * PAGE);
  CHECK(write(back[1], made ? "c" : "d", 1) == 1);
  _exit(0);
}

static char step(void) {
  char c;
  CHECK(write(to[1], "g", 1) == 1 && read(back[0], &c, 1) == 1);
  return c;
}

int main(void) {
  for (size_t i = 0; i < LEN; i++) data[i] = (char)(i * 7 + i / 256 + 1);
  int in = new_file("in", 0), out = new_file("out", LEN);
  CHECK(write(in, data, LEN) == LEN && pipe(to) == 0 && pipe(back) == 0);
  pid_t pid = fork();
  if (pid == 0) child(in, out);
  char *shared = mmap(NULL, 2 * LEN, PROT_READ | PROT_WRITE, MAP_SHARED, out, 0);
  char *own = mmap(NULL, 2 * LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE, out, 0);
  CHECK(shared != MAP_FAILED && own != MAP_FAILED);
  char was[LEN];
  memset(was, 'x', LEN);
  CHECK(pwrite(out, was, LEN, 0) == LEN);
  own[5 * PAGE] = 'o';
  CHECK(own[0] == 'x' && own[LEN - 1] == 'x');

  // By the other process.
  step();
  CHECK(memcmp(shared, data, LEN) == 0 && memcmp(own, data, 5 * PAGE) == 0 && own[5 * PAGE] == 'o');
  CHECK(memcmp(own + 6 * PAGE, data + 6 * PAGE, LEN - 6 * PAGE) == 0);
  shared[0] = '1';
  step();
  CHECK(shared[0] == '1' && memcmp(shared + 1, data + 1, PAGE - 1) == 0);
  CHECK(memcmp(shared + PAGE, data + 4 * PAGE, 2 * PAGE) == 0 && memcmp(own + PAGE, data + 4 * PAGE, 2 * PAGE) == 0);
  CHECK(memcmp(shared + 3 * PAGE, data + 3 * PAGE, LEN - 3 * PAGE) == 0);
  bool cloned = step() == 'c';
  struct stat st;
  CHECK(fstat(out, &st) == 0 && st.st_size == 8 * PAGE + LEN - 2 * PAGE);
  CHECK(memcmp(shared + 8 * PAGE, data + 2 * PAGE, LEN - 2 * PAGE) == 0);
  CHECK(memcmp(own + 8 * PAGE, data + 2 * PAGE, LEN - 2 * PAGE) == 0);
  check_exited(pid, 0);

  // By this one, again and again by the same instructions; and into a file that nobody maps.
  int free_file = new_file("free", LEN);
  for (int i = 0; i < 6; i++) {
    memset(shared, i, LEN);
    clone_part(out, in, 0, 0, 0);
    CHECK(memcmp(shared, data, LEN) == 0);
    memset(shared, i, LEN);
    clone_part(out, in, 3 * PAGE, PAGE, 7 * PAGE);
    CHECK(memcmp(shared + 7 * PAGE, data + 3 * PAGE, PAGE) == 0 && shared[7 * PAGE - 1] == i && shared[8 * PAGE] == i);
    clone_part(free_file, in, 3 * PAGE, PAGE, 7 * PAGE);
    char got[PAGE];
    CHECK(pread(free_file, got, PAGE, 7 * PAGE) == PAGE && memcmp(got, data + 3 * PAGE, PAGE) == 0);
  }
  struct file_clone_range range = {.src_fd = in, .src_length = 77};
  CHECK(ioctl(out, FICLONERANGE, &range) == -1);
  range.src_fd = -1;
  CHECK_ERRNO(ioctl(out, FICLONERANGE, &range), EBADF);
  CHECK_ERRNO(ioctl(out, FICLONERANGE, (void *)8), EFAULT);
  CHECK(memcmp(shared + 7 * PAGE, data + 3 * PAGE, PAGE) == 0);
  // What both say already is only stored once from now on.
  struct file_dedupe_range *same = calloc(1, sizeof *same + sizeof same->info[0]);
  CHECK(same);
  same->src_length = PAGE, same->src_offset = 3 * PAGE, same->dest_count = 1;
  same->info[0].dest_fd = out, same->info[0].dest_offset = 7 * PAGE;
  if (ioctl(in, FIDEDUPERANGE, same) == 0) CHECK(same->info[0].status <= 0 || same->info[0].status == FILE_DEDUPE_RANGE_DIFFERS);
  CHECK(memcmp(shared + 7 * PAGE, data + 3 * PAGE, PAGE) == 0);
  free(same);
  printf("%s\n", cloned && !refused ? "cloned always" : made ? "cloned sometimes" : "cloned never");
  printf("%p %p %d\n", (void *)shared, (void *)own, made);
  return guest_ok();
}
