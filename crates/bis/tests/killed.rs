//! Whatever is killed without a warning, at any moment, no process stays behind: of a recording, of a whole
//! replay, of a server with its client, and of a server whose debugger is killed.
//!
//! The moments are drawn, the same ones each time; `BIS_KILL_ROUNDS=N` tries N of each (default: 4). Who is
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

/// Who is killed.
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
    let rounds = env::var("BIS_KILL_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(4);
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
    Ok(())
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
