//! The rounds of a string instruction that repeats itself (`rep movsb`), where they are only counted.
//!
//! The processor counts such an instruction's rounds down in rcx, and a breakpoint or a step stops a task in
//! front of each: each is an arrival. There may be a million. So a task that has arrived at one goes through
//! all rounds at once, to the instruction behind, where rcx says how many there were. If an arrival in
//! between is wanted, rcx is made so much smaller beforehand, and what was taken from it is put back when
//! those rounds are over.

use bis_trace::types::{Addr, Registers};
use bis_tracee::ticks;
use iced_x86::{Decoder, DecoderOptions, Mnemonic, OpKind};

use crate::{
    error::Halt,
    replica::{Limit, Replica},
    task::{Found, Place, Run, Task},
};

/// `EFLAGS.ZF`.
const ZERO_FLAG: u64 = 1 << 6;

/// A string instruction that repeats itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Repeated {
    len: u64,
    /// Another round comes only while the zero flag is this; none: that is the same to it.
    while_zero: Option<bool>,
    /// It counts in the whole of rcx.
    is_wide: bool,
}

impl Repeated {
    fn of(code: &[u8]) -> Option<Repeated> {
        let instruction = Decoder::new(64, code, DecoderOptions::NONE).decode();
        let (is_while_equal, is_while_other) = (instruction.has_rep_prefix(), instruction.has_repne_prefix());
        if !instruction.is_string_instruction() || !(is_while_equal || is_while_other) {
            return None;
        }
        let compares = matches!(
            instruction.mnemonic(),
            Mnemonic::Cmpsb
                | Mnemonic::Cmpsw
                | Mnemonic::Cmpsd
                | Mnemonic::Cmpsq
                | Mnemonic::Scasb
                | Mnemonic::Scasw
                | Mnemonic::Scasd
                | Mnemonic::Scasq
        );
        let is_wide =
            instruction.op_kinds().any(|kind| matches!(kind, OpKind::MemorySegRSI | OpKind::MemoryESRDI));
        Some(Repeated {
            len: instruction.len() as u64,
            while_zero: compares.then_some(is_while_equal),
            is_wide,
        })
    }

    /// Does another round come, if there are any left?
    fn goes_on(self, eflags: u64) -> bool {
        self.while_zero.is_none_or(|wanted| (eflags & ZERO_FLAG != 0) == wanted)
    }
}

/// The length of such an instruction, bytes; none: it is another one.
pub(crate) fn len(code: &[u8]) -> Option<u64> {
    Repeated::of(code).map(|repeated| repeated.len)
}

/// Such an instruction that a task is about to make rounds of.
struct Rounds {
    /// Where it is, and where the next one is.
    at: Addr,
    behind: Addr,
    repeated: Repeated,
    /// How many it is let make at most, and what was taken from rcx for that.
    most: u64,
    hidden: u64,
}

impl Rounds {
    /// What a stop comes to: the registers that the task has there, and how many rounds it has made.
    fn made(&self, regs: &Registers) -> (Registers, u64) {
        let made = self.most.saturating_sub(regs.rcx);
        let mut regs = Registers { rcx: regs.rcx.wrapping_add(self.hidden), ..*regs };
        let is_behind = regs.ip() == self.behind;
        if is_behind && self.hidden > 0 && made == self.most && self.repeated.goes_on(regs.eflags) {
            regs.rip = self.at.0;
        }
        (regs, made)
    }
}

impl Replica<'_> {
    /// The task has arrived at a place where only the rounds of a string instruction are counted: lets it
    /// make those. [`Found::Stepped`]: it stands somewhere else, and goes on. None: it cannot be done here,
    /// and each round is a stop.
    pub(super) fn pass_rounds(
        &mut self,
        task: &mut Task,
        (place, program, left): (Addr, Addr, Option<u64>),
        limit: &Limit<'_>,
    ) -> Result<Option<Place>, Halt> {
        let code = self.read_program(place, ticks::INSTRUCTION_LEN_MAX);
        let Some(repeated) = Repeated::of(&code).filter(|repeated| repeated.is_wide) else { return Ok(None) };
        let behind = place.saturating_add(repeated.len);
        // Whoever watches pages looks at each round; and another moment is not to be missed.
        if !self.traps.areas.is_empty() || self.traps.has_moments() || self.space.places(behind) != [behind] {
            return Ok(None);
        }
        let regs = task.regs()?;
        let most = left.map_or(regs.rcx, |left| left.min(regs.rcx));
        let rounds = Rounds { at: place, behind, repeated, most, hidden: regs.rcx - most };
        task.set_regs(&Registers { rcx: most, ..regs })?;
        let memory = &self.space.memory;
        self.traps.lift(memory, place)?;
        self.traps.set_moment(memory, &[behind])?;
        let run = Run { interrupt: limit.interrupt, step: false, hooks: self.space.hooks };
        let stopped = task.run(memory, &mut self.traps, run);
        self.traps.set_moment(memory, &[])?;
        self.traps.put_back(memory, place);
        self.rounds_made(task, &rounds, program, stopped?).map(Some)
    }

    /// The task has stopped: it stands where it would have stood, and its arrivals are counted.
    fn rounds_made(
        &mut self,
        task: &mut Task,
        rounds: &Rounds,
        program: Addr,
        stopped: Place,
    ) -> Result<Place, Halt> {
        if stopped.found == Found::Dead {
            return Ok(stopped);
        }
        self.traps.look(&self.space.memory)?;
        let (regs, made) = rounds.made(&stopped.regs);
        if regs != stopped.regs {
            task.set_regs(&regs)?;
        }
        let is_there = regs.ip() == rounds.at;
        let found = match stopped.found {
            Found::Point(at) if at == rounds.behind => match is_there {
                true => Found::Point(rounds.at),
                // Nobody wants to know.
                false if self.traps.program_at(at).is_none() => Found::Stepped,
                false => stopped.found,
            },
            found => found,
        };
        // It had arrived for the first of them. Behind the last, it has not; and in front of another one only
        // when it stops there, or faults there.
        let faults = is_there && matches!(found, Found::Fault(_));
        self.traps.add_rounds(program, if faults { made } else { made.saturating_sub(1) });
        if is_there && made == 0 && found == Found::Interrupted {
            task.told = Some(rounds.at);
            return Ok(Place { found, regs });
        }
        // Also where it stands there again, it is not where it was.
        self.traps.standing.take_if(|(tid, _)| *tid == task.ours);
        self.traps.last = Some((task.ours, rounds.at)).filter(|_| faults);
        self.traps.ran(task.ours, &Place { found, regs });
        Ok(Place { found, regs })
    }
}

#[cfg(test)]
mod tests {
    use bis_trace::types::{Addr, Registers};

    use super::{Repeated, Rounds, len};

    #[test]
    fn what_repeats_itself_is_known() {
        // rep stosq; repne scasb; rep movsb
        assert_eq!(len(&[0xf3, 0x48, 0xab]), Some(3));
        assert_eq!(len(&[0xf2, 0xae]), Some(2));
        assert_eq!(len(&[0xf3, 0xa4]), Some(2));
        // stosq; rep ret; movsd xmm0,[rdi]; nothing
        assert_eq!(len(&[0x48, 0xab]), None);
        assert_eq!(len(&[0xf3, 0xc3]), None);
        assert_eq!(len(&[0xf2, 0x0f, 0x10, 0x07]), None);
        assert_eq!(len(&[]), None);
    }

    #[test]
    fn only_comparisons_look_at_the_flag() {
        let of = |code: &[u8]| Repeated::of(code).map(|it| (it.while_zero, it.is_wide));
        assert_eq!(of(&[0xf3, 0xa4]), Some((None, true)));
        // repe cmpsb; repne scasb; rep stosb, counted in ecx
        assert_eq!(of(&[0xf3, 0xa6]), Some((Some(true), true)));
        assert_eq!(of(&[0xf2, 0xae]), Some((Some(false), true)));
        assert_eq!(of(&[0x67, 0xf3, 0xaa]), Some((None, false)));
    }

    #[test]
    fn what_was_taken_from_the_count_is_put_back() {
        let of = |code: &[u8], eflags, rip, rcx| {
            let repeated = Repeated::of(code).unwrap();
            let rounds = Rounds { at: Addr(0x1000), behind: Addr(0x1002), repeated, most: 10, hidden: 5 };
            let (regs, made) = rounds.made(&Registers { rip, rcx, eflags, ..Registers::default() });
            (regs.rip, regs.rcx, made)
        };
        // All rounds were made: more are left. A fault, or somebody who interrupts it, in the middle.
        assert_eq!(of(&[0xf3, 0xa4], 0, 0x1002, 0), (0x1000, 5, 10));
        assert_eq!(of(&[0xf3, 0xa4], 0, 0x1000, 4), (0x1000, 9, 6));
        // repne scasb: found in the middle; found in the last round that it was let make; not yet found.
        assert_eq!(of(&[0xf2, 0xae], 0x40, 0x1002, 4), (0x1002, 9, 6));
        assert_eq!(of(&[0xf2, 0xae], 0x40, 0x1002, 0), (0x1002, 5, 10));
        assert_eq!(of(&[0xf2, 0xae], 0, 0x1002, 0), (0x1000, 5, 10));
    }
}
