//! What a session tells of: where the program has stopped and why, and what the session cannot do. And at
//! which calls it stops.

use std::collections::BTreeSet;

use bis_replay::{Halt, ReplayError, Stop};
use bis_trace::{
    event::TaskEnd,
    types::{Addr, Signal, Tid, narrow_number},
};

use super::place::Position;
use crate::protocol::command::PointKind;

/// Why the user's program has stopped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Why {
    Breakpoint {
        is_hardware: bool,
    },
    Watchpoint {
        kind: PointKind,
        addr: Addr,
    },
    /// A step is done.
    Step,
    /// It is about to get this signal.
    Signal(Signal),
    /// The user has asked for it.
    Interrupted,
    /// It is in front of everything that was recorded.
    Begin,
    /// It is behind: the task that was last is about to end.
    End(Option<TaskEnd>),
    /// It has executed another program.
    Exec(Vec<u8>),
    /// It has entered a system call, or left it.
    Call {
        nr: u64,
        is_entry: bool,
    },
    /// It has made another process.
    Fork {
        pid: Tid,
        is_vfork: bool,
    },
    /// It is a new thread.
    ThreadBegins,
    /// The place was gone to.
    Arrived,
    /// The replica cannot go on: the text says why, in several lines.
    Broken(String),
}

/// A stop, and whose.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    pub tid: Tid,
    pub why: Why,
}

/// What a session cannot do.
#[derive(Debug)]
pub enum Trouble {
    /// The user has asked it to stop; it stands where it stood.
    Asked,
    Halt(Halt),
}

impl<E: Into<Halt>> From<E> for Trouble {
    fn from(error: E) -> Trouble {
        Trouble::Halt(error.into())
    }
}

impl Trouble {
    /// For people.
    pub fn text(&self) -> String {
        match self {
            Trouble::Asked => "interrupted".into(),
            Trouble::Halt(Halt::Failed(error)) => error.to_string(),
            Trouble::Halt(Halt::Cut(why)) => why.clone(),
            Trouble::Halt(Halt::Seen(event)) => {
                format!("the program has read its own text at event {event}, where a breakpoint of bis was")
            }
            Trouble::Halt(Halt::Cancelled) => "the replay was given up".into(),
        }
    }
}

/// System calls at which a session stops.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Catch {
    #[default]
    None,
    All,
    These(BTreeSet<u64>),
}

impl Catch {
    pub(super) fn has(&self, nr: u64) -> bool {
        match self {
            Catch::None => false,
            Catch::All => true,
            // A client names calls by the numbers of the program's own table.
            Catch::These(calls) => calls.contains(&narrow_number(nr).map_or(nr, u64::from)),
        }
    }
}

/// An error that is not of the program's making.
pub(super) fn unexpected(stop: &Stop) -> Trouble {
    Trouble::Halt(Halt::Failed(ReplayError::Machine(format!(
        "a replica has stopped where it should not: {stop:?}"
    ))))
}

/// A place to which no checkpoint leads.
pub(super) fn no_way(position: &Position) -> Trouble {
    let what = format!("there is no checkpoint before event {}", position.event);
    Trouble::Halt(Halt::Failed(ReplayError::Machine(what)))
}
