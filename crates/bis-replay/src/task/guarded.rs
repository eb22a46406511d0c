//! A task is let run while pages are guarded that hold watched bytes for which there is no debug register.

use bis_trace::types::Addr;
use bis_tracee::{Memory, TraceeError, debug::Triggered, maps, ticks};

use super::{Found, Interrupt, Place, Run, Task};
use crate::{areas, counted::Counted, repeated::Repeated, traps::Traps};

impl Task {
    /// [`Task::run`], with what the driver watches.
    pub(super) fn run_watched(
        &mut self,
        memory: &Memory,
        traps: &mut Traps,
        run: Run<'_>,
    ) -> Result<Place, TraceeError> {
        if traps.areas.is_empty() {
            return self.run_once(memory, traps, run);
        }
        let ours = self.ours;
        self.at_entry &= !traps.areas.guard(&mut self.stopped, || maps::read(ours))?;
        let place = self.run_guarded(memory, traps, run)?;
        if self.stopped.is_some() && place.found != Found::Dead {
            self.at_entry &= !traps.areas.free(&mut self.stopped)?;
        }
        Ok(place)
    }

    /// [`Task::run`], while pages of watched bytes are guarded.
    fn run_guarded(
        &mut self,
        memory: &Memory,
        traps: &mut Traps,
        run: Run<'_>,
    ) -> Result<Place, TraceeError> {
        loop {
            let place = self.run_once(memory, traps, run)?;
            let Found::Guarded(addr) = place.found else { return Ok(place) };
            let are_too_many = traps.count_fault();
            let place = self.touch(memory, traps, (addr, run))?;
            if place.found != Found::Dead {
                traps.areas.guard_again(&mut self.stopped)?;
            }
            match place.found {
                Found::Stepped if run.step => return Ok(place),
                Found::Stepped if run.interrupt.is_some_and(Interrupt::is_asked) => {
                    return Ok(Place { found: Found::Interrupted, ..place });
                }
                Found::Stepped if are_too_many => {
                    return Ok(Place { found: Found::TooManyFaults, ..place });
                }
                Found::Stepped => {}
                _ => return Ok(place),
            }
        }
    }

    /// The task is about to execute an instruction that wants to touch a guarded page, at `addr`: lets it,
    /// and looks what comes of it. [`Found::Stepped`]: nothing that is watched.
    fn touch(
        &mut self,
        memory: &Memory,
        traps: &mut Traps,
        (addr, run): (Addr, Run<'_>),
    ) -> Result<Place, TraceeError> {
        traps.areas.let_go(&mut self.stopped, memory, addr)?;
        // The program reads and writes there as if there were no breakpoints.
        let mut lifted = traps.lift_freed(memory)?;
        let touched = self.touch_freed(memory, traps, (run, &mut lifted));
        lifted.into_iter().for_each(|at| traps.put_back(memory, at));
        touched
    }

    /// Executes the instruction with that page let go. `lifted`: the breakpoints that were taken away for it.
    fn touch_freed(
        &mut self,
        memory: &Memory,
        traps: &mut Traps,
        (run, lifted): (Run<'_>, &mut Vec<Addr>),
    ) -> Result<Place, TraceeError> {
        loop {
            let begin = self.regs()?;
            // What tests a condition, or counts, is not the program; copies of its instructions are.
            let is_other = |counted: &Counted| {
                counted.has(Addr(begin.rip)) && counted.original(Addr(begin.rip)).is_none()
            };
            let is_own = !traps.counted().iter().any(is_other);
            let code = memory.read_upto(Addr(begin.rip), ticks::INSTRUCTION_LEN_MAX);
            let accesses =
                if traps.areas.asks_for_accesses() { areas::accesses(&code, &begin) } else { Vec::new() };
            let mut place = loop {
                let place = self.run_once(memory, traps, Run { interrupt: None, step: true, ..run })?;
                // It may touch several pages.
                let Found::Guarded(other) = place.found else { break place };
                traps.areas.let_go(&mut self.stopped, memory, other)?;
                lifted.extend(traps.lift_freed(memory)?);
            };
            if !matches!(place.found, Found::Stepped | Found::Watched(_)) {
                return Ok(place);
            }
            let bytes = begin.ip()..begin.ip() + code.len() as u64;
            let touched = traps.areas.touched(memory, (bytes, &accesses))?;
            if is_own && !touched.is_empty() {
                traps.touched = touched;
                if place.found == Found::Stepped {
                    place.found = Found::Watched(Triggered::default());
                }
            }
            // An instruction that repeats itself touches the same page again, until it has come to another.
            let goes_on = place.found == Found::Stepped
                && place.regs.rip == begin.rip
                && !run.step
                && Repeated::of(begin.bits(), &code)
                    .is_none_or(|it| it.touches(&place.regs).any(|at| traps.areas.is_let_go(at)));
            if !goes_on || run.interrupt.is_some_and(Interrupt::is_asked) {
                return Ok(place);
            }
        }
    }
}
