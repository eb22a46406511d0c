// The program's own /proc, reached by other ways than its path: by a descriptor of a folder, by a current folder, by a
// relative path, by links, by descriptors that come with an exec. All of them tell the same.
#include "../guest.h"

static char whole[1 << 16], other[1 << 16];

static size_t read_all(int fd, char *into) {
  size_t all = 0;
  for (ssize_t n; (n = read(fd, into + all, (1 << 16) - 1 - all)) > 0;) all += n;
  into[all] = 0;
  return all;
}

// No agent, no hooks; the same mappings of the program's own file.
static void looks_right(int fd) {
  CHECK(fd >= 0);
  read_all(fd, other);
  CHECK(strstr(other, "[stack]") && strstr(other, "[vdso]") && !strstr(other, "memfd:bis") && !strstr(other, "\n70000000-"));
  CHECK(close(fd) == 0);
}

int main(int argc, char **argv) {
  if (argc > 1) {
    looks_right(9);
    looks_right(openat(8, "maps", O_RDONLY));
    looks_right(open("maps", O_RDONLY));
    return 6;
  }
  char name[PATH_MAX];
  ssize_t n = readlink("/proc/self/exe", name, sizeof name - 1);
  CHECK(n > 0);
  name[n] = 0;
  int fd = open("/proc/self/maps", O_RDONLY);
  CHECK(fd >= 0 && read_all(fd, whole) > 100 && close(fd) == 0);
  looks_right(open("/proc/thread-self/maps", O_RDONLY));
  CHECK(symlink("/proc/self/maps", "link") == 0 && symlink("/proc", "links") == 0);
  looks_right(open("link", O_RDONLY));
  looks_right(open("links/self/maps", O_RDONLY));
  int linked = open("links/self", O_RDONLY | O_DIRECTORY);
  looks_right(openat(linked, "maps", O_RDONLY));
  CHECK(close(linked) == 0);
  int folder = open("/proc/self", O_RDONLY | O_DIRECTORY);
  looks_right(openat(folder, "maps", O_RDONLY));
  int root = open("/", O_RDONLY | O_DIRECTORY);
  looks_right(openat(root, "proc/self/maps", O_RDONLY));
  CHECK(chdir("/") == 0);
  looks_right(open("proc/self/maps", O_RDONLY));
  CHECK(chdir("/proc/self") == 0);
  looks_right(open("maps", O_RDONLY));
  looks_right(open("./task/../maps", O_RDONLY));
  pid_t p = fork();
  if (p == 0) {
    looks_right(open("maps", O_RDONLY));
    _exit(5);
  }
  check_exited(p, 5);
  CHECK(chdir("/") == 0 && fchdir(folder) == 0);
  looks_right(open("maps", O_RDONLY));
  int maps = open("maps", O_RDONLY);
  p = fork();
  if (p == 0) {
    CHECK(chdir("/proc/self") == 0 && dup2(folder, 8) == 8 && dup2(maps, 9) == 9);
    execl(name, "proc_ways", "again", NULL);
    _exit(1);
  }
  check_exited(p, 6);
  printf("%s", other);
  return guest_ok();
}
