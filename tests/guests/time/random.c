// steps:
// getrandom, /dev/urandom, AT_RANDOM, rdrand if the CPU says it has it, random names: printed, so they must replay.
// hooked without cpuid_fault: nothing hides rdrand, or records it
#include <cpuid.h>
#include "../guest.h"
#include <sys/auxv.h>
#include <sys/random.h>

int main(void) {
  unsigned char a[64] = {0}, b[64] = {0}, c[64];
  CHECK(getrandom(a, sizeof a, 0) == sizeof a && getrandom(b, sizeof b, GRND_NONBLOCK) == sizeof b);
  CHECK(memcmp(a, b, sizeof a) != 0);
  CHECK(getentropy(c, 32) == 0);
  int fd = open("/dev/urandom", O_RDONLY);
  CHECK(fd >= 0 && read(fd, c, sizeof c) == sizeof c);
  unsigned char *at = (unsigned char *)getauxval(AT_RANDOM);
  CHECK(at);
  printf("%lx %lx %lx %lx\n", digest(a, 64), digest(b, 64), digest(c, 64), digest(at, 16));
  unsigned eax, ebx, ecx, edx;
  CHECK(__get_cpuid(1, &eax, &ebx, &ecx, &edx));
  if (ecx & (1u << 30)) {
    uint64_t r = 0;
    unsigned char ok = 0;
    __asm__ volatile("rdrand %0\n setc %1" : "=r"(r), "=qm"(ok));
    printf("rdrand %lx %d\n", r, ok);
  }
  CHECK_ERRNO(getrandom(a, 8, 0xffff), EINVAL);
  return guest_ok();
}
