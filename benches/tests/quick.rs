//! Runs the benchmark with small sizes and looks at its report: that every workload did its work natively,
//! recorded and replayed, and that the figures are all there. No time is judged, so a busy machine fails
//! nothing.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::time::SystemTime;

use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_bis-bench");

/// Is this file newer than all that it is built from? (`--workspace` has built it just now; to ask Cargo for
/// this package alone would build its dependencies again, with other features.)
fn is_current(program: &Path) -> bool {
    fn newest(folder: &Path) -> Option<SystemTime> {
        let entries = std::fs::read_dir(folder).ok()?.flatten();
        let time = |entry: std::fs::DirEntry| match entry.file_type().ok()?.is_dir() {
            true => newest(&entry.path()),
            false => entry.metadata().ok()?.modified().ok(),
        };
        entries.filter_map(time).max()
    }
    let sources = newest(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates"));
    let built = std::fs::metadata(program).and_then(|built| built.modified());
    built.is_ok_and(|built| sources.is_some_and(|changed| changed < built))
}

/// The `bis` beside the benchmark, built if `cargo test -p bis-bench` did not: a package's tests build its
/// own programs only.
fn bis() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let profile = Path::new(PROGRAM).parent().expect("the program is in a folder");
        if is_current(&profile.join("bis")) {
            return profile.join("bis");
        }
        let target = profile.parent().expect("and that in the target folder");
        let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(["build", "--quiet", "-p", "bis", "--bin", "bis", "--target-dir"]).arg(target);
        if profile.ends_with("release") {
            cargo.arg("--release");
        }
        let status = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status().expect("cargo starts");
        assert!(status.success(), "bis does not build");
        profile.join("bis")
    })
}

/// Runs it with the built bis, unless the arguments name another.
fn bench(args: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    if !args.contains(&"--bis") {
        command.arg("--bis").arg(bis());
    }
    command.args(args).output().expect("the benchmark starts")
}

fn error(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The report of a quick run with these arguments, and what was printed.
fn report(args: &[&str]) -> (Value, Output) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("figures.json");
    let output = bench(&[&["--quick", "--json", file.to_str().unwrap()], args].concat());
    let text = std::fs::read_to_string(&file).unwrap_or_else(|_| panic!("no report: {}", error(&output)));
    (serde_json::from_str(&text).expect("the report is JSON"), output)
}

/// A list of as many positive numbers as there are rounds.
fn assert_positive(list: &Value, rounds: usize) {
    let numbers: Vec<f64> = list.as_array().expect("a list").iter().filter_map(Value::as_f64).collect();
    assert_eq!(numbers.len(), rounds, "{list}");
    assert!(numbers.iter().all(|number| number.is_finite() && *number > 0.0), "{list}");
}

fn assert_measured(workload: &Value, subjects: &[&str], rounds: usize) {
    assert_eq!(workload["status"], "measured", "{workload:#}");
    assert_positive(&workload["native"]["seconds"], rounds);
    for subject in subjects {
        let figures = &workload["subjects"][subject];
        assert_eq!(figures["status"], "measured", "{subject}: {workload:#}");
        for side in ["record", "replay"] {
            let side = &figures[side];
            assert_positive(&side["seconds"], rounds);
            assert_positive(&side["ratios"], rounds);
            let [least, median, greatest] =
                ["ratio_min", "ratio_median", "ratio_max"].map(|key| side[key].as_f64().expect("a ratio"));
            assert!(least <= median && median <= greatest, "{side}");
        }
        assert!(figures["trace_bytes"].as_u64().expect("a weight") > 0, "{figures}");
        assert!(figures["trace_mb_per_native_s"].as_f64().expect("a weight") > 0.0, "{figures}");
    }
}

#[test]
fn a_handful_of_workloads() {
    let names = [
        "cp-a",
        "make-j2",
        "fork-exec",
        "true",
        "cpu-threads",
        "python",
        "sqlite-reads",
        "git-clone",
        "suite",
        "read1",
        "pipe-pingpong",
    ];
    let (report, output) = report(&["--rounds", "2", "--only", &names.join(",")]);
    assert!(output.status.success(), "{}", error(&output));
    assert_eq!(report["version"], 1);
    assert_eq!(report["rounds"], 2);
    assert_eq!(report["quick"], true);
    let workloads = report["workloads"].as_array().expect("a list");
    assert_eq!(workloads.iter().map(|workload| &workload["name"]).collect::<Vec<_>>(), names);
    for workload in workloads {
        // What is not installed is left out, and says so; all else must have been measured.
        if workload["status"] == "left out" {
            assert!(
                workload["message"].as_str().is_some_and(|why| why.contains("not installed")),
                "{workload}"
            );
            continue;
        }
        assert_measured(workload, &["bis"], 2);
    }
    // A run that is too short has no peak of memory; none is smaller than a process can be.
    let make = &workloads[1];
    if make["status"] == "measured" {
        for side in [&make["native"], &make["subjects"]["bis"]["record"], &make["subjects"]["bis"]["replay"]]
        {
            let peak = side.get("peak_pss_bytes").expect("the key is there");
            assert!(peak.is_null() || peak.as_u64().is_some_and(|bytes| bytes > 100_000), "{make:#}");
        }
    }
    let table = String::from_utf8(output.stdout).expect("the table is UTF-8");
    for name in names {
        assert!(table.contains(name), "{table}");
    }
}

#[test]
fn a_server_and_its_client() {
    let (report, output) = report(&["--only", "redis", "--no-memory"]);
    assert!(output.status.success(), "{}", error(&output));
    let redis = &report["workloads"][0];
    if redis["status"] != "left out" {
        assert_measured(redis, &["bis"], 1);
    }
}

#[test]
fn another_recorder_and_more_columns() {
    let bis = bis().to_str().unwrap();
    let vs = [format!("env A=b {bis} record -o {{trace}} -- {{cmd}}"), format!("{bis} replay -a {{trace}}")];
    let args = ["--only", "getppid", "--no-memory", "--columns", "n,no-cloning", "--vs", &vs[0], &vs[1]];
    let (report, output) = report(&args);
    assert!(output.status.success(), "{}", error(&output));
    let mut expected = vec!["bis", "-n", "env"];
    let help = Command::new(bis).args(["record", "--help"]).output().unwrap().stdout;
    if String::from_utf8_lossy(&help).contains("--no-cloning") {
        expected.insert(2, "no cloning");
    } else {
        assert!(error(&output).contains("--no-cloning"), "{}", error(&output));
    }
    let names =
        report["subjects"].as_array().unwrap().iter().map(|subject| subject["name"].as_str().unwrap());
    assert_eq!(names.collect::<Vec<_>>(), expected);
    assert_measured(&report["workloads"][0], &expected, 1);
    assert_eq!(report["workloads"][0]["units"], 2_000);
}

#[test]
fn the_traced_calls_are_traced() {
    let (report, output) = report(&["--only", "traced-calls", "--no-memory"]);
    assert!(output.status.success(), "{}", error(&output));
    let workload = &report["workloads"][0];
    assert_measured(workload, &["bis"], 1);
    assert!(workload["note"].as_str().is_some_and(|note| note.starts_with("the call is ")), "{workload:#}");
}

#[test]
fn failures_are_reported_and_have_no_figures() {
    let bis = bis().to_str().unwrap();
    // Another recorder's failure is its own; ours counts.
    let record = format!("{bis} record -o {{trace}} -- {{cmd}}");
    let args =
        ["--only", "getppid", "--no-memory", "--vs", &record, "sh -c 'echo cannot >&2; exit 3' {trace}"];
    let (theirs, output) = report(&args);
    assert!(output.status.success(), "{}", error(&output));
    assert_measured(&theirs["workloads"][0], &["bis"], 1);
    let other = &theirs["workloads"][0]["subjects"]["other"];
    assert_eq!(other["status"], "failing", "{theirs:#}");
    assert!(other["message"].as_str().unwrap().contains("status 3: cannot"), "{other}");
    assert!(other["record"].is_null(), "{other}");

    let (ours, output) = report(&["--only", "getppid", "--no-memory", "--bis", "/bin/false"]);
    assert_eq!(output.status.code(), Some(1), "{}", error(&output));
    assert_eq!(ours["workloads"][0]["status"], "failing");
}

#[test]
fn a_bad_command_line() {
    let output = bench(&["--only", "nothing"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(error(&output).contains("no workload nothing"), "{}", error(&output));
    let output = bench(&["--only", "true", "--vs", "rec {cmd}", "rep {trace}"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(error(&output).contains("{trace}"), "{}", error(&output));
}

#[test]
fn the_list() {
    let output = Command::new(PROGRAM).arg("--list").output().unwrap();
    assert!(output.status.success());
    let list = String::from_utf8(output.stdout).unwrap();
    for name in ["cp-a", "make-j1", "sqlite", "redis", "git", "futex-pingpong", "traced-calls"] {
        assert!(list.lines().any(|line| line.starts_with(name)), "{list}");
    }
}

#[test]
fn every_row_of_the_debugger_is_listed_and_has_figures() {
    let list = bench_alone(&["debug", "--list"]);
    for row in ["prompt", "prompt-node", "reverse-stepi", "reverse-next", "watch", "condition", "checkpoints"]
    {
        assert!(String::from_utf8_lossy(&list.stdout).lines().any(|line| line.starts_with(row)), "{row}");
    }
    if Command::new("gdb").arg("--version").output().is_err() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("figures.json");
    let output = bench_alone(&[
        "debug",
        "--quick",
        "--only",
        "prompt,watch,condition,checkpoints",
        "--json",
        file.to_str().unwrap(),
        "--bis",
        bis().to_str().unwrap(),
    ]);
    assert!(output.status.success(), "{}{}", String::from_utf8_lossy(&output.stdout), error(&output));
    let report: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let rows = report["rows"].as_array().expect("a list");
    let ours: Vec<&Value> = rows.iter().filter(|row| row["recorder"] == "bis").collect();
    assert_eq!(ours.len(), 4, "{report}");
    for figure in ours.iter().flat_map(|row| row["figures"].as_array().expect("figures")) {
        assert!(figure["value"].as_f64().is_some_and(|value| value >= 0.0), "{figure}");
    }
}

#[test]
fn an_unknown_row_is_refused() {
    let output = bench_alone(&["debug", "--only", "nonsense", "--bis", bis().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(error(&output).contains("there is no row nonsense"), "{}", error(&output));
}

/// Runs it with these arguments only.
fn bench_alone(args: &[&str]) -> Output {
    Command::new(PROGRAM).args(args).output().expect("the benchmark starts")
}
