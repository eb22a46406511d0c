//! `bis record`: everything around a recording. Finds the program, makes the trace's folder, and gives the
//! program's exit status; the recording itself is `bis-record`.
//!
//! A successful recording adds nothing to the program's output: where the trace is, is said on a terminal
//! only, or when asked for. A recording that never began leaves nothing behind.

use std::{
    env as std_env,
    ffi::{OsStr, OsString},
    fs,
    io::{self, IsTerminal, Write},
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{self, Path, PathBuf},
    time::Duration,
};

use bis_record::{Begins, Ended, OnFault, Options, Pattern, RecordError};
use bis_trace::{
    LAST_WORDS, TraceError,
    types::{EventSeq, Tid},
};
use bis_tracee::proc;

use crate::{
    args::{CpuArg, Nested, Record, Run, TicksArg},
    commands::{debug, doctor, guided::Guided, make_texts, on_replay},
    env,
    failure::{Failure, Result, status},
    folder, human,
    nested::{self, Outer},
    output, program,
};

pub fn run(args: Record) -> Result<u8> {
    record(args, false).map_err(as_of_a_program)
}

/// `bis run`: the program runs live until it makes its first checkpoint.
pub fn run_live(args: Run) -> Result<u8> {
    record(args.into(), true).map_err(as_of_a_program)
}

/// What we fail with is not to be taken for the program's own status.
fn as_of_a_program(failure: Failure) -> Failure {
    if failure.status == status::USAGE { failure.with_status(status::RECORD) } else { failure }
}

/// Records. `live`: each process from its first checkpoint on.
fn record(args: Record, live: bool) -> Result<u8> {
    // One that cannot be asked is known by its name only, and may be no bis: with `ignore`, that is tried.
    let outer = nested::outer().filter(|outer| args.nested != Nested::Ignore || outer.trace.is_some());
    if let Some(outer) = outer {
        return inside(&args, &outer);
    }
    let environment = environment(&args.making.env)?;
    let no_hooks = args.no_hooks || args.steps.is_some() || args.making.gdb;
    check(&args, no_hooks)?;
    let (begins, found, cwd) = beginning(&args, &environment, live)?;
    let (text_bytes_max, text_makers) = (folder::cache_size()?, make_texts::makers()?);
    let name = args.command.first().map_or(found.path.as_os_str(), OsString::as_os_str).to_owned();
    let place = Place::make(args.making.output.as_deref(), Path::new(&name))?;
    let guided = match announce(&args, &place) {
        Ok(guided) => guided,
        Err(failure) => {
            place.undo();
            return Err(failure);
        }
    };
    let mark = folder::mark_recording(&place.path);
    folder::leave_word_in(&place.path);
    let (program, seen_from) = (found.path.clone(), cwd.clone());
    let result = bis_record::record(&Options {
        begins,
        program: found.path,
        argv: found.argv,
        env: environment,
        cwd,
        trace_dir: place.path.clone(),
        checksum: args.making.checksum.map(Into::into),
        steps: args.steps.map(|(from, to)| (EventSeq(from), EventSeq(to))),
        slice: Duration::from_millis(args.slice),
        chaos: args.chaos.then(|| args.seed.unwrap_or_else(|| u64::from(std::process::id()))),
        ticks: args.ticks.kind(args.chaos || no_hooks),
        counts: args.ticks.counts(),
        cpu: args.cpu.into(),
        hooks: !no_hooks,
        cloning: !args.no_cloning,
        wait: args.wait,
        site_cache: folder::cache(folder::SITES),
        text_bytes_max,
        text_makers,
        known_files: folder::cache(folder::KNOWN),
        stores: folder::stores_for(&place.path),
        left_out: args.detach.iter().map(left_out).collect(),
        on_replay: Some(on_replay::replayed(args.making.on_replay)),
        guide: guided.as_ref().map(Guided::guide),
        on_fault: args.on_error.is_some().then(|| on_fault(args.port)),
    });
    drop(mark);
    if let Some(guided) = guided {
        guided.wait();
    }
    match result {
        Ok(ended) => Ok(tell(ended, place, args.making.verbose)),
        Err(error) => {
            let interpreter = program::missing_interpreter(&program, seen_from.as_deref());
            Err(told(&error, &name, interpreter.as_deref(), place))
        }
    }
}

/// Can this be recorded so? Said before anything is made.
fn check(args: &Record, no_hooks: bool) -> Result<()> {
    doctor::finds_processes("record")?;
    if let Some(cwd) = &args.making.cwd
        && !cwd.is_dir()
    {
        return Err(Failure::usage(format!("failed to run in {}: no such folder", cwd.display())));
    }
    if args.chaos && args.ticks == TicksArg::Stepping {
        return Err(Failure::usage(
            "failed to record with --chaos and --ticks=stepping: chaos draws moments, and stepping leaves none; give one of them"
                .to_owned(),
        ));
    }
    if args.cpu != CpuArg::Native && no_hooks && !bis_tracee::sys::has_cpuid_faulting() {
        return Err(Failure::usage(
            "failed to record with --cpu and without hooks: cpuid cannot be made to fault here, so only the hooks can answer it; leave \
             out --no-hooks and --steps"
                .to_owned(),
        ));
    }
    if args.making.gdb && program::find(&["gdb".into()], std::env::var_os("PATH").as_deref(), None).is_err() {
        return Err(Failure::usage(
            "failed to start the debugger gdb: there is no such program; install gdb, or leave out --gdb",
        ));
    }
    Ok(())
}

/// Tells of the trace's folder whoever has asked for it, and starts the debugger, if there is to be one.
fn announce(args: &Record, place: &Place) -> Result<Option<Guided>> {
    if let Some(fd) = args.print_trace_dir {
        print_path(fd, &place.path)?;
    }
    let making = &args.making;
    making.gdb.then(|| Guided::new(making.commands.clone(), making.checkpoint_memory)).transpose()
}

/// What is done inside of another bis's recording.
fn inside(args: &Record, outer: &Outer) -> Result<u8> {
    if let Some(pid) = args.attach {
        return Err(Failure::usage(format!(
            "failed to record process {pid}: this process is being recorded by bis{outer}, and bis cannot trace others in there"
        )));
    }
    match (args.nested, outer) {
        (Nested::Join, Outer { trace: Some(trace), .. }) if args.making.gdb => Err(Failure::usage(format!(
            "failed to start the debugger on a program of the recording that this runs in (into {}): it goes on as that one does; \
             with --nested=detach the program gets a recording of its own outside of it, and with that the debugger",
            trace.display()
        ))),
        (Nested::Join, Outer { trace: Some(trace), .. }) => join(args, trace),
        (Nested::Detach, Outer { trace: Some(_), .. }) => Err(nested::leave()),
        (Nested::Ignore, _) => Err(Failure::usage(format!(
            "failed to record: this process is being recorded by bis{outer}, and a process has one tracer; without \
             --nested=ignore the program becomes a part of that recording, with --nested=detach it gets a recording \
             of its own outside of it"
        ))),
        _ => Err(Failure::usage(format!(
            "failed to record: this process is already being recorded by bis{outer}; a recording covers all child \
             processes, so run the program itself here"
        ))),
    }
}

/// From where on is recorded, which program that is, and the folder in which it runs.
fn beginning(
    args: &Record,
    environment: &[(OsString, OsString)],
    live: bool,
) -> Result<(Begins, program::Found, Option<PathBuf>)> {
    if let Some(pid) = args.attach.map(Tid) {
        let (found, cwd) = running(pid);
        return Ok((Begins::WithProcess(pid), found, cwd));
    }
    let begins = if live && !args.making.gdb { Begins::WithCheckpoints } else { Begins::WithProgram };
    let cwd = args.making.cwd.clone();
    Ok((begins, program::find(&args.command, search_path(environment), cwd.as_deref())?, cwd))
}

/// Where programs are looked for by their names.
fn search_path(environment: &[(OsString, OsString)]) -> Option<&OsStr> {
    environment.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.as_os_str())
}

/// Says what there is to say about a recording that has come to its end. The exit status.
fn tell(ended: Ended, place: Place, verbose: bool) -> u8 {
    let Ended { exit_code, left, go_on, is_recorded, refused } = ended;
    for why in refused {
        output::note(&format!("bis: a checkpoint was refused: {why}"));
    }
    if !is_recorded {
        if verbose {
            output::note("bis: the program has made no checkpoint: there is no trace");
        }
        place.undo();
        return exit_code;
    }
    if let Some(text) = tell_going_on(&go_on) {
        output::note(&text);
    }
    if let Some(text) = tell_left(&left) {
        output::note(&text);
    }
    if verbose || io::stderr().is_terminal() {
        output::note(&format!("bis: trace: {}", place.path.display()));
    }
    exit_code
}

/// What is to be said about a recording that has failed. Its trace stays if it has begun.
fn told(error: &RecordError, name: &OsStr, interpreter: Option<&Path>, place: Place) -> Failure {
    let mut failure = failure(error, name);
    if let (status::NOT_FOUND, Some(interpreter)) = (failure.status, interpreter) {
        failure.message += &format!("; its interpreter {} is not there", human::path(interpreter));
    }
    if matches!(error, RecordError::Trace(TraceError::Gone(_))) {
        return failure;
    }
    // Where there was not even memory for an event, or for a word, nobody would find any use for it.
    let has_word = place.path.join(OsStr::from_bytes(LAST_WORDS.to_bytes())).exists();
    if began(error) && (has_word || !bis_trace::is_bare(&place.path)) {
        let kept =
            format!("{}\nbis: what was recorded until then is in {}", failure.message, place.path.display());
        return Failure::new(failure.status, kept);
    }
    place.undo();
    failure
}

/// What a process runs, and its current folder, as far as can be told.
fn running(pid: Tid) -> (program::Found, Option<PathBuf>) {
    let path = proc::executable(pid).unwrap_or_else(|| format!("process-{pid}").into());
    (program::Found { path, argv: proc::command_line(pid) }, proc::link(pid, "cwd"))
}

/// The program becomes a part of the recording that this process is in: it takes our place. Returns only if
/// it cannot.
fn join(args: &Record, trace: &Path) -> Result<u8> {
    let environment = environment(&args.making.env)?;
    if let Some(cwd) = &args.making.cwd {
        std_env::set_current_dir(cwd)
            .map_err(|error| Failure::of(format!("run in {}", cwd.display()), error))?;
    }
    let found = program::find(&args.command, search_path(&environment), None)?;
    if let Some(fd) = args.print_trace_dir {
        print_path(fd, trace)?;
    }
    let instead = args.making.output.as_ref().map(|path| format!(", and none is made in {}", path.display()));
    output::note(&format!(
        "bis: joined the recording that this runs in: the trace is {}{}",
        trace.display(),
        instead.unwrap_or_default()
    ));
    Err(nested::become_program(&found.path, &found.argv, &environment))
}

/// Shows a debugger with what the recording fails.
fn on_fault(port: Option<u16>) -> OnFault {
    OnFault::new(move |fault| {
        if let Err(failure) = debug::at_fault(fault, port) {
            failure.print();
        }
    })
}

/// What of that which was left out of the recording is not ended by its end.
fn tell_going_on(programs: &[(String, Tid)]) -> Option<String> {
    let names: Vec<&str> = programs.iter().map(|(name, _)| name.as_str()).collect();
    let goes = if names.len() == 1 { "goes" } else { "go" };
    (!names.is_empty())
        .then(|| format!("bis: left out of the recording, and {goes} on by itself: {}", names.join(", ")))
}

/// What the program had left running when the recording ended, and what has become of it.
fn tell_left(left: &[(String, Tid)]) -> Option<String> {
    /// More are counted.
    const NAMED_MAX: usize = 5;
    let named = left.iter().take(NAMED_MAX).map(|(name, pid)| format!("{name} (process {pid})"));
    let mut named = named.collect::<Vec<_>>().join(", ");
    match left.len() {
        0 => return None,
        n if n > NAMED_MAX => named.push_str(&format!(" and {} more", n - NAMED_MAX)),
        _ => {}
    }
    let them = if left.len() == 1 { "it was" } else { "they were" };
    let end = if left.len() == 1 { "it has" } else { "they have" };
    Some(format!(
        "bis: the program has left {named} running; {them} killed at the end of the recording (--wait records on until {end} ended)"
    ))
}

/// With a slash it is a path, from where we are.
fn left_out(command: &OsString) -> Pattern {
    let is_path = command.as_bytes().contains(&b'/');
    let absolute = is_path.then(|| path::absolute(command).ok()).flatten();
    Pattern(absolute.map_or_else(|| command.clone(), PathBuf::into_os_string).into_vec())
}

/// Writes where the trace will be to a descriptor that we were started with. The program does not get it, so
/// that a reader there does not wait for the program's descendants.
fn print_path(fd: i32, trace: &Path) -> Result<()> {
    let what = |error| Failure::of(format!("write the trace's path to descriptor {fd}"), error);
    let mut to = bis_tracee::sys::adopt_fd(fd).map_err(what)?;
    let mut line = path::absolute(trace).map_err(what)?.into_os_string().into_vec();
    line.push(b'\n');
    to.write_all(&line).map_err(what)
}

/// Our environment with the variables that were given; later ones win.
fn environment(changes: &[OsString]) -> Result<Vec<(OsString, OsString)>> {
    let mut all: Vec<(OsString, OsString)> = std_env::vars_os().collect();
    for change in changes {
        let bytes = change.as_bytes();
        let Some(equals) = bytes.iter().position(|byte| *byte == b'=').filter(|at| *at > 0) else {
            return Err(Failure::usage(format!(
                "failed to read --env {}: give it as NAME=VALUE",
                Path::new(change).display()
            )));
        };
        let name = OsStr::from_bytes(&bytes[..equals]);
        all.retain(|(other, _)| other != name);
        all.push((name.to_owned(), OsStr::from_bytes(&bytes[equals + 1..]).to_owned()));
    }
    Ok(all)
}

/// The folder of the trace to come, and what there was before, for when it does not come.
#[derive(Debug)]
struct Place {
    path: PathBuf,
    /// We made the folder.
    made: bool,
    /// The folder of the traces, if it is there, and where its `latest` pointed before.
    named: Option<(PathBuf, Option<OsString>)>,
}

impl Place {
    fn make(output: Option<&Path>, program: &Path) -> Result<Place> {
        let Some(path) = output else {
            let traces = folder::traces()?;
            let path = folder::new_trace(&traces, program)?;
            let before = folder::latest(&traces);
            folder::set_latest(&traces, path.file_name())
                .map_err(|error| Failure::of(format!("set the link {}/latest", traces.display()), error))?;
            return Ok(Place { path, made: true, named: Some((traces, before)) });
        };
        let shown = path.display();
        match fs::read_dir(path) {
            Ok(mut entries) => match entries.next() {
                None => Ok(Place { path: path.to_owned(), made: false, named: None }),
                Some(_) => Err(Failure::usage(format!(
                    "failed to make a trace in {shown}: the folder is not empty (remove an old trace with bis rm {shown})"
                ))),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                folder::make_private(path).map_err(|error| Failure::of(format!("make {shown}"), error))?;
                Ok(Place { path: path.to_owned(), made: true, named: None })
            }
            Err(error) => Err(Failure::of(format!("make a trace in {shown}"), error)),
        }
    }

    /// Takes back what was made. What cannot be removed stays, and `bis rm` removes it.
    fn undo(self) {
        if self.made {
            let _ = fs::remove_dir_all(&self.path);
        } else if let Ok(entries) = fs::read_dir(&self.path) {
            for entry in entries.flatten() {
                let _ = match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    true => fs::remove_dir_all(entry.path()),
                    false => fs::remove_file(entry.path()),
                };
            }
        }
        if let Some((traces, before)) = self.named {
            let _ = folder::set_latest(&traces, before.as_deref());
        }
    }
}

/// Whether the program was started, so that there is something worth keeping.
fn began(error: &RecordError) -> bool {
    !matches!(
        error,
        RecordError::Spawn(_)
            | RecordError::Found(_)
            | RecordError::Ticks(_)
            | RecordError::Trace(TraceError::Create { .. })
    )
}

fn failure(error: &RecordError, name: &OsStr) -> Failure {
    let code = match error {
        RecordError::Spawn(bis_tracee::spawn::SpawnError::Child { source, .. }) => match source.kind() {
            io::ErrorKind::NotFound => status::NOT_FOUND,
            io::ErrorKind::PermissionDenied => status::NOT_EXECUTABLE,
            // ENOEXEC: a format that the kernel does not know, or a damaged file.
            _ if source.raw_os_error() == Some(rustix::io::Errno::NOEXEC.raw_os_error()) => {
                status::NOT_EXECUTABLE
            }
            _ => status::RECORD,
        },
        _ => status::RECORD,
    };
    let hint = match error {
        _ if code != status::RECORD => None,
        RecordError::Spawn(_) => error.remedy().or(Some("bis doctor says what works here")),
        _ => error.remedy(),
    };
    let hint = hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
    let text = error.to_string();
    if matches!(error, RecordError::Found(_)) {
        return Failure::new(code, format!("failed to attach: {text}"));
    }
    // The libraries' texts begin with what failed; the name of the program is what people look for.
    let message = format!("failed to record {}: {text}{hint}", Path::new(name).display());
    if matches!(error, RecordError::Bug { .. }) {
        return Failure::new(code, format!("{message} ({}=debug gives a log)", env::BIS_LOG.name));
    }
    Failure::new(code, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_set_over_ours() {
        let set = environment(&["A=1".into(), "A=2=3".into(), "PATH=".into()]).unwrap();
        let value =
            |name: &str| set.iter().filter(|(n, _)| n == name).map(|(_, v)| v.clone()).collect::<Vec<_>>();
        assert_eq!(value("A"), ["2=3"]);
        assert_eq!(value("PATH"), [""]);
        for wrong in ["A", "=1", ""] {
            assert!(environment(&[wrong.into()]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_folder_with_something_in_it_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::make(Some(folder.path()), Path::new("x")).unwrap();
        fs::write(folder.path().join("log"), "").unwrap();
        assert!(Place::make(Some(folder.path()), Path::new("x")).is_err());
        place.undo();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        let deep = folder.path().join("a/b");
        Place::make(Some(&deep), Path::new("x")).unwrap().undo();
        assert!(!deep.exists());
    }
}
