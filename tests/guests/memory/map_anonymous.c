// Anonymous mappings: zeros, hints, MAP_FIXED over own mappings, MAP_FIXED_NOREPLACE, partial unmap.
#include "../guest.h"

int main(void) {
  int rw = PROT_READ | PROT_WRITE, anon = MAP_PRIVATE | MAP_ANONYMOUS;
  char *m = mmap(NULL, 8 * PAGE, rw, anon, -1, 0);
  CHECK(m != MAP_FAILED);
  for (int i = 0; i < 8 * PAGE; i++) CHECK(m[i] == 0);
  memset(m, 'm', 8 * PAGE);
  CHECK(mmap(m + 2 * PAGE, 2 * PAGE, rw, anon | MAP_FIXED, -1, 0) == m + 2 * PAGE);
  CHECK(m[2 * PAGE - 1] == 'm' && m[2 * PAGE] == 0 && m[4 * PAGE - 1] == 0 && m[4 * PAGE] == 'm');
  CHECK_ERRNO((long)mmap(m, PAGE, rw, anon | MAP_FIXED_NOREPLACE, -1, 0), EEXIST);
  CHECK(munmap(m + PAGE, PAGE) == 0);
  CHECK(mmap(m + PAGE, PAGE, rw, anon | MAP_FIXED_NOREPLACE, -1, 0) == m + PAGE && m[PAGE] == 0);
  CHECK(munmap(m, 8 * PAGE) == 0);
  CHECK_ERRNO(munmap(m + 1, PAGE), EINVAL);
  CHECK_ERRNO((long)mmap(NULL, 0, rw, anon, -1, 0), EINVAL);
  CHECK_ERRNO((long)mmap(NULL, PAGE, rw, MAP_PRIVATE, 999, 0), EBADF);
  char *hint = mmap(m, PAGE, rw, anon, -1, 0);
  CHECK(hint != MAP_FAILED);
  char *low = mmap(NULL, PAGE, rw, anon | MAP_32BIT, -1, 0);
  CHECK(low != MAP_FAILED && (uintptr_t)low < 1ul << 31);
  char *populated = mmap(NULL, 16 * PAGE, rw, anon | MAP_POPULATE | MAP_NORESERVE, -1, 0);
  CHECK(populated != MAP_FAILED && populated[15 * PAGE] == 0);
  printf("%p %p %p %p\n", m, hint, low, populated);
  return guest_ok();
}
