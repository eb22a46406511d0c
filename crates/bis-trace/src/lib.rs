//! The trace: what is recorded, and the log that it is kept in.
//!
//! Pure: knows nothing of processes or of ptrace. `event.rs` is the model (`ours.rs`: the part that tells bis
//! from the program; `shared.rs`: the shared mappings that effects leave), `codec/` turns it into Cap'n Proto
//! messages (`schema/bis.capnp`) and back, `log.rs` and `queue.rs` write them in chunks (`chunk.rs`),
//! `index.rs` and `reader.rs` find and read them, `files.rs` keeps the content of mapped files (`copies.rs`,
//! `sparse.rs`: but for their holes; `store.rs`: once for all traces; `known.rs`: what content a file has
//! that was seen before), `clones.rs` what was read in large pieces. What all of these are called in a
//! trace's folder is in `folder.rs`.
//!
//! What is in a trace comes from somebody else: nothing that a file says is believed unchecked.
#![forbid(unsafe_code)]

mod blocks;
mod chunk;
pub mod clones;
pub mod codec;
mod copies;
pub mod error;
pub mod event;
mod files;
mod folder;
mod index;
mod known;
mod log;
mod opening;
pub mod ours;
mod queue;
mod reader;
pub mod shared;
pub mod shown;
pub mod sparse;
pub mod steps;
mod store;
pub mod types;

#[path = "generated/bis_capnp.rs"]
#[rustfmt::skip]
#[allow(clippy::all, clippy::pedantic, unused_qualifications, dead_code, reason = "made by capnpc from schema/bis.capnp")]
mod bis_capnp;

pub use error::TraceError;
pub use files::FileStore;
pub use folder::LAST_WORDS;
pub use known::{AtRest, Identity, KnownFiles};
pub use log::{StreamWriter, Writer};
pub use reader::{EchoEntry, Ending, Events, ReadAhead, Sharing, StreamStats, Trace, is_bare, is_recording};
pub use store::{ContentStore, Spare, Swept};
