//! A program of which a trace is being made, and how it is told to go on. What a session does with it is in
//! `follow.rs`.

use std::{
    fmt, io,
    sync::{Arc, Mutex, PoisonError},
};

use bis_trace::types::{Addr, Tid};

/// How a program goes on that stands at the end of its trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Onward {
    /// It stops in front of these instructions.
    pub breakpoints: Vec<Addr>,
    /// It stops behind what touches these bytes: address, length (1, 2, 4 or 8, which divides the address),
    /// and whether reads stop it, too.
    pub watches: Vec<(Addr, u8, bool)>,
    /// This task executes one instruction, and then it stops.
    pub step: Option<Tid>,
    /// It stops behind each event.
    pub each_event: bool,
    /// Something is looked for that the program itself cannot be stopped at: it stops after some time.
    pub is_rough: bool,
}

/// What has become of the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Advance {
    /// It stands still again.
    Further,
    /// It has ended.
    Ended,
}

/// The program that a trace is being made of.
pub trait Source: Send {
    /// Lets it go on, and waits until it stands still; that is to be soon where `is_asked` says so. All that
    /// it has done is in the trace then.
    ///
    /// # Errors
    /// Where nobody can be asked any more.
    fn go_on(&mut self, onward: &Onward, is_asked: &dyn Fn() -> bool) -> io::Result<Advance>;

    /// Writes to its memory, where it stands still, in the name of this task or of another one. Where that
    /// cannot be, nothing is written; else the trace has an event more.
    ///
    /// # Errors
    /// As [`Source::go_on`].
    fn write(&mut self, tid: Tid, addr: Addr, bytes: &[u8]) -> io::Result<Advance>;

    /// Lets it go on without anybody who looks.
    ///
    /// # Errors
    /// As [`Source::go_on`].
    fn let_go(&mut self) -> io::Result<()>;
}

/// A source that can be handed on.
#[derive(Clone)]
pub struct LiveProgram(Arc<Mutex<State>>);

struct State {
    source: Box<dyn Source>,
    is_over: bool,
}

impl LiveProgram {
    pub fn new(source: Box<dyn Source>) -> LiveProgram {
        LiveProgram(Arc::new(Mutex::new(State { source, is_over: false })))
    }

    /// Lets the program go on by itself.
    pub fn let_go(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !state.is_over
            && let Err(error) = state.source.let_go()
        {
            tracing::debug!(%error, "the program is gone");
        }
        state.is_over = true;
    }

    pub(super) fn write(&self, tid: Tid, addr: Addr, bytes: &[u8]) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.is_over {
            return;
        }
        match state.source.write(tid, addr, bytes) {
            Ok(advance) => state.is_over = advance == Advance::Ended,
            Err(error) => tracing::debug!(%error, "the program is gone"),
        }
    }

    /// None: it has ended before.
    pub(super) fn go_on(&self, onward: &Onward, is_asked: &dyn Fn() -> bool) -> Option<Advance> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.is_over {
            return None;
        }
        let advance = state.source.go_on(onward, is_asked).unwrap_or_else(|error| {
            tracing::debug!(%error, "the program is gone");
            Advance::Ended
        });
        state.is_over = advance == Advance::Ended;
        Some(advance)
    }
}

impl fmt::Debug for LiveProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LiveProgram")
    }
}

/// What a session knows of its live program.
#[derive(Debug, Default)]
pub(super) struct Origin {
    /// None: the trace is whole.
    pub program: Option<LiveProgram>,
    /// The user has asked the program to stop, and hears of it where the replica has come to the trace's end.
    pub is_interrupted: bool,
    /// The user has gone back, and is told where the program goes on live.
    pub is_behind: bool,
}
