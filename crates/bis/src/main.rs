//! `bis`, the command: records a run of a program and replays it, exactly, as often as wanted.
//!
//! This crate is the edge of the project: it reads arguments and environment, finds programs and traces by
//! name, prints, and chooses exit statuses. It knows nothing of ptrace, of system calls, or of the trace's
//! format; that is the business of `bis-record`, `bis-replay` and `bis-trace`, and those print nothing.
//!
//! Exit statuses (also in `bis --help`): `record` and `run` give the program's own, or 128 + the signal that
//! killed it; 125 when bis itself failed, 126 when the program cannot be executed, 127 when it was not found:
//! the habits of env and timeout. `replay`: with a debugger, the debugger's own; without, 0 for the whole run
//! without divergence, 1 for a divergence, 2 for a bad command line or trace, 3 for a trace that was cut
//! short and replayed without divergence as far as it goes. The others: 0, or 2 when they failed; `doctor`: 1
//! when something that bis needs is missing.
#![forbid(unsafe_code)]

mod args;
mod commands;
mod env;
mod failure;
mod folder;
mod human;
mod json;
mod nested;
mod output;
mod program;
mod progress;

use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _, panic, path::Path, process, thread};

use bis_tracee::memory_limit as memory;
use clap::{
    Parser,
    error::{ContextKind, ContextValue, ErrorKind},
};
use rustix::process::{Resource, getrlimit};

use args::{Cli, Command};
use failure::{Failure, status};

/// Says so where there is no memory left: nothing that needs some could.
#[global_allocator]
static MEMORY: memory::Said = memory::Said { early: status_of };

/// With less of a stack, in bytes, a thread is started that has enough.
const STACK_MIN: u64 = 2 << 20;
const STACK: usize = 8 << 20;

/// Where the limit of the stack (`ulimit -s`) is too low for us, a thread with a stack of its own does
/// everything; the program that is recorded has the limit as it is.
fn main() {
    let limit = getrlimit(Resource::Stack).current;
    if limit.is_none_or(|limit| limit >= STACK_MIN) {
        command();
    }
    match thread::Builder::new().stack_size(STACK).spawn(|| command()) {
        Ok(running) => drop(running.join()),
        Err(error) => {
            output::note(&format!("bis: failed to start a thread: {error}"));
            let name = std::env::args_os().nth(1).unwrap_or_default();
            process::exit(i32::from(status_of(name.as_bytes())));
        }
    }
}

fn command() -> ! {
    let mut cli = Cli::try_parse().unwrap_or_else(|error| usage_error(&error));
    if called_rr() {
        cli.command.like_rr();
    }
    let bug_status = if matches!(cli.command, Command::Record(_) | Command::Run(_)) {
        status::RECORD
    } else {
        status::BUG
    };
    memory::say_with_status(if bug_status == status::RECORD { status::RECORD } else { status::USAGE });
    name_bugs(bug_status);
    start_log();
    let code = match commands::run(cli.command) {
        Ok(code) => code,
        Err(failure) => {
            failure.print();
            failure.status
        }
    };
    process::exit(i32::from(code))
}

/// The status of a failure before the arguments are read, which takes memory: by what is likely the command.
fn status_of(command: &[u8]) -> u8 {
    match command {
        b"record" | b"run" => status::RECORD,
        _ => status::USAGE,
    }
}

/// Whether we were called by the name of rr, which is the one that its clients know.
fn called_rr() -> bool {
    let name = std::env::args_os().next();
    name.is_some_and(|name| Path::new(&name).file_name() == Some(OsStr::new("rr")))
}

/// What rr has and bis has not, each with what there is instead.
const ONLY_RR: [(&[&str], &str); 4] = [
    (&["-M", "--mark-stdio"], "`bis dump` says which process wrote what, and when"),
    (&["--stats"], "`bis info` has the recording's counts, and --profile says where the time went"),
    (
        &["--share-private-mappings", "--retry-transient-errors", "--intel-pt-start-checking-event"],
        "it is about rr's own working",
    ),
    (
        &["-A", "--microarch", "-S", "--suppress-environment-warnings", "--check-cached-mmaps"],
        "nothing here needs it",
    ),
];

/// What is said of an option that `bis replay` does not know, or of a word behind the trace. None: clap knows
/// of one that is like it, and says so.
fn unknown_option(error: &clap::Error) -> Option<String> {
    if error.kind() != ErrorKind::UnknownArgument || error.get(ContextKind::SuggestedArg).is_some() {
        return None;
    }
    let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg) else { return None };
    if !option.starts_with('-') {
        return Some(format!(
            "bis: one argument too many: {option}: bis replay takes one trace; what is for the debugger stands behind --"
        ));
    }
    let of_rr = ONLY_RR.iter().find(|(names, _)| names.contains(&option.as_str()));
    Some(match of_rr {
        Some((_, instead)) => format!("bis: rr's option {option} is not there in bis replay: {instead}"),
        None => format!(
            "bis: bis replay has no option {option}: `bis replay --help` shows those that there are; what is for the debugger \
             stands behind --"
        ),
    })
}

/// Ends after a command line that clap refused, or a `--help`.
fn usage_error(error: &clap::Error) -> ! {
    let command = std::env::args_os().nth(1).unwrap_or_default();
    if command == "replay"
        && let Some(text) = unknown_option(error)
    {
        output::note(&text);
        process::exit(i32::from(status::USAGE));
    }
    // A reader of the help that went away is no failure.
    let _ = error.print();
    let code = match error.exit_code() {
        0 => 0,
        // 2 could be the status of a recorded program.
        _ => status_of(command.as_bytes()),
    };
    process::exit(i32::from(code))
}

/// A panic anywhere, in a supervisor thread too, ends the process at once with a line that asks for a report:
/// the other threads might wait for the one that is gone. The kernel then kills what was traced, and a trace
/// that was being written can be read up to its last whole chunk.
fn name_bugs(code: u8) {
    panic::set_hook(Box::new(move |info| {
        let thread = std::thread::current();
        let payload = info.payload();
        let message =
            payload.downcast_ref::<&str>().copied().or(payload.downcast_ref::<String>().map(String::as_str));
        let message = message.unwrap_or("no message");
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        Failure::new(
            code,
            format!(
                "this is a bug in bis {}: {message} (at {place}, thread {}); please report it, with what you did and \
                 the log that {}=debug gives",
                clap::crate_version!(),
                thread.name().unwrap_or("?"),
                env::BIS_LOG.name
            ),
        )
        .print();
        if std::env::var_os(env::RUST_BACKTRACE.name).is_some_and(|value| value != "0") {
            output::note(&std::backtrace::Backtrace::force_capture().to_string());
        }
        process::exit(i32::from(code));
    }));
}

/// Sends the log to standard error if `BIS_LOG` asks for one. A filter that makes no sense is named, not
/// ignored.
fn start_log() {
    let Some(filter) = env::BIS_LOG.get() else { return };
    let filter = filter.to_string_lossy().into_owned();
    let wrong = match tracing_subscriber::EnvFilter::try_new(&filter) {
        Ok(good) => match nobody(&filter) {
            None => {
                tracing_subscriber::fmt()
                    .with_env_filter(good)
                    .with_writer(std::io::stderr)
                    .with_thread_names(true)
                    .with_ansi(false)
                    .init();
                return;
            }
            Some(name) => format!("bis has no part {name}"),
        },
        Err(error) => error.to_string(),
    };
    output::note(&format!(
        "bis: {}={filter} is not a filter ({wrong}); try info, debug, or bis_record=trace",
        env::BIS_LOG.name
    ));
}

/// A name in a filter by which no part of bis writes to the log: to the filter's own reader any word is a
/// name, also a level with a mistake in it.
fn nobody(filter: &str) -> Option<&str> {
    const PARTS: [&str; 9] = [
        "bis",
        "bis_agent",
        "bis_debug",
        "bis_record",
        "bis_replay",
        "bis_rewrite",
        "bis_syscalls",
        "bis_trace",
        "bis_tracee",
    ];
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    let is_level = |word: &str| {
        LEVELS.iter().any(|level| level.eq_ignore_ascii_case(word))
            || word.parse::<u8>().is_ok_and(|n| n <= 5)
    };
    // What belongs to a name may have commas of its own, and is for who knows what to write there.
    if filter.contains(['[', '{']) {
        return None;
    }
    let names = filter.split(',').map(str::trim).filter(|part| !part.is_empty() && !is_level(part));
    let mut names = names.map(|part| part.split('=').next().unwrap_or_default());
    // A filter's name stands for all that begin with it.
    names.find(|name| {
        let crate_name = name.split("::").next().unwrap_or_default();
        !PARTS.iter().any(|part| part.starts_with(name) || *part == crate_name)
    })
}
