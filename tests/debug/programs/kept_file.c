// A page of memory in whose place pieces of a library are mapped, again and again, as a dynamic linker does: hooks do that.
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096 };

static unsigned char *memory;
static int turn;

__attribute__((noinline)) void mapped(void) { __asm__ volatile("" ::: "memory"); }

int main(void) {
  int library = open("/lib/x86_64-linux-gnu/libm.so.6", O_RDONLY);
  if (library < 0) return 1;
  memory = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 1;
  for (turn = 0; turn < 60; turn++) {
    memory[PAGE] = turn;
    if (mmap(memory + PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, library, 0) != memory + PAGE) return 2;
    mapped();
    if (memory[PAGE] != 0x7f || memory[PAGE + 1] != 'E') return 3;
    memory[PAGE + 1] = 200;
  }
  return 0;
}
