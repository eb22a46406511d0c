//! Instructions that ask the processor for what no recording can know: `rdrand`, `rdseed`, `rdpid`, and
//! `lsl`, because the limit of one segment is the core's number; and transactions, which begin with `xbegin`
//! and may fail at any time.
//!
//! And `cpuid`, on processors that have no faulting of it: it tells the core's number, of which replay knows
//! nothing, and would tell of instructions that bis hides.
//!
//! And `xsavec`, of which it depends on when the kernel has last saved the registers what it writes: the
//! dynamic linker's is on the stack whenever a function is looked for, and what is left there comes into
//! registers with the next structure of which not all is given.
//!
//! And `fnstenv` and `fnsave`, which store where the last x87 instruction was and what its operand: on AMD's
//! processors, the kernel loses that when it switches tasks, unless an exception is pending.
//!
//! None of them can be made to fault, so nothing traps them. `cpuid` says that there are none, which is
//! enough for programs that ask it first. For the others, each place of a mapped file where one is for sure
//! (`bis_rewrite::Text::chance_at`) is patched before it can be executed: the first four lead to a hook that
//! executes and logs them, `cpuid` to the hook that has its answers, a transaction fails at once, each time,
//! with a status that says not to try again. Behind an `xsavec` comes a hook that puts in what it has left
//! out, and behind an `fnstenv` one that takes out what may be lost. Where there is no room for a jump, an
//! instruction that faults takes its place (not that of these two).
//!
//! Not covered: text of which it is not known where instructions begin, code that is made while the program
//! runs, and programs recorded without hooks. What is not there (the processor does not have it) stays as it
//! is: it raises SIGILL.

use std::sync::OnceLock;

use bis_agent::hooks::{self, state};
use bis_rewrite::{Learned, SiteKind};
use bis_trace::{
    event::{Insn, MemWrite, Outcome},
    ours::Fault,
    types::{Addr, Registers, Tid},
};
use bis_tracee::{
    cpu::{self, Chance},
    xsave,
};
use iced_x86::{Decoder, DecoderOptions};

use super::{patching::Batch, texts::is_sought};
use crate::{
    error::Result,
    process::Process,
    space::{Patches, TextRange},
};

/// Has the processor this instruction?
fn exists(kind: SiteKind) -> bool {
    static CHANCES: OnceLock<cpu::Chances> = OnceLock::new();
    let chances = CHANCES.get_or_init(cpu::chances);
    match kind {
        SiteKind::Rdrand => chances.rdrand,
        SiteKind::Rdseed => chances.rdseed,
        SiteKind::Rdpid => chances.rdpid,
        SiteKind::Xbegin => chances.transactions,
        SiteKind::Cpuid => true,
        SiteKind::Xsavec => chances.xsavec,
        SiteKind::Lsl => true,
        SiteKind::Fnstenv => chances.forgets_x87,
        _ => false,
    }
}

/// What an instruction has written behind which there is a hook: where.
#[derive(Clone, Copy, Debug)]
pub enum Saved {
    /// By `xsavec`.
    State(Addr),
    /// By `fnstenv` or `fnsave`.
    Environment(Addr),
}

impl Process {
    /// Patches all that is sure in a new text.
    pub(super) fn patch_chances(
        &mut self,
        tid: Tid,
        range: &TextRange,
        offset: u64,
        batch: &mut Batch,
        outcome: &mut Outcome,
    ) -> Result<()> {
        for found in range.file.chances(range.part(offset), self.session.texts.cache()) {
            let (site, kind) = match &found {
                Learned::Run(run) => (run.site(), run.kind()),
                Learned::Clock { site, kind } => (*site, *kind),
                _ => continue,
            };
            if !is_sought(kind) || !exists(kind) {
                continue;
            }
            let is_done = match &found {
                Learned::Run(run) if Patches::lies_in(range, run) => {
                    self.patch(tid, run, range.bias, batch, outcome)?
                }
                _ => false,
            };
            if !is_done && !self.overwrite(range.mapped(site), range.end, batch) {
                tracing::debug!(site = format_args!("{site:#x}"), ?kind, "left as it is");
            }
        }
        Ok(())
    }

    /// A task stands in the hook behind an `xsavec` or `fnstenv`, or on the way there: the program's
    /// registers behind that instruction, to which it would come, and the area that this has written. None:
    /// it is somewhere else. (Where it was killed there, nothing else says how far it has come; other hooks'
    /// log says it.)
    pub fn behind_saved(&self, regs: &Registers) -> Option<(Registers, Saved)> {
        let (area, rip) = (&self.hooks.as_ref()?.area, regs.rip);
        let place = |at: Addr| {
            let patch = self.space.patches().in_trampoline(at);
            let patch = patch.filter(|patch| matches!(patch.kind, SiteKind::Xsavec | SiteKind::Fnstenv))?;
            Some((patch.places().find(|(original, _)| *original == patch.site)?.1, patch))
        };
        let is_entry = (hooks::FNSTENV..hooks::CPUID).contains(&rip);
        let is_called =
            || [hooks::IN_XSAVEC, hooks::IN_FNSTENV].map(u64::from).contains(&area.get(state::IN_HOOK));
        let is_in_hook = is_entry || hooks::is_inside(rip) && is_called();
        let mut behind = *regs;
        let (way, patch) = if is_in_hook {
            let is_kept = !is_entry || rip >= hooks::XSAVEC_KEPT_FROM;
            behind.rip = if is_kept { area.get(state::DONE) } else { regs.rcx };
            if is_kept {
                let slots = (1..).map(|slot| self.memory.read_u64(Addr(hooks::SCRATCH_BASE - 8 * slot)).ok());
                for (number, kept) in hooks::XSAVEC_KEPT.into_iter().zip(slots) {
                    *behind.general_mut(number.into())? = kept?;
                }
                let flags = hooks::SCRATCH_BASE - 8 * (hooks::XSAVEC_KEPT.len() as u64 + 1);
                behind.eflags = self.memory.read_u64(Addr(flags)).ok()?;
            }
            if ![hooks::XSAVEC, hooks::FNSTENV].contains(&rip) {
                behind.rsp = area.get(state::RSP);
            }
            behind.rcx = area.get(state::SAVED_RCX);
            place(behind.ip())?
        } else {
            let (way, patch) = place(regs.ip())?;
            let done = patch.trampoline.done;
            // Behind the instruction itself, rcx is kept and used for the way.
            let first = way + (done - patch.trampoline.traced);
            if !(first.0..done).contains(&rip) {
                return None;
            }
            behind.rip = done;
            if rip != first.0 {
                behind.rcx = area.get(state::SAVED_RCX);
            }
            (way, patch)
        };
        let code = self.memory.read_upto(way, 15);
        let it = Decoder::with_ip(64, &code, way.0, DecoderOptions::NONE).decode();
        let written = it.virtual_address(0, 0, |register, _, _| {
            let is_general = register.is_gpr64();
            Some(if is_general { behind.general()[register.number()] } else { 0 })
        });
        let written = Addr(written?);
        let is_xsavec = patch.kind == SiteKind::Xsavec;
        Some((behind, if is_xsavec { Saved::State(written) } else { Saved::Environment(written) }))
    }

    /// A task stands in the hook of a `cpuid`, or on the way there: the program's registers where it would
    /// come out of that. None: it is somewhere else.
    fn behind_cpuid(&self, regs: &Registers) -> Option<Registers> {
        let (area, rip) = (&self.hooks.as_ref()?.area, regs.rip);
        let answers = &self.session.hook_image.cpuid;
        // One that is not known is left to the trampoline's own instruction, which is two bytes long.
        let answered = |own: Registers| match cpu::cpuid_known(&own, answers) {
            Some(answer) => cpu::with_answer(Registers { rip: own.rdx, ..own }, answer),
            None => Registers { rip: own.rdx.wrapping_sub(2), ..own },
        };
        if let Some(end) = self.space.patches().cpuid_end(regs.ip()) {
            return Some(answered(Registers { rdx: end.0, ..*regs }));
        }
        if !(hooks::CPUID..hooks::CPUID_END).contains(&rip) {
            return None;
        }
        let mut own = *regs;
        if rip != hooks::CPUID {
            own.rsp = area.get(state::RSP);
        }
        if rip >= hooks::CPUID_KEPT_FROM {
            let slot = |number: u64| self.memory.read_u64(Addr(hooks::SCRATCH_BASE - 8 * number)).ok();
            (own.eflags, own.rsi, own.rdi) = (slot(1)?, slot(2)?, slot(3)?);
        }
        if rip <= hooks::CPUID_FOUND || rip == hooks::CPUID_LEFT {
            return Some(answered(own));
        }
        if rip < hooks::CPUID_LEFT {
            let row = self.memory.read_upto(Addr(regs.rsi + 8), 16);
            let (words, _) = row.as_chunks();
            let [eax, ebx, ecx, edx] = *words else { return None };
            own = cpu::with_answer(own, [eax, ebx, ecx, edx].map(u32::from_le_bytes));
        }
        Some(Registers { rip: area.get(state::EXIT), ..own })
    }

    /// Does a task with these registers stand in a hook that logs nothing, or on the way there?
    pub fn is_in_silent_hook(&self, regs: &Registers) -> bool {
        self.behind_cpuid(regs).is_some() || self.behind_saved(regs).is_some()
    }

    /// A task stands in a hook that logs nothing, or on the way there (that of a `cpuid`, or behind an
    /// `xsavec` or `fnstenv`): what is left of that is done by hand, and the task stands behind the
    /// instruction, with these registers; or at a `cpuid` that the hook would have left to us. None: it is
    /// somewhere else; or its branches are counted: replay makes those of the hook that would be left out.
    pub fn end_by_hand(&mut self, tid: Tid) -> Result<Option<Registers>> {
        if self.task(tid)?.counter.is_some() {
            return Ok(None);
        }
        let regs = self.stopped(tid)?.regs()?;
        if let Some(behind) = self.behind_cpuid(&regs) {
            self.stopped(tid)?.set_regs(&behind)?;
            return Ok(Some(behind));
        }
        let Some((behind, saved)) = self.behind_saved(&regs) else { return Ok(None) };
        match saved {
            Saved::State(area) => {
                let xstate = self.stopped(tid)?.xstate()?;
                xsave::fill_in(&self.memory, area, &xstate)?;
            }
            Saved::Environment(at) => xsave::take_place_out(&self.memory, at)?,
        }
        self.stopped(tid)?.set_regs(&behind)?;
        Ok(Some(behind))
    }

    /// Puts something that faults in the place of the instruction. False: it is not there.
    fn overwrite(&mut self, site: Addr, end: Addr, batch: &mut Batch) -> bool {
        const HLT: u8 = 0xf4;
        const NOP: u8 = 0x90;
        let bytes = self.memory.read_upto(site, 16);
        let found = match bytes[..] {
            [0x0f, 0xa2, ..] => Some((Insn::Cpuid, 2)),
            _ => Chance::decode(&bytes).map(|chance| (chance.insn, chance.len)),
        };
        let Some((insn, len)) = found else { return false };
        let after = site + len as u64;
        if after > end || self.space.patches().overlaps(site, after) {
            return false;
        }
        let mut data = vec![NOP; len];
        data[0] = HLT;
        batch.sites.push(MemWrite { addr: site, data });
        batch.faults.push(Fault { site, insn, original: bytes[..len].to_vec() });
        self.space.patches_mut().add_fault(site, insn, bytes[..len].to_vec());
        true
    }
}
