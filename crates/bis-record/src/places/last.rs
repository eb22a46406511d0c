//! The last place of a task that was killed. SIGKILL asks nobody, and neither does another thread's exec: the
//! kernel shows the task once more on its way out, with the registers that it had, and it never goes on.
//! Where others see the memory that it had in common with them (a process with the same address space, shared
//! memory), what it has stored since its last event is a part of what they saw; so there is an event that
//! says how far it came.
//!
//! A living task that is paused is let run on to a place that replay finds fast (`pause.rs`). This one cannot
//! run: the few instructions that lie between mostly, a jump and a store in front of it, are done by hand, as
//! if it had been killed a moment later.

use bis_agent::hooks::{self, state};
use bis_rewrite::{Place, Run, STATUS_FLAGS, Span, count_word, counts_left};
use bis_trace::{
    event::{EventKind, LastWay, RangeSum, TaskEnd},
    types::{Addr, Registers, Signal, Tid},
};
use bis_tracee::{TraceeError, maps, place, remote};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};

use crate::{domain::Domain, error::Result, events::Recorder, process::Process};

/// Instructions that are done by hand, at most.
const BY_HAND_MAX: usize = 16;

/// What a count takes from its word.
const COUNT: u64 = count_word(1) - count_word(0);

/// Where a task was killed that was in no call that its stream knows of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Killed {
    Computing,
    /// At the entry of a call, which was not made; or which a hook has left to be made here.
    InFrontOfCall,
    /// Where replay has it already (behind a call), or could not stop it: in a hook, or in the middle of an
    /// instruction that repeats itself.
    Elsewhere,
}

impl Killed {
    /// `is_in_hook`: at these registers it is in a hook, or on the way to one, and not behind the instruction
    /// that makes a call which the hook does not make.
    fn at(regs: &Registers, is_in_hook: bool, it: &Instruction) -> Killed {
        let is_in_call = regs.orig_rax.cast_signed() >= 0;
        let repeats = it.is_string_instruction() && (it.has_rep_prefix() || it.has_repne_prefix());
        match (is_in_hook, is_in_call) {
            (true, _) => Killed::Elsewhere,
            (false, true) if regs.result() == -i64::from(libc::ENOSYS) => Killed::InFrontOfCall,
            (false, true) => Killed::Elsewhere,
            (false, false) if repeats => Killed::Elsewhere,
            (false, false) => Killed::Computing,
        }
    }
}

/// What a task that was killed in a hook that logs had come to there.
#[derive(Clone, Copy, Debug)]
struct InHook {
    /// The hook says that it is under way.
    is_said: bool,
    /// The task is on its way out, behind that.
    is_leaving: bool,
    /// More of the log is used than when the hook was entered, or the one before, as long as it is not said.
    has_logged: bool,
}

impl InHook {
    fn is_before_log(self) -> bool {
        !self.has_logged || !self.is_said && !self.is_leaving
    }
}

/// The way of a task that was killed in such a hook, or somewhere behind what it has logged.
fn last_way(hook: Option<InHook>, has_log: bool) -> LastWay {
    match (hook.is_some_and(InHook::is_before_log), has_log) {
        (true, _) => LastWay::Call,
        (false, true) => LastWay::Log,
        (false, false) => LastWay::None,
    }
}

/// What an instruction does that can be done by hand.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Done {
    Jump,
    /// A register is loaded or stored: where that is in memory, and what is stored there.
    Store {
        addr: Addr,
        bytes: Vec<u8>,
    },
    Load,
}

/// Does an instruction by hand, of those that are short and touch no flags. `load` reads memory.
fn by_hand(
    regs: &mut Registers,
    it: &Instruction,
    load: impl Fn(Addr, usize) -> Option<Vec<u8>>,
) -> Option<Done> {
    if it.is_jmp_short_or_near() {
        regs.rip = it.near_branch_target();
        return Some(Done::Jump);
    }
    if it.mnemonic() != Mnemonic::Mov || it.op_count() != 2 || it.has_segment_prefix() {
        return None;
    }
    let address = |regs: &Registers| {
        let value = |register: Register| match register {
            Register::None => Some(0),
            Register::RIP => Some(0),
            register if register.is_gpr64() => Some(regs.general()[register.number()]),
            _ => None,
        };
        if it.is_ip_rel_memory_operand() {
            return Some(Addr(it.ip_rel_memory_address()));
        }
        let index = value(it.memory_index())?.wrapping_mul(u64::from(it.memory_index_scale()));
        let base = Addr(value(it.memory_base())?);
        Some(base.wrapping_add(index).wrapping_add(it.memory_displacement64()))
    };
    let is_plain = |register: Register| register.is_gpr64() || register.is_gpr32();
    let done = match (it.op0_kind(), it.op1_kind()) {
        (OpKind::Memory, OpKind::Register) if is_plain(it.op1_register()) => {
            let value = regs.general()[it.op1_register().number()].to_le_bytes();
            Done::Store { addr: address(regs)?, bytes: value[..it.op1_register().size()].to_vec() }
        }
        (OpKind::Register, OpKind::Memory) if is_plain(it.op0_register()) => {
            let bytes = load(address(regs)?, it.op0_register().size())?;
            let mut value = [0; 8];
            value.get_mut(..bytes.len())?.copy_from_slice(&bytes);
            *register(regs, it.op0_register())? = u64::from_le_bytes(value);
            Done::Load
        }
        (OpKind::Register, OpKind::Register)
            if is_plain(it.op0_register()) && it.op0_register().size() == it.op1_register().size() =>
        {
            let value = regs.general()[it.op1_register().number()];
            let is_half = it.op0_register().is_gpr32();
            *register(regs, it.op0_register())? = if is_half { value & 0xffff_ffff } else { value };
            Done::Load
        }
        _ => return None,
    };
    regs.rip = it.next_ip();
    Some(done)
}

/// The place of a general register.
fn register(regs: &mut Registers, register: Register) -> Option<&mut u64> {
    let full = register.full_register();
    regs.general_mut(full.number()).filter(|_| full.is_gpr64())
}

impl Domain {
    /// The task is on its way out, perhaps because it was killed: says how far it came, if others see that.
    pub fn tell_last_place(&mut self, tid: Tid, end: TaskEnd) -> Result<LastWay> {
        let cut_short = remote::take_cut_short(tid);
        if !self.is_place_untold(tid)? {
            return Ok(LastWay::None);
        }
        if let Some(regs) = cut_short {
            match self.stopped(tid)?.set_regs(&regs) {
                Err(TraceeError::Died(dead)) if dead == tid => return Ok(LastWay::None),
                other => other?,
            }
        }
        let in_front = self.task(tid)?.in_front.take();
        let regs = match in_front {
            Some(entry) => entry,
            None => match self.stopped(tid)?.regs() {
                // It has gone without the stop of its end: there is nobody left to ask.
                Err(TraceeError::Died(dead)) if dead == tid => return Ok(LastWay::None),
                Ok(regs) => {
                    if self.task(tid)?.counter.is_some() && self.is_in_silent_hook(&regs) {
                        let text = format!(
                            "task {tid} ended in the middle of what bis does behind an instruction, where its branches are \
                             counted: others may see fewer of its last stores in replay"
                        );
                        self.session.note(self.session.writer.next_seq(), text)?;
                    }
                    self.end_by_hand(tid)?.unwrap_or(regs)
                }
                Err(error) => return Err(error.into()),
            },
        };
        let is_left =
            regs.orig_rax.cast_signed() >= 0 && self.space.is_left_by_hook(regs.ip().wrapping_sub(2));
        let is_in_hook = self.space.is_in_hooks(regs.ip()) && !is_left;
        let killed = Killed::at(&regs, is_in_hook, &self.instruction(regs.ip()));
        tracing::debug!(
            domain = %self.id, %tid, ?killed, rip = format_args!("{:#x}", regs.rip),
            call = regs.orig_rax.cast_signed(), result = regs.result(), "last place"
        );
        match killed {
            Killed::Computing => {
                let span = self.find_span_by_hand(tid)?;
                self.pause(tid, span)?;
                Ok(LastWay::None)
            }
            // (One that is ended by a way back to a checkpoint is in a call of ours.)
            Killed::InFrontOfCall if end == TaskEnd::Killed(Signal::KILL) => {
                let sums = self.sums(tid)?;
                self.recorder().write_entry_in_front(tid, regs, sums)?;
                Ok(LastWay::None)
            }
            Killed::InFrontOfCall => Ok(LastWay::None),
            Killed::Elsewhere => Ok(self.last_way(tid, &regs)?),
        }
    }

    /// The way on which replay lets a task run that was killed in a hook, or behind one: what it had stored
    /// before is seen by others.
    fn last_way(&self, tid: Tid, regs: &Registers) -> Result<LastWay> {
        let Some(hooks) = &self.hooks else { return Ok(LastWay::None) };
        // Behind the end of a hook, where it says so, there is a jump: to the program, or to the safepoint.
        let flow = self.instruction(regs.ip()).flow_control();
        let is_leaving = matches!(flow, FlowControl::IndirectBranch | FlowControl::UnconditionalBranch)
            || (hooks::SAFEPOINT_FROM..=hooks::SAFEPOINT_END).contains(&regs.rip);
        let is_logging = hooks::is_inside(regs.rip) && !self.is_in_silent_hook(regs);
        let has_log = hooks.area.has_log() || self.task_ref(tid)?.since_event.has_log();
        let is_said = hooks.area.get(state::IN_HOOK) != 0;
        let hook = InHook { is_said, is_leaving, has_logged: hooks.area.has_logged_in_hook() };
        Ok(last_way(is_logging.then_some(hook), has_log))
    }

    /// As [`Domain::tell_last_place`], of a task that is gone already, with what it has logged: it was killed
    /// as the call that it stood in front of was looked at.
    ///
    /// Or in the stop of a signal, before we heard of that: the kernel goes on with the signal then, finds it
    /// fatal, and makes no stop of the end where SIGKILL waits (`get_signal` and `ptrace_stop`,
    /// kernel/signal.c). Nobody can say any more how far such a task came.
    pub fn tell_call_in_front(&mut self, tid: Tid, end: TaskEnd) -> Result<LastWay> {
        let way = self.way_of_lost(tid);
        self.drain(tid)?;
        let in_front = self.task(tid)?.in_front.take();
        if !self.is_place_untold(tid)? {
            return Ok(LastWay::None);
        }
        match in_front {
            Some(entry) => {
                self.recorder().write_entry_in_front(tid, entry, Vec::new())?;
                return Ok(LastWay::None);
            }
            None if end == TaskEnd::Killed(Signal::KILL) => {
                let text = format!(
                    "task {tid} was killed just as a signal stopped it: what it had stored into shared memory \
                     since its last event may be missing in replay"
                );
                self.session.note(self.session.writer.next_seq(), text)?;
            }
            None => {}
        }
        Ok(way)
    }

    /// As [`Domain::last_way`], of a task that nobody can ask where it is: it was in a hook, or somewhere
    /// behind what it has logged.
    fn way_of_lost(&self, tid: Tid) -> LastWay {
        let Some(hooks) = self.hooks.as_ref().filter(|_| self.watched.seat.runner() == tid) else {
            return LastWay::None;
        };
        let has_logged = hooks.area.has_logged_in_hook();
        let hook = InHook { is_said: true, is_leaving: false, has_logged };
        last_way((hooks.area.get(state::IN_HOOK) == 1).then_some(hook), hooks.area.has_log())
    }

    fn is_place_untold(&self, tid: Tid) -> Result<bool> {
        let task = self.task_ref(tid)?;
        Ok(task.since_event.has_gone_on() && task.call.is_none() && self.is_outlived(tid))
    }

    fn instruction(&self, rip: Addr) -> Instruction {
        Decoder::with_ip(self.space.bits(), &self.memory.read_upto(rip, 15), rip.0, DecoderOptions::NONE)
            .decode()
    }

    /// As [`Domain::find_span`], for a task that cannot run. It ends where replay finds it, if possible.
    fn find_span_by_hand(&mut self, tid: Tid) -> Result<Vec<u8>> {
        let mappings = maps::read(tid)?;
        for _ in 0..BY_HAND_MAX {
            if self.leave_count_by_hand(tid)? {
                continue;
            }
            let mut regs = self.stopped(tid)?.regs()?;
            if let Some(span) = self.span_to_find(tid, regs.ip(), &mappings) {
                return Ok(span);
            }
            let it = self.instruction(regs.ip());
            let load = |addr, len| self.memory.read_vec(addr, len).ok();
            match by_hand(&mut regs, &it, load) {
                Some(Done::Store { addr, bytes }) if self.memory.write(addr, &bytes).is_err() => break,
                Some(_) if !self.space.is_in_hooks(regs.ip()) => self.stopped(tid)?.set_regs(&regs)?,
                _ => break,
            }
        }
        Ok(Vec::new())
    }

    /// The instructions at this address that can give way to a breakpoint with a condition, where that must
    /// be known; empty: it need not be. None: there can be none.
    fn span_to_find(&self, tid: Tid, rip: Addr, mappings: &[maps::Mapping]) -> Option<Vec<u8>> {
        let span = Span::begin(self.space.bits(), rip.0, &self.memory.read_upto(rip, 2 * Run::MAX))?;
        if self.is_entered(&span) {
            return None;
        }
        if place::room(mappings, &span, false).is_some() {
            return Some(Vec::new());
        }
        let is_sure = self.is_sure(tid, &span, mappings) && place::room(mappings, &span, true).is_some();
        is_sure.then(|| span.bytes().to_vec())
    }
}

impl Recorder<'_> {
    /// Writes that the task stands in front of a call, whose entry it has reached.
    fn write_entry_in_front(&mut self, tid: Tid, entry: Registers, sums: Vec<RangeSum>) -> Result<()> {
        self.drain(tid)?;
        self.event_with(tid, EventKind::SyscallEnter { nr: entry.orig_rax, entry }, sums)
    }
}

impl Process {
    /// In the middle of a count of dense text: what is left of that is done by hand. False: it is in none.
    fn leave_count_by_hand(&mut self, tid: Tid) -> Result<bool> {
        let regs = self.stopped(tid)?.regs()?;
        let Some(hooks) = &self.hooks else { return Ok(false) };
        // A word is below zero only until its trap is dealt with. The processor stands behind that by then.
        let has_trapped = counts_left(hooks.area.countdown()) < 0;
        let trap = self.space.dense_place(regs.ip().wrapping_sub(1));
        let place = match trap.filter(|place| has_trapped && matches!(place, Place::Count { trap: true, .. }))
        {
            None => self.space.dense_place(regs.ip()),
            trapped => trapped,
        };
        let Some(Place::Count { resume, taken, restore_rcx, loses_flags, .. }) = place else {
            return Ok(false);
        };
        if !taken {
            hooks.area.set_countdown(hooks.area.countdown().wrapping_sub(COUNT));
        }
        let rcx = if restore_rcx { hooks.area.count_rcx() } else { regs.rcx };
        let eflags = if loses_flags { regs.eflags & !STATUS_FLAGS } else { regs.eflags };
        self.stopped(tid)?.set_regs(&Registers { rip: resume, rcx, eflags, ..regs })?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(code: &[u8]) -> Instruction {
        Decoder::with_ip(64, code, 0x1000, DecoderOptions::NONE).decode()
    }

    fn computing() -> Registers {
        Registers { rip: 0x1000, orig_rax: u64::MAX, ..Registers::default() }
    }

    #[test]
    fn what_a_killed_task_shows_tells_where_it_was() {
        let add = decode(&[0x48, 0x83, 0xc0, 0x01]);
        assert_eq!(Killed::at(&computing(), false, &add), Killed::Computing);
        assert_eq!(Killed::at(&computing(), true, &add), Killed::Elsewhere);
        let not_made = Registers { orig_rax: 39, rax: (-38i64).cast_unsigned(), ..computing() };
        assert_eq!(Killed::at(&not_made, false, &add), Killed::InFrontOfCall);
        let made = Registers { orig_rax: 39, rax: 7, ..computing() };
        assert_eq!(Killed::at(&made, false, &add), Killed::Elsewhere);
        let rep_stosb = decode(&[0xf3, 0xaa]);
        assert_eq!(Killed::at(&computing(), false, &rep_stosb), Killed::Elsewhere);
    }

    #[test]
    fn a_killed_task_comes_into_the_next_call_only_where_it_has_not_logged_in_its_hook() {
        let hook = |is_said, is_leaving, has_logged| Some(InHook { is_said, is_leaving, has_logged });
        // At its first instructions, where what is said of the log is of the hook before; in it; behind it.
        assert_eq!(last_way(hook(false, false, true), true), LastWay::Call);
        assert_eq!(last_way(hook(true, false, false), false), LastWay::Call);
        assert_eq!(last_way(hook(true, false, true), true), LastWay::Log);
        assert_eq!(last_way(hook(false, true, true), true), LastWay::Log);
        assert_eq!((last_way(None, true), last_way(None, false)), (LastWay::Log, LastWay::None));
    }

    #[test]
    fn jumps_and_moves_are_done_by_hand_and_nothing_else() {
        let none = |_, _| None;
        let mut regs = computing();
        assert_eq!(by_hand(&mut regs, &decode(&[0xeb, 0xf0]), none), Some(Done::Jump));
        assert_eq!(regs, Registers { rip: 0xff2, ..computing() });
        // mov %rax,8(%rdi)
        let mut regs = Registers { rax: 0x0102_0304_0506_0708, rdi: 0x2000, ..computing() };
        let stored = by_hand(&mut regs, &decode(&[0x48, 0x89, 0x47, 0x08]), none);
        assert_eq!(stored, Some(Done::Store { addr: Addr(0x2008), bytes: vec![8, 7, 6, 5, 4, 3, 2, 1] }));
        assert_eq!(regs.rip, 0x1004);
        // mov (%rdi,%rcx,4),%eax
        let mut regs = Registers { rax: u64::MAX, rdi: 0x2000, rcx: 3, ..computing() };
        let word = |addr, len| (addr == Addr(0x200c) && len == 4).then(|| vec![1, 0, 0, 0x80]);
        assert_eq!(by_hand(&mut regs, &decode(&[0x8b, 0x04, 0x8f]), word), Some(Done::Load));
        assert_eq!((regs.rax, regs.rip), (0x8000_0001, 0x1003));
        let mut regs = computing();
        assert_eq!(by_hand(&mut regs, &decode(&[0x48, 0x83, 0xc0, 0x01]), none), None);
        assert_eq!(regs, computing());
    }
}
