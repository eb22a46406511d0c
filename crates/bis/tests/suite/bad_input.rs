//! What a person gets for bad input: one clear line on standard error, a status that is not 0, no panic, no
//! hang.
//!
//! Programs that cannot be started, folders that cannot be used, and traces that are missing, empty, cut
//! short, damaged or from another version. Damage may leave a part that replays; see [`honest`] for what
//! holds then.

use std::ffi::OsStr;
use std::fs;
use std::ops::Range;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use crate::{
    common::{self, Folder, Step, told::Told},
    trial,
};
use libtest_mimic::{Failed, Trial};

const LIMIT: Duration = Duration::from_secs(60);

/// Of `replay`, for a trace that was cut short (docs/using.md).
const STATUS_CUT: i32 = 3;

type Body = fn(&Folder) -> Result<(), Failed>;

pub fn trials() -> Vec<Trial> {
    let trials: [(&str, Body); 30] = [
        ("a_missing_program", missing_program),
        ("a_file_that_cannot_be_executed", not_executable),
        ("a_program_of_another_kind", not_a_program),
        ("a_folder_that_cannot_be_written", unwritable_folder),
        ("an_output_folder_that_is_in_use", used_folder),
        ("an_output_that_is_a_file", output_is_a_file),
        ("a_recorder_without_descriptors", no_descriptors),
        ("a_replay_with_few_descriptors", few_descriptors),
        ("a_recorder_without_memory", no_memory),
        ("a_program_that_limits_its_memory", limited_memory),
        ("a_recorder_that_may_make_no_large_files", no_large_files),
        ("a_recorder_that_may_start_no_threads", no_threads),
        ("a_container_with_few_processes", few_in_the_container),
        ("a_pid_namespace_without_its_proc", another_proc),
        ("a_folder_that_vanishes", vanished_folder),
        ("a_program_that_may_not_be_read", not_readable),
        ("a_program_that_may_not_be_read_in_a_tree", not_readable_in_a_tree),
        ("a_home_where_nothing_can_be_made", no_home),
        ("a_missing_trace", missing_trace),
        ("a_place_beyond_the_end", beyond_the_end),
        ("an_empty_trace", empty_trace),
        ("a_folder_without_a_trace", not_a_trace),
        ("a_trace_cut_short", cut_short),
        ("a_trace_without_its_last_words", no_last_words),
        ("a_recorder_that_is_killed", killed_recorder),
        ("a_trace_with_flipped_bits", flipped_bits),
        ("a_trace_without_one_of_its_chunks", lost_chunks),
        ("a_trace_without_one_of_its_processes", lost_process),
        ("a_trace_from_a_newer_version", newer_version),
        ("a_trace_that_lost_its_files", lost_files),
    ];
    let trials = trials.map(|(name, body)| {
        trial(module_path!(), name, move || {
            let folder = Folder::new(&format!("bad.{name}"))?;
            body(&folder)?;
            folder.done();
            Ok(())
        })
    });
    trials.into()
}

/// `bis ARGS` in the folder. Whatever it does, it must not panic.
fn bis(folder: &Folder, args: &[&OsStr]) -> Result<Step, Failed> {
    let mut command = common::command(common::bis(), folder.path());
    command.args(args);
    let step = common::run(command, "bis", folder.path(), None, LIMIT)?;
    let text = step.stderr_text();
    if text.contains("panicked at") || step.status == 101 || [134, 139].contains(&step.status) {
        return Err(format!("it fell over with {args:?}, status {}\n{}", step.status, step.shown()).into());
    }
    Ok(step)
}

fn record(folder: &Folder, trace: &Path, program: &[&str]) -> Result<Step, Failed> {
    let mut args: Vec<&OsStr> = vec!["record".as_ref(), "-o".as_ref(), trace.as_os_str(), "--".as_ref()];
    args.extend(program.iter().map(OsStr::new));
    bis(folder, &args)
}

fn replay(folder: &Folder, trace: &Path) -> Result<Step, Failed> {
    bis(folder, &["replay".as_ref(), "-a".as_ref(), trace.as_os_str()])
}

/// A refusal: this status, nothing on stdout, one line on stderr that begins with `bis: ` and has all
/// `words`.
fn refused(step: &Step, status: impl Into<Option<i32>>, words: &[&str]) -> Result<(), Failed> {
    let text = step.stderr_text();
    let wrong = if status.into().map_or(step.status == 0, |status| step.status != status) {
        "the status is wrong"
    } else if !step.stdout.is_empty() {
        "there is something on stdout"
    } else if text.lines().count() != 1 {
        "it is not one line on stderr"
    } else if !text.starts_with("bis: ") {
        "the line does not begin with the command's name"
    } else if let Some(word) = words.iter().find(|word| !text.contains(**word)) {
        return Err(format!("\"{word}\" is not in: {text}").into());
    } else {
        return Ok(());
    };
    Err(format!("{wrong}: status {}\n{}", step.status, step.shown()).into())
}

/// A trace of two processes with a few chunks' worth of output, and what it wrote.
fn good_trace(folder: &Folder) -> Result<(PathBuf, Step), Failed> {
    let trace = folder.path().join("good");
    let step = record(folder, &trace, &["sh", "-c", "seq 1 20000; ls -l /usr/bin | sort"])?;
    if step.status != 0 {
        return Err(format!("failed to record: status {}\n{}", step.status, step.shown()).into());
    }
    Ok((trace, step))
}

/// A copy of a trace, with its log changed; the index goes, as it would only repeat what the log was.
fn changed(
    folder: &Folder,
    trace: &Path,
    name: &str,
    change: impl FnOnce(&mut Vec<u8>),
) -> Result<PathBuf, Failed> {
    let copy = folder.path().join(name);
    let status = std::process::Command::new("cp").arg("-a").arg(trace).arg(&copy).status();
    if !status.map_err(|e| format!("failed to start cp: {e}"))?.success() {
        return Err("failed to copy the trace".into());
    }
    let log = copy.join("log");
    let mut bytes = fs::read(&log).map_err(|e| format!("failed to read {}: {e}", log.display()))?;
    change(&mut bytes);
    fs::write(&log, bytes).map_err(|e| format!("failed to write {}: {e}", log.display()))?;
    let _ = fs::remove_file(copy.join("index"));
    Ok(copy)
}

fn missing_program(folder: &Folder) -> Result<(), Failed> {
    let trace = folder.path().join("trace");
    refused(&record(folder, &trace, &["no-such-program-anywhere"])?, 127, &["no-such-program-anywhere"])?;
    refused(&record(folder, &trace, &["/no/such/folder/program"])?, 127, &["/no/such/folder/program"])
}

fn not_executable(folder: &Folder) -> Result<(), Failed> {
    let file = folder.path().join("plain");
    fs::write(&file, "text").map_err(|e| e.to_string())?;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).map_err(|e| e.to_string())?;
    let trace = folder.path().join("trace");
    refused(&record(folder, &trace, &["./plain"])?, 126, &["plain"])?;
    refused(&record(folder, &trace, &["/"])?, 126, &["/"])
}

fn not_a_program(folder: &Folder) -> Result<(), Failed> {
    let file = folder.path().join("broken");
    fs::write(&file, b"\x7fELF and then nothing that makes sense").map_err(|e| e.to_string())?;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).map_err(|e| e.to_string())?;
    refused(&record(folder, &folder.path().join("trace"), &["./broken"])?, 126, &["broken"])
}

fn unwritable_folder(folder: &Folder) -> Result<(), Failed> {
    // Root may write anywhere but here.
    let step = record(folder, Path::new("/proc/no-traces-here"), &["true"])?;
    refused(&step, None, &["/proc/no-traces-here"])
}

fn used_folder(folder: &Folder) -> Result<(), Failed> {
    let used = folder.sub("used")?;
    fs::write(used.join("precious"), "data").map_err(|e| e.to_string())?;
    refused(&record(folder, &used, &["touch", "it-ran"])?, None, &["used"])?;
    let left = fs::read_dir(&used).map_err(|e| e.to_string())?.count();
    if left != 1 || folder.path().join("it-ran").exists() {
        return Err(format!("the program ran, or the folder has {left} files now").into());
    }
    Ok(())
}

/// Whatever the recorder could open before it had no descriptor left, what it recorded was the program's own
/// doing: it says that it cannot go on, and how it could. Some processes run side by side, so that it happens
/// in many places.
fn no_descriptors(folder: &Folder) -> Result<(), Failed> {
    const PROGRAM: &str =
        "/bin/echo a; /bin/echo b | cat; for i in 1 2 3; do (/bin/sleep .02; /bin/true) & done; wait; exit 3";
    let mut ends = [0, 0];
    for limit in 7..=40 {
        let trace = folder.path().join(format!("trace.{limit}"));
        let mut command = common::command("prlimit", folder.path());
        command.arg(format!("--nofile={limit}:{limit}")).arg(common::bis()).args(["record", "-o"]);
        command.arg(&trace).args(["--", "sh", "-c", PROGRAM]);
        let step = common::run(command, "record", folder.path(), None, LIMIT)?;
        let (out, err) = (String::from_utf8_lossy(&step.stdout), step.stderr_text());
        let honest = match step.status {
            3 => out == "a\nb\n" && err.is_empty(),
            // What is left of the program is killed; its shell may still say so.
            125 => {
                let ours =
                    |line: &&str| line.starts_with("bis: failed ") && line.contains("raise ulimit -Hn");
                let others = |line: &str| !line.starts_with("bis: ") && !line.starts_with("Killed");
                let said = (err.lines().filter(ours).count(), err.lines().any(others));
                "a\nb\n".starts_with(&*out) && said == (1, false)
            }
            _ => false,
        };
        if !honest {
            return Err(format!("with {limit} descriptors: status {}\n{}", step.status, step.shown()).into());
        }
        ends[usize::from(step.status == 125)] += 1;
    }
    if ends.contains(&0) {
        return Err(format!("recorded, and refused for want of descriptors: {ends:?} times").into());
    }
    Ok(())
}

/// A program that has had much more shared memory than there may be descriptors, one piece after the other:
/// what it has given back, replay does not keep.
fn few_descriptors(folder: &Folder) -> Result<(), Failed> {
    const LIMIT_OF_FILES: &str = "--nofile=100:100";
    let program = folder.path().join("program");
    let source = common::tree().join("tests/guests/sharedmem/one_after_another.c");
    common::compile(&source, &program)?;
    let trace = folder.path().join("trace");
    let recorded = record(folder, &trace, &[&program.to_string_lossy()])?;
    if recorded.status != 0 {
        return Err(recorded.shown().into());
    }
    for query in [&["replay", "-a"][..], &["dump", "--kind", "exit"]] {
        let mut command = common::command("prlimit", folder.path());
        command.arg(LIMIT_OF_FILES).arg(common::bis()).args(query).arg(&trace);
        let step = common::run(command, query[0], folder.path(), None, LIMIT)?;
        if step.status != 0 {
            return Err(step.shown().into());
        }
    }
    Ok(())
}

/// Where memory ends, and in which of its threads, is chance: each time there is one line that names the
/// limit.
fn no_memory(folder: &Folder) -> Result<(), Failed> {
    let mut ends = [0, 0];
    // With the first, not even the recorder's own loader has room; with one of the next few, just that has.
    for limit in (16..32).chain((32..=200).step_by(8)) {
        let trace = folder.path().join(format!("trace.{limit}"));
        let mut command = common::command("prlimit", folder.path());
        command.arg(format!("--as={}", limit << 20)).arg(common::bis()).args(["record", "-o"]);
        command.arg(&trace).args(["--", "/bin/true"]);
        let step = common::run(command, "record", folder.path(), None, LIMIT)?;
        let text = step.stderr_text();
        let said = |line: &&str| line.starts_with("bis: failed ") && line.contains("too low");
        let honest = match step.status {
            0 => text.is_empty(),
            125 => {
                text.lines().filter(said).count() >= 1 && text.lines().all(|line| line.starts_with("bis: "))
            }
            // The program's loader says so itself.
            127 => !text.contains("bis: failed"),
            _ => false,
        };
        if !honest {
            return Err(format!("with {limit} MiB: status {}\n{}", step.status, step.shown()).into());
        }
        ends[usize::from(step.status == 125)] += 1;
        // Where there is a trace at all, it says so, too.
        if step.status == 125 && trace.join("log").exists() {
            let info = bis(folder, &["info".as_ref(), trace.as_os_str()])?.shown();
            if !info.lines().any(|line| line.contains("memory") && line.contains("too low")) {
                return Err(
                    format!("with {limit} MiB, info does not say why it ends:\n{info}\n{text}").into()
                );
            }
        }
    }
    if ends.contains(&0) {
        return Err(format!("recorded, and refused for want of memory: {ends:?} times").into());
    }
    Ok(())
}

/// Its signal does not end the recorder; the trace says why it ends, wherever that was.
fn no_large_files(folder: &Folder) -> Result<(), Failed> {
    for limit in [64 << 10, 16 << 20] {
        let trace = folder.path().join(format!("trace.{limit}"));
        let mut command = common::command("prlimit", folder.path());
        command.arg(format!("--fsize={limit}")).arg(common::bis()).args(["record", "--no-cloning", "-o"]);
        // What it writes goes to no file: that would end it, too, as it does natively.
        command.arg(&trace).args(["--", "sh", "-c", "head -c 40000000 /dev/urandom > /dev/null"]);
        let step = common::run(command, "record", folder.path(), None, LIMIT)?;
        let text = step.stderr_text();
        if step.status != 125 || !text.starts_with("bis: failed ") || !text.contains("ulimit -f") {
            return Err(format!("with {limit} bytes: status {}\n{text}", step.status).into());
        }
        let info = bis(folder, &["info".as_ref(), trace.as_os_str()])?;
        let info = String::from_utf8_lossy(&info.stdout).into_owned();
        if !info.lines().any(|line| line.starts_with("end ") && line.contains("ulimit -f")) {
            return Err(format!("with {limit} bytes, info does not say why it ends:\n{info}").into());
        }
    }
    Ok(())
}

/// A folder that everybody can use, with a copy of bis, and how to run that as somebody who is not root.
fn as_nobody(options: &[&str]) -> Result<(tempfile::TempDir, std::process::Command), Failed> {
    as_user(4242, options)
}

fn as_user(id: u32, options: &[&str]) -> Result<(tempfile::TempDir, std::process::Command), Failed> {
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    let all = |mode| fs::Permissions::from_mode(mode);
    fs::set_permissions(folder.path(), all(0o777)).map_err(|e| e.to_string())?;
    let bis = folder.path().join("bis");
    fs::copy(common::bis(), &bis).map_err(|e| e.to_string())?;
    fs::set_permissions(&bis, all(0o755)).map_err(|e| e.to_string())?;
    let mut command;
    if rustix::process::geteuid().is_root() {
        command = common::command("setpriv", folder.path());
        command.arg(format!("--reuid={id}")).arg(format!("--regid={id}"));
        command.args(["--clear-groups", "prlimit"]);
    } else {
        command = common::command("prlimit", folder.path());
    }
    command.args(options).arg(bis).arg("record").env("BIS_TRACES", folder.path().join("traces"));
    Ok((folder, command))
}

/// A shell without privileges sets itself a limit a little above what it has: that is its own, and its
/// children live, also where the recorder has a limit that it cannot raise.
fn limited_memory(folder: &Folder) -> Result<(), Failed> {
    const PROGRAM: &str = "read -r pages _ < /proc/self/statm; limit=$((pages * 4 + 1024)); ulimit -v $limit
        (exit 3); echo $?; /bin/echo a | cat; (echo b; (echo c) | cat); [ $(ulimit -v) = $limit ] && echo same";
    for option in ["--core=0", "--as=1000000000:1000000000"] {
        let (home, mut command) = as_nobody(&[option])?;
        let trace = home.path().join("trace");
        command.arg("-o").arg(&trace).args(["--", "bash", "-c", PROGRAM]);
        let recorded = common::run(command, "record", folder.path(), None, LIMIT)?;
        let replayed = replay(folder, &trace)?;
        for step in [&recorded, &replayed] {
            if (step.status, &*step.stdout) != (0, b"3\na\nb\nc\nsame\n") {
                return Err(format!("with {option}: {}\n{}", recorded.shown(), replayed.shown()).into());
            }
        }
    }
    Ok(())
}

/// Each of its processes is in a place of its own when there may be no more, and so is bis: it says so in one
/// line, and the trace, too, or the program does in its own way, and that replays.
const FORKS: &str = "for i in 1 2 3; do (sleep 0.05; :) & done; wait; echo done";

/// What came of [`FORKS`] where there may be `limit` tasks. Whether bis has ended the recording for that.
fn few_tasks(folder: &Folder, step: &Step, trace: &Path, limit: u32) -> Result<bool, Failed> {
    let text = step.stderr_text();
    let wrong = |what: &str| {
        Err(format!("with {limit} processes: {what}: status {}\n{}", step.status, step.shown()).into())
    };
    let said: Vec<&str> = text.lines().filter(|line| line.contains("bis: failed ")).collect();
    let has_trace = trace.join("log").exists();
    let mut info = String::new();
    let deadline = Instant::now() + LIMIT;
    // What bis has started to help it may have the trace open a moment longer.
    while has_trace && (info.is_empty() || info.contains("still being recorded")) && Instant::now() < deadline
    {
        info = bis(folder, &["info".as_ref(), trace.as_os_str()])?.shown();
        thread::sleep(Duration::from_millis(5));
    }
    let end = info.lines().find(|line| line.starts_with("end ")).unwrap_or_default();
    match (step.status, &*step.stdout) {
        (125, _) if said.len() != 1 || !said[0].contains("ulimit -u or the container's") => {
            wrong("not one line")
        }
        (125, _) if has_trace && !end.contains("ulimit -u or the container's") => wrong(&info),
        (125, _) => Ok(true),
        (0, b"done\n") | (2, b"") if said.is_empty() => {
            let again = replay(folder, trace)?;
            let is_same = again.status == 0 && again.stdout == step.stdout && again.stderr == step.stderr;
            if is_same { Ok(false) } else { wrong(&again.shown()) }
        }
        _ => wrong("neither bis nor the program says why"),
    }
}

/// Also where it is the program that may start no more: its own fork fails.
fn no_threads(folder: &Folder) -> Result<(), Failed> {
    let mut ends = [0, 0];
    for limit in [1, 2, 3, 4, 8, 12, 15, 16, 17, 18, 19, 20, 21, 22, 24, 28, 40, 400] {
        // Of others of this user there are none.
        let (home, mut command) = as_user(4243, &[&format!("--nproc={limit}")])?;
        let trace = home.path().join("trace");
        command.arg("-o").arg(&trace).args(["--", "sh", "-c", FORKS]);
        let step = common::run(command, "record", folder.path(), None, LIMIT)?;
        ends[usize::from(few_tasks(folder, &step, &trace, limit)?)] += 1;
    }
    if ends.contains(&0) {
        return Err(format!("recorded, and refused for want of processes: {ends:?} times").into());
    }
    Ok(())
}

/// A control group that is removed in the end, and its limit of tasks.
struct Group(PathBuf);

impl Group {
    /// None: this machine lets nobody make one.
    fn new() -> Option<Group> {
        let name = format!("bis-test-{}", std::process::id());
        ["/sys/fs/cgroup/pids", "/sys/fs/cgroup"].into_iter().find_map(|root| {
            let group = Group(Path::new(root).join(&name));
            fs::create_dir(&group.0).ok()?;
            fs::write(group.0.join("pids.max"), "100").ok()?;
            Some(group)
        })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

fn few_in_the_container(folder: &Folder) -> Result<(), Failed> {
    let Some(group) = Group::new() else {
        println!(
            "a_container_with_few_processes: not tried: no control group with pids.max can be made here"
        );
        return Ok(());
    };
    let mut ends = [0, 0];
    for limit in [2, 4, 6, 8, 10, 12, 14, 16, 20, 24, 28, 200] {
        fs::write(group.0.join("pids.max"), limit.to_string())?;
        let trace = folder.path().join(format!("trace.{limit}"));
        let mut command = common::command("sh", folder.path());
        command.args(["-c", "echo $$ > \"$1\" && shift && exec \"$@\"", "sh"]);
        command.arg(group.0.join("cgroup.procs")).arg(common::bis()).args(["record", "-o"]);
        command.arg(&trace).args(["--", "sh", "-c", FORKS]);
        let step = common::run(command, "record", folder.path(), None, LIMIT)?;
        ends[usize::from(few_tasks(folder, &step, &trace, limit)?)] += 1;
    }
    if ends.contains(&0) {
        return Err(format!("recorded, and refused for want of processes: {ends:?} times").into());
    }
    Ok(())
}

/// A new pid namespace in which `/proc` is still that of the one outside, where our numbers are others' or
/// nobody's; and none at all. With its own `/proc` there, all works.
fn another_proc(folder: &Folder) -> Result<(), Failed> {
    let trace = folder.path().join("trace");
    let shown = trace.to_str().unwrap_or_default().to_owned();
    let bis = common::bis();
    let run = |options: &[&str], script: &str| {
        let mut command = common::command("unshare", folder.path());
        command.args(["--map-root-user", "--mount", "--pid", "--fork"]).args(options).args(["sh", "-c"]);
        command.arg(script).arg("sh").arg(&bis);
        common::run(command, "unshare", folder.path(), None, LIMIT)
    };
    if run(&[], "exit 0")?.status != 0 {
        println!("a_pid_namespace_without_its_proc: not tried: no new namespaces may be made here");
        return Ok(());
    }
    let line = ["/proc does not show our processes", "unshare --mount-proc"];
    refused(&run(&[], &format!("$1 record -o {shown} true"))?, 125, &line)?;
    refused(&run(&[], &format!("$1 run -o {shown} true"))?, 125, &line)?;
    refused(&run(&[], &format!("mount -t tmpfs none /proc; $1 record -o {shown} true"))?, 125, &line)?;
    if trace.exists() {
        return Err("there is a trace".into());
    }
    let step = run(&["--mount-proc"], &format!("$1 record -o {shown} echo said && $1 replay -a {shown}"))?;
    if step.status != 0 || step.stdout != b"said\nsaid\n" {
        return Err(step.shown().into());
    }
    refused(&run(&[], &format!("$1 replay -a {shown}"))?, 2, &line)?;
    refused(&run(&[], &format!("$1 replay {shown} -o --batch"))?, 2, &line)?;
    let step = run(&[], "$1 doctor")?;
    if step.status == 0 || !String::from_utf8_lossy(&step.stdout).contains("FAIL  processes") {
        return Err(step.shown().into());
    }
    Ok(())
}

fn vanished_folder(folder: &Folder) -> Result<(), Failed> {
    let trace = folder.path().join("trace");
    let shown = trace.to_str().unwrap_or_default();
    for gone in [format!("rm -r {shown}"), format!("mv {shown} {shown}.moved; exit 3")] {
        refused(&record(folder, &trace, &["sh", "-c", &gone])?, 125, &[shown])?;
    }
    // It is whole where it is now.
    let moved = folder.path().join("trace.moved");
    match replay(folder, &moved)?.status {
        0 => Ok(()),
        status => Err(format!("the folder that was moved: replay has status {status}").into()),
    }
}

fn not_readable(folder: &Folder) -> Result<(), Failed> {
    let (home, mut command) = as_nobody(&[])?;
    let program = home.path().join("program");
    fs::copy("/bin/true", &program).map_err(|e| e.to_string())?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o111)).map_err(|e| e.to_string())?;
    command.arg(&program);
    let step = common::run(command, "record", folder.path(), None, LIMIT)?;
    match step.status == 125 && step.stderr_text().contains("may be executed but not read") {
        true => Ok(()),
        false => Err(step.shown().into()),
    }
}

/// A shell starts it: that fails, and the shell goes on, when it is recorded and when it is replayed.
fn not_readable_in_a_tree(folder: &Folder) -> Result<(), Failed> {
    let (home, mut command) = as_nobody(&[])?;
    let program = home.path().join("program");
    fs::copy("/bin/true", &program).map_err(|e| e.to_string())?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o711)).map_err(|e| e.to_string())?;
    let trace = home.path().join("trace");
    let script = "./program; echo $?; exec 3<.; (exec ./program); echo $?; PATH=. program; echo $?";
    command.args(["-o".as_ref(), trace.as_os_str()]).args(["sh", "-c", script]).current_dir(home.path());
    let step = common::run(command, "record", folder.path(), None, LIMIT)?;
    if step.status != 0 || step.stdout != b"126\n126\n126\n" {
        return Err(step.shown().into());
    }
    let again = replay(folder, &trace)?;
    match again.status == 0 && again.stdout == step.stdout {
        true => Ok(()),
        false => Err(again.shown().into()),
    }
}

fn no_home(folder: &Folder) -> Result<(), Failed> {
    for home in ["/proc", "/dev/null", ""] {
        let mut command = common::command(common::bis(), folder.path());
        command.args(["record", "true"]).env("HOME", home);
        let step = common::run(command, "record", folder.path(), None, LIMIT)?;
        refused(&step, 125, &["BIS_TRACES", "-o"])?;
    }
    Ok(())
}

fn output_is_a_file(folder: &Folder) -> Result<(), Failed> {
    let file = folder.path().join("file");
    fs::write(&file, "data").map_err(|e| e.to_string())?;
    refused(&record(folder, &file, &["true"])?, None, &["file"])?;
    match fs::read(&file) {
        Ok(text) if text == b"data" => Ok(()),
        other => Err(format!("the file was changed: {other:?}").into()),
    }
}

fn missing_trace(folder: &Folder) -> Result<(), Failed> {
    let missing = folder.path().join("missing");
    for command in ["replay", "info", "ps", "dump"] {
        let mut args: Vec<&OsStr> = vec![command.as_ref()];
        if command == "replay" {
            args.push("-a".as_ref());
        }
        args.push(missing.as_os_str());
        refused(&bis(folder, &args)?, None, &["missing"])?;
    }
    Ok(())
}

/// No debugger is started that could not be served: it would wait for an answer.
fn beyond_the_end(folder: &Folder) -> Result<(), Failed> {
    let (trace, debugger) = (folder.path().join("trace"), folder.path().join("debugger"));
    record(folder, &trace, &["true"])?;
    fs::write(&debugger, "#!/bin/sh\n: > started\nexec sleep 1000\n")?;
    fs::set_permissions(&debugger, fs::Permissions::from_mode(0o700))?;
    let args = ["replay", "-g", "999999", "-d"].map(OsStr::new);
    let step = bis(folder, &[&args[..], &[debugger.as_os_str(), trace.as_os_str()]].concat())?;
    if folder.path().join("started").exists() {
        return Err("the debugger was started".into());
    }
    refused(&step, 2, &["failed to go to that event", "from event 1 to event"])
}

fn empty_trace(folder: &Folder) -> Result<(), Failed> {
    let trace = folder.sub("empty")?;
    refused(&replay(folder, &trace)?, None, &["empty"])?;
    fs::write(trace.join("log"), "").map_err(|e| e.to_string())?;
    refused(&replay(folder, &trace)?, None, &["empty"])
}

fn not_a_trace(folder: &Folder) -> Result<(), Failed> {
    let trace = folder.sub("other")?;
    fs::write(trace.join("log"), "a log of something else, with enough text to be a header\n")
        .map_err(|e| e.to_string())?;
    refused(&replay(folder, &trace)?, None, &["other"])?;
    let file = folder.path().join("plain");
    fs::write(&file, "text").map_err(|e| e.to_string())?;
    refused(&replay(folder, &file)?, None, &["plain"])
}

/// A damaged trace tells the truth as far as it goes: what replays is a beginning of the recorded output,
/// with status 0 only where all of it is there; and `info` says that the trace is not whole.
fn honest(folder: &Folder, trace: &Path, recorded: &Step, what: &str) -> Result<(), Failed> {
    let (step, info) = (replay(folder, trace)?, bis(folder, &["info".as_ref(), trace.as_os_str()])?);
    let wrong = if !recorded.stdout.starts_with(&step.stdout) {
        "the output is not a beginning of what was recorded"
    } else if step.status == 0 && step.stdout != recorded.stdout {
        "not all was replayed, with status 0"
    } else if step.status != 0 && step.stderr.is_empty() {
        "replay does not say why it failed"
    } else if info.status == 0 && !info.stdout.windows(9).any(|text| text == b"cut short") {
        "info does not say that it is cut short"
    } else if info.status != 0 && info.stderr.is_empty() {
        "info does not say why it failed"
    } else {
        return Ok(());
    };
    Err(format!("{what}: {wrong}\nreplay: status {}\n{}\n{}", step.status, step.shown(), info.shown()).into())
}

fn log_len(trace: &Path) -> Result<usize, Failed> {
    Ok(fs::read(trace.join("log")).map_err(|e| format!("failed to read the log: {e}"))?.len())
}

fn cut_short(folder: &Folder) -> Result<(), Failed> {
    let (trace, recorded) = good_trace(folder)?;
    let len = log_len(&trace)?;
    for keep in [1, 23, 24, 30, 80, len / 10, len / 3, len / 2, len * 9 / 10, len - 1] {
        let cut = changed(folder, &trace, "cut", |log| log.truncate(keep))?;
        honest(folder, &cut, &recorded, &format!("cut at {keep} of {len}"))?;
        fs::remove_dir_all(&cut).map_err(|e| e.to_string())?;
    }
    Ok(())
}

/// A cut trace of which everything else is there: all output is replayed, with the status of cut traces, and
/// both replay and `info` say why.
fn cut_after(folder: &Folder, trace: &Path, output: &[u8], why: &str) -> Result<(), Failed> {
    let (step, info) = (replay(folder, trace)?, bis(folder, &["info".as_ref(), trace.as_os_str()])?);
    let report = String::from_utf8_lossy(&info.stdout).into_owned();
    let wrong = if step.status != STATUS_CUT {
        "replay does not end with the status of a cut trace"
    } else if step.stdout != output {
        "replay does not show all of the output"
    } else if !step.stderr_text().contains(why) {
        "replay does not say why it was cut"
    } else if info.status != 0 || !report.contains("cut short") || !report.contains(why) {
        "info does not say why it was cut"
    } else {
        return Ok(());
    };
    Err(format!("{wrong}\nreplay: status {}\n{}\n{}", step.status, step.shown(), info.shown()).into())
}

/// Only the record of the end is missing: the chunk that is written last.
fn no_last_words(folder: &Folder) -> Result<(), Failed> {
    let trace = folder.path().join("good");
    let recorded = record(folder, &trace, &["sh", "-c", "echo one; ls /"])?;
    let cut = changed(folder, &trace, "cut", |log| {
        let last = chunks(log).last().map_or(0, |chunk| chunk.start);
        log.truncate(last);
    })?;
    cut_after(folder, &cut, &recorded.stdout, "the recorder was killed")
}

/// Where the chunks of a log are, with their headers. A header has 48 bytes: at 4 its stream, at 36 how many
/// bytes follow it.
fn chunks(log: &[u8]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = 24;
    while let Some(len) = log.get(at + 36..at + 40) {
        let end = at + 48 + u32::from_le_bytes([len[0], len[1], len[2], len[3]]) as usize;
        found.push(at..end);
        at = end;
    }
    found
}

/// A program that waits, and a recorder that is killed meanwhile: all that came before the waiting is in the
/// trace.
fn killed_recorder(folder: &Folder) -> Result<(), Failed> {
    let trace = folder.path().join("trace");
    let argv = ["sh", "-c", "echo one; sleep 100"].map(OsStr::new);
    let mut command = common::record_command(&trace, &[], &argv, folder.path());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut recorder = command.spawn().map_err(|e| format!("failed to start {command:?}: {e}"))?;
    // What has been recorded must get to the disk while the program does nothing, and so its recorder
    // neither.
    let arrived = wait_for_events(folder, &trace, &["write(1, ", ": sleep 100"]);
    let _ = recorder.kill();
    let _ = recorder.wait();
    arrived?;
    cut_after(folder, &trace, b"one\n", "the recorder was killed")
}

/// Waits until `dump` shows all `wanted` in a trace that is being written.
fn wait_for_events(folder: &Folder, trace: &Path, wanted: &[&str]) -> Result<(), Failed> {
    let deadline = Instant::now() + LIMIT;
    loop {
        let step = bis(folder, &["dump".as_ref(), trace.as_os_str()])?;
        let text = String::from_utf8_lossy(&step.stdout);
        let missing = wanted.iter().find(|wanted| !text.contains(**wanted));
        match missing {
            None => return Ok(()),
            Some(wanted) if Instant::now() > deadline => {
                return Err(format!("\"{wanted}\" never came into the trace\n{}", step.shown()).into());
            }
            Some(_) => thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// One bit flipped at a time, at 24 places from the first byte to the last.
fn flipped_bits(folder: &Folder) -> Result<(), Failed> {
    let (trace, recorded) = good_trace(folder)?;
    let len = log_len(&trace)?;
    for round in 0..24 {
        let at = (len - 1) * round / 23;
        let damaged = changed(folder, &trace, "damaged", |log| log[at] ^= 1 << (round % 8))?;
        honest(folder, &damaged, &recorded, &format!("bit {} of byte {at} of {len}", round % 8))?;
        fs::remove_dir_all(&damaged).map_err(|e| e.to_string())?;
    }
    Ok(())
}

/// Each chunk damaged in turn. Many processes write by turns, so that whatever is lost, others that can still
/// be replayed wrote before and after it.
fn lost_chunks(folder: &Folder) -> Result<(), Failed> {
    let trace = folder.path().join("good");
    let script =
        "echo a; for i in 1 2 3; do seq $i 40; sh -c 'echo b; (seq 5 >&2) | cat; echo c'; done; echo d";
    let recorded = record(folder, &trace, &["sh", "-c", script])?;
    if recorded.status != 0 {
        return Err(format!("failed to record: {}", recorded.shown()).into());
    }
    let log = fs::read(trace.join("log")).map_err(|e| format!("failed to read the log: {e}"))?;
    // The first four bytes of a chunk, as they stand after the log's header; elsewhere they do no harm.
    let chunks: Vec<usize> = (24..log.len() - 4).filter(|at| log[*at..*at + 4] == log[24..28]).collect();
    if chunks.len() < 20 {
        return Err(format!("the log has only {} chunks", chunks.len()).into());
    }
    for at in chunks {
        let damaged = changed(folder, &trace, "damaged", |log| log[at] ^= 1)?;
        honest(folder, &damaged, &recorded, &format!("the chunk at byte {at} of {}", log.len()))?;
        fs::remove_dir_all(&damaged).map_err(|e| e.to_string())?;
    }
    Ok(())
}

/// Written anew without all that there was of one process but its name, so that every checksum and every
/// number of events is right: `info` and `ls` say what replay says.
fn lost_process(folder: &Folder) -> Result<(), Failed> {
    let trace = folder.path().join("good");
    let recorded = record(folder, &trace, &["sh", "-c", "echo a; (echo b); echo c"])?;
    if recorded.status != 0 {
        return Err(recorded.shown().into());
    }
    let told = Told::read(&trace)?;
    let whole = folder.path().join("whole");
    told.write(&told.events, &whole)?;
    let lost = folder.path().join("lost");
    let mut events = told.events.clone();
    events.remove(&2).ok_or("there is no second domain")?;
    told.write(&events, &lost)?;
    for (trace, replayed, end) in [(&whole, 0, "complete; exit status 0"), (&lost, STATUS_CUT, "no end")] {
        let info = bis(folder, &["info".as_ref(), trace.as_os_str()])?.shown();
        let step = replay(folder, trace)?;
        let said = info.lines().any(|line| line.contains("end ") && line.contains(end));
        if !said || step.status != replayed {
            return Err(format!("{info}\n{}", step.shown()).into());
        }
    }
    Ok(())
}

/// The header of a version from the future, sound in itself: bytes 8 to 11 are the format, 12 to 15 the least
/// reader, the rest a checksum.
fn newer_version(folder: &Folder) -> Result<(), Failed> {
    let (trace, _) = good_trace(folder)?;
    let newer = changed(folder, &trace, "newer", |log| {
        log[8..12].copy_from_slice(&1000u32.to_le_bytes());
        log[12..16].copy_from_slice(&1000u32.to_le_bytes());
        let sum = xxhash_rust::xxh3::xxh3_64(&log[..16]);
        log[16..24].copy_from_slice(&sum.to_le_bytes());
    })?;
    refused(&replay(folder, &newer)?, None, &["newer"])
}

fn lost_files(folder: &Folder) -> Result<(), Failed> {
    let (trace, _) = good_trace(folder)?;
    let files = trace.join("files");
    fs::remove_dir_all(&files).map_err(|e| format!("failed to remove {}: {e}", files.display()))?;
    let step = replay(folder, &trace)?;
    if step.status == 0 || step.stderr.is_empty() {
        return Err(format!("status {} without its files\n{}", step.status, step.shown()).into());
    }
    Ok(())
}
