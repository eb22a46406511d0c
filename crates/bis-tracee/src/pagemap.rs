//! Which pages of an address space are there (`/proc/PID/pagemap`): so that memory of which little is used
//! costs little to look at.

use crate::proc;
use std::{fs::File, io, os::unix::fs::FileExt};

use bis_trace::types::{Addr, PAGE, PAGE_LEN, Tid};

/// Pages asked for in one go.
const BATCH: u64 = 8192;

/// What the kernel says of one page (Documentation/admin-guide/mm/pagemap.rst).
#[derive(Clone, Copy, Debug)]
pub struct Page(u64);

impl Page {
    /// It is in memory or swapped out. A page of a file that is not there may have content all the same.
    pub fn is_there(self) -> bool {
        self.0 & (3 << 62) != 0
    }

    /// It is there, and belongs to this address space: not to a file, nor to memory that others share.
    pub fn is_own(self) -> bool {
        self.is_there() && self.0 & (1 << 61) == 0
    }

    /// It has been written to since the kernel was told to forget that (`CONFIG_MEM_SOFT_DIRTY`).
    pub fn is_soft_dirty(self) -> bool {
        self.0 & 1 << 55 != 0
    }

    /// It is [its own](Page::is_own), and no copy of the address space shows the same memory any more, or it
    /// is swapped out, where that is not known: since the last copy was made, it may have been written to.
    pub fn may_have_changed(self) -> bool {
        self.is_own() && self.0 & (1 << 56 | 1 << 62) != 0
    }
}

/// The page map of a task.
#[derive(Debug)]
pub struct PageMap(File);

impl PageMap {
    /// # Errors
    /// Where the task is gone.
    pub fn open(tid: Tid) -> io::Result<PageMap> {
        File::open(proc::path(tid, "pagemap")).map(PageMap)
    }

    /// What it says of the pages of `start..end` (whole pages), in order.
    ///
    /// # Errors
    /// Where the map cannot be read.
    pub fn range(&self, start: Addr, end: Addr) -> io::Result<Vec<Page>> {
        let count = end.saturating_since(start) / PAGE;
        let mut bytes = vec![0; usize::try_from(count * 8).unwrap_or(0)];
        self.0.read_exact_at(&mut bytes, start.page_number() * 8)?;
        Ok(bytes.as_chunks::<8>().0.iter().map(|word| Page(u64::from_le_bytes(*word))).collect())
    }

    /// Calls `found` with the first address of each run of pages in `start..end` (whole pages) that are
    /// `wanted`, and the one after the run. Runs that touch may come apart.
    ///
    /// # Errors
    /// Where the map cannot be read.
    pub fn each_run(
        &self,
        start: Addr,
        end: Addr,
        wanted: impl Fn(Page) -> bool,
        mut found: impl FnMut(Addr, Addr),
    ) -> io::Result<()> {
        let mut bytes = Vec::new();
        let mut base = start;
        while base < end {
            let count = ((end - base) / PAGE).min(BATCH);
            if count == 0 {
                break;
            }
            bytes.resize(usize::try_from(count * 8).unwrap_or(0), 0);
            self.0.read_exact_at(&mut bytes, base.page_number() * 8)?;
            let mut run = None;
            let words = bytes.as_chunks::<8>().0.iter().map(|word| wanted(Page(u64::from_le_bytes(*word))));
            for (at, is_wanted) in base.and_behind(PAGE_LEN).zip(words.chain([false])) {
                match (run, is_wanted) {
                    (None, true) => run = Some(at),
                    (Some(from), false) => {
                        found(from, at);
                        run = None;
                    }
                    _ => {}
                }
            }
            base += count * PAGE;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pages_that_were_touched_are_there() {
        const LEN: usize = 1 << 30;
        let file = crate::sys::memfd(c"pages").unwrap();
        let file = File::from(file);
        file.set_len(LEN as u64).unwrap();
        let memory = crate::sys::map_file(&file).unwrap().bytes();
        assert_eq!(memory[5 * 4096] | memory[6 * 4096] | memory[LEN - 1], 0);
        let start = Addr(memory.as_ptr() as u64);
        let end = start + LEN as u64;
        let me = PageMap::open(crate::ours::thread_id()).unwrap();
        let mut runs = Vec::new();
        me.each_run(start, end, Page::is_there, |from, to| runs.push((from - start, to - start))).unwrap();
        // The kernel may map what lies around a page as well.
        let there = |at: u64| runs.iter().any(|(from, to)| *from <= at && at < *to);
        assert!(there(5 * PAGE) && there(6 * PAGE) && there(LEN as u64 - PAGE), "{runs:?}");
        assert!(!there(LEN as u64 / 2));
        me.each_run(start, end, Page::is_own, |from, _| panic!("{from:#x} is the file's")).unwrap();
    }

    #[test]
    fn what_is_forgotten_reads_the_same() {
        const LEN: usize = 64 << 12;
        let file = File::from(crate::sys::memfd(c"forgotten").unwrap());
        std::io::Write::write_all(&mut &file, &(0..LEN).map(|at| (at >> 12) as u8 + 1).collect::<Vec<_>>())
            .unwrap();
        let mapped = crate::sys::map_file(&file).unwrap();
        let bytes = mapped.bytes();
        let start = Addr(bytes.as_ptr() as u64);
        let me = PageMap::open(crate::ours::thread_id()).unwrap();
        let there = || {
            let mut count = 0;
            me.each_run(start, start + LEN as u64, Page::is_there, |from, to| count += (to - from) / PAGE)
                .unwrap();
            count
        };
        let sum = || bytes.iter().map(|byte| u64::from(*byte)).sum::<u64>();
        let all = sum();
        assert_eq!(there(), 64);
        // Only whole pages, and only of the file.
        mapped.forget(&bytes[1..3 * 4096 - 1]);
        assert_eq!(there(), 63);
        mapped.forget(&[0; 3 * 4096]);
        assert_eq!(there(), 63);
        mapped.forget(bytes);
        assert_eq!(there(), 0);
        assert_eq!(sum(), all);
    }
}
