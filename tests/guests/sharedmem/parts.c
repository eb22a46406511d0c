// Small parts of a large file are mapped shared, one after the other and several at once, by one process and by others,
// while the file is changed by calls and by stores: each part shows what the file has.
#include "../guest.h"

#define LEN (4ul << 20)
#define PART (8 * PAGE)

static int fd;

static void put(size_t at, const char *text) { CHECK(pwrite(fd, text, 4, at) == 4); }

static char *part(size_t at, size_t len, int prot) {
  char *m = mmap(NULL, len, prot, MAP_SHARED, fd, at);
  CHECK(m != MAP_FAILED);
  return m;
}

static void parts(const char *kind) {
  CHECK(ftruncate(fd, LEN) == 0);
  for (size_t at = 0; at < LEN; at += PAGE) put(at, "abcd");
  // One after the other: nobody else has the file mapped meanwhile.
  for (int i = 0; i < 20; i++) {
    char *m = part(i * PAGE, PART, PROT_READ | PROT_WRITE);
    CHECK(memcmp(m + PAGE, "abcd", 4) == 0 && m[0] == (i ? 'X' : 'a'));
    m[PAGE] = 'X';
    CHECK(munmap(m, PART) == 0);
    put(i * PAGE + 100, "efgh");
  }
  // Several at once, which overlap; changed by calls where nothing is mapped yet.
  char *first = part(64 * PAGE, PART, PROT_READ | PROT_WRITE);
  put(68 * PAGE, "ijkl");
  put(74 * PAGE, "mnop");
  char *second = part(66 * PAGE, 2 * PART, PROT_READ);
  CHECK(memcmp(second + 2 * PAGE, "ijkl", 4) == 0 && memcmp(second + 8 * PAGE, "mnop", 4) == 0);
  first[5 * PAGE] = 'Q';
  CHECK(second[3 * PAGE] == 'Q' && memcmp(second + PART + 3 * PAGE, "abcd", 4) == 0);
  // Another process maps other parts, and longer ones, and stores there.
  int ends[2];
  CHECK(pipe(ends) == 0);
  pid_t p = fork();
  if (p == 0) {
    char *third = part(200 * PAGE, PART, PROT_READ | PROT_WRITE);
    char *whole = part(0, LEN, PROT_READ | PROT_WRITE);
    CHECK(memcmp(third, "abcd", 4) == 0 && whole[69 * PAGE] == 'Q' && memcmp(whole + 300 * PAGE, "abcd", 4) == 0);
    memcpy(third + PAGE, "qrst", 4);
    memcpy(whole + 400 * PAGE, "uvwx", 4);
    CHECK(write(ends[1], "!", 1) == 1);
    _exit(0);
  }
  char c;
  CHECK(read(ends[0], &c, 1) == 1);
  char *fourth = part(201 * PAGE, PART, PROT_NONE);
  CHECK(mprotect(fourth, PART, PROT_READ) == 0 && memcmp(fourth, "qrst", 4) == 0);
  check_exited(p, 0);
  // Made longer, into what nobody has mapped, and beyond what was the end.
  char *longer = part(400 * PAGE, PAGE, PROT_READ | PROT_WRITE);
  longer = mremap(longer, PAGE, 3 * PART, MREMAP_MAYMOVE);
  CHECK(longer != MAP_FAILED && memcmp(longer, "uvwx", 4) == 0 && memcmp(longer + 2 * PART, "abcd", 4) == 0);
  CHECK(ftruncate(fd, LEN / 2 + 100) == 0 && ftruncate(fd, 2 * LEN) == 0);
  put(LEN + PAGE, "yz12");
  char *last = part(LEN / 2, PAGE, PROT_READ);
  CHECK(memcmp(last, "abcd", 4) == 0 && last[101] == 0);
  last = part(LEN, PART, PROT_READ);
  CHECK(last[0] == 0 && memcmp(last + PAGE, "yz12", 4) == 0);
  // What somebody has stored behind a file's end.
  CHECK(ftruncate(fd, LEN + 10) == 0);
  char *behind = part(LEN, PAGE, PROT_READ | PROT_WRITE);
  behind[50] = 'B';
  char *again = part(LEN, PAGE, PROT_READ);
  CHECK(again[50] == 'B');
  printf("%s: done\n", kind);
}

int main(void) {
  fd = open("f", O_CREAT | O_RDWR, 0600);
  CHECK(fd >= 0);
  parts("a file");
  CHECK(unlink("f") == 0);
  fd = memfd_create("m", 0);
  CHECK(fd >= 0);
  parts("one in memory");
  return guest_ok();
}
