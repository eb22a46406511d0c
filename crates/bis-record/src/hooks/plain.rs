//! Calls of hooks that have changed the address space, and the list of the ranges in which they may.
//!
//! A range is *plain* if it is mapped, is the program's, and nothing is known of it here: private, not
//! executable, not where something may grow to, no file that may change. The hooks (`memory.c`) add what they
//! map. What an event changes is taken out as the event is written ([`follow`]), whoever has changed it,
//! unless it is as plain as before: another protection, content that is given back. What is missing is only
//! slower. What a program's begin has mapped, or a call of its own, is added there, if it is plain.

use bis_trace::types::{Addr, FileId, prot};
use std::{cmp::Reverse, ops::Range, slice};

use bis_agent::hooks::{Change, MAP_PLAIN, PLAIN_MAX, entries, state};
use bis_trace::event::{Backing, Base, Effect, Event, EventKind, Outcome};
use bis_tracee::area::Area;

use crate::space::{AddressSpace, without};

const MAP_PRIVATE: u64 = libc::MAP_PRIVATE.cast_unsigned() as u64;

/// What an mmap of the program's own may ask for so that its mapping can be plain: what the hooks' may, and
/// what the kernel alone can answer. Large pages are counted otherwise, and what grows is the recorder's to
/// know.
const PLAIN_FLAGS: u64 =
    MAP_PLAIN | (libc::MAP_32BIT | libc::MAP_NONBLOCK | libc::MAP_FIXED_NOREPLACE).cast_unsigned() as u64;
const _: () = assert!(PLAIN_FLAGS == 0x13_d872);

/// What the calls of a log have changed, in order.
pub fn changes(log: &[u8]) -> Vec<Change> {
    entries(log).filter_map(|entry| entry.change()).collect()
}

/// What these changes are to the address space.
pub fn effects(changes: &[Change]) -> Vec<Effect> {
    changes.iter().filter_map(effect).collect()
}

/// The word that the last set_tid_address among these has named, if there is one.
pub fn named_word(changes: &[Change]) -> Option<Addr> {
    let last = changes.iter().rfind(|change| change.nr == Change::SET_TID_ADDRESS)?;
    Some(Addr(last.addr))
}

fn effect(change: &Change) -> Option<Effect> {
    let Change { nr, addr, len, how, offset, .. } = *change;
    let how = u32::try_from(how).ok()?;
    let backing = match change.file() {
        Some(file) => Backing::File { file: FileId(u32::try_from(file).ok()?), offset },
        None => Backing::Anonymous,
    };
    Some(match nr {
        Change::MMAP => Effect::Map { addr: Addr(addr), len, prot: how, backing },
        Change::MPROTECT => Effect::Protect { addr: Addr(addr), len, prot: how },
        Change::MUNMAP => Effect::Unmap { addr: Addr(addr), len },
        Change::MADVISE => Effect::Advise { addr: Addr(addr), len, advice: how },
        // Nothing that a mapping would show: arch_prctl, set_tid_address.
        _ => return None,
    })
}

/// Takes a range out.
fn cut(ranges: &mut Vec<Range<Addr>>, gone: &Range<Addr>) {
    let before = std::mem::take(ranges).into_iter();
    ranges.extend(before.flat_map(|range| without(range, slice::from_ref(gone))));
}

/// Adds one, which becomes one with those that it touches.
fn add(ranges: &mut Vec<Range<Addr>>, mut new: Range<Addr>) {
    ranges.retain(|range| {
        let touches = range.start <= new.end && new.start <= range.end;
        if touches {
            new = new.start.min(range.start)..new.end.max(range.end);
        }
        !touches
    });
    ranges.push(new);
}

/// The one advice of which an event tells, and that leaves memory as it was mapped (MADV_FREE is told as
/// this).
const DONTNEED: u32 = libc::MADV_DONTNEED.cast_unsigned();

/// The ranges that are not plain any more after an effect, if they were.
fn changed(effect: &Effect) -> Vec<Range<Addr>> {
    let range = |addr: Addr, len: u64| addr..addr.saturating_add(len).page_ceil();
    match *effect {
        Effect::Protect { prot, .. } if prot & prot::EXEC == 0 => Vec::new(),
        Effect::Advise { advice: DONTNEED, .. } => Vec::new(),
        Effect::Map { addr, len, .. }
        | Effect::Unmap { addr, len }
        | Effect::Protect { addr, len, .. }
        | Effect::Advise { addr, len, .. } => vec![range(addr, len)],
        Effect::Remap { addr, old_len, new_addr, new_len, .. } => {
            vec![range(addr, old_len), range(new_addr, new_len)]
        }
        _ => Vec::new(),
    }
}

/// Can what an mmap with these flags has mapped be plain?
fn may_be_plain(flags: u64) -> bool {
    flags & MAP_PRIVATE != 0 && flags & !PLAIN_FLAGS == 0
}

/// An outcome whose mappings are the program's own, as it has made them: the event is the program's begin, or
/// a call of its that has done nothing but to map.
fn own(event: &Event) -> Option<&Outcome> {
    match &event.kind {
        EventKind::Start(start) => matches!(start.base, Base::Exec { .. }).then_some(&start.outcome),
        EventKind::Syscall { nr: Change::MMAP, entry, outcome } => {
            (may_be_plain(entry.r10) && outcome.effects.len() == 1).then_some(outcome)
        }
        _ => None,
    }
}

/// An event is written: the hooks may not change any more what it has changed, and what it has mapped they
/// may, if that is plain.
pub fn follow(area: &Area, event: &Event, space: &AddressSpace) {
    let Some(outcome) = event.outcome().filter(|outcome| !outcome.effects.is_empty()) else { return };
    let own = own(event).is_some();
    let before = area.plain();
    let mut ranges = before.clone();
    for effect in &outcome.effects {
        changed(effect).iter().for_each(|range| cut(&mut ranges, range));
        if let Effect::Map { addr, len, prot, backing } = effect
            && own
            && prot & prot::EXEC == 0
            && is_plain(backing, event)
        {
            let end = addr.saturating_add(*len).page_ceil();
            if !space.views().overlaps(*addr, end) && !space.is_grown_into(&(*addr..end)) {
                add(&mut ranges, *addr..end);
            }
        }
    }
    if ranges != before {
        if ranges.len() > PLAIN_MAX {
            // The longest have room.
            ranges.sort_by_key(|range| Reverse(range.end - range.start));
        }
        area.set_plain(&ranges);
    }
}

/// May a private mapping of this be plain? Of a program's begin, what is no file's is not only its own.
fn is_plain(backing: &Backing, event: &Event) -> bool {
    match backing {
        Backing::File { .. } => true,
        Backing::Anonymous => !matches!(event.kind, EventKind::Start(_)),
        Backing::Stack | Backing::Shared { .. } => false,
    }
}

/// Where the heap ends, as the hooks know it; none: they do not.
pub fn heap(area: &Area) -> Option<u64> {
    Some(area.get(state::BRK)).filter(|brk| *brk != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_touches_becomes_one_and_a_hole_makes_two() {
        let mut ranges = vec![Addr::range(0x1000..0x2000), Addr::range(0x5000..0x6000)];
        add(&mut ranges, Addr::range(0x2000..0x5000));
        assert_eq!(ranges, vec![Addr::range(0x1000..0x6000); 1]);
        cut(&mut ranges, &(Addr::range(0x2000..0x3000)));
        assert_eq!(ranges, [Addr::range(0x1000..0x2000), Addr::range(0x3000..0x6000)]);
        cut(&mut ranges, &(Addr::range(0x1800..0x5000)));
        assert_eq!(ranges, [Addr::range(0x1000..0x1800), Addr::range(0x5000..0x6000)]);
        cut(&mut ranges, &(Addr::NULL..Addr::MAX));
        assert!(ranges.is_empty());
    }

    #[test]
    fn only_what_is_private_and_of_common_pages_can_be_plain() {
        const ANONYMOUS: u64 = 0x20;
        const SHARED: u64 = 1;
        const GROWSDOWN: u64 = 0x100;
        const HUGETLB: u64 = 0x4_0000;
        const DROPPABLE: u64 = 8;
        const FIXED_NOREPLACE: u64 = 0x10_0000;
        assert!(may_be_plain(MAP_PRIVATE) && may_be_plain(MAP_PRIVATE | ANONYMOUS | FIXED_NOREPLACE));
        for other in [GROWSDOWN, HUGETLB, DROPPABLE, SHARED] {
            assert!(!may_be_plain(MAP_PRIVATE | ANONYMOUS | other), "{other:#x}");
        }
        assert!(!may_be_plain(SHARED | ANONYMOUS) && !may_be_plain(DROPPABLE | ANONYMOUS));
    }

    #[test]
    fn the_last_word_that_a_log_names_is_the_task_s_and_is_no_change_of_memory() {
        let entry = |change: Option<Change>| {
            let data: Vec<u64> = change.map_or_else(Vec::new, |it| vec![it.nr, it.addr, it.len, it.how]);
            let nr = change.map_or(Change::SET_TID_ADDRESS, |change| change.nr);
            let head = nr | (2 + data.len() as u64) << 12;
            [vec![head, 0], data].concat().into_iter().flat_map(u64::to_le_bytes).collect::<Vec<u8>>()
        };
        let change = |nr, addr, how| Some(Change { nr, addr, len: 0, how, file: 0, offset: 0 });
        let named = |addr| change(Change::SET_TID_ADDRESS, addr, 0);
        let log = [named(0x1000), change(Change::ARCH_PRCTL, 0x3000, 0x1002), named(0x2000)].map(entry);
        let all = changes(&log.concat());
        assert_eq!((all.len(), named_word(&all)), (3, Some(Addr(0x2000))));
        assert_eq!(named_word(&changes(&log[1])), None);
        assert!(effects(&all).is_empty());
    }

    #[test]
    fn an_effect_changes_whole_pages_of_both_its_ends() {
        let remap = Effect::Remap {
            addr: Addr(0x1000),
            old_len: 1,
            new_addr: Addr(0x9000),
            new_len: 0x1001,
            keep: false,
        };
        assert_eq!(changed(&remap), [Addr::range(0x1000..0x2000), Addr::range(0x9000..0xb000)]);
    }
    #[test]
    fn what_was_plain_still_is_after_another_protection_or_when_its_content_is_given_back() {
        let advise = |advice: i32| {
            let advice = advice.cast_unsigned();
            changed(&Effect::Advise { addr: Addr(0x1000), len: 0x1000, advice })
        };
        let protect = |prot| changed(&Effect::Protect { addr: Addr(0x1000), len: 0x1000, prot });
        assert!(protect(prot::READ).is_empty() && protect(0).is_empty());
        assert!(advise(libc::MADV_DONTNEED).is_empty());
        let whole = [Addr::range(0x1000..0x2000)];
        assert_eq!(protect(prot::READ | prot::EXEC), whole);
        for advice in [libc::MADV_DONTFORK, libc::MADV_WIPEONFORK, libc::MADV_REMOVE] {
            assert_eq!(advise(advice), whole, "{advice}");
        }
    }
}
