//! `z` and `Z`: breakpoints and watchpoints, with conditions and commands as bytecode for
//! [`super::super::agent`].

use super::{
    super::{
        error::Problem,
        text::{Parsed, Text, hex_bytes},
    },
    Command,
    parts::{Bytecode, Point, PointKind},
};
use bis_trace::types::Addr;

/// The number of expressions that one point may have.
const EXPRESSIONS_MAX: usize = 256;

pub(super) fn parse(letter: u8, mut text: Text) -> Parsed<Command> {
    let kind = match text.hex("the kind is not a hexadecimal number")? {
        0 => PointKind::Software,
        1 => PointKind::Hardware,
        2 => PointKind::Write,
        3 => PointKind::Read,
        4 => PointKind::Access,
        _ => return Ok(Command::Unknown),
    };
    text.expect(",", "a comma is missing")?;
    let (addr, size) =
        text.pair("the address is not a hexadecimal number", "the size is not a hexadecimal number")?;
    let mut point =
        Point { kind, addr: Addr(addr), size, conditions: Vec::new(), commands: Vec::new(), persist: false };
    options(&mut point, text)?;
    Ok(if letter == b'Z' {
        Command::InsertPoint(point)
    } else {
        Command::RemovePoint { kind, addr: Addr(addr), size }
    })
}

/// `;X<len>,<bytes>X...;cmds:<persist>,X<len>,<bytes>X...`
fn options(point: &mut Point, mut text: Text) -> Parsed<()> {
    while !text.is_empty() {
        let begins = text.skip(";");
        if text.skip("cmds:") {
            point.persist = text.hex("the persistence of commands is not a number")? != 0;
            text.expect(",", "a comma is missing")?;
            point.commands.extend(expressions(&mut text)?);
        } else if text.0.first() == Some(&b'X') {
            point.conditions.extend(expressions(&mut text)?);
        } else if !(begins && text.is_empty()) {
            return Err(Problem("what follows is neither a condition nor commands"));
        }
    }
    let is_ok = point.conditions.len().max(point.commands.len()) <= EXPRESSIONS_MAX;
    is_ok.then_some(()).ok_or(Problem("there are too many expressions"))
}

fn expressions(text: &mut Text) -> Parsed<Vec<Bytecode>> {
    const LEN: &str = "the length of an expression is wrong";
    let mut found = Vec::new();
    while text.skip("X") {
        let len = text.hex(LEN)?;
        text.expect(",", "a comma is missing")?;
        let digits = usize::try_from(len).ok().and_then(|len| len.checked_mul(2));
        let (code, rest) = digits.and_then(|digits| text.0.split_at_checked(digits)).ok_or(Problem(LEN))?;
        found.push(hex_bytes(code)?);
        *text = Text(rest);
        // gdb puts nothing between expressions; the manual's grammar lets one read it otherwise.
        if text.0.starts_with(b";X") {
            let _ = text.skip(";");
        }
    }
    Ok(found)
}
