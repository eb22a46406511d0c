//! `m`, `M`, `x`, `X`, and the queries that look at memory.

use super::{
    super::{
        error::Problem,
        text::{Parsed, Text, hex_bytes},
    },
    Command,
};
use bis_trace::types::Addr;

const ADDR: &str = "the address is not a hexadecimal number";
const LEN: &str = "the length is not a hexadecimal number";

pub(super) fn parse(letter: u8, mut text: Text) -> Parsed<Command> {
    let (addr, len) = text.pair(ADDR, LEN)?;
    match letter {
        b'm' => text.end().map(|()| Command::ReadMemory { addr: Addr(addr), len }),
        b'x' => text.end().map(|()| Command::ReadMemoryBinary { addr: Addr(addr), len }),
        _ => {
            text.expect(":", "a colon is missing")?;
            let data = if letter == b'M' { hex_bytes(text.rest())? } else { text.rest().to_vec() };
            if u64::try_from(data.len()) != Ok(len) {
                return Err(Problem("the data does not have the length that it says"));
            }
            Ok(Command::WriteMemory { addr: Addr(addr), data })
        }
    }
}

/// `qSearch:memory:ADDR;LEN;PATTERN`, behind the first colon.
pub(super) fn search(mut text: Text) -> Parsed<Command> {
    if !text.skip("memory:") {
        return Ok(Command::Unknown);
    }
    let addr = text.hex(ADDR)?;
    text.expect(";", "a semicolon is missing")?;
    let len = text.hex(LEN)?;
    text.expect(";", "a semicolon is missing")?;
    if text.is_empty() {
        return Err(Problem("the pattern is empty"));
    }
    Ok(Command::Search { addr: Addr(addr), len, pattern: text.rest().to_vec() })
}

/// `qCRC:ADDR,LEN`, behind the colon.
pub(super) fn checksum(mut text: Text) -> Parsed<Command> {
    let (addr, len) = text.pair(ADDR, LEN)?;
    text.end()?;
    Ok(Command::Checksum { addr: Addr(addr), len })
}
