// The instructions that ask the processor for a number: rdrand, rdseed, rdpid.
#include "log.h"
#include "ways.h"

// A number from the processor; the carry flag says whether there was one.
static u64 ask(u64 kind, u64 *carry) {
  u64 value = 0;
  u8 given = 0;
  if (kind == NR_RDRAND)
    __asm__ volatile("rdrand %0; setc %1" : "=r"(value), "=qm"(given) : : "cc");
  else if (kind == NR_RDSEED)
    __asm__ volatile("rdseed %0; setc %1" : "=r"(value), "=qm"(given) : : "cc");
  else
    __asm__ volatile("rdpid %0" : "=r"(value));
  *carry = given;
  return value;
}

// The rdrand, rdseed and rdpid instructions, each of them as the trampoline's own says. It is never left to be traced, because
// nothing would trace it: every other hook leaves enough of the log, and this one has it taken at its end.
void hooks_number(struct chance_frame *f) {
  S->phase = 2;
  u64 done = S->done;
  const u8 *opcode = (const u8 *)done - 3, *prefix = opcode;
  u64 modrm = opcode[2], rex = 0, is_short = 0, kind = (modrm & 8) ? NR_RDSEED : NR_RDRAND;
  // What lies before the prefixes ends the way to this hook: the upper half of a small negative number.
  while (*--prefix != 0xff) {
    if (*prefix == 0xf3) kind = NR_RDPID;
    is_short |= *prefix == 0x66;
    if ((*prefix & 0xf0) == 0x40) rex = *prefix;
  }
  // In replay there is always an entry.
  if (pick(!(S->pos ^ S->end), 0)) hooks_diverged();
  struct entry *e = begin(kind, done);
  u64 *carry = (u64 *)(e + 1);
  if (!S->replay) e->result = ask(kind, carry);
  u64 value = e->result, *place = &f->regs[(modrm & 7) | (rex & 1) << 3];
  if (is_short)
    *place = (*place & ~0xfffful) | (value & 0xffff);
  else
    *place = rex & 8 ? value : (u32)value;
  // CF, and PF, AF, ZF, SF, OF are 0.
  if (kind != NR_RDPID) f->rflags = (f->rflags & ~0x8d5ul) | (*carry & 1);
  finish(e, sizeof *e + 8, 0);
  S->count++;
  u64 at_end = S->end_stop & !(S->pos ^ S->end);
  u64 stop = is(pick(at_end, below(S->soon, S->pos)));
  S->exit = ((u64)hooks_safepoint_whole & -stop) | (done & ~-stop);
  if (S->exit_stop) {
    S->exit_stop = 0;
    S->stop = 1;
  }
  S->phase = 0;
}
