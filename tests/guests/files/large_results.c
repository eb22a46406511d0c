// Results that are larger than what is recorded at once: a file of 40 MB by a loop of reads that each ask for all of
// it, by readv into buffers that begin anywhere, and by pread while another thread runs and waits in turns.
// unsummed: at each event, 120 MB
#include "../guest.h"

#include <stdatomic.h>
#include <sys/uio.h>

enum { LEN = 40 << 20 };
static unsigned char *src, *dst;
static int fd;

static unsigned char *anonymous(size_t len) {
  unsigned char *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(p != MAP_FAILED);
  return p;
}

static void by_loop(void) {
  size_t got = 0;
  int calls = 0;
  for (;; calls++) {
    ssize_t n = read(fd, dst + got, LEN - got + 1);
    CHECK(n >= 0);
    if (n == 0) break;
    got += n;
  }
  CHECK(got == LEN && memcmp(src, dst, LEN) == 0);
  printf("read: %d calls, digest %lx\n", calls, digest(dst, LEN));
}

static void by_vector(void) {
  memset(dst, 0, LEN);
  struct iovec v[] = {{dst + 1, 5000001}, {dst + 5000009, 7}, {dst + 6000000, 9 << 20}, {dst + (30 << 20), 100}};
  ssize_t want = 5000001 + 7 + (9 << 20) + 100;
  CHECK(preadv(fd, v, 4, 12345) == want);
  size_t at = 12345;
  for (int i = 0; i < 4; at += v[i++].iov_len) CHECK(memcmp(v[i].iov_base, src + at, v[i].iov_len) == 0);
  CHECK(dst[0] == 0 && dst[5000002] == 0 && dst[(30 << 20) + 100] == 0);
  printf("preadv: digest %lx\n", digest(dst, LEN));
}

static atomic_bool done;

static void *restless(void *arg) {
  long *rounds = arg;
  for (; !done; ++*rounds) sleep_ms(1);
  return NULL;
}

static void beside_a_thread(void) {
  long rounds = 0;
  pthread_t t = start_thread(restless, &rounds);
  // Small enough to be moved to scratch memory, and too large for that.
  size_t lens[] = {3 << 20, (12 << 20) + 5, 33 << 20};
  for (int i = 0; i < 3; i++) {
    memset(dst, 0, LEN);
    CHECK(pread(fd, dst + 3, lens[i], 777) == (ssize_t)lens[i]);
    CHECK(memcmp(dst + 3, src + 777, lens[i]) == 0 && dst[2] == 0 && dst[3 + lens[i]] == 0);
    printf("pread of %zu: digest %lx\n", lens[i], digest(dst, LEN));
    sleep_ms(2);
  }
  done = true;
  join_thread(t);
  printf("the other thread: %ld rounds\n", rounds);
}

// From a pipe, which has less at a time, in more than one piece.
static void by_pipe(void) {
  int p[2];
  CHECK(pipe(p) == 0);
  int size = fcntl(p[1], F_SETPIPE_SZ, 1 << 20);
  CHECK(size > 0 || errno == EPERM);
  pid_t child = fork();
  if (child == 0) {
    close(p[0]);
    for (size_t at = 0; at < LEN;) {
      ssize_t n = write(p[1], src + at, LEN - at);
      CHECK(n > 0);
      at += n;
    }
    _exit(0);
  }
  close(p[1]);
  memset(dst, 0, LEN);
  size_t got = 0;
  for (ssize_t n; (n = read(p[0], dst + got, LEN)) > 0;) got += n;
  CHECK(got == LEN && memcmp(src, dst, LEN) == 0);
  check_exited(child, 0);
}

int main(void) {
  src = anonymous(LEN);
  dst = anonymous(2 * LEN);
  uint32_t x = (uint32_t)now_ns();
  for (size_t i = 0; i < LEN; i += 4) {
    x = x * 1664525 + 1013904223;
    memcpy(src + i, &x, 4);
  }
  make_file("f", src, LEN);
  fd = open("f", O_RDONLY);
  CHECK(fd >= 0);
  by_loop();
  by_vector();
  beside_a_thread();
  by_pipe();
  return guest_ok();
}
