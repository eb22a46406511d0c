// More files of the system than a replayed process keeps open at a time, mapped one after the other by several processes: by hooks,
// where the trace has them already.
#include "../guest.h"
#include <dirent.h>
#include <sys/stat.h>

enum { FILES = 200, LENGTH = 3 * PAGE };

static char *paths[FILES];
static int count;

static void find(const char *folder) {
  DIR *dir = opendir(folder);
  if (!dir) return;
  for (struct dirent *entry; count < FILES && (entry = readdir(dir));) {
    char path[600];
    struct stat stat;
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    if (lstat(path, &stat) || !S_ISREG(stat.st_mode) || stat.st_size < LENGTH) continue;
    paths[count++] = strdup(path);
  }
  closedir(dir);
}

// The first page of each file, and its third, which is written to.
static void map_all(int step) {
  for (int i = 0; i < count; i++) {
    int fd = open(paths[(i * step) % count], O_RDONLY | O_CLOEXEC);
    unsigned char first[PAGE], third[PAGE];
    CHECK(fd >= 0 && pread(fd, first, PAGE, 0) == PAGE && pread(fd, third, PAGE, 2 * PAGE) == PAGE);
    unsigned char *at = mmap(NULL, LENGTH, PROT_READ, MAP_PRIVATE, fd, 0);
    CHECK(at != MAP_FAILED && memcmp(at, first, PAGE) == 0);
    unsigned char *over = mmap(at + PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd, 2 * PAGE);
    CHECK(over == at + PAGE && memcmp(over, third, PAGE) == 0);
    over[i] ^= 1;
    CHECK(over[i] == (third[i] ^ 1) && memcmp(over + PAGE, third, PAGE) == 0);
    CHECK(munmap(at, LENGTH) == 0 && close(fd) == 0);
  }
}

int main(int argc, char **argv) {
  find("/usr/lib/x86_64-linux-gnu");
  find("/usr/lib64");
  find("/usr/bin");
  CHECK(count > 0);
  map_all(1);
  if (argc > 1) return 0;
  pid_t child = fork();
  if (child == 0) {
    map_all(count > 7 && count % 7 ? 7 : 1);
    _exit(0);
  }
  check_exited(child, 0);
  child = fork();
  if (child == 0) {
    execv("/proc/self/exe", (char *[]){argv[0], "again", NULL});
    _exit(1);
  }
  check_exited(child, 0);
  return guest_ok();
}
