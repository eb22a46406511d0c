//! Bytecode as steps that the program can execute by itself ([`bis_replay::Predicate`]): a condition that is
//! false a million times stops nobody then. What has no such step is left to [`super::run`].

use bis_replay::{Predicate, Test};
use bis_trace::types::Addr;

use super::op::Op;

/// The processor's numbers of the general registers, in the order of gdb's numbers (rax, rbx, rcx, rdx, rsi,
/// rdi, rbp, rsp, r8 to r15).
const REGISTERS: [u8; 16] = [0, 3, 1, 2, 6, 7, 5, 4, 8, 9, 10, 11, 12, 13, 14, 15];

/// gdb's number of the program counter.
const PC: usize = 16;

/// A condition at this address, of which one of these has to hold. None: one of them cannot be had so.
#[must_use]
pub fn compile(conditions: &[Vec<u8>], addr: Addr) -> Option<Predicate> {
    let mut all: Vec<Test> = Vec::new();
    for (number, code) in conditions.iter().enumerate() {
        let mut steps = one(code, addr)?;
        if number + 1 < conditions.len() {
            // The end of all but the last goes on with the next where it does not hold.
            let next = steps.len();
            for step in &mut steps {
                if *step == Test::End {
                    *step = Test::Go(next);
                }
            }
            steps.extend([Test::Not, Test::GoIf(next + 4), Test::Constant(1), Test::End]);
        }
        let begin = all.len();
        all.extend(steps.into_iter().map(|step| match step {
            Test::GoIf(to) => Test::GoIf(to + begin),
            Test::Go(to) => Test::Go(to + begin),
            step => step,
        }));
    }
    Predicate::new(all)
}

fn one(code: &[u8], addr: Addr) -> Option<Vec<Test>> {
    let mut steps = Vec::new();
    // Which step an instruction has become; and those whose target is an instruction yet.
    let mut places = vec![None; code.len() + 1];
    let mut at = 0;
    while at < code.len() {
        *places.get_mut(at)? = Some(steps.len());
        let op = Op::of(code[at])?;
        at += 1;
        let operand = |at: usize, len: usize| {
            let bytes = code.get(at..at + len)?;
            Some(bytes.iter().fold(0_u64, |value, byte| value << 8 | u64::from(*byte)))
        };
        let len = match op {
            Op::Const(len) => len,
            Op::Reg | Op::Goto | Op::IfGoto => 2,
            Op::Ext | Op::ZeroExt => 1,
            _ => 0,
        };
        let number = usize::try_from(operand(at, len)?).unwrap_or(usize::MAX);
        let bits = u8::try_from(number).unwrap_or(0);
        steps.push(match op {
            Op::Const(_) => Test::Constant(number as u64),
            Op::Reg if number == PC => Test::Constant(addr.0),
            Op::Reg => Test::Register(*REGISTERS.get(number)?),
            Op::Ref(len) => Test::Load(u8::try_from(len).ok()?),
            Op::Add => Test::Add,
            Op::Sub => Test::Sub,
            Op::Mul => Test::Mul,
            Op::BitAnd => Test::And,
            Op::BitOr => Test::Or,
            Op::BitXor => Test::Xor,
            Op::Equal => Test::Equal,
            Op::LessSigned => Test::LessSigned,
            Op::LessUnsigned => Test::LessUnsigned,
            Op::LogNot => Test::Not,
            Op::BitNot => Test::Invert,
            // A word that stays as it is.
            Op::Ext | Op::ZeroExt if bits == 64 => Test::Go(steps.len() + 1),
            Op::Ext => Test::ExtendSign(bits),
            Op::ZeroExt => Test::ExtendZero(bits),
            Op::Dup => Test::Dup,
            Op::Pop => Test::Pop,
            Op::Swap => Test::Swap,
            Op::Goto => Test::Go(number),
            Op::IfGoto => Test::GoIf(number),
            Op::End => Test::End,
            _ => return None,
        });
        at += len;
    }
    targets(code, &places, &mut steps)?;
    Some(steps)
}

/// Jumps lead to steps, not to bytes of the code.
fn targets(code: &[u8], places: &[Option<usize>], steps: &mut [Test]) -> Option<()> {
    for (at, place) in places.iter().enumerate() {
        let Some(step) = place.and_then(|step| steps.get_mut(step)) else { continue };
        let is_jump = matches!(Op::of(*code.get(at)?), Some(Op::Goto | Op::IfGoto));
        if let Test::Go(to) | Test::GoIf(to) = step
            && is_jump
        {
            *to = places.get(*to).copied().flatten()?;
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: u8 = 0x27;

    #[test]
    fn bytecode_becomes_steps() {
        // const8 5; reg 5 (rdi); const8 7; equal; end
        let code = vec![0x26, 0, 5, 0x22, 7, 0x13, END];
        let steps = vec![Test::Register(7), Test::Constant(7), Test::Equal, Test::End];
        assert_eq!(one(&code, Addr(0x1000)), Some(steps.clone()));
        assert_eq!(compile(&[code], Addr(0x1000)), Predicate::new(steps));
        // reg 16 is the address of the breakpoint.
        assert_eq!(one(&[0x26, 0, 16, END], Addr(0x1234)), Some(vec![Test::Constant(0x1234), Test::End]));
        // reg 0; if_goto 9; const8 0; end; const8 1; end
        let jump = [0x26, 0, 0, 0x20, 0, 9, 0x22, 0, END, 0x22, 1, END];
        let steps =
            [Test::Register(0), Test::GoIf(4), Test::Constant(0), Test::End, Test::Constant(1), Test::End];
        assert_eq!(one(&jump, Addr(0)), Some(steps.to_vec()));
    }

    #[test]
    fn what_has_no_step_is_refused() {
        // fs_base; a division; a jump into an operand; one backwards.
        for bad in [
            vec![0x26, 0, 58, END],
            vec![0x22, 1, 0x22, 1, 0x05, END],
            vec![0x22, 1, 0x20, 0, 1, 0x22, 1, END],
            vec![0x22, 1, 0x21, 0, 0, END],
        ] {
            assert_eq!(compile(std::slice::from_ref(&bad), Addr(0)), None, "{bad:x?}");
        }
    }

    #[test]
    fn one_of_several_has_to_hold() {
        let equal = |value: u8| vec![0x26, 0, 5, 0x22, value, 0x13, END];
        let both = compile(&[equal(1), equal(2)], Addr(0)).expect("they have steps");
        let begin =
            [Test::Register(7), Test::Constant(1), Test::Equal, Test::Go(4), Test::Not, Test::GoIf(8)];
        let second = [Test::Register(7), Test::Constant(2), Test::Equal, Test::End];
        let all: Vec<Test> = begin.into_iter().chain([Test::Constant(1), Test::End]).chain(second).collect();
        assert_eq!(Some(both), Predicate::new(all));
    }
}
