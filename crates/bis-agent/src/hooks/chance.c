// The instructions that ask the processor for a number: rdrand, rdseed, rdpid, lsl.
#include <asm/unistd.h>

#include "log.h"
#include "ways.h"

// The segment whose limit is the core that executes, whatever privilege the selector asks for: entry 15 of the table.
#define CORE_SELECTOR 0x78
#define PRIVILEGE 3ul
#define ZF 0x40ul
#define CORE_BITS 0xffful // node and core: the kernel keeps them together

// What the program is told of the core that it is on: one that was asked for it, as by getcpu (`Crew::told_core`).
static u64 told(u64 number) {
  u64 core = number & CORE_BITS;
  u64 is_asked = is(!S->core) | (below(core, 64) & S->cores >> (core & 63));
  return is_asked ? number : (number & ~CORE_BITS) | (S->core - 1);
}

// A number from the processor; the flag (carry, of lsl: zero) says whether there was one.
static u64 ask(u64 kind, u64 *flag) {
  u64 value = 0, selector = S->saved_r11 & 0xffff;
  u8 given = 0;
  if (kind == NR_RDRAND)
    __asm__ volatile("rdrand %0; setc %1" : "=r"(value), "=qm"(given) : : "cc");
  else if (kind == NR_RDSEED)
    __asm__ volatile("rdseed %0; setc %1" : "=r"(value), "=qm"(given) : : "cc");
  else if (kind == NR_RDPID) {
    __asm__ volatile("rdpid %0" : "=r"(value));
    value = told(value);
  } else {
    __asm__ volatile("lsl %2, %0; setz %1" : "+r"(value), "=qm"(given) : "r"(selector) : "cc");
    if ((selector & ~PRIVILEGE) == CORE_SELECTOR) value = told(value);
  }
  *flag = given;
  return value;
}

// The rdrand, rdseed, rdpid and lsl instructions, each of them as the trampoline's own says. It is never left to be traced, because
// nothing would trace it: every other hook leaves enough of the log, and this one has it taken at its end.
void hooks_number(struct chance_frame *f) {
  S->phase = 2;
  u64 done = S->done;
  const u8 *opcode = (const u8 *)done - 3, *prefix = opcode;
  u64 modrm = opcode[2], rex = 0, is_short = 0, is_lsl = is(opcode[1] == 0x03);
  u64 kind = is_lsl ? NR_LSL : (modrm & 8) ? NR_RDSEED : NR_RDRAND;
  // What lies before the prefixes ends the way to this hook: the upper half of a small negative number.
  while (*--prefix != 0xff) {
    if ((*prefix == 0xf3) & !is_lsl) kind = NR_RDPID;
    is_short |= *prefix == 0x66;
    if ((*prefix & 0xf0) == 0x40) rex = *prefix;
  }
  // In replay there is always an entry.
  if (pick(!(S->pos ^ S->end), 0)) hooks_diverged();
  struct entry *e = begin(kind, done);
  u64 *flag = (u64 *)(e + 1);
  if (!S->replay) e->result = ask(kind, flag);
  u64 number = is_lsl ? (modrm >> 3 & 7) | (rex & 4) << 1 : (modrm & 7) | (rex & 1) << 3;
  u64 value = e->result, *place = &f->regs[number];
  if (is_lsl & !*flag)
    ; // There is no such segment, and the register stays.
  else if (is_short)
    *place = (*place & ~0xfffful) | (value & 0xffff);
  else
    *place = rex & 8 ? value : (u32)value;
  // CF, and PF, AF, ZF, SF, OF are 0.
  if (is_lsl)
    f->rflags = (f->rflags & ~ZF) | (*flag & 1) << 6;
  else if (kind != NR_RDPID)
    f->rflags = (f->rflags & ~0x8d5ul) | (*flag & 1);
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
