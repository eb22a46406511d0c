//! A client that is served, its session, and what the two are to each other. What it asks is answered in
//! `dispatch.rs`.

use std::collections::BTreeSet;

use bis_trace::types::{Signal, Tid};

use super::{beside::Beside, files::Files, memory::Memory};
use crate::{
    protocol::{Client, Features, Numbers, ThreadId, reply::Errors},
    session::{Report, Session, place::Position},
};

/// See the module's text.
pub(super) struct Served<'t> {
    pub session: Session<'t>,
    /// Those of other processes, where the client has been.
    pub aside: Vec<Session<'t>>,
    pub features: Features,
    pub errors: Errors,
    /// Whose registers are read.
    pub general: Option<Tid>,
    /// The task that is resumed by `c` and `s`.
    pub resumed: Option<Tid>,
    pub files: Files,
    pub memory: Memory,
    /// The last stop, to be told again.
    pub last: Report,
    /// LLDB wants all threads with each stop.
    pub lists_threads: bool,
    /// The client waits for the end of a vfork, and puts no breakpoints in before it has heard of that.
    pub waits_for_vfork: bool,
    /// The address of the symbol `_thread_db_link_map_l_tls_modid`, once the client knows the library that
    /// has it.
    pub module_descriptor: Option<u64>,
    /// The answer is to a command that lets the program go on.
    pub has_resumed: bool,
    /// The client may believe that the thread which stops next has stood still (gdb with `set
    /// scheduler-locking on`), and asks for none of its registers.
    pub lets_one_go: bool,
    /// The client's user can type, and has seen where the program stands.
    pub has_prompt: bool,
    /// The signals that did not stop the program when the client last named any: it names none while it goes
    /// over a breakpoint.
    pub passed_mostly: BTreeSet<Signal>,
    pub beside: Beside,
}

impl<'t> Served<'t> {
    pub(super) fn new(session: Session<'t>, files: Files) -> Served<'t> {
        let last = session.first_report();
        Served {
            session,
            aside: Vec::new(),
            features: Features::default(),
            errors: Errors::Numbers,
            general: None,
            resumed: None,
            files,
            memory: Memory::default(),
            last,
            lists_threads: false,
            waits_for_vfork: false,
            module_descriptor: None,
            has_resumed: false,
            lets_one_go: false,
            has_prompt: false,
            passed_mostly: BTreeSet::new(),
            beside: Beside::default(),
        }
    }

    pub(super) fn pid(&self) -> Tid {
        self.session.pid()
    }

    pub(super) fn is_multiprocess(&self) -> bool {
        self.features.multiprocess() && !self.is_lldb()
    }

    pub(super) fn is_lldb(&self) -> bool {
        // Some of its questions come before it has said who it is; Delve asks the same then, and goes
        // without.
        self.features.client() == Client::Lldb
    }

    /// Whose numbers of signals the client has.
    pub(super) fn numbers(&self) -> Numbers {
        if self.is_lldb() { Numbers::Linux } else { Numbers::Gdb }
    }

    /// A thread as this client knows it.
    pub(super) fn thread(&self, tid: Tid) -> ThreadId {
        if self.is_multiprocess() { ThreadId::full(self.pid(), tid) } else { ThreadId::plain(tid) }
    }

    /// The thread of this id, if there is one.
    pub(super) fn known(&self, thread: ThreadId) -> Option<Tid> {
        let pid = self.pid();
        let current = self.session.tid();
        let threads = self.session.threads();
        if thread.includes(pid, current, pid) && threads.contains(&current) {
            return Some(current);
        }
        threads.into_iter().find(|tid| thread.includes(pid, *tid, pid))
    }

    /// Whose registers a packet is about.
    pub(super) fn whose(&self, thread: Option<ThreadId>) -> Option<Tid> {
        match thread {
            Some(thread) => self.known(thread),
            None => Some(self.general.unwrap_or(self.session.tid())),
        }
    }

    /// The position, for a caller that keeps it.
    pub(super) fn position(&self) -> Position {
        self.session.position().clone()
    }
}
