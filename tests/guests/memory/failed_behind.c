// Calls that fail although they have written: behind a hole at their buffer's begin, or the whole buffer before they look at the
// length of another one.
#include "../guest.h"

#include <dirent.h>
#include <sys/socket.h>
#include <sys/syscall.h>

// A page behind one that is not mapped.
static char *behind_hole(void) {
  char *m = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(m != MAP_FAILED && munmap(m, PAGE) == 0);
  memset(m + PAGE, 'x', 2 * PAGE);
  return m + PAGE;
}

static unsigned sum(const char *memory, size_t len) {
  unsigned sum = 0;
  for (size_t i = 0; i < len; i++) sum = sum * 31 + (unsigned char)memory[i];
  return sum;
}

// How many bytes behind the hole are not as they were. (Which they are, e.g. offsets in a folder, is chance.)
static void tell(const char *what, long result, char *m) {
  int error = result < 0 ? errno : 0, changed = 0;
  for (int i = 0; i < 2 * PAGE; i++) changed += m[i] != 'x';
  printf("%s: %ld %s, %d bytes changed, sum %x\n", what, result, strerror(error), changed, sum(m, 2 * PAGE));
  CHECK(munmap(m, 2 * PAGE) == 0);
}

static void of_the_scheduler(void) {
  for (int room = 4; room <= 64; room += 12) {
    char *m = behind_hole();
    tell("sched_getattr", syscall(SYS_sched_getattr, 0, m - room, 100, 0), m);
  }
}

static void of_folders(void) {
  for (int room = 1; room <= 40; room++) {
    int fd = open("/", O_RDONLY | O_DIRECTORY);
    CHECK(fd >= 0);
    char *m = behind_hole();
    tell("getdents64", syscall(SYS_getdents64, fd, m - room, 3000), m);
    CHECK(lseek(fd, 0, SEEK_SET) == 0);
    m = behind_hole();
    tell("getdents", syscall(SYS_getdents, fd, m - room, 3000), m);
    close(fd);
  }
}

static void of_sockets(int type) {
  int ends[2];
  CHECK(socketpair(AF_UNIX, type, 0, ends) == 0);
  char buffer[64];
  struct sockaddr_storage address;
  socklen_t len;
  for (int round = 0; round < 3; round++) {
    CHECK(write(ends[0], "what has come before the error", 30) == 30);
    memset(buffer, '.', sizeof buffer);
    len = (socklen_t)-5;
    CHECK_ERRNO(recvfrom(ends[1], buffer, 8 + round, MSG_DONTWAIT, (struct sockaddr *)&address, &len), EINVAL);
    printf("%.*s\n", 16, buffer);
    if (type == SOCK_STREAM) CHECK(read(ends[1], buffer, sizeof buffer) == 30 - 8 - round);
  }
  close(ends[0]);
  close(ends[1]);
}

int main(void) {
  of_the_scheduler();
  of_folders();
  of_sockets(SOCK_STREAM);
  of_sockets(SOCK_DGRAM);
  return guest_ok();
}
