//! What a recording is asked without a debugger's prompt: `bis replay --trace-at`, and `--profile`; and `bis
//! pack`.
//!
//! Ignored where gcc or gdb is missing.

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

type Case = fn() -> Result<(), Failed>;

pub fn trials() -> Vec<Trial> {
    let missing = ["gcc", "gdb"].into_iter().find(|program| !common::installed(program));
    if let Some(program) = missing {
        println!("ignored: everything: not installed (apt-get install {})", common::package_of(program));
    }
    let trials: [(&str, Case); 12] = [
        ("trace_at::numbers_are_printed_at_each_arrival", numbers_are_printed_at_each_arrival),
        ("trace_at::what_gdb_shows_is_printed", what_gdb_shows_is_printed),
        ("trace_at::an_unknown_place_is_said", an_unknown_place_is_said),
        ("profile::functions_without_frame_pointers_are_found", functions_without_frame_pointers_are_found),
        ("profile::a_picture_is_drawn", a_picture_is_drawn),
        ("trace_at::it_goes_on_behind_signals", it_goes_on_behind_signals),
        ("pack::it_is_debugged_where_nothing_is_left", it_is_debugged_where_nothing_is_left),
        ("pack::packed_twice_it_is_the_same", packed_twice_it_is_the_same),
        ("languages::cpp_g++", || a_language(&CPP)),
        ("languages::rust_rustc", || a_language(&RUST)),
        ("languages::go_go", || a_language(&GO)),
        ("languages::python_python3", python),
    ];
    trials
        .into_iter()
        .map(|(name, run)| {
            // The trials of languages end with the program that is needed for them.
            let needed = name.strip_prefix("languages::").and_then(|name| name.split('_').next_back());
            let lacks = needed.filter(|program| !is_on_path(program));
            if let Some(program) = lacks {
                println!("ignored: {name}: not installed (apt-get install {})", common::package_of(program));
            }
            trial(module_path!(), name, run).with_ignored_flag(missing.is_some() || lacks.is_some())
        })
        .collect()
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

fn pack(folder: &Folder, trace: &Path) -> Result<String, Failed> {
    let mut command = common::command(common::bis(), folder.path());
    command.arg("pack").arg(trace).args(["--symbols", "--sources"]);
    let step = common::run(command, "pack", folder.path(), None, LIMIT)?;
    if step.status != 0 {
        return Err(step.shown().into());
    }
    Ok(String::from_utf8_lossy(&step.stdout).into_owned())
}

fn must(program: &str, arguments: &[&str], cwd: &Path) -> Result<(), Failed> {
    let output = Command::new(program).args(arguments).current_dir(cwd).output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr)).into())
}

/// The program, its symbols in a file of their own, and its sources are gone; compiled in another folder than
/// theirs.
fn it_is_debugged_where_nothing_is_left() -> Result<(), Failed> {
    let folder = Folder::new("pack-gone")?;
    let machine = folder.sub("machine")?;
    let [sources, build] = [machine.join("my sources"), machine.join("build")];
    fs::create_dir_all(&sources)?;
    fs::create_dir_all(&build)?;
    fs::copy(common::tree().join("tests/debug/programs/recursion.c"), sources.join("recursion.c"))?;
    must("gcc", &["-g", "-O0", "-o", "program", "../my sources/recursion.c"], &build)?;
    must("objcopy", &["--only-keep-debug", "program", "program.debug"], &build)?;
    must("objcopy", &["--strip-debug", "--add-gnu-debuglink=program.debug", "program"], &build)?;
    let trace = folder.path().join("trace");
    let program = build.join("program");
    let record = common::record_command(&trace, &[], &[program.as_os_str()], folder.path());
    common::run(record, "record", folder.path(), None, LIMIT)?;
    let said = pack(&folder, &trace)?;
    let linked = fs::read_dir(trace.join("files"))?.flatten().filter(|entry| {
        entry.metadata().is_ok_and(|metadata| std::os::unix::fs::MetadataExt::nlink(&metadata) > 1)
    });
    if linked.count() > 0 {
        return Err(format!("files are still links to the machine's: {said}").into());
    }
    fs::remove_dir_all(&machine)?;
    let commands = folder.path().join("commands");
    fs::write(&commands, "break main\ncontinue\ninfo source\nlist main\n")?;
    let commands = commands.to_string_lossy();
    let step = replay(&folder, &trace, &["-q", "-x", &commands, "-o", "--batch"])?;
    let shown = String::from_utf8_lossy(&step.stdout);
    let located = format!("Located in {}/sources", trace.display());
    for wanted in [located.as_str(), "int main("] {
        if !shown.contains(wanted) {
            return Err(format!("{wanted} is not in: {shown}\n{}\n{said}", step.stderr_text()).into());
        }
    }
    folder.done();
    Ok(())
}

fn packed_twice_it_is_the_same() -> Result<(), Failed> {
    let folder = Folder::new("pack-twice")?;
    let trace = record(&folder, "recursion.c")?;
    pack(&folder, &trace)?;
    let again = pack(&folder, &trace)?;
    if again.matches("nothing new").count() != 3 {
        return Err(again.into());
    }
    let step = replay(&folder, &trace, &["-a"])?;
    if step.status != 0 {
        return Err(step.shown().into());
    }
    folder.done();
    Ok(())
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
    let (heavy, light) = (micros(&step, ";main;both;heavy"), micros(&step, ";main;both;light"));
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
    // An address at which nothing is executed has a breakpoint, too, in gdb's eyes.
    let step = replay(&folder, &trace, &["-q", "--trace-at", "*0"])?;
    equal(&lines(&step)?, &Vec::<String>::new(), &step)?;
    equal(&step.status, &2, &step)?;
    equal(&step.stderr_text().contains("there is no place *0"), &true, &step)?;
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

fn is_on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// A program that computes in one function, which is called three times with a number.
struct Language {
    file: &'static str,
    source: &'static str,
    compiler: &'static [&'static str],
    /// Where it is printed, and what.
    trace_at: [&'static str; 2],
    /// The last frames of the stack that most of its time is in.
    stack: &'static str,
}

const CPP: Language = Language {
    file: "spin.cc",
    source: "namespace work { struct Machine { int rounds = 0;\n\
        __attribute__((noinline)) unsigned spin(unsigned times) {\n\
        volatile unsigned sum = 0; for (unsigned i = 0; i < times; i++) sum = sum + i; rounds++; return sum; } }; }\n\
        int main() { work::Machine machine; unsigned all = 0;\n\
        for (unsigned i = 1; i <= 3; i++) all += machine.spin(i * 50000000); return all == 0; }\n",
    compiler: &["g++", "-g", "-O1", "-o"],
    trace_at: ["work::Machine::spin", "times"],
    stack: ";main;work::Machine::spin(unsigned int)",
};

const RUST: Language = Language {
    file: "spin.rs",
    source: "mod work { #[inline(never)] pub fn spin(times: u32) -> u32 {\n\
        let mut sum = 0u32; for i in 0..times { sum = std::hint::black_box(sum.wrapping_add(i)); } sum } }\n\
        fn main() { let mut all = 0u32;\n\
        for i in 1..=3 { all = all.wrapping_add(work::spin(i * 50_000_000)); } assert_ne!(all, 0); }\n",
    compiler: &["rustc", "-g", "-O", "-o"],
    trace_at: ["spin::work::spin", "times"],
    stack: ";spin::main;spin::work::spin",
};

const GO: Language = Language {
    file: "spin.go",
    source: "package main\n//go:noinline\nfunc spin(times uint32) uint32 { sum := uint32(0)\n\
        for i := uint32(0); i < times; i++ { sum += i ^ sum<<1 }\nreturn sum }\n\
        func main() { all := uint32(0)\nfor i := uint32(1); i <= 3; i++ { all += spin(i * 50000000) }\n\
        if all == 0 { panic(all) } }\n",
    compiler: &["go", "build", "-o"],
    trace_at: ["main.spin", "times"],
    // `main` has no frame of its own here: the unwinder takes a leaf's caller by the frame pointer, and
    // `spin` makes no frame.
    stack: ";main.spin",
};

/// The microseconds of stacks that end so.
fn micros(step: &Step, end: &str) -> u64 {
    let text = String::from_utf8_lossy(&step.stdout).into_owned();
    let of = |line: &str| {
        let (stack, micros) = line.rsplit_once(' ')?;
        stack.ends_with(end).then(|| micros.parse::<u64>().unwrap_or(0))
    };
    text.lines().filter_map(of).sum()
}

fn a_language(language: &Language) -> Result<(), Failed> {
    let folder = Folder::new("around")?;
    fs::write(folder.path().join(language.file), language.source)?;
    let program = folder.path().join("program");
    let mut compiler = Command::new(language.compiler[0]);
    compiler.args(&language.compiler[1..]).arg(&program).arg(language.file).current_dir(folder.path());
    compiler
        .env("GO111MODULE", "off")
        .env("GOCACHE", Path::new(env!("CARGO_TARGET_TMPDIR")).join("debug/go"));
    let output = compiler.output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    let trace = folder.path().join("trace");
    let record = common::record_command(&trace, &[], &[program.as_os_str()], folder.path());
    common::run(record, "record", folder.path(), None, LIMIT)?;
    let [place, expression] = language.trace_at;
    let step = replay(&folder, &trace, &["-q", "--trace-at", place, expression])?;
    let wanted: Vec<String> =
        (1..=3).map(|i| format!("{place}: {expression} = {}", 50_000_000 * i)).collect();
    equal(&lines(&step)?, &wanted, &step)?;
    let step = replay(&folder, &trace, &["-q", "--profile"])?;
    let all: u64 = micros(&step, "");
    equal(&(all > 0 && 2 * micros(&step, language.stack) > all), &true, &step)?;
    let step = replay(&folder, &trace, &["-q", "--profile", "--svg", "flames.svg"])?;
    let picture = fs::read_to_string(folder.path().join("flames.svg"))?;
    equal(&(picture.contains("<svg") && picture.contains("spin")), &true, &step)?;
    folder.done();
    Ok(())
}

/// Python's interpreter, which has symbols and no debugging information.
fn python() -> Result<(), Failed> {
    let folder = Folder::new("around")?;
    let trace = folder.path().join("trace");
    let code = "print(sum(i * i for i in range(1000000)))";
    let argv = ["/usr/bin/python3", "-c", code].map(std::ffi::OsStr::new);
    let record = common::record_command(&trace, &[], &argv, folder.path());
    common::run(record, "record", folder.path(), None, LIMIT)?;
    let step = replay(&folder, &trace, &["-q", "--trace-at", "PyRun_SimpleStringFlags", "(char*)$rdi"])?;
    equal(&lines(&step)?.concat().contains(code), &true, &step)?;
    let step = replay(&folder, &trace, &["-q", "--profile"])?;
    let text = String::from_utf8_lossy(&step.stdout).into_owned();
    let evaluates =
        text.lines().any(|line| line.contains("Py_BytesMain;") && line.contains("_PyEval_EvalFrameDefault"));
    equal(&evaluates, &true, &step)?;
    folder.done();
    Ok(())
}
