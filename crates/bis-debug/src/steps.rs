//! A replay that goes on by single instructions from an event on, and shows the registers in front of each:
//! for whoever compares what two replays do.

use bis_replay::{Limit, Solo, Stop, World};
use bis_trace::{
    Trace,
    event::DomainEntry,
    types::{EventSeq, Registers, Tid},
};

use crate::{
    options::{DebugError, Options, Which},
    server::ear,
};

/// Where a task stands that is about to execute an instruction.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// The last event of its process that is done.
    pub event: EventSeq,
    pub tid: Tid,
    pub registers: Registers,
}

/// Replays all processes or one, one after the other, and shows each instruction behind the last event before
/// `from`. False: the recording was cut short, and so was this.
///
/// # Errors
/// Where the trace has no such process, cannot be replayed, or `show` fails.
pub fn steps(
    trace: &Trace,
    options: &Options,
    from: u64,
    show: &mut dyn FnMut(&Step) -> std::io::Result<()>,
) -> Result<bool, DebugError> {
    if !trace.says_ours() {
        return Err(DebugError::Older);
    }
    let world = World::new(trace)?;
    let chosen = match &options.which {
        Which::First => None,
        which => Some(which.entry(trace)?),
    };
    let is_meant =
        |entry: &&DomainEntry| chosen.is_none_or(|chosen| chosen.pid == entry.pid && chosen.seq <= entry.seq);
    let mut domains: Vec<&DomainEntry> = world.domains().iter().filter(is_meant).collect();
    domains.sort_by_key(|entry| entry.seq);
    let mut is_whole = true;
    for domain in domains {
        let mut host = Solo::new(&world, ear(options)?);
        host.is_audible = true;
        let mut replica = host.begin(domain.domain)?;
        replica.attend();
        loop {
            let done = replica.done().0;
            let limit = if done.0 + 1 < from {
                Limit { event: Some(EventSeq(from - 1)), ..Limit::default() }
            } else {
                if let Some((tid, _)) = replica.next_task()?
                    && let Ok(registers) = replica.registers(tid)
                {
                    show(&Step { event: done, tid, registers })
                        .map_err(|source| DebugError::Io { what: "show the registers", source })?;
                }
                Limit { step: true, ..Limit::default() }
            };
            match host.advance(&mut replica, &limit, &mut |_, _| {})? {
                Stop::End => break,
                Stop::Cut => {
                    is_whole = false;
                    break;
                }
                _ => {}
            }
        }
    }
    Ok(is_whole)
}
