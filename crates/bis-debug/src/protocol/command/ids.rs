//! Ids at the end of a packet.

use bis_trace::types::Tid;

use super::super::{
    error::Problem,
    text::{Parsed, Text},
    thread_id::ThreadId,
};

/// A thread id, and nothing behind it.
pub(super) fn thread(mut text: Text) -> Parsed<ThreadId> {
    let thread = ThreadId::parse(&mut text)?;
    text.end()?;
    Ok(thread)
}

/// A process id, and nothing behind it.
pub(super) fn process(mut text: Text) -> Parsed<Tid> {
    const PROBLEM: &str = "the process id is not a positive hexadecimal number";
    let id = text.hex_id(PROBLEM)?;
    text.end()?;
    if id > 0 { Ok(Tid(id)) } else { Err(Problem(PROBLEM)) }
}
