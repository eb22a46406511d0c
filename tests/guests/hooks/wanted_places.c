// Memory at addresses that the program chooses: low, below a stack, in holes, until there is no room, and the heap as
// far as it grows. Where an address is refused (another may be there), nothing of what there was is lost.
#include "../guest.h"
#include <sys/resource.h>

static void use(char *at, size_t len) {
  CHECK(at[0] == 0 && at[len - 1] == 0);
  at[0] = 'a', at[len - 1] = 'z';
}

int main(void) {
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  int had = 0, refused = 0;
  for (uintptr_t at = 0x60000000; at < 0x80000000; at += 0x800000) {
    char *got = mmap((void *)at, 0x10000, PROT_READ | PROT_WRITE, flags | MAP_FIXED_NOREPLACE, -1, 0);
    if (got == MAP_FAILED) {
      CHECK(errno == EEXIST);
      refused++;
      // A hint only: it comes to be elsewhere.
      got = mmap((void *)at, 0x10000, PROT_READ | PROT_WRITE, flags, -1, 0);
      CHECK(got != MAP_FAILED && got != (char *)at);
    } else {
      CHECK(got == (char *)at);
      had++;
    }
    use(got, 0x10000);
    CHECK(getppid() > 0 && write(-1, "", 0) == -1);
    CHECK(munmap(got, 0x10000) == 0);
  }
  CHECK(refused <= 2 && had >= 62);
  // Over whatever is there, natively nothing; and moved there.
  char *wanted = (char *)0x70000000;
  for (int i = 0; i < 3; i++) {
    char *got = mmap(wanted, 0x200000, PROT_READ | PROT_WRITE, flags | MAP_FIXED, -1, 0);
    CHECK(got == wanted || (got == MAP_FAILED && errno == ENOMEM));
    if (got == wanted) CHECK(munmap(got, 0x200000) == 0);
    got = mmap(NULL, 0x4000, PROT_READ | PROT_WRITE, flags, -1, 0);
    CHECK(got != MAP_FAILED);
    char *moved = mremap(got, 0x4000, 0x4000, MREMAP_MAYMOVE | MREMAP_FIXED, wanted + 0x4000);
    CHECK(moved == wanted + 0x4000 || (moved == MAP_FAILED && errno == ENOMEM));
    CHECK(munmap(moved == MAP_FAILED ? got : moved, 0x4000) == 0);
    CHECK(getppid() > 0);
  }
  // In the first 2 GiB, until there is no room.
  size_t low = 0;
  for (char *got; (got = mmap(NULL, 1 << 26, PROT_READ | PROT_WRITE, flags | MAP_32BIT, -1, 0)) != MAP_FAILED; low++) {
    use(got, 1 << 26);
    CHECK(getppid() > 0);
  }
  CHECK(low >= 10);
  // The heap, page by page and by a lot.
  char *start = sbrk(0);
  for (int i = 0; i < 64; i++) {
    char *at = sbrk(3 * PAGE);
    CHECK(at != (void *)-1);
    use(at, 3 * PAGE);
  }
  CHECK(sbrk(1 << 28) != (void *)-1 && getppid() > 0);
  CHECK(brk(start) == 0);
  // All that there is, in pieces of 2^40 down to 2^30 bytes. (Not with checksums of it all: none of it is touched.)
  size_t pieces = 0;
  for (int bits = 46; bits >= 38; bits--) {
    void *got;
    while ((got = mmap(NULL, 1ul << bits, PROT_NONE, flags, -1, 0)) != MAP_FAILED) {
      pieces++;
      CHECK(getppid() > 0);
    }
  }
  CHECK(errno == ENOMEM && pieces >= 2);
  // There is still room for what is small.
  char *got = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, flags, -1, 0);
  CHECK(got != MAP_FAILED);
  use(got, PAGE);
  pid_t child = fork();
  if (child == 0) _exit(getppid() > 0 ? 3 : 4);
  check_exited(child, 3);
  printf("%d\n", child);
  return guest_ok();
}
