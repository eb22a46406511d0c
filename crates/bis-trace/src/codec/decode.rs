//! From Cap'n Proto to the model: events. (`meta.rs` has the meta entries.)

use bytes::Bytes;

use super::{
    Malformed, Result, check_cloned, check_domain, check_siginfo, check_signal, check_tid, ours,
    registers_from_bytes, require,
};
use crate::{
    bis_capnp as schema,
    event::{
        Backing, Base, Cloned, Echo, Effect, Event, EventKind, Lapse, LastWay, MemWrite, Outcome, Pause,
        PausePlace, RangeSum, SignalEvent, SignalPoint, Start, TaskEnd, Turn,
    },
    types::{Addr, DomainId, EventSeq, FileId, ObjectId, Registers, Signal, StandardStream, Tid},
};

pub(super) fn tid(tid: i32) -> Result<Tid> {
    check_tid(tid)?;
    Ok(Tid(tid))
}

pub(super) fn domain(domain: u32) -> Result<DomainId> {
    check_domain(domain)?;
    Ok(DomainId(domain))
}

pub(super) fn stream(fd: u8) -> Result<StandardStream> {
    let stream = StandardStream::of(fd.into());
    stream.ok_or_else(|| Malformed(format!("an echo is of descriptor 1 or 2, not {fd}")))
}

fn signal_number(number: u8) -> Result<Signal> {
    check_signal(number)?;
    Ok(Signal(number))
}

/// A log that is shorter is copied: whoever has one that is not keeps all messages beside it.
const SHARED_MIN: usize = 64 << 10;

/// The log, which may lie in `all`: it is not copied then, if it is long.
fn shared(log: &[u8], all: &Bytes) -> Bytes {
    let is_part =
        all.as_ptr_range().start <= log.as_ptr() && log.as_ptr_range().end <= all.as_ptr_range().end;
    if is_part && log.len() >= SHARED_MIN { all.slice_ref(log) } else { Bytes::copy_from_slice(log) }
}

/// With what is bis's own, or without. `all`: the messages in which it may lie.
pub(super) fn event(from: schema::event::Reader<'_>, ours: bool, all: &Bytes) -> Result<Event> {
    use schema::event::kind::Which;
    require(from.get_seq() > 0, || "events are numbered from 1".into())?;
    let sums = if from.has_sums() { range_sums(from.get_sums()?) } else { Vec::new() };
    let kind = match from.get_kind().which()? {
        Which::Start(start) => {
            let start = start?;
            EventKind::Start(Box::new(Start {
                base: base(start.get_base()?)?,
                outcome: outcome(start.get_outcome()?, None, ours)?,
                has_own_cpuid: start.get_own_cpuid(),
                core: start.get_core().checked_sub(1),
            }))
        }
        Which::Syscall(call) => {
            let call = call?;
            let entry = registers_from_bytes(call.get_entry()?)?;
            let outcome = Box::new(outcome(call.get_outcome()?, Some(&entry), ours)?);
            EventKind::Syscall { nr: call.get_nr(), entry, outcome }
        }
        Which::SyscallEnter(call) => {
            let call = call?;
            EventKind::SyscallEnter { nr: call.get_nr(), entry: registers_from_bytes(call.get_entry()?)? }
        }
        Which::SyscallExit(call) => {
            let call = call?;
            EventKind::SyscallExit {
                nr: call.get_nr(),
                outcome: Box::new(outcome(call.get_outcome()?, None, ours)?),
            }
        }
        Which::Signal(event) => EventKind::Signal(Box::new(signal(event?, ours)?)),
        Which::Instruction(event) => {
            let event = event?;
            EventKind::Instruction {
                insn: ours::insn_from(event.get_insn()?),
                before: registers_from_bytes(event.get_before()?)?,
                after: registers_from_bytes(event.get_after()?)?,
            }
        }
        Which::TaskExit(event) => {
            let event = event?;
            EventKind::TaskExit {
                status: task_end(event.get_status()?)?,
                outcome: Box::new(outcome(event.get_outcome()?, None, ours)?),
                last_way: match event.get_last_way()? {
                    schema::LastWay::None => LastWay::None,
                    schema::LastWay::Log => LastWay::Log,
                    schema::LastWay::Call => LastWay::Call,
                },
            }
        }
        Which::Token(event) => {
            let event = event?;
            EventKind::Token {
                acquired: turns(event.get_acquired()?),
                released: turns(event.get_released()?),
            }
        }
        Which::End(()) => EventKind::End,
        Which::Pause(event) => {
            use schema::pause::place::Which;
            let event = event?;
            EventKind::Pause(Box::new(Pause {
                place: match event.get_place().which()? {
                    Which::State(()) => PausePlace::State,
                    Which::Count(count) => PausePlace::Count(count),
                },
                regs: registers_from_bytes(event.get_regs()?)?,
                extended: event.get_extended()?.to_vec(),
                held: event.get_held()?.iter().map(mem_write).collect::<Result<_>>()?,
                seen: range_sums(event.get_seen()?),
                span: event.get_span()?.to_vec(),
                trap: event.get_trap(),
            }))
        }
        Which::Hooked(event) => {
            let event = event?;
            let log = event.get_log()?;
            require(!log.is_empty(), || "an empty log of hooked calls".into())?;
            EventKind::Hooked { alone: event.get_alone(), log: shared(log, all) }
        }
    };
    let ticks = from.get_ticks().checked_sub(1);
    let lapse = Lapse(from.get_lapse());
    Ok(Event { seq: EventSeq(from.get_seq()), tid: tid(from.get_tid())?, kind, ticks, sums, lapse })
}

fn range_sums(list: capnp::struct_list::Reader<'_, schema::range_sum::Owned>) -> Vec<RangeSum> {
    let sum = |s: schema::range_sum::Reader<'_>| RangeSum {
        addr: Addr(s.get_addr()),
        len: s.get_len(),
        sum: s.get_sum(),
        is_stack: s.get_is_stack(),
    };
    list.iter().map(sum).collect()
}

fn mem_write(write: schema::mem_write::Reader<'_>) -> Result<MemWrite> {
    Ok(MemWrite { addr: Addr(write.get_addr()), data: write.get_data()?.to_vec() })
}

fn cloned(from: schema::cloned::Reader<'_>) -> Result<Cloned> {
    check_cloned(from.get_len())?;
    let (addr, offset) = (Addr(from.get_addr()), from.get_offset());
    Ok(Cloned { addr, offset, len: from.get_len(), sum: from.get_sum() })
}

fn turns(list: capnp::struct_list::Reader<'_, schema::turn::Owned>) -> Vec<Turn> {
    list.iter().map(|turn| Turn { object: ObjectId(turn.get_object()), turn: turn.get_turn() }).collect()
}

pub(super) fn data_list(list: capnp::data_list::Reader<'_>) -> Result<Vec<Vec<u8>>> {
    list.iter().map(|item| Ok(item?.to_vec())).collect()
}

pub(super) fn base(from: schema::base::Reader<'_>) -> Result<Base> {
    use schema::base::Which;
    Ok(match from.which()? {
        Which::Exec(exec) => {
            let exec = exec?;
            Base::Exec {
                path: exec.get_path()?.to_vec(),
                argv: data_list(exec.get_argv()?)?,
                envp: data_list(exec.get_envp()?)?,
                cwd: exec.get_cwd()?.to_vec(),
            }
        }
        Which::Image(image) => {
            let image = image?;
            let program = image.get_program()?;
            Base::Image {
                path: program.get_path()?.to_vec(),
                argv: data_list(program.get_argv()?)?,
                envp: data_list(program.get_envp()?)?,
                cwd: program.get_cwd()?.to_vec(),
                auxv: image.get_auxv()?.to_vec(),
            }
        }
        Which::Fork(fork) => {
            let fork = fork?;
            Base::Fork { parent: domain(fork.get_parent())?, at: EventSeq(fork.get_at()) }
        }
    })
}

fn outcome(
    from: schema::outcome::Reader<'_>,
    entry: Option<&Registers>,
    wants_ours: bool,
) -> Result<Outcome> {
    use schema::outcome::regs::Which;
    let regs = match from.get_regs().which()? {
        Which::Zero(()) => Registers::default(),
        Which::Rax(rax) => {
            let entry = entry.ok_or_else(|| {
                Malformed("its registers are given by those at an entry, which it does not have".into())
            })?;
            Registers { rax, ..*entry }
        }
        Which::All(bytes) => registers_from_bytes(bytes?)?,
    };
    let xstate = if from.has_xstate() { Some(from.get_xstate()?.to_vec()) } else { None };
    let effects = from.get_effects()?.iter().map(effect).collect::<Result<_>>()?;
    let clones = from.get_clones()?.iter().map(cloned).collect::<Result<_>>()?;
    let writes = from.get_writes()?.iter().map(mem_write).collect::<Result<_>>()?;
    let echo = if from.has_echo() {
        let echo = from.get_echo()?;
        let ranges =
            echo.get_ranges()?.iter().map(|range| (Addr(range.get_addr()), range.get_len())).collect();
        Some(Echo { stream: stream(echo.get_fd())?, ranges, sum: echo.get_sum() })
    } else {
        None
    };
    let ours =
        if wants_ours && from.has_ours() { Some(Box::new(ours::decode(from.get_ours()?)?)) } else { None };
    Ok(Outcome { regs, xstate, effects, clones, writes, echo, ours })
}

fn effect(from: schema::effect::Reader<'_>) -> Result<Effect> {
    use schema::effect::Which;
    Ok(match from.which()? {
        Which::Map(map) => {
            use schema::effect::map::backing::Which;
            let map = map?;
            let offset = map.get_offset();
            let backing = match map.get_backing().which()? {
                Which::Anonymous(()) => Backing::Anonymous,
                Which::Stack(()) => Backing::Stack,
                Which::File(file) => Backing::File { file: FileId(file), offset },
                Which::Shared(object) => Backing::Shared { object: ObjectId(object), offset },
            };
            Effect::Map { addr: Addr(map.get_addr()), len: map.get_len(), prot: map.get_prot(), backing }
        }
        Which::Unmap(range) => {
            let range = range?;
            Effect::Unmap { addr: Addr(range.get_addr()), len: range.get_len() }
        }
        Which::Protect(range) => {
            let range = range?;
            Effect::Protect { addr: Addr(range.get_addr()), len: range.get_len(), prot: range.get_prot() }
        }
        Which::Remap(remap) => {
            let remap = remap?;
            Effect::Remap {
                addr: Addr(remap.get_addr()),
                old_len: remap.get_old_len(),
                new_addr: Addr(remap.get_new_addr()),
                new_len: remap.get_new_len(),
                keep: remap.get_keep(),
            }
        }
        Which::Advise(advise) => {
            let advise = advise?;
            Effect::Advise {
                addr: Addr(advise.get_addr()),
                len: advise.get_len(),
                advice: advise.get_advice(),
            }
        }
        Which::NewObject(new) => {
            use schema::effect::new_object::content::Which;
            let new = new?;
            let content = match new.get_content().which()? {
                Which::Zeros(()) => None,
                Which::File(file) => Some(FileId(file)),
            };
            Effect::NewObject { object: ObjectId(new.get_object()), len: new.get_len(), content }
        }
        Which::WriteObject(write) => {
            let write = write?;
            Effect::WriteObject {
                object: ObjectId(write.get_object()),
                offset: write.get_offset(),
                data: write.get_data()?.to_vec(),
            }
        }
        Which::ResizeObject(resize) => {
            let resize = resize?;
            Effect::ResizeObject { object: ObjectId(resize.get_object()), len: resize.get_len() }
        }
        Which::ClearObject(clear) => {
            let clear = clear?;
            let object = ObjectId(clear.get_object());
            Effect::ClearObject { object, offset: clear.get_offset(), len: clear.get_len() }
        }
        Which::NewTask(new) => {
            let new = new?;
            let xstate = if new.has_xstate() { Some(new.get_xstate()?.to_vec()) } else { None };
            Effect::NewTask { tid: tid(new.get_tid())?, regs: registers_from_bytes(new.get_regs()?)?, xstate }
        }
        Which::SetTask(set) => {
            let set = set?;
            let regs = registers_from_bytes(set.get_regs()?)?;
            Effect::SetTask { tid: tid(set.get_tid())?, regs, xstate: set.get_xstate()?.to_vec() }
        }
        Which::Segment(segment) => {
            let segment = segment?;
            let descriptor = segment.get_descriptor()?.try_into();
            let descriptor =
                descriptor.map_err(|_| Malformed("a descriptor that has not 16 bytes".into()))?;
            Effect::Segment { tid: tid(segment.get_tid())?, descriptor }
        }
        Which::Fork(fork) => {
            let fork = fork?;
            Effect::Fork { domain: domain(fork.get_domain())?, tid: tid(fork.get_tid())? }
        }
    })
}

fn signal(from: schema::signal_event::Reader<'_>, ours: bool) -> Result<SignalEvent> {
    use schema::signal_event::Point;
    let siginfo = from.get_siginfo()?.to_vec();
    check_siginfo(&siginfo)?;
    Ok(SignalEvent {
        signal: signal_number(from.get_signal())?,
        siginfo,
        point: match from.get_point()? {
            Point::Fault => SignalPoint::Fault,
            Point::AfterEvent => SignalPoint::AfterEvent,
            Point::BeforeSyscall => SignalPoint::BeforeSyscall,
            Point::Anywhere => SignalPoint::Anywhere,
            Point::AfterHook => SignalPoint::AfterHook,
        },
        before: registers_from_bytes(from.get_before()?)?,
        handler: if from.has_handler() { Some(outcome(from.get_handler()?, None, ours)?) } else { None },
    })
}

pub(super) fn task_end(from: schema::task_end::Reader<'_>) -> Result<TaskEnd> {
    use schema::task_end::Which;
    Ok(match from.which()? {
        Which::Exited(code) => TaskEnd::Exited(code),
        Which::Killed(number) => TaskEnd::Killed(signal_number(number)?),
        Which::Exec(id) => TaskEnd::Exec(domain(id)?),
        Which::Dethreaded(()) => TaskEnd::Dethreaded,
    })
}
