//! Recordings that begin with a process that runs already: `tests/attach/`, in which each program is started,
//! found by bis once it is ready, and told that by the file it is given. What it writes from then on, and its
//! end, must be that of the replay; where there is a transcript beside it (`NAME.gdb`), a debugger must show
//! the lines behind `#>` in it, in their order.

use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use crate::{
    common::{self, Folder, Running, Step, bis, tree},
    trial,
};
use libtest_mimic::{Failed, Trial};

const LIMIT: Duration = Duration::from_secs(120);

const MODES: [(&str, &[&str]); 3] =
    [("hooks", &[]), ("no-hooks", &["--no-hooks"]), ("checksum", &["--checksum"])];

pub fn trials() -> Vec<Trial> {
    let missing = (!common::installed("gcc")).then_some("gcc");
    if let Some(program) = missing {
        println!("ignored: everything: not installed (apt-get install {})", common::package_of(program));
    }
    let mut sources: Vec<PathBuf> =
        fs::read_dir(tree().join("tests/attach")).into_iter().flatten().flatten().map(|e| e.path()).collect();
    sources.retain(|path| path.extension().is_some_and(|extension| extension == "c"));
    sources.sort();
    assert!(sources.len() >= 4, "tests/attach was not found or is nearly empty");
    let mut trials = Vec::new();
    for source in sources {
        let name = source.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        for (mode, options) in MODES {
            let (source, folder) = (source.clone(), format!("attach/{name}.{mode}"));
            let body = move || common::repeated(|| whole(&source, &folder, options));
            trials.push(
                trial(module_path!(), format!("{name}::{mode}"), body).with_ignored_flag(missing.is_some()),
            );
        }
    }
    type Body = fn(&Folder) -> Result<(), Failed>;
    let others: [(&str, Body); 5] = [
        ("no_such_process", no_such_process),
        ("what_is_refused_goes_on", traced_already),
        ("a_stopped_process_goes_on_when_it_is_let", stopped),
        ("the_recorder_is_killed", recorder_killed),
        ("an_interrupt_is_passed_on", interrupted),
    ];
    trials.extend(others.map(|(name, body)| {
        let trial = trial(module_path!(), name, move || {
            let folder = Folder::new(&format!("attach/{name}"))?;
            body(&folder)?;
            folder.done();
            Ok(())
        });
        trial.with_ignored_flag(missing.is_some())
    }));
    trials
}

/// A program that runs, and is ready to be found.
struct Subject {
    /// None: it was waited for.
    running: Option<Running>,
    go: PathBuf,
    folder: PathBuf,
}

impl Drop for Subject {
    fn drop(&mut self) {
        if let Some(running) = &mut self.running {
            running.kill();
        }
    }
}

impl Subject {
    fn start(name: &Path, folder: &Path) -> Result<Subject, Failed> {
        let (program, go) = (folder.join("program"), folder.join("go"));
        common::compile(&tree().join("tests/attach").join(name), &program)?;
        let mut command = common::command(&program, folder);
        command.arg(&go);
        let running = common::start(command, "program", folder, None)?;
        let subject = Subject { running: Some(running), go, folder: folder.to_owned() };
        until("it is ready", || Ok(subject.written()?.starts_with(b"ready\n")))?;
        Ok(subject)
    }

    fn pid(&self) -> i32 {
        self.running.as_ref().map_or(0, Running::pid)
    }

    /// Its end.
    fn wait(&mut self) -> Result<Step, Failed> {
        self.running.take().ok_or("it was waited for")?.wait(LIMIT)
    }

    fn written(&self) -> Result<Vec<u8>, Failed> {
        Ok(fs::read(self.folder.join("program.out"))?)
    }

    fn attach(&self, options: &[&str]) -> Result<Running, Failed> {
        let mut record = common::command(bis(), &self.folder);
        record.args(["record", "-o", "trace", "--attach"]).arg(self.pid().to_string()).args(options);
        common::start(record, "record", &self.folder, None)
    }

    /// Waits until all of its threads are recorded: under the filter.
    fn found(&self, recorder: &mut Running) -> Result<(), Failed> {
        until("it is recorded", || {
            if recorder.has_ended() {
                let said = fs::read_to_string(self.folder.join("record.err"))?;
                return Err(format!("bis has ended: {said}").into());
            }
            let pid = self.pid();
            for task in fs::read_dir(format!("/proc/{pid}/task"))? {
                if status_of(&task?.path(), "Seccomp:")? != "2" {
                    return Ok(false);
                }
            }
            Ok(true)
        })
    }

    /// Tells it that it is recorded.
    fn go(&self) -> Result<(), Failed> {
        Ok(fs::write(&self.go, "")?)
    }

    /// Both to their ends, which must be the same; and the replay.
    fn end(mut self, recorder: Running) -> Result<(), Failed> {
        let recorded = recorder.wait(LIMIT)?;
        let ended = self.wait()?;
        if recorded.status != ended.status {
            return Err(format!("the program ended with {}\n{}", ended.status, recorded.shown()).into());
        }
        let stdout = ended.stdout.strip_prefix(b"ready\n").unwrap_or_default().to_vec();
        let seen = Step { stdout, ..ended };
        common::replay_and_compare(&self.folder.join("trace"), &seen, &self.folder, LIMIT)?;
        Ok(())
    }
}

fn until(what: &str, mut holds: impl FnMut() -> Result<bool, Failed>) -> Result<(), Failed> {
    let begun = Instant::now();
    while !holds()? {
        if begun.elapsed() > LIMIT {
            return Err(format!("it took more than {} s until {what}", LIMIT.as_secs()).into());
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// A field of a task's `status` in /proc.
fn status_of(task: &Path, field: &str) -> Result<String, Failed> {
    let status = fs::read_to_string(task.join("status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap_or_default();
    Ok(line.trim().to_owned())
}

fn whole(source: &Path, name: &str, options: &[&str]) -> Result<(), Failed> {
    let folder = Folder::new(name)?;
    let subject = Subject::start(source, folder.path())?;
    let mut recorder = subject.attach(options)?;
    subject.found(&mut recorder)?;
    subject.go()?;
    subject.end(recorder)?;
    let transcript = source.with_extension("gdb");
    if transcript.exists() && common::installed("gdb") {
        debug(&transcript, folder.path())?;
    }
    folder.done();
    Ok(())
}

fn debug(transcript: &Path, folder: &Path) -> Result<(), Failed> {
    let mut command = common::command(bis(), folder);
    command.args(["replay", "trace", "-o", "--batch", "-o", "-nx", "-x"]).arg(transcript);
    let step = common::run(command, "debug", folder, None, LIMIT)?;
    let shown = format!("{}{}", String::from_utf8_lossy(&step.stdout), String::from_utf8_lossy(&step.stderr));
    let wanted = fs::read_to_string(transcript)?;
    let mut lines = shown.lines();
    for line in wanted.lines().filter_map(|line| line.strip_prefix("#> ")) {
        if !lines.any(|shown| shown.contains(line)) {
            return Err(format!("{line:?} was not shown, or not in its place:\n{shown}").into());
        }
    }
    Ok(())
}

fn refused(folder: &Path, pid: i32, wanted: &str) -> Result<(), Failed> {
    let mut record = common::command(bis(), folder);
    record.args(["record", "-o", "none", "--attach"]).arg(pid.to_string());
    let step = common::run(record, "refused", folder, None, LIMIT)?;
    if step.status != 125 || !step.stderr_text().contains(wanted) || folder.join("none").exists() {
        return Err(format!("wanted {wanted:?}, and no trace\n{}", step.shown()).into());
    }
    Ok(())
}

fn no_such_process(folder: &Folder) -> Result<(), Failed> {
    // More than any process has.
    refused(folder.path(), i32::MAX, "bis: failed to attach: there is no process 2147483647")
}

/// Where bis cannot attach, nothing has become of the process.
fn traced_already(folder: &Folder) -> Result<(), Failed> {
    let subject = Subject::start(Path::new("sleeping.c"), folder.path())?;
    let mut recorder = subject.attach(&[])?;
    subject.found(&mut recorder)?;
    refused(folder.path(), subject.pid(), "traces it already")?;
    subject.go()?;
    subject.end(recorder)
}

fn stopped(folder: &Folder) -> Result<(), Failed> {
    let subject = Subject::start(Path::new("threads.c"), folder.path())?;
    let pid = rustix::process::Pid::from_raw(subject.pid()).ok_or("no process")?;
    rustix::process::kill_process(pid, rustix::process::Signal::STOP)?;
    let task = PathBuf::from(format!("/proc/{}", subject.pid()));
    until("it is stopped", || Ok(status_of(&task, "State:")?.starts_with('T')))?;
    let mut recorder = subject.attach(&[])?;
    subject.found(&mut recorder)?;
    subject.go()?;
    thread::sleep(Duration::from_millis(200));
    if subject.written()? != b"ready\n" {
        return Err("it went on before it was let".into());
    }
    rustix::process::kill_process(pid, rustix::process::Signal::CONT)?;
    subject.end(recorder)
}

/// It cannot go on without bis.
fn recorder_killed(folder: &Folder) -> Result<(), Failed> {
    let mut subject = Subject::start(Path::new("computing.c"), folder.path())?;
    let mut recorder = subject.attach(&[])?;
    subject.found(&mut recorder)?;
    recorder.kill();
    let ended = subject.wait()?;
    if ended.status != 128 + 9 {
        return Err(format!("it was not killed\n{}", ended.shown()).into());
    }
    Ok(())
}

fn interrupted(folder: &Folder) -> Result<(), Failed> {
    let mut subject = Subject::start(Path::new("sleeping.c"), folder.path())?;
    let mut recorder = subject.attach(&[])?;
    subject.found(&mut recorder)?;
    let pid = rustix::process::Pid::from_raw(recorder.pid()).ok_or("no process")?;
    rustix::process::kill_process(pid, rustix::process::Signal::INT)?;
    let recorded = recorder.wait(LIMIT)?;
    let ended = subject.wait()?;
    if (recorded.status, ended.status) != (130, 130) {
        return Err(format!("it ended with {}\n{}", ended.status, recorded.shown()).into());
    }
    Ok(())
}
