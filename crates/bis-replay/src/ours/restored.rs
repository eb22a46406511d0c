//! The program's own text put back into a process, for one that runs what was not recorded.

use std::sync::Arc;

use bis_trace::{
    ours::{Area, AreaKind},
    types::Addr,
};

use super::{Known, ProgramText, TextError, answers::read};

impl ProgramText {
    /// The bytes that have to be written, in this order, for the program's instructions to be where it has
    /// them. Not those of the vdso's functions, which stay system calls.
    ///
    /// # Errors
    /// Where the program's own file in the trace cannot be read.
    pub(crate) fn originals(&self) -> Result<Vec<(Addr, Vec<u8>)>, TextError> {
        let mut all = Vec::new();
        for (start, text) in &self.known.dense {
            let mut bytes = vec![0; usize::try_from(text.end - start).unwrap_or(0)];
            read(text, text.offset, &mut bytes)
                .map_err(|source| TextError::Read { file: text.id, source })?;
            all.push((*start, bytes));
        }
        all.extend(self.known.patches.values().map(|patch| (patch.start, patch.original.clone())));
        all.extend(self.known.faults.iter().map(|(site, fault)| (*site, fault.original.clone())));
        Ok(all)
    }

    /// The same address space with these bytes: what is left of ours.
    pub(crate) fn put_back(&self) -> ProgramText {
        let pools = self.known.pools.iter();
        let pools = pools.map(|pool| Area {
            addr: pool.range.start,
            len: pool.range.end - pool.range.start,
            kind: AreaKind::Arena,
        });
        let known = Known {
            areas: self.known.areas.iter().copied().chain(pools).collect(),
            diverted: self.known.diverted.clone(),
            mapped: self.known.mapped.clone(),
            ..Known::default()
        };
        ProgramText { known: Arc::new(known), files: self.files.clone(), version: self.version + 1 }
    }
}
