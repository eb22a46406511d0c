//! A domain's side of the run tokens: which shared memory it maps where, and when it holds the right to run.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    time::{Duration, Instant},
};

use bis_syscalls::{Call, Handler};
use bis_trace::{
    event::{Effect, EventKind, Meta},
    types::{ObjectId, Tid},
};

use crate::{
    calls::is_cloning,
    domain::Domain,
    error::{RecordError, Result},
};

/// How long a domain may run on while another waits for a token that it holds; looked at whenever one of its
/// tasks stops.
const TURN_MAX: Duration = Duration::from_millis(2);

/// A part of the address space that shows a shared object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SharedRange {
    pub start: u64,
    pub end: u64,
    pub object: ObjectId,
    /// The object's byte at `start`.
    pub offset: u64,
}

/// From where to where mremap has moved a mapping; bytes, whole pages.
#[derive(Clone, Copy, Debug)]
pub struct Move {
    pub addr: u64,
    /// 0: the pages are mapped twice now.
    pub old_len: u64,
    pub new_addr: u64,
    pub new_len: u64,
    /// MREMAP_DONTUNMAP.
    pub keep: bool,
}

impl Move {
    /// The effect of moving a part of it, which grows by so many bytes.
    pub fn effect(&self, start: u64, end: u64, more: u64) -> Effect {
        let (old_len, keep) = (end - start, self.keep);
        let new_addr = self.new_addr + (start - self.addr);
        Effect::Remap { addr: start, old_len, new_addr, new_len: old_len + more, keep }
    }
}

/// The shared mappings of a domain.
#[derive(Debug, Default)]
pub struct SharedMemory {
    pub ranges: Vec<SharedRange>,
    /// The objects whose tokens the domain holds.
    pub held: Vec<ObjectId>,
    since: Option<Instant>,
    /// Objects whose tokens the domain did not hold, but that the call in progress touches; the registry counts
    /// them as mappings.
    borrowed: Vec<ObjectId>,
    /// Mappings that are gone, but whose end is not written yet: one entry for each.
    unmapped: Vec<ObjectId>,
}

impl SharedMemory {
    /// The mappings as a forked child has them: it holds no token.
    pub fn inherited(&self) -> SharedMemory {
        SharedMemory { ranges: self.ranges.clone(), ..SharedMemory::default() }
    }

    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty() && self.borrowed.is_empty()
    }

    pub fn objects(&self) -> Vec<ObjectId> {
        let mapped = self.ranges.iter().map(|range| range.object);
        let mut ids: Vec<ObjectId> = mapped.chain(self.borrowed.iter().copied()).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// The shared range that holds this address.
    pub fn at(&self, addr: u64) -> Option<SharedRange> {
        self.ranges.iter().copied().find(|range| range.start <= addr && addr < range.end)
    }

    /// What the ranges that mremap has moved are now.
    pub fn moved(&self, by: &Move) -> Vec<SharedRange> {
        let new_end = by.new_addr + by.new_len;
        if by.old_len == 0 {
            let range = self.at(by.addr).map(|range| SharedRange {
                start: by.new_addr,
                end: new_end,
                object: range.object,
                offset: range.offset + (by.addr - range.start),
            });
            return range.into_iter().collect();
        }
        let old_end = by.addr + by.old_len;
        let to = |addr: u64| by.new_addr + (addr - by.addr);
        let moved = self.ranges.iter().filter(|range| range.start < old_end && by.addr < range.end);
        let moved = moved.map(|range| {
            let start = range.start.max(by.addr);
            // The last one grows, or ends early.
            let end = if range.end >= old_end { new_end } else { to(range.end).min(new_end) };
            let offset = range.offset + (start - range.start);
            SharedRange { start: to(start), end, object: range.object, offset }
        });
        moved.filter(|range| range.start < range.end).collect()
    }

    /// Removes `start..end` from the ranges; returns the pieces that are gone.
    pub fn cut(&mut self, start: u64, end: u64) -> Vec<SharedRange> {
        let mut gone = Vec::new();
        let mut kept = Vec::new();
        for range in self.ranges.drain(..) {
            if range.end <= start || end <= range.start {
                kept.push(range);
                continue;
            }
            let part = |from: u64, to: u64| SharedRange {
                start: from,
                end: to,
                object: range.object,
                offset: range.offset + (from - range.start),
            };
            if range.start < start {
                kept.push(part(range.start, start));
            }
            if end < range.end {
                kept.push(part(end, range.end));
            }
            gone.push(part(range.start.max(start), range.end.min(end)));
        }
        self.ranges = kept;
        gone
    }
}

impl Domain {
    /// A new mapping of an object that the registry has already counted. With `held`, its token is ours.
    pub fn add_shared(&mut self, range: SharedRange, held: bool) -> Result<()> {
        let known = self.shared.ranges.iter().any(|r| r.object == range.object);
        self.shared.ranges.push(range);
        if held {
            self.shared.held.push(range.object);
        }
        if !known {
            self.session.writer.meta(&Meta::Share { object: range.object, domain: self.id })?;
        }
        Ok(())
    }

    /// The range is not mapped any more, or shows something else.
    pub fn remove_shared(&mut self, start: u64, end: u64) -> Result<()> {
        if self.shared.is_empty() {
            return Ok(());
        }
        let before = self.shared.ranges.clone();
        if self.shared.cut(start, end).is_empty() {
            return Ok(());
        }
        // The registry counts ranges: recount the objects that were touched.
        let count = |ranges: &[SharedRange], id| ranges.iter().filter(|r| r.object == id).count();
        let mut touched: Vec<ObjectId> = before.iter().map(|r| r.object).collect();
        touched.sort_unstable();
        touched.dedup();
        for id in touched {
            let (old, new) = (count(&before, id), count(&self.shared.ranges, id));
            for _ in old..new {
                self.session.registry.add(id, self.id);
            }
            self.shared.unmapped.extend((new..old).map(|_| id));
        }
        Ok(())
    }

    /// After the event that tells of them: lets go of objects that the domain has unmapped. Not before: in
    /// replay, the domain would let go of them before it has done what it did up to that event.
    pub fn finish_unmapped(&mut self) -> Result<()> {
        for id in std::mem::take(&mut self.shared.unmapped) {
            if self.shared.held.contains(&id) && !self.shared.objects().contains(&id) {
                self.release(&[id])?;
            }
            self.session.registry.remove(id, self.id);
        }
        Ok(())
    }

    /// At the entry of a call that will write to an object, change its length or map it: takes its token as well, so
    /// that the call has a place in the order of the object's turns.
    pub fn borrow_object(&mut self, tid: Tid, object: ObjectId) -> Result<()> {
        if self.shared.held.contains(&object) {
            return Ok(());
        }
        self.write_entry(tid)?;
        self.session.writer.meta(&Meta::Share { object, domain: self.id })?;
        self.shared.borrowed.push(object);
        self.ensure_tokens()
    }

    /// After the event of a call: gives back what was borrowed for it, unless the domain maps it now.
    pub fn return_borrowed(&mut self) -> Result<()> {
        for id in std::mem::take(&mut self.shared.borrowed) {
            if self.shared.held.contains(&id) && self.shared.ranges.iter().all(|range| range.object != id) {
                self.release(&[id])?;
            }
        }
        Ok(())
    }

    /// The existing object that a call at its entry is going to touch, if any.
    pub fn touched_object(&self, tid: Tid, handler: Handler, call: &Call) -> Option<ObjectId> {
        use Handler as H;
        const MAP_ANONYMOUS: u64 = 0x20;
        if self.session.registry.is_empty() {
            return None;
        }
        let fd = |index: usize| format!("/proc/{tid}/fd/{}", call.i32(index));
        let path = match handler {
            H::Write | H::Writev | H::Pwrite64 | H::Pwritev | H::Pwritev2 | H::Ftruncate | H::Fallocate => {
                fd(0)
            }
            H::Sendfile | H::Vmsplice => fd(0),
            H::Ioctl if is_cloning(call.u32(1)) => fd(0),
            H::Tee => fd(1),
            H::Splice | H::CopyFileRange => fd(2),
            H::Mmap if call.args[3] & MAP_ANONYMOUS == 0 => fd(4),
            H::Truncate => {
                let name = self.memory.read_c_str(call.args[0]).ok()?;
                let name = String::from_utf8_lossy(&name).into_owned();
                let base = if name.starts_with('/') { "root" } else { "cwd/" };
                format!("/proc/{tid}/{base}{name}")
            }
            // The kernel gives a segment's id as its inode, on its first anonymous device.
            H::Shmat => return self.session.registry.find((libc::makedev(0, 1), u64::from(call.u32(0)))),
            _ => return None,
        };
        let meta = fs::metadata(path).ok()?;
        self.session.registry.find((meta.dev(), meta.ino()))
    }

    /// Takes the tokens of all objects that the domain maps, waiting for them if need be. Whoever lets the
    /// program run or touches its memory calls it first.
    pub fn ensure_tokens(&mut self) -> Result<()> {
        if self.shared.is_empty() {
            return Ok(());
        }
        let objects = self.shared.objects();
        if objects.iter().all(|id| self.shared.held.contains(id)) {
            return Ok(());
        }
        self.release_tokens()?;
        let session = self.session.clone();
        session.registry.acquire(self.id, &objects, |acquired| {
            self.token_event(EventKind::Token { acquired, released: Vec::new() })
        })?;
        self.shared.held = objects;
        self.shared.since = Some(Instant::now());
        Ok(())
    }

    /// The same before a task goes on in its program; if somebody else has waited long enough, it is their turn
    /// first. Not while a task is at a place that the stream does not describe: in replay, what it did before
    /// would come after the other's turn.
    pub fn yield_tokens(&mut self) -> Result<()> {
        let gives_up = std::mem::take(&mut self.gives_up);
        let expired = gives_up || self.shared.since.is_none_or(|since| since.elapsed() > TURN_MAX);
        if self.holds_tokens()
            && self.session.registry.is_wanted()
            && expired
            && self.tasks.values().all(|task| !task.midway)
        {
            self.release_tokens()?;
        }
        self.ensure_tokens()
    }

    /// Gives all tokens back: before a wait for the kernel in which others should be able to run.
    pub fn release_tokens(&mut self) -> Result<()> {
        let held = std::mem::take(&mut self.shared.held);
        if held.is_empty() { Ok(()) } else { self.release(&held) }
    }

    fn release(&mut self, ids: &[ObjectId]) -> Result<()> {
        self.shared.held.retain(|id| !ids.contains(id));
        // A call in progress is seen as entered by whoever runs after us.
        self.write_entries()?;
        if let Some(task) = self.tasks.values().find(|task| task.midway && task.ready) {
            let what = "a token is given back where no event describes the task's place".into();
            return Err(RecordError::Bug { tid: task.tid, what });
        }
        let session = self.session.clone();
        session.registry.release(self.id, ids, |released| {
            if released.is_empty() {
                return Ok(());
            }
            self.token_event(EventKind::Token { acquired: Vec::new(), released })
        })
    }

    fn token_event(&mut self, kind: EventKind) -> Result<()> {
        let tid = self.first_tid;
        self.event(tid, kind)
    }

    /// Is another domain waiting for what we hold?
    pub fn holds_tokens(&self) -> bool {
        !self.shared.held.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u64, end: u64, offset: u64) -> SharedRange {
        SharedRange { start, end, object: ObjectId(1), offset }
    }

    #[test]
    fn cutting_a_hole_leaves_both_sides_with_their_offsets() {
        let mut memory = SharedMemory { ranges: vec![range(10, 50, 100)], ..SharedMemory::default() };
        assert_eq!(memory.cut(20, 30), [range(20, 30, 110)]);
        assert_eq!(memory.ranges, [range(10, 20, 100), range(30, 50, 120)]);
        assert_eq!(memory.at(35), Some(range(30, 50, 120)));
        assert_eq!(memory.at(25), None);
        assert_eq!(memory.cut(0, 100).len(), 2);
        assert!(memory.is_empty());
    }
}
