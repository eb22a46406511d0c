//! `bis info`: what a recording says about itself: where and when it was made, how it ended, and where its space
//! goes.

use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    os::unix::fs::MetadataExt,
    path::Path,
};

use bis_trace::{
    Ending, Trace,
    event::{Kept, Meta},
    types::DomainId,
};

use crate::{args::Info, failure::Result, folder, human, output};

/// Streams that are listed one by one.
const STREAMS_SHOWN_MAX: usize = 10;

/// Bytes that a folder takes on its disk. Files with other names elsewhere (hard links) would not be freed with it
/// and do not count; content shared by reflink cannot be told apart and does.
pub fn size_on_disk(path: &Path) -> u64 {
    let Ok(metadata) = fs::symlink_metadata(path) else { return 0 };
    if !metadata.is_dir() {
        return if metadata.nlink() > 1 { 0 } else { metadata.blocks() * 512 };
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    metadata.blocks() * 512 + entries.map(|entry| size_on_disk(&entry.path())).sum::<u64>()
}

/// How a recording ended, as one word or two and as a sentence.
pub struct Ended {
    pub short: String,
    pub long: String,
}

pub fn ending(trace: &Trace) -> Ended {
    match trace.ended() {
        Ending::Complete { exit_code } => Ended {
            short: format!("exit {exit_code}"),
            long: match exit_code {
                129..=192 => format!(
                    "complete; exit status {exit_code} (killed by {}, if it did not choose that status itself)",
                    bis_trace::types::Signal(exit_code - 128)
                ),
                _ => format!("complete; exit status {exit_code}"),
            },
        },
        Ending::Cut { why } => Ended { short: "cut".into(), long: format!("cut short: {why}") },
    }
}

fn yes(value: bool) -> &'static str {
    if value { "yes" } else { "no" }
}

pub fn run(args: &Info) -> Result<u8> {
    let path = folder::find(&args.trace.name)?;
    let trace = Trace::open(&path)?;
    let machine = trace.machine();
    let mut out = output::page();
    let shown = fs::canonicalize(&path).unwrap_or(path);
    let recording = folder::is_recording(&shown);
    let mut domains = 0;
    let mut processes = std::collections::HashSet::new();
    let mut threads = 0;
    let mut last = 0;
    let mut notes = Vec::new();
    let mut files: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for meta in trace.metas() {
        match meta {
            Meta::Domain(entry) => {
                domains += 1;
                threads += u64::from(processes.insert(entry.pid));
                last = last.max(entry.seq.0);
            }
            Meta::Task { pid, seq, .. } => {
                threads += 1;
                processes.insert(*pid);
                last = last.max(seq.0);
            }
            Meta::File(entry) => {
                let kept = match entry.kept {
                    Kept::Reflink => "reflinks",
                    Kept::HardLink => "hard links",
                    Kept::Copy => "copies",
                };
                let of_kind = files.entry(kept).or_default();
                *of_kind = (of_kind.0 + 1, of_kind.1 + entry.len);
            }
            Meta::Note { seq, text } => notes.push((seq.0, text)),
            Meta::DomainEnd { seq, .. } | Meta::TaskEnd { seq, .. } | Meta::End { seq, .. } => last = last.max(seq.0),
            _ => {}
        }
    }
    let mut stats: Vec<_> = trace.chunk_stats().into_iter().collect();
    let events: u64 = stats.iter().filter(|s| s.stream != DomainId::META).map(|s| s.events).sum();
    let (raw, compressed) = stats.iter().fold((0, 0), |(r, c), s| (r + s.raw_bytes, c + s.compressed_bytes));

    writeln!(out, "trace        {}", shown.display())?;
    writeln!(out, "command      {}", human::command_line(&machine.argv))?;
    writeln!(out, "folder       {}", human::text(&machine.cwd))?;
    writeln!(out, "recorded     {} by bis {}", human::date(machine.started_s), machine.bis_version)?;
    let state = if recording { "still being recorded".to_owned() } else { ending(&trace).long };
    writeln!(out, "end          {state}")?;
    writeln!(out, "machine      {}, {} cores, Linux {}", machine.cpu, machine.core_count, machine.kernel)?;
    writeln!(
        out,
        "recording    tick source: {}; hooks: {}; checksums: {}; cpuid recorded: {}",
        machine.tick_source,
        yes(machine.hooks),
        yes(machine.checksums),
        yes(machine.cpuid_faulting)
    )?;
    writeln!(out, "processes    {} ({domains} domains, {threads} threads)", processes.len())?;
    writeln!(out, "events       {} (the last known is number {last})", human::count(events))?;
    writeln!(out, "\nsize on disk {}", human::bytes(size_on_disk(&shown)))?;
    writeln!(out, "  log        {} ({} before compression)", human::bytes(compressed), human::bytes(raw))?;
    stats.sort_by_key(|s| std::cmp::Reverse(s.compressed_bytes));
    for s in stats.iter().take(STREAMS_SHOWN_MAX) {
        let name = if s.stream == DomainId::META { "about itself".into() } else { format!("domain {}", s.stream) };
        writeln!(out, "    {name:<14} {:>10}, {} events", human::bytes(s.compressed_bytes), human::count(s.events))?;
    }
    if stats.len() > STREAMS_SHOWN_MAX {
        writeln!(out, "    and {} more", stats.len() - STREAMS_SHOWN_MAX)?;
    }
    for (kept, (number, len)) in files {
        writeln!(out, "  files      {number} {kept}, {}", human::bytes(len))?;
    }
    if !notes.is_empty() {
        writeln!(out, "\nnotes")?;
    }
    for (seq, text) in notes {
        writeln!(out, "  at event {seq}: {}", human::text(text.as_bytes()))?;
    }
    out.flush()?;
    Ok(0)
}
