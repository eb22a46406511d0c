//! The rows: what a person does, and how long that may take.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::gdb::Gdb;
use super::{Figure, Place, Row, Value};
use crate::{memory, step, workload::find_program};

/// All, in the order in which they run.
pub fn all() -> Vec<Row> {
    let row = |name, about, needs, run| Row { name, about, needs, run };
    vec![
        row("prompt", "from the command to gdb's prompt, of a small program", &["gdb", "gcc"], prompt),
        row("prompt-node", "the same of node", &["gdb", "node"], prompt_node),
        row(
            "reverse-stepi",
            "one instruction back: the first, and in a row of 100",
            &["gdb", "gcc"],
            reverse_stepi,
        ),
        row("reverse-next", "one line back, over calls", &["gdb", "gcc"], reverse_next),
        row("watch", "back to a write, over 10 s of computing", &["gdb", "gcc"], watch),
        row("condition", "a condition that is false ten million times", &["gdb", "gcc"], condition),
        row("checkpoints", "50 checkpoints of a process of 500 MB", &["gdb", "gcc"], checkpoints),
    ]
}

fn time(name: &'static str, took: Duration, wanted_ms: Option<u64>) -> Figure {
    let wanted = wanted_ms.map(|ms| Value::Time(Duration::from_millis(ms)));
    Figure { name, value: Value::Time(took), wanted }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn prompt(place: &Place<'_>) -> Result<Vec<Figure>> {
    let (_, first) = place.debug(&["small"])?;
    let trace = place.folder.join("trace");
    let again = || Gdb::start(place.recorder, &trace, place.limit).map(|(_, took)| took);
    let again = (0..place.size(5, 1)).map(|_| again()).collect::<Result<Vec<_>>>()?;
    let own = Gdb::loading(&place.program, place.limit)?;
    Ok(vec![
        time("the first time", first, Some(500)),
        time("again, median of 5", median(again), Some(500)),
        time("of it gdb alone", own, None),
    ])
}

fn prompt_node(place: &Place<'_>) -> Result<Vec<Figure>> {
    let node = find_program("node").context("it was there a moment ago")?;
    let node_text = node.to_str().context("a path is not UTF-8")?;
    let trace = place.record(&[node_text, "-e", "console.log([1, 2, 3].map(x => x * x).length)"])?;
    let start = || Gdb::start(place.recorder, &trace, place.limit).map(|(_, took)| took);
    let times = (0..place.size(3, 1)).map(|_| start()).collect::<Result<Vec<_>>>()?;
    let own = Gdb::loading(&node, place.limit)?;
    let took = median(times);
    Ok(vec![
        time("without gdb's own loading", took.saturating_sub(own), Some(2000)),
        time("as a person sees it", took, None),
        time("gdb's own loading", own, None),
    ])
}

/// In the middle of the program `steps`, with breakpoints deleted.
fn among_steps(place: &Place<'_>) -> Result<Gdb> {
    let (mut gdb, _) = place.debug(&["steps"])?;
    gdb.expect("break set_word", "Breakpoint 1")?;
    gdb.expect("continue 50", "Breakpoint 1")?;
    gdb.ask("delete")?;
    gdb.expect("finish", "steps ()")?;
    Ok(gdb)
}

fn reverse_stepi(place: &Place<'_>) -> Result<Vec<Figure>> {
    let mut gdb = among_steps(place)?;
    let first = gdb.expect("reverse-stepi", "0x")?;
    let count = 100;
    let begun = Instant::now();
    for _ in 0..count {
        gdb.ask("reverse-stepi")?;
    }
    Ok(vec![
        time("the first", first, Some(50)),
        time("each of the next 100", begun.elapsed() / count, Some(5)),
    ])
}

fn reverse_next(place: &Place<'_>) -> Result<Vec<Figure>> {
    let mut gdb = among_steps(place)?;
    let first = gdb.expect("reverse-next", "set_word")?;
    let mut times = Vec::new();
    for _ in 0..place.size(20, 3) {
        times.push(gdb.ask("reverse-next")?.1);
    }
    let longest = times.iter().max().copied().unwrap_or_default();
    Ok(vec![
        time("the first", first, Some(100)),
        time("median of the next 20", median(times), Some(100)),
        time("the longest of these", longest, Some(100)),
    ])
}

/// How many rounds of the program's work take so many seconds.
fn rounds(place: &Place<'_>, seconds: f64) -> Result<String> {
    let program = place.program.to_str().context("a path is not UTF-8")?;
    let probe: u32 = 100_000_000;
    let begun = Instant::now();
    step::prepare(&place.folder, &[program, "word", &probe.to_string()], None)?;
    let rounds = f64::from(probe) * seconds / begun.elapsed().as_secs_f64();
    Ok(format!("{rounds:.0}"))
}

fn watch(place: &Place<'_>) -> Result<Vec<Figure>> {
    let rounds = rounds(place, if place.is_quick { 0.3 } else { 10.0 })?;
    let (mut gdb, _) = place.debug(&["word", &rounds])?;
    gdb.expect("break stop_here", "Breakpoint 1")?;
    let forward = gdb.expect("continue", "Breakpoint 1")?;
    gdb.expect("watch -location word", "atchpoint 2")?;
    let first = gdb.expect("reverse-continue", "set_word")?;
    if gdb.number("word")? != 0 {
        bail!("it stands behind the write");
    }
    // Forward again, which stops at the write first.
    gdb.expect("continue", "atchpoint 2")?;
    gdb.expect("continue", "Breakpoint 1")?;
    let second = gdb.expect("reverse-continue", "set_word")?;
    Ok(vec![
        time("forward, before", forward, None),
        time("the first time", first, Some(12_000)),
        time("the second time", second, Some(2000)),
    ])
}

fn condition(place: &Place<'_>) -> Result<Vec<Figure>> {
    let times = place.size(10_000_000, 20_000).to_string();
    let (mut gdb, _) = place.debug(&["condition", &times])?;
    gdb.expect(&format!("break called if argument == {times}"), "Breakpoint 1")?;
    let forward = gdb.expect("continue", "Breakpoint 1")?;
    if gdb.number("argument")?.to_string() != times {
        bail!("it has stopped at another call");
    }
    gdb.ask("delete")?;
    gdb.expect("break called if argument == 2", "Breakpoint 2")?;
    let backward = gdb.expect("reverse-continue", "Breakpoint 2")?;
    if gdb.number("argument")? != 2 {
        bail!("it has stopped at another call");
    }
    Ok(vec![time("forwards", forward, Some(3000)), time("backwards", backward, Some(3000))])
}

fn checkpoints(place: &Place<'_>) -> Result<Vec<Figure>> {
    let size = place.size(500, 20).to_string();
    let (mut gdb, _) = place.debug(&["memory", &size])?;
    gdb.expect("break stop_here", "Breakpoint 1")?;
    gdb.expect("continue", "Breakpoint 1")?;
    let before = memory::tree_pss(gdb.pid());
    let mut times = Vec::new();
    for number in 1..=50 {
        times.push(gdb.expect("checkpoint", &format!("Checkpoint {number}"))?);
        gdb.expect("continue", "Breakpoint 1")?;
    }
    let memory = memory::tree_pss(gdb.pid()).saturating_sub(before);
    let longest = times.iter().max().copied().unwrap_or_default();
    let back = gdb.expect("restart 1", "stop_here")?;
    Ok(vec![
        Figure {
            name: "memory beside its own",
            value: Value::Bytes(memory),
            wanted: Some(Value::Bytes(100_000_000)),
        },
        time("each, median", median(times), Some(10)),
        time("the longest", longest, Some(10)),
        time("back to the first", back, None),
    ])
}
