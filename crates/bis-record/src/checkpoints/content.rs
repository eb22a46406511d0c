//! What memory holds that a shadow has otherwise: found page by page, where the two may differ, and told by
//! the bytes that do.

use std::{io, ops::Range};

use bis_trace::{event::MemWrite, types::PAGE};
use bis_tracee::{Memory, pagemap::PageMap, shadow::Shadow};

use super::held::Since;

/// The process as it is, beside its shadow.
pub struct Sides<'a> {
    pub memory: &'a Memory,
    pub pages: &'a PageMap,
    pub shadow: &'a Shadow,
    pub shadow_pages: &'a PageMap,
    /// Whether pages that the two have in common with somebody are the same.
    pub since: &'a Since,
}

/// Pages that are compared in one go.
const BATCH: u64 = 256;

/// Words that differ, with fewer equal bytes than so many between them, are told as one piece.
const GAP: usize = 64;
const WORD: usize = 8;

impl Sides<'_> {
    /// The pieces in which the shadow's bytes are not the process's, in a range of private memory (whole
    /// pages) that both have mapped. `own` changes what is read of the shadow to what the program would find
    /// there.
    ///
    /// # Errors
    /// Where one of the processes is gone.
    pub fn differences(
        &self,
        range: Range<u64>,
        own: &dyn Fn(u64, &mut [u8]),
        writes: &mut Vec<MemWrite>,
    ) -> io::Result<()> {
        let mut base = range.start;
        while base < range.end {
            let end = range.end.min(base + BATCH * PAGE);
            let (now, then) = (self.pages.range(base, end)?, self.shadow_pages.range(base, end)?);
            let pages = (base..).step_by(4096).zip(now.iter().zip(&then));
            let may_differ = pages.map(|(page, (now, then))| match self.since.tells(page) {
                true => now.may_have_changed() || now.is_own() != then.is_own(),
                false => now.is_own() || then.is_own(),
            });
            let mut run = None;
            for (page, may_differ) in (base..).step_by(4096).zip(may_differ.chain([false])) {
                match (run, may_differ) {
                    (None, true) => run = Some(page),
                    (Some(from), false) => {
                        self.compare(from, page - from, own, writes);
                        run = None;
                    }
                    _ => {}
                }
            }
            base = end;
        }
        Ok(())
    }

    fn compare(&self, addr: u64, len: u64, own: &dyn Fn(u64, &mut [u8]), writes: &mut Vec<MemWrite>) {
        let len = usize::try_from(len).unwrap_or(0);
        let (now, mut then) = (self.memory.read_upto(addr, len), self.shadow.memory().read_upto(addr, len));
        own(addr, &mut then);
        pieces(addr, &now, &then, writes);
    }
}

/// The pieces of `then` that are not as they are `now`, by whole words.
fn pieces(addr: u64, now: &[u8], then: &[u8], writes: &mut Vec<MemWrite>) {
    let page = usize::try_from(PAGE).unwrap_or(1);
    for (at, (now, then)) in (0..).step_by(page).zip(now.chunks(page).zip(then.chunks(page))) {
        if now == then {
            continue;
        }
        let words = now.chunks(WORD).zip(then.chunks(WORD)).enumerate();
        let mut differ =
            words.filter(|(_, (now, then))| now != then).map(|(index, _)| index * WORD).peekable();
        while let Some(from) = differ.next() {
            let mut to = from + WORD;
            while let Some(next) = differ.next_if(|next| next - to < GAP) {
                to = next + WORD;
            }
            let data = then.get(from..to.min(then.len())).unwrap_or_default();
            writes.push(MemWrite { addr: addr + (at + from) as u64, data: data.to_vec() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_is_told_and_not_word_by_word() {
        let now = vec![0; 3 * 4096];
        let mut then = now.clone();
        (then[10], then[23], then[4000], then[2 * 4096 + 5]) = (1, 2, 3, 4);
        let mut writes = Vec::new();
        pieces(0x7000, &now, &then, &mut writes);
        let write = |addr, data: &[u8]| MemWrite { addr, data: data.to_vec() };
        let near = [0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
        let (far, last) = ([3, 0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 4, 0, 0]);
        assert_eq!(writes, [write(0x7008, &near), write(0x7fa0, &far), write(0x9000, &last)]);
        pieces(0x7000, &now, &now.clone(), &mut writes);
        assert_eq!(writes.len(), 3);
    }
}
