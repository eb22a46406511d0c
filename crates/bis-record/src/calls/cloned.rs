//! Large reads of files: their blocks are cloned into the trace, where both are on a filesystem that can
//! (btrfs, XFS), so that what the program read is not written a second time.
//!
//! The call is made as always. At its exit the whole blocks of what it read are cloned from the program's
//! file, by the very descriptor that it read from (`pidfd_getfd` gives a second one for the same open file).
//! Between the read and the clone another process may have written to the file, and the position of a file
//! that processes share may have moved. So the clone is compared with what the program got, piece by piece,
//! and a piece that differs is copied: nothing that is believed here about files and positions can make a
//! trace wrong. Comparing takes a pass over memory, and reads the clone's blocks, which the page cache does
//! not know yet; that is still several times faster than compressing and writing them. What is before the
//! first whole block and behind the last is copied.
//!
//! The hooks leave large reads to be traced, where cloning is possible at all, until a descriptor turns out
//! to be none whose blocks can be cloned (`copied`, one bit for each); from then on its reads are hooked like
//! any others.

use std::{
    collections::HashSet,
    fs::File,
    io::Seek as _,
    ops::Range,
    os::unix::fs::MetadataExt as _,
    sync::{Mutex, PoisonError},
};

use bis_syscalls::{Dir, Output};
use bis_trace::{
    clones::{self, Clones},
    event::Cloned,
    types::{Addr, Fd, Tid},
};
use bis_tracee::sys;

use super::args::FileTransfer;
use crate::task::InCall;

/// Reads of less are copied: a clone costs a stop and a change of the filesystem's trees.
pub use bis_agent::hooks::CLONE_BYTES_MIN;

/// What one [`Cloned`] of ours stands for at most, bytes: what is compared stays in the processor's cache.
const PIECE_BYTES: u64 = 256 << 10;

/// What the recording knows of cloning.
#[derive(Debug)]
pub struct Cloning {
    clones: Clones,
    /// Devices whose files could not be cloned into the trace.
    foreign: Mutex<HashSet<u64>>,
}

impl Cloning {
    pub fn new(clones: Clones) -> Cloning {
        Cloning { clones, foreign: Mutex::default() }
    }

    fn is_foreign(&self, device: u64) -> bool {
        self.foreign.lock().unwrap_or_else(PoisonError::into_inner).contains(&device)
    }

    fn add_foreign(&self, device: u64) {
        self.foreign.lock().unwrap_or_else(PoisonError::into_inner).insert(device);
    }

    /// Clones the whole blocks of what a read from a file brought: `outputs` of the call's plan, in this
    /// order.
    pub fn attempt(&self, pid: Tid, call: &InCall, outputs: &[Output], result: i64) -> Attempt {
        let fd = Fd::of_arg(call.entry.args()[0]);
        let is_short = u64::try_from(result).map_or(true, |len| len < CLONE_BYTES_MIN);
        let (file, device) = match source(pid, fd) {
            Some((_, device)) if self.is_foreign(device) => return Attempt::Never,
            None => return Attempt::Never,
            Some(_) if is_short => return Attempt::NotNow,
            Some(source) => source,
        };
        let blocks = self.blocks_of(&file, call, result.cast_unsigned());
        let Some((from, blocks)) = blocks.filter(|_| !overlap(call, outputs)) else {
            return Attempt::NotNow;
        };
        let len = blocks.end - blocks.start;
        let at = self.clones.reserve(len);
        let clones = self.clones.file();
        match clones.and_then(|clones| sys::clone_range(&file, blocks.start, len, clones, at)) {
            Ok(()) => Attempt::Cloned(Run { from, len, at, buffer: Vec::new() }),
            Err(error) => {
                tracing::debug!(%pid, %fd, %error, "not cloned");
                let never = [libc::EXDEV, libc::EOPNOTSUPP, libc::ENOTTY, libc::ENOSYS];
                if error.raw_os_error().is_some_and(|errno| never.contains(&errno)) {
                    self.add_foreign(device);
                }
                Attempt::Never
            }
        }
    }

    /// The whole blocks of what a call has read (if they are worth it), in the file, and where they begin in
    /// the result.
    fn blocks_of(&self, mut file: &File, call: &InCall, len: u64) -> Option<(u64, Range<u64>)> {
        let start = match FileTransfer::of(call.entry.nr(), call.entry.args())?.at {
            Some(at) => at,
            None => file.stream_position().ok()?.checked_sub(len)?,
        };
        let blocks = self.clones.whole_blocks(start..start.checked_add(len)?);
        (blocks.end - blocks.start >= CLONE_BYTES_MIN).then(|| (blocks.start - start, blocks))
    }
}

/// What came of cloning a call's result.
#[derive(Debug)]
pub enum Attempt {
    Cloned(Run),
    /// All of it is to be copied.
    NotNow,
    /// All of it is to be copied, and so is all else that is read from this descriptor.
    Never,
}

/// Does the call read, and enough for a clone to be worth it?
pub fn is_worth_cloning(call: &InCall) -> bool {
    let asked = call.pieces.plan().pieces.iter().filter(|piece| !piece.fixed && piece.dir == Dir::Out);
    FileTransfer::of(call.entry.nr(), call.entry.args()).is_some_and(|it| it.reads)
        && asked.map(|piece| piece.len).fold(0, u64::saturating_add) >= CLONE_BYTES_MIN
}

/// A part of a call's result whose blocks are cloned, not yet compared.
#[derive(Debug)]
pub struct Run {
    /// Where it begins in the result, bytes.
    from: u64,
    len: u64,
    /// Where it is in the trace's clones.
    at: u64,
    buffer: Vec<u8>,
}

impl Run {
    /// Of `len` bytes from `position` of the result on: how many of them, from the first on, are treated
    /// alike, and whether they may be cloned.
    pub fn part(&self, position: u64, len: u64) -> (u64, bool) {
        let end = self.from + self.len;
        if position < self.from {
            (len.min(self.from - position), false)
        } else if position < end {
            (len.min(end - position).min(PIECE_BYTES), true)
        } else {
            (len, false)
        }
    }

    /// The bytes from `position` of the result on, which came to `addr`, as a clone, if they are in it.
    pub fn take(&mut self, cloning: &Cloning, position: u64, addr: Addr, data: &[u8]) -> Option<Cloned> {
        let offset = self.at + (position - self.from);
        let holds = !data.is_empty() && cloning.clones.holds(offset, data, &mut self.buffer);
        holds.then(|| Cloned { addr, offset, len: data.len() as u64, sum: clones::sum(data) })
    }
}

/// The regular file behind a process's descriptor, and its device.
fn source(pid: Tid, fd: Fd) -> Option<(File, u64)> {
    let file = sys::take_fd(pid, fd).ok()?;
    let meta = file.metadata().ok().filter(std::fs::Metadata::is_file)?;
    Some((file, meta.dev()))
}

/// Do parts of the program's memory get bytes twice? Then it matters in which order.
fn overlap(call: &InCall, outputs: &[Output]) -> bool {
    let place = |output: &Output| {
        let start = call.pieces.home(output.piece).saturating_add(output.offset);
        (start, start.saturating_add(output.len))
    };
    let mut places: Vec<(Addr, Addr)> = outputs.iter().map(place).collect();
    places.sort_unstable();
    places.windows(2).any(|pair| pair[0].1 > pair[1].0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_has_three_parts() {
        let run = Run { from: 100, len: 3 * PIECE_BYTES, at: 4096, buffer: Vec::new() };
        assert_eq!(run.part(0, 1 << 20), (100, false));
        assert_eq!(run.part(40, 20), (20, false));
        assert_eq!(run.part(100, 1 << 20), (PIECE_BYTES, true));
        assert_eq!(run.part(100 + 3 * PIECE_BYTES - 7, 1 << 20), (7, true));
        assert_eq!(run.part(100 + 3 * PIECE_BYTES, 5), (5, false));
    }
}
