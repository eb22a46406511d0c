//! The interpreter of agent expressions: the bytecode of breakpoint conditions and commands (gdb manual, "The
//! GDB Agent Expression Mechanism").
//!
//! gdb compiles a condition such as `argc == 5` to bytecode and sends it with the breakpoint. Run where the
//! program is, a condition that does not hold costs no exchange of packets. Commands are bytecode too:
//! `dprintf` with the style `agent` becomes the instruction `printf`.
//!
//! The machine has a stack of 64-bit words and reads the program through [`Look`]. It changes nothing but
//! trace state variables, if the implementation of [`Look`] has them. Bytecode comes from a client, and may
//! be anything: [`Limits`] bound its steps, its stack and its output, and what is wrong with it is a
//! [`Fault`].
//!
//! The instructions that record memory for tracepoints do nothing. Those for floating-point numbers are not
//! supported: gdb never makes them.

mod compile;
mod machine;
mod op;
mod printf;

#[cfg(test)]
mod tests;

use bis_trace::types::Addr;
use thiserror::Error;

pub use compile::compile;
pub use machine::run;

/// The stopped thread that an expression looks at.
pub trait Look {
    /// A register, by the number that clients use; extended by zeros to 64 bits.
    fn register(&mut self, number: u16) -> Option<u64>;

    /// Reads memory from this address on: all of the buffer, or it is a failure.
    ///
    /// # Errors
    /// Where one of the bytes cannot be read.
    fn memory(&mut self, addr: Addr, buffer: &mut [u8]) -> Result<(), Unreadable>;

    /// A trace state variable.
    fn variable(&mut self, number: u16) -> u64 {
        let _ = number;
        0
    }

    /// Sets a trace state variable.
    fn set_variable(&mut self, number: u16, value: u64) {
        let _ = (number, value);
    }
}

/// Memory that cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unreadable;

/// How much an expression may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Instructions, each as often as it runs.
    pub steps: usize,
    /// Words on the stack.
    pub stack: usize,
    /// Bytes that `printf` makes.
    pub output: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { steps: 10_000, stack: 100, output: 1 << 16 }
    }
}

/// What an expression came to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// The top of the stack at the end. None: the stack was empty.
    pub value: Option<u64>,
    /// What `printf` has printed.
    pub output: Vec<u8>,
}

impl Outcome {
    /// Does the condition hold?
    #[must_use]
    pub fn holds(&self) -> bool {
        self.value.is_some_and(|value| value != 0)
    }
}

/// Why an expression has no outcome. A program stops at a breakpoint whose condition cannot be evaluated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum Fault {
    #[error("the bytecode ends without an end instruction")]
    RunsOff,
    #[error("the bytecode jumps to {0}, which is outside of it")]
    Jump(u16),
    #[error("the bytecode has {0:#04x}, which is no instruction")]
    NoInstruction(u8),
    #[error("the bytecode has {0:#04x}, an instruction that is not supported")]
    Unsupported(u8),
    #[error("the bytecode takes more from its stack than there is")]
    Underflow,
    #[error("the bytecode puts too much on its stack")]
    Overflow,
    #[error("the bytecode runs for too long")]
    Steps,
    #[error("the bytecode divides by zero")]
    DivisionByZero,
    #[error("there is no register {0}")]
    NoRegister(u16),
    #[error("the memory at {0:#x} cannot be read")]
    Memory(u64),
    #[error("the format of printf is not supported or does not fit its arguments")]
    Format,
    #[error("printf makes too much output")]
    Output,
}
