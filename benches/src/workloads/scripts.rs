//! The scripts of `benches/scripts/`, in the interpreters that this machine has.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::step;
use crate::workload::{Job, Site};

pub fn python(site: &Site) -> Result<Job> {
    // `python3` may be a script that looks for the real one; that is not what is measured.
    let interpreter = ask(site, &["python3", "-c", "import sys; print(sys.executable)"])?;
    script(site, interpreter, "mix.py", include_str!("../../scripts/mix.py"), site.size(30, 1))
}

pub fn node(site: &Site) -> Result<Job> {
    let interpreter = ask(site, &["node", "-p", "process.execPath"])?;
    script(site, interpreter, "mix.js", include_str!("../../scripts/mix.js"), site.size(30, 1))
}

fn ask(site: &Site, argv: &[&str]) -> Result<PathBuf> {
    let answer = String::from_utf8(step::prepare(site.folder, argv, None)?);
    Ok(PathBuf::from(answer.context("the interpreter's path is not UTF-8")?.trim()))
}

fn script(site: &Site, interpreter: PathBuf, name: &str, text: &str, rounds: u64) -> Result<Job> {
    fs::write(site.folder.join(name), text).with_context(|| format!("failed to write {name}"))?;
    fs::create_dir(site.folder.join("files")).context("failed to make a folder")?;
    let argv: [OsString; 4] = [interpreter.into(), name.into(), rounds.to_string().into(), "files".into()];
    Ok(Job::new(argv))
}
