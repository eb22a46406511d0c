// One read of a list of mappings gives whole records, as many as fit into a page, however large the buffer is.
#include "../guest.h"

static char text[1 << 20];

// How long a read is natively, if so much of its text is left: no record but the first fills the page.
static void check_reads(const char *path, const char *first_of_record) {
  int fd = open(path, O_RDONLY);
  CHECK(fd >= 0);
  ssize_t n, count = 0, total = 0;
  while ((n = read(fd, text, sizeof text - 1)) > 0) {
    text[n] = 0;
    CHECK(n < 4096 && text[n - 1] == '\n');
    unsigned long lo, hi;
    CHECK(sscanf(text, first_of_record, &lo, &hi) == 2);
    count++;
    total += n;
  }
  CHECK(n == 0 && close(fd) == 0);
  // No read is shorter than it must be: the next record of at most 1500 bytes would have filled the page.
  CHECK(count <= total / 2500 + 1);
}

int main(void) {
  for (int i = 0; i < 200; i++) {
    void *p = mmap(NULL, 4096, i % 2 ? PROT_READ : PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(p != MAP_FAILED);
  }
  check_reads("/proc/self/maps", "%lx-%lx");
  check_reads("/proc/self/smaps", "%lx-%lx");
  // A small buffer gets all that it has room for, in the middle of a line.
  int fd = open("/proc/self/maps", O_RDONLY);
  CHECK(read(fd, text, 10) == 10 && read(fd, text + 10, 300) == 300);
  CHECK(lseek(fd, 5, SEEK_SET) == 5 && read(fd, text + 500, 305) == 305 && memcmp(text + 5, text + 500, 305) == 0);
  CHECK(pread(fd, text + 1000, 310, 0) == 310 && memcmp(text, text + 1000, 310) == 0);
  return guest_ok();
}
