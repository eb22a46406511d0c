// What is recorded from its first checkpoint on may be large: what it holds is told in many events. Threads stand anywhere, and
// one computes.
#include "../checkpoints/checkpoints.h"

#define WORDS ((size_t)100 << 17)

static volatile int stop;

static uint64_t sum(const uint64_t *memory) {
  uint64_t result = 0;
  for (size_t i = 0; i < WORDS; i += 64) result = result * 31 + memory[i];
  return result;
}

static void *computes(void *arg) {
  volatile uint64_t *counted = arg;
  while (!stop) ++*counted;
  return NULL;
}

int main(void) {
  needs_bis();
  uint64_t *memory = malloc(WORDS * 8), *counted = calloc(1, 8);
  uint64_t *other = mmap(NULL, 64 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(memory != NULL && other != MAP_FAILED);
  for (size_t i = 0; i < WORDS; i++) memory[i] = i * 0x9e3779b97f4a7c15;
  other[5000] = 7;
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, computes, counted) == 0);
  while (*(volatile uint64_t *)counted == 0) usleep(100);
  uint64_t before = sum(memory);
  bis_handle handle;
  int times = bis_checkpoint(&handle);
  CHECK(times >= 0 && sum(memory) == before && other[5000] == 7 && other[100] == 0);
  printf("%d: %lx\n", times, (unsigned long)before);
  for (size_t i = 0; i < WORDS; i += 1 << 16) memory[i] = times;
  other[5000] = other[100] = 8;
  if (times < 2) CHECK(bis_rollback(handle, BIS_RETRY) == -1000);
  stop = 1;
  CHECK(pthread_join(thread, NULL) == 0 && bis_discard(handle) == 0);
  return guest_ok();
}
