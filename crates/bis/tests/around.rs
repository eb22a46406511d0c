//! What a recording is asked without a debugger's prompt: `bis replay --trace-at`, and `--profile`.
//!
//! Ignored where gcc or gdb is missing.

mod common;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use common::{Folder, Step};
use libtest_mimic::{Failed, Trial};

const LIMIT: Duration = Duration::from_secs(60);

type Case = fn() -> Result<(), Failed>;

fn main() {
    let missing = ["gcc", "gdb"].into_iter().find(|program| !common::installed(program));
    if let Some(program) = missing {
        println!("ignored: everything: not installed (apt-get install {})", common::package_of(program));
    }
    let trials: [(&str, Case); 6] = [
        ("trace_at::numbers_are_printed_at_each_arrival", numbers_are_printed_at_each_arrival),
        ("trace_at::what_gdb_shows_is_printed", what_gdb_shows_is_printed),
        ("trace_at::an_unknown_place_is_said", an_unknown_place_is_said),
        ("profile::functions_without_frame_pointers_are_found", functions_without_frame_pointers_are_found),
        ("profile::a_picture_is_drawn", a_picture_is_drawn),
        ("trace_at::it_goes_on_behind_signals", it_goes_on_behind_signals),
    ];
    let trials = trials
        .into_iter()
        .map(|(name, run)| Trial::test(name, run).with_ignored_flag(missing.is_some()))
        .collect();
    libtest_mimic::run(&common::arguments(), trials).exit();
}

/// A recording of one of the debugger's programs.
fn record(folder: &Folder, source: &str) -> Result<PathBuf, Failed> {
    let program = folder.path().join("program");
    let source = common::tree().join("tests/debug/programs").join(source);
    let output =
        Command::new("gcc").args(["-g", "-O0", "-pthread", "-o"]).arg(&program).arg(&source).output()?;
    if !output.status.success() {
        return Err(format!("gcc: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    let trace = folder.path().join("trace");
    let record = common::record_command(&trace, &[], &[program.as_os_str()], folder.path());
    common::run(record, "record", folder.path(), None, LIMIT)?;
    Ok(trace)
}

fn replay(folder: &Folder, trace: &Path, arguments: &[&str]) -> Result<Step, Failed> {
    let mut command = common::command(common::bis(), folder.path());
    command.arg("replay").arg(trace).args(arguments);
    common::run(command, "replay", folder.path(), None, LIMIT)
}

/// The lines of a trace without their thread and event, which must be numbers.
fn lines(step: &Step) -> Result<Vec<String>, Failed> {
    let text = String::from_utf8_lossy(&step.stdout).into_owned();
    let line = |line: &str| {
        let mut words = line.splitn(3, ' ');
        let numbers = [words.next(), words.next()].map(|word| word.and_then(|word| word.parse::<u64>().ok()));
        match (numbers, words.next()) {
            ([Some(_), Some(_)], Some(rest)) => Ok(rest.to_owned()),
            _ => Err(Failed::from(format!(
                "`{line}` does not begin with a thread and an event\n{}",
                step.shown()
            ))),
        }
    };
    text.lines().map(line).collect()
}

fn equal<T: PartialEq + std::fmt::Debug>(found: &T, wanted: &T, step: &Step) -> Result<(), Failed> {
    if found == wanted {
        Ok(())
    } else {
        Err(format!("{found:?} is not {wanted:?}\n{}", step.shown()).into())
    }
}

/// A recording of a program that computes in two functions, three times as long in one as in the other.
fn computing(folder: &Folder) -> Result<PathBuf, Failed> {
    let source = folder.path().join("computes.c");
    fs::write(
        &source,
        "static volatile unsigned sum;\n\
         #define WORK(name, times) __attribute__((noinline, optimize(\"omit-frame-pointer\"))) \\\n\
         static void name(void) { for (int i = 0; i < times; i++) sum += i; }\n\
         WORK(heavy, 300000)\nWORK(light, 100000)\n\
         __attribute__((noinline, optimize(\"omit-frame-pointer\"))) static void both(void) { heavy(); light(); }\n\
         int main(void) { for (int i = 0; i < 1000; i++) both(); return 0; }\n",
    )?;
    record(folder, source.to_str().unwrap_or_default())
}

fn functions_without_frame_pointers_are_found() -> Result<(), Failed> {
    let folder = Folder::new("around")?;
    let trace = computing(&folder)?;
    let step = replay(&folder, &trace, &["--profile"])?;
    let text = String::from_utf8_lossy(&step.stdout).into_owned();
    let micros = |end: &str| -> u64 {
        let of = |line: &str| {
            let (stack, micros) = line.rsplit_once(' ')?;
            stack.ends_with(end).then(|| micros.parse::<u64>().unwrap_or(0))
        };
        text.lines().filter_map(of).sum()
    };
    let (heavy, light) = (micros(";main;both;heavy"), micros(";main;both;light"));
    equal(&(text.starts_with("program;") && light > 0 && heavy > light), &true, &step)?;
    equal(&step.status, &0, &step)?;
    folder.done();
    Ok(())
}

fn a_picture_is_drawn() -> Result<(), Failed> {
    let folder = Folder::new("around")?;
    let trace = computing(&folder)?;
    let step = replay(&folder, &trace, &["--profile", "--svg", "flames.svg", "--folded", "stacks.txt"])?;
    equal(&(step.status, step.stdout.len()), &(0, 0), &step)?;
    let picture = fs::read_to_string(folder.path().join("flames.svg"))?;
    let stacks = fs::read_to_string(folder.path().join("stacks.txt"))?;
    equal(
        &(picture.contains("<svg") && picture.contains("heavy") && stacks.contains(";both;heavy ")),
        &true,
        &step,
    )?;
    folder.done();
    Ok(())
}

fn numbers_are_printed_at_each_arrival() -> Result<(), Failed> {
    let folder = Folder::new("around")?;
    let trace = record(&folder, "basics.c")?;
    let step = replay(
        &folder,
        &trace,
        &["-q", "--trace-at", "basics.c:9", "sum", "a", "--trace-at", "twice", "value * 10"],
    )?;
    let mut wanted = Vec::new();
    for i in 0..5 {
        wanted.push(format!("twice: value * 10 = {}", 10 * i));
        wanted.push(format!("basics.c:9: sum = {}, a = {i}", 2 * i));
        wanted.push(format!("basics.c:9: sum = {}, a = {}", 2 * i + 1, 2 * i));
    }
    equal(&lines(&step)?, &wanted, &step)?;
    equal(&step.status, &0, &step)?;
    if !step.stderr_text().contains("exited with status 3") {
        return Err(format!("it does not say how the process ends\n{}", step.shown()).into());
    }
    folder.done();
    Ok(())
}

fn what_gdb_shows_is_printed() -> Result<(), Failed> {
    let folder = Folder::new("around")?;
    let source = folder.path().join("shapes.c");
    fs::write(
        &source,
        "struct point { int x; double y; } p;\nvoid look(const char *name) { p.x++; p.y += 0.5; }\n\
         int main(void) { look(\"a, b\"); look(\"100%\"); }\n",
    )?;
    let trace = record(&folder, source.to_str().unwrap_or_default())?;
    let step = replay(&folder, &trace, &["--trace-at", "look", "p", "name", "nothing"])?;
    let found = lines(&step)?;
    equal(&found.len(), &2, &step)?;
    let nothing = "nothing = <No symbol \"nothing\" in current context.>";
    for (line, wanted) in
        found.iter().zip(["look: p = {x = 0, y = 0}, name = 0x", "look: p = {x = 1, y = 0.5}, name = 0x"])
    {
        equal(&(line.starts_with(wanted) && line.ends_with(nothing)), &true, &step)?;
    }
    equal(&(found[0].contains("\"a, b\"") && found[1].contains("\"100%\"")), &true, &step)?;
    folder.done();
    Ok(())
}

fn an_unknown_place_is_said() -> Result<(), Failed> {
    let folder = Folder::new("around")?;
    let trace = record(&folder, "basics.c")?;
    let step = replay(&folder, &trace, &["-q", "--trace-at", "nonsense", "--trace-at", "main"])?;
    equal(&lines(&step)?, &vec!["main".to_owned()], &step)?;
    equal(&step.status, &2, &step)?;
    equal(&step.stderr_text().contains("there is no place nonsense"), &true, &step)?;
    folder.done();
    Ok(())
}

fn it_goes_on_behind_signals() -> Result<(), Failed> {
    let folder = Folder::new("around")?;
    let source = folder.path().join("raises.c");
    fs::write(
        &source,
        "#include <signal.h>\nint times;\nvoid handler(int n) { times += n; }\n\
         int main(void) { signal(SIGUSR1, handler); for (int i = 0; i < 3; i++) raise(SIGUSR1); return 0; }\n",
    )?;
    let trace = record(&folder, source.to_str().unwrap_or_default())?;
    let step = replay(&folder, &trace, &["--trace-at", "handler", "times"])?;
    let wanted: Vec<String> = [0, 10, 20].iter().map(|times| format!("handler: times = {times}")).collect();
    equal(&lines(&step)?, &wanted, &step)?;
    equal(&step.status, &0, &step)?;
    folder.done();
    Ok(())
}
