//! Recordings in a container that refuses calls by a seccomp filter, as Docker does without options: each
//! program of `tests/containers` natively, recorded, and replayed, in there and outside; and recorded outside
//! and replayed in there.
//!
//! Whatever the container answers is the program's output, which is the same each time. Nobody sees the calls
//! that it refuses, and they are in no event. Addresses are random in there, because turning that off is
//! refused.
//!
//! Ignored where gcc is missing, and the debugger's case where gdb is.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use crate::{
    common::{self, Folder, Step},
    trial,
};
use libtest_mimic::{Failed, Trial};

const LIMIT: Duration = Duration::from_secs(60);

/// What runs a command under the filter.
const WRAPPER: &str = "like_docker";

/// Programs from elsewhere in the tree that are tried too. Their output is not the same each time.
const GUESTS: [&str; 5] = [
    "checkpoints/much_by_itself",
    "checkpoints/forks",
    "processes/fork_tree",
    "threads/mutex_counter",
    "memory/address_limit",
];

pub fn trials() -> Vec<Trial> {
    let gcc = common::installed("gcc");
    if !gcc {
        println!("ignored: everything: not installed (apt-get install {})", common::package_of("gcc"));
    }
    let folder = common::tree().join("tests/containers");
    let mut names: Vec<String> = fs::read_dir(&folder)
        .expect("the folder of the cases")
        .flatten()
        .filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".c")?.to_owned()))
        .filter(|name| name != WRAPPER)
        .collect();
    names.sort_unstable();
    let sources = names.into_iter().map(|name| (folder.join(format!("{name}.c")), name, true));
    let guest = |name| (common::tree().join(format!("tests/guests/{name}.c")), String::from(name), false);
    let guests = GUESTS.map(guest);
    let mut trials = Vec::new();
    for (source, name, is_same) in sources.chain(guests) {
        for (mode, flags) in [("hooks", &[][..]), ("no_hooks", &["--no-hooks"][..])] {
            let source = source.clone();
            let body = move || in_and_out(&source, flags, is_same);
            trials.push(trial(module_path!(), format!("{name}::{mode}"), body).with_ignored_flag(!gcc));
        }
    }
    let mut add = |name: &str, needs: &str, body: fn() -> Result<(), Failed>| {
        let lacks = !gcc || !common::installed(needs);
        trials.push(trial(module_path!(), name, body).with_ignored_flag(lacks));
    };
    add("a_tree_of_programs", "python3", tree_of_programs);
    add("gdb_goes_back", "gdb", gdb_goes_back);
    add("a_running_process", "gcc", running_process);
    add("a_first_checkpoint_beside_a_process", "gcc", first_checkpoint);
    trials
}

/// A folder with the wrapper.
struct Place {
    folder: Folder,
    wrapper: PathBuf,
}

impl Place {
    fn new(name: &str) -> Result<Place, Failed> {
        let folder = Folder::new(&format!("containers.{name}"))?;
        let wrapper = folder.path().join(WRAPPER);
        common::compile(&common::tree().join(format!("tests/containers/{WRAPPER}.c")), &wrapper)?;
        Ok(Place { folder, wrapper })
    }

    fn inside(&self, program: &Path) -> Command {
        let mut command = common::command(&self.wrapper, self.folder.path());
        command.arg(program);
        command
    }

    fn run(&self, command: Command, what: &str) -> Result<Step, Failed> {
        common::run(command, what, self.folder.path(), None, LIMIT)
    }

    /// Recorded with these flags and replayed in the container, and replayed outside: with the native status,
    /// and with the native output where that is the same each time.
    fn all_alike(&self, program: &[&str], flags: &[&str], is_same: bool) -> Result<PathBuf, Failed> {
        let trace = self.folder.path().join("trace");
        let [first, rest @ ..] = program else { return Err("no program".into()) };
        let mut native = self.inside(Path::new(first));
        native.args(rest);
        let native = self.run(native, "native")?;
        let mut record = self.inside(common::bis().as_ref());
        record.arg("record").args(flags).arg("-o").arg(&trace).arg("--").args(program);
        let record = self.run(record, "record")?;
        let output = if is_same { &native.stdout } else { &record.stdout }.clone();
        let mut inside = self.inside(common::bis().as_ref());
        inside.args(["replay", "-a"]).arg(&trace);
        let mut outside = common::command(common::bis(), self.folder.path());
        outside.args(["replay", "-a"]).arg(&trace);
        let steps = [
            ("recorded", record),
            ("replayed inside", self.run(inside, "inside")?),
            ("replayed outside", self.run(outside, "outside")?),
        ];
        for (what, step) in &steps {
            let status = if *what == "recorded" { native.status } else { 0 };
            if step.status != status || step.stdout != output {
                return Err(format!(
                    "{what}: status {}\n{}\nnatively\n{}",
                    step.status,
                    step.shown(),
                    native.shown()
                )
                .into());
            }
        }
        Ok(trace)
    }

    /// Recorded outside, where nothing is refused, and replayed in the container.
    fn out_and_in(&self, program: &Path, flags: &[&str]) -> Result<(), Failed> {
        let trace = self.folder.path().join("from-outside");
        let record = common::record_command(&trace, flags, &[program.as_os_str()], self.folder.path());
        let record = self.run(record, "record-outside")?;
        let mut inside = self.inside(common::bis().as_ref());
        inside.args(["replay", "-a"]).arg(&trace);
        let inside = self.run(inside, "replay-inside")?;
        if inside.status != 0 || inside.stdout != record.stdout {
            let steps = format!("{}\nrecorded outside\n{}", inside.shown(), record.shown());
            return Err(format!("replayed inside: status {}\n{steps}", inside.status).into());
        }
        Ok(())
    }
}

fn in_and_out(source: &Path, flags: &[&str], is_same: bool) -> Result<(), Failed> {
    let name = source.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
    let place = Place::new(name)?;
    let program = place.folder.path().join(name);
    common::compile(source, &program)?;
    place.all_alike(&[program.to_str().unwrap_or_default()], flags, is_same)?;
    place.out_and_in(&program, flags)?;
    place.folder.done();
    Ok(())
}

fn tree_of_programs() -> Result<(), Failed> {
    let place = Place::new("tree")?;
    let script = "import subprocess, threading\n\
        shown = subprocess.run(['sh', '-c', 'ls / | sort | head -3; echo $((6 * 7))'], capture_output=True)\n\
        thread = threading.Thread(target=print, args=(shown.stdout.decode(),))\n\
        thread.start()\n\
        thread.join()\n";
    let trace = place.all_alike(&["python3", "-c", script], &[], true)?;
    let mut info = common::command(common::bis(), place.folder.path());
    info.arg("info").arg(&trace);
    let shown = place.run(info, "info")?.shown();
    if !shown.contains("a container's, refused") {
        return Err(shown.into());
    }
    place.folder.done();
    Ok(())
}

fn gdb_goes_back() -> Result<(), Failed> {
    let place = Place::new("gdb")?;
    let program = place.folder.path().join("program");
    let source = common::tree().join("tests/containers/refused_calls.c");
    let gcc = Command::new("gcc").args(["-g", "-O0", "-o"]).arg(&program).arg(&source).status()?;
    let trace = place.all_alike(&[program.to_str().unwrap_or_default()], &[], true)?;
    let commands = place.folder.path().join("commands");
    fs::write(&commands, "break tell\ncontinue\ncontinue\nprint what\nreverse-continue\nprint what\n")?;
    for mut gdb in [common::command(common::bis(), place.folder.path()), place.inside(common::bis().as_ref())]
    {
        gdb.arg("replay").arg(&trace).arg("-x").arg(&commands).args(["-o", "-batch", "-o", "-nx"]);
        let shown = place.run(gdb, "gdb")?.shown();
        let answers: Vec<&str> = shown.lines().filter(|line| line.starts_with('$')).collect();
        let is_right = |line: &&str, what: &str| line.ends_with(&format!("\"{what}\""));
        let [first, second] = answers[..] else { return Err(shown.into()) };
        if !gcc.success() || !is_right(&first, "clone with a namespace") || !is_right(&second, "clone3") {
            return Err(shown.into());
        }
    }
    place.folder.done();
    Ok(())
}

/// Which processes share memory is known although the kernel refuses to compare them.
fn first_checkpoint() -> Result<(), Failed> {
    let place = Place::new("first")?;
    let program = place.folder.path().join("program");
    common::compile(&common::tree().join("tests/guests/live/beside.c"), &program)?;
    let mut run = place.inside(common::bis().as_ref());
    run.arg("run").arg("-o").arg(place.folder.path().join("trace")).arg(&program);
    let step = place.run(run, "run")?;
    if step.status != 0 || !step.shown().contains("guest ok") {
        return Err(step.shown().into());
    }
    place.folder.done();
    Ok(())
}

/// One that runs in there already has as many filters as the recorder: the container's.
fn running_process() -> Result<(), Failed> {
    let place = Place::new("running")?;
    let trace = place.folder.path().join("trace");
    let script = "sleep 1 & sleeper=$!; \"$0\" record --attach $sleeper -o \"$1\" && \"$0\" replay -a \"$1\"";
    let mut shell = place.inside("sh".as_ref());
    shell.args(["-c", script]).arg(common::bis()).arg(&trace);
    let step = place.run(shell, "attach")?;
    if step.status != 0 {
        return Err(step.shown().into());
    }
    place.folder.done();
    Ok(())
}
