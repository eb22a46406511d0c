//! `g`, `G`, `p`, `P`, and LLDB's suffix that names the thread.

use super::{
    super::{
        text::{Parsed, Text, hex_bytes},
        thread_id::ThreadId,
    },
    Command,
};

pub(super) fn parse(letter: u8, mut text: Text) -> Parsed<Command> {
    Ok(match letter {
        b'g' => Command::ReadRegisters { thread: suffix(text)? },
        b'G' => {
            let data = hex_bytes(text.until(b";"))?;
            Command::WriteRegisters { data, thread: suffix(text)? }
        }
        b'p' => {
            let number = number(&mut text)?;
            Command::ReadRegister { number, thread: suffix(text)? }
        }
        _ => {
            let number = number(&mut text)?;
            text.expect("=", "an equals sign is missing")?;
            let data = hex_bytes(text.until(b";"))?;
            Command::WriteRegister { number, data, thread: suffix(text)? }
        }
    })
}

fn number(text: &mut Text) -> Parsed<u64> {
    text.hex("the register's number is not hexadecimal")
}

/// `;thread:THREAD;`, or nothing.
pub(super) fn suffix(mut text: Text) -> Parsed<Option<ThreadId>> {
    if text.is_empty() || text.0 == b";" {
        return Ok(None);
    }
    text.expect(";thread:", "what follows is not a thread")?;
    let thread = ThreadId::parse(&mut text)?;
    let _ = text.skip(";");
    text.end()?;
    Ok(Some(thread))
}
