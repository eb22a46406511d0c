// More memory has changed since the checkpoint than one event should hold.
#include "checkpoints.h"

enum { MEGABYTES = 100 };

int main(void) {
  needs_bis();
  uint64_t *memory = mmap(NULL, MEGABYTES << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(memory != MAP_FAILED);
  const long count = (MEGABYTES << 20) / sizeof *memory;
  for (long i = 0; i < count; i++) memory[i] = i * 0x9e3779b97f4a7c15;
  bis_handle handle;
  int times = bis_checkpoint(&handle);
  CHECK(times >= 0);
  for (long i = 0; i < count; i++) CHECK(memory[i] == i * 0x9e3779b97f4a7c15);
  printf("%d\n", times);
  for (long i = 0; i < count; i++) memory[i]++;
  if (times < 1) CHECK(bis_rollback(handle, BIS_RETRY) == -1000);
  return guest_ok();
}
