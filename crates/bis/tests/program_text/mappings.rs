//! What is mapped where, as far as files are.

use std::collections::BTreeMap;

use bis_trace::types::FileId;

/// A range of memory and the file that it shows, from an offset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mapping {
    pub end: u64,
    pub file: Option<(FileId, u64)>,
    pub prot: u32,
}

/// Mappings by their start.
#[derive(Clone, Default)]
pub struct Mappings(pub BTreeMap<u64, Mapping>);

impl Mappings {
    /// What is in this range, cut to it, by address.
    pub fn part(&self, start: u64, end: u64) -> Vec<(u64, Mapping)> {
        let cut = |(from, mapping): (&u64, &Mapping)| {
            let (first, last) = ((*from).max(start), mapping.end.min(end));
            let file = mapping.file.map(|(file, offset)| (file, offset + (first - from)));
            (first < last).then_some((first, Mapping { end: last, file, ..*mapping }))
        };
        self.0.range(..end).rev().take_while(|(_, one)| start < one.end).filter_map(cut).collect()
    }

    pub fn remove(&mut self, start: u64, end: u64) {
        let (below, above) = (self.part(0, start), self.part(end, u64::MAX));
        self.0 = below.into_iter().chain(above).collect();
    }

    pub fn insert(&mut self, start: u64, mapping: Mapping) {
        self.remove(start, mapping.end);
        self.0.insert(start, mapping);
    }
}
