// /proc/self: maps, status, stat, fd, exe, cmdline and environ show this very process.
#include "../guest.h"
#include <dirent.h>

static char text[1 << 16];

static char *slurp(const char *path) {
  int fd = open(path, O_RDONLY);
  CHECK(fd >= 0);
  ssize_t n, len = 0;
  while ((n = read(fd, text + len, sizeof text - 1 - len)) > 0) len += n;
  CHECK(n == 0);
  text[len] = 0;
  close(fd);
  return text;
}

int main(int argc, char **argv) {
  char key[64];
  snprintf(key, sizeof key, "\nPid:\t%d\n", getpid());
  CHECK(strstr(slurp("/proc/self/status"), key));
  CHECK(atoi(slurp("/proc/self/stat")) == getpid());
  CHECK(strcmp(slurp("/proc/self/cmdline"), argv[0]) == 0);
  char *maps = slurp("/proc/self/maps");
  bool found = false;
  for (char *line = strtok(maps, "\n"); line; line = strtok(NULL, "\n")) {
    unsigned long lo, hi;
    CHECK(sscanf(line, "%lx-%lx", &lo, &hi) == 2 && lo < hi);
    if (lo <= (unsigned long)&key && (unsigned long)&key < hi) found = true;
  }
  CHECK(found);
  char exe[PATH_MAX] = "";
  CHECK(readlink("/proc/self/exe", exe, sizeof exe) > 0 && strstr(exe, "proc_self"));
  int fd = dup2(0, 77);
  CHECK(fd == 77);
  DIR *d = opendir("/proc/self/fd");
  struct dirent *e;
  int has77 = 0;
  while ((e = readdir(d))) has77 |= strcmp(e->d_name, "77") == 0;
  CHECK(has77);
  CHECK(strtoul(slurp("/proc/self/task/../oom_score_adj"), NULL, 10) < 2000);
  printf("%d %s argc %d stack %p\n", getpid(), exe, argc, &key);
  return guest_ok();
}
