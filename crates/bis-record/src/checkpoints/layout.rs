//! What has to be mapped, unmapped and protected so that an address space looks as another one did: a
//! question about two lists of mappings, and no more.

use std::{collections::BTreeSet, ops::Range};

use bis_trace::types::{Addr, Tid};
use bis_tracee::maps::{self, Mapping};

use crate::error::Result;

/// What is mapped, but for what the kernel keeps there itself.
pub(super) fn mappings(tid: Tid) -> Result<Vec<Mapping>> {
    let mut mappings = maps::read(tid)?;
    mappings.retain(|mapping| !mapping.is_vvar());
    Ok(mappings)
}

/// A step on the way back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    Unmap(Range<Addr>),
    /// Part of a mapping as it was.
    Map(Mapping),
    Protect(Range<Addr>, u32),
}

/// The part of a mapping that lies in this range.
fn part(mapping: &Mapping, range: &Range<Addr>) -> Mapping {
    let offset = if mapping.inode == 0 { 0 } else { mapping.offset + (range.start - mapping.start) };
    Mapping { start: range.start, end: range.end, offset, ..mapping.clone() }
}

fn is_stack(mapping: &Mapping) -> bool {
    mapping.name == b"[stack]"
}

/// Do both show the same, if not the same bytes?
fn is_alike(now: &Mapping, then: &Mapping) -> bool {
    let file = |mapping: &Mapping| (mapping.device, mapping.inode, mapping.offset);
    now.shared == then.shared
        && (now.inode == 0) == (then.inode == 0)
        && (now.inode == 0 || file(now) == file(then))
}

/// The steps from `now` to `then`, in order of address. Nothing is done to ranges that are `left` alone. A
/// stack that has grown stays as long as it is.
pub fn steps(now: &[Mapping], then: &[Mapping], left: &[Range<Addr>]) -> Vec<Step> {
    let bounds = now.iter().chain(then).flat_map(|mapping| [mapping.start, mapping.end]);
    let bounds: BTreeSet<Addr> =
        bounds.chain(left.iter().flat_map(|range| [range.start, range.end])).collect();
    let at = |mappings: &'_ [Mapping], range: &Range<Addr>| -> Option<Mapping> {
        let index = mappings.partition_point(|mapping| mapping.end <= range.start);
        let found = mappings.get(index).filter(|mapping| mapping.start <= range.start)?;
        Some(part(found, range))
    };
    let mut steps: Vec<Step> = Vec::new();
    let ranges = bounds.iter().zip(bounds.iter().skip(1)).map(|(start, end)| *start..*end);
    for range in ranges.filter(|range| !left.iter().any(|left| left.contains(&range.start))) {
        let step = match (at(now, &range), at(then, &range)) {
            (None, None) => None,
            (Some(now), None) if is_stack(&now) => None,
            (Some(_), None) => Some(Step::Unmap(range)),
            (None, Some(then)) => Some(Step::Map(then)),
            (Some(now), Some(then)) if !is_alike(&now, &then) => Some(Step::Map(then)),
            (Some(now), Some(then)) if now.prot != then.prot => Some(Step::Protect(range, then.prot)),
            (Some(_), Some(_)) => None,
        };
        match (steps.last_mut(), step) {
            (Some(Step::Unmap(last)), Some(Step::Unmap(range))) if last.end == range.start => {
                last.end = range.end
            }
            (Some(Step::Protect(last, prot)), Some(Step::Protect(range, same)))
                if last.end == range.start && *prot == same =>
            {
                last.end = range.end;
            }
            (Some(Step::Map(last)), Some(Step::Map(next))) if continues(last, &next) => last.end = next.end,
            (_, step) => steps.extend(step),
        }
    }
    steps
}

/// Is it the next part of the same mapping?
fn continues(last: &Mapping, next: &Mapping) -> bool {
    let offset = if last.inode == 0 { 0 } else { last.offset + last.len() };
    last.end == next.start
        && Mapping { start: last.start, end: last.end, offset: last.offset, ..next.clone() } == *last
        && offset == next.offset
}

/// The parts of these mappings that are not left alone.
pub fn outside(mappings: &[Mapping], left: &[Range<Addr>]) -> Vec<Mapping> {
    let mut parts = mappings.to_vec();
    for gap in left {
        parts = parts
            .iter()
            .flat_map(|mapping| {
                let (start, end) = (gap.start.max(mapping.start), gap.end.min(mapping.end));
                let cut = [mapping.start..start.min(mapping.end), end.max(mapping.start)..mapping.end];
                let cut =
                    if start < end { cut } else { [mapping.start..mapping.end, Addr::NULL..Addr::NULL] };
                cut.into_iter().filter(|range| !range.is_empty()).map(|range| part(mapping, &range))
            })
            .collect();
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(start: u64, end: u64, prot: u32) -> Mapping {
        let (shared, offset, device, inode, name) = (false, 0, (0, 0), 0, Vec::new());
        Mapping { start: Addr(start), end: Addr(end), prot, shared, offset, device, inode, name }
    }

    fn file(start: u64, end: u64, offset: u64) -> Mapping {
        Mapping { offset, device: (8, 1), inode: 7, name: b"/lib/x".to_vec(), ..memory(start, end, 1) }
    }

    #[test]
    fn what_is_the_same_needs_no_step() {
        let now = [memory(0x1000, 0x3000, 3), file(0x5000, 0x8000, 0)];
        // The kernel may have cut or joined them.
        let then = [memory(0x1000, 0x2000, 3), memory(0x2000, 0x3000, 3), file(0x5000, 0x8000, 0)];
        assert_eq!(steps(&now, &then, &[]), []);
    }

    #[test]
    fn new_mappings_go_and_old_ones_come_back() {
        let now = [memory(0x1000, 0x2000, 3), memory(0x9000, 0xb000, 3)];
        let then = [memory(0x1000, 0x2000, 3), file(0x5000, 0x8000, 0x1000)];
        let back = [Step::Map(file(0x5000, 0x8000, 0x1000)), Step::Unmap(Addr::range(0x9000..0xb000))];
        assert_eq!(steps(&now, &then, &[]), back);
    }

    #[test]
    fn what_shows_something_else_is_mapped_again_and_what_is_protected_otherwise_protected() {
        let now = [file(0x1000, 0x3000, 0x1000), memory(0x4000, 0x8000, 1)];
        let then = [file(0x1000, 0x3000, 0), memory(0x4000, 0x6000, 1), memory(0x6000, 0x8000, 3)];
        let back = [Step::Map(file(0x1000, 0x3000, 0)), Step::Protect(Addr::range(0x6000..0x8000), 3)];
        assert_eq!(steps(&now, &then, &[]), back);
    }

    #[test]
    fn nothing_is_done_to_what_is_left_alone() {
        let now = [memory(0x1000, 0x4000, 3), memory(0x7000, 0x9000, 3)];
        let then = [memory(0x7000, 0x9000, 1)];
        let left = [Addr::range(0x2000..0x3000), Addr::range(0x7000..0x8000)];
        let back = [
            Step::Unmap(Addr::range(0x1000..0x2000)),
            Step::Unmap(Addr::range(0x3000..0x4000)),
            Step::Protect(Addr::range(0x8000..0x9000), 1),
        ];
        assert_eq!(steps(&now, &then, &left), back);
        let parts = [memory(0x1000, 0x2000, 3), memory(0x3000, 0x4000, 3), memory(0x8000, 0x9000, 3)];
        assert_eq!(outside(&now, &left), parts);
    }

    #[test]
    fn a_stack_that_has_grown_stays() {
        let stack = |start| Mapping { name: b"[stack]".to_vec(), ..memory(start, 0x9000, 3) };
        assert_eq!(steps(&[stack(0x5000)], &[stack(0x7000)], &[]), []);
    }

    #[test]
    fn a_part_of_a_file_is_mapped_with_its_own_offset() {
        let now = [file(0x5000, 0x6000, 0)];
        let then = [file(0x5000, 0x8000, 0)];
        assert_eq!(steps(&now, &then, &[]), [Step::Map(file(0x6000, 0x8000, 0x1000))]);
    }
}
