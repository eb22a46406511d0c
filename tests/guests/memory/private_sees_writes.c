// A private mapping shows later writes to its file in the pages that it has not written itself (Linux has it so,
// POSIX leaves it open); what it shows is printed. Loaded libraries are mapped like this.
#include "../guest.h"

int main(void) {
  char page[PAGE];
  memset(page, 'o', PAGE);
  int fd = open("f", O_CREAT | O_RDWR, 0600);
  for (int i = 0; i < 3; i++) CHECK(write(fd, page, PAGE) == PAGE);
  volatile char *m = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
  CHECK(m != MAP_FAILED && m[0] == 'o');
  m[PAGE] = 'p';
  CHECK(pwrite(fd, "n", 1, 1) == 1 && pwrite(fd, "n", 1, PAGE + 1) == 1 && pwrite(fd, "n", 1, 2 * PAGE + 1) == 1);
  CHECK(m[PAGE] == 'p' && m[PAGE + 1] == 'o');
  CHECK((m[1] == 'n' || m[1] == 'o') && (m[2 * PAGE + 1] == 'n' || m[2 * PAGE + 1] == 'o'));
  printf("a page read before shows %c, one not touched before shows %c\n", m[1], m[2 * PAGE + 1]);
  pid_t p = fork();
  if (p == 0) {
    CHECK(pwrite(fd, "c", 1, 2) == 1);
    _exit(0);
  }
  check_exited(p, 0);
  printf("after another process's write: %c\n", m[2]);
  return guest_ok();
}
