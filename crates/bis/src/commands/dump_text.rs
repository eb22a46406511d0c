//! An event as text for `bis dump`: one line, and with `--full` lines below it for registers, address space
//! and memory. Reading memory back is not possible here: a path in a system call is shown as its address.

use std::{
    collections::HashMap,
    io::{self, Write},
};

use bis_agent::hooks::{
    Entry, NR_LSL, NR_RDPID, NR_RDRAND, NR_RDSEED, NR_RDTSC, NR_RDTSCP, SAFEPOINT, entries,
};
use bis_syscalls::{Call, describe};
use bis_trace::{
    event::{
        Backing, Base, Cloned, Effect, Event, EventKind, Insn, Outcome, PausePlace, SignalEvent, SignalPoint,
        TaskEnd, Turn,
    },
    ours::Ours,
    types::{Addr, DomainId, EventSeq, REGISTER_NAMES, Registers, StandardStream, Tid},
};

use super::dump::Calls;
use crate::{human, json};

/// Bytes of one write that a line shows; JSON has all.
const SHOWN_BYTES_MAX: usize = 64;

/// Makes lines, and remembers the call that each task is in.
pub struct Text<'a> {
    full: bool,
    /// Of hooked calls only these are shown.
    calls: &'a Calls,
    entered: HashMap<(DomainId, Tid), Call>,
    /// The events by which a process goes back to a checkpoint of itself, and behind which one that is.
    pub ways_back: HashMap<EventSeq, EventSeq>,
}

pub fn task_end(end: TaskEnd) -> String {
    match end {
        TaskEnd::Exited(code) => format!("exit {code}"),
        TaskEnd::Killed(signal) => format!("killed by {signal}"),
        TaskEnd::Exec(domain) => format!("exec, goes on in domain {domain}"),
        TaskEnd::Dethreaded => "ended by another thread's exec".into(),
    }
}

/// What the hooks have logged that is no system call.
pub fn instruction_name(nr: u16) -> Option<&'static str> {
    match nr {
        NR_RDTSC => Some("rdtsc"),
        NR_RDTSCP => Some("rdtscp"),
        NR_RDRAND => Some("rdrand"),
        NR_RDSEED => Some("rdseed"),
        NR_RDPID => Some("rdpid"),
        NR_LSL => Some("lsl"),
        _ => None,
    }
}

/// A call that was made without a stop: what is known of it is its number and its result.
fn hooked_call(entry: Entry<'_>) -> String {
    if let Some(name) = instruction_name(entry.nr) {
        return format!("{name} = {}", entry.result.cast_unsigned());
    }
    let nr = u64::from(entry.nr);
    let name = bis_syscalls::name(nr).map_or_else(|| format!("syscall_{nr}"), str::to_owned);
    if entry.left { format!("{name} (waits)") } else { format!("{name} = {}", entry.result) }
}

fn point(point: SignalPoint) -> &'static str {
    match point {
        SignalPoint::Fault => "raised by the instruction",
        SignalPoint::AfterEvent => "after the event before",
        SignalPoint::BeforeSyscall => "before a system call",
        SignalPoint::Anywhere => "anywhere",
        SignalPoint::AfterHook => "after a hooked call",
    }
}

fn turns(turns: &[Turn]) -> String {
    let shown: Vec<String> = turns.iter().map(|turn| format!("{}#{}", turn.object, turn.turn)).collect();
    if shown.is_empty() { "none".into() } else { shown.join(" ") }
}

fn prot(prot: u32) -> String {
    let bit = |mask: u32, letter: char| if prot & mask != 0 { letter } else { '-' };
    let mut text: String = [bit(1, 'r'), bit(2, 'w'), bit(4, 'x')].into_iter().collect();
    if prot & !7 != 0 {
        text.push_str(&format!("+{:#x}", prot & !7));
    }
    text
}

fn backing(backing: &Backing) -> String {
    match backing {
        Backing::Anonymous => "zero".into(),
        Backing::Stack => "stack".into(),
        Backing::File { file, offset } => format!("file {file} + {offset:#x}"),
        Backing::Shared { object, offset } => format!("object {object} + {offset:#x}"),
    }
}

fn effect(effect: &Effect) -> String {
    let range = |addr: Addr, len: u64| format!("{addr:#x}..{:#x}", addr.wrapping_add(len));
    match effect {
        Effect::Map { addr, len, prot: p, backing: on } => {
            format!("map {} {} {}", range(*addr, *len), prot(*p), backing(on))
        }
        Effect::Unmap { addr, len } => format!("unmap {}", range(*addr, *len)),
        Effect::Protect { addr, len, prot: p } => format!("protect {} {}", range(*addr, *len), prot(*p)),
        Effect::Remap { addr, old_len, new_addr, new_len, keep } => {
            let keep = if *keep { ", the old one stays" } else { "" };
            format!("remap {} to {}{keep}", range(*addr, *old_len), range(*new_addr, *new_len))
        }
        Effect::Advise { addr, len, advice } => format!("advise {} {advice}", range(*addr, *len)),
        Effect::NewObject { object, len, content } => {
            let content = content.map_or(String::new(), |file| format!(" with the content of file {file}"));
            format!("new object {object}, {len} bytes{content}")
        }
        Effect::WriteObject { object, offset, data } => {
            format!("write object {object} + {offset:#x}: {}", bytes(data))
        }
        Effect::ResizeObject { object, len } => format!("resize object {object} to {len} bytes"),
        Effect::ClearObject { object, offset, len } => {
            format!("clear {len} bytes at {offset} of object {object}")
        }
        Effect::NewTask { tid, .. } => format!("new thread {tid}"),
        Effect::SetTask { tid, regs, .. } => format!("thread {tid} goes on at {:#x}", regs.rip),
        Effect::Segment { tid, descriptor } => {
            format!("thread-local storage of thread {tid}: {}", bytes(descriptor))
        }
        Effect::Fork { domain, tid } => format!("new process {tid}, domain {domain}"),
    }
}

fn bytes(data: &[u8]) -> String {
    let shown = &data[..data.len().min(SHOWN_BYTES_MAX)];
    let readable =
        shown.iter().filter(|byte| byte.is_ascii_graphic() || **byte == b' ' || **byte == b'\n').count();
    let text = if !shown.is_empty() && readable * 4 >= shown.len() * 3 {
        format!("\"{}\"", human::text(shown).replace('"', "\\\""))
    } else {
        json::hex(shown)
    };
    let more = if shown.len() < data.len() { "…" } else { "" };
    format!("{text}{more} ({} bytes)", data.len())
}

impl<'a> Text<'a> {
    pub fn new(full: bool, calls: &'a Calls) -> Text<'a> {
        Text { full, calls, entered: HashMap::new(), ways_back: HashMap::new() }
    }

    /// To be told of every event, shown or not.
    pub fn see(&mut self, domain: DomainId, event: &Event) {
        match &event.kind {
            EventKind::SyscallEnter { nr, entry } => {
                self.entered.insert((domain, event.tid), Call { nr: *nr, args: entry.args_of(*nr) });
            }
            EventKind::TaskExit { .. } => {
                self.entered.remove(&(domain, event.tid));
            }
            _ => {}
        }
    }

    fn line(&self, domain: DomainId, event: &Event) -> String {
        match &event.kind {
            EventKind::Start(start) => {
                let on_core = start.core.map(|core| format!(" (on core {core})")).unwrap_or_default();
                let begin = match &start.base {
                    Base::Exec { path, argv, .. } => {
                        format!("exec {}: {}", human::text(path), human::command_line(argv))
                    }
                    Base::Fork { parent, at } => format!("copy of domain {parent} at {at}"),
                    Base::Image { path, argv, .. } => {
                        format!("found running, {}: {}", human::text(path), human::command_line(argv))
                    }
                };
                format!("-- domain {domain}{on_core}: {begin}")
            }
            EventKind::Syscall { nr: SAFEPOINT, .. } => {
                "-- what others have sent, after a hooked call".into()
            }
            EventKind::Syscall { nr, entry, outcome } => {
                describe(&Call { nr: *nr, args: entry.args_of(*nr) }, Some(outcome.regs.result_of(*nr)))
            }
            EventKind::SyscallEnter { nr, entry } => {
                format!("{} ...", describe(&Call { nr: *nr, args: entry.args_of(*nr) }, None))
            }
            EventKind::SyscallExit { nr, outcome } => {
                let ret = outcome.regs.result_of(*nr);
                match self.entered.get(&(domain, event.tid)) {
                    Some(call) if call.nr == *nr => format!("... {}", describe(call, Some(ret))),
                    _ => {
                        let name =
                            bis_syscalls::name(*nr).map_or_else(|| format!("syscall_{nr}"), str::to_owned);
                        format!("... {name} = {ret}")
                    }
                }
            }
            EventKind::Signal(signal) => match &signal.handler {
                Some(outcome) if signal.is_of_user() => {
                    let bytes: usize = outcome.writes.iter().map(|write| write.data.len()).sum();
                    let addr = outcome.writes.first().map_or(Addr::NULL, |write| write.addr);
                    format!("-- the debugger's user has written {bytes} bytes at {addr:#x}")
                }
                _ => format!("-- {} ({}): {}", signal.signal, point(signal.point), what_follows(signal)),
            },
            EventKind::Instruction { insn: Insn::Cpuid, before, after } => format!(
                "-- cpuid({:#x}, {:#x}) = {:#x} {:#x} {:#x} {:#x}",
                before.rax & 0xffff_ffff,
                before.rcx & 0xffff_ffff,
                after.rax,
                after.rbx,
                after.rcx,
                after.rdx
            ),
            EventKind::Instruction { insn, after, .. } => {
                let value = after.rdx << 32 | after.rax & 0xffff_ffff;
                format!("-- {} = {value}", json::instruction(*insn))
            }
            EventKind::TaskExit { status, .. } => format!("-- {}", task_end(*status)),
            EventKind::Token { acquired, released } => {
                format!("-- tokens: gets {}, gives {}", turns(acquired), turns(released))
            }
            EventKind::End => format!("-- end of domain {domain}"),
            EventKind::Pause(pause) => {
                let how = match pause.place {
                    PausePlace::State => "known by its state".to_owned(),
                    PausePlace::Count(count) => format!("count {count}"),
                };
                format!("-- paused at {:#x} ({how})", pause.regs.rip)
            }
            EventKind::Hooked { log, .. } => {
                let meant = entries(log).filter(|entry| self.calls.wants(entry.nr.into()));
                let calls: Vec<String> = meant.map(hooked_call).collect();
                // A loop makes thousands of the same.
                let shown: Vec<String> = calls
                    .chunk_by(|a, b| a == b)
                    .map(|same| match same {
                        [call] => call.clone(),
                        _ => format!("{} ({} times)", same[0], same.len()),
                    })
                    .collect();
                format!("-- {} hooked: {}", calls.len(), shown.join(", "))
            }
        }
    }

    pub fn write(&self, out: &mut impl Write, domain: DomainId, pid: Tid, event: &Event) -> io::Result<()> {
        let task = if pid == event.tid { format!("{pid}") } else { format!("{pid}/{}", event.tid) };
        let back = self.ways_back.get(&event.seq).map_or(String::new(), |to| format!(", back to event {to}"));
        writeln!(out, "{:>8} {task:<11} {}{back}", event.seq.0, self.line(domain, event))?;
        if !self.full {
            return Ok(());
        }
        if let Some(ticks) = event.ticks {
            writeln!(out, "{:21}after {ticks} ticks", "")?;
        }
        let (before, outcome) = match &event.kind {
            EventKind::Start(start) => (None, Some(&start.outcome)),
            EventKind::Syscall { entry, outcome, .. } => (Some(entry), Some(&**outcome)),
            EventKind::SyscallEnter { entry, .. } => (Some(entry), None),
            EventKind::SyscallExit { outcome, .. } => (None, Some(&**outcome)),
            EventKind::Signal(signal) => (Some(&signal.before), signal.handler.as_ref()),
            EventKind::Instruction { before, after, .. } => {
                registers(out, "before", before, None)?;
                return registers(out, "after", after, Some(before));
            }
            EventKind::TaskExit { outcome, .. } => (None, Some(&**outcome)),
            EventKind::Pause(pause) => (Some(&pause.regs), None),
            EventKind::Token { .. } | EventKind::End | EventKind::Hooked { .. } => (None, None),
        };
        if let EventKind::Pause(pause) = &event.kind
            && pause.trap != 0
        {
            writeln!(out, "{:21}behind the trap of a count at {:#x}", "", pause.trap)?;
        }
        if let Some(before) = before {
            registers(out, "before", before, None)?;
        }
        if let Some(outcome) = outcome {
            details(out, outcome)?;
            if !matches!(event.kind, EventKind::TaskExit { .. }) {
                registers(out, "after", &outcome.regs, before)?;
            }
        }
        for sum in &event.sums {
            writeln!(
                out,
                "{:21}checksum {:#x}..{:#x} {:016x}",
                "",
                sum.addr,
                sum.addr.wrapping_add(sum.len),
                sum.sum
            )?;
        }
        Ok(())
    }
}

fn details(out: &mut impl Write, outcome: &Outcome) -> io::Result<()> {
    for item in &outcome.effects {
        writeln!(out, "{:21}{}", "", effect(item))?;
    }
    for Cloned { addr, offset, len, .. } in &outcome.clones {
        writeln!(out, "{:21}memory {addr:#x}: {len} bytes at {offset:#x} of the clones", "")?;
    }
    for write in &outcome.writes {
        writeln!(out, "{:21}memory {:#x}: {}", "", write.addr, bytes(&write.data))?;
    }
    if let Some(all) = &outcome.ours {
        ours(out, all)?;
    }
    if let Some(xstate) = &outcome.xstate {
        writeln!(out, "{:21}extended state, {} bytes", "", xstate.len())?;
    }
    if let Some(echo) = &outcome.echo {
        let len: u64 = echo.ranges.iter().map(|(_, len)| len).sum();
        let stream = match echo.stream {
            StandardStream::Output => "stdout",
            StandardStream::Error => "stderr",
        };
        writeln!(out, "{:21}output: {len} bytes to {stream}", "")?;
    }
    Ok(())
}

/// What is bis's own; of patches, of which there are hundreds, what they are about.
fn ours(out: &mut impl Write, ours: &Ours) -> io::Result<()> {
    for (addr, len) in &ours.own {
        writeln!(out, "{:21}the program's own again: {len:#x} bytes at {addr:#x}", "")?;
    }
    for area in &ours.areas {
        writeln!(out, "{:21}not the program's: {:#x} bytes at {:#x}", "", area.len, area.addr)?;
    }
    for pool in &ours.pools {
        writeln!(out, "{:21}not the program's: {:#x} bytes at {:#x}", "", pool.len, pool.addr)?;
    }
    for text in &ours.dense {
        let (file, offset) = (text.file, text.offset);
        writeln!(out, "{:21}counts at {:#x}: file {file} from {offset:#x}", "", text.addr)?;
    }
    for text in &ours.patched {
        let (file, offset, set) = (text.file, text.offset, text.set);
        writeln!(
            out,
            "{:21}patched at {:#x}: file {file} from {offset:#x}, as file {set} says",
            "", text.addr
        )?;
    }
    for part in &ours.diverted {
        writeln!(out, "{:21}diverted at {:#x}: {}", "", part.addr, bytes(&part.original))?;
    }
    for patch in &ours.patches {
        let what = patch.insn.map_or("syscall", json::instruction);
        let (site, trampoline) = (patch.site(), patch.trampoline);
        writeln!(out, "{:21}patched at {:#x}: {what} at {site:#x}, in {trampoline:#x}", "", patch.start)?;
    }
    for fault in &ours.faults {
        writeln!(out, "{:21}made to fault at {:#x}: {}", "", fault.site, json::instruction(fault.insn))?;
    }
    for guard in &ours.guards {
        writeln!(out, "{:21}guarded: the page at {:#x}", "", guard.page)?;
    }
    Ok(())
}

/// All registers, or those that differ from `from`.
fn registers(
    out: &mut impl Write,
    label: &str,
    shown: &Registers,
    from: Option<&Registers>,
) -> io::Result<()> {
    let before = from.map(Registers::words);
    let changed = |i: usize, word: u64| before.is_none_or(|before| before[i] != word);
    let words: Vec<String> = REGISTER_NAMES
        .iter()
        .zip(shown.words())
        .enumerate()
        .filter(|(i, (_, word))| changed(*i, *word))
        .map(|(_, (name, word))| format!("{name}={word:#x}"))
        .collect();
    for (i, line) in words.chunks(6).enumerate() {
        writeln!(out, "{:21}{:7}{}", "", if i == 0 { label } else { "" }, line.join(" "))?;
    }
    Ok(())
}

/// What a signal does.
fn what_follows(signal: &SignalEvent) -> String {
    match &signal.handler {
        Some(_) if signal.is_of_memory() => "memory holds what it is found to hold".into(),
        Some(_) if signal.is_of_text() => "its own text may be executed from here on".into(),
        // A frame moves rsp, also where the signal came at this very handler's first instruction.
        Some(outcome) if outcome.regs == signal.before => "no room for its frame on the stack".into(),
        Some(outcome) => format!("handler at {:#x}", outcome.regs.rip),
        None => "ends the task".into(),
    }
}

#[cfg(test)]
mod tests {
    use bis_trace::types::Signal;

    use super::*;

    #[test]
    fn a_handler_that_is_interrupted_at_its_first_instruction_has_room() {
        let before = Registers { rip: 0x1000, rsp: 0x8000, ..Registers::default() };
        let signal = |regs| SignalEvent {
            signal: Signal(10),
            siginfo: vec![0; 128],
            point: SignalPoint::AfterEvent,
            before,
            handler: Some(Outcome { regs, ..Outcome::default() }),
        };
        assert_eq!(what_follows(&signal(Registers { rsp: 0x7c00, ..before })), "handler at 0x1000");
        assert_eq!(what_follows(&signal(before)), "no room for its frame on the stack");
    }
}
