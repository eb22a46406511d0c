//! `bis record --on-replay`: what a program did since one of its checkpoints is executed again, by a `bis
//! replay` on the trace so far, while the program waits.
//!
//! The program's standard output is its own: what is said here goes to standard error, and a debugger has the
//! terminal.

use std::{
    env,
    fs::{self, File},
    io::{self, Read, Seek},
    os::fd::AsFd,
    process::{Command, Stdio},
};

use bis_record::{OnReplay, Stretch};
use bis_tracee::companion::{self, Terminal};
use rustix::fs::{MemfdFlags, memfd_create};

use crate::{args::OnReplayArg, failure::status, output};

/// The replay of this kind.
pub fn replayed(how: OnReplayArg) -> OnReplay {
    OnReplay::new(move |stretch, is_wanted| {
        let outcome = run(how, stretch, is_wanted);
        // It would tell of a whole trace, and this one goes on.
        let _ = fs::remove_file(stretch.trace_dir.join(bis_replay::learnt::FILE_NAME));
        outcome.unwrap_or_else(|error| {
            output::note(&format!("bis: failed to replay since the checkpoint: {error}"));
            false
        })
    })
}

fn run(how: OnReplayArg, stretch: &Stretch, is_wanted: &dyn Fn() -> bool) -> io::Result<bool> {
    let mut command = Command::new(env::current_exe()?);
    command.args(words(how, stretch)).arg(&stretch.trace_dir);
    // What a check says is of interest where it fails.
    let mut said = File::from(memfd_create("bis-on-replay", MemfdFlags::CLOEXEC)?);
    let terminal = if how == OnReplayArg::Gdb { Terminal::own() } else { None };
    match &terminal {
        Some(terminal) => {
            command.stdin(terminal.file()?).stdout(terminal.file()?).stderr(terminal.file()?);
        }
        None => {
            if how != OnReplayArg::Gdb {
                command.stdin(Stdio::null());
            }
            command.stdout(io::stderr().as_fd().try_clone_to_owned()?);
            if how == OnReplayArg::Check {
                command.stderr(said.try_clone()?);
            }
        }
    }
    let (pid, from, to) = (stretch.pid, stretch.from, stretch.to);
    if how != OnReplayArg::Check {
        output::note(&format!(
            "bis: process {pid} asks for a replay since its checkpoint: events {from} to {to}"
        ));
    }
    let Some(ended) = companion::run(command, terminal.as_ref(), None, is_wanted)? else { return Ok(false) };
    let code = ended.code().map(|code| u8::try_from(code).unwrap_or(status::USAGE));
    let is_right = match how {
        OnReplayArg::Check | OnReplayArg::Profile => matches!(code, Some(0 | status::CUT)),
        // The status is the debugger's own, but where there was none.
        OnReplayArg::Gdb | OnReplayArg::Server => {
            code.is_some_and(|code| ![status::USAGE, status::BUG].contains(&code))
        }
    };
    if !is_right {
        let mut text = String::new();
        said.rewind()?;
        said.read_to_string(&mut text)?;
        output::note(&format!(
            "bis: the replay since the checkpoint of process {pid} failed\n{}",
            text.trim_end()
        ));
    }
    Ok(is_right)
}

/// The arguments in front of the trace.
fn words(how: OnReplayArg, stretch: &Stretch) -> Vec<String> {
    let Stretch { pid, domain, from, .. } = stretch;
    let words = match how {
        OnReplayArg::Check => format!("-a --quiet --pid {pid}"),
        OnReplayArg::Gdb => format!("--quiet --domain {} --goto {from}", domain.0),
        OnReplayArg::Server => format!("--quiet --domain {} --goto {from} --port 0", domain.0),
        OnReplayArg::Profile => format!("--profile --domain {} --profile-from {from}", domain.0),
    };
    let words = words.split(' ').map(str::to_owned);
    ["replay".to_owned()].into_iter().chain(words).collect()
}
