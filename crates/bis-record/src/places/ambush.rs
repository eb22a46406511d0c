//! With chaos: stopping a task right in front of an instruction that others may care about, and keeping it
//! there.
//!
//! A race needs somebody who is stopped between two accesses to memory, and others who come by meanwhile. In
//! time such a window is nanoseconds wide, and no timer finds it; but a program has not many instructions
//! that touch memory that others see, and a stop in front of each of them in turn visits every window that
//! there is. So chaos draws an instruction that the task is likely to come to soon, and sets a breakpoint
//! there, a debug register: the task runs at full speed until it is at it. There it is paused, and *held* for
//! a while: it gets a turn only where no other task can run, or not even then.
//!
//! Which instructions come soon is not known, but guessed: where the task stands, and the addresses on its
//! stack, are where it will be or return to; from there the code is followed, both ways at each branch. A
//! wrong guess costs nothing: the task just does not come there.
//!
//! A signal that finds its task computing is treated likewise: its handler is called at a drawn instruction.
//!
//! Replay needs no more than for any pause, and less than for most: the task comes to the place for the first
//! time since its last event, so the first stop is the right one.

use bis_trace::types::{Addr, PAGE_LEN, prot};
use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Instant,
};

use bis_agent::OURS;
use bis_trace::{
    event::SignalPoint,
    types::{Registers, Tid},
};
use bis_tracee::{
    Memory,
    maps::{self, Mapping},
    place, proc,
    siginfo::SigInfo,
};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};

use crate::{chaos::Chaos, domain::Domain, error::Result, process::Process, task::Caught};

/// How much of the stack, and of what the thread register points to, is looked through for addresses of code.
/// The latter is where a thread that has just begun finds the function that it is to call.
const STACK_LEN: usize = 2048;
const THREAD_LEN: usize = 2304;

/// How many instructions a walk goes through, and how long each is at most.
const WALK_MAX: usize = 400;
const INSTRUCTION_MAX: usize = 15;

/// The frames of a stack are no further from its pointer than this: what is addressed by the frame pointer
/// then is a task's own.
const FRAMES_MAX: u64 = 1 << 20;

/// How many breakpoints wait for a task at a time, at most [`place::BREAKPOINTS`].
const POINTS: usize = 3;

impl Domain {
    /// The task is about to go on: draws whether it is to be stopped somewhere, and where. False: it has a
    /// report, which is to be looked at first.
    pub fn lie_in_wait(&mut self, tid: Tid) -> Result<bool> {
        match self.try_to_lie_in_wait(tid) {
            // Its end is on its way.
            Err(error) if error.is_death_of(tid) => {}
            other => other?,
        }
        Ok(!self.task(tid)?.report.is_there())
    }

    fn try_to_lie_in_wait(&mut self, tid: Tid) -> Result<()> {
        let Some(chaos) = self.session.chaos.clone() else { return Ok(()) };
        let rip = self.stopped(tid)?.regs()?.rip;
        // Where the task stands now, it is not stopped again: replay looks for the place further on.
        if self.task(tid)?.with_chaos.is_waited_for_at(Addr(rip)) {
            self.disarm(tid)?;
            if self.task(tid)?.report.is_there() {
                return Ok(());
            }
        }
        if self.task(tid)?.with_chaos.is_waited_for() && self.would_lose_trap(tid)? {
            self.disarm(tid)?;
            if self.task(tid)?.report.is_there() {
                return Ok(());
            }
        }
        let others = self.tasks.len() > 1 || self.holds_tokens();
        let Some(task) = self.tasks.get(&tid) else { return Ok(()) };
        // A task that is about to stop with its process would be waited for all that time.
        let stops = task.signals.stash.has_stop();
        let is_plain = task.call.is_none()
            && !task.standing.is_in_hook()
            && !task.signals.coming.is_any()
            && !self.session.traced.is_watched(tid)
            && !stops;
        let is_wanted = !task.signals.stash.is_empty() || others && !task.standing.is_midway();
        let is_drawn = is_plain && is_wanted && chaos.ambushes(task.with_chaos.is_waited_for());
        let is_first = !task.standing.is_midway();
        if !is_drawn || self.would_lose_trap(tid)? {
            return Ok(());
        }
        let began = Instant::now();
        if !is_first && !self.surroundings.is_known() {
            self.look_wide(tid)?;
        }
        let addrs = self.points_ahead(tid, &chaos)?;
        if !addrs.is_empty() {
            place::set_breakpoints(self.stopped(tid)?, &addrs)?;
            tracing::debug!(domain = %self.id, %tid, addrs = format_args!("{addrs:x?}"), "an ambush");
            self.task(tid)?.with_chaos.lie_in_wait(addrs, is_first);
        }
        chaos.count_lain(began.elapsed());
        Ok(())
    }

    /// Is the task in front of the instruction where it was waited for? True: it is, and that is done with.
    pub fn catch(&mut self, tid: Tid) -> Result<bool> {
        let Some(chaos) = self.session.chaos.clone() else { return Ok(false) };
        if !self.task(tid)?.with_chaos.is_waited_for() {
            return Ok(false);
        }
        let info = SigInfo(self.stopped(tid)?.siginfo()?);
        let regs = self.stopped(tid)?.regs()?;
        let caught = self.task(tid)?.with_chaos.caught_at(regs.ip()).filter(|_| info.is_debug_exception());
        let Some(Caught { left, is_first }) = caught else { return Ok(false) };
        let began = Instant::now();
        place::set_breakpoints(self.stopped(tid)?, &left)?;
        let task = self.task(tid)?;
        task.with_chaos.lie_in_wait(left, is_first);
        task.signals.coming.expect_none();
        let span = if is_first {
            Vec::new()
        } else {
            task.standing.set_midway(true);
            match self.find_place(tid)? {
                Some(span) => span,
                // Something else has come, or replay would not find the place in time.
                None => {
                    let task = self.task(tid)?;
                    if !task.report.is_there() {
                        task.standing.go_on();
                    }
                    return Ok(true);
                }
            }
        };
        let regs = self.pause(tid, span)?;
        if !self.deliver_stashed(tid, &regs, SignalPoint::AfterEvent)? {
            self.task(tid)?.standing.go_on();
            self.task(tid)?.with_chaos.keep(chaos.hold());
            // Somebody else is drawn.
            self.turns.end();
        }
        chaos.count_lain(began.elapsed());
        Ok(true)
    }
}

impl Process {
    /// Instructions that the task may come to, a few of them.
    fn points_ahead(&mut self, tid: Tid, chaos: &Chaos) -> Result<Vec<Addr>> {
        let regs = self.stopped(tid)?.regs()?;
        let mappings = maps::read(tid)?;
        let texts: Vec<&Mapping> = mappings.iter().filter(|m| is_text(m)).collect();
        let text_of = |addr: Addr| {
            let next = texts.partition_point(|m| m.end <= addr);
            texts.get(next).copied().filter(|m| m.start <= addr)
        };
        let words = |addr: Addr, len: usize| -> Vec<Addr> {
            let data = self.memory.read_upto(addr, len);
            let words =
                data.chunks_exact(8).map(|word| Addr(u64::from_le_bytes(std::array::from_fn(|i| word[i]))));
            words.filter(|word| text_of(*word).is_some()).collect()
        };
        let mut frames = words(regs.sp(), STACK_LEN);
        let bits = self.space.bits();
        frames.retain(|addr| is_behind_call(&self.memory, bits, *addr));
        let begins = words(Addr(regs.thread_pointer()), THREAD_LEN);
        // Where to begin, the nearest first, with how much of the stack is left behind then.
        let starts = [(regs.ip(), 0)].into_iter().chain(frames.iter().copied().zip(1..));
        let starts = starts.chain(begins.into_iter().map(|addr| (addr, frames.len())));
        let starts: Vec<(Addr, usize, &Mapping)> =
            starts.filter_map(|(addr, depth)| Some((addr, depth, text_of(addr)?))).collect();
        let program = proc::identity(proc::path(tid, "exe")).map_or(0, |(_, inode)| inode);
        let files: BTreeSet<u64> = starts.iter().map(|(.., text)| text.inode).collect();
        let files: Vec<u64> = files.into_iter().collect();
        let mut points = BTreeSet::new();
        for _ in 0..POINTS {
            // Half of the time in the program itself; else every file has the same chance, however many of
            // its addresses there are.
            let file =
                if files.contains(&program) && chaos.coin() { Some(program) } else { chaos.one_of(&files) };
            let starts: Vec<_> = starts.iter().filter(|(.., text)| Some(text.inode) == file).collect();
            let Some((start, depth, text)) = starts.get(chaos.one_of_first(starts.len())) else { break };
            let frames = frames.get(*depth..).unwrap_or_default();
            let mut found = ahead(&self.memory, &regs, text, *start, frames);
            found.retain(|addr| *addr != regs.ip());
            found.truncate(chaos.how_far());
            points.extend(chaos.one_of(&found));
        }
        Ok(points.into_iter().collect())
    }
}

/// Code of the program, not ours.
fn is_text(mapping: &Mapping) -> bool {
    // vdso and vsyscall are above all files; nothing there concerns others.
    mapping.prot & prot::EXEC != 0 && !OURS.contains(&mapping.start.0) && !mapping.name.starts_with(b"[v")
}

/// Does a call end in front of this address, so that it may be where a function returns to?
fn is_behind_call(memory: &Memory, bits: u32, addr: Addr) -> bool {
    const RELATIVE: u64 = 5;
    /// `call` by a register, or by memory with a displacement of none, one or four bytes, or one byte more
    /// for a base and index.
    const INDIRECT: [u64; 5] = [2, 3, 4, 6, 7];
    let ends_here = |len: u64| {
        let bytes = memory.read_upto(addr.wrapping_sub(len), usize::try_from(len).unwrap_or(0));
        let it = Decoder::with_ip(bits, &bytes, addr.wrapping_sub(len).0, DecoderOptions::NONE).decode();
        let is_call = matches!(it.flow_control(), FlowControl::Call | FlowControl::IndirectCall);
        is_call && it.next_ip() == addr.0 && it.mnemonic() == Mnemonic::Call
    };
    ends_here(RELATIVE) || INDIRECT.into_iter().any(ends_here)
}

/// The instructions that can be reached from `start`, within a mapping, and touch memory which others may
/// see, or call what is elsewhere: the nearest first. At branches both ways are gone; where the first
/// function returns, it goes on at the next of `frames`.
fn ahead(memory: &Memory, regs: &Registers, text: &Mapping, start: Addr, frames: &[Addr]) -> Vec<Addr> {
    let is_here = |addr: Addr| (text.start..text.end).contains(&addr);
    let code = Code { memory, bits: regs.bits(), pages: RefCell::default() };
    let mut frames = frames.iter().copied().filter(|addr| is_here(*addr));
    // With each: is it on the way out, or in a function that was called on this way?
    let mut ways = VecDeque::from([(start, true)]);
    let (mut seen, mut found) = (BTreeSet::new(), Vec::new());
    while let Some((at, is_outer)) = ways.pop_front()
        && seen.len() < WALK_MAX
    {
        if !seen.insert(at) {
            continue;
        }
        let it = code.decode(at);
        if it.is_invalid() {
            continue;
        }
        let is_near = matches!(it.op0_kind(), OpKind::NearBranch64 | OpKind::NearBranch32);
        let target = is_near.then(|| Addr(it.near_branch_target())).filter(|target| is_here(*target));
        let flow = it.flow_control();
        let calls = matches!(flow, FlowControl::Call | FlowControl::IndirectCall);
        let called = target.filter(|target| calls && !code.leads_away(*target));
        if touches_memory(regs, &it) || calls && called.is_none() {
            found.push(at);
        }
        match flow {
            FlowControl::Next => ways.push_back((Addr(it.next_ip()), is_outer)),
            FlowControl::ConditionalBranch => {
                ways.push_back((Addr(it.next_ip()), is_outer));
                ways.extend(target.map(|target| (target, is_outer)));
            }
            FlowControl::UnconditionalBranch => ways.extend(target.map(|target| (target, is_outer))),
            FlowControl::Call | FlowControl::IndirectCall => {
                ways.extend(called.map(|called| (called, false)));
                ways.push_back((Addr(it.next_ip()), is_outer));
            }
            FlowControl::Return if is_outer => ways.extend(frames.next().map(|frame| (frame, true))),
            _ => {}
        }
    }
    found
}

/// A program's text, read page by page.
struct Code<'a> {
    memory: &'a Memory,
    bits: u32,
    pages: RefCell<BTreeMap<Addr, Vec<u8>>>,
}

impl Code<'_> {
    fn decode(&self, at: Addr) -> Instruction {
        let page = at.page_floor();
        let mut pages = self.pages.borrow_mut();
        // With so much of the next page that an instruction may have there.
        let read = || self.memory.read_upto(page, PAGE_LEN + INSTRUCTION_MAX);
        let bytes = pages.entry(page).or_insert_with(read);
        let from = usize::try_from(at - page).unwrap_or(0).min(bytes.len());
        Decoder::with_ip(self.bits, &bytes[from..], at.0, DecoderOptions::NONE).decode()
    }

    /// Is there nothing but a jump to another file?
    fn leads_away(&self, target: Addr) -> bool {
        let mut it = self.decode(target);
        if it.mnemonic() == Mnemonic::Endbr64 {
            it = self.decode(Addr(it.next_ip()));
        }
        it.flow_control() == FlowControl::IndirectBranch
    }
}

/// Does it read or write memory that is not the task's own stack?
fn touches_memory(regs: &Registers, it: &Instruction) -> bool {
    let is_memory = |op: u32| it.op_kind(op) == OpKind::Memory;
    let frame = regs.rbp.wrapping_sub(regs.rsp) < FRAMES_MAX;
    let is_own = |base: Register| base == Register::RSP || base == Register::RBP && frame;
    // An address is computed, and nothing touched, by these.
    let is_idle = matches!(it.mnemonic(), Mnemonic::Lea | Mnemonic::Nop);
    let touches = (0..it.op_count()).any(is_memory) && !is_own(it.memory_base());
    (touches || it.is_string_instruction()) && !is_idle
}
