//! The places of a text that read the time stamp counter give way to instructions that fault, or to hooks
//! (`clock.rs` says why).

use std::fs::File;

use bis_rewrite::{Learned, SiteKind, clock_fault};
use bis_trace::{
    event::{Insn, MemWrite, Outcome},
    ours::Fault,
    types::{Addr, Tid, prot},
};
use bis_tracee::{cpu, vdso::Vdso};

use crate::{
    error::Result,
    hooks::patching::Batch,
    process::Process,
    space::{Patches, TextRange, clock_insn},
};

impl Process {
    /// The program wants `rdtsc` to be a fault, in one of its tasks.
    pub fn forbid_clock(&mut self, outcome: &mut Outcome) -> Result<()> {
        self.close_clock("the program wants rdtsc to be a fault");
        self.undo_dense(Addr::NULL, Addr::MAX, outcome)?;
        if self.hooks.is_none() {
            return Ok(());
        }
        self.space.clock_mut().forbidden = true;
        let sites = self.space.patches().clock_faults();
        let taken = sites.into_iter().flat_map(|site| self.space.patches_mut().take_faults(site..site + 1));
        for (site, original) in taken.collect::<Vec<_>>() {
            self.memory.write(site, &original)?;
            outcome.ours().own.push((site, original.len() as u64));
            outcome.writes.push(MemWrite { addr: site, data: original });
        }
        let patches = self.space.patches().within(Addr::NULL, Addr::MAX);
        for patch in patches.iter().filter(|patch| clock_insn(patch.kind).is_some()) {
            self.unpatch(patch.start, patch.end, outcome)?;
        }
        Ok(())
    }

    /// Deals with everything in a new text that reads the counter, or might. What cannot be dealt with closes
    /// the domain.
    pub(super) fn patch_clocks(
        &mut self,
        tid: Tid,
        range: &TextRange,
        offset: u64,
        batch: &mut Batch,
        outcome: &mut Outcome,
    ) -> Result<()> {
        if self.hooks.is_none() || self.space.clock().forbidden {
            return Ok(());
        }
        let Some(found) = range.file.clocks(range.part(offset), self.session.texts.cache()) else {
            self.close_clock("a file's end in memory is not known");
            return Ok(());
        };
        let mut unsure = Vec::new();
        let in_dense = |site: u64| self.space.patches().dense.hooks(range.mapped(site));
        // Where the processor has no rdtscp, it is illegal by itself.
        let illegal = |place: &Learned| match place {
            Learned::Run(run) => run.kind() == SiteKind::Rdtscp && !cpu::has_rdtscp(),
            Learned::Clock { kind, .. } => *kind == SiteKind::Rdtscp && !cpu::has_rdtscp(),
            _ => false,
        };
        let is_left = |place: &Learned| !in_dense(place.site()) && !illegal(place);
        let found: Vec<Learned> = found.into_iter().filter(is_left).collect();
        for place in found {
            let site = place.site();
            let is_done = match place {
                Learned::Inside { .. } => true,
                Learned::Run(run) => {
                    (Patches::lies_in(range, &run) && self.patch(tid, &run, range.bias, batch, outcome)?)
                        || self.fault_at(range.mapped(run.site()), run.kind(), batch)
                }
                Learned::Clock { site, kind } => self.fault_at(range.mapped(site), kind, batch),
                Learned::Refused { reason, .. } => {
                    tracing::debug!(site = format_args!("{site:#x}"), %reason, "perhaps an rdtsc");
                    false
                }
            };
            if !is_done {
                unsure.push(range.mapped(site));
            }
        }
        if !unsure.is_empty() && !self.guard(tid, range, &unsure, outcome)? {
            self.close_clock("a file has what may be an rdtsc");
        }
        Ok(())
    }

    /// Overwrites an instruction by one of its length that faults. False: something else is there.
    fn fault_at(&mut self, site: Addr, kind: SiteKind, batch: &mut Batch) -> bool {
        let (Some(fault), Some(insn)) = (clock_fault(kind), clock_insn(kind)) else { return false };
        let original = self.memory.read_upto(site, fault.len());
        let expected: &[u8] = if insn == Insn::Rdtsc { &[0x0f, 0x31] } else { &[0x0f, 0x01, 0xf9] };
        if original != expected || self.space.patches().overlaps(site, site + fault.len() as u64) {
            return false;
        }
        batch.sites.push(MemWrite { addr: site, data: fault.to_vec() });
        batch.faults.push(Fault { site, insn, original: original.clone() });
        self.space.patches_mut().add_fault(site, insn, original);
        true
    }

    /// Executable memory that a fresh image has: the program's, other than the vdso.
    pub(super) fn watch_image(&mut self, mapping: &bis_tracee::maps::Mapping, file: Option<&File>) {
        if mapping.prot & prot::WRITE != 0 || file.is_none() {
            self.close_clock("the image has executable memory that is no file's");
        }
    }

    /// Puts the kernel's clock functions where the hooks can call them.
    pub(super) fn copy_vdso(&mut self, vdso: &Vdso, arena: usize, outcome: &mut Outcome) -> Result<()> {
        self.space.clock_mut().vdso = vdso.range();
        let arena = &mut self.space.patches_mut().arenas[arena];
        if !arena.has_room(vdso.range().end - vdso.start) {
            return Ok(());
        }
        let at = arena.next();
        let Some(copy) = vdso.copy_for(at) else {
            tracing::info!("the kernel's clock functions cannot be moved; they are made system calls");
            return Ok(());
        };
        arena.take(copy.bytes.len());
        let clock = self.space.clock_mut();
        clock.text = at..at + copy.bytes.len() as u64;
        clock.functions = copy.clocks;
        self.memory.write(at, &copy.bytes)?;
        outcome.writes.push(MemWrite { addr: at, data: copy.bytes });
        Ok(())
    }
}
