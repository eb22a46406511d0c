//! Which programs the kernel takes as filters (kernel/seccomp.c and net/core/filter.c decide it there).

use super::{
    DATA_LEN, INSNS_MAX, Insn,
    run::{MEMORY, code},
};

/// Of the codes: a load of a whole word.
const WORD: u16 = 0x00;

/// Is this an instruction that filters may have, with a constant that it may have?
fn is_known(insn: Insn) -> bool {
    let is_slot = (insn.k as usize) < MEMORY;
    let Insn { code: all, k, .. } = insn;
    match all & code::CLASS {
        code::LD if all == code::LD | WORD | code::ABS => k < DATA_LEN && k.is_multiple_of(4),
        class @ (code::LD | code::LDX) => match all & !class {
            code::IMM | code::LEN => true,
            code::MEM => is_slot,
            _ => false,
        },
        class @ (code::ST | code::STX) => all == class && is_slot,
        code::ALU => {
            let by_constant = all & code::X == 0;
            if all & !(code::CLASS | code::OP | code::X) != 0 {
                return false;
            }
            match all & code::OP {
                code::ADD | code::SUB | code::MUL | code::OR | code::AND | code::XOR => true,
                code::DIV => !by_constant || k != 0,
                code::LSH | code::RSH => !by_constant || k < 32,
                code::NEG => by_constant,
                _ => false,
            }
        }
        code::JMP => match all & !(code::CLASS | code::X) {
            code::JA => all & code::X == 0,
            code::JEQ | code::JGT | code::JGE | code::JSET => true,
            _ => false,
        },
        code::RET => [code::RET, code::RET | code::A].contains(&all),
        _ => [code::MISC, code::MISC | code::TXA].contains(&all),
    }
}

/// Where an instruction goes on to: the next, and what a jump leads to.
fn targets(at: usize, insn: Insn) -> impl Iterator<Item = usize> {
    let is_jump = insn.code & code::CLASS == code::JMP;
    let skipped = match insn.code & code::OP {
        _ if !is_jump => [0, 0],
        code::JA => [insn.k as usize; 2],
        _ => [usize::from(insn.jt), usize::from(insn.jf)],
    };
    skipped.into_iter().map(move |skip| at.saturating_add(1).saturating_add(skip))
}

/// Is each word of memory stored on every way to where it is loaded?
fn loads_what_it_stored(program: &[Insn]) -> bool {
    // For each instruction the words that have been stored by every way that leads there.
    let mut stored = vec![u16::MAX; program.len()];
    if let Some(first) = stored.first_mut() {
        *first = 0;
    }
    for (at, insn) in program.iter().enumerate() {
        let mut now = stored[at];
        let bit = 1u16.wrapping_shl(insn.k);
        match insn.code & code::CLASS {
            code::ST | code::STX => now |= bit,
            code::LD | code::LDX if insn.code & code::MODE == code::MEM && now & bit == 0 => return false,
            // The kernel takes what follows a return as reached from there, too.
            _ => {}
        }
        for target in targets(at, *insn) {
            if let Some(there) = stored.get_mut(target) {
                *there &= now;
            }
        }
    }
    true
}

/// Would the kernel take this program?
pub fn is_good(program: &[Insn]) -> bool {
    let ends = program.last().is_some_and(|last| last.code & code::CLASS == code::RET);
    let leads_on = |(at, insn): (usize, &Insn)| {
        insn.code & code::CLASS != code::JMP || targets(at, *insn).all(|target| target < program.len())
    };
    ends && program.len() <= INSNS_MAX
        && program.iter().all(|insn| is_known(*insn))
        && program.iter().enumerate().all(leads_on)
        && loads_what_it_stored(program)
}
