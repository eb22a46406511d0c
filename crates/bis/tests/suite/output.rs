//! `bis output`: each line that a recorded program wrote, with the event that wrote it, in the order in which
//! they were written; what is asked for by text or by process; and that a debugger stands behind the write at
//! that event. And the order is the one in which a slow reader got what several threads had waited to write.

use std::{
    ffi::OsStr,
    io::Read,
    path::Path,
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

use crate::{
    common::{self, Folder, Step},
    trial,
};
use libtest_mimic::{Failed, Trial};

const LIMIT: Duration = Duration::from_secs(60);

/// Two processes that write by turns, one of them to standard error and in pieces.
const SCRIPT: &str = r#"
echo "parent begins"
sh -c 'printf "child: "; printf "all is %s\n" lost; printf "no newline"' >&2
echo "parent ends"
"#;

pub fn trials() -> Vec<Trial> {
    let trials = vec![
        trial(module_path!(), "all_lines_in_their_order", all_lines_in_their_order),
        trial(
            module_path!(),
            "a_text_leads_to_the_event_that_wrote_it",
            a_text_leads_to_the_event_that_wrote_it,
        ),
        trial(module_path!(), "one_process", one_process),
        trial(module_path!(), "streams_that_are_closed", streams_that_are_closed),
        trial(module_path!(), "a_cut_trace_shows_what_it_has", a_cut_trace_shows_what_it_has),
    ];
    let missing = !common::installed("gcc");
    if missing {
        println!("ignored: writes that wait: gcc is not installed (apt-get install gcc)");
    }
    let waiting = ["blocked", "woken"].into_iter().flat_map(|name| {
        [("hooks", "--ticks=auto"), ("no_hooks", "--no-hooks")].map(|(mode, flag)| {
            let run = move || common::repeated(|| read_slowly(name, flag));
            trial(module_path!(), format!("writes_that_wait::{name}::{mode}"), run).with_ignored_flag(missing)
        })
    });
    trials.into_iter().chain(waiting).collect()
}

/// What is closed when bis is started is so in the program, too: nothing can be read or written there, and a
/// file that is opened gets its number.
fn streams_that_are_closed() -> Result<(), Failed> {
    const PROGRAM: &str = r#"
cat <&0 2> err || echo "no input" >&2
echo lost 2> err || echo "no output" >&2
python3 -c 'import os, sys; print(os.open("/etc/passwd", os.O_RDONLY), file=sys.stderr)' || exit 1
"#;
    let folder = Folder::new("output/closed")?;
    let (trace, cwd) = (folder.path().join("trace"), folder.path());
    let closed = |argv: &[&OsStr]| {
        let mut command = common::command(OsStr::new("sh"), cwd);
        command.args(["-c", r#"exec "$@" 0<&- 1>&-"#, "sh"]).args(argv);
        command
    };
    let program = ["sh", "-c", PROGRAM].map(OsStr::new);
    let native = common::run(closed(&program), "native", cwd, None, LIMIT)?;
    let record = common::record_command(&trace, &[], &program, cwd);
    let argv: Vec<&OsStr> = [record.get_program()].into_iter().chain(record.get_args()).collect();
    let recorded = common::run(closed(&argv), "record", cwd, None, LIMIT)?;
    let numbered = String::from_utf8_lossy(&native.stderr).ends_with("no input\nno output\n0\n");
    if !numbered || (native.status, &native.stderr) != (recorded.status, &recorded.stderr) {
        return Err(format!("natively\n{}\nrecorded\n{}", native.shown(), recorded.shown()).into());
    }
    common::replay_and_compare(&trace, &recorded, cwd, LIMIT).map(drop)
}

fn recorded(folder: &Folder) -> Result<std::path::PathBuf, Failed> {
    let trace = folder.path().join("trace");
    let argv = ["sh", "-c", SCRIPT].map(OsStr::new);
    let record = common::record_command(&trace, &[], &argv, folder.path());
    let step = common::run(record, "record", folder.path(), None, LIMIT)?;
    if step.status != 0 {
        return Err(format!("failed to record: {}\n{}", step.status, step.shown()).into());
    }
    Ok(trace)
}

fn bis(folder: &Folder, name: &str, args: &[&str], trace: &Path) -> Result<Step, Failed> {
    let mut command = common::command(common::bis(), folder.path());
    command.args(args).arg(trace);
    common::run(command, name, folder.path(), None, LIMIT)
}

/// What `bis output --json` says: event, process, descriptor and line.
fn lines(
    folder: &Folder,
    name: &str,
    args: &[&str],
    trace: &Path,
) -> Result<Vec<(u64, i64, u64, String)>, Failed> {
    let args: Vec<&str> = ["output", "--json"].iter().chain(args).copied().collect();
    let step = bis(folder, name, &args, trace)?;
    if step.status != 0 {
        return Err(format!("bis output ended with {}\n{}", step.status, step.shown()).into());
    }
    let text = String::from_utf8(step.stdout)?;
    let line = |line: &str| -> Result<_, Failed> {
        let value: serde_json::Value = serde_json::from_str(line)?;
        let number = |key: &str| value[key].as_i64().ok_or_else(|| Failed::from(format!("{key} in {line}")));
        let written = value["line"].as_str().ok_or("no line")?.to_owned();
        Ok((number("event")?.try_into()?, number("pid")?, number("fd")?.try_into()?, written))
    };
    text.lines().map(line).collect()
}

fn all_lines_in_their_order() -> Result<(), Failed> {
    let folder = Folder::new("output_all")?;
    let trace = recorded(&folder)?;
    let found = lines(&folder, "output", &[], &trace)?;
    let texts: Vec<(u64, &str)> = found.iter().map(|(_, _, fd, text)| (*fd, text.as_str())).collect();
    let wanted = [(1, "parent begins"), (2, "child: all is lost"), (1, "parent ends"), (2, "no newline")];
    assert_eq!(texts, wanted);
    let (parent, child) = (found[0].1, found[1].1);
    assert!(parent != child && found[2].1 == parent, "{found:?}");
    assert!(found[0].0 < found[1].0 && found[1].0 < found[2].0, "{found:?}");
    let people = bis(&folder, "people", &["output"], &trace)?;
    let people = String::from_utf8(people.stdout)?;
    assert_eq!(people.lines().count(), 5, "{people}");
    assert!(people.lines().nth(2).is_some_and(|line| line.ends_with(" 2  child: all is lost")), "{people}");
    folder.done();
    Ok(())
}

fn a_text_leads_to_the_event_that_wrote_it() -> Result<(), Failed> {
    let folder = Folder::new("output_find")?;
    let trace = recorded(&folder)?;
    let begin = lines(&folder, "begin", &["--find", "child"], &trace)?;
    let rest = lines(&folder, "rest", &["--find", "lost"], &trace)?;
    assert_eq!((begin.len(), rest.len()), (1, 1));
    assert!(begin[0].0 < rest[0].0, "the line was written by two calls: {begin:?} {rest:?}");
    assert_eq!(lines(&folder, "none", &["--find", "found"], &trace)?, []);
    let (from, to) = (rest[0].0.to_string(), rest[0].0.to_string());
    let dump = bis(&folder, "dump", &["dump", "--from", &from, "--to", &to], &trace)?;
    let dump = String::from_utf8(dump.stdout)?;
    // The child's descriptor 1 is its parent's standard error.
    assert!(dump.contains("write(1, "), "{dump}");
    folder.done();
    Ok(())
}

fn one_process() -> Result<(), Failed> {
    let folder = Folder::new("output_process")?;
    let trace = recorded(&folder)?;
    let all = lines(&folder, "all", &[], &trace)?;
    let child = all[1].1.to_string();
    let found = lines(&folder, "child", &["-p", &child], &trace)?;
    let texts: Vec<&str> = found.iter().map(|(.., text)| text.as_str()).collect();
    assert_eq!(texts, ["child: all is lost", "no newline"]);
    folder.done();
    Ok(())
}

fn a_cut_trace_shows_what_it_has() -> Result<(), Failed> {
    let folder = Folder::new("output_cut")?;
    let trace = recorded(&folder)?;
    let log = std::fs::OpenOptions::new().write(true).open(trace.join("log"))?;
    log.set_len(log.metadata()?.len() / 2)?;
    let step = bis(&folder, "cut", &["output"], &trace)?;
    assert_eq!(step.status, 3, "{}", step.shown());
    assert!(step.stderr_text().contains("it was cut short"), "{}", step.shown());
    folder.done();
    Ok(())
}

/// What threads wrote into a pipe that was full stands in the replay in the order in which it came out of it.
fn read_slowly(name: &str, flag: &str) -> Result<(), Failed> {
    const BEGIN: Duration = Duration::from_millis(300);
    let folder = Folder::new(&format!("output_{name}"))?;
    let (program, trace) = (folder.path().join(name), folder.path().join("trace"));
    common::compile(&common::tree().join(format!("tests/output/{name}.c")), &program)?;
    let mut record = common::record_command(&trace, &[flag], &[program.as_os_str()], folder.path());
    let mut record = record.stdout(Stdio::piped()).spawn()?;
    let mut reader = record.stdout.take().ok_or("no pipe")?;
    thread::sleep(BEGIN);
    let began = Instant::now();
    while name == "woken" && !folder.path().join("full").exists() {
        if began.elapsed() > LIMIT {
            record.kill()?;
            return Err("the program has not come to where the pipe is to be read".into());
        }
        thread::sleep(Duration::from_millis(10));
    }
    let (mut said, mut piece) = (Vec::new(), vec![0; 1 << 16]);
    // A writer gets room, or several do at once.
    for len in [100, 4096, 1 << 16, 8192].into_iter().cycle() {
        match reader.read(&mut piece[..len])? {
            0 => break,
            read => said.extend_from_slice(&piece[..read]),
        }
        thread::sleep(Duration::from_millis(1));
    }
    let status = record.wait()?;
    let replay = bis(&folder, "replay", &["replay", "-a"], &trace)?;
    let is_same = replay.stdout == said;
    if !status.success() || replay.status != 0 || !is_same || said.is_empty() {
        let (len, shown) = (said.len(), replay.shown());
        return Err(format!("{status}; {len} bytes, in the replay the same: {is_same}\n{shown}").into());
    }
    folder.done();
    Ok(())
}
