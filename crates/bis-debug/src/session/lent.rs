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

/// See the module's text. Each range is whole pages.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(super) struct Lent(BTreeMap<Addr, Vec<u8>>);

impl Lent {
    /// So many bytes from here on, of zeros, where `is_free` says that the program has nothing. None: that is
    /// too much.
    pub(super) fn lend(
        &mut self,
        len: u64,
        is_narrow: bool,
        is_free: impl Fn(&Range<Addr>) -> bool,
    ) -> Option<Addr> {
        let len = len.max(1).checked_next_multiple_of(PAGE)?;
        let taken: u64 = self.0.values().map(|bytes| bytes.len() as u64).sum();
        if taken.checked_add(len)? > LEN_MAX {
            return None;
        }
        let base = if is_narrow { NARROW_BASE } else { BASE };
        let end = if is_narrow { NARROW_END } else { BASE + 4 * LEN_MAX };
        let behind = self.0.iter().map(|(addr, bytes)| *addr + bytes.len() as u64);
        let mut starts: Vec<Addr> = behind.chain([base]).collect();
        starts.sort();
        let is_room = |start: &Addr| {
            let range = *start..*start + len;
            range.end <= end && self.ranges().all(|lent| lent.end <= range.start || range.end <= lent.start)
        };
        let start = starts.into_iter().filter(is_room).find(|start| is_free(&(*start..*start + len)))?;
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
        let first = lent.lend(10, false, |_| true).unwrap();
        let second = lent.lend(2 * PAGE, false, |_| true).unwrap();
        assert_eq!((first, second), (BASE, BASE + PAGE));
        assert!(lent.write(second + PAGE, b"word") && lent.write(first, &[7; PAGE as usize]));
        assert_eq!(lent.read(second + PAGE + 1, 2).unwrap(), b"or");
        assert_eq!(lent.read(first + (PAGE - 2), 10).unwrap(), [7, 7]);
        assert!(!lent.write(first + 1, &[0; PAGE as usize]), "it reaches into the next one");
        assert_eq!(lent.read(BASE + 3 * PAGE, 1), None);
        assert_eq!(lent.read(Addr(0x1000), 1), None);
        assert!(lent.give_back(first) && !lent.give_back(first));
        assert_eq!(lent.read(first, 1), None);
        assert_eq!(lent.lend(1, false, |_| true), Some(first), "its place is free again");
    }

    #[test]
    fn nothing_is_lent_where_the_program_has_something_or_that_is_too_much() {
        let mut lent = Lent::default();
        lent.lend(PAGE, true, |_| true).unwrap();
        assert_eq!(lent.lend(PAGE, true, |range| range.start == NARROW_BASE), None);
        assert_eq!(lent.lend(LEN_MAX, false, |_| true), None);
        assert_eq!(lent.lend(u64::MAX, false, |_| true), None);
        assert!(lent.lend(LEN_MAX - PAGE, false, |_| true).is_some());
        assert_eq!(lent.lend(1, true, |_| true), None);
    }
}
