//! Places that are found by their state, and deceive: the replay goes back and takes the next one that fits.
//! It goes back to a checkpoint in front of the place, and to the begin of everything only where others have
//! seen what the domain has done since.
//!
//! The recording is told without the memory by which the place is known (`common/told.rs`), so that an
//! earlier one fits (`tests/lies/looks_the_same.c`).

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{
    common::{self, Folder, Step, told::Told},
    trial,
};
use bis_trace::{
    event::{EventKind, Lapse, Pause, PausePlace, RangeSum},
    types::{Addr, PAGE},
};
use libtest_mimic::{Failed, Trial};

const LIMIT: Duration = Duration::from_secs(60);

/// The rounds in which the signal may come: as many places are tried, and in the first one nothing deceives.
const ROUNDS: std::ops::RangeInclusive<u32> = 1..=3;

/// So many recordings are made until it comes in one of them. It depends on how the machine counts processor
/// time.
const RECORDINGS_MAX: usize = 20;

/// At least so many events are behind the program in front of the place, also where all its text is known
/// from a recording before, and hooks make most of its calls.
const EVENTS_BEFORE: u64 = 12;

pub fn trials() -> Vec<Trial> {
    let missing = !common::installed("gcc");
    if missing {
        println!("ignored: everything: gcc is not installed (apt-get install gcc)");
    }
    let mut trials = Vec::new();
    for (mode, flag) in [("hooks", "--ticks=auto"), ("no_hooks", "--no-hooks")] {
        trials.push(trial(module_path!(), format!("from_a_checkpoint::{mode}"), move || {
            from_a_checkpoint(flag)
        }));
        trials.push(trial(module_path!(), format!("from_the_begin::{mode}"), move || from_the_begin(flag)));
        trials.push(trial(module_path!(), format!("never_as_it_was::{mode}"), move || never_as_it_was(flag)));
        trials.push(trial(module_path!(), format!("what_was_kept_is_wrong::{mode}"), move || {
            kept_wrongly(flag)
        }));
    }
    trials.push(trial(
        module_path!(),
        String::from("holds_the_end_of_the_stack"),
        holds_the_end_of_the_stack,
    ));
    // They take their time.
    trials.push(trial(module_path!(), String::from("never_in_a_register"), || {
        never_in_a_register("--no-hooks")
    }));
    trials.push(trial(module_path!(), String::from("never_there"), || never_there("--ticks=auto")));
    trials.into_iter().map(|trial| trial.with_ignored_flag(missing)).collect()
}

/// A recording, what the program wrote in it, and the round in which the signal came.
fn recorded(folder: &Folder, flag: &str, args: &[&str]) -> Result<(PathBuf, Vec<u8>, u32), Failed> {
    let program = folder.path().join("program");
    common::compile(&common::tree().join("tests/lies/looks_the_same.c"), &program)?;
    for number in 0..RECORDINGS_MAX {
        let trace = folder.path().join(format!("trace.{number}"));
        let argv: Vec<_> = [program.as_os_str()].into_iter().chain(args.iter().map(AsRef::as_ref)).collect();
        let record = common::record_command(&trace, &[flag], &argv, folder.path());
        let step = common::run(record, "record", folder.path(), None, LIMIT)?;
        let text = String::from_utf8_lossy(&step.stdout).into_owned();
        let round = text.trim_end().rsplit(' ').next().and_then(|word| word.parse().ok());
        let Some(round) = round.filter(|_| step.status == 0) else {
            return Err(format!("failed to record\n{}", step.shown()).into());
        };
        if ROUNDS.contains(&round) {
            return Ok((trace, step.stdout.clone(), round));
        }
    }
    Err("the signal never came in one of the rounds that are wanted".into())
}

/// The same recording without the memory by which its pause is known; and that pause.
fn deceiving(trace: &Path, dir: &Path) -> Result<u64, Failed> {
    let told = Told::read(trace)?;
    let mut events = told.events.clone();
    let mut pauses = Vec::new();
    for event in events.values_mut().flatten() {
        if let EventKind::Pause(pause) = &mut event.kind {
            pause.held.clear();
            pause.seen.clear();
            pauses.push(event.seq.0);
        }
    }
    let [pause] = pauses[..] else {
        return Err(format!("one pause was expected, not those at events {pauses:?}").into());
    };
    told.write(&events, dir)?;
    Ok(pause)
}

fn replay(folder: &Folder, trace: &Path) -> Result<Step, Failed> {
    let mut replay = common::command(common::bis(), folder.path());
    replay.env("BIS_LOG", "bis_replay=info").args(["replay", "-a"]).arg(trace);
    common::run(replay, "replay", folder.path(), None, LIMIT)
}

/// It has come to its end, and has shown what the program wrote once.
fn must_replay(step: &Step, written: &[u8]) -> Result<(), Failed> {
    if step.status == 0 && step.stdout == written {
        return Ok(());
    }
    let written = String::from_utf8_lossy(written);
    Err(format!("status 0 was expected, and as output\n{written}\n{}", step.shown()).into())
}

/// What was learnt of the trace.
fn must_know(trace: &Path, wanted: &str) -> Result<(), Failed> {
    let known = fs::read_to_string(trace.join("places"))?;
    if known == wanted {
        return Ok(());
    }
    Err(format!("this was to be learnt:\n{wanted}and this was\n{known}").into())
}

/// How many events were behind the domain each time that it has gone back.
fn goes_back(step: &Step) -> Vec<u64> {
    let text = step.stderr_text();
    let plain: String = without_colours(&text);
    let lines = plain.lines().filter(|line| line.contains("the domain goes back"));
    let events = |line: &str| {
        line.split_whitespace().find_map(|word| word.strip_prefix("events=")).and_then(|n| n.parse().ok())
    };
    lines.filter_map(events).collect()
}

fn without_colours(text: &str) -> String {
    let mut parts = text.split('\u{1b}');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |all, part| all + part.split_once('m').map_or("", |(_, rest)| rest))
}

/// Whatever has changed between the looks at the task, the end of its stack is held as it was, not as a sum:
/// the replay compares what it knows without a stop. (Of a loop of OpenSSL's, the two looks had come within
/// one round: the replay stopped in each of millions.)
fn holds_the_end_of_the_stack() -> Result<(), Failed> {
    /// Not all of it: what was saved there of vector registers does not repeat.
    const LEN: u64 = 1024;
    const HELD_MIN: usize = 768;
    let folder = Folder::new("guesses.holds_the_end_of_the_stack")?;
    let (trace, ..) = recorded(&folder, "--ticks=auto", &[])?;
    let told = Told::read(&trace)?;
    let pause = told.events.values().flatten().find_map(|event| match &event.kind {
        EventKind::Pause(pause) if pause.place == PausePlace::State => Some(pause),
        _ => None,
    });
    let pause = pause.ok_or("there is no pause by its state")?;
    let sp = pause.regs.sp();
    let is_held = |at: Addr| {
        let holds = |addr: Addr, len: u64| addr <= at && at < addr + len;
        pause.held.iter().any(|piece| holds(piece.addr, piece.data.len() as u64))
    };
    let held = (0..LEN).filter(|at| is_held(sp + *at)).count();
    if held < HELD_MIN {
        return Err(format!("of {LEN} bytes from {sp:#x} on, {held} are held").into());
    }
    folder.done();
    Ok(())
}

fn from_a_checkpoint(flag: &str) -> Result<(), Failed> {
    let folder = Folder::new("guesses.from_a_checkpoint")?;
    let (trace, written, round) = recorded(&folder, flag, &[])?;
    let lie = folder.path().join("lie");
    let pause = deceiving(&trace, &lie)?;
    let step = replay(&folder, &lie)?;
    must_replay(&step, &written)?;
    must_know(&lie, &format!("proven\n{pause} {round}\n"))?;
    let back = goes_back(&step);
    if back.len() != round as usize || back.iter().any(|events| *events < EVENTS_BEFORE) {
        let what = format!("it was to go back {round} times, each time by few events: {back:?}");
        return Err(format!("{what}\n{}", step.shown()).into());
    }
    if step.stderr_text().contains("the replay begins again") {
        return Err(format!("all has begun again\n{}", step.shown()).into());
    }
    // What is known is not tried again, nor is anything kept for that.
    let again = replay(&folder, &lie)?;
    must_replay(&again, &written)?;
    if !goes_back(&again).is_empty() {
        return Err(format!("it was known\n{}", again.shown()).into());
    }
    folder.done();
    Ok(())
}

/// A process that was forked behind the place has the memory that it has: it has to be forked again.
fn from_the_begin(flag: &str) -> Result<(), Failed> {
    let folder = Folder::new("guesses.from_the_begin")?;
    let (trace, written, round) = recorded(&folder, flag, &["forks"])?;
    let lie = folder.path().join("lie");
    let pause = deceiving(&trace, &lie)?;
    let step = replay(&folder, &lie)?;
    must_replay(&step, &written)?;
    must_know(&lie, &format!("proven\n{pause} {round}\n"))?;
    let again = step.stderr_text().matches("the replay begins again").count();
    if again != round as usize || !goes_back(&step).is_empty() {
        return Err(format!("all was to begin again {round} times, not {again}\n{}", step.shown()).into());
    }
    folder.done();
    Ok(())
}

/// The recording of a program that waits for ever for a signal, and what it wrote; told otherwise of its last
/// pause by its state, whose event is told too.
fn waiting(
    folder: &Folder,
    flag: &str,
    change: impl FnOnce(&mut Pause),
) -> Result<(PathBuf, Vec<u8>, u64), Failed> {
    let program = folder.path().join("program");
    common::compile(&common::tree().join("tests/lies/for_ever.c"), &program)?;
    let trace = folder.path().join("trace");
    let record = common::record_command(&trace, &[flag], &[program.as_os_str()], folder.path());
    let recorded = common::run(record, "record", folder.path(), None, LIMIT)?;
    let told = Told::read(&trace)?;
    let mut events = told.events.clone();
    // The longer it took, the longer it is searched.
    events.values_mut().flatten().for_each(|event| event.lapse = Lapse::fitting(0));
    let pauses = events.values_mut().flatten().filter_map(|event| match &mut event.kind {
        EventKind::Pause(pause) if pause.place == PausePlace::State => Some((event.seq.0, pause)),
        _ => None,
    });
    let Some((seq, pause)) = pauses.last() else { return Err("there is no pause by its state".into()) };
    change(pause);
    let lie = folder.path().join("lie");
    told.write(&events, &lie)?;
    Ok((lie, recorded.stdout, seq))
}

/// Told like this, the place is not found but by less of what is known of it.
fn must_look_loosely(name: &str, flag: &str, change: impl FnOnce(&mut Pause)) -> Result<(), Failed> {
    let folder = Folder::new(&format!("guesses.{name}"))?;
    let (lie, written, seq) = waiting(&folder, flag, change)?;
    let step = replay(&folder, &lie)?;
    must_replay(&step, &written)?;
    must_know(&lie, &format!("proven\n{seq} 0 loose\n"))?;
    folder.done();
    Ok(())
}

/// Some of the memory is never as it was, and the program comes by the place for ever.
fn never_as_it_was(flag: &str) -> Result<(), Failed> {
    must_look_loosely("never_as_it_was", flag, |pause| {
        let addr = Addr(pause.regs.rsp & !(PAGE - 1));
        pause.seen.insert(0, RangeSum { addr, len: PAGE, sum: 1, is_stack: false });
    })
}

/// Some of the memory is never as it was: a word of a vector register that may be what an `xsavec` has left
/// in memory.
fn never_in_a_register(flag: &str) -> Result<(), Failed> {
    /// The upper half of xmm6.
    const AT: usize = 264;
    must_look_loosely("never_in_a_register", flag, |pause| {
        pause.extended.resize(pause.extended.len().max(AT + 8), 0);
        let mask = pause.extended[AT] ^ 2;
        pause.extended[AT..AT + 8].copy_from_slice(&[mask, 0, 0, 0, 0, 0, 0, 0]);
    })
}

/// The program never comes to the place, and goes on for ever: that ends, and is a divergence.
fn never_there(flag: &str) -> Result<(), Failed> {
    const NOWHERE: u64 = 0x1_0000;
    let folder = Folder::new("guesses.never_there")?;
    let (lie, _, seq) = waiting(&folder, flag, |pause| {
        pause.regs.rip = NOWHERE;
        pause.span.clear();
    })?;
    let step = replay(&folder, &lie)?;
    let text = without_colours(&step.stderr_text());
    let says = [format!("divergence at event {seq} "), "a computation that goes on and on".into()];
    if step.status == 0 || !says.iter().all(|what| text.contains(what)) {
        return Err(format!("a divergence was expected\n{}", step.shown()).into());
    }
    folder.done();
    Ok(())
}

/// What lies beside the trace may be wrong: it costs time only.
fn kept_wrongly(flag: &str) -> Result<(), Failed> {
    let folder = Folder::new("guesses.kept_wrongly")?;
    let (trace, written, _) = recorded(&folder, flag, &[])?;
    let told = Told::read(&trace)?;
    let is_pause = |event: &&bis_trace::event::Event| matches!(event.kind, EventKind::Pause(_));
    let pause = told.events.values().flatten().find(is_pause).ok_or("there is no pause")?.seq;
    fs::write(trace.join("places"), format!("{pause} 2\n"))?;
    let step = replay(&folder, &trace)?;
    must_replay(&step, &written)?;
    must_know(&trace, "proven\n")?;
    folder.done();
    Ok(())
}
