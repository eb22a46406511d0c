//! Calls that change a shared object other than by a store: writes through a descriptor, new lengths, copies
//! that the kernel makes between files.
//!
//! A domain that makes such a call need not map the object. So that its bytes change at the same place in the
//! order of turns when it is replayed, the domain *borrows* the object from before the call to after its
//! event: for that long it holds the token as if it mapped the object (`tokens.rs`). What has changed is read
//! back from the file itself, which is right whatever the call was told to write.
//!
//! While a token is borrowed its call is made at once, never in the background: regular files (what objects
//! are) keep nobody waiting. A `splice` could wait for its pipe, whose writer could wait for the token; it is
//! refused, as by a file system that cannot do it.

use std::{
    fs::{self, File},
    ops::Range,
    os::{linux::fs::MetadataExt, unix::fs::FileExt},
    path::{Path, PathBuf},
    sync::atomic::Ordering,
};

use bis_syscalls::{Call, FileArg, Target, row};
use bis_trace::{
    event::{Effect, Outcome},
    sparse,
    types::{Addr, Fd, ObjectId, Tid},
};
use bis_tracee::{
    Memory,
    proc::{self, Fields},
    sys,
};

use super::{
    args::{OpenArgs, SHIFTS, buffers, int},
    entry::Touches,
};
use crate::{
    calls::{Entry, Exit, is_shown},
    crew::Crew,
    domain::Domain,
    error::{RecordError, Result},
    events::Recorder,
    session::Session,
    space::Key,
    task::{InCall, process_of},
    views::Change,
};

/// Content is recorded in effects of at most this many bytes.
const PIECE_LEN: u64 = 1 << 20;

/// Does this ioctl request let a file have blocks of another's: FICLONE, FICLONERANGE? (FIDEDUPERANGE does so
/// only where both say the same already; nothing changes.)
pub fn is_cloning(request: u32) -> bool {
    matches!(request, FICLONE | FICLONERANGE)
}

const FICLONE: u32 = libc::FICLONE as u32;
const FICLONERANGE: u32 = libc::FICLONERANGE as u32;

fn key_at(path: &Path) -> Option<Key> {
    fs::metadata(path).ok().map(|meta| (meta.st_dev(), meta.st_ino()))
}

fn is_append(tid: Tid, fd: Fd) -> bool {
    proc::open_flags(tid, fd).is_some_and(|flags| flags & libc::O_APPEND != 0)
}

/// The part of its file (first byte, end) that fallocate may have changed, by its arguments.
pub(super) fn fallocated([_, mode, start, len, ..]: [u64; 6]) -> (u64, u64) {
    (start, if mode & SHIFTS != 0 { u64::MAX } else { start.saturating_add(len) })
}

/// A file that is mapped shared, whose length may be another one now.
#[derive(Debug)]
pub(super) struct Resized {
    path: PathBuf,
    object: ObjectId,
    len: u64,
}

/// A file that is mapped shared, to be read back.
fn open_object(path: &Path) -> Result<File> {
    File::open(path).map_err(|source| RecordError::Os { what: "open a file that is mapped shared", source })
}

impl Domain {
    /// At the exit: the object that the call has changed. If it became one while the call was made, it is
    /// borrowed now, and what is read back from it is what it shows now.
    fn changed_at(&mut self, tid: Tid, path: &Path, call: &mut InCall) -> Result<Option<ObjectId>> {
        let Some(object) = object_at(&self.session, path) else { return Ok(None) };
        if !self.tokens.holds(object) {
            if !call.telling.is_entered() {
                let (kind, sums) = call.enter();
                self.event_with(tid, kind, sums)?;
            }
            self.borrow_object(tid, object)?;
        }
        Ok(Some(object))
    }

    pub(super) fn leave_write(&mut self, it: &mut Exit<'_>) -> Result<()> {
        let (tid, args, written) = (it.tid, it.args(), it.value());
        let (call, outcome) = (&mut *it.call, &mut *it.outcome);
        let Some((target, path)) = self.target_of(tid, call.entry.nr(), args) else { return Ok(()) };
        let Some(object) = self.changed_at(tid, &path, call)? else { return Ok(()) };
        let mut offset = self.start_of(tid, &target, args, written, outcome)?;
        if let Ok(file) = File::open(&path) {
            return self.recorder().read_back(tid, call, &file, object, offset..offset + written, outcome);
        }
        // A file that may be written and not read.
        for (addr, len) in buffers(&self.memory, target.is_vector, args, written) {
            let mut done = 0;
            while done < len {
                self.recorder().spill(tid, call, outcome)?;
                let part = (len - done).min(PIECE_LEN);
                let data = self.memory.read_vec(addr + done, usize::try_from(part).unwrap_or(0))?;
                outcome.effects.push(Effect::WriteObject { object, offset, data });
                (done, offset) = (done + part, offset + part);
            }
        }
        Ok(())
    }

    pub(super) fn leave_transfer(&mut self, it: &mut Exit<'_>) -> Result<()> {
        let (tid, args, written) = (it.tid, it.args(), it.value());
        let (call, outcome) = (&mut *it.call, &mut *it.outcome);
        let Some((target, path)) = self.target_of(tid, call.entry.nr(), args) else { return Ok(()) };
        let Some(object) = self.changed_at(tid, &path, call)? else { return Ok(()) };
        let start = self.start_of(tid, &target, args, written, outcome)?;
        let file = open_object(&path)?;
        self.recorder().read_back(tid, call, &file, object, start..start + written, outcome)
    }

    /// A file that is mapped shared has a new length. Gives it back, if it is one.
    pub(super) fn leave_truncate(&mut self, it: &mut Exit<'_>) -> Result<Option<Resized>> {
        let Some((_, path)) = self.target_of(it.tid, it.call.entry.nr(), it.args()) else { return Ok(None) };
        let Some(object) = self.changed_at(it.tid, &path, it.call)? else { return Ok(None) };
        let len = fs::metadata(&path).map(|meta| meta.st_size());
        let len =
            len.map_err(|source| RecordError::Os { what: "look at a file that is mapped shared", source })?;
        it.outcome.effects.push(Effect::ResizeObject { object, len });
        Ok(Some(Resized { path, object, len }))
    }

    /// A file that is mapped shared has a new length, and perhaps holes or other content.
    pub(super) fn leave_fallocate(&mut self, it: &mut Exit<'_>) -> Result<()> {
        /// The fallocate modes that leave all content where it is, as 0 does.
        const HARMLESS: u64 = (libc::FALLOC_FL_KEEP_SIZE | libc::FALLOC_FL_UNSHARE_RANGE) as u64;
        let Some(Resized { path, object, len }) = self.leave_truncate(it)? else { return Ok(()) };
        let [_, mode, ..] = it.args();
        if mode & !HARMLESS == 0 {
            return Ok(());
        }
        let (start, end) = fallocated(it.args());
        let file = open_object(&path)?;
        self.recorder().clear_and_read_back(it.tid, it.call, &file, object, start..end.min(len), it.outcome)
    }

    /// A file that is mapped shared has other content, where it was cloned to, and perhaps another length.
    pub(super) fn leave_ioctl(&mut self, it: &mut Exit<'_>) -> Result<()> {
        let (tid, args) = (it.tid, it.args());
        let (call, outcome) = (&mut *it.call, &mut *it.outcome);
        let Some((start, end)) = self.cloned_to(args) else { return Ok(()) };
        let path = proc::fd(tid, Fd::of_arg(args[0]));
        let Some(object) = self.changed_at(tid, &path, call)? else { return Ok(()) };
        let file = open_object(&path)?;
        let len = file.metadata().map(|meta| meta.st_size());
        let len =
            len.map_err(|source| RecordError::Os { what: "look at a file that is mapped shared", source })?;
        outcome.effects.push(Effect::ResizeObject { object, len });
        self.recorder().clear_and_read_back(tid, call, &file, object, start.min(len)..end.min(len), outcome)
    }

    pub(super) fn enter_open(&mut self, tid: Tid, call: &Call) -> Result<Entry> {
        let Some(asked) = OpenArgs::of(call, &self.memory) else { return Ok(Entry::Make) };
        if let done @ Entry::Done(_) = self.enter_open_sound(tid, asked.name)? {
            return Ok(done);
        }
        if asked.flags & libc::O_TRUNC == 0 || self.session.registry.is_empty() {
            return Ok(Entry::Make);
        }
        let path = path_of(&self.memory, tid, asked.folder, asked.name);
        let Some(object) = path.and_then(|path| object_at(&self.session, &path)) else {
            return Ok(Entry::Make);
        };
        self.borrow_object(tid, object)?;
        Ok(Entry::MakeAtOnce)
    }

    /// A file that was opened to be written: it may be empty now, and it may be a process's memory. Where
    /// nobody sees what is written there, it would come to no event: the file is closed again, and the
    /// program told that it may not open it.
    pub(super) fn leave_open(&mut self, it: &mut Exit<'_>) -> Result<()> {
        let (tid, fd) = (it.tid, Fd::made(it.result).unwrap_or(Fd::NONE));
        let (call, outcome) = (&mut *it.call, &mut *it.outcome);
        let flags = open_flags(&self.memory, call);
        if flags & libc::O_TRUNC != 0
            && let Some(object) = self.changed_at(tid, &proc::fd(tid, fd), call)?
        {
            outcome.effects.push(Effect::ResizeObject { object, len: 0 });
        }
        if flags & libc::O_PATH == 0 && is_shown(tid, fd) {
            self.session.shown.store(true, Ordering::Relaxed);
        }
        if flags & libc::O_ACCMODE == libc::O_RDONLY || flags & libc::O_PATH != 0 {
            return Ok(());
        }
        // Writes to memory that is shown by us are made by us (`shown.rs`).
        if !self.is_memory_of_ours(tid, fd) || is_shown(tid, fd) {
            return Ok(());
        }
        self.call_for(tid, libc::SYS_close, [fd.arg(), 0, 0, 0, 0, 0])?;
        outcome.regs.rax = (-i64::from(libc::EACCES)).cast_unsigned();
        Ok(())
    }

    /// A hook has cut a mapped file, because its name led to another one when the hook asked. As after a
    /// traced open.
    pub fn tell_cut(&mut self, tid: Tid, fd: Fd, outcome: &mut Outcome) -> Result<()> {
        let path = proc::fd(tid, fd);
        if let Some(object) = object_at(&self.session, &path) {
            self.borrow_object(tid, object)?;
            outcome.effects.push(Effect::ResizeObject { object, len: 0 });
        }
        if let Ok(meta) = fs::metadata(&path) {
            let (key, len) = ((meta.st_dev(), meta.st_ino()), meta.st_size());
            self.tell(Change { key, start: len, end: len, len });
        }
        Ok(())
    }
}

impl Recorder<'_> {
    /// The object shows this in `range` now.
    fn read_back(
        &mut self,
        tid: Tid,
        call: &mut InCall,
        file: &File,
        object: ObjectId,
        range: Range<u64>,
        outcome: &mut Outcome,
    ) -> Result<()> {
        let failed = |source| RecordError::Os { what: "read back a file that is mapped shared", source };
        let end = range.end.min(file.metadata().map_err(failed)?.st_size());
        let mut offset = range.start;
        while offset < end {
            self.spill(tid, call, outcome)?;
            let mut data = vec![0; usize::try_from(PIECE_LEN.min(end - offset)).unwrap_or(0)];
            file.read_exact_at(&mut data, offset).map_err(failed)?;
            let len = data.len() as u64;
            outcome.effects.push(Effect::WriteObject { object, offset, data });
            offset += len;
        }
        Ok(())
    }

    /// Like [`Recorder::read_back`], where most of the file may be holes.
    fn clear_and_read_back(
        &mut self,
        tid: Tid,
        call: &mut InCall,
        file: &File,
        object: ObjectId,
        range: Range<u64>,
        outcome: &mut Outcome,
    ) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let (offset, len) = (range.start, range.end - range.start);
        outcome.effects.push(Effect::ClearObject { object, offset, len });
        let mut data: Vec<Range<u64>> = Vec::new();
        let read = sparse::each_piece(file, range, |offset, piece| {
            let end = offset + piece.len() as u64;
            match data.last_mut() {
                Some(last) if last.end == offset => last.end = end,
                _ => data.push(offset..end),
            }
            Ok(())
        });
        read.map_err(|source| RecordError::Os { what: "read back a file that is mapped shared", source })?;
        for part in data {
            self.read_back(tid, call, file, object, part, outcome)?;
        }
        Ok(())
    }
}

impl Crew {
    /// How a call that changes what this path names is made. If it is an object, its token is ours already.
    fn enter_change(&self, path: &Path) -> Entry {
        if object_at(&self.session, path).is_some() || self.is_viewed(path) {
            Entry::MakeAtOnce
        } else {
            Entry::Make
        }
    }

    pub(super) fn enter_write_to(&self, tid: Tid, fd: Fd) -> Entry {
        self.enter_change(&proc::fd(tid, fd))
    }

    /// Where a call that wrote `written` bytes into its target began: where it was told to, or where the
    /// descriptor's position says, or at the end.
    pub(super) fn start_of(
        &self,
        tid: Tid,
        target: &Target,
        args: [u64; 6],
        written: u64,
        outcome: &Outcome,
    ) -> Result<u64> {
        let FileArg::Fd(index) = target.file else { return Ok(0) };
        let fd = Fd::of_arg(args[usize::from(index)]);
        let end = if target.appends(args) || is_append(tid, fd) {
            fs::metadata(proc::fd(tid, fd)).ok().map(|meta| meta.st_size())
        } else if let Some(pointer) = target.behind(args) {
            return moved_offset(&self.memory, Addr(pointer), written, outcome);
        } else if let Some(given) = target.given(args) {
            return Ok(given);
        } else {
            Fields::of_fd(tid, fd).and_then(|info| info.number("pos", 10))
        };
        Ok(end.unwrap_or(written).saturating_sub(written))
    }

    /// Calls that move data between descriptors without showing it to the program. Into a shared object they
    /// are made if they cannot wait for anybody. To standard output they are refused as for a kind of file
    /// that does not support them, because replay shows what was written from the program's memory; programs
    /// fall back to reading and writing. `is_prompt`: it waits for nobody where it reads from a regular file.
    pub(super) fn enter_transfer(&mut self, tid: Tid, call: &Call, is_prompt: bool) -> Result<Entry> {
        let Some((target, path)) = self.target_of(tid, call.nr, call.args) else { return Ok(Entry::Make) };
        let FileArg::Fd(to) = target.file else { return Ok(Entry::Make) };
        if self.session.stdio.which(tid, Fd::of_arg(call.args[usize::from(to)])).is_some() {
            return Ok(Entry::Done(-i64::from(libc::EINVAL)));
        }
        if object_at(&self.session, &path).is_none() {
            return Ok(Entry::Make);
        }
        let from = target.from.map_or(Fd::NONE, |from| Fd::of_arg(call.args[usize::from(from)]));
        let prompt = is_prompt && fs::metadata(proc::fd(tid, from)).is_ok_and(|meta| meta.is_file());
        if prompt && File::open(&path).is_ok() {
            Ok(Entry::MakeAtOnce)
        } else {
            Ok(Entry::Done(-i64::from(libc::EINVAL)))
        }
    }

    /// What the table says of the file that a call changes, and where we find that file.
    pub fn target_of(&self, tid: Tid, nr: u64, args: [u64; 6]) -> Option<(Target, PathBuf)> {
        let target = row(nr)?.target?;
        let path = match target.file {
            FileArg::Fd(index) => proc::fd(tid, Fd::of_arg(args[usize::from(index)])),
            FileArg::Path(index) => {
                path_of(&self.memory, tid, Fd::CURRENT_FOLDER, Addr(args[usize::from(index)]))?
            }
        };
        Some((target, path))
    }

    pub(super) fn enter_truncate(&mut self, tid: Tid, call: &Call) -> Result<Entry> {
        let target = self.target_of(tid, call.nr, call.args);
        Ok(target.map_or(Entry::Make, |(_, path)| self.enter_change(&path)))
    }

    /// The part of its file (first byte, end) that an ioctl replaces by clones of another's blocks; none
    /// where it does not.
    pub(super) fn cloned_to(&self, args: [u64; 6]) -> Option<(u64, u64)> {
        match int(args[1]).cast_unsigned() {
            FICLONE => Some((0, u64::MAX)),
            FICLONERANGE => {
                // struct file_clone_range: at 16 the length, 0 for all that the source has from there on; at
                // 24 the place.
                let len = self.memory.read_u64(Addr(args[2].wrapping_add(16))).ok()?;
                let start = self.memory.read_u64(Addr(args[2].wrapping_add(24))).ok()?;
                Some((start, if len == 0 { u64::MAX } else { start.saturating_add(len) }))
            }
            _ => None,
        }
    }

    pub(super) fn enter_ioctl(&self, tid: Tid, call: &Call) -> Entry {
        if is_cloning(call.u32(1)) {
            self.enter_change(&proc::fd(tid, Fd::of_arg(call.args[0])))
        } else {
            Entry::Make
        }
    }

    pub(super) fn truncates(&self, call: &InCall) -> bool {
        open_flags(&self.memory, call) & libc::O_TRUNC != 0
    }

    /// Is this file the memory of a process of the recording? Its path ends with the process's id (or a
    /// task's) as its /proc has it, which may be that of a pid namespace.
    fn is_memory_of_ours(&self, tid: Tid, fd: Fd) -> bool {
        let path = proc::fd(tid, fd);
        let target = fs::read_link(&path).unwrap_or_default();
        if target.file_name().is_none_or(|name| name != "mem") {
            return false;
        }
        if !sys::is_on_procfs(&path) {
            return false;
        }
        let folder = target.parent().and_then(Path::file_name).and_then(|name| name.to_str());
        let Some(number) = folder.and_then(|name| name.parse().ok()).map(Tid) else { return false };
        let is_ours = |id: Tid| {
            let pid = process_of(id).unwrap_or(id);
            self.tasks.contains_key(&id) || self.session.mail.is_member(pid)
        };
        is_ours(number) || is_ours(self.session.outside(tid, number))
    }

    /// The existing object that a call at its entry is going to touch, if any.
    pub fn touched_object(&self, tid: Tid, touches: Touches, call: &Call) -> Option<ObjectId> {
        const MAP_ANONYMOUS: u64 = libc::MAP_ANONYMOUS as u64;
        if self.session.registry.is_empty() {
            return None;
        }
        let path = match touches {
            Touches::Cloned => is_cloning(call.u32(1)).then(|| proc::fd(tid, Fd::of_arg(call.args[0])))?,
            Touches::Mapped => {
                (call.args[3] & MAP_ANONYMOUS == 0).then(|| proc::fd(tid, Fd::of_arg(call.args[4])))?
            }
            // The kernel gives a segment's id as its inode, on its first anonymous device.
            Touches::Segment => {
                return self.session.registry.find((libc::makedev(0, 1), u64::from(call.u32(0))));
            }
            Touches::Target | Touches::Length | Touches::Fallocated => {
                self.target_of(tid, call.nr, call.args)?.1
            }
            // Whether it is cut is seen to at its entry.
            Touches::Opened => return None,
        };
        object_at(&self.session, &path)
    }
}

/// The shared object that a path names.
fn object_at(session: &Session, path: &Path) -> Option<ObjectId> {
    if session.registry.is_empty() {
        return None;
    }
    session.registry.find(key_at(path)?)
}

/// Where we find a path that the program gives, beside this folder.
fn path_of(memory: &Memory, tid: Tid, folder: Fd, addr: Addr) -> Option<PathBuf> {
    Some(proc::seen_by(tid, folder, &memory.read_c_str(addr).ok()?))
}

/// The flags with which a call opens a file; none of them where it opens none by its name.
fn open_flags(memory: &Memory, call: &InCall) -> i32 {
    OpenArgs::of(&call.entry.call(), memory).map_or(0, |asked| asked.flags)
}

/// The offset behind this pointer of a call's. The kernel has moved it to the end of what it wrote.
fn moved_offset(memory: &Memory, pointer: Addr, written: u64, outcome: &Outcome) -> Result<u64> {
    let moved = outcome.writes.iter().find(|write| write.addr == pointer && write.data.len() == 8);
    let moved = moved.and_then(|write| write.data.first_chunk()).map(|word| u64::from_le_bytes(*word));
    Ok(moved.map_or_else(|| memory.read_u64(pointer), Ok)?.saturating_sub(written))
}
