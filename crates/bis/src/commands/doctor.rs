//! `bis doctor`: what works on this machine, each thing tried, and what to do about what does not. The trials
//! of tracing are in `bis-tracee`; here are those of the surroundings: disk, folder, limits, kernel.

use std::{fs, io::Write, path::Path};

use bis_tracee::proc;
use rustix::{
    fs::statvfs,
    process::{Resource, getrlimit},
    system::uname,
};
use serde_json::json;

use crate::{
    args::Doctor,
    env,
    failure::{Failure, Result, status},
    folder, human, output, program,
};

/// Below this a recording of any length will fail soon.
const FREE_BYTES_MIN: u64 = 256 << 20;
/// Each traced process takes the supervisor a few descriptors.
const DESCRIPTORS_MIN: u64 = 1024;
/// The oldest kernel with everything that bis asks of one.
const KERNEL_MIN: (u32, u32) = (5, 15);

struct Check {
    name: String,
    ok: bool,
    required: bool,
    found: String,
    remedy: String,
}

impl Check {
    fn good(name: &str, found: impl Into<String>) -> Check {
        Check { name: name.into(), ok: true, required: false, found: found.into(), remedy: String::new() }
    }

    fn bad(name: &str, found: impl Into<String>, remedy: impl Into<String>) -> Check {
        Check { name: name.into(), ok: false, required: false, found: found.into(), remedy: remedy.into() }
    }

    /// What nothing can be said of, good or bad, where `/proc` does not show our processes.
    fn unknown(name: &str) -> Check {
        Check::bad(name, "not known without the right /proc", "")
    }

    fn required(self) -> Check {
        Check { required: true, ..self }
    }
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn kernel() -> Check {
    let release = uname().release().to_string_lossy().into_owned();
    if enough(&release) {
        return Check::good("kernel", format!("Linux {release}"));
    }
    let (major, minor) = KERNEL_MIN;
    Check::bad(
        "kernel",
        format!("Linux {release}"),
        format!("use Linux {major}.{minor} or newer; on this one, expect failures"),
    )
}

/// Whether a release is [`KERNEL_MIN`] or newer; one that cannot be read is not.
fn enough(release: &str) -> bool {
    let mut numbers = release.split(['.', '-', '+']).map_while(|part| part.parse::<u32>().ok());
    matches!((numbers.next(), numbers.next()), (Some(major), Some(minor)) if (major, minor) >= KERNEL_MIN)
}

fn processor() -> Check {
    let info = read("/proc/cpuinfo").unwrap_or_default();
    let name =
        info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": ").map(|(_, name)| name));
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let found = format!("{}, {cores} cores for us", name.unwrap_or("unknown"));
    match cfg!(target_arch = "x86_64") {
        true => Check::good("processor", found),
        false => Check::bad("processor", found, "use an x86-64 machine").required(),
    }
}

/// What helps where `/proc` is not that of our processes.
const MOUNT_PROC: &str =
    "mount the /proc of this namespace: unshare --mount-proc, or mount -t proc proc /proc";

/// Without the right `/proc` nothing can be traced; `what` was to be done. Said before a task that is not
/// there is looked for.
pub fn finds_processes(what: &str) -> Result<()> {
    proc::what_is_wrong().map_or(Ok(()), |found| {
        Err(Failure::usage(format!(
            "failed to {what}: /proc does not show our processes: {found}; {MOUNT_PROC}"
        )))
    })
}

fn processes() -> Check {
    match proc::what_is_wrong() {
        None => Check::good("processes", "/proc shows ours"),
        Some(found) => Check::bad("processes", format!("of /proc: {found}"), MOUNT_PROC).required(),
    }
}

fn yama() -> Check {
    match proc::setting("kernel/yama/ptrace_scope").as_deref() {
        None if !Path::new("/proc/sys/kernel").exists() => Check::unknown("yama"),
        None => Check::good("yama", "not in this kernel: ptrace is not restricted by it"),
        Some("0" | "1") => Check::good("yama", "ptrace_scope allows tracing of own children"),
        Some(scope) => Check::bad(
            "yama",
            format!("kernel.yama.ptrace_scope is {scope}"),
            "sudo sysctl kernel.yama.ptrace_scope=1 (from 3 only a reboot leads back)",
        ),
    }
}

fn seccomp() -> Check {
    if proc::what_is_wrong().is_some() {
        return Check::unknown("seccomp");
    }
    let status = proc::Fields::of_this_thread();
    match status.as_ref().and_then(|status| status.text("Seccomp")) {
        None => Check::bad("seccomp", "not in this kernel", "use a kernel with CONFIG_SECCOMP_FILTER"),
        Some("0") => Check::good("seccomp", "no filter is over us"),
        Some(_) => Check::good(
            "seccomp",
            "we run under a filter (a container's): see the trials above for what it allows",
        ),
    }
}

fn pmu() -> Check {
    match Path::new("/sys/bus/event_source/devices/cpu").exists() {
        true => Check::good("performance counters", "there are some; bis does not need them"),
        false => {
            Check::good("performance counters", "none (as in most virtual machines); bis does not need them")
        }
    }
}

fn debugger() -> Check {
    let search = std::env::var_os("PATH");
    match program::find(&["gdb".into()], search.as_deref(), None) {
        Ok(found) => Check::good("debugger", found.path.display().to_string()),
        Err(_) => Check::bad(
            "debugger",
            "there is no gdb, which bis replay starts",
            "install gdb (13 or newer); recording, and bis replay -a, need none",
        ),
    }
}

fn descriptors() -> Check {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let found = if limit == u64::MAX { "no limit".into() } else { format!("{limit} open files") };
    match limit >= DESCRIPTORS_MIN {
        true => Check::good("limits", found),
        false => Check::bad("limits", found, "ulimit -n 4096, to record many processes at once"),
    }
}

/// The first folder above that exists.
fn existing(path: &Path) -> &Path {
    path.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("/"))
}

fn traces_folder() -> Vec<Check> {
    let remedy = format!("set {} to a folder where you may write", env::BIS_TRACES.name);
    let traces = match folder::traces() {
        Ok(traces) => traces,
        Err(failure) => return vec![Check::bad("traces", failure.message, remedy)],
    };
    let below = existing(&traces);
    let trial = below.join(format!(".bis-doctor-{}", std::process::id()));
    let shown = traces.display();
    let written = fs::create_dir(&trial).and_then(|()| fs::remove_dir(&trial));
    let mut checks = vec![match written {
        Ok(()) => Check::good("traces", format!("in {shown}")),
        Err(error) => {
            Check::bad("traces", format!("cannot write to {}: {error}", below.display()), remedy.clone())
        }
    }];
    match statvfs(below) {
        Ok(stat) => {
            let free = stat.f_bavail.saturating_mul(stat.f_frsize);
            let found = format!("{} free for traces", human::bytes(free));
            checks.push(match free >= FREE_BYTES_MIN {
                true => Check::good("disk space", found),
                false => Check::bad("disk space", found, format!("bis rm --older-than 7, or {remedy}")),
            });
        }
        Err(error) => checks.push(Check::bad("disk space", format!("not known: {error}"), remedy)),
    }
    checks
}

pub fn run(args: &Doctor) -> Result<u8> {
    if let Some(file) = &args.text {
        return super::doctor_text::run(file, args.json);
    }
    // The trials need it, so where it is wrong that is all that there is to say of them.
    let processes = processes();
    let trials = if processes.ok { None } else { Some(Check::unknown("tracing")) };
    let mut checks: Vec<Check> = [processes].into_iter().chain(trials).collect();
    checks.extend(bis_tracee::doctor::checks().into_iter().map(|check| Check {
        name: check.name.into(),
        ok: check.ok,
        required: check.required,
        found: check.found,
        remedy: check.remedy.into(),
    }));
    checks.extend([processor(), kernel(), yama(), seccomp(), pmu(), descriptors(), debugger()]);
    checks.extend(traces_folder());
    let fit = checks.iter().all(|check| check.ok || !check.required);
    let mut out = output::page();
    let width = checks.iter().map(|check| check.name.len()).max().unwrap_or(0);
    for check in &checks {
        if args.json {
            let value = json!({
                "name": check.name, "ok": check.ok, "required": check.required, "found": check.found,
                "remedy": if check.ok { "" } else { check.remedy.as_str() },
            });
            writeln!(out, "{value}")?;
            continue;
        }
        let mark = match (check.ok, check.required) {
            (true, _) => "ok  ",
            (false, true) => "FAIL",
            (false, false) => "note",
        };
        writeln!(out, "{mark}  {:width$}  {}", check.name, check.found)?;
        if !check.ok && !check.remedy.is_empty() {
            writeln!(out, "{:1$}-> {2}", "", width + 8, check.remedy)?;
        }
    }
    if !args.json {
        writeln!(
            out,
            "\n{}",
            if fit {
                "bis can record on this machine."
            } else {
                "bis cannot record on this machine as it is."
            }
        )?;
    }
    out.flush()?;
    Ok(if fit { 0 } else { status::UNFIT })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_compared_by_number() {
        for good in ["5.15.0", "6.1", "6.18.5-amd64", "10.0-rc1", "5.15+"] {
            assert!(enough(good), "{good}");
        }
        for bad in ["5.14.21", "4.19.0-27", "", "six"] {
            assert!(!enough(bad), "{bad}");
        }
    }
}
