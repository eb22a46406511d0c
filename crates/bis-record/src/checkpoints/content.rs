//! What memory holds that a shadow has otherwise: found page by page, where the two may differ, put back, and
//! told by the bytes that did.

use std::{io, mem, ops::Range, thread};

use bis_trace::{
    event::MemWrite,
    types::{Addr, PAGE, PAGE_LEN},
};
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
pub(super) const COMPARED: u64 = 256 << 10;

/// Bytes in pages that differ that are worth another thread, and bytes in pages whose state is looked at.
const WORTH_A_THREAD: u64 = 4 << 20;
const WORTH_A_LOOK: u64 = 64 << 20;

/// Words that differ, with fewer equal bytes than so many between them, are told as one piece.
pub(super) const GAP: usize = 64;
const WORD: usize = 8;
const BLOCK: usize = 64;

/// What changes what is read of a shadow to what the program would find there.
pub type Own<'a> = &'a (dyn Fn(Addr, &mut [u8]) + Sync);

/// Does this work in as many threads as there are shares. The results, in order.
fn in_threads<T: Send, R: Send>(
    shares: Vec<T>,
    begin: &(dyn Fn() + Sync),
    work: impl Fn(T) -> io::Result<Vec<R>> + Sync,
) -> io::Result<Vec<R>> {
    let (begin, work) = (&begin, &work);
    thread::scope(|scope| {
        let run = |share: T| {
            begin();
            work(share)
        };
        let workers: Vec<_> = shares.into_iter().map(|share| scope.spawn(move || run(share))).collect();
        let mut all = Vec::new();
        for worker in workers {
            all.extend(worker.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))?);
        }
        Ok(all)
    })
}

/// How many threads of so many are worth it for this much work.
fn worth(threads: usize, len: u64, each: u64) -> usize {
    threads.min(usize::try_from(len / each).unwrap_or(usize::MAX)).max(1)
}

pub(super) fn len_of(parts: &[Range<Addr>]) -> u64 {
    parts.iter().map(|part| part.end - part.start).sum()
}

/// Ranges of whole pages in so many shares, in order, which are equally long but for a page.
fn shares(ranges: &[Range<Addr>], count: usize) -> Vec<Vec<Range<Addr>>> {
    let each = len_of(ranges).div_ceil(count as u64).next_multiple_of(PAGE).max(PAGE);
    let (mut shares, mut share, mut room) = (Vec::new(), Vec::new(), each);
    for range in ranges {
        let mut start = range.start;
        while start < range.end {
            let end = range.end.min(start + room);
            share.push(start..end);
            room -= end - start;
            start = end;
            if room == 0 {
                shares.push(mem::take(&mut share));
                room = each;
            }
        }
    }
    shares.extend(Some(share).filter(|share| !share.is_empty()));
    shares
}

/// The parts, in runs of about this many bytes.
pub fn in_runs(parts: &[Range<Addr>], len: u64) -> Vec<&[Range<Addr>]> {
    let (mut runs, mut rest) = (Vec::new(), parts);
    while !rest.is_empty() {
        let mut held = 0;
        let is_within = |part: &&Range<Addr>| {
            held += part.end - part.start;
            held <= len
        };
        let count = rest.iter().take_while(is_within).count().max(1);
        let (run, behind) = rest.split_at(count);
        runs.push(run);
        rest = behind;
    }
    runs
}

impl Sides<'_> {
    /// The parts of these ranges of private memory (whole pages), which both have mapped, that may differ,
    /// none of them long; looked at by up to so many threads, each of which begins with `begin`.
    ///
    /// # Errors
    /// Where one of the processes is gone.
    pub fn parts(
        &self,
        ranges: &[Range<Addr>],
        threads: usize,
        begin: &(dyn Fn() + Sync),
    ) -> io::Result<Vec<Range<Addr>>> {
        let work = |ranges: Vec<Range<Addr>>| {
            let mut parts = Vec::new();
            ranges.into_iter().try_for_each(|range| self.add_differing(range, &mut parts))?;
            Ok(parts)
        };
        match worth(threads, len_of(ranges), WORTH_A_LOOK) {
            1 => work(ranges.to_vec()),
            threads => in_threads(shares(ranges, threads), begin, work),
        }
    }

    /// Makes the process's memory what the shadow's is, in such parts; with up to as many threads as there
    /// are buffers. Gives the pieces that were different, in order.
    ///
    /// # Errors
    /// Where one of the processes is gone.
    pub fn restore(
        &self,
        parts: &[Range<Addr>],
        own: Own<'_>,
        buffers: &mut [Buffers],
        begin: &(dyn Fn() + Sync),
    ) -> io::Result<Vec<MemWrite>> {
        match worth(buffers.len(), len_of(parts), WORTH_A_THREAD) {
            1 => self.restore_parts(parts, own, buffers.first_mut().unwrap_or(&mut Buffers::default())),
            threads => {
                let shares = parts.chunks(parts.len().div_ceil(threads)).zip(buffers).collect();
                in_threads(shares, begin, |(share, buffers)| self.restore_parts(share, own, buffers))
            }
        }
    }

    /// Adds the parts of a range that may differ: none of them where neither has pages.
    fn add_differing(&self, range: Range<Addr>, parts: &mut Vec<Range<Addr>>) -> io::Result<()> {
        let mut spans = self.pages.spans_there(range.start, range.end);
        spans.extend(self.shadow_pages.spans_there(range.start, range.end));
        spans.sort_unstable();
        let mut done = range.start;
        for (start, end) in spans {
            self.add_differing_within(start.max(done)..end, parts)?;
            done = done.max(end);
        }
        Ok(())
    }

    fn add_differing_within(&self, range: Range<Addr>, parts: &mut Vec<Range<Addr>>) -> io::Result<()> {
        let mut base = range.start;
        while base < range.end {
            let end = range.end.min(base + BATCH * PAGE);
            let now = self.pages.range(base, end)?;
            let tells: Vec<bool> =
                Addr::steps(base..end, PAGE_LEN).map(|page| self.since.tells(page)).collect();
            // A page that the process has, and has in common, is the shadow's: the shadow is asked only of
            // the others.
            let is_known = now.iter().zip(&tells).all(|(now, tells)| *tells && now.is_own());
            let then = if is_known { Vec::new() } else { self.shadow_pages.range(base, end)? };
            for (index, (now, tells)) in now.iter().zip(tells).enumerate() {
                let is_then = then.get(index).map_or(now.is_own(), |then| then.is_own());
                let may_differ = match tells {
                    true => now.may_have_changed() || now.is_own() != is_then,
                    false => now.is_own() || is_then,
                };
                let page = base + index as u64 * PAGE;
                match parts.last_mut() {
                    _ if !may_differ => {}
                    Some(last) if last.end == page && page - last.start < COMPARED => last.end += PAGE,
                    _ => parts.push(page..page + PAGE),
                }
            }
            base = end;
        }
        Ok(())
    }

    fn restore_parts(
        &self,
        parts: &[Range<Addr>],
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
pub(super) fn pieces(addr: Addr, now: &[u8], then: &[u8], writes: &mut Vec<MemWrite>) {
    let page = usize::try_from(PAGE).unwrap_or(1);
    for (at, (now, then)) in (0..).step_by(page).zip(now.chunks(page).zip(then.chunks(page))) {
        if now == then {
            continue;
        }
        // Whole blocks first: to compare is a call, which takes longer than a word.
        let blocks =
            now.chunks(BLOCK).zip(then.chunks(BLOCK)).enumerate().filter(|(_, (now, then))| now != then);
        let mut differ = blocks
            .flat_map(|(block, (now, then))| {
                let words = now.chunks(WORD).zip(then.chunks(WORD)).enumerate();
                let differ = words.filter(|(_, (now, then))| now != then);
                differ.map(move |(word, _)| block * BLOCK + word * WORD)
            })
            .peekable();
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
        pieces(Addr(0x7000), &now, &then, &mut writes);
        let write = |addr, data: &[u8]| MemWrite { addr, data: data.to_vec() };
        let near = [0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
        let (far, last) = ([3, 0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 4, 0, 0]);
        assert_eq!(
            writes,
            [write(Addr(0x7008), &near), write(Addr(0x7fa0), &far), write(Addr(0x9000), &last)]
        );
        pieces(Addr(0x7000), &now, &now.clone(), &mut writes);
        assert_eq!(writes.len(), 3);
    }

    #[test]
    fn one_long_range_is_shared_too() {
        let range = |from: u64, to: u64| Addr::range(from << 12..to << 12);
        let ranges = [range(0, 1), range(10, 20), range(30, 34)];
        let shared =
            [vec![range(0, 1), range(10, 14)], vec![range(14, 19)], vec![range(19, 20), range(30, 34)]];
        assert_eq!(shares(&ranges, 3), shared);
        assert_eq!(shares(&ranges, 1), [ranges.to_vec()]);
        assert_eq!(shares(&ranges[..1], 4), [ranges[..1].to_vec()]);
        assert_eq!(shares(&[], 2), [[]; 0]);
    }

    #[test]
    fn parts_come_in_runs_of_a_length() {
        let part = |from: u64, to: u64| Addr::range(from << 12..to << 12);
        let parts = [part(0, 2), part(3, 4), part(5, 9), part(20, 29), part(30, 31)];
        let runs = in_runs(&parts, 4 << 12);
        assert_eq!(runs, [&parts[..2], &parts[2..3], &parts[3..4], &parts[4..]]);
        assert_eq!(in_runs(&[], 4 << 12), [[]; 0]);
    }
}
