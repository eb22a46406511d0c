//! Replay tells when the program does something else than it did when it was recorded: at the event where it
//! is seen first, with a status that is not 0.
//!
//! A replay that goes as it should proves little of that. So one program with a little of everything
//! (`tests/lies/`) is recorded, and replay is told one lie about each kind of event that it can check:
//! another register, another call, another signal, another count, an event less. The true trace replays; each
//! of the others is a divergence, at that event. (What is said wrongly of a log is seen at the event that
//! uses it, and that one is missing at the one behind it.)

use std::{collections::BTreeSet, ffi::OsStr, fs, path::Path, time::Duration};

use crate::{
    common::{self, Folder, Step, told::Told},
    trial,
};
use bis_agent::hooks::entries;
use bis_trace::{
    event::{Event, EventKind, Pause, PausePlace},
    types::{Registers, Signal},
};
use libtest_mimic::{Failed, Trial};

const LIMIT: Duration = Duration::from_secs(60);

/// Of one kind of lie, this many events are told: the first, the last, and others in between.
const EACH: usize = 4;

/// What can be said wrongly of an event. None: of this one it cannot.
type Lie = fn(&Event) -> Option<EventKind>;

const LIES: [(&str, Lie); 21] = [
    ("a call has another number", |event| match event.kind.clone() {
        EventKind::Syscall { nr, entry, outcome } if is_call(nr) => {
            Some(EventKind::Syscall { nr: nr + 1, entry, outcome })
        }
        EventKind::SyscallEnter { nr, entry } => Some(EventKind::SyscallEnter { nr: nr + 1, entry }),
        _ => None,
    }),
    ("a call has another first argument", |event| with_entry(event, |regs| regs.rdi ^= 1)),
    ("a call has another sixth argument", |event| with_entry(event, |regs| regs.r9 ^= 1 << 63)),
    ("a call is made elsewhere", |event| with_entry(event, |regs| regs.rip += 2)),
    ("a call is made with another stack", |event| with_entry(event, |regs| regs.rsp -= 8)),
    ("a call is made with other flags", |event| with_entry(event, |regs| regs.eflags ^= 1)),
    ("a call is made by another thread's registers", |event| with_entry(event, |regs| regs.fs_base += 64)),
    ("a call writes other output", |event| match event.kind.clone() {
        EventKind::Syscall { nr, entry, mut outcome } => {
            outcome.echo.as_mut()?.sum ^= 2;
            Some(EventKind::Syscall { nr, entry, outcome })
        }
        EventKind::SyscallExit { nr, mut outcome } => {
            outcome.echo.as_mut()?.sum ^= 2;
            Some(EventKind::SyscallExit { nr, outcome })
        }
        _ => None,
    }),
    ("a hooked call has other arguments", |event| with_log(event, |log| log[CHECK_AT] ^= 1)),
    ("a hooked call has another number", |event| with_log(event, |log| log[0] ^= 1)),
    ("a hooked call is missing", |event| {
        with_log(event, |log| {
            let len = entry_len(log);
            log.drain(..len);
        })
    }),
    ("a hooked call is made once more", |event| {
        with_log(event, |log| {
            let first = log[..entry_len(log)].to_vec();
            log.extend(first);
        })
    }),
    ("a signal finds other registers", |event| match event.kind.clone() {
        EventKind::Signal(mut signal) => {
            signal.before.rbx ^= 1;
            Some(EventKind::Signal(signal))
        }
        _ => None,
    }),
    ("a signal comes elsewhere", |event| match event.kind.clone() {
        EventKind::Signal(mut signal) => {
            signal.before.rip += 1;
            Some(EventKind::Signal(signal))
        }
        _ => None,
    }),
    ("a fault is another", |event| match event.kind.clone() {
        EventKind::Signal(mut signal) if signal.signal == Signal::SEGV => {
            signal.signal = SIGBUS;
            Some(EventKind::Signal(signal))
        }
        _ => None,
    }),
    ("an instruction traps with other registers", |event| match event.kind.clone() {
        EventKind::Instruction { insn, mut before, after } => {
            before.r12 ^= 1;
            Some(EventKind::Instruction { insn, before, after })
        }
        _ => None,
    }),
    ("a pause has another register", |event| with_pause(event, |pause| pause.regs.r13 ^= 1)),
    ("a pause has another vector", |event| {
        with_pause(event, |pause| pause.extended.iter_mut().for_each(|byte| *byte ^= 1))
    }),
    ("a pause is later", |event| {
        with_pause(event, |pause| {
            if let PausePlace::Count(count) = &mut pause.place {
                *count += 1;
            }
        })
    }),
    ("a pause is earlier", |event| {
        with_pause(event, |pause| {
            if let PausePlace::Count(count) = &mut pause.place {
                *count -= 1;
            }
        })
    }),
    ("a count traps elsewhere", |event| with_pause(event, |pause| pause.trap += 16)),
];

/// How the program is recorded.
struct Mode {
    name: &'static str,
    flag: &'static str,
    args: &'static [&'static str],
    /// There are no such events then.
    has_no: &'static [&'static str],
}

const MODES: [Mode; 2] = [
    Mode { name: "with_hooks", flag: "--ticks=software", args: &[], has_no: &["an instruction"] },
    Mode {
        name: "without_hooks",
        flag: "--no-hooks",
        args: &["calm"],
        has_no: &["hooked", "a pause", "a count"],
    },
];

/// In an entry of a log (`bis_agent::hooks::entries`): the hash of the arguments, and where its memory
/// begins.
const CHECK_AT: usize = 4;
const DATA_AT: usize = 16;

/// Of the first entry.
fn entry_len(log: &[u8]) -> usize {
    DATA_AT + entries(log).next().map_or(0, |entry| entry.data.len())
}

const SIGBUS: Signal = Signal(7);

/// Not one of the stops that only look like calls.
fn is_call(nr: u64) -> bool {
    nr < 500
}

fn with_entry(event: &Event, change: impl Fn(&mut Registers)) -> Option<EventKind> {
    match event.kind.clone() {
        EventKind::Syscall { nr, mut entry, outcome } if is_call(nr) => {
            change(&mut entry);
            Some(EventKind::Syscall { nr, entry, outcome })
        }
        EventKind::SyscallEnter { nr, mut entry } => {
            change(&mut entry);
            Some(EventKind::SyscallEnter { nr, entry })
        }
        _ => None,
    }
}

fn with_log(event: &Event, change: impl Fn(&mut Vec<u8>)) -> Option<EventKind> {
    match event.kind.clone() {
        EventKind::Hooked { alone, log } => {
            let mut log = log.to_vec();
            change(&mut log);
            (!log.is_empty()).then(|| EventKind::Hooked { alone, log: log.into() })
        }
        _ => None,
    }
}

/// Only of a pause by count. One by its state is looked for: if what comes later is wrong, it may have been
/// taken for another, and it takes a while until all that it could have been is tried. The program has none.
fn with_pause(event: &Event, change: impl Fn(&mut Pause)) -> Option<EventKind> {
    match event.kind.clone() {
        EventKind::Pause(mut pause) if pause.place != PausePlace::State => {
            change(&mut pause);
            Some(EventKind::Pause(pause))
        }
        _ => None,
    }
}

pub fn trials() -> Vec<Trial> {
    let missing = !common::installed("gcc");
    if missing {
        println!("ignored: everything: gcc is not installed (apt-get install gcc)");
    }
    let trials = MODES
        .map(|mode| trial(module_path!(), mode.name, move || tell_lies(&mode)).with_ignored_flag(missing));
    trials.into()
}

fn replay(folder: &Folder, trace: &Path) -> Result<Step, Failed> {
    let mut command = common::command(common::bis(), folder.path());
    command.arg("replay").arg("-a").arg(trace);
    common::run(command, "replay", folder.path(), None, LIMIT)
}

/// Replays it with one event told otherwise, or left out: that must be seen there, or at the first event of
/// its task behind it that is a place.
fn tell(
    told: &Told,
    folder: &Folder,
    what: &str,
    domain: u32,
    at: usize,
    lie: Option<EventKind>,
) -> Result<(), Failed> {
    let dir = folder.path().join("lie");
    let mut events = told.events.clone();
    let stream = events.get_mut(&domain).ok_or("no such domain")?;
    // What another thread does meanwhile is as it was.
    let tid = stream[at].tid;
    match lie {
        Some(kind) => stream[at].kind = kind,
        None => drop(stream.remove(at)),
    }
    let is_its_place = |event: &Event| event.tid == tid && event.is_place();
    let behind = || stream[at..].iter();
    let last = behind().position(is_its_place).or_else(|| behind().position(Event::is_place));
    let len = last.map_or(0, |last| last + 1);
    let places: Vec<u64> = stream[at..at + len].iter().map(|event| event.seq.0).collect();
    told.write(&events, &dir)?;
    let step = replay(folder, &dir)?;
    let said = step.stderr_text();
    // Without an event between them, some say already that something is missing.
    let says = |text: &str| places.iter().any(|seq| said.contains(&format!("{text} at event {seq} ")));
    let is_seen = says("divergence") || says("the trace contradicts itself");
    if step.status == 0 || !is_seen {
        let told = &told.events[&domain][at];
        let kind = format!("{:.300}", format!("{:?}", told.kind));
        let step = step.shown();
        return Err(
            format!("{what}: not seen at event {} of domain {domain}: {kind}\n{step}", told.seq.0).into()
        );
    }
    fs::remove_dir_all(&dir)?;
    Ok(())
}

/// Is this a call that is missed where its event is not there? One that the kernel makes again (a clone that
/// a signal has interrupted, on a busy machine) has the same event again behind it.
fn is_missed(event: &Event) -> bool {
    const INSTRUCTION_LEN: u64 = 2;
    match &event.kind {
        EventKind::Syscall { nr, entry, outcome } => {
            is_call(*nr) && outcome.regs.rip.wrapping_add(INSTRUCTION_LEN) != entry.rip
        }
        _ => false,
    }
}

/// Some of so many.
fn some<T: Copy>(all: &[T]) -> Vec<T> {
    let wanted = EACH.min(all.len());
    (0..wanted).map(|i| all[if wanted < 2 { 0 } else { i * (all.len() - 1) / (wanted - 1) }]).collect()
}

fn tell_lies(mode: &Mode) -> Result<(), Failed> {
    let folder = Folder::new(&format!("lies.{}", mode.name))?;
    let program = folder.path().join("program");
    common::compile(&common::tree().join("tests/lies/everything.c"), &program)?;
    let trace = folder.path().join("trace");
    // The first one learns which loops are to be counted.
    for _ in 0..2 {
        let _ = fs::remove_dir_all(&trace);
        let mut argv = vec![program.as_os_str()];
        argv.extend(mode.args.iter().map(OsStr::new));
        let record = common::record_command(&trace, &[mode.flag], &argv, folder.path());
        let recorded = common::run(record, "record", folder.path(), None, LIMIT)?;
        if recorded.status != 0 {
            return Err(format!("failed to record\n{}", recorded.shown()).into());
        }
        common::replay_and_compare(&trace, &recorded, folder.path(), LIMIT)?;
    }
    let told = Told::read(&trace)?;
    let copy = folder.path().join("copy");
    told.write(&told.events, &copy)?;
    let step = replay(&folder, &copy)?;
    if step.status != 0 {
        return Err(format!("the same trace, written again, does not replay\n{}", step.shown()).into());
    }
    let by_state = |event: &Event| matches!(&event.kind, EventKind::Pause(p) if p.place == PausePlace::State);
    if let Some(event) = told.events.values().flatten().find(|event| by_state(event)) {
        return Err(format!("event {} is a pause by its state", event.seq.0).into());
    }
    let places: Vec<(u32, usize)> = told
        .events
        .iter()
        .flat_map(|(domain, events)| (0..events.len()).map(move |at| (*domain, at)))
        .collect();
    let mut told_of = BTreeSet::new();
    for (what, lie) in LIES {
        let possible: Vec<(u32, usize)> =
            places.iter().copied().filter(|(domain, at)| lie(&told.events[domain][*at]).is_some()).collect();
        told_of.extend((!possible.is_empty()).then_some(what));
        for (domain, at) in some(&possible) {
            tell(&told, &folder, what, domain, at, lie(&told.events[&domain][at]))?;
        }
    }
    // A lie that is never told proves nothing.
    let is_told = |what: &str| told_of.contains(what) || mode.has_no.iter().any(|word| what.contains(word));
    if let Some((what, _)) = LIES.iter().find(|(what, _)| !is_told(what)) {
        return Err(format!("there is no event of which to say that {what}").into());
    }
    let left_out: Vec<(u32, usize)> =
        places.iter().copied().filter(|(domain, at)| is_missed(&told.events[domain][*at])).collect();
    for (domain, at) in some(&left_out) {
        tell(&told, &folder, "a call is missing", domain, at, None)?;
    }
    folder.done();
    Ok(())
}
