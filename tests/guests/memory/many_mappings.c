// A process with tens of thousands of mappings reads the list of them in small pieces, and another one, which has the
// same open file, reads on where it has stopped: the pieces make one list, and the position is where they end.
// unsummed: checksums ask for the list of mappings at every event
#include "../guest.h"

enum { PIECES = 10000, READ = 700 };

static char *text;
static size_t len;

static void read_some(int fd, size_t upto) {
  for (ssize_t got = 1; got > 0 && len < upto; len += got) {
    CHECK((got = read(fd, text + len, READ)) >= 0);
    CHECK(lseek(fd, 0, SEEK_CUR) == (off_t)(len + got));
  }
}

int main(void) {
  size_t room = 16 << 20;
  // Shared: the child adds to it.
  text = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  char *pages = mmap(NULL, 2ul * PIECES * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(text != MAP_FAILED && pages != MAP_FAILED);
  for (int i = 0; i < PIECES; i++) CHECK(mprotect(pages + 2ul * i * PAGE, PAGE, PROT_READ) == 0);
  int fd = open("/proc/self/maps", O_RDONLY);
  CHECK(fd >= 0);
  read_some(fd, 300000);
  pid_t child = fork();
  if (child == 0) {
    read_some(fd, 600000);
    text[len] = 0;
    _exit(0);
  }
  check_exited(child, 0);
  len = strlen(text);
  CHECK(len >= 600000 && lseek(fd, 0, SEEK_CUR) == (off_t)len);
  read_some(fd, room - READ);

  // Each piece is there once, in its order.
  int found = 0;
  for (char *line = text; line < text + len; line = strchr(line, '\n') + 1) {
    char *start = NULL, *end = NULL;
    char prot = 0;
    CHECK(sscanf(line, "%p-%p %c", (void **)&start, (void **)&end, &prot) == 3);
    if (start < pages || start >= pages + 2ul * PIECES * PAGE || prot != 'r') continue;
    CHECK(start == pages + 2ul * found * PAGE && end == start + PAGE);
    found++;
  }
  CHECK(found == PIECES);

  // From the middle of a line, and after a seek.
  char again[READ];
  CHECK(lseek(fd, 12345, SEEK_SET) == 12345);
  ssize_t got = read(fd, again, 100);
  CHECK(got > 0 && memcmp(again, text + 12345, got) == 0 && lseek(fd, 0, SEEK_CUR) == 12345 + got);
  printf("%d pieces\n", found);
  return guest_ok();
}
