//! The programs of `benches/programs/`, compiled where they are prepared. Each checks itself; its output is the same
//! in all runs, and that is checked too.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::step;
use crate::workload::{Job, Site, find_program};

macro_rules! source {
    ($name:literal) => {
        ($name, include_str!(concat!("../../programs/", $name, ".c")))
    };
}

pub fn fork_exec(site: &Site) -> Result<Job> {
    counted(site, source!("fork_exec"), site.size(200, 5))
}

pub fn just_true(site: &Site) -> Result<Job> {
    let path = find_program("true").context("it was there a moment ago")?;
    Ok(Job { repeat: site.size(20, 2) as u32, ..Job::new([path]).units(1) })
}

pub fn cpu_mix(site: &Site) -> Result<Job> {
    Ok(Job::new([compile(site, source!("cpu_mix"))?.into(), size(site.size(12, 1))]))
}

pub fn cpu_threads(site: &Site) -> Result<Job> {
    Ok(Job::new([compile(site, source!("cpu_threads"))?.into(), size(site.size(300_000, 3_000))]))
}

pub fn gettimeofday(site: &Site) -> Result<Job> {
    counted(site, source!("gettimeofday"), site.size(1_000_000, 2_000))
}

pub fn read1(site: &Site) -> Result<Job> {
    counted(site, source!("read1"), site.size(1_000_000, 2_000))
}

pub fn getppid(site: &Site) -> Result<Job> {
    counted(site, source!("getppid"), site.size(1_000_000, 2_000))
}

pub fn pipe_pingpong(site: &Site) -> Result<Job> {
    counted(site, source!("pipe_pingpong"), site.size(30_000, 500))
}

pub fn futex_pingpong(site: &Site) -> Result<Job> {
    counted(site, source!("futex_pingpong"), site.size(30_000, 500))
}

pub fn traced_calls(site: &Site) -> Result<Job> {
    let program = compile(site, source!("traced_calls"))?;
    let (call, note) = unhooked_call(site)?;
    let times = site.size(500_000, 2_000);
    let job = Job::new([program.into(), OsString::from(call), size(times)]).units(times);
    Ok(Job { note: Some(note), ..job })
}

/// A program whose argument is the number of what it does.
fn counted(site: &Site, source: (&str, &str), times: u64) -> Result<Job> {
    Ok(Job::new([compile(site, source)?.into(), size(times)]).units(times))
}

fn compile(site: &Site, (name, source): (&str, &str)) -> Result<PathBuf> {
    let file = format!("{name}.c");
    fs::write(site.folder.join(&file), source).with_context(|| format!("failed to write {file}"))?;
    step::prepare(site.folder, &["gcc", "-O2", "-pthread", "-o", name, &file, "-lm"], None)?;
    Ok(site.folder.join(name))
}

fn size(size: u64) -> OsString {
    size.to_string().into()
}

/// One of the calls that `traced_calls.c` knows, of which `bis syscalls` does not say that it is hooked; and a note
/// that names it. While the table has no word about hooks, nothing is hooked.
fn unhooked_call(site: &Site) -> Result<(&'static str, String)> {
    let output = Command::new(site.bis).args(["syscalls", "--json"]).output();
    let output = output.with_context(|| format!("failed to start {}", site.bis.display()))?;
    let rows: Vec<Value> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()
        .context("failed to understand `bis syscalls --json`")?;
    let call = choose(&rows).context("all calls that the program knows are hooked")?;
    Ok((call, format!("the call is {call}")))
}

fn choose(rows: &[Value]) -> Option<&'static str> {
    let hooked = |row: &Value| match &row["hooked"] {
        Value::Null => false,
        Value::Bool(hooked) => *hooked,
        Value::String(how) => !how.is_empty(),
        _ => true,
    };
    let free = |call: &&str| !rows.iter().any(|row| row["name"] == **call && hooked(row));
    ["umask", "personality", "getpgid", "getpriority"].into_iter().find(free)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_hooked_call_is_passed_over() {
        assert_eq!(choose(&[json!({"name": "umask"})]), Some("umask"));
        assert_eq!(choose(&[json!({"name": "umask", "hooked": true})]), Some("personality"));
        assert_eq!(choose(&[json!({"name": "umask", "hooked": "always"})]), Some("personality"));
        assert_eq!(choose(&[json!({"name": "read", "hooked": true})]), Some("umask"));
    }
}
