// Threads that map, move, protect and unmap memory beside each other, by calls that the hooks make and by calls that are traced: each
// gets addresses that depend on what the others have done just before, and finds its own bytes in them.
#include "../guest.h"

enum { THREADS = 4, SLOTS = 6, ROUNDS = 400 };

static int file;
static volatile int left = THREADS;

static unsigned chance(unsigned *seed, unsigned below) {
  *seed = *seed * 1103515245 + 12345;
  return (*seed >> 16) % below;
}

struct slot {
  char *at;
  size_t pages;
};

static char *must(void *m) {
  CHECK(m != MAP_FAILED);
  return m;
}

// Of this many pages, filled with that byte; every third time the file's.
static struct slot make(unsigned *seed, char fill) {
  size_t pages = 1 + chance(seed, 6);
  int prot = PROT_READ | PROT_WRITE;
  char *m;
  if (chance(seed, 3)) {
    m = must(mmap(NULL, pages * PAGE, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    for (size_t i = 0; i < pages; i++) CHECK(m[i * PAGE] == 0 && m[i * PAGE + PAGE - 1] == 0);
  } else {
    m = must(mmap(NULL, pages * PAGE, prot, MAP_PRIVATE, file, 0));
    for (size_t i = 0; i < pages; i++) CHECK(m[i * PAGE] == (char)('A' + i));
  }
  memset(m, fill, pages * PAGE);
  return (struct slot){m, pages};
}

static void change(struct slot *s, unsigned *seed, char fill) {
  for (size_t i = 0; i < s->pages; i++) CHECK(s->at[i * PAGE] == fill && s->at[i * PAGE + PAGE - 1] == fill);
  switch (chance(seed, 6)) {
  case 0: {
    char *m = mremap(s->at, s->pages * PAGE, (s->pages + 1) * PAGE, MREMAP_MAYMOVE);
    if (m == MAP_FAILED) {
      // The pages are of several mappings by now.
      CHECK(errno == EFAULT);
      break;
    }
    s->at = m;
    memset(m + s->pages++ * PAGE, fill, PAGE);
    break;
  }
  case 1:
    CHECK(mprotect(s->at, PAGE, PROT_READ) == 0 && s->at[0] == fill);
    CHECK(mprotect(s->at, s->pages * PAGE, PROT_READ | PROT_WRITE) == 0);
    break;
  case 2:
    must(mmap(s->at, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
    CHECK(s->at[0] == 0 && s->at[PAGE - 1] == 0);
    memset(s->at, fill, PAGE);
    break;
  case 3:
    CHECK(madvise(s->at, s->pages * PAGE, MADV_DONTNEED) == 0 && s->at[0] != fill);
    memset(s->at, fill, s->pages * PAGE);
    break;
  default:
    CHECK(munmap(s->at, s->pages * PAGE) == 0);
    s->at = NULL;
  }
}

static void *work(void *arg) {
  unsigned seed = (unsigned)(uintptr_t)arg;
  char fill = (char)('a' + seed);
  struct slot slots[SLOTS] = {{0}};
  uintptr_t sum = 0;
  for (int i = 0; i < ROUNDS; i++) {
    struct slot *s = &slots[chance(&seed, SLOTS)];
    if (s->at) {
      change(s, &seed, fill);
    } else {
      *s = make(&seed, fill);
    }
    sum = sum * 31 + (uintptr_t)s->at;
    if (i % 11 == 0) sched_yield();
    if (i % 100 == 50) {
      pid_t pid = fork();
      if (pid == 0) {
        for (int j = 0; j < SLOTS; j++)
          if (slots[j].at && (slots[j].at[0] != fill || munmap(slots[j].at, slots[j].pages * PAGE))) _exit(1);
        _exit(2);
      }
      int status;
      CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 2);
    }
  }
  for (int i = 0; i < SLOTS; i++) CHECK(!slots[i].at || munmap(slots[i].at, slots[i].pages * PAGE) == 0);
  __sync_fetch_and_sub(&left, 1);
  return (void *)sum;
}

int main(void) {
  file = open("file", O_RDWR | O_CREAT | O_TRUNC, 0600);
  for (int i = 0; i < 200; i++) {
    char block[PAGE];
    memset(block, 'A' + i % 26, PAGE);
    CHECK(write(file, block, PAGE) == PAGE);
  }
  pthread_t threads[THREADS];
  for (uintptr_t i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, work, (void *)(i + 1)) == 0);
  // Beside them, without a call for long, what looks for its end in the middle of their calls.
  for (unsigned long n = 0; left > 0; n++)
    if (n % 5000000 == 0) sched_yield();
  for (int i = 0; i < THREADS; i++) {
    void *sum;
    CHECK(pthread_join(threads[i], &sum) == 0);
    printf("places hash to %p\n", sum);
  }
  return guest_ok();
}
