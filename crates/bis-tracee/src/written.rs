//! Which pages of an address space are written to while its tasks run.
//!
//! The kernel keeps account of that where it is asked to protect pages and to take the protection away by
//! itself at the first write. Either way, the first write to each page is a fault.
//!
//! - Userfaultfd with `UFFD_FEATURE_WP_ASYNC` (Linux 6.7) does it for the ranges that are registered with it,
//!   and `PAGEMAP_SCAN` tells and begins anew in one go (Documentation/admin-guide/mm/pagemap.rst). The
//!   account is a process's of its own memory: a descriptor for it is made by a call in the name of a task,
//!   and taken over. As long as it is open, the kernel keeps mappings apart that would be one. Only pages
//!   that are there are protected ([`NEW`]).
//! - Soft-dirty bits are there in most distributions' kernels (`CONFIG_MEM_SOFT_DIRTY`), and in containers
//!   that forbid userfaultfd (Documentation/admin-guide/mm/soft-dirty.rst). To begin anew, the kernel goes
//!   through the whole address space.

use std::{
    fs::File,
    io::{self, Write as _},
    sync::OnceLock,
};

use bis_trace::types::{Addr, Fd, PAGE, PAGE_LEN, Tid};
use linux_raw_sys::{
    general::{
        PAGE_IS_FILE, PAGE_IS_PFNZERO, PAGE_IS_PRESENT, PAGE_IS_SWAPPED, PAGE_IS_WRITTEN,
        PM_SCAN_CHECK_WPASYNC, PM_SCAN_WP_MATCHING, UFFD_API, UFFD_FEATURE_WP_ASYNC, UFFD_USER_MODE_ONLY,
        UFFDIO_REGISTER_MODE_WP, uffdio_api, uffdio_range, uffdio_register,
    },
    ioctl::{UFFDIO_API, UFFDIO_REGISTER},
};

use crate::{
    Result, Stopped, ours,
    pagemap::{Page, PageMap, Wanted},
    proc,
    remote::Remote,
    sys,
};

/// What has been written to since it was protected, which it is once more. That is a page that is there and
/// not protected. To the kernel, a page that is not there has been written to as well, and to protect it, it
/// makes page tables for it: 2 MB for each GB, 40 GB for what a sanitizer reserves. Where such a page is
/// written to later, it is there, and it is not protected. What is only read is the page of zeros then, or
/// the file's: a private mapping's page that has been written to is neither.
const NEW: Wanted = Wanted {
    flags: PM_SCAN_WP_MATCHING | PM_SCAN_CHECK_WPASYNC,
    all: PAGE_IS_WRITTEN,
    some: PAGE_IS_PRESENT | PAGE_IS_SWAPPED,
    none: PAGE_IS_FILE | PAGE_IS_PFNZERO,
};

/// Of so much, soft-dirty bits keep account where each page must be asked for: 32 MB are read for it, each
/// time.
const ASKED_MAX: u64 = 16 << 30;

/// The kernel may give memory out in pages of this length (transparent huge pages), and keeps account of such
/// a page as a whole.
const HUGE: u64 = 2 << 20;

/// So many huge pages are cut into small ones at a time.
const CUT_MAX: usize = 32;

/// The account of writes to some ranges of an address space. It ends when this is dropped.
#[derive(Debug)]
pub struct Writes {
    account: Account,
    ranges: Vec<(Addr, Addr)>,
    is_whole: bool,
}

/// What keeps it.
#[derive(Debug)]
enum Account {
    Faults {
        /// Keeps the ranges registered.
        _faults: File,
        pages: PageMap,
    },
    SoftDirty {
        clear: File,
        pages: PageMap,
    },
}

impl Writes {
    /// Begins: from now on, writes to these ranges (start, end; each a part of one private mapping that may
    /// be written to) are kept account of. `pid` is the process of the stopped task. None: this kernel has no
    /// such account, or does not give it here.
    ///
    /// # Errors
    /// As [`Remote::call`].
    pub fn begin(slot: &mut Option<Stopped>, pid: Tid, ranges: Vec<(Addr, Addr)>) -> Result<Option<Writes>> {
        if let Some(faults) = take_faults(slot, pid)?
            && let Ok(writes) = Writes::by_faults(faults, pid, &ranges)
        {
            return Ok(Some(writes));
        }
        Ok(if has_soft_dirty() { Writes::by_soft_dirty(pid, ranges).ok() } else { None })
    }

    /// Is account kept of all that was asked for?
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// What of the kernel keeps the account.
    pub fn teller(&self) -> &'static str {
        match self.account {
            Account::Faults { .. } => "userfaultfd",
            Account::SoftDirty { .. } => "soft-dirty bits",
        }
    }

    fn by_faults(faults: File, pid: Tid, ranges: &[(Addr, Addr)]) -> io::Result<Writes> {
        let mut api = uffdio_api { api: UFFD_API.into(), features: UFFD_FEATURE_WP_ASYNC.into(), ioctls: 0 };
        sys::ask(&faults, UFFDIO_API, &mut api)?;
        let pages = PageMap::open(pid)?;
        let register = |&(start, end): &(Addr, Addr)| {
            let range = uffdio_range { start: start.0, len: end - start };
            let mut register = uffdio_register { range, mode: UFFDIO_REGISTER_MODE_WP.into(), ioctls: 0 };
            sys::ask(&faults, UFFDIO_REGISTER, &mut register).is_ok()
        };
        let asked = ranges.len();
        let ranges: Vec<_> = ranges.iter().copied().filter(register).collect();
        let is_whole = ranges.len() == asked;
        for range in &ranges {
            pages.scan(*range, NEW, false, |_, _| {})?;
        }
        Ok(Writes { account: Account::Faults { _faults: faults, pages }, ranges, is_whole })
    }

    fn by_soft_dirty(pid: Tid, mut ranges: Vec<(Addr, Addr)>) -> io::Result<Writes> {
        let clear = File::options().write(true).open(proc::path(pid, "clear_refs"))?;
        clear_soft_dirty(&clear)?;
        let (pages, asked) = (PageMap::open(pid)?, ranges.len());
        if !pages.skips_holes() {
            leave_out_large(&mut ranges, ASKED_MAX);
        }
        let is_whole = ranges.len() == asked;
        Ok(Writes { account: Account::SoftDirty { clear, pages }, ranges, is_whole })
    }

    /// What has been written to since the last time, or the begin: ranges of whole pages, in order; and
    /// whether the next time may say it more exactly, because huge pages are in them, which were told as
    /// wholes and have been cut into small ones now.
    ///
    /// # Errors
    /// Where the address space is gone, or a range is not what it was.
    pub fn since_last(&mut self) -> io::Result<(Vec<(Addr, Addr)>, bool)> {
        let (mut found, mut cut) = (Vec::new(), false);
        match &self.account {
            Account::Faults { pages, .. } => {
                for range in &self.ranges {
                    pages.scan(*range, NEW, true, |from, to| found.push((from, to)))?;
                }
                for huge in found.iter().flat_map(huge_pages).take(CUT_MAX) {
                    // To protect a part of a huge page, the kernel cuts it.
                    pages.scan((huge, huge + HUGE / 2), NEW, false, |_, _| {})?;
                    cut = true;
                }
            }
            Account::SoftDirty { clear, pages } => {
                for (start, end) in &self.ranges {
                    pages.each_run(*start, *end, Page::is_soft_dirty, |from, to| found.push((from, to)))?;
                }
                clear_soft_dirty(clear)?;
            }
        }
        Ok((found, cut))
    }
}

/// A userfaultfd of the stopped task's process, as ours. None: it gets none.
fn take_faults(slot: &mut Option<Stopped>, pid: Tid) -> Result<Option<File>> {
    let mut remote = Remote::new(slot)?;
    let flags = u64::from(libc::O_CLOEXEC.cast_unsigned() | UFFD_USER_MODE_ONLY);
    let made = remote.call(libc::SYS_userfaultfd, [flags, 0, 0, 0, 0, 0])?;
    let taken = match i32::try_from(made) {
        Ok(fd) if fd >= 0 => {
            let taken = sys::take_fd(pid, Fd(fd)).ok();
            remote.must("close a descriptor", libc::SYS_close, [made.cast_unsigned(), 0, 0, 0, 0, 0])?;
            taken
        }
        _ => None,
    };
    remote.finish()?;
    Ok(taken)
}

/// Begins the account anew.
fn clear_soft_dirty(mut clear: &File) -> io::Result<()> {
    clear.write_all(b"4")
}

/// Leaves out the ranges which, with those in front of them, are longer than this.
fn leave_out_large(ranges: &mut Vec<(Addr, Addr)>, most: u64) {
    let mut room = most;
    ranges.retain(|(start, end)| {
        let rest = room.checked_sub(*end - *start);
        room = rest.unwrap_or(room);
        rest.is_some()
    });
}

/// Does this kernel keep soft-dirty bits? Then what is new is dirty.
fn has_soft_dirty() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| {
        let page = vec![1_u8; 2 * PAGE_LEN];
        let start = Addr(page.as_ptr() as u64).page_ceil();
        let pages = PageMap::open(ours::process_id()).and_then(|pages| pages.range(start, start + PAGE));
        pages.is_ok_and(|pages| pages.into_iter().all(Page::is_soft_dirty))
    })
}

/// The ranges that may be huge pages within a range of pages.
fn huge_pages((start, end): &(Addr, Addr)) -> impl Iterator<Item = Addr> + use<> {
    let end = *end;
    let first = Addr(start.0.next_multiple_of(HUGE));
    (0..).map(move |number| first + number * HUGE).take_while(move |huge| *huge + HUGE <= end)
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use super::*;

    /// Writes of our own to memory of our own. (In a debugger's place, the descriptor would be the task's.)
    fn sees_our_writes(begin: impl Fn(Vec<(Addr, Addr)>) -> io::Result<Writes>) {
        const PAGES: usize = 600;
        // So much is a mapping of its own.
        let mut memory = vec![0_u8; (PAGES + 1) * PAGE_LEN];
        let first = Addr(memory.as_ptr() as u64);
        let start = first.page_ceil();
        let memory = &mut memory[usize::try_from(start - first).unwrap()..];
        memory[..500 * PAGE_LEN].fill(1);
        let mut writes = begin(vec![(start, start + (PAGES * PAGE_LEN) as u64)]).unwrap();
        let mut seen = || -> Vec<u64> {
            let (pages, _) = writes.since_last().unwrap();
            let pages = pages.into_iter().flat_map(|(from, to)| Addr::steps(from..to, PAGE_LEN));
            pages.map(|page| (page - start) / PAGE).collect()
        };
        assert_eq!(seen(), []);
        memory[3 * PAGE_LEN] = 2;
        memory[4 * PAGE_LEN + 17] = 2;
        memory[499 * PAGE_LEN] = 2;
        // One that was not there.
        memory[550 * PAGE_LEN] = 2;
        assert_eq!(seen(), [3, 4, 499, 550]);
        memory[3 * PAGE_LEN] = 3;
        assert_eq!(seen(), [3]);
        // More runs than are told in one go.
        (0..PAGES).step_by(2).for_each(|page| memory[page * PAGE_LEN] = 4);
        assert_eq!(seen(), (0..PAGES as u64).step_by(2).collect::<Vec<_>>());
        assert_eq!(seen(), []);
    }

    /// A descriptor of our own memory.
    fn made() -> io::Result<File> {
        use std::os::fd::FromRawFd;
        let flags = libc::O_CLOEXEC | UFFD_USER_MODE_ONLY.cast_signed();
        // SAFETY: a plain number; a descriptor that the call makes is new and ours.
        unsafe {
            match libc::syscall(libc::SYS_userfaultfd, flags) {
                -1 => Err(io::Error::last_os_error()),
                fd => Ok(File::from_raw_fd(i32::try_from(fd).unwrap())),
            }
        }
    }

    #[test]
    fn of_very_long_ranges_the_shorter_ones_are_kept() {
        let of = |start: u64, len: u64| (Addr(start * PAGE), Addr((start + len) * PAGE));
        let mut ranges = vec![of(0, 2), of(10, 100), of(200, 3), of(300, 1)];
        leave_out_large(&mut ranges, 5 * PAGE);
        assert_eq!(ranges, [of(0, 2), of(200, 3)]);
    }

    #[test]
    fn huge_pages_lie_wholly_within() {
        let of = |start, end| huge_pages(&(Addr(start), Addr(end))).map(|huge| huge.0).collect::<Vec<_>>();
        assert_eq!(of(HUGE, 3 * HUGE), [HUGE, 2 * HUGE]);
        assert_eq!(of(HUGE - PAGE, 2 * HUGE + PAGE), [HUGE]);
        assert_eq!(of(HUGE + PAGE, 3 * HUGE - PAGE), []);
    }

    #[test]
    fn a_huge_page_is_told_exactly_when_it_has_been_cut() {
        let len = usize::try_from(4 * HUGE).unwrap();
        // SAFETY: a new mapping of our own, which nobody else knows; it stays.
        let memory = unsafe {
            let (prot, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            let at = libc::mmap(ptr::null_mut(), len, prot, flags, -1, 0);
            assert_ne!(at, libc::MAP_FAILED);
            libc::madvise(at, len, libc::MADV_HUGEPAGE);
            std::slice::from_raw_parts_mut(at.cast::<u8>(), len)
        };
        memory.fill(1);
        let start = Addr(memory.as_ptr() as u64);
        let range = vec![(start, start + len as u64)];
        let Ok(mut writes) = made().and_then(|faults| Writes::by_faults(faults, ours::process_id(), &range))
        else {
            println!("ignored: this kernel has no asynchronous write protection here");
            return;
        };
        let touched = start.0.next_multiple_of(HUGE) + 5 * PAGE;
        let mut write = || {
            memory[usize::try_from(touched - start.0).unwrap()] += 1;
            writes.since_last().unwrap()
        };
        let exactly = vec![(Addr(touched), Addr(touched + PAGE))];
        let (told, is_cut) = write();
        assert!(is_cut || told == exactly, "told {told:?}");
        assert_eq!(write(), (exactly, false));
    }

    /// What our page tables take, KB.
    fn page_tables() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmPTE:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// What of very much memory is written to for the first time, without page tables for all the rest.
    fn sees_writes_to_reserved(begin: impl Fn(Vec<(Addr, Addr)>) -> io::Result<Writes>) {
        const LEN: usize = 64 << 30;
        // SAFETY: a new mapping of our own, which nobody else knows; it stays.
        let memory = unsafe {
            let (prot, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            let at = libc::mmap(ptr::null_mut(), LEN, prot, flags | libc::MAP_NORESERVE, -1, 0);
            assert_ne!(at, libc::MAP_FAILED);
            libc::madvise(at, LEN, libc::MADV_NOHUGEPAGE);
            std::slice::from_raw_parts_mut(at.cast::<u8>(), LEN)
        };
        let start = Addr(memory.as_ptr() as u64);
        memory[7 * PAGE_LEN] = 1;
        let before = page_tables();
        let mut writes = begin(vec![(start, start + LEN as u64)]).unwrap();
        let mut seen = || -> Vec<usize> {
            let (pages, _) = writes.since_last().unwrap();
            let pages = pages.into_iter().flat_map(|(from, to)| Addr::steps(from..to, PAGE_LEN));
            pages.map(|page| usize::try_from(page - start).unwrap()).collect()
        };
        assert_eq!(seen(), []);
        // Beside what is there; where the kernel has no page table; across ranges that are scanned one after
        // the other; and at the end.
        let (far, last) = (40 << 30, LEN - PAGE_LEN);
        let pages = [8 * PAGE_LEN, (16 << 30) - PAGE_LEN, 16 << 30, far, last];
        pages.iter().for_each(|page| memory[*page] = 2);
        assert_eq!(seen(), pages);
        assert_eq!(seen(), []);
        // What is only read is not told, be it in the first page of a table.
        assert_eq!(memory[far + PAGE_LEN] | memory[50 << 30] | memory[9 * PAGE_LEN], 0);
        assert_eq!(seen(), []);
        memory[50 << 30] = 1;
        memory[far] = 3;
        assert_eq!(seen(), [far, 50 << 30]);
        assert_eq!(seen(), []);
        drop(writes);
        assert!(page_tables() < before + 4096, "{before} KB, then {} KB", page_tables());
    }

    #[test]
    fn writes_are_seen_by_faults() {
        let me = ours::process_id();
        let is_there = made().and_then(|faults| Writes::by_faults(faults, me, &[]));
        match is_there {
            Ok(_) => {
                sees_our_writes(|ranges| Writes::by_faults(made()?, me, &ranges));
                sees_writes_to_reserved(|ranges| Writes::by_faults(made()?, me, &ranges));
            }
            Err(why) => println!("ignored: this kernel has no asynchronous write protection here: {why}"),
        }
    }

    #[test]
    fn writes_are_seen_by_soft_dirty_bits() {
        if has_soft_dirty() {
            sees_our_writes(|ranges| Writes::by_soft_dirty(ours::process_id(), ranges));
        } else {
            println!("ignored: this kernel has no soft-dirty bits");
        }
    }
}
