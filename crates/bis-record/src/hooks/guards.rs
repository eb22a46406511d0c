//! Pages of text that may have an instruction which reads the time stamp counter, where it cannot be told.
//!
//! Mostly they have none: OpenSSL keeps tables of numbers between its functions, compilers have bytes in the
//! middle of instructions that look like `rdtsc`. What would have to be executed to read the counter is taken
//! the permission to be executed. If it is ever tried, the domain is closed (`clock.rs`), and the page gets
//! its permission back: one fault, which comes again in replay, where the event after it says the same.
//!
//! The program sees its text in `/proc/PID/maps` as it would be (`calls/shown`). When it changes the
//! protection of such a page by itself, the domain is closed, too.

use std::collections::BTreeSet;

use bis_trace::{
    event::{Effect, EventKind, Outcome, SignalEvent, SignalPoint},
    ours::Guard,
    types::{Addr, PAGE, Registers, Tid, prot},
};
use bis_tracee::{
    maps,
    remote::{Planned, Remote, Returns},
    siginfo::SigInfo,
};

use crate::{
    crew::{Crew, with_slot},
    error::Result,
    events::Recorder,
    process::Process,
    space::{GUARDED, TextRange},
};

/// A text with more such pages than this closes its domain.
const GUARDS_MAX: usize = 256;

/// The longest instruction.
const INSN_MAX: u64 = 15;

/// The code of a SIGSEGV for what is mapped, but not for this.
const SEGV_ACCERR: i32 = linux_raw_sys::general::SEGV_ACCERR as i32;

impl Recorder<'_> {
    /// A fault. True: a page was to be executed that is guarded, and can be now.
    pub fn unguard(&mut self, tid: Tid, info: &SigInfo, before: &Registers) -> Result<bool> {
        let (addr, rip) = (info.addr(), before.ip());
        let page = addr.page_floor();
        let is_guarded = self.space.patches().guards.contains(&page);
        if !is_guarded || info.code() != SEGV_ACCERR || addr < rip || addr - rip > INSN_MAX {
            return Ok(false);
        }
        self.close_clock("text is executed in which there may be an rdtsc");
        self.drain(tid)?;
        self.protect(tid, [page].into_iter(), prot::READ_EXEC)?;
        self.space.patches_mut().guards.remove(&page);
        let effects = vec![Effect::Protect { addr: page, len: PAGE, prot: prot::READ_EXEC }];
        let handler = Some(Outcome { regs: *before, effects, ..Outcome::default() });
        let (siginfo, point) = (info.0.to_vec(), SignalPoint::Fault);
        let event = SignalEvent { signal: info.signal(), siginfo, point, before: *before, handler };
        self.event(tid, EventKind::Signal(Box::new(event)))?;
        self.task(tid)?.standing.go_on();
        Ok(true)
    }
}

impl Process {
    /// Guards the pages of these places. False: that cannot be done.
    pub(super) fn guard(
        &mut self,
        tid: Tid,
        range: &TextRange,
        places: &[Addr],
        outcome: &mut Outcome,
    ) -> Result<bool> {
        /// From the first byte to the last of the longest that reads the counter.
        const LAST: u64 = 2;
        if self.hooks.is_none() || self.space.clock().closed {
            return Ok(true);
        }
        let pages = places.iter().flat_map(|at| [*at, at + LAST]).map(Addr::page_floor);
        let pages: BTreeSet<Addr> = pages.collect();
        let text = maps::extents(tid, &[range.start..range.end.page_ceil()])?;
        let is_text = |page: &Addr| text.iter().any(|m| m.range.contains(page) && m.prot == prot::READ_EXEC);
        if pages.len() > GUARDS_MAX || !pages.iter().all(is_text) {
            return Ok(false);
        }
        self.protect(tid, pages.iter().copied(), GUARDED)?;
        for page in pages {
            outcome.effects.push(Effect::Protect { addr: page, len: PAGE, prot: GUARDED });
            outcome.ours().guards.push(Guard { page, prot: prot::READ_EXEC });
            self.space.patches_mut().guards.insert(page);
        }
        Ok(true)
    }
}

impl Crew {
    fn protect(&mut self, tid: Tid, pages: impl Iterator<Item = Addr>, prot: u32) -> Result<()> {
        let call = |page: Addr| {
            let args = [page.0, PAGE, prot.into(), 0, 0, 0];
            Planned { nr: libc::SYS_mprotect, args, returns: Returns::This(0) }
        };
        let calls: Vec<Planned> = pages.map(call).collect();
        with_slot(self, tid, |crew, slot| {
            let mut remote = Remote::new(slot)?;
            remote.must_all("protect text", &crew.memory, &calls)?;
            Ok(remote.finish()?)
        })
    }
}
