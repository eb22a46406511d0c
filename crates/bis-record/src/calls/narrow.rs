//! The calls of 32-bit programs (`int 0x80`), and those that a 64-bit program makes of their table.
//!
//! Such a call stops at its entry like any other. In its place the task makes the call of the 64-bit table
//! that does the same (a *thunk*), at an instruction of the agent's, with what the kernel reads laid out anew
//! in a room of ours; so all that is known of calls here holds for it. When it has returned, what it has
//! written is laid out as the program expects it, and the task gets its own registers back. A few calls must
//! be the program's own, because the kernel remembers which table they came from, or chooses addresses by it:
//! those are made as they are, and the table of 64-bit calls is only asked about them.
//!
//! Events tell the call as the program has made it, so replay, which makes no call, needs to know none of
//! this, but the descriptors of thread-local storage ([`Effect::Segment`]).

use std::sync::PoisonError;

use bis_agent::NARROW_SYSCALL;
use bis_syscalls::{
    Call, INT80_INSN,
    narrow::{self, NarrowCall, ROOM_LEN, Thunk, Translated},
};
use bis_trace::{
    event::{Effect, MemWrite, Outcome, RangeSum},
    types::{Addr, Registers, Tid},
};
use bis_tracee::{Memory, remote};

use super::{Reader, args::CloneArgs, is_vsyscall};
use crate::{
    crew::{Crew, with_slot},
    domain::Domain,
    error::{RecordError, Result},
    process::Process,
    session::Session,
    space::Room,
    task::{AsMade, InCall, Narrow, Way},
};

/// The number of set_thread_area in the 64-bit table, where it is not implemented.
const SET_THREAD_AREA: u64 = libc::SYS_set_thread_area.cast_unsigned();

/// What stands for a call that no table has.
const NO_CALL: Call = Call { nr: u64::MAX, args: [0; 6] };

/// Bytes of a `struct user_desc`.
const DESCRIPTOR_LEN: usize = 16;

/// clone: the child gets the thread-local storage that an argument says.
const CLONE_SETTLS: u64 = libc::CLONE_SETTLS as u64;

const _: () = assert!(bis_syscalls::NARROW_TABLE == bis_trace::types::NARROW_TABLE);

/// The call that these registers make, if they are those of a call of the 32-bit table.
pub(super) fn made(entry: &Registers) -> NarrowCall {
    let low = |register: u64| u32::try_from(register & u64::from(u32::MAX)).unwrap_or(0);
    let args = [entry.rbx, entry.rcx, entry.rdx, entry.rsi, entry.rdi, entry.rbp].map(low);
    NarrowCall { nr: low(entry.orig_rax), args }
}

/// As if the call had been made with the registers of the 64-bit table.
fn view(entry: &Registers, call: &Call) -> Registers {
    let [rdi, rsi, rdx, r10, r8, r9] = call.args;
    Registers { orig_rax: call.nr, rdi, rsi, rdx, r10, r8, r9, ..*entry }
}

/// The 64-bit call that is asked about in a narrow one's place.
pub fn as_wide(translated: &Translated) -> Call {
    match translated {
        Translated::Own(own) => own.call,
        Translated::Thunk(thunk) => thunk.call,
        Translated::Refused(..) | Translated::Done(_) => NO_CALL,
    }
}

/// A narrow call of which it is not decided yet whether, and how, it is made.
pub fn not_made_yet(entry: &Registers, sums: Vec<RangeSum>) -> InCall {
    let narrow = Narrow { outer: *entry, way: Way::NotMade };
    InCall::new(AsMade::of_narrow(view(entry, &NO_CALL), narrow), sums)
}

impl Domain {
    /// At the entry of a narrow call: the call that the kernel makes for it, and what it is known by here.
    /// None: it is not made, or not yet, and all is done.
    pub fn enter_narrow(
        &mut self,
        tid: Tid,
        entry: &Registers,
        translated: Translated,
        sums: Vec<RangeSum>,
    ) -> Result<Option<(Call, InCall)>> {
        let narrow = |way| Narrow { outer: *entry, way };
        let (call, way) = match translated {
            Translated::Own(own) => (own.call, Way::Own(own)),
            Translated::Thunk(_) if !self.make_narrow_room(tid, entry)? => return Ok(None),
            Translated::Thunk(thunk) => (thunk.call, Way::Thunk(Box::new(thunk))),
            Translated::Refused(errno, why) => {
                note_refused(&self.session, tid, made(entry).nr, why)?;
                let state = not_made_yet(entry, sums);
                return self.not_made(tid, state, -i64::from(errno)).map(|()| None);
            }
            Translated::Done(result) => {
                let state = not_made_yet(entry, sums);
                return self.not_made(tid, state, result).map(|()| None);
            }
        };
        let wide = match &way {
            Way::Thunk(thunk) => self.go_to_thunk(tid, entry, thunk)?,
            Way::Own(_) | Way::NotMade => view(entry, &call),
        };
        Ok(Some((call, InCall::new(AsMade::of_narrow(wide, narrow(way)), sums))))
    }

    /// The thread gets room for what the calls in place of its narrow ones read. False: it was mapped only
    /// now, and the call is undone for that.
    fn make_narrow_room(&mut self, tid: Tid, entry: &Registers) -> Result<bool> {
        match self.space.scratch().narrow_room(tid, ROOM_LEN) {
            Room::At(_) => Ok(true),
            Room::Map(base, len) => {
                // The call is skipped by this, and made again from its begin.
                with_slot(self, tid, |domain, slot| {
                    domain.space.scratch_mut().map_narrow(slot, tid, base, len)
                })?;
                self.undo(tid, entry)?;
                Ok(false)
            }
            Room::None => {
                let what = "makes 32-bit calls in more threads than there is room for".into();
                Err(RecordError::Unsupported { tid, what })
            }
        }
    }
}

impl Crew {
    /// The task, at the entry of its narrow call, goes to that of the call in its place, which finds what it
    /// reads in the thread's room. Its registers there.
    fn go_to_thunk(&mut self, tid: Tid, entry: &Registers, thunk: &Thunk) -> Result<Registers> {
        self.memory.write(Addr(thunk.room()), &thunk.content)?;
        let [rdi, rsi, rdx, r10, r8, r9] = thunk.call.args;
        let begin = Registers {
            rip: NARROW_SYSCALL,
            rax: thunk.call.nr,
            orig_rax: u64::MAX,
            rdi,
            rsi,
            rdx,
            r10,
            r8,
            r9,
            ..*entry
        };
        with_slot(self, tid, |_, slot| Ok(remote::go_to_call(slot, &begin.wide())?))?;
        Ok(self.stopped(tid)?.regs()?)
    }
}

impl Process {
    /// What becomes of the narrow call that these registers make.
    pub fn translated(&self, tid: Tid, entry: &Registers) -> Translated {
        let room = self.space.scratch().narrow_base(tid);
        narrow::translate(&made(entry), room.0, &Reader(&self.memory))
    }
}

impl Crew {
    /// Does a call that stands at its entry with these registers have its number in the 32-bit table? A
    /// 64-bit program can make one, too.
    pub fn is_narrow(&self, entry: &Registers) -> bool {
        // The instruction of a 64-bit call leaves in rcx where it is gone on from (Intel SDM volume 2,
        // SYSCALL).
        let is_by_syscall = entry.rcx == entry.rip || is_vsyscall(entry);
        let is_int80 = || self.memory.read_upto(entry.ip().wrapping_sub(2), INT80_INSN.len()) == INT80_INSN;
        entry.is_narrow() || !is_by_syscall && is_int80()
    }

    /// The result proper of a call that has come back with this one: a narrow one may have stored it in
    /// memory.
    pub fn own_result(&self, call: &InCall, result: i64) -> i64 {
        let at = call.entry.own_narrow().and_then(|own| own.result_at).filter(|_| result == 0);
        at.and_then(|at| self.memory.read_u32(Addr(at)).ok()).map_or(result, i64::from)
    }

    /// A narrow call has ended: its outcome becomes what the program gets.
    pub fn leave_narrow(
        &mut self,
        tid: Tid,
        call: &mut InCall,
        result: i64,
        outcome: &mut Outcome,
    ) -> Result<()> {
        let Some(narrow) = call.entry.narrow() else { return Ok(()) };
        match &narrow.way {
            Way::NotMade => Ok(()),
            Way::Own(own) => {
                let is_error = (-4095..0).contains(&result);
                for (addr, len) in own.outputs.iter().flatten().filter(|_| !is_error) {
                    let (addr, len) = (Addr(*addr), usize::try_from(*len).unwrap_or(0));
                    outcome.writes.push(MemWrite { addr, data: self.memory.read_upto(addr, len) });
                }
                // The kernel leaves a result's sign in the upper half, which the program does not see.
                outcome.regs.rax = narrow.result(outcome.regs.result());
                if call.entry.nr() == SET_THREAD_AREA && !is_error {
                    outcome.effects.extend(segment(&self.memory, tid, Addr(call.entry.args()[0])));
                }
                Ok(())
            }
            Way::Thunk(thunk) => {
                // What the call does here may have changed its result.
                let (result, writes) = thunk.finish(outcome.regs.result(), &Reader(&self.memory));
                // What it has written to the room, replay does not have.
                let room = Addr(thunk.room());
                outcome.writes.retain(|write| !(room..room + ROOM_LEN).contains(&write.addr));
                let mut result = result;
                for (addr, data) in writes {
                    if self.put(Addr(addr), data, outcome).is_err() {
                        result = -i64::from(libc::EFAULT);
                        break;
                    }
                }
                let orig_rax = narrow.outer.orig_rax;
                let rax = narrow.result(result);
                outcome.regs = Registers { rax, orig_rax, ..returned(narrow.outer) };
                Ok(())
            }
        }
    }

    /// What a new task of a narrow maker has of thread-local storage, where its maker says it.
    pub fn segment_of_child(&mut self, tid: Tid, child: Tid) -> Result<Option<Effect>> {
        let call = self.call(tid)?;
        let (made, is_narrow) = (call.entry.call(), call.entry.narrow().is_some());
        let CloneArgs { flags, storage, .. } = CloneArgs::of(&made, &self.memory);
        let is_said = is_narrow && flags & CLONE_SETTLS != 0;
        Ok(is_said.then(|| segment(&self.memory, child, storage)).flatten())
    }
}

/// The registers at a call's entry, as the kernel returns with them. From a `syscall` in 32-bit text, whose
/// entry puts the stack pointer into r8, it returns by `sysret`, which clears three that such text cannot see
/// (`arch/x86/entry/entry_64_compat.S`). In replay that is so by itself.
fn returned(entry: Registers) -> Registers {
    let is_by_syscall = entry.is_narrow() && entry.r8 == entry.rsp;
    if is_by_syscall { Registers { r8: 0, r9: 0, r10: 0, ..entry } } else { entry }
}

/// Notes that 32-bit programs are refused a call; once, however many make it.
fn note_refused(session: &Session, tid: Tid, nr: u32, why: &str) -> Result<()> {
    if !session.refused.lock().unwrap_or_else(PoisonError::into_inner).insert(nr) {
        return Ok(());
    }
    let name = narrow::name(nr).unwrap_or("a call without a name");
    let text = format!("{name} fails in 32-bit programs (task {tid} is the first to make it): {why}");
    session.note(session.writer.next_seq(), text)
}

/// The descriptor of thread-local storage at this address, as the effect that sets it for a task.
fn segment(memory: &Memory, tid: Tid, addr: Addr) -> Option<Effect> {
    let bytes = memory.read_vec(addr, DESCRIPTOR_LEN).ok()?;
    Some(Effect::Segment { tid, descriptor: *bytes.first_chunk()? })
}
