//! Memory that a client has asked for: LLDB puts the code of an expression there, its arguments, and what it
//! comes to. The recording has none of it. It is kept here, and each copy of the program in which a function
//! is called begins with it and leaves it as it is then.

use std::{collections::BTreeMap, ops::Range};

use bis_trace::types::{Addr, PAGE};

/// Where it lies. Programs have nothing there, nor have the shadows of the sanitizers.
const BASE: Addr = Addr(0x4100_0000_0000);

/// That of 32-bit programs.
const NARROW_BASE: Addr = Addr(0x6000_0000);
const NARROW_END: Addr = Addr(0x6800_0000);

/// Bytes in all. LLDB asks for a few pages for each expression.
const LEN_MAX: u64 = 64 << 20;

pub(super) fn are_apart(one: &Range<Addr>, other: &Range<Addr>) -> bool {
    one.end <= other.start || other.end <= one.start
}

/// See the module's text. Each range is whole pages.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(super) struct Lent(BTreeMap<Addr, Vec<u8>>);

impl Lent {
    /// So many bytes, of zeros, beside what the program has mapped in these ranges. None: that is too much.
    pub(super) fn lend(&mut self, len: u64, is_narrow: bool, mapped: &[Range<Addr>]) -> Option<Addr> {
        let len = len.max(1).checked_next_multiple_of(PAGE)?;
        let taken: u64 = self.0.values().map(|bytes| bytes.len() as u64).sum();
        if taken.checked_add(len)? > LEN_MAX {
            return None;
        }
        let base = if is_narrow { NARROW_BASE } else { BASE };
        let end = if is_narrow { NARROW_END } else { BASE + 4 * LEN_MAX };
        let taken: Vec<Range<Addr>> = self.ranges().chain(mapped.iter().cloned()).collect();
        let behind = taken.iter().map(|range| range.end).filter(|start| (base..end).contains(start));
        let is_room = |start: &Addr| {
            let range = *start..*start + len;
            range.end <= end && taken.iter().all(|taken| are_apart(taken, &range))
        };
        let start = behind.chain([base]).filter(is_room).min()?;
        self.0.insert(start, vec![0; usize::try_from(len).ok()?]);
        Some(start)
    }

    /// The client has no use any more for what begins here. False: nothing does.
    pub(super) fn give_back(&mut self, addr: Addr) -> bool {
        self.0.remove(&addr).is_some()
    }

    pub(super) fn ranges(&self) -> impl Iterator<Item = Range<Addr>> {
        self.0.iter().map(|(addr, bytes)| *addr..*addr + bytes.len() as u64)
    }

    /// What is in each range.
    pub(super) fn all(&self) -> impl Iterator<Item = (Addr, &[u8])> {
        self.0.iter().map(|(addr, bytes)| (*addr, &bytes[..]))
    }

    /// The range that an address lies in.
    pub(super) fn around(&self, addr: Addr) -> Option<Range<Addr>> {
        self.ranges().find(|range| range.contains(&addr))
    }

    /// As many of these bytes as lie in one range. None: the first does not.
    pub(super) fn read(&self, addr: Addr, len: u64) -> Option<Vec<u8>> {
        let (start, bytes) = self.0.range(..=addr).next_back()?;
        let rest = bytes.get(usize::try_from(addr.saturating_since(*start)).ok()?..)?;
        let len = usize::try_from(len).unwrap_or(usize::MAX).min(rest.len());
        (!rest.is_empty()).then(|| rest[..len].to_vec())
    }

    /// Writes bytes that all lie in one range. False: they do not.
    pub(super) fn write(&mut self, addr: Addr, new: &[u8]) -> bool {
        let Some((start, bytes)) = self.0.range_mut(..=addr).next_back() else { return false };
        let Ok(from) = usize::try_from(addr.saturating_since(*start)) else { return false };
        let room = from.checked_add(new.len()).and_then(|end| bytes.get_mut(from..end));
        room.map(|room| room.copy_from_slice(new)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lent_is_read_as_it_was_written_until_it_is_given_back() {
        let mut lent = Lent::default();
        let first = lent.lend(10, false, &[]).unwrap();
        let second = lent.lend(2 * PAGE, false, &[]).unwrap();
        assert_eq!((first, second), (BASE, BASE + PAGE));
        assert!(lent.write(second + PAGE, b"word") && lent.write(first, &[7; PAGE as usize]));
        assert_eq!(lent.read(second + PAGE + 1, 2).unwrap(), b"or");
        assert_eq!(lent.read(first + (PAGE - 2), 10).unwrap(), [7, 7]);
        assert!(!lent.write(first + 1, &[0; PAGE as usize]), "it reaches into the next one");
        assert_eq!(lent.read(BASE + 3 * PAGE, 1), None);
        assert_eq!(lent.read(Addr(0x1000), 1), None);
        assert!(lent.give_back(first) && !lent.give_back(first));
        assert_eq!(lent.read(first, 1), None);
        assert_eq!(lent.lend(1, false, &[]), Some(first), "its place is free again");
    }

    #[test]
    fn nothing_is_lent_where_the_program_has_something_or_that_is_too_much() {
        let mut lent = Lent::default();
        lent.lend(PAGE, true, &[]).unwrap();
        let mapped = [NARROW_BASE + PAGE..NARROW_BASE + 3 * PAGE, Addr(0x1000)..Addr(0x2000)];
        assert_eq!(lent.lend(PAGE, true, &mapped), Some(NARROW_BASE + 3 * PAGE));
        assert_eq!(lent.lend(PAGE, true, &[Addr(0x1000)..NARROW_END]), None);
        assert_eq!(lent.lend(LEN_MAX, false, &[]), None);
        assert_eq!(lent.lend(u64::MAX, false, &[]), None);
        assert!(lent.lend(LEN_MAX - 2 * PAGE, false, &[]).is_some());
        assert_eq!(lent.lend(1, true, &[]), None);
    }
}
