//! Which pages of an address space are there (`/proc/PID/pagemap`): so that memory of which little is used
//! costs little to look at.

use std::{fs::File, io, os::unix::fs::FileExt};

use bis_trace::types::{Addr, PAGE, PAGE_LEN, Tid};
use linux_raw_sys::general::{PAGE_IS_PRESENT, PAGE_IS_SWAPPED, page_region, pm_scan_arg};

use crate::{proc, sys};

/// Pages asked for in one go.
const BATCH: u64 = 8192;

/// `_IOWR('f', 16, struct pm_scan_arg)`, from Linux 6.7 on.
const PAGEMAP_SCAN: u32 = 3 << 30 | (size_of::<pm_scan_arg>() as u32) << 16 | 0x66 << 8 | 16;

/// Runs of pages that a scan tells in one go.
const RUNS: usize = 256;

/// No single ioctl scans more than this: a signal that ends us is heeded in between. Where nothing is there,
/// 20 TB take a millisecond in such steps.
const STRIDE: u64 = 16 << 30;

/// Pages that are not there between two runs that are: so few are read along, which is cheaper than a call.
const GAP: u64 = 512 * PAGE;

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

/// Which pages a scan looks for: those that have all of the one categories (`PAGE_IS_*`), some of the others,
/// if any are given, and none of the last; and what is done with them (`PM_SCAN_*`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub flags: u32,
    pub all: u32,
    pub some: u32,
    pub none: u32,
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

    /// Calls `found` with the first address of each run of pages in `start..end` (whole pages) that are there
    /// and `wanted`, and the one after the run. Runs that touch may come apart.
    ///
    /// Where little is there of very much (a sanitizer reserves 20 TB), a scan says where: the kernel skips
    /// what has no page tables in it, and a map of 8 bytes for each page would take minutes. Kernels before
    /// 6.7 have no scan, and nothing else tells it cheaply: there, the map is read.
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
        let wanted = |page: Page| page.is_there() && wanted(page);
        let mut bytes = Vec::new();
        for (start, end) in self.spans_there(start, end) {
            self.read_runs((start, end), &mut bytes, wanted, &mut found)?;
        }
        Ok(())
    }

    /// Where in `start..end` pages are there: some that are not lie between them.
    pub fn spans_there(&self, start: Addr, end: Addr) -> Vec<(Addr, Addr)> {
        let all = vec![(start, end)];
        if end.saturating_since(start) <= BATCH * PAGE {
            return all;
        }
        let mut spans: Vec<(Addr, Addr)> = Vec::new();
        let there = Wanted { flags: 0, all: 0, some: PAGE_IS_PRESENT | PAGE_IS_SWAPPED, none: 0 };
        let scanned = self.scan((start, end), there, true, |from, to| match spans.last_mut() {
            Some(last) if from - last.1 <= GAP => last.1 = to,
            _ => spans.push((from, to)),
        });
        if scanned.is_ok() { spans } else { all }
    }

    /// Is what is not there skipped by [`PageMap::each_run`]? Otherwise it takes its time for each page.
    pub fn skips_holes(&self) -> bool {
        let nothing = Wanted { flags: 0, all: 0, some: PAGE_IS_PRESENT, none: 0 };
        self.scan((Addr::NULL, Addr(PAGE)), nothing, true, |_, _| {}).is_ok()
    }

    /// Goes through the pages of a range (Documentation/admin-guide/mm/pagemap.rst), and tells the runs of
    /// those that are wanted, in order, if they are to be told.
    pub(crate) fn scan(
        &self,
        (start, end): (Addr, Addr),
        wanted: Wanted,
        is_told: bool,
        mut told: impl FnMut(Addr, Addr),
    ) -> io::Result<()> {
        let mut room = [page_region { start: 0, end: 0, categories: 0 }; RUNS];
        let mut at = start;
        while at < end {
            let mut arg = pm_scan_arg {
                size: size_of::<pm_scan_arg>() as u64,
                flags: wanted.flags.into(),
                start: at.0,
                end: end.0.min(at.0.saturating_add(STRIDE)),
                walk_end: 0,
                vec: if is_told { room.as_mut_ptr() as u64 } else { 0 },
                vec_len: if is_told { RUNS as u64 } else { 0 },
                max_pages: 0,
                category_inverted: wanted.none.into(),
                category_mask: (wanted.all | wanted.none).into(),
                category_anyof_mask: wanted.some.into(),
                return_mask: wanted.all.into(),
            };
            // `vec` and `vec_len` are those of `room`, which nobody else looks at meanwhile.
            let count = sys::ask(&self.0, PAGEMAP_SCAN, &mut arg)?;
            room.iter().take(count).for_each(|run| told(Addr(run.start), Addr(run.end)));
            if arg.walk_end <= at.0 {
                return Err(io::Error::other("a scan of pages does not go on"));
            }
            at = Addr(arg.walk_end);
        }
        Ok(())
    }

    /// The runs of wanted pages in `start..end`, by the map's words for each page; `bytes` is room for these.
    fn read_runs(
        &self,
        (start, end): (Addr, Addr),
        bytes: &mut Vec<u8>,
        wanted: impl Fn(Page) -> bool,
        mut found: impl FnMut(Addr, Addr),
    ) -> io::Result<()> {
        let mut base = start;
        while base < end {
            let count = ((end - base) / PAGE).min(BATCH);
            if count == 0 {
                break;
            }
            bytes.resize(usize::try_from(count * 8).unwrap_or(0), 0);
            self.0.read_exact_at(bytes, base.page_number() * 8)?;
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

    /// A new mapping of our own of 1 TB, of which nothing is there.
    fn reserved() -> (Addr, u64) {
        const LEN: usize = 1 << 40;
        // SAFETY: a new mapping, which nobody else knows; it stays.
        let at = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            let at = libc::mmap(std::ptr::null_mut(), LEN, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
            assert_ne!(at, libc::MAP_FAILED);
            libc::madvise(at, LEN, libc::MADV_NOHUGEPAGE);
            at
        };
        (Addr(at as u64), LEN as u64)
    }

    #[test]
    fn what_is_there_of_very_much_is_found_at_once() {
        let me = PageMap::open(crate::ours::thread_id()).unwrap();
        if !me.skips_holes() {
            println!("ignored: this kernel has no PAGEMAP_SCAN");
            return;
        }
        let (start, len) = reserved();
        let end = start + len;
        let runs = |wanted: fn(Page) -> bool| {
            let mut runs = Vec::new();
            me.each_run(start, end, wanted, |from, to| {
                runs.push(((from - start) / PAGE, (to - from) / PAGE));
            })
            .unwrap();
            runs
        };
        let began = std::time::Instant::now();
        assert_eq!(runs(|_| true), []);
        // Runs that are read along, one across the places where scans and the reading of maps begin anew,
        // and more than a scan tells in one go.
        let stride = STRIDE / PAGE;
        let mut pages = vec![0, 1, 3, 3 + GAP / PAGE, stride - 1, stride, len / PAGE - 1];
        pages.extend((0..2 * RUNS as u64).map(|at| 3 * stride + at * 2 * GAP / PAGE));
        pages.sort_unstable();
        let write = |page: &u64| {
            // SAFETY: within the mapping above, which is ours alone.
            unsafe { ((start + page * PAGE).0 as *mut u8).write(1) }
        };
        pages.iter().for_each(write);
        let flat = |runs: Vec<(u64, u64)>| -> Vec<u64> {
            runs.into_iter().flat_map(|(at, count)| at..at + count).collect()
        };
        assert_eq!(flat(runs(|_| true)), pages);
        assert_eq!(flat(runs(Page::is_own)), pages);
        assert_eq!(runs(|page| !page.is_there()), []);
        assert!(began.elapsed().as_secs() < 10, "{:?}", began.elapsed());
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
