//! Calls of functions, and all else that a user does to the program: in a copy of it, which is thrown away.
//!
//! gdb calls a function by itself: it writes arguments, a return address and registers, lets the program go
//! on to a breakpoint at that address, and puts the registers back. Nothing in its packets says so but this:
//! before the first write it reads what is known of the last signal (`qXfer:siginfo:read`), and when all is
//! over it writes that back. A user who looks at `$_siginfo` makes gdb read it, too. So it is the first write
//! behind such a reading that makes the copy ([`Aside::is_asked`]).
//!
//! When the function has returned, gdb may still look at what it has left: the string to which it returns a
//! pointer. And the bytes of a literal are written behind the call of `malloc` that makes room for them, and
//! before the call in which they are an argument. So the copy stays until the program goes on, or gdb's
//! prompt is there again (`gdb_script.gdb` tells); in this time nothing can be written but where the last
//! function's result points.
//!
//! A user who wants to write, or to try what would happen next, asks for a copy in so many words (`divert`).
//!
//! LLDB says when a call begins: it has the registers kept (`QSaveRegisterState`), and put back in the end.
//! What it wants to find again afterwards is in memory that it has asked for ([`super::lent`]). So its copy
//! ends with the call.

use std::ops::Range;

use bis_replay::{Diversion, Going, Halt, Heard, Paused, Piece};
use bis_trace::types::{Addr, Registers, Signal, StandardStream, Tid};
use bis_tracee::maps::Mapping;

use super::{
    Report, Session, Trouble, Why,
    aside::{Diverted, Held, Kept},
    live::Live,
    look::number,
    points::{Asker, Values},
    unwritten,
};
use crate::protocol::{
    command::{Point, PointKind},
    target::{Target, WriteError},
};

/// What refuses to write.
const NO_WRITING: &str = "The recording cannot be changed, its registers and memory are as they were. `divert` makes a copy of the \
                          program here, in which they can be.";

/// What refuses to write where the program still runs.
const NO_WRITING_BEHIND: &str = "What the program has done cannot be changed: its memory can be written where it stands itself, at the \
                                 end of the log (`continue` leads there), if one of its threads is in no system call there. `divert` makes a \
                                 copy of the program here, which can be changed.";

/// Why something was not written.
pub enum Refusal {
    Failed(String),
    Bad(WriteError),
}

impl Refusal {
    /// For people.
    pub fn text(&self) -> String {
        match self {
            Refusal::Failed(why) => why.clone(),
            Refusal::Bad(error) => error.to_string(),
        }
    }
}

impl From<Trouble> for Refusal {
    fn from(trouble: Trouble) -> Refusal {
        Refusal::Failed(trouble.text())
    }
}

impl From<Halt> for Refusal {
    fn from(halt: Halt) -> Refusal {
        Trouble::Halt(halt).into()
    }
}

/// A change of registers.
pub type Change<'a> = &'a dyn Fn(&Target, &mut Registers, &mut Vec<u8>) -> Result<(), WriteError>;

impl<'t> Session<'t> {
    /// The client has read what is known of the last signal.
    pub fn expect_call(&mut self) {
        self.aside.is_asked = true;
    }

    /// The client has written that back: a call is over.
    pub fn end_call(&mut self) {
        self.aside.is_asked = false;
        if let Some(diverted) = &mut self.aside.diverted {
            diverted.calls = diverted.calls.saturating_sub(1);
        }
    }

    /// The client is at rest, and the user about to say what comes next. Was a copy thrown away that was
    /// still to be looked at? And what was refused meanwhile, and not told.
    pub fn at_prompt(&mut self) -> (bool, Option<String>) {
        self.aside.is_asked = false;
        self.forget_given_up();
        let is_over = self.aside.diverted.is_some() && !self.is_diverted();
        if is_over {
            self.end_diversion();
        }
        (is_over, self.aside.refused.take())
    }

    /// The user wants a copy in which anything can be done.
    ///
    /// # Errors
    /// Where there is one already, or there can be none.
    pub fn divert(&mut self, tid: Tid) -> Result<(), Refusal> {
        if self.is_diverted() {
            return Err(Refusal::Failed(
                "this is a copy already; `divert end` leads back to the recording".into(),
            ));
        }
        self.end_diversion();
        self.begin_diversion(tid)?.is_open = true;
        Ok(())
    }

    /// A client that gives a call up in which another one was made does not say so; but its registers are
    /// back.
    pub fn forget_given_up(&mut self) {
        let Some(diverted) = &mut self.aside.diverted else { return };
        let of = |replica: &bis_replay::Replica<'t>| replica.registers(diverted.tid).ok();
        if of(diverted.diversion.replica()) == of(&self.live.replica) {
            diverted.calls = 0;
        }
    }

    /// The copy is thrown away. True: a call was going on in it, or the user had asked for it.
    pub fn end_diversion(&mut self) -> bool {
        let was_diverted = self.is_diverted();
        self.aside.is_asked = false;
        if let Some(diverted) = self.aside.diverted.take() {
            self.tid = diverted.tid_outside;
            let ranges: Vec<_> =
                self.aside.lent.ranges().filter(|range| !self.has_program_at(range)).collect();
            for range in ranges {
                let len = usize::try_from(range.end.saturating_since(range.start)).unwrap_or(0);
                let now = diverted.diversion.replica().read_program(range.start, len);
                self.aside.lent.write(range.start, &now);
            }
        }
        was_diverted
    }

    /// Memory of the client's own, of so many bytes, in copies of the program. None: there is none.
    pub fn lend(&mut self, len: u64) -> Option<Addr> {
        let is_narrow = self.is_narrow();
        let mapped: Vec<Range<Addr>> =
            self.shown().maps().ok()?.into_iter().map(|mapping| mapping.start..mapping.end).collect();
        let start = self.aside.lent.lend(len, is_narrow, &mapped)?;
        let end = self.aside.lent.around(start)?.end;
        if let Some(diverted) = &mut self.aside.diverted
            && diverted.diversion.map(start..end).is_err()
        {
            self.aside.lent.give_back(start);
            return None;
        }
        Some(start)
    }

    /// The client has no use for that any more. False: it never was its own.
    pub fn take_back(&mut self, addr: Addr) -> bool {
        let Some(range) = self.aside.lent.around(addr).filter(|range| range.start == addr) else {
            return false;
        };
        if let Some(diverted) = &mut self.aside.diverted
            && let Err(halt) = diverted.diversion.unmap(range)
        {
            tracing::debug!(why = Trouble::Halt(halt).text(), "what was lent stays in the copy");
        }
        self.aside.lent.give_back(addr)
    }

    /// The client's own memory.
    pub fn lent(&self) -> Vec<Range<Addr>> {
        self.aside.lent.ranges().collect()
    }

    /// A client calls a function next, in this task: its registers are kept, in a copy. The number by which
    /// they are put back.
    ///
    /// # Errors
    /// Where there can be no copy.
    pub fn keep_registers(&mut self, tid: Tid) -> Result<u64, Refusal> {
        let Some((registers, extended)) = self.registers(tid) else {
            return Err(Refusal::Failed("there is no such thread here".into()));
        };
        if !self.is_diverted() {
            self.end_diversion();
            self.begin_diversion(tid)?;
        }
        self.look_for_fflush();
        self.aside.kept += 1;
        let number = self.aside.kept;
        if let Some(diverted) = &mut self.aside.diverted {
            diverted.calls += 1;
            diverted.tid = tid;
            diverted.kept.push(Kept { number, tid, registers, extended, return_to: None });
        }
        Ok(number)
    }

    /// The call is over, and those made in it. A copy that was made for it is thrown away. None: there is no
    /// such number.
    ///
    /// # Errors
    /// Where the registers of a copy that stays cannot be put back.
    pub fn put_registers_back(&mut self, number: u64) -> Result<Option<()>, Refusal> {
        let Some(diverted) = &mut self.aside.diverted else { return Ok(None) };
        let Some(at) = diverted.kept.iter().position(|kept| kept.number == number) else { return Ok(None) };
        let over = diverted.kept.split_off(at);
        diverted.calls = diverted.calls.saturating_sub(u32::try_from(over.len()).unwrap_or(u32::MAX));
        if !diverted.is_writable() {
            self.end_diversion();
            return Ok(Some(()));
        }
        if let Some(Kept { tid, registers, extended, .. }) = over.first() {
            diverted.diversion.set_registers(*tid, registers, Some(extended))?;
        }
        Ok(Some(()))
    }

    /// Puts a breakpoint or watchpoint in.
    pub fn insert_point(&mut self, point: Point) {
        if self.is_diverted() && point.kind.is_breakpoint() && !self.is_executable(point.addr) {
            self.points.add_return(point.addr);
        }
        self.points.insert(point);
    }

    fn is_executable(&self, addr: Addr) -> bool {
        let is_it = |mapping: &Mapping| {
            (mapping.start..mapping.end).contains(&addr)
                && mapping.prot & libc::PROT_EXEC.cast_unsigned() != 0
        };
        self.shown().maps().is_ok_and(|maps| maps.iter().any(is_it))
    }

    /// A copy of where the user stands in the recording.
    fn copy(&mut self) -> Result<Diversion<'t>, Trouble> {
        let checkpoint = self.live.replica.checkpoint(&mut self.live.company)?;
        let (replica, company) = match checkpoint {
            Some(mut checkpoint) => checkpoint.resume()?,
            // It cannot be copied where it stands, but led there once more.
            None => {
                let Live { replica, company, .. } = self.travel(&self.position.clone())?;
                (replica, company)
            }
        };
        Ok(replica.divert(company)?)
    }

    fn begin_diversion(&mut self, tid: Tid) -> Result<&mut Diverted<'t>, Refusal> {
        let mut diversion = self.copy()?;
        for (addr, bytes) in self.aside.lent.all() {
            // Where the program has something there by now, that is its own.
            if diversion.map(addr..addr + bytes.len() as u64).is_ok() {
                diversion.write(addr, bytes)?;
            }
        }
        let diverted = Diverted {
            diversion,
            calls: 0,
            is_open: false,
            tid,
            tid_outside: self.tid,
            returned: None,
            signal: None,
            held: None,
            kept: Vec::new(),
        };
        Ok(self.aside.diverted.insert(Box::new(diverted)))
    }

    /// The copy to be written to, which is made if a call begins. None: there is none, and none begins.
    fn writable(&mut self, tid: Tid) -> Result<Option<&mut Diverted<'t>>, Refusal> {
        if std::mem::take(&mut self.aside.is_asked) {
            if self.aside.diverted.is_none() {
                self.begin_diversion(tid)?;
            }
            if let Some(diverted) = &mut self.aside.diverted {
                diverted.calls += 1;
                diverted.tid = tid;
            }
        }
        Ok(self.aside.diverted.as_deref_mut())
    }

    /// Writes into memory, in a copy.
    ///
    /// # Errors
    /// Where the recording would be changed.
    pub fn write_memory(&mut self, tid: Tid, addr: Addr, bytes: &[u8]) -> Result<(), Refusal> {
        let range = addr..addr.saturating_add(bytes.len() as u64);
        if self.aside.diverted.is_none() && !self.has_program_at(&range) && self.aside.lent.write(addr, bytes)
        {
            return Ok(());
        }
        let result = match self.writable(tid)? {
            Some(diverted) if diverted.may_write(addr) => {
                diverted.diversion.write(addr, bytes).map_err(Refusal::from)
            }
            Some(_) => Err(Refusal::Failed(NO_WRITING.into())),
            None => match self.write_to_program(tid, addr, bytes)? {
                true => Ok(()),
                false if self.is_live() => Err(Refusal::Failed(NO_WRITING_BEHIND.into())),
                false => Err(Refusal::Failed(NO_WRITING.into())),
            },
        };
        if let Err(refusal) = &result {
            self.aside.refused = Some(refusal.text());
        }
        result
    }

    /// Changes registers of a task, in a copy. Registers that have the values already are no change.
    ///
    /// # Errors
    /// Where the recording would be changed.
    pub fn write_registers(&mut self, tid: Tid, change: Change<'_>) -> Result<(), Refusal> {
        let is_asked = self.aside.is_asked;
        let Some((before, extended_before)) = self.registers(tid) else {
            return Err(Refusal::Failed("there is no such thread here".into()));
        };
        let (mut registers, mut extended) = (before, extended_before.clone());
        change(self.targets.of(&before), &mut registers, &mut extended).map_err(Refusal::Bad)?;
        let is_same = registers == before && extended == extended_before;
        if is_same && !is_asked {
            return Ok(());
        }
        let outside = self.live.replica.registers(tid).ok();
        let Some(diverted) = self.writable(tid)? else { return Err(Refusal::Failed(NO_WRITING.into())) };
        // When a call is over, its client puts the registers back.
        let is_back = |outside: Registers| {
            let words = registers.words().into_iter().zip(before.words()).zip(outside.words());
            words.into_iter().all(|((now, before), outside)| now == before || now == outside)
        };
        if !diverted.is_writable() && !outside.is_some_and(is_back) {
            return Err(Refusal::Failed(NO_WRITING.into()));
        }
        let extended = (extended != extended_before).then_some(&extended[..]);
        Ok(diverted.diversion.set_registers(tid, &registers, extended)?)
    }

    /// Lets the copy go on: one task in it, by one instruction with `step`, or as many as lie in a range. A
    /// signal is what the client wants the program to get.
    pub fn go_diverted(
        &mut self,
        step: Option<(Tid, Option<(Addr, Addr)>)>,
        signal: Option<Signal>,
    ) -> Report {
        let report = match signal {
            Some(signal) => Ok(self.over(&format!("would get {signal} now, which only the recording can"))),
            None => self.diverted_forward(step),
        };
        let report = report.unwrap_or_else(|trouble| self.over(&trouble.text()));
        self.tid = report.tid;
        report
    }

    /// The copy cannot go on, and is thrown away.
    fn over(&mut self, why: &str) -> Report {
        self.end_diversion();
        self.say_line(&format!(
            "bis: the copy of the program {why}. It is thrown away; the program stands in the recording as before."
        ));
        Report { tid: self.tid, why: Why::Arrived }
    }

    /// A function whose caller's registers were kept begins: its return address is on top of the stack.
    fn foresee_return(&mut self) {
        let Some(diverted) = &mut self.aside.diverted else { return };
        let Some(kept) = diverted.kept.last_mut().filter(|kept| kept.return_to.is_none()) else { return };
        let replica = diverted.diversion.replica();
        kept.return_to = replica.registers(kept.tid).ok().map(|registers| {
            let len = if registers.is_narrow() { 4 } else { 8 };
            Addr(number(&replica.read_program(registers.sp(), len)))
        });
    }

    fn diverted_forward(&mut self, step: Option<(Tid, Option<(Addr, Addr)>)>) -> Result<Report, Trouble> {
        self.foresee_return();
        let points = self.points.breakpoints_and_returns();
        let watches = self.points.watches();
        let values = self.arm_diverted(&points, &watches)?;
        let mut walk = Walk { step, values, past: false };
        loop {
            let Some(diverted) = &mut self.aside.diverted else {
                return Ok(Report { tid: self.tid, why: Why::Arrived });
            };
            let tid = step.map_or(diverted.tid, |(tid, _)| tid);
            let interrupt = self.stopper.interrupt_of();
            let past = std::mem::take(&mut walk.past);
            let going = Going { tid, step: step.is_some(), past, interrupt };
            let mut heard = Vec::new();
            let paused = diverted.diversion.run(&going, &mut |news| heard.push(news))?;
            heard.into_iter().for_each(|news| self.hear(news));
            if let Some(report) = self.at_pause(tid, paused, &mut walk) {
                return Ok(report);
            }
        }
    }

    fn arm_diverted(
        &mut self,
        points: &std::collections::BTreeSet<Addr>,
        watches: &[Piece],
    ) -> Result<Values, Halt> {
        let Some(diverted) = &mut self.aside.diverted else { return Ok(Values::default()) };
        diverted.signal = None;
        let replica = diverted.diversion.replica_mut();
        replica.set_points(points)?;
        replica.set_watches(watches)?;
        Ok(self.points.values(replica))
    }

    /// None: it is no stop for the user.
    fn at_pause(&mut self, tid: Tid, paused: Paused, walk: &mut Walk) -> Option<Report> {
        let why = match paused {
            Paused::Point(addr) => self.at_diverted_point(tid, addr, walk)?,
            Paused::Watched(pieces) => {
                let diverted = self.aside.diverted.as_ref()?;
                let asker = &mut Asker { replica: diverted.diversion.replica(), targets: &self.targets, tid };
                let (found, now) = self.points.watchpoint(Some(&pieces), &walk.values, asker);
                walk.values = now;
                let (kind, addr) = found?;
                Why::Watchpoint { kind, addr }
            }
            Paused::Stepped => {
                let (_, range) = walk.step?;
                let rip = self.registers(tid).map_or(0, |(registers, _)| registers.rip);
                let in_range = range.is_some_and(|(start, end)| (start..end).contains(&Addr(rip)));
                if in_range && !self.points.breakpoints().contains(&Addr(rip)) {
                    return None;
                }
                Why::Step
            }
            Paused::Signal(info) => {
                self.aside.diverted.as_mut()?.signal = Some(info);
                Why::Signal(info.signal())
            }
            Paused::Interrupted => {
                self.stopper.interrupt_of().take();
                if !self.stopper.take() {
                    return None;
                }
                Why::Interrupted
            }
            Paused::Over(why) => return Some(self.over(&why)),
        };
        Some(Report { tid, why })
    }

    fn at_diverted_point(&mut self, tid: Tid, addr: Addr, walk: &mut Walk) -> Option<Why> {
        let diverted = self.aside.diverted.as_mut()?;
        let replica = diverted.diversion.replica();
        diverted.returned = replica.registers(tid).ok().map(|registers| registers.rax);
        let is_return = diverted.kept.last().is_some_and(|kept| kept.return_to == Some(addr));
        let asker = &mut Asker { replica, targets: &self.targets, tid };
        let point = self.points.breakpoint_at(addr, asker);
        let printed = point.map_or(Vec::new(), |point| asker.print(&point.commands));
        let is_hardware = point.is_some_and(|point| point.kind == PointKind::Hardware);
        let stops = point.is_some_and(|point| point.commands.is_empty());
        if !printed.is_empty() {
            self.say(printed);
        }
        walk.past = !stops;
        if self.points.is_return(addr) || is_return {
            self.show_held(tid, addr.0);
        }
        stops.then_some(Why::Breakpoint { is_hardware })
    }

    /// A function that the user has called has returned: what it has left in the C library's buffers is
    /// shown.
    fn show_held(&mut self, tid: Tid, at: u64) {
        let Some(fflush) = self.fflush else { return };
        let Some(diverted) = self.aside.diverted.as_mut().filter(|diverted| diverted.calls == 1) else {
            return;
        };
        let around = (&self.alarm, &*self.stopper.interrupt);
        match unwritten::flush(&mut diverted.diversion, (tid, fflush, Addr(at)), around) {
            Ok(held) => held.into_iter().for_each(|(stream, bytes)| self.hear_output(stream, bytes)),
            Err(halt) => tracing::debug!(why = Trouble::Halt(halt).text(), "the C library does not write"),
        }
    }

    /// What the library holds where the user stands in the recording.
    fn held_outside(&mut self, tid: Tid) -> Held {
        let Some(fflush) = self.fflush else { return Held::new() };
        let flushed = self.copy().and_then(|mut copy| {
            let at = copy.replica().registers(tid)?.rsp;
            unwritten::flush(&mut copy, (tid, fflush, Addr(at)), (&self.alarm, &self.stopper.interrupt))
                .map_err(Into::into)
        });
        flushed.unwrap_or_else(|trouble| {
            tracing::debug!(why = trouble.text(), "what the C library holds cannot be told");
            Held::new()
        })
    }

    fn hear_output(&mut self, stream: StandardStream, bytes: Vec<u8>) {
        let Some((tid, held)) =
            self.aside.diverted.as_mut().map(|diverted| (diverted.tid, diverted.held.take()))
        else {
            return;
        };
        let mut held = held.unwrap_or_else(|| self.held_outside(tid));
        let own = held.get(&stream).filter(|own| bytes.starts_with(own)).map_or(0, Vec::len);
        if own > 0 {
            held.remove(&stream);
        }
        if let Some(diverted) = &mut self.aside.diverted {
            diverted.held = Some(held);
        }
        if own < bytes.len() {
            self.say(&bytes[own..]);
        }
    }

    fn hear(&mut self, news: Heard) {
        match news {
            Heard::Output(stream, bytes) => self.hear_output(stream, bytes),
            Heard::Refused(nr) => {
                let name = bis_syscalls::name(nr).map_or_else(|| format!("number {nr}"), str::to_owned);
                self.say_line(&format!(
                    "bis: the function makes system call {name}, which a copy of the program does not have: it fails with \
                     ENOSYS"
                ));
            }
        }
    }
}

/// How a copy is led on.
struct Walk {
    step: Option<(Tid, Option<(Addr, Addr)>)>,
    values: Values,
    /// The breakpoint where it stands is to be passed.
    past: bool,
}
