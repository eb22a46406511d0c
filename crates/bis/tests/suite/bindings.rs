//! Checkpoints from Rust: the crate in `bindings/rust` is built as its users build it, and its example, a
//! parser that backtracks, is recorded and replayed. (Those from C are in `tests/guests/checkpoints`, from
//! Python in `tests/real`.)

use std::{ffi::OsStr, path::Path, process::Command, time::Duration};

use crate::{
    common::{self, Folder, Step, tree},
    trial,
};
use libtest_mimic::{Failed, Trial};

const LIMIT: Duration = Duration::from_secs(60);

/// Each text with what the parser says of it.
const TEXTS: [(&str, &str); 3] = [
    ("2*(3+4)*5+6", "2*(3+4)*5+6 = 76, by 2 * 3 + 4 * 5 + 6\n"),
    ("((1+2)*(3+4", "((1+2)*(3+4: no sum\n"),
    ("1+2*3", "1+2*3 = 7, by 1 + 2 * 3\n"),
];

pub fn trials() -> Vec<Trial> {
    let modes: [(&str, &[&str]); 3] =
        [("replay", &[]), ("no_hooks", &["--no-hooks"]), ("checksum", &["--checksum"])];
    let trials =
        modes.map(|(mode, flags)| trial(module_path!(), format!("rust::{mode}"), move || parse(mode, flags)));
    trials.into()
}

fn parse(mode: &str, flags: &[&str]) -> Result<(), Failed> {
    let folder = Folder::new(&format!("bindings.{mode}"))?;
    // With the toolchain and the environment that these tests are built with.
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--offline", "--examples", "--manifest-path"]);
    build.arg(tree().join("bindings/rust/Cargo.toml")).env("CARGO_TARGET_DIR", folder.path());
    let built = build.output()?;
    if !built.status.success() {
        return Err(format!("the example is not built: {}", String::from_utf8_lossy(&built.stderr)).into());
    }
    let parser = folder.path().join("debug/examples/parser");
    for (index, (text, said)) in TEXTS.iter().enumerate() {
        let logs = folder.sub(&format!("logs{index}"))?;
        let trace = folder.path().join(format!("trace{index}"));
        tried(&parser, text, said, (&trace, flags, &logs))
            .map_err(|error| common::explain(&error, &trace))?;
    }
    folder.done();
    Ok(())
}

fn tried(
    parser: &Path,
    text: &str,
    said: &str,
    (trace, flags, logs): (&Path, &[&str], &Path),
) -> Result<(), Failed> {
    let mut native = common::command(parser, logs);
    native.arg(text);
    let native = common::run(native, "native", logs, None, LIMIT)?;
    if native.status == 0 || !native.stderr_text().contains("run me under") {
        return Err(format!("without bis it has to fail: {}", native.shown()).into());
    }
    let argv = [parser.as_os_str(), OsStr::new(text)];
    let recorded: Step =
        common::run(common::record_command(trace, flags, &argv, logs), "record", logs, None, LIMIT)?;
    if recorded.status != 0 || recorded.stdout != said.as_bytes() {
        return Err(format!("the recorded parser says something else: {}", recorded.shown()).into());
    }
    common::replay_and_compare(trace, &recorded, logs, LIMIT).map(drop)
}
