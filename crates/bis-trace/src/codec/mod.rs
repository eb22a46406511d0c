//! Events and meta entries as Cap'n Proto messages, and back, exactly.
//!
//! A message stands in the standard framing (segment table, segments; not packed: zstd comes after). Writing
//! trusts the caller but for the few rules that the schema states; both directions check those, so that a
//! recorder's fault is found while recording. Reading trusts nothing: whatever the bytes, the result is a
//! value within the schema's constraints or an error, and it costs memory in proportion to the bytes.

mod decode;
mod encode;
mod meta;
mod ours;

use std::fmt;

use bytes::Bytes;
use capnp::{
    message::{Builder, ReaderOptions, ScratchSpaceHeapAllocator},
    serialize,
};

use crate::{
    bis_capnp as schema,
    event::{CLONED_BYTES_MAX, Effect, Event, EventKind, Meta, Outcome},
    ours::PatchSet,
    types::{REGISTER_COUNT, Registers},
};

/// The most that one event may hold, in bytes of memory content. (Cap'n Proto's own limit for one piece of
/// data is 512 MiB.)
pub const EVENT_BYTES_MAX: u64 = 480 << 20;

/// Bytes of a message that fit without allocation; a plain system call takes about 400.
const SCRATCH_BYTES: usize = 1024;

/// A message that cannot be what it should be, in words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Malformed(pub String);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<capnp::Error> for Malformed {
    fn from(error: capnp::Error) -> Malformed {
        Malformed(error.to_string())
    }
}

impl From<capnp::NotInSchema> for Malformed {
    fn from(unknown: capnp::NotInSchema) -> Malformed {
        Malformed(format!("it has a kind of entry that this bis does not know (number {})", unknown.0))
    }
}

pub(crate) type Result<T, E = Malformed> = std::result::Result<T, E>;

fn require(holds: bool, what: impl Fn() -> String) -> Result<()> {
    if holds { Ok(()) } else { Err(Malformed(what())) }
}

/// The content of memory that an event holds, bytes: what its message takes, but for a small part.
pub fn content_bytes(event: &Event) -> u64 {
    match &event.kind {
        EventKind::Start(start) => outcome_bytes(&start.outcome),
        EventKind::Syscall { outcome, .. }
        | EventKind::SyscallExit { outcome, .. }
        | EventKind::TaskExit { outcome, .. } => outcome_bytes(outcome),
        EventKind::Signal(signal) => signal.handler.as_ref().map_or(0, outcome_bytes),
        EventKind::Hooked { log, .. } => log.len() as u64,
        EventKind::Pause(pause) => pause.held.iter().map(|held| held.data.len() as u64).sum(),
        EventKind::SyscallEnter { .. }
        | EventKind::Instruction { .. }
        | EventKind::Token { .. }
        | EventKind::End => 0,
    }
}

fn outcome_bytes(outcome: &Outcome) -> u64 {
    let writes = outcome.writes.iter().map(|write| write.data.len() as u64).sum::<u64>();
    let effects = outcome.effects.iter().map(|effect| match effect {
        Effect::WriteObject { data, .. } => data.len() as u64,
        Effect::NewTask { xstate: Some(xstate), .. } | Effect::SetTask { xstate, .. } => xstate.len() as u64,
        _ => 0,
    });
    writes + effects.sum::<u64>() + outcome.xstate.as_ref().map_or(0, |x| x.len() as u64)
}

/// Appends an event's message to `buffer`. Fails if the event breaks a rule of the schema; then nothing is
/// appended. The caller has checked [`content_bytes`] against [`EVENT_BYTES_MAX`].
pub fn write_event(event: &Event, buffer: &mut Vec<u8>) -> Result<()> {
    let mut scratch = [0u8; SCRATCH_BYTES];
    let mut message = Builder::new(ScratchSpaceHeapAllocator::new(&mut scratch));
    encode::event(event, message.init_root::<schema::event::Builder<'_>>())?;
    Ok(serialize::write_message(buffer, &message)?)
}

/// Appends a meta entry's message to `buffer`.
pub fn write_meta(entry: &Meta, buffer: &mut Vec<u8>) -> Result<()> {
    let mut scratch = [0u8; SCRATCH_BYTES];
    let mut message = Builder::new(ScratchSpaceHeapAllocator::new(&mut scratch));
    meta::encode(entry, message.init_root::<schema::meta::Builder<'_>>())?;
    Ok(serialize::write_message(buffer, &message)?)
}

/// What is patched in a text, as it stands at the end of a kept file ([`crate::ours::PatchedText`]).
///
/// # Errors
/// Where it breaks a rule of the schema.
pub fn write_set(set: &PatchSet) -> Result<Vec<u8>> {
    let mut message = Builder::new_default();
    ours::encode_set(set, message.init_root::<schema::patch_set::Builder<'_>>())?;
    Ok(serialize::write_message_to_words(&message))
}

/// Reads such a set.
///
/// # Errors
/// Where the bytes are no such set.
pub fn read_set(mut bytes: &[u8]) -> Result<PatchSet> {
    let message = read(&mut bytes)?;
    ours::decode_set(message.get_root()?)
}

/// Takes the first event off `bytes`, which must not be empty. After an error `bytes` is of no further use.
pub fn read_event(bytes: &mut &[u8]) -> Result<Event> {
    let message = read(bytes)?;
    decode::event(message.get_root()?, true, &Bytes::new())
}

/// The event that begins at `at` in these messages, with which it shares what is long; and where the next one
/// begins. `ours`: with [`Outcome::ours`].
pub fn read_event_at(messages: &Bytes, at: usize, ours: bool) -> Result<(Event, usize)> {
    let mut rest = messages.get(at..).unwrap_or_default();
    let message = read(&mut rest)?;
    let event = decode::event(message.get_root()?, ours, messages)?;
    Ok((event, messages.len() - rest.len()))
}

/// Takes the first meta entry off `bytes`, as [`read_event`].
pub fn read_meta(bytes: &mut &[u8]) -> Result<Meta> {
    let message = read(bytes)?;
    meta::decode(message.get_root()?)
}

fn read<'a>(
    bytes: &mut &'a [u8],
) -> Result<capnp::message::Reader<capnp::serialize::NoAllocBufferSegments<&'a [u8]>>> {
    // Only the segment table is looked at: how long is this message? By itself, Cap'n Proto refuses what is
    // longer than 64 MiB.
    let mut rest = *bytes;
    let mut any_len = ReaderOptions::new();
    any_len.traversal_limit_in_words(None);
    serialize::read_message_from_flat_slice_no_alloc(&mut rest, any_len)?;
    let len_words = (bytes.len() - rest.len()) / 8;
    let mut options = ReaderOptions::new();
    // Pointers of a hostile message may all point at the same bytes: what is read in all is bounded by what
    // is there. Our own messages are read once, so twice their length and a little is plenty.
    options.traversal_limit_in_words(Some(2 * len_words + 64)).nesting_limit(16);
    Ok(serialize::read_message_from_flat_slice_no_alloc(bytes, options)?)
}

fn registers_to_bytes(registers: &Registers) -> [u8; REGISTER_COUNT * 8] {
    let mut bytes = [0; REGISTER_COUNT * 8];
    for (place, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(registers.words()) {
        *place = word.to_le_bytes();
    }
    bytes
}

fn registers_from_bytes(bytes: &[u8]) -> Result<Registers> {
    let (words, rest) = bytes.as_chunks::<8>();
    require(words.len() == REGISTER_COUNT && rest.is_empty(), || {
        format!("registers take {} bytes, it has {}", REGISTER_COUNT * 8, bytes.len())
    })?;
    let mut registers = [0; REGISTER_COUNT];
    for (register, word) in registers.iter_mut().zip(words) {
        *register = u64::from_le_bytes(*word);
    }
    Ok(Registers::from_words(registers))
}

/// Whether a signal number exists.
fn check_signal(number: u8) -> Result<()> {
    require((1..=64).contains(&number), || format!("there is no signal {number}"))
}

fn check_cloned(len: u64) -> Result<()> {
    require((1..=CLONED_BYTES_MAX).contains(&len), || {
        format!("a clone has 1 to {CLONED_BYTES_MAX} bytes, not {len}")
    })
}

fn check_tid(tid: i32) -> Result<()> {
    require(tid > 0, || format!("there is no task {tid}"))
}

fn check_domain(domain: u32) -> Result<()> {
    require(domain > 0, || "domain 0 is the trace's own".into())
}

const SIGINFO_BYTES: usize = 128;

fn check_siginfo(siginfo: &[u8]) -> Result<()> {
    require(siginfo.len() == SIGINFO_BYTES, || {
        format!("a siginfo takes {SIGINFO_BYTES} bytes, it has {}", siginfo.len())
    })
}

/// A kept file's name goes into a path: it must not lead out of the folder.
fn check_name(name: &str) -> Result<()> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    require((1..=255).contains(&name.len()) && name.bytes().all(plain), || {
        format!("{name:?} is no name of a kept file")
    })
}

#[cfg(test)]
pub(crate) mod arbitrary;
#[cfg(test)]
mod tests;
