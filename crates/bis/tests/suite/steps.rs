//! Steps are recorded (`bis record --steps A..B`) and compared (`bis replay --compare-steps`): the same trace
//! is the same, and one of which a byte or a register is told otherwise is narrowed to the instruction that
//! the lie changes first. The programs are in `tests/steps/`.

use std::{
    collections::BTreeMap,
    fs::{self, OpenOptions},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use crate::{
    common::{self, Folder, Step, told::Told},
    trial,
};
use bis_agent::hooks::entries;
use bis_trace::{
    event::{Event, EventKind, Outcome},
    steps::STEPS,
};
use libtest_mimic::{Failed, Trial};

const LIMIT: Duration = Duration::from_secs(120);

const READ: u64 = 0;
const GETPID: u64 = 39;
/// From here on numbers in logs are bis's own, for instructions.
const NO_CALL: u64 = 500;

/// What the program adds up, and which of its bytes is told otherwise.
const INPUT: &[u8] = b"instruction by instruction";
const LIED_AT: usize = 6;

pub fn trials() -> Vec<Trial> {
    let missing = !common::installed("gcc") || !common::installed("nm");
    if missing {
        println!("ignored: everything: gcc or nm is not installed (apt-get install gcc binutils)");
    }
    let trials = vec![
        trial(module_path!(), "the_same_is_the_same", the_same_is_the_same),
        trial(module_path!(), "threads_handlers_and_children", threads_handlers_and_children),
        trial(module_path!(), "a_byte_is_found_where_it_is_loaded", a_byte_is_found_where_it_is_loaded),
        trial(module_path!(), "a_register_is_found_behind_its_event", a_register_is_found_behind_its_event),
        trial(
            module_path!(),
            "a_cut_file_is_compared_as_far_as_it_goes",
            a_cut_file_is_compared_as_far_as_it_goes,
        ),
        trial(module_path!(), "a_damaged_file_is_refused", a_damaged_file_is_refused),
        trial(module_path!(), "a_trace_without_steps_is_refused", a_trace_without_steps_is_refused),
        trial(module_path!(), "more_is_summed_the_more_is_asked_for", more_is_summed_the_more_is_asked_for),
        trial(module_path!(), "they_are_shown_from_another_process_event_on", shown_from_anothers_event),
    ];
    trials.into_iter().map(|trial| trial.with_ignored_flag(missing)).collect()
}

/// The program that adds up, recorded; its executable and the trace.
fn recorded(folder: &Folder, flags: &[&str]) -> Result<(PathBuf, PathBuf), Failed> {
    let program = folder.path().join("sums");
    let source = common::tree().join("tests/steps/sums.c");
    let mut gcc = Command::new("gcc");
    gcc.args([
        "-O1",
        "-static",
        "-nostdlib",
        "-fno-stack-protector",
        "-fcf-protection=none",
        "-mno-red-zone",
        "-o",
    ]);
    let built = gcc.arg(&program).arg(&source).output()?;
    if !built.status.success() {
        return Err(format!("failed to build\n{}", String::from_utf8_lossy(&built.stderr)).into());
    }
    let trace = folder.path().join("trace");
    let record = common::record_command(&trace, flags, &[program.as_os_str()], folder.path());
    let step = common::run(record, "record", folder.path(), Some(INPUT), LIMIT)?;
    let sum: u32 = INPUT.iter().map(|byte| u32::from(*byte)).sum();
    if step.status != 0 || step.stdout != format!("{:04}\n", 2 * sum).as_bytes() {
        return Err(format!("failed to record: {}\n{}", step.status, step.shown()).into());
    }
    Ok((program, trace))
}

fn compare(folder: &Folder, trace: &Path) -> Result<Step, Failed> {
    let mut command = common::command(common::bis(), folder.path());
    command.args(["replay", "--compare-steps"]).arg(trace);
    common::run(command, "compare", folder.path(), None, LIMIT)
}

fn must(step: &Step, status: i32, text: &str) -> Result<(), Failed> {
    if step.status == status && step.stderr_text().contains(text) {
        return Ok(());
    }
    Err(format!("status {} and not {status}, or no {text:?}\n{}", step.status, step.shown()).into())
}

/// How many instructions it says that it has compared.
fn compared(step: &Step) -> Result<u64, Failed> {
    let text = step.stderr_text();
    let line = text.lines().find_map(|line| line.strip_prefix("bis: ")).unwrap_or_default();
    let digits: String = line.split(" instruction").next().unwrap_or_default().replace([',', ' '], "");
    digits.parse().map_err(|_| format!("no number of instructions\n{}", step.shown()).into())
}

/// The trace with events told otherwise; and its steps as they are.
fn told(folder: &Folder, trace: &Path, lie: impl Fn(&mut Event) -> bool) -> Result<PathBuf, Failed> {
    let told = Told::read(trace)?;
    let mut events: BTreeMap<u32, Vec<Event>> = told.events.clone();
    let told_otherwise = events.values_mut().flatten().map(|event| u32::from(lie(event))).sum::<u32>();
    if told_otherwise != 1 {
        return Err("there is no such event, or more than one".into());
    }
    let other = folder.path().join("told");
    told.write(&events, &other)?;
    fs::copy(trace.join(STEPS), other.join(STEPS))?;
    Ok(other)
}

fn outcome_of(event: &mut Event, wanted: u64) -> Option<&mut Outcome> {
    match &mut event.kind {
        EventKind::Syscall { nr, outcome, .. } if *nr == wanted => Some(outcome),
        _ => None,
    }
}

fn the_same_is_the_same() -> Result<(), Failed> {
    let folder = Folder::new("steps-same")?;
    let (_, trace) = recorded(&folder, &["--steps=0..1000"])?;
    let step = compare(&folder, &trace)?;
    must(&step, 0, "all with the recorded registers")?;
    // It loads each byte, moves 64 and adds them up.
    if compared(&step)? < 300 {
        return Err(format!("too few were compared\n{}", step.shown()).into());
    }
    folder.done();
    Ok(())
}

fn threads_handlers_and_children() -> Result<(), Failed> {
    let folder = Folder::new("steps-many")?;
    let program = folder.path().join("many");
    common::compile(&common::tree().join("tests/steps/many.c"), &program)?;
    let trace = folder.path().join("trace");
    let record =
        common::record_command(&trace, &["--steps=30..100000"], &[program.as_os_str()], folder.path());
    let step = common::run(record, "record", folder.path(), None, LIMIT)?;
    if step.status != 0 || step.stdout != b"1600 3\n" {
        return Err(format!("failed to record: {}\n{}", step.status, step.shown()).into());
    }
    let step = compare(&folder, &trace)?;
    must(&step, 0, "all with the recorded registers")?;
    if compared(&step)? < 5000 {
        return Err(format!("too few were compared\n{}", step.shown()).into());
    }
    folder.done();
    Ok(())
}

fn a_byte_is_found_where_it_is_loaded() -> Result<(), Failed> {
    let folder = Folder::new("steps-byte")?;
    let (program, trace) = recorded(&folder, &["--steps=0..1000"])?;
    let other = told(&folder, &trace, |event| {
        let Some(outcome) = outcome_of(event, READ) else { return false };
        let byte = outcome.writes.iter_mut().find_map(|write| write.data.get_mut(LIED_AT));
        byte.map(|byte| *byte ^= 0x40).is_some()
    })?;
    let step = compare(&folder, &other)?;
    let symbols = Command::new("nm").arg(&program).output()?;
    let symbols = String::from_utf8_lossy(&symbols.stdout);
    let load = symbols.lines().find_map(|line| line.strip_suffix(" T load_here")).ok_or("no load_here")?;
    must(&step, 1, &format!("instruction: {:#x}  movzx", u64::from_str_radix(load, 16)?))?;
    let byte = u64::from(INPUT[LIED_AT]);
    let text = step.stderr_text();
    let differing: Vec<&str> = text.lines().filter(|line| line.ends_with("<- differs")).collect();
    let words: Vec<&str> = differing.iter().flat_map(|line| line.split_whitespace()).collect();
    let (recorded, replayed) = (format!("{byte:#x}"), format!("{:#x}", byte ^ 0x40));
    // One register, the one that was loaded.
    if differing.len() != 1 || words.get(1..3) != Some(&[recorded.as_str(), replayed.as_str()]) {
        return Err(format!("other registers differ: {differing:?}\n{}", step.shown()).into());
    }
    folder.done();
    Ok(())
}

fn a_register_is_found_behind_its_event() -> Result<(), Failed> {
    let folder = Folder::new("steps-register")?;
    let (_, trace) = recorded(&folder, &["--steps=0..1000"])?;
    let mut seq = 0;
    for event in Told::read(&trace)?.events.values_mut().flatten() {
        if outcome_of(event, GETPID).is_some() {
            seq = event.seq.0;
        }
    }
    let other = told(&folder, &trace, |event| {
        outcome_of(event, GETPID).map(|outcome| outcome.regs.r15 ^= 0x1000).is_some()
    })?;
    let step = compare(&folder, &other)?;
    must(&step, 1, &format!("has other registers behind event {seq} itself"))?;
    let text = step.stderr_text();
    let differing: Vec<&str> = text.lines().filter(|line| line.ends_with("<- differs")).collect();
    if differing.len() != 1 || !differing[0].trim_start().starts_with("r15 ") {
        return Err(format!("other registers differ: {differing:?}\n{}", step.shown()).into());
    }
    folder.done();
    Ok(())
}

fn a_cut_file_is_compared_as_far_as_it_goes() -> Result<(), Failed> {
    let folder = Folder::new("steps-cut")?;
    let (_, trace) = recorded(&folder, &["--steps=0..1000"])?;
    let all = compared(&compare(&folder, &trace)?)?;
    let steps = OpenOptions::new().write(true).open(trace.join(STEPS))?;
    steps.set_len(steps.metadata()?.len() - 5)?;
    let step = compare(&folder, &trace)?;
    must(&step, 3, "it was cut short")?;
    let some = compared(&step)?;
    if some == 0 || some >= all {
        return Err(format!("{some} of {all} instructions were compared\n{}", step.shown()).into());
    }
    folder.done();
    Ok(())
}

fn a_damaged_file_is_refused() -> Result<(), Failed> {
    let folder = Folder::new("steps-damaged")?;
    let (_, trace) = recorded(&folder, &["--steps=0..1000"])?;
    let mut bytes = fs::read(trace.join(STEPS))?;
    // Behind the headers of the file and of the first frame.
    bytes[60] ^= 1;
    fs::write(trace.join(STEPS), bytes)?;
    must(&compare(&folder, &trace)?, 2, "a frame's checksum is wrong")?;
    folder.done();
    Ok(())
}

fn more_is_summed_the_more_is_asked_for() -> Result<(), Failed> {
    let folder = Folder::new("steps-sums")?;
    let program = folder.path().join("many");
    common::compile(&common::tree().join("tests/steps/many.c"), &program)?;
    // Of the first sums of a recording and of its calls.
    let mut ranges = Vec::new();
    for degree in ["events", "calls", "all"] {
        let trace = folder.path().join(degree);
        let flag = format!("--checksum={degree}");
        let record = common::record_command(&trace, &[&flag], &[program.as_os_str()], folder.path());
        let step = common::run(record, degree, folder.path(), None, LIMIT)?;
        if step.status != 0 || step.stdout != b"1600 3\n" {
            return Err(format!("failed to record: {}\n{}", step.status, step.shown()).into());
        }
        let mut replay = common::command(common::bis(), folder.path());
        replay.args(["replay", "-a"]).arg(&trace);
        must(&common::run(replay, "replay", folder.path(), None, LIMIT)?, 0, "")?;
        let told = Told::read(&trace)?;
        // Reads of the clock are in the logs, too, and are no calls.
        let is_call = |log: &[u8]| entries(log).any(|entry| u64::from(entry.nr) < NO_CALL);
        let calls_of_hooks = told.events.values().flatten().filter(|event| match &event.kind {
            EventKind::Hooked { log, .. } => is_call(log),
            _ => false,
        });
        let calls_of_hooks = calls_of_hooks.count();
        let summed = told.events.values().flatten().map(|event| event.sums.len()).max();
        ranges.push((calls_of_hooks, summed.unwrap_or(0)));
    }
    let [events, calls, all] = ranges[..] else { return Err("not three degrees".into()) };
    if events.0 == 0 || events.1 == 0 || calls.0 != 0 || all.0 != 0 || all.1 <= calls.1 {
        return Err(format!("hooked calls and sums: {events:?} {calls:?} {all:?}").into());
    }
    folder.done();
    Ok(())
}

fn a_trace_without_steps_is_refused() -> Result<(), Failed> {
    let folder = Folder::new("steps-none")?;
    let (_, trace) = recorded(&folder, &[])?;
    must(&compare(&folder, &trace)?, 2, "the trace has no steps")?;
    folder.done();
    Ok(())
}

/// `replay --trace-from EVENT` where the event is of another process: the one that is asked for waits
/// meanwhile, and has none of its own until long after.
fn shown_from_anothers_event() -> Result<(), Failed> {
    let folder = Folder::new("steps_from_anothers")?;
    let trace = folder.path().join("trace");
    let argv = ["sh", "-c", "echo one; (echo two); echo three"].map(std::ffi::OsStr::new);
    let record = common::record_command(&trace, &[], &argv, folder.path());
    common::run(record, "record", folder.path(), None, LIMIT)?;
    let bis = |name: &str, args: &[&str]| {
        let mut command = common::command(common::bis(), folder.path());
        command.args(args).arg(&trace);
        common::run(command, name, folder.path(), None, LIMIT)
    };
    let dump = String::from_utf8(bis("dump", &["dump", "--call", "write"])?.stdout)?;
    let writes: Vec<Vec<&str>> = dump.lines().map(|line| line.split_whitespace().collect()).collect();
    let [one, two, three] = &writes[..] else { return Err(format!("not three writes:\n{dump}").into()) };
    if one[1] != three[1] || one[1] == two[1] {
        return Err(format!("the second line is not another process's:\n{dump}").into());
    }
    let shown = bis("shown", &["replay", "-q", "--trace-from", two[0], "--pid", one[1]])?;
    let text = shown.stderr_text();
    let is_its = |line: &str| line.starts_with(&format!("{} ", one[1]));
    if shown.status != 0 || text.lines().count() < 2 || !text.lines().all(is_its) {
        return Err(format!("status {}\n{}", shown.status, shown.shown()).into());
    }
    // Behind all events, nothing can be shown, and nobody can stand.
    must(&bis("behind", &["replay", "-q", "--trace-from", "1000"])?, 2, "has ended before event 1000")?;
    let far = bis("far", &["replay", "-s", "0", "-p", one[1], "-g", "1000"])?;
    must(&far, 2, "this process is recorded from event")?;
    let whose = format!("event {} is one of process {} (-p {1})", one[0], one[1]);
    must(&bis("early", &["replay", "-s", "0", "-p", two[1], "-g", one[0]])?, 2, &whose)?;
    folder.done();
    Ok(())
}
