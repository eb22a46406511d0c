//! A failure as the command shows it: one text, one exit status. Libraries have error types; here they become
//! this.

use std::{fmt::Display, io};

use bis_trace::TraceError;

use crate::output;

/// Exit statuses of bis itself (see `main.rs`).
pub mod status {
    /// A replay went another way than the recording.
    pub const DIVERGED: u8 = 1;
    /// `doctor` found that something needed is missing.
    pub const UNFIT: u8 = 1;
    /// A bad command line, a trace that cannot be read, a file that cannot be written.
    pub const USAGE: u8 = 2;
    /// The trace was cut short, and replayed as far as it goes.
    pub const CUT: u8 = 3;
    /// A bug in bis, in any command but `record` and `run`.
    pub const BUG: u8 = 70;
    /// `record` or `run` itself failed.
    pub const RECORD: u8 = 125;
    /// The same two: the program was found but cannot be executed.
    pub const NOT_EXECUTABLE: u8 = 126;
    /// The same two: the program was not found.
    pub const NOT_FOUND: u8 = 127;
}

#[derive(Debug)]
pub struct Failure {
    pub status: u8,
    /// What failed, without the leading "bis: "; empty prints nothing.
    pub message: String,
}

pub type Result<T, E = Failure> = std::result::Result<T, E>;

impl Failure {
    pub fn new(status: u8, message: impl Into<String>) -> Failure {
        Failure { status, message: message.into() }
    }

    /// A failure of the environment or of the command line, outside `record` and `run`.
    pub fn usage(message: impl Into<String>) -> Failure {
        Failure::new(status::USAGE, message)
    }

    /// "failed to WHAT: CAUSE".
    pub fn of(what: impl Display, cause: impl Display) -> Failure {
        Failure::usage(format!("failed to {what}: {cause}"))
    }

    pub fn with_status(self, status: u8) -> Failure {
        Failure { status, ..self }
    }

    /// Shows it on standard error.
    pub fn print(&self) {
        if !self.message.is_empty() {
            output::note(&format!("bis: {}", self.message));
        }
    }
}

impl From<TraceError> for Failure {
    fn from(error: TraceError) -> Failure {
        Failure::usage(error.to_string())
    }
}

/// A failed write to standard output: silent when the reader went away (`bis dump | head`).
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::new(0, ""),
            _ => Failure::of("write to standard output", error),
        }
    }
}
