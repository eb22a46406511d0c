//! Calls that write much at once: what they wrote is recorded in pieces, so that what the recorder holds in memory
//! does not depend on the program's buffers.
//!
//! One `read` may bring gigabytes. The call itself is made as the program asks for it: to ask for less and let the
//! program see a short read would be allowed, but regular files never give one, and programs rely on that. Instead
//! the call has several events. All but the last write a piece of the result and leave the task in front of the
//! same system call, which it then makes again in replay; the last one is the call's own. Nothing of the domain
//! comes in between.
//!
//! Results that are too large for scratch memory go straight to the program's buffers. Nobody else runs meanwhile
//! where the call comes to an end by itself, which it does when it reads a file.
//!
//! What calls do to shared objects (`objects.rs`) is split the same way.

use std::fs;

use bis_syscalls::{Call, Output, Plan};
use bis_trace::{
    event::{Cloned, Effect, EventKind, MemWrite, Outcome},
    types::{Registers, Tid},
};
use bis_tracee::{maps, proc};

use crate::{call::Reader, domain::Domain, error::Result, space, task::InCall};

/// Bytes of results in one event, at most (but for the last bytes that are added to many small pieces).
const PIECE_BYTES_MAX: u64 = 1 << 20;

const WRITE: u32 = 2;

/// Is it a read from a file that is too large for scratch memory? It must not run beside other tasks, and need not.
pub fn reads_much_of_a_file(tid: Tid, call: &Call, plan: &Plan) -> bool {
    let reads = [libc::SYS_read, libc::SYS_pread64, libc::SYS_readv, libc::SYS_preadv, libc::SYS_preadv2];
    let is_file = |fd: i32| fs::metadata(proc::fd(tid, fd)).is_ok_and(|file| file.is_file());
    reads.contains(&call.nr.cast_signed()) && space::is_too_large(plan) && is_file(call.i32(0))
}

impl Domain {
    /// Copies what the call wrote to where the program expects it, and returns what belongs into the call's event.
    /// What is more than one event should hold has events of its own then.
    pub fn results(
        &mut self,
        tid: Tid,
        call: &mut InCall,
        result: i64,
    ) -> Result<(Vec<Cloned>, Vec<MemWrite>)> {
        let places = call.places.take();
        let place = |piece: usize, call: &InCall| {
            places.as_deref().map_or(call.plan.pieces[piece].home, |places| places[piece].addr)
        };
        let mut outputs = call.plan.outputs(result, &|piece| place(piece, call), &Reader(&self.memory));
        let mut run = self.clone_result(tid, call, &outputs, result)?;
        if run.is_none() {
            let mut mappings = None;
            let mut is_writable = |page: u64| {
                let mappings = mappings.get_or_insert_with(|| maps::read(tid).unwrap_or_default());
                mappings
                    .iter()
                    .any(|mapping| (mapping.start..mapping.end).contains(&page) && mapping.prot & WRITE != 0)
            };
            let reader = Reader(&self.memory);
            outputs.extend(call.plan.torn(result, &|piece| place(piece, call), &reader, &mut is_writable));
        }
        let (mut clones, mut writes, mut held, mut position) = (Vec::new(), Vec::new(), 0, 0);
        for Output { piece, offset, len } in outputs {
            let (home, at) = (call.plan.pieces[piece].home, place(piece, call));
            let mut done = 0;
            while done < len {
                if held >= PIECE_BYTES_MAX {
                    let (clones, writes) = (std::mem::take(&mut clones), std::mem::take(&mut writes));
                    let outcome = Outcome { clones, writes, ..Outcome::default() };
                    self.write_early(tid, call, outcome)?;
                    held = 0;
                }
                let (offset, part) = (offset + done, (len - done).min(PIECE_BYTES_MAX - held));
                let (part, is_cloned) = run.as_ref().map_or((part, false), |run| run.part(position, part));
                // After a success that overstates its length, what can be read is what was written.
                let data = self.memory.read_upto(at + offset, usize::try_from(part).unwrap_or(0));
                let short = (data.len() as u64) < part;
                let cloned = match (&mut run, &self.session.cloning) {
                    (Some(run), Some(cloning)) if is_cloned && !short => {
                        run.take(cloning, position, home + offset, &data)
                    }
                    _ => None,
                };
                (done, position) = (done + part, position + part);
                if let Some(cloned) = cloned {
                    clones.push(cloned);
                    if at != home {
                        self.memory.write(home + offset, &data)?;
                    }
                    continue;
                }
                held += part;
                match places.as_deref() {
                    Some(places) if at != home => {
                        for (offset, data) in places[piece].changes(offset, data) {
                            self.memory.write(home + offset, &data)?;
                            writes.push(MemWrite { addr: home + offset, data });
                        }
                    }
                    _ => writes.push(MemWrite { addr: home + offset, data }),
                }
                if short {
                    break;
                }
            }
        }
        call.places = places;
        Ok((clones, writes))
    }

    /// Writes what the call has changed so far, if it is as much as one event should hold: what the caller has still
    /// to add goes into an outcome that is empty again. Only the order among what is added must matter, not that it
    /// comes at one moment.
    pub fn spill(&mut self, tid: Tid, call: &mut InCall, outcome: &mut Outcome) -> Result<()> {
        let in_effect = |effect: &Effect| match effect {
            Effect::WriteObject { data, .. } => data.len(),
            _ => 0,
        };
        let held = outcome.writes.iter().map(|write| write.data.len()).sum::<usize>()
            + outcome.effects.iter().map(in_effect).sum::<usize>();
        // A call whose event has its number already (it writes to the terminal) has one event.
        if (held as u64) < PIECE_BYTES_MAX || call.seq.is_some() {
            return Ok(());
        }
        let (writes, effects) = (std::mem::take(&mut outcome.writes), std::mem::take(&mut outcome.effects));
        let ours = outcome.ours.take();
        self.write_early(tid, call, Outcome { writes, effects, ours, ..Outcome::default() })
    }

    /// An event of the call that has this outcome and leaves the task in front of the call.
    fn write_early(&mut self, tid: Tid, call: &mut InCall, outcome: Outcome) -> Result<()> {
        let (nr, entry) = (call.nr, call.entry);
        let regs = Registers { rip: entry.rip - 2, rax: nr, orig_rax: u64::MAX, ..entry };
        let outcome = Box::new(Outcome { regs, ..outcome });
        let kind = if std::mem::take(&mut call.entered) {
            EventKind::SyscallExit { nr, outcome }
        } else {
            EventKind::Syscall { nr, entry, outcome }
        };
        self.event_with(tid, kind, std::mem::take(&mut call.sums))
    }
}
