//! A task is let run towards a page that it cannot have: it got a fault there when it was recorded, because
//! the file system was full, or the page could not be read, or the stack could not grow any more (RLIMIT_AS).
//! Here the page is there. So while the task runs it is protected, and its fault at the place of the event is
//! taken for the recorded one. Whoever stops the task before finds the page as the program has it.

use bis_trace::{
    event::{EventKind, SignalPoint},
    types::{Addr, PAGE, Signal},
};
use bis_tracee::{Memory, TraceeError, maps, siginfo::SigInfo};

use super::{Found, Place, Run, Task, info_of};
use crate::{areas, traps::Traps};

/// A fault's code where nothing is mapped.
const SEGV_MAPERR: i32 = 1;

/// A page that a task cannot have where its next event is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Missing {
    /// The recorded fault, and the instruction that raised it.
    info: SigInfo,
    rip: Addr,
    own: Own,
    bar: Bar,
}

/// The protection that the page has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Own {
    NotAsked,
    /// It is not mapped here, either.
    None,
    Known(u32),
}

/// What is not let through: a page of a file that has none there can be read on some file systems.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Bar {
    All,
    Writes,
    Nothing,
}

impl Missing {
    /// Does a task on its way to this event come to such a page? One that lies behind the end of its file,
    /// or below all that the stack may ever be, is none here, either, and need not be told apart.
    pub(crate) fn of(kind: &EventKind) -> Option<Missing> {
        /// How far from the stack pointer an instruction touches the page to which the stack is to grow.
        const NEAR: u64 = 1 << 16;
        let EventKind::Signal(event) = kind else { return None };
        let info = info_of(&event.siginfo).filter(|_| event.point == SignalPoint::Fault)?;
        let is_it = match event.signal {
            // BUS_ADRALN is a matter of the instruction's, not of a page.
            Signal::BUS => (libc::BUS_ADRERR..=libc::BUS_MCEERR_AR).contains(&info.code()),
            Signal::SEGV => info.code() == SEGV_MAPERR && event.before.sp().0.abs_diff(info.addr().0) <= NEAR,
            _ => false,
        };
        is_it.then_some(Missing { info, rip: event.before.ip(), own: Own::NotAsked, bar: Bar::All })
    }

    fn page(&self) -> Addr {
        self.info.addr().page_floor()
    }

    /// The protection under which the task runs, and its own. None: nothing is barred.
    fn barred(&self) -> Option<(u32, u32)> {
        let Own::Known(own) = self.own else { return None };
        let barred = match self.bar {
            Bar::All => 0,
            Bar::Writes => own & !libc::PROT_WRITE.cast_unsigned(),
            Bar::Nothing => own,
        };
        (barred != own).then_some((barred, own))
    }

    fn has(&self, info: &SigInfo) -> bool {
        info.signal() == Signal::SEGV && info.is_fault() && info.addr().page_floor() == self.page()
    }
}

impl Task {
    /// Lets the task run to its next system call or fault, or to what its driver stops it for. Signals that
    /// somebody sends it meanwhile are dropped: those of the recording are not delivered but written.
    pub(crate) fn run(
        &mut self,
        memory: &Memory,
        traps: &mut Traps,
        run: Run<'_>,
    ) -> Result<Place, TraceeError> {
        loop {
            if let Some(missing) = self.missing.as_mut().filter(|missing| missing.own == Own::NotAsked) {
                let page = missing.page();
                let mappings = maps::read(self.ours)?;
                let mapping = mappings.iter().find(|mapping| (mapping.start..mapping.end).contains(&page));
                missing.own = mapping.map_or(Own::None, |mapping| Own::Known(mapping.prot));
            }
            let barred = self.missing.and_then(|missing| Some((missing, missing.barred()?)));
            let Some((missing, (barred, own))) = barred else {
                return self.run_watched(memory, traps, run);
            };
            let page = missing.page()..missing.page() + PAGE;
            // What is watched on this page is not guarded beside that: nothing can be written there.
            traps.areas.forget_mappings();
            self.at_entry &= !areas::protect(&mut self.stopped, [(page.clone(), barred)].into_iter())?;
            let place = self.run_watched(memory, traps, run)?;
            traps.areas.forget_mappings();
            if self.stopped.is_none() || place.found == Found::Dead {
                return Ok(place);
            }
            self.at_entry &= !areas::protect(&mut self.stopped, [(page, own)].into_iter())?;
            if !matches!(place.found, Found::Fault(info) if missing.has(&info)) {
                return Ok(place);
            }
            if place.regs.ip() == missing.rip {
                return Ok(Place { found: Found::Fault(missing.info), ..place });
            }
            // It was let through there when it was recorded.
            let bar = if missing.bar == Bar::All { Bar::Writes } else { Bar::Nothing };
            self.missing = Some(Missing { bar, ..missing });
        }
    }
}
