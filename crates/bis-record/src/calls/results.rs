//! Calls that write much at once: what they wrote is recorded in pieces, so that what the recorder holds in
//! memory does not depend on the program's buffers.
//!
//! One `read` may bring gigabytes. The call itself is made as the program asks for it: to ask for less and
//! let the program see a short read would be allowed, but regular files never give one, and programs rely on
//! that. Instead the call has several events. All but the last write a piece of the result and leave the task
//! in front of the same system call, which it then makes again in replay; the last one is the call's own.
//! Nothing of the domain comes in between.
//!
//! Results that are too large for scratch memory go straight to the program's buffers. Nobody else runs
//! meanwhile where the call comes to an end by itself, which it does when it reads a file.
//!
//! What calls do to shared objects (`objects.rs`) is split the same way.

use std::{fs, mem};

use bis_syscalls::{Call, Output, Plan, row};
use bis_trace::{
    event::{Cloned, Effect, MemWrite, Outcome},
    types::{Addr, Fd, PAGE, Tid, prot},
};
use bis_tracee::{
    Memory, Usable,
    maps::{self, Extent},
    proc,
};

use crate::{
    calls::{
        Reader,
        args::FileTransfer,
        cloned::{Attempt, Run, is_worth_cloning},
    },
    crew::Crew,
    error::Result,
    events::Recorder,
    process::Process,
    space,
    task::InCall,
};

/// Bytes of results in one event, at most (but for the last bytes that are added to many small pieces).
const PIECE_BYTES_MAX: u64 = 1 << 20;

/// Is it a read from a file that is too large for scratch memory? It must not run beside other tasks, and
/// need not.
pub fn reads_much_of_a_file(tid: Tid, call: &Call, plan: &Plan) -> bool {
    let is_file = |fd: Fd| fs::metadata(proc::fd(tid, fd)).is_ok_and(|file| file.is_file());
    FileTransfer::of(call.nr, call.args).is_some_and(|it| it.reads)
        && space::is_too_large(plan)
        && is_file(Fd::of_arg(call.args[0]))
}

/// What of a call's results has been brought to where the program expects it, and is in no event yet.
#[derive(Default)]
pub struct Brought {
    /// What is cloned of the result, if anything is.
    clones: Option<Run>,
    /// How far that is, in the result, bytes.
    position: u64,
    cloned: Vec<Cloned>,
    writes: Vec<MemWrite>,
    /// How many bytes the writes hold.
    held: u64,
    /// Something had no place to go: the program may not write there (any longer, or the kernel could not be
    /// asked before).
    pub lost: bool,
}

impl Brought {
    /// Of `len` bytes of the result that come next: how many of them, from the first on, go into one piece,
    /// and whether they may be cloned.
    fn part(&self, len: u64) -> (u64, bool) {
        let len = len.min(PIECE_BYTES_MAX - self.held);
        self.clones.as_ref().map_or((len, false), |run| run.part(self.position, len))
    }

    /// What belongs into one event.
    pub fn take(&mut self) -> (Vec<Cloned>, Vec<MemWrite>) {
        self.held = 0;
        (mem::take(&mut self.cloned), mem::take(&mut self.writes))
    }
}

impl Recorder<'_> {
    /// Copies what the call wrote to where the program expects it, and returns what belongs into the call's
    /// event. What is more than one event should hold has events of its own then.
    pub fn bring_results(&mut self, tid: Tid, call: &mut InCall, result: i64) -> Result<Brought> {
        let pieces = &call.pieces;
        let outputs = pieces.plan().outputs(result, &|piece| pieces.place(piece).0, &Reader(&self.memory));
        let mut outputs = self.without_refused(tid, call, result, outputs);
        let clones = self.clone_result(tid, call, &outputs, result)?;
        if clones.is_none() {
            outputs.extend(torn(&self.memory, tid, call, result));
        }
        let mut brought = Brought { clones, ..Brought::default() };
        for Output { piece, offset, len } in outputs {
            let mut done = 0;
            while done < len {
                if brought.held >= PIECE_BYTES_MAX {
                    let (clones, writes) = brought.take();
                    self.write_early(tid, call, Outcome { clones, writes, ..Outcome::default() })?;
                }
                match self.bring_part(
                    tid,
                    call,
                    &mut brought,
                    Output { piece, offset: offset + done, len: len - done },
                )? {
                    Some(part) => done += part,
                    None => break,
                }
            }
        }
        Ok(brought)
    }

    /// Writes what the call has changed so far, if it is as much as one event should hold: what the caller
    /// has still to add goes into an outcome that is empty again. Only the order among what is added must
    /// matter, not that it comes at one moment.
    pub fn spill(&mut self, tid: Tid, call: &mut InCall, outcome: &mut Outcome) -> Result<()> {
        let in_effect = |effect: &Effect| match effect {
            Effect::WriteObject { data, .. } => data.len(),
            _ => 0,
        };
        let held = outcome.writes.iter().map(|write| write.data.len()).sum::<usize>()
            + outcome.effects.iter().map(in_effect).sum::<usize>();
        if (held as u64) < PIECE_BYTES_MAX {
            return Ok(());
        }
        let (writes, effects) = (mem::take(&mut outcome.writes), mem::take(&mut outcome.effects));
        let ours = outcome.ours.take();
        self.write_early(tid, call, Outcome { writes, effects, ours, ..Outcome::default() })
    }

    /// An event of the call that has this outcome and leaves the task in front of the call.
    fn write_early(&mut self, tid: Tid, call: &mut InCall, outcome: Outcome) -> Result<()> {
        let (kind, sums) = call.event_in_front(outcome);
        self.event_with(tid, kind, sums)
    }
}

impl Process {
    /// Clones the whole blocks of what a read from a file brought. None: all of it is to be copied.
    fn clone_result(
        &mut self,
        tid: Tid,
        call: &InCall,
        outputs: &[Output],
        result: i64,
    ) -> Result<Option<Run>> {
        let fd = Fd::of_arg(call.entry.args()[0]);
        let is_copied = || self.hooks.as_ref().is_some_and(|hooks| hooks.area.is_copied(fd));
        let Some(cloning) = &self.session.cloning else { return Ok(None) };
        if !is_worth_cloning(call) || is_copied() {
            return Ok(None);
        }
        let Some(pid) = self.tasks.get(&tid).map(|task| task.pid) else { return Ok(None) };
        match cloning.attempt(pid, call, outputs, result) {
            Attempt::Cloned(run) => return Ok(Some(run)),
            // A descriptor that does not exist may come to be another one.
            Attempt::Never if result >= 0 => {
                self.hooks.iter().for_each(|hooks| hooks.area.set_copied(fd));
            }
            Attempt::Never | Attempt::NotNow => {}
        }
        Ok(None)
    }
}

impl Crew {
    /// Brings the first part of an output to where the program expects it. How long that was; none: the rest
    /// of it is not there.
    fn bring_part(
        &self,
        tid: Tid,
        call: &InCall,
        brought: &mut Brought,
        output: Output,
    ) -> Result<Option<u64>> {
        let Output { piece, offset, len } = output;
        let (home, at) = (call.pieces.home(piece), call.pieces.place(piece));
        let (len, may_be_cloned) = brought.part(len);
        // After a success that overstates its length, what can be read is what was written.
        let data = self.memory.read_upto(at + offset, usize::try_from(len).unwrap_or(0));
        let is_short = (data.len() as u64) < len;
        let cloned = match (&mut brought.clones, &self.session.cloning) {
            (Some(run), Some(cloning)) if may_be_cloned && !is_short => {
                run.take(cloning, brought.position, home + offset, &data)
            }
            _ => None,
        };
        brought.position += len;
        if let Some(cloned) = cloned
            && (at == home || self.memory.write_as_program(tid, home + offset, &data)? == data.len())
        {
            brought.cloned.push(cloned);
            return Ok(Some(len));
        }
        brought.held += len;
        match call.pieces.in_scratch(piece) {
            Some(place) if at != home => {
                for (offset, mut data) in place.changes(offset, data) {
                    let done = self.memory.write_as_program(tid, home + offset, &data)?;
                    let is_lost = done < data.len();
                    data.truncate(done);
                    brought.writes.push(MemWrite { addr: home + offset, data });
                    if is_lost {
                        brought.lost = true;
                        return Ok(None);
                    }
                }
            }
            _ => brought.writes.push(MemWrite { addr: home + offset, data }),
        }
        Ok((!is_short).then_some(len))
    }
}

/// Does the call give no error where what is left of its time has no place to go?
pub fn ignores_lost_time(nr: u64) -> bool {
    row(nr).is_some_and(|row| row.ignores_lost_time)
}

/// The result of a call that could not use the program's memory.
pub const EFAULT: i64 = -(libc::EFAULT as i64);

/// The memory where a call's pieces are at home, page by page, as the task's mappings tell it. They are asked
/// once, and only if they have to be.
struct Pages<'c> {
    tid: Tid,
    call: &'c InCall,
    extents: Option<Vec<Extent>>,
}

impl Pages<'_> {
    fn of(tid: Tid, call: &InCall) -> Pages<'_> {
        Pages { tid, call, extents: None }
    }

    fn is_writable(&mut self, page: Addr) -> bool {
        let pieces = &self.call.pieces.plan().pieces;
        let extents = self.extents.get_or_insert_with(|| {
            let homes =
                pieces.iter().map(|piece| Addr(piece.home)..Addr(piece.home).saturating_add(piece.len));
            let pages: Vec<_> = homes.map(|home| home.start.page_floor()..home.end.page_ceil()).collect();
            maps::extents(self.tid, &pages).unwrap_or_default()
        });
        extents.iter().any(|extent| extent.range.contains(&page) && extent.prot & prot::WRITE != 0)
    }

    /// The parts of an output, whose piece is at `home`, that the program may write.
    fn writable_parts(&mut self, home: Addr, output: Output) -> Vec<Output> {
        let mut parts: Vec<Output> = Vec::new();
        let (mut at, end) = (output.offset, output.offset.saturating_add(output.len));
        while at < end {
            let addr = home.saturating_add(at);
            let next = end.min(at.saturating_add(PAGE - addr.0 % PAGE));
            if self.is_writable(addr.page_floor()) {
                match parts.last_mut().filter(|part| part.offset + part.len == at) {
                    Some(part) => part.len += next - at,
                    None => parts.push(Output { piece: output.piece, offset: at, len: next - at }),
                }
            }
            at = next;
        }
        parts
    }
}

impl Crew {
    /// The outputs without what the kernel could not write, where the program's memory is not writable:
    /// replay could not either, if it is shared.
    fn without_refused(&self, tid: Tid, call: &InCall, result: i64, outputs: Vec<Output>) -> Vec<Output> {
        let (failed, mut pages) = (result == EFAULT, Pages::of(tid, call));
        if !failed && !ignores_lost_time(call.entry.nr()) {
            return outputs;
        }
        let parts = |output: Output| {
            let home = call.pieces.home(output.piece);
            let range = home.saturating_add(output.offset)..home.saturating_add(output.offset + output.len);
            let is_kept = call.pieces.place(output.piece) != home
                || match self.memory.writable(tid, range) {
                    Usable::Surely(len) => len == output.len,
                    Usable::Perhaps(len) => len == output.len && !failed,
                };
            if is_kept { vec![output] } else { pages.writable_parts(home, output) }
        };
        outputs.into_iter().flat_map(parts).collect()
    }
}

/// What a call that failed where memory ends may have written before.
fn torn(memory: &Memory, tid: Tid, call: &InCall, result: i64) -> Vec<Output> {
    let mut pages = Pages::of(tid, call);
    let reader = Reader(memory);
    let is_writable = &mut |page| pages.is_writable(Addr(page));
    call.pieces.plan().torn(result, &|piece| call.pieces.place(piece).0, &reader, is_writable)
}
