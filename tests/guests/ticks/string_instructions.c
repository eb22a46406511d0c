// A task that spends all its time in instructions that repeat themselves is stopped for the others too: behind one of
// them, not between two of its rounds.
#include "../guest.h"
#include <stdatomic.h>

enum { LEN = 4 << 20 };
static char *from, *to;
static atomic_int done;

static void *count(void *arg) {
  for (int i = 0; i < 8; i++) usleep(5000);
  atomic_store(&done, 1);
  return arg;
}

static void copy(void) {
  void *d = to, *s = from;
  size_t n = LEN;
  __asm__ volatile("rep movsb" : "+D"(d), "+S"(s), "+c"(n) : : "memory");
}

int main(void) {
  from = malloc(LEN), to = malloc(LEN);
  CHECK(from && to);
  memset(from, 7, LEN);
  pthread_t t;
  CHECK(pthread_create(&t, NULL, count, NULL) == 0);
  int rounds = 0;
  while (!atomic_load(&done)) copy(), rounds++;
  CHECK(pthread_join(t, NULL) == 0);
  CHECK(memcmp(from, to, LEN) == 0);
  printf("%d rounds\n", rounds);
  return guest_ok();
}
