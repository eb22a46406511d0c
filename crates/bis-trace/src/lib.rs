//! The trace: what is recorded, and the log that it is kept in.
//!
//! Pure: knows nothing of processes or of ptrace.
#![forbid(unsafe_code)]

pub mod event;
pub mod types;
