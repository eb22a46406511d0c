//! Commands: what a client asks for, as values. [`parse`] makes one of a packet's payload.
//!
//! What a command is, is in `asked` and `parts`. The families of packets have a file each: `memory`,
//! `registers`, `points` (breakpoints and watchpoints), `resume`, `query` (`q`), `set` (`Q`), `verbose`
//! (`v`), `file` (`vFile`), `transfer` (`qXfer`) and `lldb` for what only LLDB sends. Numbers are hexadecimal
//! unless said otherwise; strings that travel as hexadecimal digits are here as bytes or text.

mod asked;
mod file;
mod ids;
mod lldb;
mod memory;
mod parts;
mod points;
mod query;
mod registers;
mod resume;
mod set;
#[cfg(test)]
mod tests;
mod transfer;
mod verbose;

use self::ids::{process, thread};
use super::{
    Malformed,
    signal::Numbers,
    text::{Parsed, Text},
};

pub use asked::Command;
pub use parts::{
    Access, Action, Bytecode, Environment, FileRequest, LldbCommand, Object, OpenFlags, Point, PointKind,
    SyscallCatch, ThreadAction, Transfer,
};

/// The command of a packet's payload, from a client that has these numbers of signals.
///
/// # Errors
/// A known packet that does not parse; the answer is [`super::reply::Errors::sentence`] of it.
pub fn parse(payload: &[u8], numbers: Numbers) -> Result<Command, Malformed> {
    let Some((first, rest)) = payload.split_first() else { return Ok(Command::Unknown) };
    by_letter(*first, Text(rest), numbers).map_err(|problem| Malformed::new(payload, problem))
}

fn by_letter(letter: u8, mut text: Text, numbers: Numbers) -> Parsed<Command> {
    match letter {
        b'!' if text.is_empty() => Ok(Command::ExtendedMode),
        b'?' if text.is_empty() => Ok(Command::StopReason),
        b'D' => detach(text),
        b'k' => Ok(Command::Kill(None)),
        b'R' => Ok(Command::Restart),
        b'H' if text.skip("g") => Ok(Command::SelectThread(thread(text)?)),
        b'H' if text.skip("c") => Ok(Command::SelectResumed(thread(text)?)),
        b'T' => Ok(Command::IsAlive(thread(text)?)),
        b'g' | b'G' | b'p' | b'P' => registers::parse(letter, text),
        b'm' | b'M' | b'x' | b'X' => memory::parse(letter, text),
        b'z' | b'Z' => points::parse(letter, text),
        b'c' | b'C' | b's' | b'S' | b'b' => resume::parse(letter, text, numbers),
        b'v' => verbose::parse(text, numbers),
        b'q' => query::parse(text),
        b'Q' => set::parse(text, numbers),
        b'_' | b'j' => lldb::parse(letter, text),
        _ => Ok(Command::Unknown),
    }
}

fn detach(mut text: Text) -> Parsed<Command> {
    let stay_stopped = text.skip("1");
    let process = if text.skip(";") { Some(process(text)?) } else { text.end().map(|()| None)? };
    Ok(Command::Detach { process, stay_stopped })
}
