//! What memory holds that a shadow has otherwise: found page by page, where the two may differ, put back, and
//! told by the bytes that did.

use std::{io, ops::Range, thread};

use bis_trace::{event::MemWrite, types::PAGE};
use bis_tracee::{bulk::Bulk, pagemap::PageMap};

use super::held::Since;

/// The process as it is, beside its shadow.
pub struct Sides<'a> {
    pub memory: Bulk<'a>,
    pub pages: &'a PageMap,
    pub shadow: Bulk<'a>,
    pub shadow_pages: &'a PageMap,
    /// Whether pages that the two have in common with somebody are the same.
    pub since: &'a Since,
}

/// What the bytes of both sides are read into, by one thread: used again and again, because memory that was
/// never used before costs as much as to copy there.
#[derive(Debug, Default)]
pub struct Buffers {
    now: Vec<u8>,
    then: Vec<u8>,
}

/// Pages whose state is looked at in one go.
const BATCH: u64 = 4096;

/// Bytes that are compared in one go: they stay in the processor's cache.
const COMPARED: u64 = 256 << 10;

/// So many of them are worth another thread.
const WORTH_A_THREAD: u64 = 4 << 20;

/// Words that differ, with fewer equal bytes than so many between them, are told as one piece.
const GAP: usize = 64;
const WORD: usize = 8;

/// What changes what is read of a shadow to what the program would find there.
pub type Own<'a> = &'a (dyn Fn(u64, &mut [u8]) + Sync);

impl Sides<'_> {
    /// Makes the process's memory what the shadow's is, in a range of private memory (whole pages) that both
    /// have mapped; with up to as many threads as there are buffers, each of which begins with `begin`.
    /// Gives the pieces that were different, in order.
    ///
    /// # Errors
    /// Where one of the processes is gone.
    pub fn restore(
        &self,
        range: Range<u64>,
        own: Own<'_>,
        buffers: &mut [Buffers],
        begin: &(dyn Fn() + Sync),
    ) -> io::Result<Vec<MemWrite>> {
        let parts = self.may_differ(range)?;
        let len: u64 = parts.iter().map(|part| part.end - part.start).sum();
        let wanted = usize::try_from(len / WORTH_A_THREAD).unwrap_or(usize::MAX);
        let threads = buffers.len().min(wanted).max(1);
        if threads == 1 {
            return self.restore_parts(&parts, own, buffers.first_mut().unwrap_or(&mut Buffers::default()));
        }
        let share = parts.len().div_ceil(threads);
        thread::scope(|scope| {
            let work = |share: &[Range<u64>], buffers: &mut Buffers| {
                begin();
                self.restore_parts(share, own, buffers)
            };
            let shares = parts.chunks(share).zip(buffers);
            let workers: Vec<_> =
                shares.map(|(share, buffers)| scope.spawn(move || work(share, buffers))).collect();
            let mut writes = Vec::new();
            for worker in workers {
                writes.extend(worker.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))?);
            }
            Ok(writes)
        })
    }

    /// The parts of a range that may differ, none of them long.
    fn may_differ(&self, range: Range<u64>) -> io::Result<Vec<Range<u64>>> {
        let mut parts: Vec<Range<u64>> = Vec::new();
        let mut base = range.start;
        while base < range.end {
            let end = range.end.min(base + BATCH * PAGE);
            let (now, then) = (self.pages.range(base, end)?, self.shadow_pages.range(base, end)?);
            for (page, (now, then)) in (base..).step_by(4096).zip(now.iter().zip(&then)) {
                let may_differ = match self.since.tells(page) {
                    true => now.may_have_changed() || now.is_own() != then.is_own(),
                    false => now.is_own() || then.is_own(),
                };
                match parts.last_mut() {
                    _ if !may_differ => {}
                    Some(last) if last.end == page && page - last.start < COMPARED => last.end += PAGE,
                    _ => parts.push(page..page + PAGE),
                }
            }
            base = end;
        }
        Ok(parts)
    }

    fn restore_parts(
        &self,
        parts: &[Range<u64>],
        own: Own<'_>,
        Buffers { now, then }: &mut Buffers,
    ) -> io::Result<Vec<MemWrite>> {
        let mut all = Vec::new();
        for part in parts {
            let len = usize::try_from(part.end - part.start).unwrap_or(0);
            self.memory.read_upto(part.start, len, now);
            self.shadow.read_upto(part.start, len, then);
            own(part.start, then);
            let from = all.len();
            pieces(part.start, now, then, &mut all);
            self.memory.write_all(&all[from..]).map_err(io::Error::other)?;
        }
        Ok(all)
    }
}

/// The pieces of `then` that are not as they are `now`, by whole words.
pub(super) fn pieces(addr: u64, now: &[u8], then: &[u8], writes: &mut Vec<MemWrite>) {
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
