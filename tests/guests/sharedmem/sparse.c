// Memory and files of 64 GB of which a few pages are used, as runtimes, databases and sanitizers have them: what is
// done with them takes the time and memory of what is used.
// unsummed: checksums read all memory that is shared
#include "../guest.h"
#include <sys/shm.h>

#define LEN ((size_t)64 << 30)

static void *must_map(size_t len, int flags, int fd) {
  void *at = mmap(NULL, len, PROT_READ | PROT_WRITE, flags, fd, 0);
  CHECK(at != MAP_FAILED);
  return at;
}

// A child sees what is there, and the parent what the child stores.
static void with_child(volatile char *m) {
  for (int i = 0; i < 8; i++) m[i * (LEN / 8)] = 'a' + i;
  pid_t pid = fork();
  if (pid == 0) {
    for (int i = 0; i < 8; i++) CHECK(m[i * (LEN / 8)] == 'a' + i);
    m[LEN - 1] = 'z';
    _exit(0);
  }
  check_exited(pid, 0);
  CHECK(m[LEN - 1] == 'z' && m[LEN / 3] == 0);
}

// Two mappings of one file, and a private one that follows it.
static void file_twice(int fd) {
  CHECK(ftruncate(fd, (off_t)LEN) == 0 && pwrite(fd, "early", 5, LEN / 2) == 5);
  volatile char *a = must_map(LEN, MAP_SHARED, fd), *b = must_map(LEN, MAP_SHARED, fd);
  volatile char *private = must_map(2 * LEN, MAP_PRIVATE | MAP_NORESERVE, fd);
  CHECK(a[LEN / 2] == 'e' && private[LEN / 2 + 1] == 'a');
  a[5] = 'x';
  CHECK(b[5] == 'x');
  with_child(a);
  CHECK(pwrite(fd, "call", 4, 3 * (LEN / 4)) == 4 && b[3 * (LEN / 4) + 1] == 'a' && private[3 * (LEN / 4)] == 'c');
  CHECK(ftruncate(fd, 2 * (off_t)LEN) == 0 && pwrite(fd, "late", 4, LEN + LEN / 2) == 4);
  CHECK(private[LEN + LEN / 2] == 'l' && private[LEN + 1] == 0);
  CHECK(ftruncate(fd, PAGE) == 0 && ftruncate(fd, (off_t)LEN) == 0 && b[3 * (LEN / 4)] == 0 && a[5] == 'x');
  b[LEN / 4] = 'h';
  CHECK(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, LEN / 2) == 0);
  CHECK(a[LEN / 4] == 0 && a[5] == 0 && private[LEN / 4] == 0);
  CHECK(munmap((void *)a, LEN) == 0 && munmap((void *)b, LEN) == 0 && munmap((void *)private, 2 * LEN) == 0);
}

static char zeros[(size_t)1 << 30];

int main(void) {
  CHECK(zeros[sizeof zeros / 2] == 0);
  volatile char *m = must_map(LEN, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1);
  with_child(m);
  CHECK(munmap((void *)m, LEN) == 0);

  int fd = memfd_create("sparse", MFD_CLOEXEC);
  CHECK(fd >= 0);
  file_twice(fd);
  int file = open("sparse", O_CREAT | O_RDWR, 0600);
  CHECK(file >= 0);
  file_twice(file);

  int id = shmget(IPC_PRIVATE, LEN, IPC_CREAT | SHM_NORESERVE | 0600);
  CHECK(id >= 0);
  m = shmat(id, NULL, 0);
  CHECK(m != (void *)-1 && shmctl(id, IPC_RMID, NULL) == 0);
  with_child(m);
  CHECK(shmdt((void *)m) == 0);

  // Private: reserved and used here and there, given back, grown.
  m = must_map(LEN, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
  m[0] = m[LEN / 2] = m[LEN - 1] = 'p';
  pid_t pid = fork();
  if (pid == 0) {
    CHECK(m[LEN - 1] == 'p' && m[LEN / 3] == 0);
    _exit(0);
  }
  check_exited(pid, 0);
  CHECK(madvise((void *)m, LEN, MADV_DONTNEED) == 0 && m[LEN - 1] == 0);
  m[LEN / 2] = 'q';
  m = mremap((void *)m, LEN, 2 * LEN, MREMAP_MAYMOVE);
  CHECK(m != MAP_FAILED && m[LEN / 2] == 'q' && m[LEN + LEN / 2] == 0);
  CHECK(munmap((void *)m, 2 * LEN) == 0);
  return guest_ok();
}
