// mremap: grow in place or by moving, shrink, move to a fixed place, DONTUNMAP, and an old length of 0.
#include "../guest.h"

int main(void) {
  int rw = PROT_READ | PROT_WRITE;
  char *m = mmap(NULL, 4 * PAGE, rw, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (int i = 0; i < 4; i++) m[i * PAGE] = 'a' + i;
  char *blocker = mmap(m + 4 * PAGE, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  char *big = mremap(m, 4 * PAGE, 100 * PAGE, MREMAP_MAYMOVE);
  CHECK(big != MAP_FAILED);
  for (int i = 0; i < 4; i++) CHECK(big[i * PAGE] == 'a' + i);
  CHECK(big[99 * PAGE] == 0);
  CHECK(mremap(big, 100 * PAGE, 2 * PAGE, 0) == big && big[PAGE] == 'b');
  CHECK_ERRNO((long)mremap(big + 50 * PAGE, PAGE, 2 * PAGE, MREMAP_MAYMOVE), EFAULT);
  char *place = mmap(NULL, 8 * PAGE, rw, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(mremap(big, 2 * PAGE, 3 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, place + PAGE) == place + PAGE);
  CHECK(place[PAGE] == 'a' && place[2 * PAGE] == 'b' && place[3 * PAGE] == 0);
  // A second mapping of shared pages.
  char *s = mmap(NULL, PAGE, rw, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  strcpy(s, "shared");
  char *t = mremap(s, 0, PAGE, MREMAP_MAYMOVE);
  CHECK(t != MAP_FAILED && t != s && strcmp(t, "shared") == 0);
  t[0] = 'S';
  CHECK(s[0] == 'S');
  char *grown = mremap(s, PAGE, PAGE, MREMAP_MAYMOVE);
  CHECK(grown == s);
#ifdef MREMAP_DONTUNMAP
  char *u = mmap(NULL, PAGE, rw, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  u[0] = 'u';
  char *v = mremap(u, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP);
  if (v != MAP_FAILED) CHECK(v != u && v[0] == 'u' && u[0] == 0);
#endif
  printf("%p %p %p %p %p\n", m, blocker, big, place, t);
  return guest_ok();
}
