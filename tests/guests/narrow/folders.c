// cflags: -m32
// needs: /usr/lib32/crt1.o
// Folders with many names, read whole and from places in their middle.
#include "../guest.h"
#include <dirent.h>

#define COUNT 700

int main(void) {
  CHECK(mkdir("folder", 0700) == 0 && chdir("folder") == 0);
  char name[64];
  for (int i = 0; i < COUNT; i++) {
    snprintf(name, sizeof name, "a rather long name of a file, number %d", i);
    make_file(name, name, strlen(name));
  }
  DIR *folder = opendir(".");
  CHECK(folder);
  static char seen[COUNT];
  int count = 0;
  long middle = 0;
  ino_t wanted = 0;
  struct dirent *entry;
  for (;;) {
    errno = 0;
    long at = telldir(folder);
    if (!(entry = readdir(folder))) break;
    int number;
    if (sscanf(entry->d_name, "a rather long name of a file, number %d", &number) != 1) continue;
    CHECK(!seen[number]);
    seen[number] = 1;
    if (++count == COUNT / 2) middle = at, wanted = entry->d_ino;
  }
  CHECK(errno == 0 && count == COUNT);
  seekdir(folder, middle);
  entry = readdir(folder);
  CHECK(entry && entry->d_ino == wanted);
  rewinddir(folder);
  for (count = 0; readdir(folder); count++) {}
  CHECK(count == COUNT + 2);
  CHECK(closedir(folder) == 0);
  // The call with the old entries, made by hand.
  int fd = open(".", O_RDONLY | O_DIRECTORY);
  CHECK(fd >= 0);
  static char buffer[4096];
  count = 0;
  for (;;) {
    long got = syscall(SYS_getdents, fd, buffer, sizeof buffer);
    CHECK(got >= 0);
    if (got == 0) break;
    for (long at = 0; at < got; count++) {
      unsigned short len;
      memcpy(&len, buffer + at + 8, 2);
      CHECK(len >= 12 && at + len <= got);
      at += len;
    }
  }
  CHECK(count == COUNT + 2);
  for (int i = 0; i < COUNT; i++) {
    snprintf(name, sizeof name, "a rather long name of a file, number %d", i);
    CHECK(unlink(name) == 0);
  }
  CHECK(chdir("..") == 0 && rmdir("folder") == 0);
  printf("%d names\n", count);
  return guest_ok();
}
