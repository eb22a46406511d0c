// Machine code that is written at run time.
#pragma once
#include "../guest.h"

typedef unsigned long (*Loop)(unsigned long n);

// xor eax, eax; again: add rax, STEP; pause; (nops); dec rdi; jnz again; ret
// Without the pause, which takes some ten times as long as the rest, a millisecond is half a million passes, and at places where no
// breakpoint with a condition can be, replay stops for each.
static void write_loop(unsigned char *at, unsigned step, int nops) {
  unsigned char *p = at;
  *p++ = 0x31, *p++ = 0xc0;
  unsigned char *again = p;
  *p++ = 0x48, *p++ = 0x05;
  memcpy(p, &step, 4), p += 4;
  *p++ = 0xf3, *p++ = 0x90;
  while (nops--) *p++ = 0x90;
  *p++ = 0x48, *p++ = 0xff, *p++ = 0xcf;
  *p++ = 0x75, *p = (unsigned char)(again - (p + 1)), p++;
  *p++ = 0xc3;
}
