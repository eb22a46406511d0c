//! The machine: a program counter, a stack, and what is left of the limits.

use super::{Fault, Limits, Look, Outcome, op::Op, printf};
use bis_trace::types::Addr;

/// Runs an expression to its end.
///
/// # Errors
/// Where the bytecode is wrong, looks at what is not there, or uses more than it may.
pub fn run(code: &[u8], look: &mut dyn Look, limits: &Limits) -> Result<Outcome, Fault> {
    let mut machine = Machine { code, at: 0, stack: Vec::new(), limits, output: Vec::new() };
    for _ in 0..limits.steps {
        if machine.step(look)? == Flow::End {
            return Ok(Outcome { value: machine.stack.last().copied(), output: machine.output });
        }
    }
    Err(Fault::Steps)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    Next,
    End,
}

struct Machine<'a> {
    code: &'a [u8],
    at: usize,
    stack: Vec<u64>,
    limits: &'a Limits,
    output: Vec<u8>,
}

impl Machine<'_> {
    fn step(&mut self, look: &mut dyn Look) -> Result<Flow, Fault> {
        let number = self.bytes(1)?[0];
        match Op::of(number).ok_or(Fault::NoInstruction(number))? {
            Op::End => return Ok(Flow::End),
            Op::Float => return Err(Fault::Unsupported(number)),
            op @ (Op::Const(_)
            | Op::Reg
            | Op::Ref(_)
            | Op::GetVariable
            | Op::SetVariable
            | Op::TraceVariable) => {
                self.load(op, look)?;
            }
            op @ (Op::Dup | Op::Pop | Op::Swap | Op::Pick | Op::Rot) => self.shuffle(op)?,
            op @ (Op::LogNot | Op::BitNot | Op::Ext | Op::ZeroExt) => self.unary(op)?,
            Op::Goto => self.jump(true)?,
            Op::IfGoto => {
                let is_true = self.pop()? != 0;
                self.jump(is_true)?;
            }
            Op::Trace | Op::TraceNz => {
                self.pop()?;
                self.pop()?;
            }
            Op::TraceQuick(len) => {
                self.bytes(len)?;
                self.top()?;
            }
            Op::Printf => self.printf(look)?,
            op => {
                let (right, left) = (self.pop()?, self.pop()?);
                self.push(binary(op, left, right)?)?;
            }
        }
        Ok(Flow::Next)
    }

    /// The next bytes of the code, which are an instruction's operands.
    fn bytes(&mut self, len: usize) -> Result<&[u8], Fault> {
        let end = self.at.saturating_add(len);
        let bytes = self.code.get(self.at..end).ok_or(Fault::RunsOff)?;
        self.at = end;
        Ok(bytes)
    }

    fn operand(&mut self, len: usize) -> Result<u64, Fault> {
        Ok(self.bytes(len)?.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    fn operand16(&mut self) -> Result<u16, Fault> {
        let bytes = self.bytes(2)?;
        Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    fn push(&mut self, value: u64) -> Result<(), Fault> {
        if self.stack.len() >= self.limits.stack {
            return Err(Fault::Overflow);
        }
        self.stack.push(value);
        Ok(())
    }

    fn pop(&mut self) -> Result<u64, Fault> {
        self.stack.pop().ok_or(Fault::Underflow)
    }

    fn top(&self) -> Result<u64, Fault> {
        self.stack.last().copied().ok_or(Fault::Underflow)
    }

    fn jump(&mut self, is_taken: bool) -> Result<(), Fault> {
        let to = self.operand16()?;
        if !is_taken {
            return Ok(());
        }
        self.at = usize::from(to);
        if self.at < self.code.len() { Ok(()) } else { Err(Fault::Jump(to)) }
    }

    fn load(&mut self, op: Op, look: &mut dyn Look) -> Result<(), Fault> {
        match op {
            Op::Const(len) => {
                let value = self.operand(len)?;
                self.push(value)
            }
            Op::Ref(len) => {
                let addr = self.pop()?;
                let mut word = [0; 8];
                look.memory(Addr(addr), &mut word[..len]).map_err(|_| Fault::Memory(addr))?;
                self.push(u64::from_le_bytes(word))
            }
            Op::Reg => {
                let number = self.operand16()?;
                self.push(look.register(number).ok_or(Fault::NoRegister(number))?)
            }
            Op::GetVariable => {
                let number = self.operand16()?;
                self.push(look.variable(number))
            }
            Op::SetVariable => {
                let number = self.operand16()?;
                look.set_variable(number, self.top()?);
                Ok(())
            }
            _ => self.operand16().map(|_| ()),
        }
    }

    fn shuffle(&mut self, op: Op) -> Result<(), Fault> {
        match op {
            Op::Dup => self.push(self.top()?),
            Op::Pop => self.pop().map(|_| ()),
            Op::Pick => {
                let depth = usize::from(self.bytes(1)?[0]);
                let index = self.stack.len().checked_sub(depth + 1).ok_or(Fault::Underflow)?;
                self.push(self.stack[index])
            }
            _ => {
                // The top goes below the next one (swap) or two (rot).
                let count = if op == Op::Swap { 2 } else { 3 };
                let start = self.stack.len().checked_sub(count).ok_or(Fault::Underflow)?;
                self.stack[start..].rotate_right(1);
                Ok(())
            }
        }
    }

    fn unary(&mut self, op: Op) -> Result<(), Fault> {
        let value = match op {
            Op::LogNot => u64::from(self.pop()? == 0),
            Op::BitNot => !self.pop()?,
            _ => {
                let unused = 64u32.saturating_sub(u32::from(self.bytes(1)?[0]));
                let high = self.pop()?.checked_shl(unused).unwrap_or(0);
                let signed = if op == Op::Ext { high.cast_signed().checked_shr(unused) } else { None };
                signed.map_or_else(|| high.checked_shr(unused).unwrap_or(0), i64::cast_unsigned)
            }
        };
        self.push(value)
    }

    /// Operands: how many arguments, the format's length (with its final zero) and text. On the stack: the
    /// arguments, the first on top, and above them two words (a channel and a function) that have no meaning
    /// here.
    fn printf(&mut self, look: &mut dyn Look) -> Result<(), Fault> {
        let count = usize::from(self.bytes(1)?[0]);
        let len = usize::from(self.operand16()?);
        let format = self.bytes(len)?.strip_suffix(&[0]).ok_or(Fault::Format)?.to_vec();
        self.pop()?;
        self.pop()?;
        let arguments: Vec<u64> = (0..count).map(|_| self.pop()).collect::<Result<_, _>>()?;
        printf::print(&format, &arguments, look, &mut self.output, self.limits.output)
    }
}

fn binary(op: Op, left: u64, right: u64) -> Result<u64, Fault> {
    let (signed_left, signed_right) = (left.cast_signed(), right.cast_signed());
    let shift = u32::try_from(right).unwrap_or(u32::MAX);
    let divides = matches!(op, Op::DivSigned | Op::DivUnsigned | Op::RemSigned | Op::RemUnsigned);
    if divides && right == 0 {
        return Err(Fault::DivisionByZero);
    }
    Ok(match op {
        Op::Add => left.wrapping_add(right),
        Op::Sub => left.wrapping_sub(right),
        Op::Mul => left.wrapping_mul(right),
        Op::DivSigned => signed_left.wrapping_div(signed_right).cast_unsigned(),
        Op::DivUnsigned => left / right,
        Op::RemSigned => signed_left.wrapping_rem(signed_right).cast_unsigned(),
        Op::RemUnsigned => left % right,
        Op::Lsh => left.checked_shl(shift).unwrap_or(0),
        Op::RshSigned => (signed_left >> shift.min(63)).cast_unsigned(),
        Op::RshUnsigned => left.checked_shr(shift).unwrap_or(0),
        Op::BitAnd => left & right,
        Op::BitOr => left | right,
        Op::BitXor => left ^ right,
        Op::Equal => u64::from(left == right),
        Op::LessSigned => u64::from(signed_left < signed_right),
        _ => u64::from(left < right),
    })
}
