// Text in which there may be an instruction that reads the time stamp counter, because it has data that looks like one, in
// a program of computing threads: the text stays one mapping to its program, and the data can be read.
#include "../guest.h"

static volatile unsigned long turns[2];
static _Atomic int ready;

// A page of numbers between the functions, as cryptographic libraries have them.
__asm__(".text\n .balign 4096\n numbers: .byte 0x0f, 0x31, 0xc3, 0x0f, 0x01, 0xf9\n .fill 4090, 1, 7\n .balign 4096\n");
extern const volatile unsigned char numbers[4096];

__attribute__((noinline)) static unsigned long over(unsigned long n) {
  unsigned long sum = 0;
  for (unsigned long i = 0; i < n; i++) sum += numbers[i % 6];
  return sum;
}

static void *body(void *arg) {
  long i = (long)arg;
  ready++;
  while (ready < 2) {} // each needs the other
  for (int k = 0; k < 4000; k++) {
    CHECK(over(600) == 100 * (0x0f + 0x31 + 0xc3 + 0x0f + 0x01 + 0xf9));
    turns[i]++;
  }
  return arg;
}

int main(void);

static int executable_lines_of_main(void) {
  FILE *maps = fopen("/proc/self/maps", "r");
  CHECK(maps);
  char line[512];
  int lines = 0, found = 0;
  while (fgets(line, sizeof line, maps)) {
    unsigned long from, to;
    char prot[8];
    CHECK(sscanf(line, "%lx-%lx %7s", &from, &to, prot) == 3);
    bool is_it = from <= (unsigned long)over && (unsigned long)over < to;
    if (is_it) {
      found++;
      CHECK(strcmp(prot, "r-xp") == 0 && from <= (unsigned long)main && (unsigned long)main < to);
      CHECK(strstr(line, "guarded"));
    }
    lines += strcmp(prot, "r-xp") == 0 && strstr(line, "guarded") != NULL;
  }
  fclose(maps);
  CHECK(found == 1);
  return lines;
}

int main(void) {
  CHECK(executable_lines_of_main() == 1);
  pthread_t t[2];
  for (long i = 0; i < 2; i++) t[i] = start_thread(body, (void *)i);
  CHECK(executable_lines_of_main() == 1);
  for (int i = 0; i < 2; i++) join_thread(t[i]);
  CHECK(turns[0] == 4000 && turns[1] == 4000);
  CHECK(executable_lines_of_main() == 1);
  return guest_ok();
}
