// What was mapped, unmapped, protected and grown since a checkpoint is so no more: anonymous memory, the heap's end, a
// private mapping of a file.
#include "checkpoints.h"
#include <fcntl.h>
#include <unistd.h>

enum { LEN = 8 << 12 };

static char *map(int prot) {
  char *memory = mmap(NULL, LEN, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(memory != MAP_FAILED);
  return memory;
}

// Is there something mapped?
static int is_there(char *memory) {
  unsigned char there;
  return mincore(memory, 4096, &there) == 0;
}

int main(void) {
  needs_bis();
  char *kept = map(PROT_READ | PROT_WRITE), *lost = map(PROT_READ | PROT_WRITE), *locked = map(PROT_READ);
  char *forgotten = map(PROT_READ | PROT_WRITE);
  memset(kept, 'k', LEN);
  memset(lost, 'l', LEN);
  memset(forgotten, 'f', LEN);
  int file = open("/proc/self/exe", O_RDONLY);
  char *text = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
  CHECK(file >= 0 && text != MAP_FAILED && memcmp(text, "\177ELF", 4) == 0);
  text[100] = 'x';
  char *brk = sbrk(LEN);
  CHECK(brk != (char *)-1);
  strcpy(brk, "heap");

  bis_handle handle;
  int times = bis_checkpoint(&handle);
  CHECK(times >= 0);
  CHECK(kept[LEN - 1] == 'k' && lost[5] == 'l' && lost[LEN - 1] == 'l' && forgotten[4096] == 'f');
  CHECK(locked[0] == 0 && memcmp(text, "\177ELF", 4) == 0 && text[100] == 'x' && text[101] != 'y');
  CHECK(sbrk(0) == brk + LEN && strcmp(brk, "heap") == 0);
  static char *made;
  CHECK(made == NULL);
  made = map(PROT_READ | PROT_WRITE);
  memset(made, 'm', LEN);
  printf("%d: %d\n", times, is_there(made));

  memset(kept, 'K', 4096);
  CHECK(munmap(lost, LEN / 2) == 0 && !is_there(lost));
  CHECK(mprotect(locked, LEN, PROT_READ | PROT_WRITE) == 0);
  locked[0] = 'L';
  CHECK(madvise(forgotten, LEN, MADV_DONTNEED) == 0 && forgotten[4096] == 0);
  text[101] = 'y';
  strcpy(brk, "changed");
  CHECK(sbrk(times % 2 ? LEN : -LEN / 2) != (void *)-1);
  // Something else lies where something was.
  CHECK(mmap(kept + 4096, 4096, PROT_READ, MAP_PRIVATE | MAP_FIXED, file, 0) == kept + 4096);
  CHECK(memcmp(kept + 4096, "\177ELF", 4) == 0);
  if (times == 2) {
    CHECK(munmap(text, 4096) == 0);
    CHECK(munmap(kept, LEN) == 0);
  }
  if (times < 4) CHECK(bis_rollback(handle, BIS_RETRY) == -1000);
  return guest_ok();
}
