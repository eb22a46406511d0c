//! What makes the program run: `c`, `C`, `s`, `S`, `bc`, `bs`, and the actions of `vCont`.

use bis_trace::types::{Addr, Signal};

use super::{
    super::{
        error::Problem,
        signal::Numbers,
        text::{Parsed, Text},
        thread_id::ThreadId,
    },
    Command,
    parts::{Action, ThreadAction},
};

pub(super) fn parse(letter: u8, mut text: Text, numbers: Numbers) -> Parsed<Command> {
    if letter == b'b' {
        return Ok(match text.rest() {
            b"c" => Command::ReverseContinue,
            b"s" => Command::ReverseStep,
            _ => Command::Unknown,
        });
    }
    let signal = if letter.is_ascii_uppercase() { signal(&mut text, numbers)? } else { None };
    let has_addr = !text.is_empty() && (letter.is_ascii_lowercase() || text.skip(";"));
    let addr = has_addr.then(|| text.hex("the address is not a hexadecimal number")).transpose()?;
    text.end()?;
    let is_continue = letter.eq_ignore_ascii_case(&b'c');
    let action = if is_continue { Action::Continue(signal) } else { Action::Step(signal) };
    Ok(Command::ResumeSelected { action, addr: addr.map(Addr) })
}

/// The number of a signal; 0 is none.
fn signal(text: &mut Text, numbers: Numbers) -> Parsed<Option<Signal>> {
    match text.hex("the signal is not a hexadecimal number")? {
        0 => Ok(None),
        number => numbers.signal(number).map(Some).ok_or(Problem("Linux does not have this signal")),
    }
}

/// Behind `vCont;`.
pub(super) fn actions(text: Text, numbers: Numbers) -> Parsed<Command> {
    let actions = text.0.split(|byte| *byte == b';').filter(|part| !part.is_empty());
    let actions: Vec<ThreadAction> =
        actions.map(|part| action(Text(part), numbers)).collect::<Parsed<_>>()?;
    if actions.is_empty() {
        return Err(Problem("it has no action"));
    }
    Ok(Command::Resume(actions))
}

fn action(mut text: Text, numbers: Numbers) -> Parsed<ThreadAction> {
    let action = if text.skip("c") {
        Action::Continue(None)
    } else if text.skip("C") {
        Action::Continue(signal(&mut text, numbers)?)
    } else if text.skip("s") {
        Action::Step(None)
    } else if text.skip("S") {
        Action::Step(signal(&mut text, numbers)?)
    } else if text.skip("r") {
        let (start, end) =
            text.pair("the range's start is not hexadecimal", "the range's end is not hexadecimal")?;
        Action::StepRange { start: Addr(start), end: Addr(end) }
    } else if text.skip("t") {
        Action::Stop
    } else {
        return Err(Problem("one of its actions is not known"));
    };
    let threads = text.skip(":").then(|| ThreadId::parse(&mut text)).transpose()?;
    text.end()?;
    Ok(ThreadAction { action, threads })
}
