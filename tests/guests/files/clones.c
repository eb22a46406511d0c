// calm: chaos shortens what it reads from pipes
// Large reads of files in every way: whole blocks and not, across the end, of holes, past the page cache, into vectors,
// of files that are overwritten, cut, or gone afterwards, and while somebody else writes. Where the trace is on a
// filesystem that clones blocks they are cloned (crates/bis/tests/cloning.rs runs this there); what the program sees
// must be the same everywhere. It prints sums of all that it read, of bytes that differ from run to run.
#include "../guest.h"

#include <sys/uio.h>

#define MIB (1024 * 1024)
#define LEN (3 * MIB + 1234)

static unsigned char *data, *buffer;
static uint64_t seed;

static uint64_t next(void) {
  seed ^= seed << 13;
  seed ^= seed >> 7;
  seed ^= seed << 17;
  return seed;
}

static uint64_t sum(const unsigned char *bytes, size_t len) {
  uint64_t h = 14695981039346656037u;
  for (size_t i = 0; i < len; i++) h = (h ^ bytes[i]) * 1099511628211u;
  return h;
}

// What was read is what the file has there, and replay must show the same.
static void expect(const char *what, size_t offset, ssize_t len, ssize_t wanted) {
  CHECK(len == wanted);
  CHECK(len <= 0 || memcmp(buffer, data + offset, len) == 0);
  printf("%s: %zd bytes, %016lx\n", what, len, sum(buffer, len));
  memset(buffer, 0x5a, LEN + PAGE);
}

static int make(const char *name) {
  int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
  CHECK(fd >= 0);
  CHECK(write(fd, data, LEN) == LEN);
  CHECK(lseek(fd, 0, SEEK_SET) == 0);
  return fd;
}

static void in_turn(int fd) {
  size_t offset = 0;
  for (size_t len = 64 * 1024; offset < LEN; len = len * 3 / 2 / 512 * 512) {
    ssize_t got = read(fd, buffer, len);
    expect("read", offset, got, len < LEN - offset ? len : LEN - offset);
    offset += got;
  }
  CHECK(read(fd, buffer, MIB) == 0);
}

static void at_places(int fd) {
  expect("whole blocks", MIB, pread(fd, buffer, MIB, MIB), MIB);
  expect("just enough", 4096, pread(fd, buffer, 65536, 4096), 65536);
  expect("too little", 4096, pread(fd, buffer, 65535, 4096), 65535);
  expect("between blocks", 100, pread(fd, buffer, MIB, 100), MIB);
  expect("one byte more", 1, pread(fd, buffer, 65536 + 4096, 1), 65536 + 4096);
  expect("to the end", 2 * MIB, pread(fd, buffer, 2 * MIB, 2 * MIB), LEN - 2 * MIB);
  expect("all", 0, pread(fd, buffer, LEN + PAGE, 0), LEN);
  CHECK(pread(fd, buffer, MIB, LEN + 5) == 0);
  // Into memory that ends too soon.
  unsigned char *edge = mmap(NULL, 2 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(edge != MAP_FAILED);
  CHECK(munmap(edge + MIB, MIB) == 0);
  ssize_t got = pread(fd, edge + MIB - 100 * 1024, MIB, 0);
  CHECK(got > 0 && got <= 100 * 1024);
  CHECK(memcmp(edge + MIB - 100 * 1024, data, got) == 0);
  printf("into an edge: %zd bytes\n", got);
}

static void into_vectors(int fd) {
  struct iovec three[] = {{buffer, 1000}, {buffer + 1000, 200 * 1024}, {buffer + 1000 + 200 * 1024, 300 * 1024}};
  expect("readv", 0, (lseek(fd, 0, SEEK_SET), readv(fd, three, 3)), 1000 + 500 * 1024);
  expect("preadv", 4096, preadv(fd, three, 3, 4096), 1000 + 500 * 1024);
  CHECK(lseek(fd, 8192, SEEK_SET) == 8192);
  expect("preadv2 at the position", 8192, preadv2(fd, three, 3, -1, 0), 1000 + 500 * 1024);
  // The second one lies over the first: what comes last stays.
  struct iovec twice[] = {{buffer, 200 * 1024}, {buffer + 4096, 200 * 1024}};
  CHECK(preadv(fd, twice, 2, 0) == 400 * 1024);
  CHECK(memcmp(buffer, data, 4096) == 0 && memcmp(buffer + 4096, data + 200 * 1024, 200 * 1024) == 0);
  printf("over itself: %016lx\n", sum(buffer, 204 * 1024));
}

static void holes(void) {
  int fd = open("holes", O_RDWR | O_CREAT | O_TRUNC, 0600);
  CHECK(fd >= 0);
  CHECK(pwrite(fd, data, 4096, 512 * 1024) == 4096);
  CHECK(ftruncate(fd, MIB) == 0);
  CHECK(pread(fd, buffer, 2 * MIB, 0) == MIB);
  for (int i = 0; i < MIB; i++)
    CHECK(buffer[i] == (i >= 512 * 1024 && i < 516 * 1024 ? data[i - 512 * 1024] : 0));
  printf("holes: %016lx\n", sum(buffer, MIB));
  close(fd);
}

// Past the page cache, where the filesystem can.
static void direct(void) {
  int fd = open("data", O_RDONLY | O_DIRECT);
  if (fd < 0) {
    CHECK(errno == EINVAL);
    return;
  }
  fsync(fd);
  ssize_t got = pread(fd, buffer, MIB, 0);
  if (got < 0) CHECK(errno == EINVAL);
  else expect("O_DIRECT", 0, got, MIB);
  close(fd);
}

// What changes a file afterwards does not change what was read.
static void changed_later(void) {
  int fd = make("later");
  expect("before", 0, pread(fd, buffer, MIB, 0), MIB);
  for (int i = 0; i < MIB; i++) data[i] ^= 0xff;
  CHECK(pwrite(fd, data, MIB, 0) == MIB);
  expect("overwritten", 0, pread(fd, buffer, MIB, 0), MIB);
  CHECK(ftruncate(fd, 100 * 1024) == 0);
  expect("cut", 0, pread(fd, buffer, MIB, 0), 100 * 1024);
  CHECK(unlink("later") == 0);
  expect("gone", 0, pread(fd, buffer, MIB, 0), 100 * 1024);
  close(fd);
}

// Two processes read through one position.
static void shared_position(void) {
  int fd = make("shared");
  pid_t child = fork();
  CHECK(child >= 0);
  for (;;) {
    ssize_t got = read(fd, buffer, 128 * 1024);
    CHECK(got >= 0);
    if (got == 0) break;
    printf("%s: %zd bytes, %016lx\n", child ? "parent" : "child", got, sum(buffer, got));
  }
  if (child == 0) _exit(0);
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  close(fd);
}

// Somebody writes while we read: a read may have some of both, and replay must show the same.
static void while_written(void) {
  int fd = make("written"), stop[2];
  CHECK(pipe(stop) == 0);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    close(stop[1]);
    CHECK(fcntl(stop[0], F_SETFL, O_NONBLOCK) == 0);
    char byte;
    for (unsigned n = 0; read(stop[0], &byte, 1) < 0; n++) {
      memset(data, n, MIB);
      CHECK(pwrite(fd, data, MIB, 0) == MIB);
    }
    _exit(0);
  }
  close(stop[0]);
  for (int i = 0; i < 25; i++) {
    CHECK(pread(fd, buffer, MIB, 0) == MIB);
    printf("while written: %016lx\n", sum(buffer, MIB));
  }
  close(stop[1]);
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  close(fd);
}

static void *reads(void *arg) {
  int fd = *(int *)arg;
  for (int i = 0; i < 5; i++) {
    unsigned char *own = malloc(MIB);
    CHECK(pread(fd, own, MIB, i * 4096) == MIB);
    CHECK(memcmp(own, data + i * 4096, MIB) == 0);
    free(own);
  }
  return NULL;
}

static void threads(int fd) {
  pthread_t two[2];
  for (int i = 0; i < 2; i++) CHECK(pthread_create(&two[i], NULL, reads, &fd) == 0);
  for (int i = 0; i < 2; i++) CHECK(pthread_join(two[i], NULL) == 0);
}

// Descriptors with no blocks, again and again under the same number.
static void not_of_files(void) {
  for (int i = 0; i < 3; i++) {
    int ends[2];
    CHECK(pipe(ends) == 0);
    for (int k = 0; k < 5; k++) {
      CHECK(write(ends[1], data, 4096 + k) == 4096 + k);
      expect("pipe", 0, read(ends[0], buffer, 128 * 1024), 4096 + k);
    }
    close(ends[0]);
    close(ends[1]);
    int again = open("data", O_RDONLY);
    expect("file", 0, read(again, buffer, 128 * 1024), 128 * 1024);
    close(again);
    int zero = open("/dev/zero", O_RDONLY);
    CHECK(read(zero, buffer, 128 * 1024) == 128 * 1024);
    CHECK(dup2(open("data", O_RDONLY), zero) == zero);
    expect("dup2", 0, read(zero, buffer, 128 * 1024), 128 * 1024);
    for (int fd = 3; fd < 32; fd++)
      if (fd >= zero) close(fd);
    int memory = memfd_create("clones", 0);
    CHECK(write(memory, data, MIB) == MIB);
    expect("memfd", 0, pread(memory, buffer, MIB, 0), MIB);
    close(memory);
  }
}

int main(void) {
  struct timespec now;
  CHECK(clock_gettime(CLOCK_REALTIME, &now) == 0);
  seed = now.tv_nsec | 1;
  data = malloc(LEN + PAGE);
  buffer = malloc(LEN + PAGE);
  CHECK(data && buffer);
  for (size_t i = 0; i < LEN; i += 8) {
    uint64_t word = next();
    memcpy(data + i, &word, 8);
  }
  int fd = make("data");
  in_turn(fd);
  at_places(fd);
  into_vectors(fd);
  threads(fd);
  holes();
  direct();
  not_of_files();
  changed_later();
  shared_position();
  while_written();
  return guest_ok();
}
