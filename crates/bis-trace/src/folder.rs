//! The files in a trace's folder, by their names.

use std::ffi::CStr;

/// The chunks of all streams.
pub(crate) const LOG: &str = "log";
/// Where in the log they are.
pub(crate) const INDEX: &str = "index";
/// Why the recorder ended, where it could not write it into the log any more: a line.
pub const LAST_WORDS: &CStr = c"cut";
/// The content of the files that programs map: a folder.
pub(crate) const FILES: &str = "files";
/// Room on the disk that is kept back for the last chunk.
pub(crate) const RESERVE: &str = "reserve";
/// Content that the log has again and again, once (`blocks.rs`).
pub(crate) const BLOCKS: &str = "blocks";
/// What programs read in large pieces (`clones.rs`).
pub(crate) const CLONES: &str = "clones";
