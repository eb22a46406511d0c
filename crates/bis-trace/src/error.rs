//! What can go wrong with a trace, one clear line each.
//!
//! Two kinds: the environment (a folder that cannot be made, a disk that is full) and a trace that is not as
//! it should be (damaged, cut, from a newer bis). What a program did wrong is no matter of this crate.

use std::{io, path::PathBuf, sync::Arc};

use crate::types::{DomainId, EventSeq, FileId};

/// A failure of writing or reading a trace.
#[derive(Clone, Debug, thiserror::Error)]
pub enum TraceError {
    #[error("failed to create the trace {}: {source}", path.display())]
    Create { path: PathBuf, source: Arc<io::Error> },
    #[error("failed to create the trace {}: it exists and is not an empty folder; choose another -o, or remove it", .0.display())]
    NotEmpty(PathBuf),
    /// The log could not be written. What was written before is a trace that ends there.
    #[error("failed to write the trace {}: {source}; what was recorded before can be replayed", path.display())]
    Write { path: PathBuf, source: Arc<io::Error> },
    /// Somebody removed or moved it while it was written.
    #[error("the trace {} is gone: its folder was removed or moved while the program was recorded", .0.display())]
    Gone(PathBuf),
    /// An event is larger than any reader would accept ([`crate::codec::EVENT_BYTES_MAX`]).
    #[error(
        "failed to write event {seq}: it holds {bytes} bytes, more than the {} that a trace can take",
        crate::codec::EVENT_BYTES_MAX
    )]
    TooLarge { seq: EventSeq, bytes: u64 },
    /// An event breaks a rule of the schema: a fault of whoever made it.
    #[error("failed to write event {seq}: {what}; this is a bug in bis")]
    Invalid { seq: EventSeq, what: String },
    /// Something was written after [`crate::Writer::finish`].
    #[error("failed to write to the trace: it is already finished; this is a bug in bis")]
    Finished,
    /// A file that the program uses could not be copied into the trace.
    #[error("failed to keep {path} in the trace: {source}")]
    Keep { path: String, source: Arc<io::Error> },

    #[error("failed to read the trace {}: {source}", path.display())]
    Read { path: PathBuf, source: Arc<io::Error> },
    #[error("{} is not a bis trace", .0.display())]
    NotATrace(PathBuf),
    #[error("the trace {} is empty: {why}", path.display())]
    Empty { path: PathBuf, why: String },
    #[error("the trace {} is in format {version} and needs a reader of format {reader}, this bis reads up to {ours}: use a newer bis", path.display())]
    Newer { path: PathBuf, version: u32, reader: u32, ours: u32 },
    #[error("the trace {} is of another format version, {version}, and this bis reads from {ours} on: use the bis that recorded it, or record again", path.display())]
    Older { path: PathBuf, version: u32, ours: u32 },
    /// `offset` is in bytes from the log's beginning.
    #[error("the trace {} is damaged at byte {offset}: {what}", path.display())]
    Damaged { path: PathBuf, offset: u64, what: String },
    /// A stream's chunks are numbered; one is not there.
    #[error(
        "the trace is damaged: part {ordinal} of domain {stream} is missing, what comes after it cannot be replayed"
    )]
    MissingChunk { stream: DomainId, ordinal: u32 },
    #[error("the trace is damaged: it mentions file {0}, which it does not have")]
    UnknownFile(FileId),
    #[error("{} is missing from the trace; it holds what {original} was when it was recorded", path.display())]
    FileMissing { path: PathBuf, original: String },
    /// The trace was copied in part.
    #[error("{} is missing: it holds what the program read from large files; copy the trace as a whole", .0.display())]
    ClonesMissing(PathBuf),
    #[error("{original} has changed since it was recorded ({what}), and the trace only had a link to it")]
    FileChanged { original: String, what: String },
}

pub type Result<T, E = TraceError> = std::result::Result<T, E>;

/// A path's bytes for a message.
pub(crate) fn show(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}
