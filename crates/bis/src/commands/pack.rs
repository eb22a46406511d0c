//! `bis pack`: makes a recording need nothing of this machine, and says what that took.

use std::{collections::BTreeSet, io::Write, path::PathBuf};

use bis_debug::pack::{Count, Wanted, pack};
use bis_trace::Trace;

use crate::{
    args::Pack,
    failure::{Failure, Result},
    folder, human, output, progress,
};

/// Of what is missing, so many are named.
const NAMED_MAX: usize = 5;

pub fn run(args: &Pack) -> Result<u8> {
    let path = folder::find(&args.trace.name)?;
    if folder::is_recording(&path) {
        let what = format!("pack {}", human::path(&path));
        return Err(Failure::of(what, "it is being recorded; wait until the program has ended"));
    }
    let trace = Trace::open(&path)?;
    let wanted = Wanted { symbols: args.symbols, sources: args.sources };
    let bar = progress::bar("files");
    let show = |done, of| bar.iter().for_each(|bar| bar(done, of));
    let packed = pack(&trace, wanted, show).map_err(|error| Failure::usage(error.to_string()))?;
    drop(bar);
    let mut out = output::page();
    writeln!(out, "packed {}", human::path(&path.canonicalize().unwrap_or(path)))?;
    writeln!(out, "  programs and libraries: {}", new(packed.own))?;
    if args.symbols {
        writeln!(out, "  symbols: {}", new(packed.symbols))?;
        missing(&mut out, "without symbols on this machine", &packed.without_symbols)?;
    }
    if args.sources {
        writeln!(out, "  sources: {}", new(packed.sources))?;
        missing(&mut out, "not on this machine", &packed.missing_sources)?;
    }
    missing(&mut out, "with symbols in .dwo files, which are not packed", &packed.split)?;
    out.flush()?;
    Ok(0)
}

fn new(count: Count) -> String {
    match count.files {
        0 => "nothing new".into(),
        files => format!("{} copied ({})", human::counted(files, "file"), human::bytes(count.bytes)),
    }
}

/// A line for each of some files, and how many others there are.
fn missing(out: &mut impl Write, what: &str, files: &BTreeSet<PathBuf>) -> Result<()> {
    for path in files.iter().take(NAMED_MAX) {
        writeln!(out, "    {what}: {}", human::path(path))?;
    }
    if let Some(others) = files.len().checked_sub(NAMED_MAX).filter(|others| *others > 0) {
        writeln!(out, "    {what}: {} more", human::count(others as u64))?;
    }
    Ok(())
}
