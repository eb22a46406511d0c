// Four processes with a memfd mapped shared: a spin barrier and a spin lock in it, and no call between.
#include "../guest.h"
#include <stdatomic.h>

enum { PROCESSES = 4, ROUNDS = 25 };
struct shared {
  atomic_int arrived, round, lock;
  long guarded;
  int first[ROUNDS];
};

static void barrier(struct shared *s) {
  int round = atomic_load(&s->round);
  if (atomic_fetch_add(&s->arrived, 1) == PROCESSES - 1) {
    atomic_store(&s->arrived, 0);
    atomic_store(&s->round, round + 1);
    return;
  }
  while (atomic_load(&s->round) == round) {
  }
}

int main(void) {
  int fd = memfd_create("shared", 0);
  CHECK(fd >= 0 && ftruncate(fd, PAGE) == 0);
  pid_t p[PROCESSES];
  for (int i = 0; i < PROCESSES; i++) {
    p[i] = fork();
    CHECK(p[i] >= 0);
    if (p[i]) continue;
    struct shared *s = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(s != MAP_FAILED);
    for (int round = 0; round < ROUNDS; round++) {
      while (atomic_exchange(&s->lock, 1)) {
      }
      if (!s->first[round]) s->first[round] = i + 1;
      s->guarded++;
      atomic_store(&s->lock, 0);
      barrier(s);
      CHECK(s->guarded >= PROCESSES * (round + 1));
    }
    _exit(0);
  }
  for (int i = 0; i < PROCESSES; i++) check_exited(p[i], 0);
  struct shared *s = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  CHECK(s != MAP_FAILED && s->guarded == PROCESSES * ROUNDS);
  for (int i = 0; i < ROUNDS; i++) printf("%d ", s->first[i]);
  puts("");
  return guest_ok();
}
