//! `bis-bench debug`: how long a person waits in a debugger.
//!
//! Each row records a program and drives gdb as a person would, one command after the other. Its figures are
//! times of single commands (medians of several where they come in a row) and amounts of memory, beside what
//! we want of them. Where rr records on this machine, it goes through the same rows.
//!
//! A row that fails says why, and has no figures. No time is judged.

mod gdb;
mod rows;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use serde_json::json;

use crate::args::DebugArgs;
use crate::step;
use crate::table;
use crate::workload::find_program;

/// One figure of a row.
pub struct Figure {
    pub name: &'static str,
    pub value: Value,
    /// What we want; none: it is for comparison.
    pub wanted: Option<Value>,
}

#[derive(Clone, Copy)]
pub enum Value {
    Time(Duration),
    Bytes(u64),
}

/// A row of the report.
pub struct Row {
    pub name: &'static str,
    pub about: &'static str,
    /// Programs without which it is left out.
    pub needs: &'static [&'static str],
    pub run: fn(&Place<'_>) -> Result<Vec<Figure>>,
}

/// Where a row works, and with what.
pub struct Place<'a> {
    /// bis or rr.
    pub recorder: &'a Path,
    pub folder: PathBuf,
    /// The program of `benches/programs/debug.c`.
    pub program: PathBuf,
    pub is_quick: bool,
    pub limit: Duration,
}

impl Place<'_> {
    pub fn size(&self, usual: u64, quick: u64) -> u64 {
        if self.is_quick { quick } else { usual }
    }

    /// Records a program: its trace.
    pub fn record(&self, argv: &[&str]) -> Result<PathBuf> {
        let trace = self.folder.join("trace");
        let recorder = self.recorder.to_str().context("a path is not UTF-8")?;
        let trace_text = trace.to_str().context("a path is not UTF-8")?;
        step::prepare(&self.folder, &[&[recorder, "record", "-o", trace_text][..], argv].concat(), None)?;
        Ok(trace)
    }

    /// Records the benchmark's program, and starts gdb: how long was it to its prompt?
    pub fn debug(&self, arguments: &[&str]) -> Result<(gdb::Gdb, Duration)> {
        let program = self.program.to_str().context("a path is not UTF-8")?;
        let trace = self.record(&[&[program][..], arguments].concat())?;
        gdb::Gdb::start(self.recorder, &trace, self.limit)
    }
}

/// What became of a row with one recorder.
struct Outcome {
    row: &'static str,
    recorder: String,
    figures: Result<Vec<Figure>>,
}

pub fn run(args: &DebugArgs, bis: &Path) -> Result<ExitCode> {
    let rows = rows::all();
    if args.list {
        for row in &rows {
            println!("{:<16} {}", row.name, row.about);
        }
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(unknown) = args.only.iter().find(|name| rows.iter().all(|row| row.name != *name)) {
        bail!("there is no row {unknown}; --list shows them");
    }
    let mut recorders = vec![bis.to_owned()];
    let mut notes = Vec::new();
    match find_program("rr").map(|rr| works(&rr).map(|()| rr)) {
        None => notes.push("rr is left out: it is not installed".to_owned()),
        Some(Err(why)) => notes.push(format!("rr is left out: {why}")),
        Some(Ok(rr)) => recorders.push(rr),
    }
    let folder = tempfile::Builder::new()
        .prefix("bis-bench.")
        .tempdir()
        .context("failed to make a temporary folder")?;
    let program = compile(folder.path())?;
    let mut outcomes = Vec::new();
    for row in rows.iter().filter(|row| args.only.is_empty() || args.only.iter().any(|name| name == row.name))
    {
        if let Some(missing) = row.needs.iter().find(|name| find_program(name).is_none()) {
            notes.push(format!("{}: left out: {missing} is not installed", row.name));
            continue;
        }
        for recorder in &recorders {
            outcomes.push(one(row, recorder, folder.path(), &program, args)?);
        }
    }
    print!("{}", render(&outcomes, &notes));
    if let Some(file) = &args.json {
        let text = serde_json::to_string_pretty(&report(&outcomes, &notes))? + "\n";
        fs::write(file, text).with_context(|| format!("failed to write {}", file.display()))?;
    }
    Ok(if outcomes.iter().any(|outcome| outcome.figures.is_err()) {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// One row with one recorder, in a folder of its own.
fn one(row: &Row, recorder: &Path, folder: &Path, program: &Path, args: &DebugArgs) -> Result<Outcome> {
    let name = recorder.file_name().unwrap_or(OsStr::new("?")).to_string_lossy().into_owned();
    let folder = folder.join(format!("{}.{name}", row.name));
    fs::create_dir(&folder).with_context(|| format!("failed to make {}", folder.display()))?;
    let place = Place {
        recorder,
        folder: folder.clone(),
        program: program.to_owned(),
        is_quick: args.quick,
        limit: args.limit(),
    };
    let figures = (row.run)(&place);
    fs::remove_dir_all(&folder).with_context(|| format!("failed to remove {}", folder.display()))?;
    Ok(Outcome { row: row.name, recorder: name, figures })
}

/// Does it record here?
fn works(rr: &Path) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut command = Command::new(rr);
    command.args(["record", "-o"]).arg(folder.path().join("trace")).arg("true");
    let output = command.stdin(Stdio::null()).output()?;
    if !output.status.success() {
        bail!(
            "it does not record here: {}",
            String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or_default()
        );
    }
    Ok(())
}

fn compile(folder: &Path) -> Result<PathBuf> {
    let source = folder.join("debug.c");
    fs::write(&source, include_str!("../../programs/debug.c")).context("failed to write debug.c")?;
    step::prepare(folder, &["gcc", "-g", "-O0", "-gno-column-info", "-o", "debug", "debug.c"], None)?;
    Ok(folder.join("debug"))
}

fn render(outcomes: &[Outcome], notes: &[String]) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(["row", "figure", "recorder", "measured", "wanted"]);
    let mut below = notes.to_vec();
    for Outcome { row, recorder, figures } in outcomes {
        match figures {
            Err(why) => below.push(format!("{row}: {recorder}: FAILING: {why:#}")),
            Ok(figures) => {
                for figure in figures {
                    let wanted =
                        figure.wanted.map(|wanted| format!("< {}", wanted.shown())).unwrap_or_default();
                    table.add_row([row, figure.name, recorder, &figure.value.shown(), &wanted]);
                }
            }
        }
    }
    for column in table.column_iter_mut().skip(3) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let below: String = below.iter().map(|line| format!("{line}\n")).collect();
    format!("{table}\n\n{below}")
}

impl Value {
    fn shown(self) -> String {
        match self {
            Value::Time(time) => table::time(Some(time.as_secs_f64())),
            Value::Bytes(bytes) => format!("{} MB", table::number(Some(bytes as f64 / 1e6))),
        }
    }

    /// In seconds, or in bytes.
    fn number(self) -> f64 {
        match self {
            Value::Time(time) => time.as_secs_f64(),
            Value::Bytes(bytes) => bytes as f64,
        }
    }
}

/// Seconds and bytes.
fn report(outcomes: &[Outcome], notes: &[String]) -> serde_json::Value {
    let figure = |figure: &Figure| {
        json!({
            "name": figure.name,
            "value": figure.value.number(),
            "unit": match figure.value { Value::Time(_) => "s", Value::Bytes(_) => "B" },
            "wanted": figure.wanted.map(Value::number),
        })
    };
    let outcome = |outcome: &Outcome| match &outcome.figures {
        Ok(figures) => {
            let figures: Vec<_> = figures.iter().map(figure).collect();
            json!({"row": outcome.row, "recorder": outcome.recorder, "figures": figures})
        }
        Err(why) => json!({"row": outcome.row, "recorder": outcome.recorder, "failing": format!("{why:#}")}),
    };
    json!({"notes": notes, "rows": outcomes.iter().map(outcome).collect::<Vec<_>>()})
}
