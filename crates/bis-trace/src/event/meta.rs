//! What a trace says about itself: the entries of its meta stream.

use std::{borrow::Cow, fmt};

use super::{Base, TaskEnd};
#[cfg(doc)]
use crate::types::TickKind;
use crate::types::{DomainId, EventSeq, FileId, ObjectId, StandardStream, Tid};

/// How a [`Meta::Note`] begins that tells of memory which somebody outside of the recording could change.
pub const OUTSIDE: &str = "shared with somebody outside of the recording: ";

/// What a [`Meta::Note`] says, as its text, of a process that has gone back to a checkpoint of itself, by the
/// event that the note is at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WayBack {
    pub pid: Tid,
    /// The event behind which the process was as it is again: the return of the checkpoint.
    pub to: EventSeq,
}

impl WayBack {
    const PROCESS: &str = "went back to a checkpoint: process ";
    const EVENT: &str = " is as it was behind event ";

    /// None: the note is another one.
    pub fn of(note: &str) -> Option<WayBack> {
        let (pid, to) = note.strip_prefix(Self::PROCESS)?.split_once(Self::EVENT)?;
        Some(WayBack { pid: Tid(pid.parse().ok()?), to: EventSeq(to.parse().ok()?) })
    }
}

impl fmt::Display for WayBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{}{}", Self::PROCESS, self.pid, Self::EVENT, self.to)
    }
}

/// What the trace says about itself, in the meta stream.
#[derive(Clone, PartialEq, Debug)]
pub enum Meta {
    /// First.
    Machine(Box<Machine>),
    File(FileEntry),
    Domain(DomainEntry),
    /// A task joined a domain (every task but a domain's first).
    Task {
        domain: DomainId,
        tid: Tid,
        pid: Tid,
        seq: EventSeq,
    },
    TaskEnd {
        domain: DomainId,
        tid: Tid,
        status: TaskEnd,
        seq: EventSeq,
    },
    DomainEnd {
        domain: DomainId,
        seq: EventSeq,
        event_count: u64,
    },
    /// One echo, so that replays of several domains at once know whose turn it is to print.
    Echo {
        seq: EventSeq,
        domain: DomainId,
        stream: StandardStream,
        len: u64,
    },
    /// A domain maps an object: domains that name the same object replay together.
    Share {
        object: ObjectId,
        domain: DomainId,
    },
    /// Something that the user should know (a slow path, a fallback).
    Note {
        seq: EventSeq,
        text: String,
    },
    /// Last, when the recording ended as it should: exit code of the program (128 + signal if killed).
    End {
        exit_code: u8,
        seq: EventSeq,
    },
    /// When it did not: why, in words for people (the disk filled, ...). Last, but for what threads added
    /// that had not heard of it yet.
    Cut {
        why: String,
    },
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Machine {
    pub bis_version: String,
    pub kernel: String,
    pub cpu: String,
    pub cpuid_faulting: bool,
    pub core_count: u32,
    /// What counts the program's progress: a name of [`TickKind`]. A newer bis may know more.
    pub tick_source: String,
    pub hooks: bool,
    pub checksums: bool,
    /// Unix time, seconds.
    pub started_s: i64,
    pub argv: Vec<Vec<u8>>,
    pub cwd: Vec<u8>,
    /// What the recorded machine's kernel offers to extended state (XCR0).
    pub xcr0: u64,
    /// What `cpuid` told the programs of the instructions that they may use, in the order that
    /// docs/trace-format.md has. Empty: an older version, which did not say.
    pub features: Vec<u32>,
    /// The calls that have no events, because a filter from outside of the recording has answered them.
    pub refused: Vec<Refusal>,
}

/// A call that a seccomp filter from outside of the recording, as a container has one, answers with an error:
/// the program gets that, and neither the recorder nor the replayer sees the call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The call's number in the 64-bit table.
    pub nr: u32,
    pub when: When,
    /// From 1 to 4095.
    pub errno: u16,
}

/// With which arguments a call is refused. Only the lower half of an argument (0 to 5) is looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    Always,
    Equal { arg: u8, word: u32 },
    HasBits { arg: u8, bits: u32 },
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileEntry {
    pub file: FileId,
    /// Its name below the trace's `files/`.
    pub name: String,
    pub kept: Kept,
    /// Where it was.
    pub path: Vec<u8>,
    pub len: u64,
    /// The source's modification time, nanoseconds since 1970; checked for hard links.
    pub mtime_ns: i64,
    /// blake3 of the content; of a file with large holes, of what is there (`copies.rs`).
    pub digest: [u8; 32],
}

impl FileEntry {
    /// What it is the content of, for people.
    #[must_use]
    pub fn original(&self) -> Cow<'_, str> {
        if self.path.is_empty() { "a piece of memory".into() } else { String::from_utf8_lossy(&self.path) }
    }
}

/// How a file's content is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kept {
    Reflink,
    HardLink,
    Copy,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DomainEntry {
    pub domain: DomainId,
    /// The process id, and that of the parent process, as they were seen where bis ran: in a pid namespace of
    /// its own, the program knew others.
    pub pid: Tid,
    pub ppid: Tid,
    pub tid: Tid,
    pub base: Base,
    pub seq: EventSeq,
}
