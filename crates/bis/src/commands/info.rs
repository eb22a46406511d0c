//! `bis info`: what a recording says about itself: where and when it was made, how it ended, and where its
//! space goes.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashSet},
    fs,
    io::{self, Write},
    os::unix::fs::MetadataExt,
    path::Path,
};

use bis_replay::learnt::{How, Learnt};
use bis_trace::{
    Ending, Sharing, StreamStats, Trace,
    event::{Kept, Meta, Refusal, TaskEnd, WayBack},
    types::{DomainId, EventSeq, Signal, Tid},
};
use bis_tracee::features;

use crate::{args::Info, commands::stops::Stops, failure::Result, folder, human, output};

/// Streams that are listed one by one.
const STREAMS_SHOWN_MAX: usize = 10;

/// Bytes that a folder takes on its disk. Files with other names elsewhere (hard links) would not be freed
/// with it and do not count; content shared by reflink cannot be told apart and does.
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
    let Ended { short, long } = ending_of_log(trace);
    // What the recorder does behind the end of the log fails, too.
    match trace.last_words_behind_end() {
        Some(words) => Ended { short, long: format!("{long}; its recorder then {words}") },
        None => Ended { short, long },
    }
}

fn ending_of_log(trace: &Trace) -> Ended {
    match trace.ended() {
        &Ending::Complete { exit_code } => {
            let exit = format!("exit status {exit_code}");
            let short = format!("exit {exit_code}");
            match (first_end(trace), exit_code) {
                // The status is as a shell's: one that a program chooses may look the same.
                (Some(TaskEnd::Killed(signal)), _) if exit_code == signal.0.saturating_add(128) => Ended {
                    short: format!("killed by {signal}"),
                    long: format!("complete; {exit} (killed by {signal})"),
                },
                (Some(TaskEnd::Exited(code)), _) if code == exit_code => {
                    Ended { short, long: format!("complete; {exit}") }
                }
                // The first thread ended before its process did.
                (_, 129..=192) => {
                    let signal = Signal(exit_code - 128);
                    let long = format!(
                        "complete; {exit} (killed by {signal}, if it did not choose that status itself)"
                    );
                    Ended { short, long }
                }
                _ => Ended { short, long: format!("complete; {exit}") },
            }
        }
        Ending::Cut { why } => Ended { short: "cut".into(), long: format!("cut short: {why}") },
        Ending::Recording => Ended { short: "recording".into(), long: "still being recorded".into() },
    }
}

/// What became of the first process: the end of its first thread, which has its id (others may have that
/// later).
fn first_end(trace: &Trace) -> Option<TaskEnd> {
    let first = trace.domains().next()?.pid;
    trace.metas().find_map(|meta| match meta {
        Meta::TaskEnd { tid, status: end @ (TaskEnd::Exited(_) | TaskEnd::Killed(_)), .. }
            if *tid == first =>
        {
            Some(*end)
        }
        _ => None,
    })
}

fn yes(value: bool) -> &'static str {
    if value { "yes" } else { "no" }
}

/// What the meta stream's entries add up to.
#[derive(Default)]
struct Sums {
    domains: u64,
    processes: HashSet<Tid>,
    threads: u64,
    /// How each kind of kept file is called, how many there are, and their bytes.
    files: BTreeMap<(Sharing, &'static str), (u64, u64)>,
    /// What the store has for this trace, and of that for no other, bytes on the disk.
    stored: (u64, u64),
    notes: Vec<(EventSeq, String)>,
    ways_back: u64,
}

impl Sums {
    fn of(trace: &Trace) -> Sums {
        let mut sums = Sums::default();
        for meta in trace.metas() {
            match meta {
                Meta::Domain(entry) => {
                    sums.domains += 1;
                    // After an exec it is the same thread.
                    sums.threads += u64::from(sums.processes.insert(entry.pid));
                }
                Meta::Task { pid, .. } => {
                    sums.threads += 1;
                    sums.processes.insert(*pid);
                }
                Meta::File(entry) => {
                    let kept = match entry.kept {
                        Kept::Reflink => "reflink",
                        Kept::HardLink => "hard link",
                        Kept::Copy => "copy",
                    };
                    let (sharing, bytes) = trace.sharing(entry.file).unwrap_or((Sharing::Own, 0));
                    let kept = match sharing {
                        Sharing::Own | Sharing::Machine => kept,
                        Sharing::Stored | Sharing::Shared => "file",
                    };
                    match sharing {
                        Sharing::Own | Sharing::Machine => {}
                        Sharing::Shared => sums.stored.0 += bytes,
                        Sharing::Stored => {
                            sums.stored.0 += bytes;
                            sums.stored.1 += bytes;
                        }
                    }
                    let of_kind = sums.files.entry((sharing, kept)).or_default();
                    *of_kind = (of_kind.0 + 1, of_kind.1 + entry.len);
                }
                // `bis ps` shows these.
                Meta::Note { text, .. } if WayBack::of(text).is_some() => sums.ways_back += 1,
                Meta::Note { seq, text } => sums.notes.push((*seq, text.clone())),
                _ => {}
            }
        }
        sums
    }
}

pub fn run(args: &Info) -> Result<u8> {
    let path = folder::find(&args.trace.name)?;
    let trace = Trace::open(&path)?;
    if args.stops {
        let mut out = output::page();
        let stops = Stops::of(&trace)?;
        if args.json {
            writeln!(out, "{}", stops.json())?;
        } else {
            stops.write(&mut out)?;
        }
        out.flush()?;
        return Ok(0);
    }
    // Without the name `latest`, which will mean another trace tomorrow.
    let path = fs::canonicalize(&path).unwrap_or(path);
    let mut out = output::page();
    write_origin(&mut out, &trace, &path)?;
    let sums = Sums::of(&trace);
    let stats = trace.chunk_stats();
    let events: u64 = stats.iter().filter(|s| s.stream != DomainId::META).map(|s| s.event_count).sum();
    writeln!(
        out,
        "processes    {} ({}, {})",
        human::count(sums.processes.len() as u64),
        human::counted(sums.threads, "thread"),
        human::counted(sums.domains, "domain")
    )?;
    writeln!(out, "events       {}", human::count(events))?;
    if sums.ways_back > 0 {
        writeln!(out, "ways back    {} (to checkpoints; bis ps shows them)", human::count(sums.ways_back))?;
    }
    write_calls(&mut out, &trace)?;
    write_places(&mut out, &trace)?;
    write_space(&mut out, &path, stats, &sums)?;
    if !sums.notes.is_empty() {
        writeln!(out, "\nnotes")?;
    }
    for (seq, text) in &sums.notes {
        writeln!(out, "  at event {seq}: {}", human::text(text.as_bytes()))?;
    }
    out.flush()?;
    Ok(0)
}

fn write_origin(out: &mut impl Write, trace: &Trace, path: &Path) -> io::Result<()> {
    writeln!(out, "trace        {}", human::path(path))?;
    if let Some(machine) = trace.machine() {
        writeln!(out, "command      {}", human::command_line(&machine.argv))?;
        writeln!(out, "folder       {}", human::text(&machine.cwd))?;
        writeln!(out, "recorded     {} by bis {}", human::date(machine.started_s), machine.bis_version)?;
    }
    let state =
        if folder::is_recording(path) { "still being recorded".to_owned() } else { ending(trace).long };
    writeln!(out, "end          {}", human::text(state.as_bytes()))?;
    if let Some(machine) = trace.machine() {
        let cpu = human::text(machine.cpu.as_bytes());
        let cores = human::counted(machine.core_count.into(), "core");
        writeln!(out, "machine      {cpu}, {cores}, Linux {}", machine.kernel)?;
        if !machine.features.is_empty() {
            writeln!(out, "cpuid says   {}", features::described(&machine.features))?;
        }
        writeln!(
            out,
            "recording    tick source: {}; hooks: {}; checksums: {}; cpuid recorded: {}",
            machine.tick_source,
            yes(machine.hooks),
            yes(machine.checksums),
            if machine.hooks && !machine.cpuid_faulting { "in files" } else { yes(machine.cpuid_faulting) }
        )?;
        if !machine.refused.is_empty() {
            writeln!(out, "filter       {}", refused(&machine.refused))?;
        }
    }
    Ok(())
}

/// How the calls were recorded; of a trace that cannot be read to its end, nothing.
fn write_calls(out: &mut impl Write, trace: &Trace) -> io::Result<()> {
    let Ok(stops) = Stops::of(trace) else { return Ok(()) };
    writeln!(
        out,
        "calls        {} traced, {} hooked (bis info --stops tells why)",
        human::count(stops.traced_calls()),
        human::count(stops.hooked())
    )?;
    let (by_count, by_state) = stops.pauses();
    let how = match (by_count, by_state) {
        (0, 0) => String::new(),
        _ => format!(
            " ({} known by a count, {} by the task's state)",
            human::count(by_count),
            human::count(by_state)
        ),
    };
    writeln!(out, "pauses       {}{how}", human::count(by_count + by_state))
}

/// What replays had to learn of pauses; mostly nothing.
fn write_places(out: &mut impl Write, trace: &Trace) -> io::Result<()> {
    let learnt = Learnt::of_trace(trace);
    let count = |which: fn(&How) -> bool| learnt.iter().filter(|(_, how)| which(how)).count() as u64;
    let (later, loose, no_jump) =
        (count(|how| how.skips > 0), count(|how| how.loose), count(|how| how.no_jump));
    if later + loose + no_jump == 0 {
        return Ok(());
    }
    writeln!(
        out,
        "             replay found {} at a later match, {} by less of the memory, {} without a jump",
        human::count(later),
        human::count(loose),
        human::count(no_jump)
    )
}

fn write_space(
    out: &mut impl Write,
    path: &Path,
    mut stats: Vec<StreamStats>,
    sums: &Sums,
) -> io::Result<()> {
    let (raw, compressed) = stats.iter().fold((0, 0), |(r, c), s| (r + s.raw_len, c + s.compressed_len));
    writeln!(out, "\nsize on disk {}", human::bytes(size_on_disk(path)))?;
    if let (all @ 1.., alone) = sums.stored {
        let alone = human::bytes(alone);
        writeln!(
            out,
            "  store      {} beside that, of which {alone} for this trace alone",
            human::bytes(all)
        )?;
    }
    writeln!(out, "  log        {} ({} before compression)", human::bytes(compressed), human::bytes(raw))?;
    stats.sort_by_key(|s| Reverse(s.compressed_len));
    for s in stats.iter().take(STREAMS_SHOWN_MAX) {
        let (name, unit) = match s.stream {
            DomainId::META => ("about itself".to_owned(), "entry"),
            domain => (format!("domain {domain}"), "event"),
        };
        let (size, number) = (human::bytes(s.compressed_len), human::counted(s.event_count, unit));
        writeln!(out, "    {name:<14} {size:>10}  {number}")?;
    }
    if stats.len() > STREAMS_SHOWN_MAX {
        writeln!(out, "    and {} more", stats.len() - STREAMS_SHOWN_MAX)?;
    }
    if let Ok(blocks) = fs::metadata(path.join("blocks")) {
        writeln!(out, "  blocks     {} of content that it has several times", human::bytes(blocks.len()))?;
    }
    if let Ok(clones) = fs::metadata(path.join("clones")) {
        // Their blocks are those of the files until these change; what of it is the trace's own cannot be
        // told.
        writeln!(out, "  clones     {} of large reads", human::bytes(clones.len()))?;
    }
    for ((sharing, kept), (number, len)) in &sums.files {
        let whose = match sharing {
            Sharing::Own => "",
            Sharing::Stored => " in the store, for this trace alone",
            Sharing::Shared => " in the store, for other traces too",
            Sharing::Machine => " to the machine's own",
        };
        writeln!(out, "  files      {}{whose}, {}", human::counted(*number, kept), human::bytes(*len))?;
    }
    Ok(())
}

/// The calls that a container's filter refused: some by name.
fn refused(refused: &[Refusal]) -> String {
    const SHOWN: usize = 8;
    let mut numbers: Vec<u32> = refused.iter().map(|refusal| refusal.nr).collect();
    numbers.dedup();
    numbers.sort_unstable();
    numbers.dedup();
    let names = numbers.iter().filter_map(|nr| bis_syscalls::name((*nr).into()));
    let names: Vec<_> = names.take(SHOWN).collect();
    let more = if numbers.len() > SHOWN { ", ..." } else { "" };
    let count = human::counted(numbers.len() as u64, "call");
    format!(
        "one from outside, a container's, refused {count}, which have no events: {}{more}",
        names.join(", ")
    )
}
