//! `bis replay --profile`: where the recorded run spent its time, as folded stacks and as a flame graph. The
//! samples are `bis-debug`'s, the picture is `inferno`'s.

use std::{
    fs::File,
    io::{BufWriter, Write},
    path::Path,
};

use bis_debug::Which;
use bis_trace::{
    Trace,
    types::{DomainId, EventSeq},
};
use inferno::flamegraph;

use crate::{
    args::{ProcessArg, Replay},
    failure::{Failure, Result},
    folder, output,
};

pub fn run(args: &Replay) -> Result<u8> {
    let trace = Trace::open(&folder::find(&args.trace.name)?)?;
    let which = match (&args.pid, args.forked) {
        (None, None) if let Some(domain) = args.domain => Some(Which::Domain(DomainId(domain))),
        (_, Some(pid)) => Some(Which::Forked(pid)),
        (Some(ProcessArg::Pid(pid)), None) => Some(Which::Pid(*pid)),
        (Some(ProcessArg::Command(name)), None) => Some(Which::Command(name.clone())),
        (None, None) => None,
    };
    let profile = bis_debug::profile(&trace, which.as_ref(), args.profile_from.map(EventSeq))
        .map_err(|error| Failure::usage(error.to_string()))?;
    let lines = profile.folded();
    if let Some(path) = &args.svg {
        draw(path, &lines)?;
    }
    if let Some(path) = &args.folded {
        let mut file = create(path)?;
        write(&mut file, &lines).map_err(|error| Failure::of(format!("write {}", path.display()), error))?;
    }
    if args.svg.is_none() && args.folded.is_none() {
        let mut out = output::page();
        write(&mut out, &lines)?;
    }
    let micros: u64 = profile.stacks.values().sum();
    let seconds = std::time::Duration::from_micros(micros).as_secs_f64();
    output::note(&format!("bis: {} samples of {seconds:.3} s of computing", profile.samples));
    Ok(0)
}

fn create(path: &Path) -> Result<BufWriter<File>> {
    let file = File::create(path).map_err(|error| Failure::of(format!("make {}", path.display()), error))?;
    Ok(BufWriter::new(file))
}

fn write(out: &mut dyn Write, lines: &[String]) -> std::io::Result<()> {
    for line in lines {
        writeln!(out, "{line}")?;
    }
    out.flush()
}

fn draw(path: &Path, lines: &[String]) -> Result<()> {
    let file = create(path)?;
    if lines.is_empty() {
        return Err(Failure::usage(
            "failed to draw a flame graph: the run is so short that no sample was taken of it",
        ));
    }
    let mut options = flamegraph::Options::default();
    "Where the recorded run computed".clone_into(&mut options.title);
    "µs".clone_into(&mut options.count_name);
    flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), file)
        .map_err(|error| Failure::usage(format!("failed to draw a flame graph: {error}")))
}
