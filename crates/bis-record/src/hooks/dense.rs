//! The dense text in an address space: when a domain's text begins to count, and how it comes there.
//!
//! As long as a domain has one task, and no signal has had to stop it in its computation, nothing needs a
//! count, and its text is the sparse one, which costs nothing. The switch is made at the entry of a call: of
//! the clone that makes the second task, or of any call once it is wanted. The call is undone, the dense
//! variant of each text is mapped over it, and what was patched in the text before is patched again where the
//! dense one has not taken it. All of that is the outcome of an event that leaves the task in front of its
//! call: replay maps the same files and knows nothing of rewriting, but for the word that is counted down.
//! There is one task then, so nobody else stands anywhere in that text; what is in signal frames and on
//! stacks are the program's own addresses. Text that comes later is dense from the start. A fork's child has
//! what its parent had.
//!
//! Back to the sparse text it goes the same way, when only one task has been left for a while.
//!
//! With `--ticks=auto` the text counts only where that has turned out to be needed, and there may be other
//! tasks by then (`need.rs`).
//!
//! Trampolines lie at the same distance from their text in every process if they can, so that all share one
//! file of the cache. Once mapped, they stay until the next exec: a task may stand in them though the text
//! that leads there is gone.
//!
//! Not everything can be had: a file without a name in the task's world, text that the program has changed,
//! no room. Such text stays as it is, and a task that computes in it is stopped by its state (`pause.rs`).

use std::{
    ffi::OsStr,
    fs::File,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::Path,
    sync::PoisonError,
    time::{Duration, Instant},
};

use bis_agent::{ARGUMENT_AT, ARGUMENT_MAX};
use bis_rewrite::clock_fault;
use bis_syscalls::Call;
use bis_trace::{
    event::{Backing, Effect, EventKind, MemWrite, Outcome},
    ours,
    types::{Addr, Fd, Registers, Tid, prot},
};
use bis_tracee::{
    Memory, Stopped, address_limit,
    maps::{self, Mapping},
    proc,
    remote::{MADE, Planned, Remote, Returns, Series},
};

use crate::{
    Counting,
    calls::args::{CLONE_VFORK, CLONE_VM, CloneArgs},
    crew::with_slot,
    error::Result,
    events::Recorder,
    process::Process,
    space::{Pool, TextRange, chunks, line_of, shown_text},
};

/// How long a task has been alone before its text stops to count, and how often that may happen in one
/// address space: each time takes some room for trampolines.
const ALONE_MIN: Duration = Duration::from_millis(30);
const RETURNS_MAX: u32 = 8;

/// Does this call make a second task in the same address space, which runs beside its maker?
fn makes_thread(call: &Call, memory: &bis_tracee::Memory) -> bool {
    CloneArgs::of(call, memory).flags & (CLONE_VM | CLONE_VFORK) == CLONE_VM
}

impl Recorder<'_> {
    /// Lets all text count. The task stands at the entry of a call, which is undone.
    pub fn begin_dense(&mut self, tid: Tid, nr: u64, entry: &Registers) -> Result<()> {
        let sums = self.sums(tid)?;
        let site = self.space.original_rip(entry.ip() - 2);
        self.space.patches_mut().dense.is_on = true;
        let texts = self.space.patches().texts.clone();
        let mut outcome = Outcome::default();
        for range in &texts {
            if self.map_dense(tid, range, &mut outcome)? {
                self.patch_known(tid, range, None, &mut outcome)?;
            }
        }
        let regs = Registers { rip: self.space.patched_rip(site).0, rax: nr, orig_rax: u64::MAX, ..*entry };
        self.stopped(tid)?.set_regs(&regs)?;
        if outcome.effects.is_empty() {
            // There is none that could.
            let task = self.task(tid)?;
            task.standing.go_on_midway();
            return Ok(());
        }
        outcome.regs = regs;
        let outcome = Box::new(outcome);
        self.event_with(tid, EventKind::Syscall { nr, entry: *entry, outcome }, sums)?;
        self.task(tid)?.standing.go_on();
        Ok(())
    }

    /// Lets no text count any more, as far as it can be mapped as it was. The only task stands at the entry
    /// of a call, which is undone.
    pub fn end_dense(&mut self, tid: Tid, nr: u64, entry: &Registers) -> Result<()> {
        let sums = self.sums(tid)?;
        let site = self.space.original_rip(entry.ip() - 2);
        let Process { space, hooks: Some(hooks), .. } = &mut self.process else { return Ok(()) };
        space.patches_mut().dense.returns += 1;
        hooks.counts.alone_since = None;
        let texts = self.space.patches().texts.clone();
        let mut outcome = Outcome::default();
        for range in texts.iter().filter(|range| !range.is_changed) {
            let is_whole = self.space.patches().dense.is_whole(range);
            let changes = self.space.views().overlaps(range.start, range.end);
            if is_whole && !changes && self.map_original(tid, range, &mut outcome)? {
                self.patch_known(tid, range, None, &mut outcome)?;
            }
        }
        let regs = Registers { rip: self.space.patched_rip(site).0, rax: nr, orig_rax: u64::MAX, ..*entry };
        self.stopped(tid)?.set_regs(&regs)?;
        outcome.regs = regs;
        let outcome = Box::new(outcome);
        self.event_with(tid, EventKind::Syscall { nr, entry: *entry, outcome }, sums)?;
        self.space.patches_mut().dense.is_on = self.space.patches().dense.shows_any(Addr::NULL, Addr::MAX);
        self.task(tid)?.standing.go_on();
        Ok(())
    }
}

impl Process {
    /// At the entry of a call: is the text to count from here on? Dense texts that are missing are asked for.
    pub fn choose_dense(&mut self, tid: Tid, call: &Call) -> bool {
        let Some(hooks) = self.hooks.as_ref().filter(|_| self.session.texts.dense().is_some()) else {
            return false;
        };
        let waits_for_need = self.session.options.counts == Counting::WhereNeeded;
        if self.space.patches().dense.is_on
            || self.space.clock().forbidden
            || waits_for_need && !hooks.counts.need.is_great() && !self.space.patches().is_small()
            || self.tasks.values().any(|task| task.traits.wishes.no_cpuid)
        {
            return false;
        }
        let is_alone = self.tasks.len() == 1;
        let is_wanted = match is_alone {
            true => hooks.counts.is_wanted || makes_thread(call, &self.memory),
            false => waits_for_need && hooks.counts.need.is_great(),
        };
        is_wanted && self.order_dense_texts(tid) && (is_alone || self.look_at_others(tid))
    }

    /// At the entry of a call: is the text to count no longer? It is noted since when the task has been
    /// alone.
    pub fn choose_sparse(&mut self, call: &Call) -> bool {
        let is_alone = self.tasks.len() == 1;
        let Some(hooks) = self.hooks.as_mut().filter(|_| self.space.patches().dense.is_on) else {
            return false;
        };
        if !is_alone {
            hooks.counts.alone_since = None;
            return false;
        }
        let alone = hooks.counts.alone_since.get_or_insert_with(Instant::now).elapsed();
        alone > ALONE_MIN
            && !hooks.counts.is_wanted
            && self.space.patches().dense.returns < RETURNS_MAX
            && !makes_thread(call, &self.memory)
    }

    /// Maps the program's own text again where it counts. False: it cannot be had.
    fn map_original(&mut self, tid: Tid, range: &TextRange, outcome: &mut Outcome) -> Result<bool> {
        let path = self.space.patches().dense.path(range.start);
        let path = Path::new(OsStr::from_bytes(&path));
        let Ok(source) = range.file.open_again(tid, path) else { return Ok(false) };
        let kept = self.session.keep(&source, path.as_os_str().as_bytes())?;
        let (addr, len, offset) = (range.start, range.end - range.start, range.offset);
        let memory = bis_tracee::Memory::open(tid)?;
        let pieces = [(addr, len, offset, false)];
        let is_mapped =
            with_slot(self, tid, |_, slot| Ok(map_pieces(slot, &memory, (&source, path), &pieces)?))?;
        if is_mapped {
            let backing = Backing::File { file: kept, offset };
            outcome.effects.push(Effect::Map { addr, len, prot: prot::READ_EXEC, backing });
            self.space.patches_mut().forget_patches(range.start, range.end);
            self.space.patches_mut().dense.forget(range.start, range.end);
        }
        Ok(is_mapped)
    }

    /// Maps the dense variant over a text in which no task stands. False: there is none.
    pub(super) fn map_dense(&mut self, tid: Tid, range: &TextRange, outcome: &mut Outcome) -> Result<bool> {
        let mappings = maps::read(tid)?;
        let shown = shown_text(&mappings, range.start..range.end, &self.space.patches().guards)
            .filter(|_| !range.is_changed)
            .map(|shown| self.space.patches().as_believed(shown));
        let Some(shown) = shown else { return Ok(false) };
        if self.leaves_making()
            && let Some(order) = self.missing(range, &mappings)
        {
            self.order(&[(range, order)]);
            return Ok(false);
        }
        let Some((pool, is_new)) = self.pool(range, &mappings) else { return Ok(false) };
        let (first, end) = (range.own(range.start), range.own(range.end));
        let holds = |part: &&bis_rewrite::StoredSegment| part.start <= first && end <= part.start + part.len;
        let entry = &pool.file.entry;
        let Some(part) = entry.segments.iter().find(holds) else { return Ok(false) };
        let in_stored = part.at + (first - part.start);
        let mut pieces = vec![(range.start, range.end - range.start, in_stored, false)];
        if is_new {
            pieces.insert(0, (pool.start, pool.end - pool.start, entry.trampolines_at, true));
        }
        let memory = bis_tracee::Memory::open(tid)?;
        let is_mapped = with_slot(self, tid, |_, slot| {
            Ok(map_pieces(slot, &memory, (&entry.text, &entry.path), &pieces)?)
        })?;
        if !is_mapped {
            tracing::info!(path = %entry.path.display(), "a dense text could not be mapped");
            return Ok(false);
        }
        for (addr, len, offset, _) in pieces {
            let backing = Backing::File { file: pool.file.kept.0, offset };
            outcome.effects.push(Effect::Map { addr, len, prot: prot::READ_EXEC, backing });
        }
        if is_new {
            let (addr, len, bias) = (pool.start, pool.end - pool.start, pool.bias);
            outcome.ours().pools.push(ours::Pool { addr, len, bias, map: pool.file.kept.1 });
        }
        let (addr, len, offset) = (range.start, range.end - range.start, range.offset);
        self.session.texts.originals.set(&pool.file.entry.path, in_stored..in_stored + len, &shown, offset);
        let text = ours::DenseText { addr, len, pool: pool.start, file: range.kept, offset };
        outcome.ours().dense.push(text);
        self.note_dense((&pool, is_new), range, &shown);
        if is_new {
            forbid_clocks_of(&self.memory, &pool, outcome)?;
        }
        Ok(true)
    }

    /// What is known of the text's addresses after its dense variant has been mapped there.
    fn note_dense(&mut self, (pool, is_new): (&Pool, bool), range: &TextRange, shown: &Mapping) {
        self.space.patches_mut().retire(range.start, range.end);
        self.space.patches_mut().forget_shown(range.start, range.end);
        let dense = &mut self.space.patches_mut().dense;
        let number = if is_new {
            dense.pools.push(pool.clone());
            let mut arenas = self.crew.watched.arenas.lock().unwrap_or_else(PoisonError::into_inner);
            arenas.extend(chunks(pool));
            dense.pools.len() - 1
        } else {
            dense.pools.iter().position(|known| known.start == pool.start).unwrap_or(0)
        };
        dense.texts.push((range.start, range.end, number));
        let line = line_of(shown, shown.offset);
        dense.lines.retain(|(known, _)| known.end <= shown.start || shown.end <= known.start);
        dense.lines.push((shown.start..shown.end, line));
    }

    /// Puts the program's own bytes back where text of this range counts. Tasks may stand in the trampolines,
    /// and go on there.
    pub(super) fn undo_dense(&mut self, start: Addr, end: Addr, outcome: &mut Outcome) -> Result<()> {
        let patches = self.space.patches();
        let touched: Vec<TextRange> = patches
            .texts
            .iter()
            .filter(|text| patches.dense.shows_any(text.start.max(start), text.end.min(end)))
            .cloned()
            .collect();
        for text in touched {
            let (from, to) = (text.start.max(start).page_floor(), text.end.min(end));
            let data = text.file.shown(text.offset + (from - text.start), to - from);
            self.memory.write(from, &data)?;
            outcome.ours().own.push((from, to - from));
            outcome.writes.push(MemWrite { addr: from, data });
        }
        self.space.patches_mut().dense.forget(start, end);
        Ok(())
    }
}

/// The trampolines' own instructions that read the time stamp counter become faults, as in sparse ones.
fn forbid_clocks_of(memory: &Memory, pool: &Pool, outcome: &mut Outcome) -> Result<()> {
    for site in pool.map().sites() {
        let Some(fault) = clock_fault(site.kind) else { continue };
        let write = MemWrite { addr: Addr(site.traced).wrapping_add(pool.bias), data: fault.to_vec() };
        memory.write(write.addr, &write.data)?;
        outcome.writes.push(write);
    }
    Ok(())
}

/// Maps these pieces (address, length, offset, whether nothing may be there yet) of a file, open here, into
/// the task's address space, readable and executable. False: the task cannot open the file, or there is no
/// room.
pub(super) fn map_pieces(
    slot: &mut Option<Stopped>,
    memory: &bis_tracee::Memory,
    (file, path): (&File, &Path),
    pieces: &[(Addr, u64, u64, bool)],
) -> bis_tracee::Result<bool> {
    let Ok(meta) = file.metadata() else { return Ok(false) };
    let flags = u64::from((libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK).cast_unsigned());
    let args = [Fd::CURRENT_FOLDER.arg(), ARGUMENT_AT, flags, 0, 0, 0];
    let open = Planned { nr: libc::SYS_openat, args, returns: Returns::Descriptor };
    let map = |(addr, len, offset, must_be_free): &(Addr, u64, u64, bool)| {
        let fixed = if *must_be_free { libc::MAP_FIXED_NOREPLACE } else { libc::MAP_FIXED };
        let flags = u64::from((libc::MAP_PRIVATE | fixed).cast_unsigned());
        let args = [addr.0, *len, prot::READ_EXEC.into(), flags, MADE, *offset];
        Planned { nr: libc::SYS_mmap, args, returns: Returns::This(addr.0) }
    };
    let close = Planned { nr: libc::SYS_close, args: [MADE, 0, 0, 0, 0, 0], returns: Returns::This(0) };
    let calls: Vec<Planned> = [open].into_iter().chain(pieces.iter().map(map)).chain([close]).collect();
    let mut remote = Remote::new(slot)?;
    let tid = remote.tid();
    // By its name, which it may not have there (another root, another user); or as we have it open.
    let ours = proc::own_fd(file);
    let mut is_mapped = false;
    for name in [path.as_os_str().as_bytes(), ours.as_os_str().as_bytes()] {
        // What has this name for the task. (Who puts another file in its place now has made one of the same
        // content: the name says what that is.)
        let seen = || proc::identity(proc::seen_by(tid, Fd::CURRENT_FOLDER, name));
        let is_long = name.len() as u64 >= ARGUMENT_MAX || !name.starts_with(b"/");
        if is_long || seen() != Some((meta.dev(), meta.ino())) {
            continue;
        }
        memory.write(Addr(ARGUMENT_AT), &[name, b"\0"].concat())?;
        let Series { made, descriptor, .. } =
            address_limit::beside(&mut remote, |remote| remote.series(memory, &calls))?;
        let Some(fd) = descriptor else {
            // It may not open it.
            continue;
        };
        is_mapped = made > pieces.len();
        if !is_mapped {
            remote.call(close.nr, [fd.arg(), 0, 0, 0, 0, 0])?;
        }
        break;
    }
    remote.finish()?;
    Ok(is_mapped)
}
