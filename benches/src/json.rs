//! The report as JSON, for machines: everything the table has, with the figures of every round.
//!
//! Times are in seconds, memory and traces in bytes; the keys end with the unit. Absent figures are null.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;
use std::{fs, thread};

use serde_json::{Value, json};

use crate::args::Args;
use crate::measure::{Figures, Outcome, Pair, Side, State};
use crate::stats;
use crate::subject::Subject;

pub fn report(
    args: &Args,
    bis: &Path,
    subjects: &[Subject],
    notes: &[String],
    outcomes: &[Outcome],
) -> Value {
    let described = |subject: &Subject| {
        let (record, replay) = subject.shown();
        json!({"name": subject.name, "record": record, "replay": replay})
    };
    json!({
        "version": 1,
        "rounds": args.rounds(),
        "quick": args.quick,
        "machine": machine(bis),
        "notes": notes,
        "subjects": subjects.iter().map(described).collect::<Vec<_>>(),
        "workloads": outcomes.iter().map(|outcome| workload(outcome, subjects)).collect::<Vec<_>>(),
    })
}

fn machine(bis: &Path) -> Value {
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cpu = cpus.lines().find_map(|line| line.strip_prefix("model name")?.split(": ").nth(1));
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let version = Command::new(bis.as_os_str()).arg(OsStr::new("--version")).output();
    let version = version.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).ok();
    json!({
        "cpu": cpu,
        "cores": thread::available_parallelism().map(usize::from).ok(),
        "kernel": kernel.trim(),
        "bis": version,
    })
}

fn workload(outcome: &Outcome, subjects: &[Subject]) -> Value {
    let mut value = match &outcome.state {
        State::LeftOut(why) => json!({"status": "left out", "message": why}),
        State::Failing(why) => json!({"status": "failing", "message": why}),
        State::Measured(figures) => measured(figures, subjects),
    };
    value["name"] = outcome.name.into();
    value["about"] = outcome.about.into();
    value
}

fn measured(figures: &Figures, subjects: &[Subject]) -> Value {
    let mut by_name = serde_json::Map::new();
    for (subject, state) in subjects.iter().zip(&figures.subjects) {
        let value = match state {
            Ok(pair) => both(figures, pair),
            Err(why) => json!({"status": "failing", "message": why}),
        };
        by_name.insert(subject.name.clone(), value);
    }
    json!({
        "status": if figures.ours_failed { "failing" } else { "measured" },
        "note": figures.note,
        "runs_per_round": figures.repeat,
        "units": figures.units,
        "native": {
            "seconds": figures.native_s,
            "median_s": figures.native(),
            "each_s": figures.each(figures.native()),
            "peak_pss_bytes": figures.native_peak,
        },
        "subjects": by_name,
    })
}

fn both(figures: &Figures, pair: &Pair) -> Value {
    json!({
        "status": "measured",
        "record": side(figures, &pair.record),
        "replay": side(figures, &pair.replay),
        "trace_bytes": pair.trace.own,
        "trace_shared_bytes": pair.trace.shared,
        "trace_mb_per_native_s": figures.trace_mb_per_s(pair),
    })
}

fn side(figures: &Figures, side: &Side) -> Value {
    let spread = stats::spread(&side.ratios);
    let median_s = stats::median(&side.seconds);
    json!({
        "seconds": side.seconds,
        "median_s": median_s,
        "each_s": figures.each(median_s),
        "ratios": side.ratios,
        "ratio_median": stats::median(&side.ratios),
        "ratio_min": spread.map(|(least, _)| least),
        "ratio_max": spread.map(|(_, greatest)| greatest),
        "peak_pss_bytes": side.peak,
    })
}
