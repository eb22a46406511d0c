//! The programs of `benches/programs/`, compiled where they are prepared. Each checks itself; its output is
//! the same in all runs, and that is checked too.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

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
    Ok(Job::new([compile(site, source!("cpu_threads"))?.into(), size(site.size(300_000, 3_000))])
        .on_one_core())
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
    let call = unhooked_call(site, &program)?;
    let times = site.size(500_000, 2_000);
    let job = Job::new([program.into(), OsString::from(call), size(times)]).units(times);
    Ok(Job { note: Some(format!("the call is {call}")), ..job })
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

/// The first call of `traced_calls.c` for which bis stops each time. Which calls are hooked changes with bis,
/// and a figure for a hooked one would be a good figure for something else; so it is tried: a call that was
/// traced is an event of its own in the trace.
fn unhooked_call(site: &Site, program: &Path) -> Result<&'static str> {
    const CALLS: [&str; 5] = ["sigaltstack", "personality", "umask", "getpgid", "getpriority"];
    const TIMES: usize = 100;
    let text = |path: &Path| path.to_str().map(str::to_owned).context("a path is not UTF-8");
    let (bis, program) = (text(site.bis)?, text(program)?);
    let trace = site.folder.join("probe");
    let trace_text = text(&trace)?;
    for call in CALLS {
        let times = TIMES.to_string();
        let record = [&bis, "record", "-o", &trace_text, "--", &program, call, &times];
        step::prepare(site.folder, &record, None)?;
        let events =
            step::prepare(site.folder, &[&bis, "dump", "--json", "--call", call, &trace_text], None)?;
        fs::remove_dir_all(&trace).context("failed to remove the trace")?;
        if events.iter().filter(|byte| **byte == b'\n').count() >= TIMES {
            return Ok(call);
        }
    }
    bail!("bis hooks all of {}", CALLS.join(", "))
}
