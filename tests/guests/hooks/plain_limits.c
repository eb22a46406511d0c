// Memory calls at the edges of what the hooks make by themselves: limits that let a call fail, memory that is locked, advice about
// forks, memory that has grown, a child of vfork, and memory in the room of the stack.
#include "../guest.h"

#include <sys/resource.h>

static char *map(void *at, size_t pages, int flags) {
  return mmap(at, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
}

static char *must_map(void *at, size_t pages, int flags) {
  char *m = map(at, pages, flags);
  CHECK(m != MAP_FAILED);
  return m;
}

static size_t mapped_pages(void) {
  FILE *statm = fopen("/proc/self/statm", "r");
  size_t pages;
  CHECK(statm && fscanf(statm, "%zu", &pages) == 1);
  fclose(statm);
  return pages;
}

// No more than so many pages beyond what is there.
static struct rlimit limit_to(int what, rlim_t soft) {
  struct rlimit before, now;
  CHECK(getrlimit(what, &before) == 0);
  now = before;
  now.rlim_cur = soft;
  CHECK(setrlimit(what, &now) == 0);
  return before;
}

static void address_space(void) {
  enum { N = 64 };
  char *m[N];
  char *kept = must_map(NULL, 4, 0);
  memset(kept, 'k', 4 * PAGE);
  struct rlimit before = limit_to(RLIMIT_AS, (mapped_pages() + 500) * PAGE);
  for (int round = 0; round < 3; round++) {
    int n = 0;
    while (n < N && (m[n] = map(NULL, 16, 0)) != MAP_FAILED) memset(m[n++], 'a', PAGE);
    CHECK(n > 3 && n < N && errno == ENOMEM);
    // What is there may give way to something new, of its own size.
    CHECK(map(kept + PAGE, 2, MAP_FIXED) == kept + PAGE && kept[PAGE] == 0 && kept[3 * PAGE] == 'k');
    kept[PAGE] = 'k';
    char *end = sbrk(0);
    CHECK(sbrk(600 * PAGE) == (void *)-1 && errno == ENOMEM && sbrk(0) == end);
    for (int i = 0; i < n; i++) CHECK(m[i][0] == 'a' && munmap(m[i], 16 * PAGE) == 0);
    CHECK(sbrk(2 * PAGE) == end && end[PAGE] == 0 && brk(end) == 0);
  }
  CHECK(setrlimit(RLIMIT_AS, &before) == 0 && munmap(kept, 4 * PAGE) == 0);
}

static void data(void) {
  struct rlimit before = limit_to(RLIMIT_DATA, PAGE);
  char *end = sbrk(0);
  CHECK(sbrk(PAGE) == (void *)-1 && errno == ENOMEM && sbrk(0) == end);
  CHECK(map(NULL, 1, 0) == MAP_FAILED && errno == ENOMEM);
  CHECK(setrlimit(RLIMIT_DATA, &before) == 0);
  CHECK(sbrk(PAGE) == end && end[0] == 0 && brk(end) == 0);
}

static void locked(void) {
  char *m = must_map(NULL, 3, 0);
  memset(m, 'l', 3 * PAGE);
  if (mlock(m + PAGE, PAGE) == 0) {
    // The first page is given up before the second refuses.
    CHECK_ERRNO(madvise(m, 3 * PAGE, MADV_DONTNEED), EINVAL);
    CHECK(m[0] == 0 && m[PAGE] == 'l' && m[2 * PAGE] == 'l');
    CHECK(munlock(m + PAGE, PAGE) == 0);
  }
  CHECK(madvise(m + PAGE, 2 * PAGE, MADV_DONTNEED) == 0 && m[PAGE] == 0 && m[2 * PAGE] == 0);
  CHECK(munmap(m, 3 * PAGE) == 0);
}

static int status_of(pid_t pid) {
  int status;
  CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status));
  return WEXITSTATUS(status);
}

static void forks(void) {
  char *m = must_map(NULL, 6, 0);
  for (int round = 0; round < 3; round++) {
    memset(m, 'f', 6 * PAGE);
    CHECK(madvise(m + PAGE, PAGE, MADV_WIPEONFORK) == 0 && madvise(m + 2 * PAGE, 2 * PAGE, MADV_WIPEONFORK) == 0);
    CHECK(madvise(m + 3 * PAGE, PAGE, MADV_KEEPONFORK) == 0);
    // The advice goes with the mapping that it was given about.
    CHECK(munmap(m + 2 * PAGE, PAGE) == 0 && map(m + 2 * PAGE, 1, 0) == m + 2 * PAGE);
    CHECK(map(m + 4 * PAGE, 1, MAP_FIXED) == m + 4 * PAGE);
    memset(m + 2 * PAGE, 'g', PAGE);
    m[4 * PAGE] = 'h';
    pid_t pid = fork();
    if (pid == 0) {
      bool right = is_all(m, PAGE, 'f') && is_all(m + PAGE, PAGE, 0) && is_all(m + 2 * PAGE, PAGE, 'g') && m[3 * PAGE] == 'f' &&
                   m[4 * PAGE] == 'h' && m[5 * PAGE] == 'f';
      right &= munmap(m, 6 * PAGE) == 0 && map(m, 6, 0) == m && is_all(m, 6 * PAGE, 0);
      _exit(right ? 4 : 5);
    }
    CHECK(status_of(pid) == 4 && m[PAGE] == 'f');
    CHECK(munmap(m, 6 * PAGE) == 0 && map(m, 6, 0) == m);
  }
  CHECK(munmap(m, 6 * PAGE) == 0);
}

// What it maps and unmaps is its parent's memory.
static void vforked(void) {
  static char *volatile made;
  char *m = must_map(NULL, 4, 0);
  memset(m, 'v', 4 * PAGE);
  for (int round = 0; round < 5; round++) {
    pid_t pid = vfork();
    if (pid == 0) {
      made = map(NULL, 3, 0);
      made[PAGE] = 'V';
      bool right = munmap(m + PAGE, PAGE) == 0 && mprotect(m + 2 * PAGE, PAGE, PROT_READ) == 0;
      _exit(right ? 6 : 7);
    }
    CHECK(status_of(pid) == 6);
    CHECK(made[PAGE] == 'V' && m[2 * PAGE] == 'v' && m[3 * PAGE] == 'v');
    CHECK(map(m + PAGE, 1, 0) == m + PAGE && m[PAGE] == 0 && mprotect(m, 4 * PAGE, PROT_READ | PROT_WRITE) == 0);
    CHECK(munmap(made, 3 * PAGE) == 0);
  }
  CHECK(munmap(m, 4 * PAGE) == 0);
}

static void grown(void) {
  for (int round = 0; round < 3; round++) {
    char *room = must_map(NULL, 400, 0);
    CHECK(munmap(room, 400 * PAGE) == 0);
    char *m = must_map(room + 398 * PAGE, 1, MAP_GROWSDOWN | MAP_FIXED);
    m[0] = m[-PAGE] = 'd';
    CHECK(munmap(m - PAGE, 2 * PAGE) == 0);
    // In the same place, what does not grow.
    CHECK(map(m - 4 * PAGE, 5, 0) == m - 4 * PAGE && is_all(m - 4 * PAGE, 5 * PAGE, 0));
    memset(m - 4 * PAGE, 'e', 5 * PAGE);
    CHECK(mprotect(m - 2 * PAGE, PAGE, PROT_READ) == 0 && m[-2 * PAGE] == 'e');
    CHECK(munmap(m - PAGE, PAGE) == 0 && m[0] == 'e' && munmap(m - 4 * PAGE, 5 * PAGE) == 0);
  }
}

static __attribute__((noinline)) int deep(int n) {
  volatile char frame[2 * PAGE];
  frame[0] = (char)n;
  frame[PAGE] = 1;
  return n ? deep(n - 1) + frame[PAGE] : frame[0];
}

// Where the stack may grow to, and does when that is free again.
static void in_the_stack(void) {
  char *at = (char *)((uintptr_t)__builtin_frame_address(0) & -PAGE) - 700 * PAGE;
  for (int round = 0; round < 3; round++) {
    char *m = must_map(at, 4, 0);
    memset(m, 's', 4 * PAGE);
    CHECK(mprotect(m, PAGE, PROT_READ) == 0 && munmap(m + PAGE, PAGE) == 0 && m[2 * PAGE] == 's');
    CHECK(munmap(m, 4 * PAGE) == 0);
    printf("%s\n", m == at ? "in the stack's room" : "elsewhere");
  }
  CHECK(deep(450) == 450);
}

int main(void) {
  for (int i = 0; i < 2; i++) {
    address_space();
    data();
    locked();
    forks();
    vforked();
    grown();
  }
  in_the_stack();
  return guest_ok();
}
