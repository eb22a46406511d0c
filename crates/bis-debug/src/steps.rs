//! A replay that goes on by single instructions from an event on, and shows the registers in front of each:
//! for whoever compares what two replays do. And one that compares them itself with what was recorded behind
//! each instruction ([`bis_trace::steps`]).

use bis_replay::{Divergence, Halt, Limit, ReplayError, Replica, Solo, Stop, World};
use bis_trace::{
    Trace,
    event::DomainEntry,
    steps::{AllSteps, Steps, comparable},
    types::{Addr, EventSeq, Registers, Tid},
};
use iced_x86::{Decoder, DecoderOptions, Formatter as _, IntelFormatter};

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
/// Where the trace has no such process, or all of them have ended before that event; where it cannot be
/// replayed, or `show` fails.
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
    let mut domains: Vec<&DomainEntry> = world.domains().filter(is_meant).collect();
    domains.sort_by_key(|entry| entry.seq);
    let mut is_whole = true;
    let mut is_any_there = false;
    for domain in domains {
        let mut host = Solo::new(&world, ear(options)?);
        host.is_audible = true;
        let mut replica = host.begin(domain.domain)?;
        replica.attend();
        let mut is_there = false;
        loop {
            let done = replica.done().0;
            is_there |= done.0 + 1 >= from;
            let limit = if is_there {
                if let Some((tid, _)) = replica.next_task()?
                    && let Ok(registers) = replica.registers(tid)
                {
                    show(&Step { event: done, tid, registers })
                        .map_err(|source| DebugError::Io { what: "show the registers", source })?;
                }
                Limit { step: true, ..Limit::default() }
            } else {
                Limit { event: Some(EventSeq(from - 1)), ..Limit::default() }
            };
            match host.advance(&mut replica, &limit, &mut |_, _| {})? {
                Stop::End => break,
                Stop::Cut => {
                    is_whole = false;
                    break;
                }
                // The last event before `from` may be long before: those in between are of other processes.
                Stop::Event(_) => is_there = true,
                _ => {}
            }
        }
        is_any_there |= is_there;
    }
    if is_whole && !is_any_there {
        return Err(DebugError::NoEvent(from));
    }
    Ok(is_whole)
}

/// What a comparison of steps has come to.
#[derive(Debug)]
pub struct Compared {
    /// Instructions behind which registers were compared.
    pub instructions: u64,
    /// What was different first.
    pub difference: Option<StepDifference>,
    /// The replay came to an event otherwise than it was recorded, before any step was different.
    pub divergence: Option<Box<Divergence>>,
    /// The recording was cut short, and so was this.
    pub is_cut: bool,
}

/// Where the registers of a replayed task are other ones than the recorded task's.
#[derive(Clone, Debug)]
pub struct StepDifference {
    pub pid: Tid,
    pub tid: Tid,
    /// The event to which the task was on its way, and the last one of its process that was done.
    pub event: EventSeq,
    pub done: EventSeq,
    /// The number of the instruction since that one, from 1. 0: none was executed, the registers were others
    /// already.
    pub number: u64,
    /// The instruction that did something else: its address and, where it can be read, its text.
    pub instruction: Option<(u64, String)>,
    pub recorded: Registers,
    pub replayed: Registers,
}

/// Replays all processes or one, one after the other, and compares the registers behind each instruction of
/// which the trace has them. Ends with the first difference.
///
/// # Errors
/// Where the trace has no steps, no such process, or cannot be replayed.
pub fn compare(trace: &Trace, options: &Options) -> Result<Compared, DebugError> {
    if !trace.says_ours() {
        return Err(DebugError::Older);
    }
    let Some(steps) = AllSteps::open(trace.dir())? else { return Err(DebugError::NoSteps) };
    let world = World::new(trace)?;
    let chosen = match &options.which {
        Which::First => None,
        which => Some(which.entry(trace)?),
    };
    let is_meant = |entry: &&DomainEntry| {
        steps.events(entry.domain).next().is_some()
            && chosen.is_none_or(|chosen| chosen.pid == entry.pid && chosen.seq <= entry.seq)
    };
    let mut domains: Vec<&DomainEntry> = world.domains().filter(is_meant).collect();
    domains.sort_by_key(|entry| entry.seq);
    let mut compared = Compared { instructions: 0, difference: None, divergence: None, is_cut: steps.is_cut };
    for domain in domains {
        let mut host = Solo::new(&world, ear(options)?);
        host.is_audible = true;
        match compare_domain(&mut host, domain, &steps, &mut compared) {
            Ok(()) => {}
            Err(Failed::Replay(Halt::Failed(ReplayError::Divergence(divergence)))) => {
                compared.divergence = Some(divergence);
            }
            Err(Failed::Replay(Halt::Cut(_))) => compared.is_cut = true,
            Err(Failed::Replay(halt)) => return Err(halt.into()),
            Err(Failed::Steps(error)) => return Err(error),
        }
        if compared.difference.is_some() || compared.divergence.is_some() {
            break;
        }
    }
    Ok(compared)
}

enum Failed {
    Replay(Halt),
    Steps(DebugError),
}

impl From<Halt> for Failed {
    fn from(halt: Halt) -> Failed {
        Failed::Replay(halt)
    }
}

fn compare_domain<'t>(
    host: &mut Solo<'t>,
    entry: &DomainEntry,
    all: &AllSteps,
    compared: &mut Compared,
) -> Result<(), Failed> {
    let mut replica = host.begin(entry.domain)?;
    replica.attend();
    for event in all.events(entry.domain) {
        let steps = all.stretch(entry.domain, event).map_err(|error| Failed::Steps(error.into()))?;
        let Some(steps) = steps else { continue };
        let limit = Limit { event: Some(EventSeq(event.0.saturating_sub(1))), ..Limit::default() };
        loop {
            match host.advance(&mut replica, &limit, &mut |_, _| {})? {
                Stop::Event(_) => break,
                Stop::End => return Ok(()),
                Stop::Cut => {
                    compared.is_cut = true;
                    return Ok(());
                }
                _ => {}
            }
        }
        if let Some(difference) = compare_stretch(host, &mut replica, (event, &steps), compared)? {
            compared.difference = Some(difference);
            return Ok(());
        }
    }
    Ok(())
}

/// Steps a task to the event to which a stretch leads.
fn compare_stretch<'t>(
    host: &mut Solo<'t>,
    replica: &mut Replica<'t>,
    (event, steps): (EventSeq, &Steps),
    compared: &mut Compared,
) -> Result<Option<StepDifference>, Failed> {
    let done = replica.done().0;
    let tid = steps.tid;
    let registers = |replica: &Replica<'t>| replica.registers(tid).map(|regs| comparable(&regs)).ok();
    let mut states = steps.states.iter();
    let (Some(first), Some(mut before)) = (states.next(), registers(replica)) else { return Ok(None) };
    let differs =
        |replica: &Replica<'t>, number, at: Option<u64>, recorded: &Registers, replayed| StepDifference {
            pid: replica.entry().pid,
            tid,
            event,
            done,
            number,
            instruction: at.map(|at| (at, instruction(replica, at))),
            recorded: *recorded,
            replayed,
        };
    if *first != before {
        return Ok(Some(differs(replica, 0, None, first, before)));
    }
    for (recorded, number) in states.zip(1..) {
        // A step that has done nothing is in no recording.
        let replayed = loop {
            let limit = Limit { step: true, ..Limit::default() };
            match host.advance(replica, &limit, &mut |_, _| {})? {
                Stop::Stepped(stepped) if stepped == tid => {}
                // The event has come, with registers that were compared: here it has come too soon.
                _ => return Ok(Some(differs(replica, number, Some(before.rip), recorded, before))),
            }
            match registers(replica) {
                Some(now) if now != before => break now,
                Some(_) => {}
                None => return Ok(None),
            }
        };
        compared.instructions += 1;
        if *recorded != replayed {
            return Ok(Some(differs(replica, number, Some(before.rip), recorded, replayed)));
        }
        before = replayed;
    }
    Ok(None)
}

/// The text of the program's instruction at an address.
fn instruction(replica: &Replica<'_>, at: u64) -> String {
    let code = replica.read_program(Addr(at), 15);
    let instruction = Decoder::with_ip(64, &code, at, DecoderOptions::NONE).decode();
    let mut text = String::new();
    if instruction.is_invalid() {
        return "(bad)".into();
    }
    IntelFormatter::new().format(&instruction, &mut text);
    text
}
