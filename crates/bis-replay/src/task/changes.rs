//! What the hooks of a task change of the address space while they consume a log: each change is in the log,
//! and is made where the hook stands in front of its call. Where nobody watches the memory that is changed,
//! it is let through, and nothing stops ([`bis_tracee::filter`]).

use bis_agent::hooks::{Change, Places};
use bis_trace::types::{Addr, Fd, FileId, Registers};
use bis_tracee::{TraceeError, debug::Triggered, maps, remote::Remote};

use super::{
    Found, Hooked, Run, Task,
    due::{Due, changes, mapped_file},
    mapped::changed,
    run::Next,
};
use crate::{
    allowed::{is_harmless, is_own},
    traps::Traps,
};

impl Task {
    /// Its hooks begin to consume this log. `descriptor`: its own, of each file that they map.
    pub(crate) fn begin_log(&mut self, hooked: &Hooked, descriptor: impl Fn(FileId) -> Option<Fd>) {
        let due = |change| Due { change, fd: mapped_file(&change).and_then(&descriptor) };
        self.changes = changes(&hooked.log).map(due).collect();
    }

    /// It stands in front of a call with which a hook changes the address space. None: of another one, or of
    /// one that its log does not have. Those before it were let through.
    fn next_change(&mut self, regs: &Registers, hooks: Places) -> Option<Due> {
        if regs.rip != hooks.change_end {
            return None;
        }
        let is_next = |due: &Due| {
            let Due { change, fd } = due;
            (change.nr, due.args()) == (regs.orig_rax, regs.args())
                && may_change(change)
                && change.file().is_some() == fd.is_some()
        };
        let next = self.changes.iter().position(is_next)?;
        self.changes.drain(..=next).next_back()
    }

    /// Makes the call that it stands in front of while bytes are watched, with which it may have to do. It
    /// stands behind the call.
    fn change_watched(
        &mut self,
        traps: &mut Traps,
        (due, regs): (Due, Registers),
    ) -> Result<Registers, TraceeError> {
        let is_guarded = !traps.areas.is_empty();
        if is_guarded {
            traps.areas.free(&mut self.stopped)?;
            traps.areas.forget_mappings();
        }
        let mut remote = Remote::new(&mut self.stopped)?;
        let made = remote.call(due.change.nr.cast_signed(), due.args())?;
        remote.finish()?;
        let regs = Registers { rax: made.cast_unsigned(), orig_rax: u64::MAX, ..regs };
        self.set_regs(&regs)?;
        if is_guarded {
            let ours = self.ours;
            traps.areas.guard(&mut self.stopped, || maps::read(ours))?;
        }
        Ok(regs)
    }

    /// It stands in front of a call with which a hook changes the address space, of which it has this log's
    /// word: lets the call be made, by itself as the task goes on, or here where bytes are watched. None: of
    /// another call.
    pub(super) fn at_change(
        &mut self,
        regs: &Registers,
        traps: &mut Traps,
        run: Run<'_>,
    ) -> Result<Option<Next>, TraceeError> {
        let Some(due) = self.next_change(regs, run.hooks) else { return Ok(None) };
        let change = due.change;
        let range = changed(change);
        traps.forget_pages(range.clone());
        let has_content = ![Change::MPROTECT, Change::ARCH_PRCTL].contains(&change.nr);
        let touched = if has_content { traps.watched_in(&range) } else { Vec::new() };
        if traps.areas.is_empty() && touched.is_empty() {
            // The kernel makes it as the task goes on.
            return Ok(Some(Next::On));
        }
        let regs = self.change_watched(traps, (due, *regs))?;
        if !touched.is_empty() {
            traps.touched = touched;
            return Ok(Some(Next::at(Found::Watched(Triggered::default()), regs)));
        }
        Ok(Some(if run.step { Next::at(Found::Stepped, regs) } else { Next::On }))
    }
}

/// Is that what a recording makes in a hook?
fn may_change(Change { nr, addr, len, how, .. }: &Change) -> bool {
    const READ_AND_WRITE: u64 = 3;
    let is_own = is_own(Addr(*addr), *len);
    match *nr {
        Change::MMAP | Change::MPROTECT => is_own && *how <= READ_AND_WRITE,
        Change::MUNMAP => is_own && *how == 0,
        Change::MADVISE => is_own && is_harmless(*how),
        // An address that need not be one of memory.
        Change::ARCH_PRCTL => *how == u64::from(linux_raw_sys::general::ARCH_SET_FS),
        _ => false,
    }
}
