// A read into a buffer of which a part is there comes to its end while other threads compute: what it brings is seen when it has
// returned.
#include "../guest.h"

static volatile bool ends;

static void *compute(void *arg) {
  // It is stopped wherever it is, and looks at the buffer all the time.
  unsigned sum = 0;
  while (!ends) sum = sum * 31 + ((unsigned char *)arg)[PAGE - 3];
  return (void *)(uintptr_t)sum;
}

int main(void) {
  char *page = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(page != MAP_FAILED && mprotect(page + PAGE, PAGE, PROT_NONE) == 0);
  int file = open("data", O_RDWR | O_CREAT, 0600), ends_of[2];
  char data[256];
  for (size_t i = 0; i < sizeof data; i++) data[i] = (char)i;
  CHECK(file >= 0 && write(file, data, sizeof data) == sizeof data && pipe(ends_of) == 0);
  pthread_t threads[2];
  for (int i = 0; i < 2; i++) CHECK(pthread_create(&threads[i], NULL, compute, page) == 0);
  for (int round = 0; round < 60; round++) {
    CHECK(pread(file, page + PAGE - 5, 100, round % 100) == 5);
    CHECK(memcmp(page + PAGE - 5, data + round % 100, 5) == 0);
    CHECK(write(ends_of[1], "0123456789", 10) == 10);
    // Of a page of a pipe that does not fit, nothing is read.
    CHECK_ERRNO(read(ends_of[0], page + PAGE - 7, 100), EFAULT);
    CHECK(read(ends_of[0], page + PAGE - 10, 10) == 10 && memcmp(page + PAGE - 10, "0123456789", 10) == 0);
  }
  ends = true;
  for (int i = 0; i < 2; i++) {
    void *sum;
    CHECK(pthread_join(threads[i], &sum) == 0);
    printf("%lx\n", (unsigned long)(uintptr_t)sum);
  }
  return guest_ok();
}
