//! Whatever is killed without a warning, at any moment, no process stays behind: of a recording, of a whole
//! replay, of a server with its client, and of a server whose debugger is killed. And what a killed recorder
//! has written replays, with each event of each whole chunk.
//!
//! The moments are drawn, the same ones each time; `BIS_KILL_ROUNDS=N` tries N of each (default: 3). Who is
//! left by its parent comes to this process, so what has stayed behind is what is below it.

mod common;

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use common::{Folder, Running};
use libtest_mimic::{Failed, Trial};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, wait};

const LIMIT: Duration = Duration::from_secs(60);

/// How long processes may take to end that nobody needs any more, on a busy machine.
const END_MAX: Duration = Duration::from_secs(20);

/// The status of `bis replay -a` for a trace that was cut short (docs/using.md).
const REPLAYED_AS_FAR_AS_IT_GOES: i32 = 3;

/// The longest time until something is killed.
const DELAY_MAX: Duration = Duration::from_millis(1500);

/// What a debugger does meanwhile.
const COMMANDS: &str = "\
break work
continue
continue
reverse-continue
checkpoint
continue
watch total
continue
continue
reverse-continue
reverse-stepi
reverse-stepi
seek end
reverse-continue
reverse-continue
";

fn main() {
    let missing = ["gcc", "gdb"].into_iter().find(|program| !common::installed(program));
    if let Some(program) = missing {
        println!("ignored: everything: not installed (apt-get install {})", common::package_of(program));
    }
    // One after the other, because they look at all that is below this process.
    let trial =
        Trial::test("nothing_stays_behind", nothing_stays_behind).with_ignored_flag(missing.is_some());
    libtest_mimic::run(&common::arguments(), vec![trial]).exit();
}

/// The process that is killed.
#[derive(Clone, Copy, Debug)]
enum Victim {
    Recorder,
    Replay,
    /// A server that has started its debugger.
    Server,
    Debugger,
}

fn nothing_stays_behind() -> Result<(), Failed> {
    bis_tracee::sys::become_subreaper()?;
    let rounds = env::var("BIS_KILL_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(3);
    let folder = Folder::new("killed")?;
    let program = folder.path().join("program");
    common::compile(&common::tree().join("tests/lies/many_at_once.c"), &program)?;
    fs::write(folder.path().join("commands"), COMMANDS)?;
    let whole = folder.path().join("whole");
    let record = common::record_command(&whole, &[], &[program.as_os_str(), "50".as_ref()], folder.path());
    let step = common::run(record, "record", folder.path(), None, LIMIT)?;
    if step.status != 0 {
        return Err(format!("failed to record\n{}", step.shown()).into());
    }
    let mut draw = Draw(0x9e37_79b9_7f4a_7c15);
    for round in 0..rounds {
        for victim in [Victim::Recorder, Victim::Replay, Victim::Server, Victim::Debugger] {
            let delay = DELAY_MAX.mul_f64(draw.part());
            one(&folder, &program, &whole, (round, victim, delay))?;
        }
    }
    folder.done();
    Ok(())
}

fn one(
    folder: &Folder,
    program: &Path,
    whole: &Path,
    (round, victim, delay): (u32, Victim, Duration),
) -> Result<(), Failed> {
    let trace: PathBuf = folder.path().join("cut");
    let _ = fs::remove_dir_all(&trace);
    let command = match victim {
        Victim::Recorder => {
            common::record_command(&trace, &[], &[program.as_os_str(), "3000".as_ref()], folder.path())
        }
        Victim::Replay => {
            let mut command = common::command(common::bis(), folder.path());
            command.args(["replay", "-a"]).arg(whole);
            command
        }
        Victim::Server | Victim::Debugger => {
            let mut command = common::command(common::bis(), folder.path());
            command.arg("replay").arg(whole).args(["-x", "commands", "-o", "-batch", "-o", "-nx"]);
            command
        }
    };
    let mut running = common::start(command, "victim", folder.path(), None)?;
    thread::sleep(delay);
    let pid = match victim {
        Victim::Debugger => below().into_iter().find(|(_, name)| name == "gdb").map(|(pid, _)| pid),
        _ => Some(running.pid()),
    };
    // It may have ended, or not begun yet: then there is nobody to kill, and all ends by itself.
    if let Some(pid) = pid.and_then(Pid::from_raw) {
        let _ = kill_process(pid, Signal::KILL);
    }
    if let Some(left) = left_after(&mut running, END_MAX) {
        let shown: Vec<String> = left.iter().map(|(pid, name)| format!("{name} ({pid})")).collect();
        for pid in left.keys().filter_map(|pid| Pid::from_raw(*pid)) {
            // It may have ended meanwhile.
            let _ = kill_process(pid, Signal::KILL);
        }
        let what = format!("round {round}: {victim:?} was killed after {delay:?}");
        return Err(format!("{what}, and these have stayed: {}", shown.join(", ")).into());
    }
    match (victim, fs::read(trace.join("log"))) {
        (Victim::Recorder, Ok(log)) => loses_nothing(folder, &trace, &log),
        _ => Ok(()),
    }
}

/// A trace that was cut short has all events of its log's whole chunks, and replays to its end.
fn loses_nothing(folder: &Folder, trace: &Path, log: &[u8]) -> Result<(), Failed> {
    let written = events_of(log);
    let bis = |command: &[&str]| {
        let mut query = common::command(common::bis(), folder.path());
        query.args(command).arg(trace);
        common::run(query, command.first().copied().unwrap_or_default(), folder.path(), None, LIMIT)
    };
    let info = bis(&["info"])?;
    let told = String::from_utf8_lossy(&info.stdout);
    let events =
        told.lines().find_map(|line| line.strip_prefix("events ")).unwrap_or_default().replace(' ', "");
    // Without the first events there is no trace yet.
    if written > 0 && events != written.to_string() {
        return Err(format!("{written} events are in whole chunks\n{}", info.shown()).into());
    }
    let replay = bis(&["replay", "-a"])?;
    if written > 0 && !matches!(replay.status, 0 | REPLAYED_AS_FAR_AS_IT_GOES) {
        return Err(format!("{written} events do not replay\n{}", replay.shown()).into());
    }
    Ok(())
}

/// How many events are in a log's whole chunks, as docs/trace-format.md describes them.
fn events_of(log: &[u8]) -> u64 {
    const HEADER: usize = 24;
    const CHUNK_HEADER: usize = 48;
    /// The stream of entries about the trace itself.
    const META: u32 = 0;
    let mut rest = log.get(HEADER..).unwrap_or_default();
    let mut events = 0;
    while let Some(header) = rest.get(..CHUNK_HEADER) {
        let word = |at: usize| {
            header.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_le_bytes)
        };
        let end = CHUNK_HEADER + word(36) as usize;
        let Some(behind) = rest.get(end..) else { break };
        if word(4) != META {
            events += u64::from(word(12));
        }
        rest = behind;
    }
    events
}

/// Those that are still below this process when they should have ended.
fn left_after(running: &mut Running, time: Duration) -> Option<BTreeMap<i32, String>> {
    let began = Instant::now();
    loop {
        running.has_ended();
        // Orphans come to us, and wait for us to hear of their end.
        while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
        let left = below();
        if left.is_empty() {
            return None;
        }
        if began.elapsed() >= time {
            return Some(left);
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// All processes below this one, with their names.
fn below() -> BTreeMap<i32, String> {
    let own = std::process::id().cast_signed();
    let mut all = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let Some((head, tail)) = stat.rsplit_once(") ") else { continue };
        let name = head.split_once('(').map_or("", |(_, name)| name).to_owned();
        let parent = tail.split(' ').nth(1).and_then(|parent| parent.parse::<i32>().ok()).unwrap_or(0);
        all.insert(pid, (parent, name));
    }
    let is_below = |pid: i32| {
        let mut at = pid;
        while let Some((parent, _)) = all.get(&at) {
            if *parent == own {
                return true;
            }
            at = *parent;
        }
        false
    };
    all.iter().filter(|(pid, _)| is_below(**pid)).map(|(pid, (_, name))| (*pid, name.clone())).collect()
}

/// Numbers that look drawn (xorshift).
struct Draw(u64);

impl Draw {
    /// From 0 to 1.
    fn part(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        f64::from((self.0 >> 40) as u32) / f64::from(1 << 24)
    }
}
