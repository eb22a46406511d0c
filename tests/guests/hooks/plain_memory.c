// Calls that change the address space are made in hooks where they concern plain memory, and traced where they do not: each way in and
// out of that, with the memory looked at after each, what is not there included.
#include "../guest.h"

#include <setjmp.h>
#include <sys/time.h>

static sigjmp_buf *back;
static void fault(int sig) {
  (void)sig;
  siglongjmp(*back, 1);
}

// Is it there for that? r: read, w: written, x: neither.
static char access_of(char *at) {
  sigjmp_buf here;
  volatile char found = 'x';
  back = &here;
  if (sigsetjmp(here, 1) == 0) {
    (void)*(volatile char *)at;
    found = 'r';
    *(volatile char *)at = *(volatile char *)at;
    found = 'w';
  }
  back = NULL;
  return found;
}

static void see(char *at, int pages, const char *expected) {
  char found[64] = "";
  for (int i = 0; i < pages; i++) found[i] = access_of(at + i * PAGE);
  if (strcmp(found, expected)) printf("%s, not %s\n", found, expected);
  CHECK(strcmp(found, expected) == 0);
}

static char *plain_at(void *at, int pages, int flags) {
  char *m = mmap(at, (size_t)pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  CHECK(m != MAP_FAILED);
  return m;
}

static void whole(void) {
  char *last = NULL;
  for (int i = 0; i < 12; i++) {
    char *m = plain_at(NULL, 6, i % 2 ? MAP_NORESERVE : MAP_POPULATE);
    if (last && m != last) printf("another place: %p\n", m);
    last = m;
    CHECK(is_all(m, 6 * PAGE, 0));
    memset(m, 'p', 6 * PAGE);
    CHECK(mprotect(m + PAGE, 2 * PAGE, PROT_READ) == 0 && mprotect(m + 4 * PAGE, PAGE, PROT_NONE) == 0);
    see(m, 6, "wrrwxw");
    CHECK(mprotect(m, 6 * PAGE, PROT_READ | PROT_WRITE) == 0 && is_all(m, 6 * PAGE, 'p'));
    CHECK(madvise(m + PAGE, PAGE, MADV_DONTNEED) == 0 && madvise(m + 2 * PAGE, PAGE, MADV_FREE) == 0);
    (void)madvise(m, 6 * PAGE, MADV_HUGEPAGE);
    CHECK(madvise(m, 6 * PAGE, MADV_SEQUENTIAL) == 0);
    CHECK(madvise(m, 2 * PAGE, MADV_DONTDUMP) == 0 && madvise(m + PAGE, PAGE, MADV_DODUMP) == 0);
    CHECK(m[0] == 'p' && m[PAGE] == 0 && m[3 * PAGE] == 'p');
    CHECK(munmap(m + 2 * PAGE, 2 * PAGE) == 0);
    see(m, 6, "wwxxww");
    CHECK(plain_at(m + 3 * PAGE, 1, 0) == m + 3 * PAGE && m[3 * PAGE] == 0);
    // Fixed, over what is there: whole, in part, beside it.
    m[5 * PAGE] = 'q';
    CHECK(plain_at(m + 4 * PAGE, 1, MAP_FIXED) == m + 4 * PAGE && m[4 * PAGE] == 0 && m[5 * PAGE] == 'q');
    CHECK(plain_at(m + PAGE, 3, MAP_FIXED) == m + PAGE && is_all(m + PAGE, 3 * PAGE, 0) && m[0] == 'p');
    // An odd length is whole pages.
    CHECK(mprotect(m + PAGE, 100, PROT_READ) == 0);
    see(m, 6, "wrwwww");
    CHECK(munmap(m, 5 * PAGE + 1) == 0);
    see(m, 6, "xxxxxx");
    CHECK(munmap(m, 6 * PAGE) == 0);
  }
  printf("at %p\n", last);
}

static void wrong(void) {
  char *m = plain_at(NULL, 4, 0);
  for (int i = 0; i < 3; i++) {
    CHECK_ERRNO(munmap(m + 1, PAGE), EINVAL);
    CHECK_ERRNO(munmap(m, 0), EINVAL);
    CHECK_ERRNO(munmap(m, SIZE_MAX), EINVAL);
    CHECK_ERRNO(mprotect(m + 1, PAGE, PROT_READ), EINVAL);
    CHECK_ERRNO(mprotect(m, SIZE_MAX & ~4095ul, PROT_READ), ENOMEM);
    CHECK(mprotect(m, 0, PROT_READ) == 0 && madvise(m, 0, MADV_DONTNEED) == 0);
    CHECK_ERRNO(madvise(m, PAGE, 12345), EINVAL);
    CHECK(mmap(NULL, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED && errno == EINVAL);
    CHECK(mmap(NULL, SIZE_MAX / 2, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED && errno == ENOMEM);
    CHECK(mmap(m + 1, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED && errno == EINVAL);
    see(m, 4, "wwww");
  }
  CHECK(munmap(m, 4 * PAGE) == 0);
}

// What has been something else in between.
static void others(void) {
  int fd = open("file", O_RDWR | O_CREAT | O_TRUNC, 0600);
  char block[PAGE];
  for (int i = 0; i < 4; i++) {
    memset(block, 'a' + i, PAGE);
    CHECK(write(fd, block, PAGE) == PAGE);
  }
  for (int i = 0; i < 5; i++) {
    char *m = plain_at(NULL, 8, 0);
    memset(m, 'o', 8 * PAGE);
    CHECK(mmap(m + 2 * PAGE, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd, 0) == m + 2 * PAGE);
    CHECK(m[2 * PAGE] == 'a' + (i ? 16 : 0) && m[3 * PAGE] == 'b' && m[4 * PAGE] == 'o');
    // The file changes below it.
    memset(block, 'a' + 16, PAGE);
    CHECK(pwrite(fd, block, PAGE, 0) == PAGE && m[2 * PAGE] == 'a' + 16);
    CHECK(mprotect(m + PAGE, 2 * PAGE, PROT_READ) == 0);
    see(m, 8, "wrrwwwww");
    m[3 * PAGE] = 'B';
    CHECK(madvise(m + PAGE, 4 * PAGE, MADV_DONTNEED) == 0);
    CHECK(m[PAGE] == 0 && m[2 * PAGE] == 'a' + 16 && m[3 * PAGE] == 'b' && m[4 * PAGE] == 0 && m[5 * PAGE] == 'o');
    CHECK(plain_at(m + 2 * PAGE, 1, MAP_FIXED) == m + 2 * PAGE && m[2 * PAGE] == 0);
    CHECK(pwrite(fd, block, PAGE, 0) == PAGE && m[2 * PAGE] == 0);
    // Shared memory.
    CHECK(mmap(m + 5 * PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 2 * PAGE) == m + 5 * PAGE);
    m[5 * PAGE] = 's';
    char read_back = 0;
    CHECK(pread(fd, &read_back, 1, 2 * PAGE) == 1 && read_back == 's');
    // Code.
    static const unsigned char seven[] = {0xb8, 7, 0, 0, 0, 0xc3};
    memcpy(m + 6 * PAGE, seven, sizeof seven);
    CHECK(mprotect(m + 6 * PAGE, PAGE, PROT_READ | PROT_EXEC) == 0);
    CHECK(((int (*)(void))(m + 6 * PAGE))() == 7);
    CHECK(mprotect(m + 6 * PAGE, PAGE, PROT_READ | PROT_WRITE) == 0);
    m[6 * PAGE + 1] = 8;
    CHECK(mprotect(m + 6 * PAGE, PAGE, PROT_READ | PROT_EXEC) == 0);
    CHECK(((int (*)(void))(m + 6 * PAGE))() == 8);
    CHECK(munmap(m, 8 * PAGE) == 0);
    see(m, 8, "xxxxxxxx");
    char *n = plain_at(NULL, 8, 0);
    CHECK(is_all(n, 8 * PAGE, 0));
    // It moves, and grows.
    memset(n, 'n', 8 * PAGE);
    char *far = plain_at(NULL, 32, 0);
    CHECK(munmap(far, 32 * PAGE) == 0);
    CHECK(mremap(n, 4 * PAGE, 16 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, far) == far);
    CHECK(is_all(far, 4 * PAGE, 'n') && is_all(far + 4 * PAGE, 12 * PAGE, 0) && is_all(n + 4 * PAGE, 4 * PAGE, 'n'));
    see(n, 5, "xxxxw");
    CHECK(mprotect(far, 16 * PAGE, PROT_READ) == 0 && access_of(far) == 'r');
    CHECK(munmap(far, 16 * PAGE) == 0 && munmap(n, 8 * PAGE) == 0);
  }
  close(fd);
}

// More ranges than the hooks can keep.
static void many(void) {
  enum { N = 200 };
  char *m = plain_at(NULL, 2 * N, 0);
  memset(m, 'm', 2 * N * PAGE);
  for (int i = 0; i < N; i++) CHECK(munmap(m + 2 * i * PAGE, PAGE) == 0);
  for (int i = 0; i < N; i++) {
    CHECK(m[(2 * i + 1) * PAGE] == 'm');
    CHECK(mprotect(m + (2 * i + 1) * PAGE, PAGE, i % 3 ? PROT_READ : PROT_NONE) == 0);
  }
  see(m, 8, "xxxrxrxx");
  for (int i = N; i-- > 0;) CHECK(munmap(m + (2 * i + 1) * PAGE, PAGE) == 0);
  see(m, 8, "xxxxxxxx");
}

static void heap(void) {
  char *start = sbrk(0);
  for (int i = 0; i < 20; i++) {
    CHECK(sbrk(5 * PAGE + 100 * i) == start);
    CHECK(is_all(start, 5 * PAGE, 0));
    memset(start, 'h', 5 * PAGE);
    CHECK(mprotect((char *)(((uintptr_t)start + PAGE) & -PAGE), PAGE, PROT_READ) == 0);
    CHECK(brk(start + PAGE) == 0 && brk(start + 3 * PAGE) == 0);
    CHECK(brk(start) == 0 && sbrk(0) == start);
  }
  CHECK(syscall(SYS_brk, 1) == (long)start && syscall(SYS_brk, -1L) == (long)start);
}

static void child(void) {
  char *m = plain_at(NULL, 6, 0), *hidden = plain_at(NULL, 2, 0), *start = sbrk(0);
  memset(m, 'c', 6 * PAGE);
  CHECK(madvise(hidden, 2 * PAGE, MADV_DONTFORK) == 0 && sbrk(PAGE) == start);
  pid_t pid = fork();
  if (pid == 0) {
    CHECK(is_all(m, 6 * PAGE, 'c') && access_of(hidden) == 'x');
    CHECK(munmap(m + PAGE, PAGE) == 0 && plain_at(m + 2 * PAGE, 1, MAP_FIXED) == m + 2 * PAGE);
    see(m, 4, "wxww");
    CHECK(m[2 * PAGE] == 0 && m[3 * PAGE] == 'c');
    CHECK(plain_at(hidden, 1, 0) == hidden && munmap(hidden, 2 * PAGE) == 0);
    CHECK(sbrk(0) == start + PAGE && brk(start) == 0 && sbrk(3 * PAGE) == start && start[2 * PAGE] == 0);
    _exit(3);
  }
  CHECK(munmap(m, PAGE) == 0);
  int status;
  CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 3);
  see(m, 4, "xwww");
  see(hidden, 2, "ww");
  CHECK(is_all(m + PAGE, 5 * PAGE, 'c') && sbrk(0) == start + PAGE && brk(start) == 0);
  CHECK(munmap(m, 6 * PAGE) == 0 && munmap(hidden, 2 * PAGE) == 0);
}

static void *works(void *arg) {
  uintptr_t sum = 0;
  char mine = (char)(uintptr_t)arg;
  for (int i = 0; i < 300; i++) {
    char *m = plain_at(NULL, 3 + i % 5, 0);
    CHECK(is_all(m, 3 * PAGE, 0));
    memset(m, mine, 3 * PAGE);
    if (i % 7 == 0) sched_yield();
    CHECK(mprotect(m + PAGE, PAGE, PROT_READ) == 0 && is_all(m, 3 * PAGE, mine));
    sum = sum * 31 + (uintptr_t)m;
    CHECK(munmap(m, (size_t)(3 + i % 5) * PAGE) == 0);
  }
  return (void *)sum;
}

static void together(void) {
  pthread_t threads[3];
  for (uintptr_t i = 0; i < 3; i++) CHECK(pthread_create(&threads[i], NULL, works, (void *)('1' + i)) == 0);
  for (int i = 0; i < 3; i++) {
    void *sum;
    CHECK(pthread_join(threads[i], &sum) == 0);
    printf("places hash to %p\n", sum);
  }
}

static volatile int ticked;
static void tick(int sig) {
  (void)sig;
  char *m = plain_at(NULL, 2, 0);
  CHECK(is_all(m, 2 * PAGE, 0) && mprotect(m, PAGE, PROT_READ) == 0 && munmap(m, 2 * PAGE) == 0);
  ticked++;
}

static void interrupted(void) {
  on_signal(SIGALRM, tick, SA_RESTART);
  struct itimerval often = {{0, 700}, {0, 700}}, never = {{0, 0}, {0, 0}};
  CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
  for (int i = 0; i < 300 || ticked < 3; i++) {
    char *m = plain_at(NULL, 4, 0);
    m[PAGE] = 'i';
    CHECK(munmap(m + 2 * PAGE, PAGE) == 0 && m[PAGE] == 'i' && munmap(m, 4 * PAGE) == 0);
  }
  CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
  printf("%s\n", ticked >= 3 ? "interrupted" : "not interrupted");
}

int main(void) {
  on_signal(SIGSEGV, fault, 0);
  whole();
  wrong();
  others();
  many();
  heap();
  child();
  together();
  interrupted();
  whole();
  return guest_ok();
}
