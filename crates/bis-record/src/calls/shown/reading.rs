//! What a program reads of its own address space: `maps`, `smaps`, `smaps_rollup`, `numa_maps`, `status`,
//! `stat`, `statm`, `limits` and `mem` of itself, of its threads, and of other processes of the recording. It
//! sees what it would see without bis: no agent, no trampolines, no scratch memory, no tracer, no room for
//! these in its limits, and its text without jumps to hooks.
//!
//! A read of such a file is not made: its result is computed here, and is as long as the kernel's would be
//! (`window.rs`): some programs stop at the first read that does not fill their buffer. Lists of mappings are
//! made as far as they are read, like the kernel's own; other texts as a whole when they are read from their
//! start. The position in a text is that of the descriptor, so that `lseek`, `dup` and `fork` mean what they
//! always do.
//!
//! A write to `mem` is not made by the kernel either: it may change text, which is first made the program's
//! own again.
//!
//! Not changed: `pagemap`, which answers for addresses that the reader has to know already; `map_files`, a
//! folder, which lists what is mapped of the hooks' area as `memfd:bis`; and the memory of another process
//! (`/proc/OTHER/mem`).

use std::{
    fs::{self, File},
    iter::once,
    ops::Range,
    os::{fd::AsRawFd, unix::ffi::OsStrExt},
    sync::atomic::Ordering,
};

use bis_agent::OURS;
use bis_syscalls::Call;
use bis_trace::{
    event::{MemWrite, Outcome},
    types::{Addr, Fd, Tid, prot},
};
use bis_tracee::{
    maps::{self, Extent},
    pagemap::{Page, PageMap},
    proc, sys, task,
};

use super::{
    Rest, Shown, ShownFile, ShownText, shown_file,
    text::{self, OwnStatus, State, Weight},
    window::{Records, Window},
};
use crate::{
    calls::{Entry, args::FileTransfer},
    crew::Crew,
    domain::Domain,
    error::Result,
    process::Process,
    space::{ARENA_LEN, without},
    task::process_of,
};

/// The most bytes of memory that one read gives.
const MEMORY_BYTES_MAX: u64 = 1 << 20;

/// Texts that are kept for being read on.
const TEXTS_MAX: usize = 16;

const fn errno(number: i32) -> i64 {
    -(number as i64)
}

impl Domain {
    /// At the entry of any call that is traced: its result, if it reads a file that is shown otherwise.
    pub fn enter_shown(&mut self, tid: Tid, call: &Call) -> Result<Option<Entry>> {
        let asks = call.nr.cast_signed() == libc::SYS_ioctl && call.args[1] == sys::PROCMAP_QUERY;
        if !self.session.shown.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let transfer = match FileTransfer::of(call.nr, call.args) {
            Some(write) if !write.reads => return self.write_memory(tid, call, write),
            Some(read) => Some(read),
            None if asks => None,
            None => return Ok(None),
        };
        let fd = Fd::of_arg(call.args[0]);
        let known = self.shown.iter().find(|text| text.is_behind(tid, fd));
        let Some(file) = known.map(|text| text.file.clone()).or_else(|| shown_file(tid, fd)) else {
            return Ok(None);
        };
        let Some(read) = transfer else {
            return Ok((file.what == Shown::Mappings).then_some(Entry::Done(errno(libc::ENOTTY))));
        };
        let moves = read.at.is_none();
        let at = read.at.or_else(|| known.and_then(ShownText::position).or_else(|| position(tid, fd)));
        let Some(at) = at else { return Ok(None) };
        let buffers = read.buffers(&self.memory, call.args);
        let wanted = buffers.iter().map(|(_, len)| *len).fold(0, u64::saturating_add);
        if at.cast_signed() < 0 && file.what != Shown::Memory || wanted == 0 {
            return Ok(None);
        }
        let found = if file.what == Shown::Memory {
            if !self.tasks.contains_key(&file.number) {
                return Ok(None);
            }
            Some(self.memory_as_shown(Addr(at), wanted.min(MEMORY_BYTES_MAX)))
        } else {
            self.text_as_shown(tid, fd, &file, at, wanted)
        };
        let Some(found) = found else { return Ok(None) };
        if file.what == Shown::Memory && found.is_empty() {
            return Ok(Some(Entry::Done(errno(libc::EIO))));
        }
        let given = self.give(tid, &buffers, &found)?;
        if given == 0 && !found.is_empty() {
            return Ok(Some(Entry::Done(errno(libc::EFAULT))));
        }
        let is_moved = || {
            // The last is the one that has just been read.
            let text = self.shown.last().filter(|text| text.fd == fd && text.file == file);
            text.is_some_and(|text| text.move_on(at, given))
        };
        if moves && given > 0 && !is_moved() {
            let to = at.wrapping_add(given);
            let whence = libc::SEEK_SET.cast_unsigned().into();
            self.call_for(tid, libc::SYS_lseek, [call.args[0], to, whence, 0, 0, 0])?;
        }
        Ok(Some(Entry::Done(given.cast_signed())))
    }

    /// At the entry of a call that writes: its result, if it writes to the memory of a process of the
    /// recording. The kernel lets that change what the process itself may not write (its text, too), page by
    /// page, up to the first that it cannot; so does whoever traces it.
    fn write_memory(&mut self, tid: Tid, call: &Call, write: FileTransfer) -> Result<Option<Entry>> {
        let fd = Fd::of_arg(call.args[0]);
        let file = shown_file(tid, fd).filter(|file| file.what == Shown::Memory);
        let Some(file) = file.filter(|_| proc::is_open_for_writing(tid, fd)) else { return Ok(None) };
        let moves = write.at.is_none();
        let Some(at) = write.at.or_else(|| position(tid, fd)) else { return Ok(None) };
        let buffers = write.buffers(&self.memory, call.args);
        if buffers.iter().all(|(_, len)| *len == 0) {
            return Ok(None);
        }
        let target = [file.number, self.session.outside(tid, file.number)];
        let source = self.gather(buffers, MEMORY_BYTES_MAX);
        if source.is_empty() {
            return Ok(Some(Entry::Done(errno(libc::EFAULT))));
        }
        let done = if target.iter().any(|tid| self.tasks.contains_key(tid)) {
            Some(self.change_memory(tid, Addr(at), &source)?)
        } else {
            let is_member =
                |tid: &&Tid| process_of(**tid).is_some_and(|pid| self.session.mail.is_member(pid));
            let member = target.iter().find(is_member);
            let poked = member.and_then(|target| self.poke_through_file(tid, *target, Addr(at), &source));
            match member {
                Some(_) if poked.is_some() => poked,
                Some(target) => self.send_memory(*target, &[(Addr(at), source.len() as u64)], &source)?,
                // It has ended, or is none of the recording's.
                None => return Ok(None),
            }
        };
        let done = match done {
            // There is no memory any more.
            None => 0,
            Some(0) => return Ok(Some(Entry::Done(errno(libc::EIO)))),
            Some(done) => done as u64,
        };
        if moves && done > 0 {
            let whence = libc::SEEK_SET.cast_unsigned().into();
            self.call_for(tid, libc::SYS_lseek, [call.args[0], at.wrapping_add(done), whence, 0, 0, 0])?;
        }
        Ok(Some(Entry::Done(done.cast_signed())))
    }

    /// What a read of so many bytes gives of a text; none where it is the kernel's business (the process is
    /// gone, or not of the recording).
    fn text_as_shown(&mut self, tid: Tid, fd: Fd, file: &ShownFile, at: u64, len: u64) -> Option<Vec<u8>> {
        let is_it = |text: &ShownText| {
            text.fd == fd && text.file == *file && (text.open.is_none() || text.is_behind(tid, fd))
        };
        let known = self.shown.iter().position(is_it).map(|index| self.shown.remove(index));
        let mut text = match known {
            Some(text) if at != 0 => text,
            known => self.begin_text(tid, fd, file, known.and_then(|text| text.open))?,
        };
        let clamped = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let (at, len) = (clamped(at), clamped(len));
        let reach = text.window.reach(at);
        while text.rest.is_some() && text.text.len() < reach {
            self.read_on(tid, file, &mut text)?;
        }
        let records = match file.what {
            Shown::Mappings => Records::Mappings,
            Shown::Numa => Records::Lines,
            _ => Records::One,
        };
        let part = text.window.read(&text.text, records, at, len);
        let found = text.text[part].to_vec();
        if self.shown.len() >= TEXTS_MAX {
            self.shown.remove(0);
        }
        self.shown.push(text);
        Some(found)
    }
}

impl Process {
    /// Changes the domain's own memory, as far as that is there and the program's. How many bytes were
    /// written.
    fn change_memory(&mut self, tid: Tid, at: Addr, source: &[u8]) -> Result<usize> {
        let range = at..at.saturating_add(source.len() as u64);
        let first = without(range, &self.ours()).into_iter().next().filter(|part| part.start == at);
        let Some(part) = first else { return Ok(0) };
        let mut outcome = Outcome::default();
        let is_text =
            |m: &maps::Mapping| m.prot & prot::EXEC != 0 && m.start < part.end && part.start < m.end;
        if maps::read(tid)?.iter().any(is_text) {
            // As before an mprotect that lets the program write there.
            self.unpatch(part.start, part.end, &mut outcome)?;
        }
        let mut to = part.start;
        while to < part.end {
            let end = (to + 1).page_ceil().min(part.end);
            let piece = |addr: Addr| usize::try_from(addr - at).unwrap_or(usize::MAX).min(source.len());
            if self.memory.write(to, &source[piece(to)..piece(end)]).is_err() {
                break;
            }
            to = end;
        }
        let done = usize::try_from(to - at).unwrap_or(0).min(source.len());
        if done > 0 {
            outcome.writes.push(MemWrite { addr: at, data: source[..done].to_vec() });
        }
        self.call(tid)?.found.add(outcome);
        Ok(done)
    }

    /// The program's own bytes from here on, as far as there are any.
    fn memory_as_shown(&self, at: Addr, len: u64) -> Vec<u8> {
        let range = at..at.saturating_add(len);
        let first = without(range, &self.ours()).into_iter().next().filter(|part| part.start == at);
        let Some(part) = first else { return Vec::new() };
        let mut bytes = self.memory.read_upto(at, usize::try_from(part.end - at).unwrap_or(0));
        for (addr, data) in self.space.patches().counted(at, at + bytes.len() as u64) {
            let from = usize::try_from(addr - at).unwrap_or(bytes.len()).min(bytes.len());
            let len = data.len().min(bytes.len() - from);
            bytes[from..from + len].copy_from_slice(&data[..len]);
        }
        for patch in self.space.patches().within(at, at + bytes.len() as u64) {
            for (addr, byte) in patch.start.and_behind(1).zip(&patch.original) {
                let offset = addr.checked_since(at).and_then(|offset| usize::try_from(offset).ok());
                if let Some(place) = offset.and_then(|offset| bytes.get_mut(offset)) {
                    *place = *byte;
                }
            }
        }
        bytes
    }

    /// `open`: the program's open file, if we have it already.
    fn begin_text(&self, tid: Tid, fd: Fd, file: &ShownFile, open: Option<File>) -> Option<ShownText> {
        let (text, rest) = if file.what == Shown::Mappings {
            let (_, ours) = self.ours_of(tid, file.number)?;
            // By the descriptor: what it shows stays the same whatever its name means here.
            let file = File::open(proc::fd(tid, fd)).ok()?;
            (Vec::new(), Some(Rest { file, raw: Vec::new(), ours }))
        } else {
            (self.whole_text(tid, fd, file)?, None)
        };
        let open = open.or_else(|| open_file_of(tid, fd));
        Some(ShownText { fd, file: file.clone(), open, text, rest, window: Window::default() })
    }

    /// Makes more text of a list of mappings.
    fn read_on(&self, tid: Tid, file: &ShownFile, text: &mut ShownText) -> Option<()> {
        let rest = text.rest.as_mut()?;
        let is_all = rest.read().ok()?;
        let settled = if is_all { rest.raw.len() } else { text::settled(&rest.raw) };
        if let Some((number, ours)) = self.ours_of(tid, file.number) {
            let before = std::mem::replace(&mut rest.ours, ours.clone());
            let ours = [before, ours].concat();
            let raw: Vec<u8> = rest.raw.drain(..settled).collect();
            text.text.extend(as_seen_from(tid, self.mappings(number, &raw, &ours)));
        } else {
            // The process is gone, and with it what was still to be said.
            text.rest = None;
            return Some(());
        }
        if is_all {
            text.rest = None;
        }
        Some(())
    }

    /// Where another file is mapped than the program of this task believes; `text` is what the kernel says of
    /// its mappings.
    fn instead(&self, number: Tid, text: &[u8]) -> Vec<text::Instead> {
        if self.tasks.contains_key(&number) {
            return self.space.patches().instead();
        }
        let texts = &self.session.texts;
        let of = |name: &[u8], offset| {
            texts.sets.line_of(name, offset).or_else(|| texts.originals.line_of(name, offset))
        };
        text::instead_of_files(text, of)
    }

    /// What the kernel says of mappings, as the program sees it.
    fn mappings(&self, number: Tid, text: &[u8], ours: &[Range<Addr>]) -> Vec<u8> {
        let patches = Some(self.space.patches()).filter(|_| self.tasks.contains_key(&number));
        let instead = self.instead(number, text);
        let kept = text::mappings(text, ours, &instead);
        match patches.map(|patches| &patches.guards).filter(|guards| !guards.is_empty()) {
            Some(guards) => text::unguarded(&kept, guards),
            None => kept,
        }
    }

    fn whole_text(&self, tid: Tid, fd: Fd, file: &ShownFile) -> Option<Vec<u8>> {
        let (number, ours) = self.ours_of(tid, file.number)?;
        // By the descriptor, as above.
        let text = fs::read(proc::fd(tid, fd)).ok()?;
        let kept = match file.what {
            Shown::Numa => text::numa(&text, &ours, &self.instead(number, &text)),
            Shown::Status => {
                let own = proc::read("/proc/self/status").ok()?;
                let cores = self.own_cores(number);
                let tracer = self.session.traced.with_live(number, |it| it.tracer);
                let it = OwnStatus {
                    state: self.state(tid, number, &text),
                    tracer: tracer.map_or(Tid(0), |tracer| self.session.inside(tid, tracer)),
                    seccomp: self.own_seccomp(number),
                    cores: &cores,
                };
                text::status(&text, &own, it, &weigh(number, &ours)?)
            }
            Shown::Stat => text::stat(&text, self.state(tid, number, &text), &weigh(number, &ours)?),
            Shown::Limits => {
                let own = process_of(number).and_then(|pid| self.session.limits.own(pid));
                text::limits(&text, own)
            }
            Shown::Statm => text::statm(&text, &weigh(number, &ours)?),
            Shown::Rollup => {
                let smaps = proc::read(proc::path(number, "smaps")).ok()?;
                text::rollup(&text, &self.mappings(number, &smaps, &ours))
            }
            Shown::Mappings | Shown::Memory => return None,
        };
        Some(as_seen_from(tid, kept))
    }

    /// The task that the program means, as we call it, and the memory of its process that is not the
    /// program's; none if it is not of the recording.
    pub fn ours_of(&self, tid: Tid, number: Tid) -> Option<(Tid, Vec<Range<Addr>>)> {
        [number, self.session.outside(tid, number)].into_iter().find_map(|id| {
            if self.tasks.contains_key(&id) {
                return Some((id, self.ours()));
            }
            if !self.session.mail.is_member(process_of(id)?) {
                return None;
            }
            // A process that has just been forked, or is in an exec, has what others have.
            let arenas = self.session.watch.arenas().into_iter().map(|start| start..start + ARENA_LEN);
            Some((id, once(Addr::range(OURS)).chain(arenas).collect()))
        })
    }
}

impl Crew {
    /// Bytes for the program's buffers, as far as those can be written.
    fn give(&mut self, tid: Tid, buffers: &[(Addr, u64)], bytes: &[u8]) -> Result<u64> {
        let mut rest = bytes;
        for (addr, len) in buffers.iter().copied() {
            let len = len.min(rest.len() as u64);
            let part = &rest[..usize::try_from(len).unwrap_or(0)];
            // The kernel knows best what may be written. It looks at less than a list of all mappings, which
            // a browser asks for in a thousand pieces.
            let room = match sys::write_where_allowed(tid, addr, part) {
                Ok(done) => done as u64,
                Err(_) => {
                    let room = room_at(tid, addr)?.min(len);
                    self.memory.write(addr, &part[..usize::try_from(room).unwrap_or(0)])?;
                    room
                }
            };
            let (now, later) = rest.split_at(usize::try_from(room).unwrap_or(0));
            if !now.is_empty() {
                let write = MemWrite { addr, data: now.to_vec() };
                self.call(tid)?.found.add_write(write);
            }
            rest = later;
            if room < len {
                break;
            }
        }
        Ok((bytes.len() - rest.len()) as u64)
    }

    /// What a task does by itself of which the kernel says this; none: what that says.
    fn state(&self, tid: Tid, number: Tid, text: &[u8]) -> Option<State> {
        if self.is_self(tid, number) {
            // Whose text this is, runs; it is stopped only while it waits for us.
            return Some(State::Runs);
        }
        let kernels = text::kernels_state(text);
        if !matches!(kernels, Some(b't' | b'R' | b'S' | b'D')) {
            return None;
        }
        self.session.halted.await_settled(number);
        if kernels != Some(b't') {
            // What a stopped task does in the kernel when it makes calls for us is nothing of its own.
            return self.session.halted.has(number).then_some(State::Stopped);
        }
        if self.session.traced.is_stopped(number) {
            return Some(State::Traced);
        }
        // A stop that its supervisor has not heard of yet is the last word.
        let is_halted = task::reports_halt(number).unwrap_or_else(|| self.session.halted.has(number));
        Some(if is_halted { State::Stopped } else { State::Runs })
    }

    /// Is the text of this task the reader's own, or that of its process?
    fn is_self(&self, tid: Tid, number: Tid) -> bool {
        number == tid || self.tasks.len() == 1 && self.tasks.contains_key(&number)
    }
}

/// How many bytes from here on the task may write.
fn room_at(tid: Tid, addr: Addr) -> Result<u64> {
    let mut end = addr;
    for mapping in maps::read(tid)? {
        if mapping.start <= end && end < mapping.end && mapping.prot & prot::WRITE != 0 {
            end = mapping.end;
        }
    }
    Ok(end - addr)
}

/// How much of the process's memory lies in these ranges; none if it is gone.
fn weigh(number: Tid, ours: &[Range<Addr>]) -> Option<Weight> {
    let (extents, pages) = (maps::extents(number, ours).ok()?, PageMap::open(number).ok()?);
    let mut weight = Weight::default();
    for Extent { range: Range { start, end }, prot, shared } in extents {
        let bytes = end - start;
        weight.mapped += bytes;
        weight.data += if prot & prot::WRITE != 0 && !shared { bytes } else { 0 };
        weight.exec += if prot & prot::EXEC != 0 && prot & prot::WRITE == 0 { bytes } else { 0 };
        let of_file = |page: Page| page.is_there() && !page.is_own();
        pages.each_run(start, end, Page::is_own, |from, to| weight.own += to - from).ok()?;
        pages.each_run(start, end, of_file, |from, to| weight.shared += to - from).ok()?;
    }
    Some(weight)
}

/// Where the descriptor stands.
fn position(tid: Tid, fd: Fd) -> Option<u64> {
    proc::Fields::of_fd(tid, fd)?.number("pos", 10)
}

/// The open file behind a task's descriptor, for us, too. None: the kernel is too old, or the task's
/// descriptors are not its process's.
fn open_file_of(tid: Tid, fd: Fd) -> Option<File> {
    let open = sys::take_fd(process_of(tid)?, fd).ok()?;
    sys::same_open_file(tid, fd, open.as_raw_fd()).unwrap_or(false).then_some(open)
}

/// The kernel tells names as the reader finds them. A program below another root does not know what is above
/// it.
fn as_seen_from(tid: Tid, text: Vec<u8>) -> Vec<u8> {
    let root = proc::link(tid, "root").unwrap_or_default();
    let root = root.as_os_str().as_bytes();
    if root.len() <= 1 {
        return text;
    }
    let needle = [b" ", root, b"/"].concat();
    let mut seen = Vec::with_capacity(text.len());
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        match line.windows(needle.len()).position(|part| part == needle) {
            Some(place) => {
                seen.extend_from_slice(&line[..=place]);
                seen.extend_from_slice(&line[place + needle.len() - 1..]);
            }
            None => seen.extend_from_slice(line),
        }
    }
    seen
}
