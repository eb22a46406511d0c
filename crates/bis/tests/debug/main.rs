//! Runs every transcript of `tests/debug/` and every hunt of `examples/` with gdb on a recording, in every
//! mode of recording.
//!
//! A transcript is a file `tests/debug/NAME.gdb` or `examples/NAME/hunt.gdb`; whatever lies there is found,
//! there is no list. It holds gdb's commands, one a line. Behind a command, lines that begin with `#>` say
//! what gdb must show before the next command, in this order: `#> TEXT` (a line has it somewhere), `#> ~
//! REGEX` (the same for an expression), `#> ! TEXT` (not before what the next `#>` line of that command
//! wants, nor at all if it is the last one). What the program writes counts as shown.
//!
//! The comments of the first lines say what is recorded, and how: `program:` a file of
//! `tests/debug/programs/`, or one beside the hunt (.c, .cc, .rs, .go, and .sh or .py, which are not
//! compiled); `cflags:` for its compiler, instead of -O0, and `cflags library:` the same for the library, in
//! which `{python}` stands for what Python's modules need; `args:` for the program; `other:` a second
//! program, and `library:` a shared library, whose paths `args:` may have as `{other}` and `{library}`;
//! `command:` what is recorded instead of the program, which may be in it as `{program}`; `until: fails`:
//! record again and again, until the program fails; `stdin:` one line of input; `record:` and `replay:` more
//! options, in which, as in commands, `{first}`, `{fork}` and `{third}` are the numbers of the first, second
//! and third process of the recording; `needs:` programs without which it cannot run; `modes:` of `hooks`,
//! `no-hooks` and `software` (default: the first two, and all three where the program has threads), and
//! `live`, where gdb is on the program while it is recorded (`bis run --gdb`), and ends with `status:`;
//! `broken:` why it is known to fail: it is run, and then counted as ignored, or as a failure if it passes;
//! `broken no-hooks:` the same for one mode; `flaky:` as `broken:`, for what sometimes passes.
//!
//! A file `NAME.lldb` is the same for LLDB, whose trials are named `NAME.lldb::mode`.
//!
//! gdb reads the commands as if they were typed, so an error does not end the transcript.
//! Trials are named `NAME::mode`; `BIS_TEST_REPEAT=N` runs each N times.

#[path = "../common/mod.rs"]
mod common;
mod pids;
mod programs;
mod session;
mod shown;
mod transcript;

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
};

use libtest_mimic::Trial;
use transcript::{Debugger, Transcript};

fn main() {
    let no_gdb = no_gdb();
    let no_lldb = (!common::installed("lldb")).then(|| "not installed (apt-get install lldb)".to_owned());
    let mut trials = Vec::new();
    let transcripts = find(&common::tree().join("tests/debug"));
    let hunts = find_hunts(&common::tree().join("examples"));
    assert!(hunts.len() >= 6, "examples was not found or is nearly empty: {} hunts", hunts.len());
    for transcript in transcripts.into_iter().chain(hunts) {
        let no_debugger = match transcript.debugger {
            Debugger::Gdb => no_gdb.clone(),
            Debugger::Lldb => no_lldb.clone(),
        };
        let missing = no_debugger.or_else(|| transcript.missing());
        let transcript = Arc::new(transcript);
        for mode in transcript.modes() {
            let name = format!("{}::{}", transcript.name, mode.name());
            if let Some(why) = &missing {
                println!("ignored: {name}: {why}");
            }
            let transcript = Arc::clone(&transcript);
            let trial = Trial::ignorable_test(name, move || transcript.run(mode));
            trials.push(trial.with_ignored_flag(missing.is_some()));
        }
    }
    assert!(trials.len() > 100, "tests/debug was not found or is nearly empty: {} trials", trials.len());
    libtest_mimic::run(&common::arguments(), trials).exit();
}

/// Why nothing can be run here.
fn no_gdb() -> Option<String> {
    if !common::installed("gdb") {
        return Some("not installed (apt-get install gdb)".into());
    }
    let mut gdb = Command::new("gdb");
    let output = gdb.args(["-nx", "-batch", "-ex", "python print(6 * 7)"]).stdin(Stdio::null()).output();
    let has_python = output.is_ok_and(|output| output.stdout.starts_with(b"42"));
    (!has_python).then(|| "this gdb has no Python".into())
}

/// Every transcript in a folder, sorted by name.
fn find(folder: &Path) -> Vec<Transcript> {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("failed to read {}: {e}", folder.display()));
    let mut transcripts: Vec<Transcript> = entries
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "gdb" || extension == "lldb"))
        .map(|path| Transcript::read(&path, &common::tree().join("tests/debug/programs")))
        .collect();
    transcripts.sort_by(|a, b| a.name.cmp(&b.name));
    transcripts
}

/// The transcripts of the examples, each of which has a folder of its own, with its program.
fn find_hunts(folder: &Path) -> Vec<Transcript> {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("failed to read {}: {e}", folder.display()));
    let folders = entries.filter_map(Result::ok).map(|entry| entry.path()).filter(|path| path.is_dir());
    let mut hunts: Vec<Transcript> = folders
        .map(|folder| {
            let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let hunt = Transcript::read(&folder.join("hunt.gdb"), &folder);
            Transcript { name: format!("example_{name}"), ..hunt }
        })
        .collect();
    hunts.sort_by(|a, b| a.name.cmp(&b.name));
    hunts
}
