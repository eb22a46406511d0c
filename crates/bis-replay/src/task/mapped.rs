//! What the hooks of a task will yet map.

use std::ops::Range;

use bis_agent::hooks::{Change, entries};
use bis_trace::types::Addr;

use super::Task;

impl Task {
    /// What its hooks will yet map before its next event, where nothing else may be put meanwhile: in order,
    /// and none touches another.
    pub(crate) fn to_be_mapped(&self) -> Vec<Range<Addr>> {
        let log = self.hooked.iter().flat_map(|hooked| entries(&hooked.log)).filter_map(|it| it.change());
        let due = self.changes.iter().map(|due| due.change);
        let maps = due.chain(log).filter(|change| change.nr == Change::MMAP);
        let mut ranges: Vec<Range<Addr>> = maps.map(changed).collect();
        ranges.sort_unstable_by_key(|range| range.start);
        ranges.dedup_by(|next, last| {
            let touches = next.start <= last.end;
            if touches {
                last.end = last.end.max(next.end);
            }
            touches
        });
        ranges
    }
}

/// Where in memory this changes what is mapped.
pub(super) fn changed(change: Change) -> Range<Addr> {
    Addr(change.addr)..Addr(change.addr).saturating_add(change.len)
}
