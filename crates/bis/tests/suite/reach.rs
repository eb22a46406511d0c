//! Traces that travel, and places where bis must work: `record --cpu`, a replay on a processor that lacks
//! something, and a recording by the first process of a container.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use crate::{
    common::{self, Folder, bis, told::Told, tree},
    trial,
};
use bis_trace::{
    Writer,
    event::{EventKind, Machine, Meta},
};
use libtest_mimic::{Failed, Trial};

const LIMIT: Duration = Duration::from_secs(60);

pub fn trials() -> Vec<Trial> {
    let has_gcc = common::installed("gcc");
    let unshare = ["--pid", "--fork", "--mount-proc", "true"];
    let has_unshare = Command::new("unshare").args(unshare).output().is_ok_and(|ran| ran.status.success());
    if !has_unshare {
        println!(
            "ignored: first_process_of_a_container: nobody may make namespaces here (or there is no unshare)"
        );
    }
    let faults = bis_tracee::sys::has_cpuid_faulting();
    let seldom = seldom_used_and_lacking();
    vec![
        trial(module_path!(), "a_level_is_all_that_is_told", a_level_is_all_that_is_told)
            .with_ignored_flag(!has_gcc),
        trial(module_path!(), "what_this_processor_lacks_is_refused", what_this_processor_lacks_is_refused),
        trial(module_path!(), "what_is_seldom_used_is_not_refused", move || {
            what_is_seldom_used_is_not_refused(seldom)
        })
        .with_ignored_flag(seldom.is_none()),
        trial(module_path!(), "no_level_without_hooks", no_level_without_hooks).with_ignored_flag(faults),
        trial(module_path!(), "first_process_of_a_container", first_process_of_a_container)
            .with_ignored_flag(!has_unshare),
    ]
}

fn asks(folder: &Folder) -> Result<PathBuf, Failed> {
    let program = folder.path().join("asks");
    common::compile(&tree().join("tests/cpu/asks.c"), &program)?;
    Ok(program)
}

fn a_level_is_all_that_is_told() -> Result<(), Failed> {
    let folder = Folder::new("cpu-level")?;
    let program = asks(&folder)?;
    for (level, hidden) in [
        ("x86-64-v2", &["avx", "osxsave", "aes", "avx2", "avx512f", "supports.avx2"][..]),
        ("x86-64-v3", &["aes", "avx512f"]),
        ("x86-64-v4", &["aes"]),
    ] {
        let trace = folder.path().join(level);
        let flag = format!("--cpu={level}");
        let command = common::record_command(&trace, &[&flag], &[program.as_os_str()], folder.path());
        let recorded = common::run(command, "record", folder.path(), None, LIMIT)?;
        let said = String::from_utf8_lossy(&recorded.stdout).into_owned();
        for name in [hidden, &["fsgsbase", "unknown", "hwcap2.fsgsbase"]].concat() {
            if !said.lines().any(|line| line == format!("{name} 0")) {
                return Err(format!("{level}: {name} is told:\n{said}").into());
            }
        }
        if !said.contains("copied 299 0") {
            return Err(format!("{level}: its functions do not work:\n{said}").into());
        }
        common::replay_and_compare(&trace, &recorded, folder.path(), LIMIT)?;
        let mut info = common::command(bis(), folder.path());
        info.arg("info").arg(&trace);
        let info = common::run(info, "info", folder.path(), None, LIMIT)?;
        let info = String::from_utf8_lossy(&info.stdout).into_owned();
        let told = info.lines().find_map(|line| line.strip_prefix("cpuid says")).unwrap_or_default().trim();
        // A processor that has less offers less: then it is described by a lower level.
        if told.is_empty() || told.contains("aes") || level == "x86-64-v2" && told.contains("avx") {
            return Err(format!("{level}: bis info does not say what was told: {told:?}\n{info}").into());
        }
    }
    folder.done();
    Ok(())
}

fn made_on(path: &Path, features: Vec<u32>) -> Result<(), Failed> {
    let writer = Writer::create(path)?;
    writer.meta(&Meta::Machine(Box::new(Machine {
        cpu: "A processor of next year".into(),
        tick_source: "state".into(),
        features,
        ..Machine::default()
    })))?;
    writer.finish()?;
    Ok(())
}

fn what_this_processor_lacks_is_refused() -> Result<(), Failed> {
    let folder = Folder::new("cpu-lacks")?;
    let here = bis_tracee::features::offered(bis_tracee::features::Level::Native);
    let (fits, lacks) = (folder.path().join("fits"), folder.path().join("lacks"));
    let mut more = here.clone();
    more[5] |= 1 << 13; // of leaf 7.1, eax: no instruction that anybody knows
    made_on(&fits, here)?;
    made_on(&lacks, more)?;
    let replay = |trace: &Path, flags: &[&str]| {
        let mut command = common::command(bis(), folder.path());
        command.args(flags).arg(trace);
        common::run(command, "replay", folder.path(), None, LIMIT)
    };
    for flags in [&["replay", "-a"][..], &["replay", "--profile"], &["replay", "-s", "0"], &["output"]] {
        let step = replay(&lacks, flags)?;
        let said = step.stderr_text();
        let wanted =
            ["it lacks bit 13 of eax of cpuid leaf 0x7.1, which", "A processor of next year", "--any-cpu"];
        if step.status != 2 || wanted.iter().any(|text| !said.contains(text)) {
            return Err(format!("{flags:?}: status {}, said {said:?}", step.status).into());
        }
    }
    for (trace, flags) in [
        (&fits, &["replay", "-a"][..]),
        (&lacks, &["replay", "-a", "--any-cpu"]),
        (&lacks, &["output", "--any-cpu"]),
    ] {
        let said = replay(trace, flags)?.stderr_text();
        if said.contains("lacks") {
            return Err(format!("{flags:?} of {}: refused: {said:?}", trace.display()).into());
        }
    }
    folder.done();
    Ok(())
}

/// Word, bit and name of something that hardly a program uses, and that this processor lacks. Processors of
/// AMD have all of it where no hypervisor hides some.
fn seldom_used_and_lacking() -> Option<(usize, u32, &'static str)> {
    let here = bis_tracee::features::offered(bis_tracee::features::Level::Native);
    let all = [(8, 6, "sse4a"), (8, 29, "mwaitx"), (10, 4, "rdpru")];
    all.into_iter().find(|&(word, bit, _)| here[word] >> bit & 1 == 0)
}

/// What hardly a program uses is no reason to refuse; it is named where a replay diverges.
fn what_is_seldom_used_is_not_refused(seldom: Option<(usize, u32, &str)>) -> Result<(), Failed> {
    let (word, bit, name) = seldom.ok_or("this processor lacks none of it")?;
    let folder = Folder::new("cpu-seldom")?;
    let trace = folder.path().join("trace");
    let command = common::record_command(&trace, &[], &[std::ffi::OsStr::new("true")], folder.path());
    common::run(command, "record", folder.path(), None, LIMIT)?;
    let mut told = Told::read(&trace)?;
    told.features[word] |= 1 << bit;
    told.features[2] |= 1 << 22; // pcommit, which no processor ever had
    let replay = |told: &Told, name: &str| {
        let dir = folder.path().join(name);
        told.write(&told.events, &dir)?;
        let mut command = common::command(bis(), folder.path());
        command.args(["replay", "-a"]).arg(&dir);
        common::run(command, "replay", folder.path(), None, LIMIT)
    };
    let step = replay(&told, "refused")?;
    if step.status != 2 || !step.stderr_text().contains("it lacks pcommit, which") {
        return Err(format!("not refused\n{}", step.shown()).into());
    }
    told.features[2] &= !(1 << 22);
    let step = replay(&told, "replayed")?;
    if step.status != 0 || !step.stderr_text().is_empty() {
        return Err(format!("not replayed in silence\n{}", step.shown()).into());
    }
    let lie = told.events.values_mut().flatten().find_map(|event| match &mut event.kind {
        EventKind::Syscall { entry, .. } => Some(entry),
        _ => None,
    });
    lie.ok_or("there is no call")?.r12 ^= 1;
    let step = replay(&told, "diverged")?;
    if step.status == 0
        || !step.stderr_text().contains(&format!("lacks {name}, which the recording's programs"))
    {
        return Err(format!("the divergence does not name it\n{}", step.shown()).into());
    }
    folder.done();
    Ok(())
}

fn no_level_without_hooks() -> Result<(), Failed> {
    let folder = Folder::new("cpu-no-hooks")?;
    let trace = folder.path().join("trace");
    let argv = [std::ffi::OsStr::new("true")];
    let command = common::record_command(&trace, &["-n", "--cpu=x86-64-v2"], &argv, folder.path());
    let step = common::run(command, "record", folder.path(), None, LIMIT)?;
    if step.status != 125 || !step.stderr_text().contains("cpuid cannot be made to fault") {
        return Err(format!("status {}: {}", step.status, step.stderr_text()).into());
    }
    folder.done();
    Ok(())
}

/// The recorder is process 1 of a pid namespace with a /proc of its own: its program is its only child, and
/// orphans become children of its.
fn first_process_of_a_container() -> Result<(), Failed> {
    let folder = Folder::new("container-init")?;
    let trace = folder.path().join("trace");
    let script = "echo recorder $PPID; (sh -c 'sleep 0.1; echo orphan') & (kill -0 1 && echo alive); exit 5";
    let inside = |arguments: &[&std::ffi::OsStr]| {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--mount-proc", "--kill-child", "--"]).arg(bis()).args(arguments);
        command.current_dir(folder.path());
        command
    };
    let os = std::ffi::OsStr::new;
    let record = [os("record"), os("--wait"), os("-o"), trace.as_os_str(), os("sh"), os("-c"), os(script)];
    let recorded = common::run(inside(&record), "record", folder.path(), None, LIMIT)?;
    let said = String::from_utf8_lossy(&recorded.stdout).into_owned();
    if recorded.status != 5 || said != "recorder 1\nalive\norphan\n" {
        return Err(format!("status {}, wrote {said:?}\n{}", recorded.status, recorded.stderr_text()).into());
    }
    // Replayed outside, and by the first process of another container.
    common::replay_and_compare(&trace, &recorded, folder.path(), LIMIT)?;
    let replay = [os("replay"), os("-a"), trace.as_os_str()];
    let replayed = common::run(inside(&replay), "replay", folder.path(), None, LIMIT)?;
    if replayed.status != 0 || replayed.stdout != recorded.stdout {
        return Err(format!("inside: status {}: {}", replayed.status, replayed.stderr_text()).into());
    }
    folder.done();
    Ok(())
}
