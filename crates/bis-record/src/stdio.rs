//! Which writes are the program's standard output and error, and their order.
//!
//! Replay shows what the program wrote to the descriptors 1 and 2 that bis itself was started with (or those
//! that a process had when it was found running), wherever in the tree and through whatever descriptor it was
//! written. Two domains may write at the same time: a lock for each of the two files makes the order of the
//! events the order in which the kernel took the bytes. So does, among the threads of one domain, that one of
//! them is in a write at a time, and that those which come meanwhile wait for its end (`task/by_hand.rs`).
//! All others go on: where a reader is slow, or somebody has stopped the terminal, a write may take long.

use std::{
    fs::{self, File},
    os::{
        fd::{AsRawFd, RawFd},
        unix::fs::MetadataExt,
    },
    path::Path,
    sync::{Condvar, Mutex, PoisonError},
};

use bis_trace::types::{DomainId, Fd, StandardStream, Tid};
use bis_tracee::{ours, proc, sys};

/// Device, inode, and device number of an open file.
type Identity = (u64, u64, u64);

#[derive(Debug)]
struct Stream {
    identity: Option<Identity>,
    is_file: bool,
    /// The open file as a descriptor of ours.
    file: Descriptor,
    /// The domain that is writing, and how many of its tasks are.
    holder: Mutex<Option<(DomainId, u32)>>,
    free: Condvar,
}

#[derive(Debug)]
enum Descriptor {
    /// The program has it from us, under this number.
    Own(Fd),
    /// The process was found with it.
    Taken(File),
    None,
}

impl Descriptor {
    fn number(&self) -> RawFd {
        match self {
            Descriptor::Own(fd) => fd.0,
            Descriptor::Taken(file) => file.as_raw_fd(),
            Descriptor::None => -1,
        }
    }
}

/// The two streams of the recording.
#[derive(Debug)]
pub struct Stdio {
    /// In the order of [`StandardStream::ALL`].
    streams: [Stream; 2],
}

fn identity(path: &Path) -> Option<Identity> {
    fs::metadata(path).ok().map(|m| (m.dev(), m.ino(), m.rdev()))
}

impl Stdio {
    /// Ours, or those of the process that is found running.
    pub fn of(found: Option<Tid>) -> Stdio {
        let stream = |fd: Fd| {
            let (path, file) = match found {
                // What is open there is not what the program has.
                None if ours::was_closed(fd) => {
                    return Stream {
                        identity: None,
                        is_file: false,
                        file: Descriptor::None,
                        holder: Mutex::new(None),
                        free: Condvar::new(),
                    };
                }
                None => (proc::fd(ours::process_id(), fd), Descriptor::Own(fd)),
                Some(pid) => {
                    let taken = sys::take_fd(pid, fd).map_or(Descriptor::None, Descriptor::Taken);
                    (proc::fd(pid, fd), taken)
                }
            };
            let is_file = fs::metadata(&path).is_ok_and(|meta| meta.is_file());
            let (holder, free) = (Mutex::new(None), Condvar::new());
            Stream { identity: identity(&path), is_file, file, holder, free }
        };
        Stdio { streams: StandardStream::ALL.map(|which| stream(Fd(which.number().into()))) }
    }

    /// Device and inode of standard output and of standard error; zeros where there is none.
    pub fn inodes(&self) -> [u64; 4] {
        let [out, err] = self.streams.each_ref().map(|stream| stream.identity.unwrap_or_default());
        [out.0, out.1, err.0, err.1]
    }

    /// Is descriptor `fd` of this task the recording's standard output or error? First by identity of the
    /// open file; a file that was opened anew (/dev/stderr) is known by its inode.
    pub fn which(&self, tid: Tid, fd: Fd) -> Option<StandardStream> {
        let theirs = identity(&proc::fd(tid, fd))?;
        let candidates =
            StandardStream::ALL.into_iter().filter(|which| self.stream(*which).identity == Some(theirs));
        let mut found = None;
        for which in candidates {
            if sys::same_open_file(tid, fd, self.stream(which).file.number()).unwrap_or(false) {
                return Some(which);
            }
            found = found.or(Some(which));
        }
        found
    }

    fn stream(&self, which: StandardStream) -> &Stream {
        let [output, error] = &self.streams;
        match which {
            StandardStream::Output => output,
            StandardStream::Error => error,
        }
    }

    /// Is the stream a regular file, which takes what is written without a wait for anybody?
    pub fn is_file(&self, which: StandardStream) -> bool {
        self.stream(which).is_file
    }

    /// Takes the lock of a stream if no other domain has it.
    pub fn try_lock(&self, which: StandardStream, domain: DomainId) -> bool {
        let mut holder = self.stream(which).holder.lock().unwrap_or_else(PoisonError::into_inner);
        match holder.as_mut() {
            None => *holder = Some((domain, 1)),
            Some((current, count)) if *current == domain => *count += 1,
            Some(_) => return false,
        }
        true
    }

    /// Waits for the lock. The caller must hold no run token (see `tokens.rs`).
    pub fn lock(&self, which: StandardStream, domain: DomainId) {
        let stream = self.stream(which);
        let mut holder = stream.holder.lock().unwrap_or_else(PoisonError::into_inner);
        while holder.is_some_and(|(current, _)| current != domain) {
            holder = stream.free.wait(holder).unwrap_or_else(PoisonError::into_inner);
        }
        *holder = Some((domain, holder.map_or(0, |(_, count)| count) + 1));
    }

    pub fn unlock(&self, which: StandardStream, domain: DomainId) {
        let stream = self.stream(which);
        let mut holder = stream.holder.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((current, count)) = *holder
            && current == domain
        {
            *holder = (count > 1).then_some((domain, count - 1));
            stream.free.notify_all();
        }
    }
}
