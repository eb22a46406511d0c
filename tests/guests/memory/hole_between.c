// Reads into buffers with a hole, or a guard page, between their ends: the kernel reads up to there, and what it does not read stays.
#include "../guest.h"

int main(void) {
  static char data[16384], rest[16384];
  for (size_t i = 0; i < sizeof data; i++) data[i] = (char)(i * 7 + i / 251);
  char *memory = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(memory != MAP_FAILED);
  CHECK(munmap(memory + PAGE, PAGE) == 0 && mprotect(memory + 5 * PAGE, PAGE, PROT_NONE) == 0);
  int file = open("data", O_RDWR | O_CREAT | O_TRUNC, 0600), ends[2];
  CHECK(file >= 0 && write(file, data, sizeof data) == sizeof data && pipe(ends) == 0);
  for (int hole = 0; hole < 2; hole++) {
    char *buffer = memory + hole * 4 * PAGE + 96;
    CHECK(pread(file, buffer, 3 * PAGE, 0) == PAGE - 96 && memcmp(buffer, data, PAGE - 96) == 0);
    CHECK(lseek(file, 0, SEEK_SET) == 0 && read(file, buffer, 3 * PAGE) == PAGE - 96);
    CHECK(lseek(file, 0, SEEK_CUR) == PAGE - 96);
    CHECK(write(ends[1], data, sizeof data) == sizeof data);
    memset(buffer, 0, PAGE - 96);
    ssize_t len = read(ends[0], buffer, 3 * PAGE);
    // Of a page of a pipe that does not fit, nothing is read.
    CHECK(len == -1 && errno == EFAULT);
    size_t done = 0;
    while (done < sizeof rest) {
      ssize_t some = read(ends[0], rest + done, sizeof rest - done);
      CHECK(some > 0);
      done += some;
    }
    CHECK(memcmp(rest, data, sizeof data) == 0);
    printf("%zu\n", done);
  }
  return guest_ok();
}
