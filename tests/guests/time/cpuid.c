// cpuid: the same leaf gives the same answer, the vendor is text, registers not named stay.
#include <cpuid.h>
#include "../guest.h"

int main(void) {
  unsigned a, b, c, d, max, a2, b2, c2, d2;
  __cpuid(0, max, b, c, d);
  char vendor[13] = "";
  memcpy(vendor, &b, 4), memcpy(vendor + 4, &d, 4), memcpy(vendor + 8, &c, 4);
  CHECK(max >= 1 && strlen(vendor) == 12);
  __cpuid(1, a, b, c, d);
  __cpuid(1, a2, b2, c2, d2);
  CHECK(a == a2 && c == c2 && d == d2 && (d & 1));
  uint64_t hash = 0;
  for (unsigned leaf = 0; leaf <= max && leaf < 32; leaf++) {
    __cpuid_count(leaf, 0, a2, b2, c2, d2);
    if (leaf != 1 && leaf != 11) hash = hash * 31 + a2 + b2 * 7ul + c2 * 11ul + d2 * 13ul;
  }
  uint64_t upper = 0xffffffff00000007ull;
  __asm__ volatile("movq %1, %%rbx\n cpuid\n movq %%rbx, %0" : "=r"(upper) : "r"(upper), "a"(0) : "rbx", "rcx", "rdx");
  CHECK(upper >> 32 == 0);
  printf("%s, max %u, signature %x features %x %x, apic %u, leaves %lx\n", vendor, max, a, c, d, b >> 24, hash);
  return guest_ok();
}
