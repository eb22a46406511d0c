//! How a tracee holds.

use bis_tracee::{Status, siginfo::SigInfo};

/// What is done with a tracee that goes on from where it holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Held {
    /// Its report is dealt with.
    Report(Status),
    /// An event describes its place: something else is told of it there, or it goes on in its program.
    Place,
    /// Its instruction has raised a signal, and an event says so.
    Fault(SigInfo),
    /// It goes on in its vfork.
    Vfork,
}
