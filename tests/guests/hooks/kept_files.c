// unstopped: mmap
// Pieces of a library, mapped privately again and again as a dynamic linker does: hooks map what the trace has of it already. They
// show the file, and the program's own stores; where the file ends, zeros; also in a child, beside other threads, in place of
// plain memory, and at an address that is not free. A file that has changed since is another one.
#include "../guest.h"
#include <sys/stat.h>

enum { TIMES = 40 };

static int library;
static size_t len;

static unsigned char *map(void *at, size_t size, int prot, int flags, off_t offset) {
  return mmap(at, size, prot, MAP_PRIVATE | flags, library, offset);
}

// It shows the file from this offset on, and zeros behind its end.
static int shows(const unsigned char *at, size_t size, off_t offset) {
  static __thread unsigned char bytes[16 * PAGE];
  memset(bytes, 0, sizeof bytes);
  return pread(library, bytes, size, offset) >= 0 && memcmp(at, bytes, size) == 0;
}

static void *pieces(void *arg) {
  unsigned seed = (unsigned)(uintptr_t)arg + 1;
  for (int i = 0; i < TIMES; i++) {
    size_t size = PAGE * (1 + rand_r(&seed) % 8);
    off_t offset = (off_t)PAGE * (rand_r(&seed) % (len / PAGE));
    int prot = i % 2 ? PROT_READ : PROT_READ | PROT_WRITE;
    unsigned char *at = map(NULL, size, prot, i % 3 ? 0 : MAP_DENYWRITE, offset);
    // Whole pages behind the file's end would fault.
    size_t there = len - offset < size ? ((len - offset + PAGE - 1) & ~(size_t)(PAGE - 1)) : size;
    CHECK(at != MAP_FAILED && shows(at, there, offset));
    if (prot & PROT_WRITE) {
      at[5] = (unsigned char)i;
      CHECK(at[5] == (unsigned char)i);
      // One page of it shows something else of the file, then nothing of it.
      CHECK(map(at, PAGE, PROT_READ, MAP_FIXED, 0) == at && shows(at, PAGE, 0));
      CHECK(mmap(at, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at && at[5] == 0);
      CHECK(mprotect(at, PAGE, PROT_READ) == 0);
    }
    CHECK(munmap(at, size) == 0);
  }
  return NULL;
}

int main(void) {
  const char *names[] = {"/lib/x86_64-linux-gnu/libm.so.6", "/usr/lib64/libm.so.6", "/lib/libm.so.6"};
  for (int i = 0; i < 3 && library <= 0; i++) library = open(names[i], O_RDONLY | O_CLOEXEC);
  struct stat stat;
  CHECK(library > 0 && fstat(library, &stat) == 0 && (len = stat.st_size) > 16 * PAGE);
  pieces(NULL);
  pid_t child = fork();
  if (child == 0) {
    pieces((void *)7);
    _exit(0);
  }
  check_exited(child, 0);
  pthread_t threads[3];
  for (long i = 0; i < 3; i++) threads[i] = start_thread(pieces, (void *)(i + 10));
  for (int i = 0; i < 3; i++) join_thread(threads[i]);
  // What the kernel refuses.
  unsigned char *taken = map(NULL, 2 * PAGE, PROT_READ, 0, 0);
  CHECK(taken != MAP_FAILED);
  CHECK(map(taken, PAGE, PROT_READ, MAP_FIXED_NOREPLACE, 0) == MAP_FAILED && errno == EEXIST);
  CHECK(map(NULL, PAGE, PROT_READ, 0, 7) == MAP_FAILED && errno == EINVAL);
  CHECK(map(NULL, 0, PROT_READ, 0, 0) == MAP_FAILED && errno == EINVAL);
  CHECK(shows(taken, 2 * PAGE, 0));
  // Another file under the same descriptor is not this one.
  int other = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), own = dup(library);
  CHECK(other > 0 && own > 0 && dup2(other, library) == library);
  unsigned char *exe = map(NULL, PAGE, PROT_READ, 0, 0);
  CHECK(exe != MAP_FAILED && shows(exe, PAGE, 0));
  CHECK(dup2(own, library) == library);
  exe = map(NULL, PAGE, PROT_READ, 0, 0);
  CHECK(exe != MAP_FAILED && shows(exe, PAGE, 0));
  return guest_ok();
}
