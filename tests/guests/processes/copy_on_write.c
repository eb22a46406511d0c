// After fork, parent and child write the same 200 pages: each sees only its own bytes, generation by generation.
#include "../guest.h"

int main(void) {
  int n = 200;
  unsigned char *m = mmap(NULL, (size_t)n * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (int i = 0; i < n; i++) m[i * PAGE] = (unsigned char)i;
  pid_t chain[4];
  for (int gen = 0; gen < 4; gen++) {
    chain[gen] = fork();
    CHECK(chain[gen] >= 0);
    if (chain[gen] == 0) {
      for (int i = 0; i < n; i += gen + 1) m[i * PAGE + 1] = (unsigned char)(gen + 1);
      for (int i = 0; i < n; i++) CHECK(m[i * PAGE + 1] == (i % (gen + 1) ? 0 : gen + 1) && m[i * PAGE] == (unsigned char)(i + gen));
      _exit(gen);
    }
    for (int i = 0; i < n; i++) m[i * PAGE]++;
  }
  for (int gen = 0; gen < 4; gen++) check_exited(chain[gen], gen);
  for (int i = 0; i < n; i++) CHECK(m[i * PAGE] == i + 4 && m[i * PAGE + 1] == 0);
  printf("%p, %d to %d\n", m, chain[0], chain[3]);
  return guest_ok();
}
