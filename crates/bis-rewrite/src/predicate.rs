//! Conditions that the program tests by itself where it counts ([`crate::countdown`]): a stack machine's
//! steps, as code.
//!
//! The machine's stack is memory beside the code: how deep it is at each step is known when the code is made.
//! The code uses rax and rcx, whose values were put aside, and the arithmetic flags, which are, too. A load
//! may fault: a caller that sees the fault takes it for a stop, and tests the condition by other means.

use crate::{run::Error, trampoline::Builder};

/// A step of a condition. All values are words of 64 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Test {
    Constant(u64),
    /// A general register, by the number that the processor's instructions have for it (0 is rax, 1 rcx).
    Register(u8),
    /// Reads so many bytes (1, 2, 4 or 8) at the address on top, and extends them by zeros.
    Load(u8),
    Add,
    Sub,
    Mul,
    And,
    Or,
    Xor,
    Equal,
    LessSigned,
    LessUnsigned,
    /// 1 if the top is 0, and 0 if not.
    Not,
    Invert,
    /// Keeps so many bits (8, 16 or 32), and extends them by their sign.
    ExtendSign(u8),
    /// Keeps so many bits, and extends them by zeros.
    ExtendZero(u8),
    Dup,
    Pop,
    Swap,
    /// Goes on at this later step if the top, which is taken, is not zero.
    GoIf(usize),
    Go(usize),
    /// The top is the condition's value.
    End,
}

/// A condition whose steps make sense: the stack is as deep at each of them whichever way leads there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Predicate {
    steps: Vec<Test>,
    /// How deep the stack is before each step; none: nothing leads there.
    depths: Vec<Option<usize>>,
}

/// Steps at most: they must find room.
const STEPS_MAX: usize = 64;

/// How deep the stack may be.
pub const DEPTH_MAX: usize = 16;

impl Predicate {
    /// None: they take more than there is, go backwards, run off the end, or are too many.
    pub fn new(steps: Vec<Test>) -> Option<Predicate> {
        if steps.len() > STEPS_MAX {
            return None;
        }
        let mut depths: Vec<Option<usize>> = vec![None; steps.len()];
        *depths.first_mut()? = Some(0);
        let reach = |depths: &mut Vec<Option<usize>>, to: usize, depth: usize| {
            let place = depths.get_mut(to)?;
            (*place.get_or_insert(depth) == depth && depth <= DEPTH_MAX).then_some(())
        };
        for (at, step) in steps.iter().enumerate() {
            let Some(depth) = depths[at] else { continue };
            let (takes, gives) = match step {
                Test::Constant(_) | Test::Register(_) => (0, 1),
                Test::Load(_) | Test::Not | Test::Invert | Test::ExtendSign(_) | Test::ExtendZero(_) => {
                    (1, 1)
                }
                Test::Dup => (1, 2),
                Test::Pop | Test::GoIf(_) => (1, 0),
                Test::Swap => (2, 2),
                Test::Go(_) => (0, 0),
                Test::End => (1, 1),
                _ => (2, 1),
            };
            let after = depth.checked_sub(takes)? + gives;
            match step {
                Test::End => continue,
                Test::Go(to) => {
                    (*to > at).then(|| reach(&mut depths, *to, after))??;
                    continue;
                }
                Test::GoIf(to) => (*to > at).then(|| reach(&mut depths, *to, after))??,
                Test::Register(number) if *number > 15 => return None,
                Test::Load(bytes) if ![1, 2, 4, 8].contains(bytes) => return None,
                Test::ExtendSign(bits) | Test::ExtendZero(bits) if ![8, 16, 32].contains(bits) => {
                    return None;
                }
                _ => {}
            }
            reach(&mut depths, at + 1, after)?;
        }
        Some(Predicate { steps, depths })
    }

    /// Code that goes on behind itself if the condition does not hold, and jumps to `hit` if it does. `saved`
    /// has rax and rcx; the machine's stack is at `stack`.
    pub(crate) fn code(&self, out: &mut Builder, saved: [u64; 2], stack: u64, hit: u64) -> Result<(), Error> {
        // Every step's code is as long wherever a jump in it leads: the first time tells where the steps are.
        let begin = out.here();
        let mut places = vec![begin; self.steps.len() + 1];
        let mut code = Builder::new(begin);
        for (at, _) in self.steps.iter().enumerate() {
            places[at] = code.here();
            self.step(&mut code, at, saved, stack, hit, &places)?;
        }
        let end = code.here();
        places[self.steps.len()] = end;
        // An end that does not hold goes on behind the last step.
        for (at, _) in self.steps.iter().enumerate() {
            self.step(out, at, saved, stack, hit, &places)?;
        }
        Ok(())
    }

    fn step(
        &self,
        out: &mut Builder,
        at: usize,
        saved: [u64; 2],
        stack: u64,
        hit: u64,
        places: &[u64],
    ) -> Result<(), Error> {
        // mov rax, [m]; mov rcx, [m]; mov [m], rax
        const LOAD_RAX: [u8; 3] = [0x48, 0x8b, 0x05];
        const LOAD_RCX: [u8; 3] = [0x48, 0x8b, 0x0d];
        const STORE_RAX: [u8; 3] = [0x48, 0x89, 0x05];
        let (Some(step), Some(depth)) = (self.steps.get(at), self.depths.get(at).copied().flatten()) else {
            return Ok(());
        };
        // The word that is so far below the top; below(0) is the one that comes next.
        let below = |words: usize| stack + 8 * (depth - words) as u64;
        let binary = |out: &mut Builder, code: &[u8]| {
            out.branch(&LOAD_RAX, below(2))?;
            out.branch(&LOAD_RCX, below(1))?;
            out.push(code);
            out.branch(&STORE_RAX, below(2))
        };
        let unary = |out: &mut Builder, code: &[u8]| {
            out.branch(&LOAD_RAX, below(1))?;
            out.push(code);
            out.branch(&STORE_RAX, below(1))
        };
        match *step {
            Test::Constant(value) => {
                out.push(&[0x48, 0xb8]);
                out.push(&value.to_le_bytes());
                out.branch(&STORE_RAX, below(0))
            }
            Test::Register(number @ (0 | 1)) => {
                out.branch(&LOAD_RAX, saved[usize::from(number)])?;
                out.branch(&STORE_RAX, below(0))
            }
            Test::Register(number) => {
                let rex = 0x48 | (number >> 3) << 2;
                out.branch(&[rex, 0x89, 0x05 | (number & 7) << 3], below(0))
            }
            // movzx eax, byte [rax]; movzx eax, word [rax]; mov eax, [rax]; mov rax, [rax]
            Test::Load(1) => unary(out, &[0x0f, 0xb6, 0x00]),
            Test::Load(2) => unary(out, &[0x0f, 0xb7, 0x00]),
            Test::Load(4) => unary(out, &[0x8b, 0x00]),
            Test::Load(_) => unary(out, &[0x48, 0x8b, 0x00]),
            Test::Add => binary(out, &[0x48, 0x01, 0xc8]),
            Test::Sub => binary(out, &[0x48, 0x29, 0xc8]),
            Test::Mul => binary(out, &[0x48, 0x0f, 0xaf, 0xc1]),
            Test::And => binary(out, &[0x48, 0x21, 0xc8]),
            Test::Or => binary(out, &[0x48, 0x09, 0xc8]),
            Test::Xor => binary(out, &[0x48, 0x31, 0xc8]),
            // cmp rax, rcx; sete, setl or setb al; movzx eax, al
            Test::Equal => binary(out, &[0x48, 0x39, 0xc8, 0x0f, 0x94, 0xc0, 0x0f, 0xb6, 0xc0]),
            Test::LessSigned => binary(out, &[0x48, 0x39, 0xc8, 0x0f, 0x9c, 0xc0, 0x0f, 0xb6, 0xc0]),
            Test::LessUnsigned => binary(out, &[0x48, 0x39, 0xc8, 0x0f, 0x92, 0xc0, 0x0f, 0xb6, 0xc0]),
            // test rax, rax; sete al; movzx eax, al
            Test::Not => unary(out, &[0x48, 0x85, 0xc0, 0x0f, 0x94, 0xc0, 0x0f, 0xb6, 0xc0]),
            Test::Invert => unary(out, &[0x48, 0xf7, 0xd0]),
            // movsx rax, al; movsx rax, ax; movsxd rax, eax; and the same by zeros
            Test::ExtendSign(8) => unary(out, &[0x48, 0x0f, 0xbe, 0xc0]),
            Test::ExtendSign(16) => unary(out, &[0x48, 0x0f, 0xbf, 0xc0]),
            Test::ExtendSign(_) => unary(out, &[0x48, 0x63, 0xc0]),
            Test::ExtendZero(8) => unary(out, &[0x0f, 0xb6, 0xc0]),
            Test::ExtendZero(16) => unary(out, &[0x0f, 0xb7, 0xc0]),
            Test::ExtendZero(_) => unary(out, &[0x89, 0xc0]),
            Test::Dup => {
                out.branch(&LOAD_RAX, below(1))?;
                out.branch(&STORE_RAX, below(0))
            }
            Test::Pop => Ok(()),
            Test::Swap => {
                out.branch(&LOAD_RAX, below(2))?;
                out.branch(&LOAD_RCX, below(1))?;
                out.branch(&STORE_RAX, below(1))?;
                // mov [m], rcx
                out.branch(&[0x48, 0x89, 0x0d], below(2))
            }
            Test::GoIf(to) => {
                out.branch(&LOAD_RAX, below(1))?;
                // test rax, rax; jnz
                out.push(&[0x48, 0x85, 0xc0]);
                out.branch(&[0x0f, 0x85], places[to])
            }
            Test::Go(to) => out.branch(&[0xe9], places[to]),
            Test::End => {
                out.branch(&LOAD_RAX, below(1))?;
                out.push(&[0x48, 0x85, 0xc0]);
                out.branch(&[0x0f, 0x85], hit)?;
                out.branch(&[0xe9], places[self.steps.len()])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_that_make_no_sense_are_refused() {
        use Test::{Add, Constant, End, Go, GoIf, Load, Pop, Register};
        for bad in [
            vec![],
            vec![End],
            vec![Constant(1)],
            vec![Constant(1), Add, End],
            vec![Constant(1), Go(0)],
            vec![Register(16), End],
            vec![Register(1), Load(3), End],
            // One way leaves a word more than the other.
            vec![Constant(1), GoIf(3), Constant(2), Constant(3), End],
            vec![Constant(1); STEPS_MAX + 1],
        ] {
            assert_eq!(Predicate::new(bad.clone()), None, "{bad:?}");
        }
        let good = vec![Constant(1), GoIf(4), Constant(2), Go(5), Constant(3), End];
        assert!(Predicate::new(good).is_some());
        assert!(Predicate::new(vec![Constant(1), Constant(2), Pop, End]).is_some());
    }

    #[test]
    fn jumps_lead_to_steps() {
        use iced_x86::{Decoder, DecoderOptions, FlowControl};
        let steps = vec![
            Test::Register(5),
            Test::Load(4),
            Test::GoIf(5),
            Test::Constant(0),
            Test::End,
            Test::Constant(7),
            Test::Register(1),
            Test::Equal,
            Test::End,
        ];
        let condition = Predicate::new(steps).unwrap();
        let mut out = Builder::new(0x8000);
        condition.code(&mut out, [0x9000, 0x9008], 0x9040, 0x8f00).unwrap();
        let end = out.here();
        let code = out.into_bytes();
        let all: Vec<_> = Decoder::with_ip(64, &code, 0x8000, DecoderOptions::NONE).into_iter().collect();
        let starts: Vec<u64> = all.iter().map(|it| it.ip()).collect();
        let jumps = all.iter().filter(|it| it.flow_control() != FlowControl::Next);
        let targets: Vec<u64> = jumps.map(|it| it.near_branch_target()).collect();
        assert_eq!(targets.len(), 5);
        assert!(targets.iter().all(|to| starts.contains(to) || [end, 0x8f00].contains(to)), "{targets:x?}");
        assert_eq!(all.iter().map(|it| it.len()).sum::<usize>(), code.len());
    }
}
