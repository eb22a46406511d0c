// Processes that map the same text again and again: each finds the file's own name and bytes there, may change
// them, and has them back when it throws its changes away.
#include "../guest.h"

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

enum { ROUNDS = 5 };

static char maps[1 << 17];

static void slurp(const char *path) {
  int fd = open(path, O_RDONLY);
  CHECK(fd >= 0);
  size_t len = 0;
  ssize_t n;
  while ((n = read(fd, maps + len, sizeof maps - 1 - len)) > 0) len += (size_t)n;
  CHECK(n == 0 && close(fd) == 0);
  maps[len] = 0;
}

struct text {
  unsigned long lo, hi, off;
  char prot[5], path[PATH_MAX];
};

// The mapping of the C library that this function is in, as a list of mappings tells it.
static struct text text_of(const char *list, unsigned long at) {
  struct text text;
  slurp(list);
  for (char *line = strtok(maps, "\n"); line; line = strtok(NULL, "\n")) {
    int n = sscanf(line, "%lx-%lx %4s %lx %*s %*s %4095s", &text.lo, &text.hi, text.prot, &text.off, text.path);
    if (n == 5 && text.lo <= at && at < text.hi) return text;
  }
  CHECK(!"it is mapped");
}

// What of the text is not as the file has it, by the kernel's copy of the memory.
static void check_bytes(struct text text, int file) {
  int mem = open("/proc/self/mem", O_RDONLY);
  CHECK(mem >= 0);
  for (unsigned long p = text.lo; p < text.hi; p += PAGE) {
    char one[PAGE], two[PAGE];
    CHECK(pread(mem, one, PAGE, (off_t)p) == PAGE);
    if (pread(file, two, PAGE, (off_t)(text.off + p - text.lo)) != PAGE) break;
    CHECK(memcmp(one, two, PAGE) == 0);
  }
  CHECK(close(mem) == 0);
}

static void check_numa(struct text text) {
  if (access("/proc/self/numa_maps", R_OK) != 0) return;
  slurp("/proc/self/numa_maps");
  char want[64], *line;
  snprintf(want, sizeof want, "%lx ", text.lo);
  for (line = strtok(maps, "\n"); line; line = strtok(NULL, "\n"))
    if (strncmp(line, want, strlen(want)) == 0) break;
  CHECK(line && strstr(line, text.path));
}

static void child(int round) {
  unsigned long at = (unsigned long)getppid;
  struct text text = text_of("/proc/self/maps", at);
  CHECK(strcmp(text.prot, "r-xp") == 0 && strstr(text.path, "/libc"));
  int file = open(text.path, O_RDONLY);
  CHECK(file >= 0);
  struct stat meta;
  CHECK(fstat(file, &meta) == 0);
  char inode[32];
  snprintf(inode, sizeof inode, " %lu ", (unsigned long)meta.st_ino);
  slurp("/proc/self/maps");
  CHECK(strstr(maps, inode));
  struct text smaps = text_of("/proc/self/smaps", at);
  CHECK(smaps.lo == text.lo && smaps.off == text.off && strcmp(smaps.path, text.path) == 0);
  check_numa(text);
  check_bytes(text, file);

  // A parent sees the same of its child.
  int go[2];
  CHECK(pipe(go) == 0);
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    char byte;
    CHECK(close(go[1]) == 0 && read(go[0], &byte, 1) == 0);
    _exit(0);
  }
  char list[64];
  snprintf(list, sizeof list, "/proc/%d/maps", (int)pid);
  struct text theirs = text_of(list, at);
  CHECK(theirs.lo == text.lo && theirs.off == text.off && strcmp(theirs.path, text.path) == 0);
  CHECK(close(go[0]) == 0 && close(go[1]) == 0);
  int status;
  CHECK(waitpid(pid, &status, 0) == pid && status == 0);

  // The page of a function that makes a call is written to, and thrown away.
  char *page = (char *)(at & ~(unsigned long)(PAGE - 1)), own[2 * PAGE];
  CHECK(pread(file, own, sizeof own, (off_t)(text.off + ((unsigned long)page - text.lo))) == sizeof own);
  if (round % 2 == 0) {
    CHECK(mprotect(page, 2 * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC) == 0);
    CHECK(memcmp(page, own, sizeof own) == 0);
    struct text half = text_of("/proc/self/maps", at);
    CHECK(strcmp(half.prot, "rwxp") == 0 && strcmp(half.path, text.path) == 0);
    CHECK(half.off == text.off + (half.lo - text.lo));
    CHECK(getppid() > 0);
    // mov eax, 7; ret
    memcpy((char *)at, "\xb8\x07\0\0\0\xc3", 6);
    CHECK(getppid() == 7);
  }
  CHECK(madvise(page, 2 * PAGE, MADV_DONTNEED) == 0);
  CHECK(getppid() > 7);
  if (round % 2 == 0) {
    CHECK(memcmp(page, own, sizeof own) == 0);
    CHECK(mprotect(page, 2 * PAGE, PROT_READ | PROT_EXEC) == 0);
  }
  check_bytes(text, file);

  // Its pages move, and the file shows in their old place.
  char *other = mremap(page, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP);
  if (other != MAP_FAILED) {
    struct text moved = text_of("/proc/self/maps", (unsigned long)other);
    CHECK(strcmp(moved.path, text.path) == 0);
    CHECK(moved.off + ((unsigned long)other - moved.lo) == text.off + ((unsigned long)page - text.lo));
    CHECK(munmap(other, 2 * PAGE) == 0);
    check_bytes(text, file);
  }
  CHECK(getppid() > 7 && close(file) == 0);
}

int main(int argc, char **argv) {
  if (argc > 1) {
    child(atoi(argv[1]));
    return 0;
  }
  for (int round = 0; round < ROUNDS; round++) {
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
      char arg[16];
      snprintf(arg, sizeof arg, "%d", round);
      execl("/proc/self/exe", argv[0], arg, (char *)NULL);
      _exit(9);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
  }
  return guest_ok();
}
