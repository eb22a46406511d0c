//! Executes a program of classic BPF that `check` has found good.
//!
//! Jumps lead forwards only, so it ends after at most as many steps as it has instructions. Divided by a
//! register that is zero, a program ends with 0, which kills; a shift by a register counts modulo 32, as the
//! kernel's machine has it.

use super::{DATA_LEN, Insn, Question, Table};

/// The parts of an instruction's code.
pub mod code {
    pub const CLASS: u16 = 0x07;
    pub const LD: u16 = 0x00;
    pub const LDX: u16 = 0x01;
    pub const ST: u16 = 0x02;
    pub const STX: u16 = 0x03;
    pub const ALU: u16 = 0x04;
    pub const JMP: u16 = 0x05;
    pub const RET: u16 = 0x06;
    pub const MISC: u16 = 0x07;

    /// Where a load takes its word from.
    pub const MODE: u16 = 0xe0;
    pub const IMM: u16 = 0x00;
    pub const ABS: u16 = 0x20;
    pub const MEM: u16 = 0x60;
    pub const LEN: u16 = 0x80;

    /// What is calculated, or when a jump is taken.
    pub const OP: u16 = 0xf0;
    pub const ADD: u16 = 0x00;
    pub const SUB: u16 = 0x10;
    pub const MUL: u16 = 0x20;
    pub const DIV: u16 = 0x30;
    pub const OR: u16 = 0x40;
    pub const AND: u16 = 0x50;
    pub const LSH: u16 = 0x60;
    pub const RSH: u16 = 0x70;
    pub const NEG: u16 = 0x80;
    pub const XOR: u16 = 0xa0;
    pub const JA: u16 = 0x00;
    pub const JEQ: u16 = 0x10;
    pub const JGT: u16 = 0x20;
    pub const JGE: u16 = 0x30;
    pub const JSET: u16 = 0x40;

    /// The second operand is the register X, not the constant.
    pub const X: u16 = 0x08;
    /// What is returned is the register A, not the constant.
    pub const A: u16 = 0x10;
    /// Of MISC: X becomes A (0x00: TAX), or A becomes X.
    pub const TXA: u16 = 0x80;
}

/// Words of memory that a program has.
pub const MEMORY: usize = 16;

/// A word of `struct seccomp_data`; none where it is to be unknown.
fn word(question: &Question, only_number: bool, at: u32) -> Option<u32> {
    let half = |value: u64, high: bool| {
        let word = if high { value >> 32 } else { value & 0xffff_ffff };
        u32::try_from(word).unwrap_or(0)
    };
    match at {
        0 => return Some(question.nr),
        4 => return Some(question.table.arch()),
        _ if only_number => return None,
        8 | 12 => return Some(half(question.ip, at == 12)),
        _ => {}
    }
    let index = usize::try_from((at - 16) / 8).ok()?;
    question.args.get(index).map(|arg| half(*arg, at % 8 == 4))
}

fn calculate(op: u16, a: u32, b: u32) -> Option<u32> {
    Some(match op {
        code::ADD => a.wrapping_add(b),
        code::SUB => a.wrapping_sub(b),
        code::MUL => a.wrapping_mul(b),
        code::DIV => return a.checked_div(b),
        code::OR => a | b,
        code::AND => a & b,
        code::LSH => a.wrapping_shl(b),
        code::RSH => a.wrapping_shr(b),
        code::XOR => a ^ b,
        _ => a.wrapping_neg(),
    })
}

/// What a program says of a call.
pub fn run(program: &[Insn], question: &Question) -> u32 {
    execute(program, question, false).unwrap_or(0)
}

/// What it says of all calls of a number of the 64-bit table; none where it loads anything else than that,
/// and the architecture.
pub fn of_number(program: &[Insn], nr: u32) -> Option<u32> {
    execute(program, &Question { nr, ip: 0, args: [0; 6], table: Table::Wide }, true)
}

fn execute(program: &[Insn], question: &Question, only_number: bool) -> Option<u32> {
    let (mut a, mut x, mut memory) = (0u32, 0u32, [0u32; MEMORY]);
    let mut at = 0;
    loop {
        // A good program ends with a return.
        let insn = program.get(at)?;
        at += 1;
        let operand = if insn.code & code::X != 0 { x } else { insn.k };
        let slot = insn.k as usize % MEMORY;
        match insn.code & code::CLASS {
            class @ (code::LD | code::LDX) => {
                let loaded = match insn.code & code::MODE {
                    code::IMM => insn.k,
                    code::ABS => word(question, only_number, insn.k)?,
                    code::MEM => memory[slot],
                    _ => DATA_LEN,
                };
                *(if class == code::LD { &mut a } else { &mut x }) = loaded;
            }
            code::ST => memory[slot] = a,
            code::STX => memory[slot] = x,
            code::ALU => match calculate(insn.code & code::OP, a, operand) {
                Some(result) => a = result,
                None => return Some(0),
            },
            code::JMP => {
                let holds = match insn.code & code::OP {
                    code::JEQ => a == operand,
                    code::JGT => a > operand,
                    code::JGE => a >= operand,
                    code::JSET => a & operand != 0,
                    _ => {
                        at += insn.k as usize;
                        continue;
                    }
                };
                at += usize::from(if holds { insn.jt } else { insn.jf });
            }
            code::RET => return Some(if insn.code & code::A != 0 { a } else { insn.k }),
            _ if insn.code & code::TXA != 0 => a = x,
            _ => x = a,
        }
    }
}
