//! The shared mappings of an address space, as its effects leave them: which ranges show which shared object.

use crate::{
    event::{Backing, Effect},
    types::{Addr, ObjectId},
};

/// A part of the address space that shows a shared object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SharedRange {
    pub start: Addr,
    pub end: Addr,
    pub object: ObjectId,
    /// The object's byte at `start`.
    pub offset: u64,
}

/// From where to where mremap has moved a mapping; bytes, whole pages.
#[derive(Clone, Copy, Debug)]
pub struct Move {
    pub addr: Addr,
    /// 0: the pages are mapped twice now.
    pub old_len: u64,
    pub new_addr: Addr,
    pub new_len: u64,
    /// MREMAP_DONTUNMAP.
    pub keep: bool,
}

impl Move {
    /// The effect of moving a part of it, which grows by so many bytes.
    pub fn effect(&self, start: Addr, end: Addr, more: u64) -> Effect {
        let (old_len, keep) = (end - start, self.keep);
        let new_addr = self.new_addr + (start - self.addr);
        Effect::Remap { addr: start, old_len, new_addr, new_len: old_len + more, keep }
    }
}

/// How many mappings of an object there were, and how many there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Recount {
    pub object: ObjectId,
    pub before: usize,
    pub after: usize,
}

/// The shared mappings of an address space.
#[derive(Clone, Debug, Default)]
pub struct SharedMappings {
    ranges: Vec<SharedRange>,
}

impl SharedMappings {
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &SharedRange> {
        self.ranges.iter()
    }

    /// Is the object mapped anywhere?
    pub fn maps(&self, object: ObjectId) -> bool {
        self.ranges.iter().any(|range| range.object == object)
    }

    /// The objects that are mapped, each once, in their order.
    pub fn objects(&self) -> Vec<ObjectId> {
        let mut ids: Vec<ObjectId> = self.ranges.iter().map(|range| range.object).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    pub fn add(&mut self, range: SharedRange) {
        self.ranges.push(range);
    }

    /// What an effect on the address space leaves of them. The objects that are not mapped any more.
    pub fn change(&mut self, effect: &Effect) -> Vec<ObjectId> {
        let mut gone = Vec::new();
        match *effect {
            Effect::Map { addr, len, ref backing, .. } => {
                let end = addr.saturating_add(len);
                gone.extend(self.cut(addr, end));
                if let Backing::Shared { object, offset } = *backing {
                    self.add(SharedRange { start: addr, end, object, offset });
                }
            }
            Effect::Unmap { addr, len } => gone.extend(self.cut(addr, addr.saturating_add(len))),
            Effect::Remap { addr, old_len, new_addr, new_len, keep } => {
                let moved = self.moved(&Move { addr, old_len, new_addr, new_len, keep });
                if old_len > 0 && !keep {
                    gone.extend(self.cut(addr, addr.saturating_add(old_len)));
                }
                gone.extend(self.cut(new_addr, new_addr.saturating_add(new_len)));
                self.ranges.extend(moved);
            }
            _ => {}
        }
        let mut gone: Vec<ObjectId> = gone.into_iter().map(|range| range.object).collect();
        gone.sort_unstable();
        gone.dedup();
        gone.retain(|object| !self.maps(*object));
        gone
    }

    /// All mappings are gone: the address space ends.
    pub fn take_all(&mut self) -> Vec<SharedRange> {
        std::mem::take(&mut self.ranges)
    }

    /// The shared range that holds this address.
    pub fn at(&self, addr: Addr) -> Option<SharedRange> {
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
        let to = |addr: Addr| by.new_addr + (addr - by.addr);
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

    /// The range is not mapped any more, or shows something else. Says of each object how many mappings of it
    /// there are now; a range that loses its middle becomes two. Nothing where nothing shared was there.
    pub fn unmap(&mut self, start: Addr, end: Addr) -> Vec<Recount> {
        let before = self.ranges.clone();
        if self.cut(start, end).is_empty() {
            return Vec::new();
        }
        let count = |ranges: &[SharedRange], id| ranges.iter().filter(|range| range.object == id).count();
        let mut touched: Vec<ObjectId> = before.iter().map(|range| range.object).collect();
        touched.sort_unstable();
        touched.dedup();
        let recount =
            |object| Recount { object, before: count(&before, object), after: count(&self.ranges, object) };
        touched.into_iter().map(recount).collect()
    }

    /// Removes `start..end` from the ranges; returns the pieces that are gone.
    fn cut(&mut self, start: Addr, end: Addr) -> Vec<SharedRange> {
        let mut gone = Vec::new();
        // Mostly nothing shared is there.
        if !self.ranges.iter().any(|range| range.start < end && start < range.end) {
            return gone;
        }
        let mut kept = Vec::new();
        for range in self.ranges.drain(..) {
            if range.end <= start || end <= range.start {
                kept.push(range);
                continue;
            }
            let part = |from: Addr, to: Addr| SharedRange {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u64, end: u64, offset: u64) -> SharedRange {
        SharedRange { start: Addr(start), end: Addr(end), object: ObjectId(1), offset }
    }

    #[test]
    fn cutting_a_hole_leaves_both_sides_with_their_offsets() {
        let mut memory = SharedMappings { ranges: vec![range(10, 50, 100)] };
        assert_eq!(memory.cut(Addr(20), Addr(30)), [range(20, 30, 110)]);
        assert_eq!(memory.ranges, [range(10, 20, 100), range(30, 50, 120)]);
        assert_eq!(memory.at(Addr(35)), Some(range(30, 50, 120)));
        assert_eq!(memory.at(Addr(25)), None);
        assert_eq!(memory.cut(Addr(0), Addr(100)).len(), 2);
        assert!(memory.is_empty());
    }

    #[test]
    fn a_hole_makes_two_mappings_of_one_and_the_rest_makes_none() {
        let mut memory = SharedMappings::default();
        memory.add(range(10, 50, 0));
        memory.add(SharedRange { object: ObjectId(2), ..range(60, 70, 0) });
        let of = |id, before, after| Recount { object: ObjectId(id), before, after };
        assert_eq!(memory.unmap(Addr(20), Addr(30)), [of(1, 1, 2), of(2, 1, 1)]);
        assert_eq!(memory.unmap(Addr(20), Addr(30)), []);
        assert_eq!(memory.unmap(Addr(0), Addr(65)), [of(1, 2, 0), of(2, 1, 1)]);
        assert!(!memory.maps(ObjectId(1)));
        assert_eq!(memory.objects(), [ObjectId(2)]);
    }

    #[test]
    fn what_moves_takes_its_offsets_along_and_the_last_one_grows() {
        let mut memory = SharedMappings::default();
        memory.add(range(10, 30, 0));
        memory.add(range(30, 50, 100));
        let by = Move { addr: Addr(20), old_len: 30, new_addr: Addr(120), new_len: 40, keep: false };
        assert_eq!(memory.moved(&by), [range(120, 130, 10), range(130, 160, 100)]);
        // A length of 0 maps the same pages once more.
        let twice = Move { old_len: 0, ..by };
        assert_eq!(memory.moved(&twice), [range(120, 160, 10)]);
    }

    #[test]
    fn effects_change_what_is_mapped() {
        let mut memory = SharedMappings::default();
        let map = |addr, object| {
            let backing = match object {
                Some(object) => Backing::Shared { object: ObjectId(object), offset: 0 },
                None => Backing::Anonymous,
            };
            Effect::Map { addr: Addr(addr), len: 0x1000, prot: 3, backing }
        };
        assert_eq!(memory.change(&map(0x1000, Some(1))), []);
        assert_eq!(memory.change(&map(0x2000, Some(2))), []);
        let addr = Addr(0x1000);
        let remap =
            Effect::Remap { addr, old_len: 0x1000, new_addr: Addr(0x8000), new_len: 0x2000, keep: false };
        assert_eq!(memory.change(&remap), []);
        assert!(memory.at(addr).is_none());
        assert_eq!(memory.at(Addr(0x9000)).map(|range| range.object), Some(ObjectId(1)));
        assert_eq!(memory.change(&map(0x2000, None)), [ObjectId(2)], "anonymous memory is in its place");
        assert_eq!(memory.change(&Effect::Protect { addr: Addr(0x8000), len: 0x2000, prot: 0 }), []);
        assert_eq!(memory.change(&Effect::Unmap { addr: Addr(0x7000), len: 0x2000 }), [], "a part is left");
        assert_eq!(memory.change(&Effect::Unmap { addr: Addr(0x7000), len: 0x10_0000 }), [ObjectId(1)]);
        assert!(memory.is_empty());
    }
}
