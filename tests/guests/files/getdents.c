// Directories: 600 names are listed once each, over several getdents64 calls; rewinding and seeking work.
#include "../guest.h"
#include <dirent.h>

int main(void) {
  CHECK(mkdir("d", 0700) == 0);
  char name[64];
  for (int i = 0; i < 600; i++) {
    snprintf(name, sizeof name, "d/a-rather-long-name-for-a-file-%04d", i);
    make_file(name, name, 1);
  }
  int fd = open("d", O_RDONLY | O_DIRECTORY);
  CHECK(fd >= 0);
  char buf[4096];
  long total = 0, calls = 0, n;
  while ((n = syscall(SYS_getdents64, fd, buf, sizeof buf)) > 0) total += n, calls++;
  CHECK(n == 0 && calls > 2);
  DIR *dir = opendir("d");
  char seen[600] = {0};
  int count = 0;
  long middle = 0;
  char middle_name[256] = "";
  struct dirent *e;
  while ((e = readdir(dir))) {
    if (e->d_name[0] == '.') continue;
    seen[atoi(strrchr(e->d_name, '-') + 1)]++;
    if (++count == 300) {
      middle = telldir(dir);
      e = readdir(dir);
      strcpy(middle_name, e->d_name);
      if (e->d_name[0] != '.') seen[atoi(strrchr(e->d_name, '-') + 1)]++, count++;
    }
  }
  CHECK(count == 600);
  for (int i = 0; i < 600; i++) CHECK(seen[i] == 1);
  seekdir(dir, middle);
  CHECK(strcmp(readdir(dir)->d_name, middle_name) == 0);
  rewinddir(dir);
  CHECK(readdir(dir) != NULL);
  printf("%ld bytes in %ld calls, the middle one is %s\n", total, calls, middle_name);
  return guest_ok();
}
