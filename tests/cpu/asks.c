// What a program is told of the processor, by all ways that there are; one line for each. It must be executed anywhere.
#include <cpuid.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>

static unsigned ask(unsigned leaf, unsigned subleaf, int index) {
  unsigned r[4];
  __cpuid_count(leaf, subleaf, r[0], r[1], r[2], r[3]);
  return r[index];
}

int main(void) {
  unsigned leaf1 = ask(1, 0, 2), leaf7 = ask(0, 0, 0) >= 7 ? ask(7, 0, 1) : 0;
  unsigned more = ask(0, 0, 0) >= 7 && ask(7, 0, 0) >= 1 ? ask(7, 1, 0) : 0;
  printf("sse4.2 %u\n", leaf1 >> 20 & 1);
  printf("avx %u\n", leaf1 >> 28 & 1);
  printf("osxsave %u\n", leaf1 >> 27 & 1);
  printf("aes %u\n", leaf1 >> 25 & 1);
  printf("avx2 %u\n", leaf7 >> 5 & 1);
  printf("avx512f %u\n", leaf7 >> 16 & 1);
  printf("fsgsbase %u\n", leaf7 & 1);
  printf("unknown %u\n", more >> 13 & 1);
  printf("hwcap2.fsgsbase %lu\n", getauxval(AT_HWCAP2) >> 1 & 1);
  // The compiler's own question, made when the program began.
  printf("supports.avx2 %d\n", !!__builtin_cpu_supports("avx2"));
  // The C library has chosen its functions by the same answers; they must work.
  char text[300], copy[300];
  memset(text, 'x', sizeof text - 1), text[sizeof text - 1] = 0;
  strcpy(copy, text);
  printf("copied %zu %d\n", strlen(copy), strcmp(copy, text));
  return 0;
}
