// What a program reads of its own address space: only what is its own, and the same however it reads it.
#include "../guest.h"
#include <sys/ioctl.h>
#include <sys/uio.h>

static char text[1 << 17], again[1 << 17];

static size_t slurp(int fd, char *to, size_t step) {
  size_t len = 0;
  ssize_t n;
  while ((n = read(fd, to + len, step)) > 0) len += n;
  CHECK(n == 0);
  to[len] = 0;
  return len;
}

static size_t slurp_path(const char *path, char *to, size_t step) {
  int fd = open(path, O_RDONLY);
  CHECK(fd >= 0);
  size_t len = slurp(fd, to, step);
  CHECK(close(fd) == 0);
  return len;
}

// Every line is one that a small C program has natively.
static int check_lines(char *maps, bool details) {
  int count = 0;
  bool stack = false, vdso = false;
  unsigned long last = 0;
  for (char *line = strtok(maps, "\n"); line; line = strtok(NULL, "\n")) {
    unsigned long lo, hi, off, inode;
    char prot[5], dev[16];
    int at = 0;
    if (sscanf(line, "%lx-%lx %4s %lx %15s %lu %n", &lo, &hi, prot, &off, dev, &inode, &at) < 6) {
      CHECK(details);
      continue;
    }
    CHECK(lo >= last && lo < hi);
    last = hi;
    count++;
    const char *name = line + at;
    if (strcmp(name, "[vsyscall]") == 0) continue;
    CHECK(prot[3] == 'p');
    if (prot[2] == 'x') CHECK(inode != 0 || strcmp(name, "[vdso]") == 0);
    if (inode != 0) CHECK(strstr(name, "own_maps") || strstr(name, "/libc") || strstr(name, "/ld-"));
    stack |= strcmp(name, "[stack]") == 0 && lo < (unsigned long)&stack && (unsigned long)&stack < hi;
    vdso |= strcmp(name, "[vdso]") == 0;
  }
  CHECK(stack && vdso);
  return count;
}

// The text of a file is one mapping of it, and holds what the file holds.
static void check_text(void) {
  unsigned long at = (unsigned long)check_text, lo = 0, hi = 0, off = 0;
  char path[PATH_MAX] = "";
  slurp_path("/proc/self/maps", text, sizeof text - 1);
  unsigned long libc = (unsigned long)getppid;
  for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
    char prot[5];
    CHECK(sscanf(line, "%lx-%lx %4s %lx %*s %*s %4095s", &lo, &hi, prot, &off, path) >= 4);
    if ((at < lo || hi <= at) && (libc < lo || hi <= libc)) continue;
    int file = open(path, O_RDONLY), mem = open("/proc/self/mem", O_RDONLY);
    CHECK(file >= 0 && mem >= 0);
    for (unsigned long p = lo; p < hi; p += PAGE) {
      char one[PAGE], two[PAGE];
      CHECK(pread(mem, one, PAGE, (off_t)p) == PAGE);
      if (pread(file, two, PAGE, (off_t)(off + p - lo)) != PAGE) break;
      CHECK(memcmp(one, two, PAGE) == 0);
    }
    CHECK(close(file) == 0 && close(mem) == 0);
  }
}

static void *from_thread(void *arg) {
  char path[64];
  snprintf(path, sizeof path, "/proc/self/task/%d/maps", tid_self());
  slurp_path(path, arg, sizeof text - 1);
  return NULL;
}

static long kb(const char *of, const char *name) {
  long sum = 0;
  char key[32];
  snprintf(key, sizeof key, "\n%s:", name);
  for (const char *p = of; (p = strstr(p, key)); p++) sum += atol(p + strlen(key));
  return sum;
}

// All ways to ask how much there is agree.
static void check_sizes(void) {
  unsigned long lo, hi, sum = 0, rss = 0;
  slurp_path("/proc/self/maps", text, sizeof text - 1);
  for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
    CHECK(sscanf(line, "%lx-%lx", &lo, &hi) == 2);
    if (!strstr(line, "[vsyscall]")) sum += hi - lo;
  }
  unsigned long size, resident, shared, code, lib, data, vsize = 0;
  long pages = 0;
  slurp_path("/proc/self/statm", again, 1000);
  CHECK(sscanf(again, "%lu %lu %lu %lu %lu %lu", &size, &resident, &shared, &code, &lib, &data) == 6);
  CHECK(size * PAGE == sum && shared <= resident && resident <= size && data <= size && lib == 0);
  slurp_path("/proc/self/stat", again, 7);
  char *rest = strrchr(again, ')');
  CHECK(rest && rest[2] == 'R');
  CHECK(sscanf(rest, ") %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %lu %ld", &vsize, &pages) == 2);
  CHECK(vsize == sum && pages > 0 && (unsigned long)pages <= size);
  slurp_path("/proc/self/status", text, 100);
  CHECK((unsigned long)kb(text, "VmSize") * 1024 == sum && kb(text, "VmPeak") >= kb(text, "VmSize"));
  CHECK((unsigned long)kb(text, "VmData") * 1024 / PAGE + (unsigned long)kb(text, "VmStk") * 1024 / PAGE == data);
  CHECK(kb(text, "RssShmem") == 0);
  slurp_path("/proc/self/smaps", text, sizeof text - 1);
  rss = (unsigned long)kb(text, "Rss") * 1024 / PAGE;
  // The kernel counts in pieces, for each processor.
  CHECK(rss <= resident + 100 && resident <= rss + 100 && rss <= (unsigned long)pages + 100);
}

int main(void) {
  // What maps the memory that the rest of this needs has been done before.
  getppid();
  for (int i = 0; i < 3; i++) {
    int count = (slurp_path("/proc/self/maps", text, sizeof text - 1), check_lines(text, false));
    size_t len = slurp_path("/proc/self/smaps", text, sizeof text - 1);
    CHECK(len > 0 && check_lines(text, true) == count);
  }

  // In any pieces, from any place, through any descriptor.
  int fd = open("/proc/self/maps", O_RDONLY);
  size_t len = slurp(fd, text, sizeof text - 1);
  CHECK(lseek(fd, 0, SEEK_CUR) == (off_t)len);
  CHECK(lseek(fd, 0, SEEK_SET) == 0);
  CHECK(slurp(fd, again, 7) == len && memcmp(text, again, len) == 0);
  CHECK(pread(fd, again, 100, 50) == 100 && memcmp(text + 50, again, 100) == 0);
  CHECK(pread(fd, again, 100, (off_t)len + 5) == 0);
  CHECK(lseek(fd, 31, SEEK_SET) == 31);
  int copy = dup(fd);
  CHECK(copy >= 0);
  CHECK(read(copy, again, 40) == 40 && memcmp(text + 31, again, 40) == 0);
  struct iovec iov[3] = {{again, 10}, {again + 10, 0}, {again + 10, 500}};
  CHECK(readv(fd, iov, 3) == 510 && memcmp(text + 71, again, 510) == 0);
  CHECK(preadv(copy, iov, 3, 3) == 510 && memcmp(text + 3, again, 510) == 0);
  CHECK(dup2(fd, 99) == 99 && lseek(99, 0, SEEK_SET) == 0);
  CHECK(slurp(99, again, 1024) == len && memcmp(text, again, len) == 0);
  CHECK(fcntl(fd, F_DUPFD, 200) == 200 && pread(200, again, 1000, 1) == 1000 && memcmp(text + 1, again, 1000) == 0);
  CHECK(lseek(fd, 0, SEEK_SET) == 0);
  char *volatile nowhere = (char *)1;
  CHECK_ERRNO(read(fd, nowhere, 5), EFAULT);
  CHECK_ERRNO(read(fd, (char *)main, 5), EFAULT);
  CHECK_ERRNO(write(fd, "x", 1), EBADF);
  struct stat st;
  CHECK(fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == 0);

  // Another process's.
  pid_t pid = getpid();
  int up[2];
  CHECK(pipe(up) == 0);
  pid_t child = fork();
  char path[64], c;
  if (child == 0) {
    snprintf(path, sizeof path, "/proc/%d/maps", pid);
    slurp_path(path, again, 500);
    CHECK(check_lines(again, false) > 10);
    CHECK(pread(fd, again, 100, 50) == 100 && memcmp(text + 50, again, 100) == 0);
    CHECK(read(up[0], &c, 1) == 1);
    _exit(0);
  }
  snprintf(path, sizeof path, "/proc/%d/maps", child);
  slurp_path(path, again, 4096);
  CHECK(check_lines(again, false) > 10);
  snprintf(path, sizeof path, "/proc/%d/smaps", child);
  slurp_path(path, again, 4096);
  CHECK(check_lines(again, true) > 10);
  CHECK(write(up[1], "x", 1) == 1);
  check_exited(child, 0);

  // Sums.
  slurp_path("/proc/self/smaps_rollup", again, sizeof again - 1);
  slurp_path("/proc/self/smaps", text, sizeof text - 1);
  CHECK(kb(again, "Rss") > 0 && kb(again, "Rss") <= kb(text, "Rss") + 64 && kb(text, "Rss") <= kb(again, "Rss") + 64);
  CHECK(kb(again, "Shared_Hugetlb") == 0);

  slurp_path("/proc/self/status", text, 100);
  CHECK(strstr(text, "\nTracerPid:\t0\n") && strstr(text, "\nState:\tR (running)\n"));

  for (int i = 0; i < 3; i++) check_sizes();

  // A thread's: the same file.
  join_thread(start_thread(from_thread, again));
  CHECK(strstr(again, "[stack]") && !strstr(again, "memfd"));

  // Memory: the file's bytes where text is, and none where nothing is mapped.
  for (int i = 0; i < 10; i++) getppid();
  check_text();
  int mem = open("/proc/self/mem", O_RDONLY);
  CHECK(lseek(mem, (off_t)(uintptr_t)"some text", SEEK_SET) == (off_t)(uintptr_t)"some text");
  CHECK(read(mem, again, 10) == 10 && strcmp(again, "some text") == 0);
  CHECK(lseek(mem, 0, SEEK_CUR) == (off_t)(uintptr_t)"some text" + 10);
  for (off_t at = 0x60000000; at < 0x71000000; at += 0x11000) CHECK_ERRNO(pread(mem, again, 1, at), EIO);
  printf("%zu bytes of maps, pid %d\n", len, pid);
  return guest_ok();
}
