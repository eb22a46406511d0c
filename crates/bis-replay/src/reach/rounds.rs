//! The rounds of a string instruction that repeats itself (`rep movsb`), where they are only counted.
//!
//! The processor counts such an instruction's rounds down in rcx, and a breakpoint or a step stops a task in
//! front of each: each is an arrival. There may be a million. So a task that has arrived at one goes through
//! all rounds at once, to the instruction behind, where rcx says how many there were. If an arrival in
//! between is wanted, rcx is made so much smaller beforehand, and what was taken from it is put back when
//! those rounds are over.
//!
//! A pause may be in front of a round that is not the first: a tracer of the recorded program's steps it, or
//! stops it, in the middle of such an instruction. The debug register of a search stops a task in front of
//! the first round alone, so from there it makes as many rounds as are missing ([`Replica::go_to_look`]).

use std::ops::Range;

use bis_trace::{
    event::Pause,
    types::{Addr, Registers},
};
use bis_tracee::ticks;
use iced_x86::{Decoder, DecoderOptions, Mnemonic, OpKind, Register};

use super::Gone;
use crate::{
    divergence::{Leave, compare},
    error::Halt,
    host::Host,
    replica::{Limit, Replica, Stop, Who},
    task::{Found, Place, RESUME_FLAG, Run, Task},
};

/// `EFLAGS.ZF` and `EFLAGS.DF`; and what a comparison changes.
const ZERO_FLAG: u64 = 1 << 6;
const DIRECTION_FLAG: u64 = 1 << 10;
const STATUS_FLAGS: u64 = 0x8d5;

/// A string instruction that repeats itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Repeated {
    len: u64,
    /// What a round moves on by, bytes, and which of rsi and rdi.
    unit: u64,
    moves_rsi: bool,
    moves_rdi: bool,
    /// It loads rax.
    loads: bool,
    /// Another round comes only while the zero flag is this; none: that is the same to it.
    while_zero: Option<bool>,
    /// It counts in the whole of rcx.
    is_wide: bool,
    /// Its pointers are addresses, without a segment's base.
    is_flat: bool,
}

impl Repeated {
    pub(crate) fn of(bits: u32, code: &[u8]) -> Option<Repeated> {
        let instruction = Decoder::new(bits, code, DecoderOptions::NONE).decode();
        let (is_while_equal, is_while_other) = (instruction.has_rep_prefix(), instruction.has_repne_prefix());
        if !instruction.is_string_instruction() || !(is_while_equal || is_while_other) {
            return None;
        }
        let mnemonic = instruction.mnemonic();
        let compares = matches!(
            mnemonic,
            Mnemonic::Cmpsb
                | Mnemonic::Cmpsw
                | Mnemonic::Cmpsd
                | Mnemonic::Cmpsq
                | Mnemonic::Scasb
                | Mnemonic::Scasw
                | Mnemonic::Scasd
                | Mnemonic::Scasq
        );
        let loads = matches!(mnemonic, Mnemonic::Lodsb | Mnemonic::Lodsw | Mnemonic::Lodsd | Mnemonic::Lodsq);
        let has = |wanted: &[OpKind]| instruction.op_kinds().any(|kind| wanted.contains(&kind));
        Some(Repeated {
            len: instruction.len() as u64,
            unit: instruction.memory_size().size() as u64,
            moves_rsi: has(&[OpKind::MemorySegRSI, OpKind::MemorySegESI, OpKind::MemorySegSI]),
            moves_rdi: has(&[OpKind::MemoryESRDI, OpKind::MemoryESEDI, OpKind::MemoryESDI]),
            loads,
            while_zero: compares.then_some(is_while_equal),
            is_wide: has(&[OpKind::MemorySegRSI, OpKind::MemoryESRDI]),
            is_flat: !matches!(instruction.segment_prefix(), Register::FS | Register::GS),
        })
    }

    /// How many rounds, at least one, lead a task from the one place in front of a round to the other; none:
    /// no number of them does.
    fn rounds_between(self, from: &Registers, to: &Registers) -> Option<u64> {
        // Behind the last round, the task is not in front of the instruction any more.
        let rounds = from.rcx.checked_sub(to.rcx).filter(|rounds| *rounds > 0 && to.rcx > 0)?;
        let way = rounds.wrapping_mul(self.unit);
        let way = if from.eflags & DIRECTION_FLAG == 0 { way } else { way.wrapping_neg() };
        let moved = |register: u64| match register.wrapping_add(way) {
            register if self.is_wide => register,
            register => register & 0xffff_ffff,
        };
        let mut then = Registers { rcx: to.rcx, ..*from };
        if self.moves_rsi {
            then.rsi = moved(from.rsi);
        }
        if self.moves_rdi {
            then.rdi = moved(from.rdi);
        }
        if self.loads {
            then.rax = to.rax;
        }
        if self.while_zero.is_some() {
            then.eflags = from.eflags & !STATUS_FLAGS | to.eflags & STATUS_FLAGS;
        }
        compare(to, &then, Leave::OrigRax).is_empty().then_some(rounds)
    }

    /// Where its next round reads and writes, without a segment's base.
    pub(crate) fn touches(self, regs: &Registers) -> impl Iterator<Item = Addr> {
        let used = [(self.moves_rsi, regs.rsi), (self.moves_rdi, regs.rdi)];
        used.into_iter().filter(|(is_used, _)| *is_used).map(|(_, at)| Addr(at))
    }

    /// How many rounds it makes before one touches these bytes, if that many are left.
    fn rounds_before(self, regs: &Registers, bytes: &Range<Addr>) -> u64 {
        let (start, end, unit) = (bytes.start.0, bytes.end.0, self.unit.max(1));
        let is_backwards = regs.eflags & DIRECTION_FLAG != 0;
        let before = |at: u64| match is_backwards {
            false if at >= end => u64::MAX,
            false => start.saturating_sub(at) / unit,
            true if at.saturating_add(unit) <= start => u64::MAX,
            true if at < end => 0,
            true => (at - end) / unit + 1,
        };
        let rsi = if self.moves_rsi { before(regs.rsi) } else { u64::MAX };
        let rdi = if self.moves_rdi { before(regs.rdi) } else { u64::MAX };
        rsi.min(rdi)
    }

    /// Does another round come, if there are any left?
    fn goes_on(self, eflags: u64) -> bool {
        self.while_zero.is_none_or(|wanted| (eflags & ZERO_FLAG != 0) == wanted)
    }
}

/// The length of such an instruction, bytes; none: it is another one.
pub(crate) fn len(code: &[u8]) -> Option<u64> {
    Repeated::of(64, code).map(|repeated| repeated.len)
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
        let Some(repeated) = Repeated::of(64, &code).filter(|it| self.can_pass(place, *it)) else {
            return Ok(None);
        };
        let regs = task.regs()?;
        let rcx = regs.rcx;
        let most = left.map_or(rcx, |left| left.min(rcx)).min(self.unwatched_rounds(repeated, &regs));
        if most == 0 && rcx > 0 {
            return Ok(None);
        }
        let rounds = Rounds { at: place, behind: place + repeated.len, repeated, most, hidden: rcx - most };
        self.make_rounds(task, &rounds, Some(program), limit).map(Some)
    }

    /// Can a task make many rounds of this instruction at once?
    fn can_pass(&self, place: Addr, repeated: Repeated) -> bool {
        let behind = place.saturating_add(repeated.len);
        // Another moment is not to be missed.
        repeated.is_wide && !self.traps.has_moments() && self.space.places(behind) == [behind]
    }

    /// How many rounds touch no page that is watched, from these registers on: whoever watches pages looks at
    /// each round there.
    fn unwatched_rounds(&self, repeated: Repeated, regs: &Registers) -> u64 {
        if self.traps.areas.is_empty() {
            return u64::MAX;
        }
        let Some(guarded) = self.traps.areas.guarded_pages().filter(|_| repeated.is_flat) else { return 0 };
        guarded.map(|pages| repeated.rounds_before(regs, &pages)).min().unwrap_or(u64::MAX)
    }

    /// Lets the task make these rounds at once. `program`: its arrivals at them are counted here.
    fn make_rounds(
        &mut self,
        task: &mut Task,
        rounds: &Rounds,
        program: Option<Addr>,
        limit: &Limit<'_>,
    ) -> Result<Place, Halt> {
        let (place, behind, regs) = (rounds.at, rounds.behind, task.regs()?);
        let most = rounds.most;
        task.set_regs(&Registers { rcx: most, ..regs })?;
        let memory = &self.space.memory;
        self.traps.lift(memory, place)?;
        self.traps.set_moment(memory, &[behind])?;
        let run = Run { interrupt: limit.interrupt, step: false, hooks: self.space.hooks };
        let stopped = task.run(memory, &mut self.traps, run);
        self.traps.set_moment(memory, &[])?;
        self.traps.put_back(memory, place);
        self.rounds_made(task, rounds, program, stopped?)
    }

    /// The task has stopped: it stands where it would have stood, and its arrivals are counted.
    fn rounds_made(
        &mut self,
        task: &mut Task,
        rounds: &Rounds,
        program: Option<Addr>,
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
        if let Some(program) = program {
            self.traps.add_rounds(program, if faults { made } else { made.saturating_sub(1) });
        }
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

    /// Does its driver hear of nothing while a task executes this text?
    fn is_alone(&self, task: &Task, text: Range<Addr>) -> bool {
        let traps = &self.traps;
        let is_stopped = traps.has_point_in(text.clone()) || traps.counts_in(&text);
        task.told.is_none() && !is_stopped && traps.watches().is_empty()
    }

    /// The instruction at a pause that is looked for, if it repeats itself.
    pub(crate) fn repeated_at(&self, pause: &Pause) -> Option<Repeated> {
        let code = self.traps.read(&self.space.memory, pause.regs.ip(), ticks::INSTRUCTION_LEN_MAX);
        Repeated::of(pause.regs.bits(), &code)
    }

    /// [`Replica::go`] for a search for a pause, with a breakpoint there. In front of an instruction that
    /// repeats itself, the task makes as many rounds as lead to the place, or one of them; where it stands
    /// then is told as a breakpoint.
    pub(crate) fn go_to_look(
        &mut self,
        task: &mut Task,
        who: Who,
        (pause, repeated): (&Pause, Option<Repeated>),
        host: &mut dyn Host,
        limit: &Limit<'_>,
    ) -> Result<Gone, Halt> {
        let regs = task.regs()?;
        let left = repeated.and_then(|it| Some((it, it.rounds_between(&regs, &pause.regs)?)));
        let Some((repeated, left)) = left.filter(|_| !limit.step) else {
            return self.go(task, who, host, limit);
        };
        let (at, behind) = (pause.regs.ip(), pause.regs.ip() + repeated.len);
        let place = if left > 1
            && self.is_alone(task, at..behind + 1)
            && self.can_pass(at, repeated)
            && left <= self.unwatched_rounds(repeated, &regs)
        {
            self.arm(task)?;
            let rounds = Rounds { at, behind, repeated, most: left, hidden: regs.rcx - left };
            self.make_rounds(task, &rounds, None, limit)?
        } else {
            match self.go(task, who, host, &Limit { step: true, ..*limit })? {
                Gone::Stopped(Stop::Stepped(_)) => Place { found: Found::Stepped, regs: task.regs()? },
                gone => return Ok(gone),
            }
        };
        match place.found {
            Found::Interrupted => return Ok(Gone::Stopped(Stop::Interrupted)),
            // It found what it looked for in a round before.
            Found::Stepped if place.regs.ip() != at => return self.go(task, who, host, limit),
            Found::Stepped | Found::Point(_) => {}
            _ => return Ok(Gone::Place(place)),
        }
        // The breakpoint is not to stop it where it stands.
        let regs = Registers { eflags: place.regs.eflags | RESUME_FLAG, ..place.regs };
        task.set_regs(&regs)?;
        Ok(Gone::Place(Place { found: Found::Breakpoint, regs }))
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
        let of = |code: &[u8]| Repeated::of(64, code).map(|it| (it.while_zero, it.is_wide));
        assert_eq!(of(&[0xf3, 0xa4]), Some((None, true)));
        // repe cmpsb; repne scasb; rep stosb, counted in ecx
        assert_eq!(of(&[0xf3, 0xa6]), Some((Some(true), true)));
        assert_eq!(of(&[0xf2, 0xae]), Some((Some(false), true)));
        assert_eq!(of(&[0x67, 0xf3, 0xaa]), Some((None, false)));
    }

    #[test]
    fn rounds_lead_from_one_place_to_the_other() {
        let rounds = |code: &[u8], change: &dyn Fn(&mut Registers)| {
            let from = Registers { rcx: 10, rsi: 0x1000, rdi: 0x2000, rax: 7, ..Registers::default() };
            let mut to = Registers { rcx: 7, ..from };
            change(&mut to);
            Repeated::of(64, code).unwrap().rounds_between(&from, &to)
        };
        let (movsb, stosq, lodsb, scasb) =
            (&[0xf3, 0xa4][..], &[0xf3, 0x48, 0xab][..], &[0xf3, 0xac][..], &[0xf2, 0xae][..]);
        assert_eq!(rounds(movsb, &|to| (to.rsi, to.rdi) = (0x1003, 0x2003)), Some(3));
        assert_eq!(rounds(movsb, &|to| to.rdi = 0x2003), None);
        assert_eq!(rounds(stosq, &|to| to.rdi = 0x2018), Some(3));
        assert_eq!(rounds(stosq, &|to| (to.rdi, to.rax) = (0x2018, 8)), None);
        assert_eq!(rounds(lodsb, &|to| (to.rsi, to.rax) = (0x1003, 8)), Some(3));
        assert_eq!(rounds(scasb, &|to| (to.rdi, to.eflags) = (0x2003, 0x40)), Some(3));
        // None is left, or there are more: that is no place in front of a later round.
        assert_eq!(rounds(movsb, &|to| (to.rsi, to.rdi, to.rcx) = (0x100a, 0x200a, 0)), None);
        assert_eq!(rounds(movsb, &|to| to.rcx = 10), None);
        assert_eq!(rounds(movsb, &|to| (to.rsi, to.rdi, to.rcx) = (0xfff, 0x1fff, 11)), None);
        let backwards = |rdi| {
            let from = Registers { rcx: 10, rdi: 0x2000, eflags: 0x400, ..Registers::default() };
            let to = Registers { rcx: 9, rdi, ..from };
            Repeated::of(64, stosq).unwrap().rounds_between(&from, &to)
        };
        assert_eq!((backwards(0x1ff8), backwards(0x2008)), (Some(1), None));
        // addr32 rep stosb: the upper halves go.
        let short = Repeated::of(64, &[0x67, 0xf3, 0xaa]).unwrap();
        let from = Registers { rcx: 2, rdi: 0xffff_ffff, ..Registers::default() };
        assert_eq!(short.rounds_between(&from, &Registers { rcx: 1, rdi: 0, ..from }), Some(1));
    }

    #[test]
    fn rounds_are_made_up_to_watched_pages() {
        let before = |code: &[u8], rsi, rdi, eflags| {
            let regs = Registers { rsi, rdi, eflags, ..Registers::default() };
            Repeated::of(64, code).unwrap().rounds_before(&regs, &(Addr(0x2000)..Addr(0x3000)))
        };
        let (movsb, stosq, scasb) = (&[0xf3, 0xa4][..], &[0xf3, 0x48, 0xab][..], &[0xf2, 0xae][..]);
        // In front of it, the last element at an odd address; on it; behind it.
        assert_eq!(before(stosq, 0, 0x1ff0, 0), 2);
        assert_eq!(before(stosq, 0, 0x1fec, 0), 2);
        assert_eq!(before(stosq, 0, 0x1ffc, 0), 0);
        assert_eq!([before(stosq, 0, 0x2000, 0), before(stosq, 0, 0x2fff, 0)], [0, 0]);
        assert_eq!(before(stosq, 0, 0x3000, 0), u64::MAX);
        // The one that comes there first; what it does not use is nothing to it.
        assert_eq!(before(movsb, 0x1000, 0x1ffd, 0), 3);
        assert_eq!(before(movsb, 0x1fff, 0x5000, 0), 1);
        assert_eq!(before(scasb, 0x2000, 0x1000, 0), 0x1000);
        // Backwards.
        assert_eq!(before(stosq, 0, 0x3010, 0x400), 3);
        assert_eq!(before(stosq, 0, 0x3000, 0x400), 1);
        assert_eq!([before(stosq, 0, 0x2fff, 0x400), before(stosq, 0, 0x1ff9, 0x400)], [0, 0]);
        assert_eq!(before(stosq, 0, 0x1ff8, 0x400), u64::MAX);
        // fs: rep movsb
        assert!(
            !Repeated::of(64, &[0x64, 0xf3, 0xa4]).unwrap().is_flat
                && Repeated::of(64, movsb).unwrap().is_flat
        );
    }

    #[test]
    fn what_was_taken_from_the_count_is_put_back() {
        let of = |code: &[u8], eflags, rip, rcx| {
            let repeated = Repeated::of(64, code).unwrap();
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
