//! The command line from outside: help, names of traces, what each command shows of a small trace that is
//! made here by the trace writer, exit statuses, and the lines that a user sees when something is wrong.
//!
//! Recording and replaying are not tested here; `guests.rs` and `real.rs` do that.

mod desk;
mod help;
mod kept;
mod machine;
mod shown;
mod started;
