//! Which threads a packet is about: `-1`, `0`, `1f`, `p1.-1`, `p1.2`.

use std::fmt;

use bis_trace::types::Tid;

use super::{
    error::Problem,
    text::{Parsed, Text},
};

/// One of a number of processes or threads.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Which {
    /// All of them (`-1`).
    All,
    /// Whichever the server likes (`0`).
    Any,
    One(Tid),
}

/// A thread, or several.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ThreadId {
    /// None: the packet does not say; it is the process that the server thinks of.
    pub process: Option<Which>,
    pub thread: Which,
}

impl ThreadId {
    /// One thread, with its process, as a server that speaks of several processes says it.
    pub fn full(process: Tid, thread: Tid) -> ThreadId {
        ThreadId { process: Some(Which::One(process)), thread: Which::One(thread) }
    }

    /// One thread, as a server of one process says it.
    pub fn plain(thread: Tid) -> ThreadId {
        ThreadId { process: None, thread: Which::One(thread) }
    }

    /// Does a thread of this process belong here, if `current` is the process of ids that do not name one? A
    /// thread of `Any` is any.
    pub fn includes(self, process: Tid, thread: Tid, current: Tid) -> bool {
        let is_one = |which: Which, id: Tid| match which {
            Which::All | Which::Any => true,
            Which::One(one) => one == id,
        };
        is_one(self.process.unwrap_or(Which::One(current)), process) && is_one(self.thread, thread)
    }

    pub(super) fn parse(text: &mut Text) -> Parsed<ThreadId> {
        if !text.skip("p") {
            return Ok(ThreadId { process: None, thread: which(text)? });
        }
        let process = Some(which(text)?);
        let thread = if text.skip(".") { which(text)? } else { Which::All };
        Ok(ThreadId { process, thread })
    }
}

fn which(text: &mut Text) -> Parsed<Which> {
    if text.skip("-1") {
        return Ok(Which::All);
    }
    const PROBLEM: &str = "the thread id is not a hexadecimal number";
    match text.hex_id(PROBLEM)? {
        0 => Ok(Which::Any),
        id if id > 0 => Ok(Which::One(Tid(id))),
        _ => Err(Problem(PROBLEM)),
    }
}

impl fmt::Display for Which {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Which::All => f.write_str("-1"),
            Which::Any => f.write_str("0"),
            Which::One(id) => write!(f, "{:x}", id.0),
        }
    }
}

/// As the protocol writes it.
impl fmt::Display for ThreadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.process {
            Some(process) => write!(f, "p{process}.{}", self.thread),
            None => write!(f, "{}", self.thread),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_forms() {
        let check = |text: &str, process: Option<Which>, thread: Which| {
            let id = ThreadId { process, thread };
            assert_eq!(ThreadId::parse(&mut Text(text.as_bytes())), Ok(id));
            id.to_string()
        };
        assert_eq!(check("-1", None, Which::All), "-1");
        assert_eq!(check("0", None, Which::Any), "0");
        assert_eq!(check("1f", None, Which::One(Tid(0x1f))), "1f");
        assert_eq!(check("p0.0", Some(Which::Any), Which::Any), "p0.0");
        assert_eq!(check("p2.-1", Some(Which::One(Tid(2))), Which::All), "p2.-1");
        assert_eq!(check("p2", Some(Which::One(Tid(2))), Which::All), "p2.-1");
        assert_eq!(check("pa.b", Some(Which::One(Tid(10))), Which::One(Tid(11))), "pa.b");
        for bad in ["", "p", "p1.", "-2", "x", "80000000"] {
            assert!(ThreadId::parse(&mut Text(bad.as_bytes())).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_an_id_includes() {
        let check = |id: &str, expected: [bool; 3]| {
            let id = ThreadId::parse(&mut Text(id.as_bytes())).expect("parses");
            let found = [(1, 1), (1, 2), (5, 5)].map(|(p, t)| id.includes(Tid(p), Tid(t), Tid(1)));
            assert_eq!(found, expected, "{id}");
        };
        check("-1", [true, true, false]);
        check("p-1.-1", [true, true, true]);
        check("2", [false, true, false]);
        check("p5.5", [false, false, true]);
        check("p1", [true, true, false]);
    }
}
