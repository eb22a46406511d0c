// What an xsavec instruction leaves out.
#include "hooks.h"

#define EXTENDED_STATE 0xd // the leaf of cpuid that tells of the components
#define COMPACTED (1ul << 63)
#define HEADER 512
#define EXTENDED 576
#define MXCSR 3 // the word of the area that has it, and the mask of its bits

// A question to cpuid with its answer, as the table has it.
struct answer {
  u32 leaf, subleaf, eax, ebx, ecx, edx;
};

static u64 ones_if(u64 bits, u64 bit) { return -(bits >> bit & 1); }

static void keep(u64 *at, u64 words, u64 step, u64 mask) {
  for (; words; words--, at += step) *at &= mask;
}

// An xsavec has written this area: only those components of the state that the processor thinks are in use, which depends on
// when the kernel has saved and loaded them last. So the others get what they have initially (Intel SDM volume 1, 13.6), as
// xsave would have written it, and all count as in use. Loading them back makes no difference.
//
// Which are in use decides no branch, so that as many are executed in replay.
void hooks_saved(u64 *area) {
  u64 *header = area + HEADER / 8, *scratch = (u64 *)SCRATCH_BASE;
  u64 used = header[0], saved = header[1] & ~COMPACTED;
  u64 kept = used | ~saved;
  u64 x87 = ones_if(kept, 0), sse = ones_if(kept, 1);
  area[0] = (area[0] & x87) | (0x37f & ~x87);
  keep(area + 1, 2, 1, x87);
  __asm__ volatile("fxsave %0" : "=m"(*(u8(*)[512])scratch));
  u64 mxcsr = 0x1f80 | (scratch[MXCSR] >> 32 << 32);
  area[MXCSR] = (area[MXCSR] & sse) | (mxcsr & ~sse);
  keep(area + 4, 16, 1, x87);
  keep(area + 20, 32, 1, sse);

  const struct answer *answer = (const struct answer *)(CPUID_BASE + 8), *end = answer + *(u32 *)CPUID_BASE;
  u64 at = EXTENDED, known = 3, enabled = 0;
  for (; answer < end && answer->leaf <= EXTENDED_STATE; answer++) {
    u64 bit = answer->subleaf;
    if (answer->leaf != EXTENDED_STATE) continue;
    if (bit == 0) enabled = answer->eax;
    if (bit < 2 || bit > 62 || !(enabled >> bit & 1)) continue;
    // Where one lies is not known if one before it is not.
    u64 strange = saved & ~enabled & ((1ul << bit) - 1) & ~3ul;
    u64 is_there = (saved >> bit & 1) & ((strange - 1) >> 63);
    u64 there = -is_there;
    u64 aligned = (at + 63) & ~63ul, is_aligned = ones_if(answer->ecx, 1);
    at = (at & ~(there & is_aligned)) | (aligned & there & is_aligned);
    u64 *place = (u64 *)(((u64)scratch & ~there) | (((u64)area + at) & there));
    keep(place, answer->eax / 8, is_there, ones_if(kept, bit));
    at += answer->eax & there;
    known |= is_there << bit;
  }
  header[0] = used | (saved & known);
}
