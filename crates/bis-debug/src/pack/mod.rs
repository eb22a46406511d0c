//! A trace that needs nothing of the machine on which it was recorded, to be debugged on another one, or
//! after that one was updated.
//!
//! The files that the program mapped are in each trace, but some are hard links to the machine's own: here
//! they become copies. On request, the symbols that the machine has apart from its programs ([`symbols`]) and
//! the sources of all of them ([`sources`]) come along. A debugger is told of both ([`Found`]).

mod sources;
mod symbols;

use std::{
    collections::BTreeSet,
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use bis_replay::ReplayError;
use bis_trace::{
    Trace,
    event::{FileEntry, Meta},
};
use object::Object as _;

pub use symbols::separate;

use crate::options::DebugError;

/// What a packed trace has beside the files that were mapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wanted {
    pub symbols: bool,
    pub sources: bool,
}

/// How many files, and their bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Count {
    pub files: u64,
    pub bytes: u64,
}

impl Count {
    fn add(&mut self, bytes: u64) {
        self.files += 1;
        self.bytes += bytes;
    }
}

/// What packing has put into the trace. What was there already does not count.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Packed {
    /// Links that are copies now.
    pub own: Count,
    pub symbols: Count,
    pub sources: Count,
    /// Programs and libraries without symbols of which the machine has none either.
    pub without_symbols: BTreeSet<PathBuf>,
    /// Sources that the programs name and the machine has not.
    pub missing_sources: BTreeSet<PathBuf>,
    /// Programs whose symbols lie in files of their own beside the objects (`-gsplit-dwarf`), which are not
    /// packed.
    pub split: BTreeSet<PathBuf>,
}

/// What a packed trace has for a debugger.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Found {
    /// A folder of symbols, laid out as /usr/lib/debug is.
    pub symbols: Option<PathBuf>,
    /// Folders of the machine that was recorded on, and where their sources are now.
    pub sources: Vec<(PathBuf, PathBuf)>,
}

/// Folders in a trace.
const SYMBOLS: &str = "debug";
const SOURCES: &str = "sources";

impl Found {
    /// What the trace in this folder has.
    pub fn of(trace: &Path) -> Found {
        let symbols = trace.join(SYMBOLS);
        let sources = fs::read_dir(trace.join(SOURCES)).into_iter().flatten().flatten();
        let sources = sources.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
        let mut sources: Vec<(PathBuf, PathBuf)> =
            sources.map(|entry| (Path::new("/").join(entry.file_name()), absolute(entry.path()))).collect();
        sources.sort();
        Found { symbols: symbols.is_dir().then(|| absolute(symbols)), sources }
    }
}

/// Packs a trace, in its folder. `progress` hears how many of how many files are done.
///
/// What was packed before stays; a second time adds what is new.
///
/// # Errors
/// Where a file of the trace is not what it was, or the trace cannot be written.
pub fn pack(trace: &Trace, wanted: Wanted, mut progress: impl FnMut(u64, u64)) -> Result<Packed, DebugError> {
    let files: Vec<&FileEntry> = trace.metas().filter_map(file_of).collect();
    let mut packed = Packed::default();
    for (done, entry) in (0..).zip(&files) {
        progress(done, files.len() as u64);
        let bytes = trace.own_file(entry.file).map_err(ReplayError::from)?;
        if bytes > 0 {
            packed.own.add(bytes);
        }
        if (wanted.symbols || wanted.sources) && !entry.path.is_empty() {
            describe(trace, entry, wanted, &mut packed)?;
        }
    }
    Ok(packed)
}

fn file_of(meta: &Meta) -> Option<&FileEntry> {
    match meta {
        Meta::File(entry) => Some(entry),
        _ => None,
    }
}

/// What belongs to a program or library: its symbols, and its sources.
fn describe(trace: &Trace, entry: &FileEntry, wanted: Wanted, packed: &mut Packed) -> Result<(), DebugError> {
    let mut bytes = Vec::new();
    let mut content = trace.open_file(entry.file).map_err(ReplayError::from)?;
    content.by_ref().take(MAGIC.len() as u64).read_to_end(&mut bytes).map_err(reading)?;
    if bytes != MAGIC {
        return Ok(());
    }
    content.read_to_end(&mut bytes).map_err(reading)?;
    let bytes = bytes.as_slice();
    // Whatever else begins like one: the program mapped it, and nobody executed it.
    let Ok(file) = object::File::parse(bytes) else { return Ok(()) };
    let path = PathBuf::from(String::from_utf8_lossy(&entry.path).into_owned());
    let has_own = file.section_by_name(".debug_info").is_some();
    let separate = if has_own { None } else { separate(trace.dir(), &path, &file) };
    if !has_own && separate.is_none() && wanted.symbols {
        packed.without_symbols.insert(path.clone());
    }
    if wanted.symbols
        && let Some(found) = &separate
    {
        symbols::keep(trace.dir(), found, (&path, &file), &mut packed.symbols)?;
    }
    if wanted.sources {
        let separate = separate.map(|found| fs::read(found).map_err(reading)).transpose()?;
        sources::keep(trace.dir(), &path, separate.as_deref().unwrap_or(bytes), packed)?;
    }
    Ok(())
}

const MAGIC: &[u8] = b"\x7fELF";

fn reading(source: io::Error) -> DebugError {
    DebugError::Io { what: "read a program or its symbols", source }
}

/// A place in the trace. A stranger's trace may have links there, which would lead out of it: they are
/// refused.
fn place(trace: &Path, inside: &Path) -> Result<PathBuf, DebugError> {
    let mut place = trace.to_owned();
    for component in inside.components() {
        place.push(component);
        if place.is_symlink() {
            let what = format!("{} is a link, and may lead out of the trace: remove it", place.display());
            return Err(DebugError::Io { what: "pack the trace", source: io::Error::other(what) });
        }
    }
    Ok(place)
}

/// Copies a file to a place in the trace, if it is not there; how many bytes that took.
fn copy(from: &Path, trace: &Path, inside: &Path) -> Result<Option<u64>, DebugError> {
    let failed = |source| DebugError::Io { what: "copy a file into the trace", source };
    let to = &place(trace, inside)?;
    if to.exists() {
        return Ok(None);
    }
    fs::create_dir_all(to.parent().unwrap_or(to)).map_err(failed)?;
    // A command that is interrupted leaves no half file under the name.
    let mut name = to.as_os_str().to_owned();
    name.push(format!(".tmp-{}", std::process::id()));
    let temporary = PathBuf::from(name);
    let copied = fs::copy(from, &temporary).and_then(|bytes| fs::rename(&temporary, to).map(|()| bytes));
    if copied.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    copied.map(Some).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_put_where_a_link_leads() {
        let folder = tempfile::tempdir().unwrap();
        let [trace, outside] = ["trace", "outside"].map(|name| folder.path().join(name));
        fs::create_dir_all(trace.join(SOURCES)).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(folder.path().join("a.c"), "source").unwrap();
        std::os::unix::fs::symlink(&outside, trace.join(SOURCES).join("usr")).unwrap();
        let copied =
            |inside: &str| copy(&folder.path().join("a.c"), &trace, &Path::new(SOURCES).join(inside));
        assert!(copied("usr/deep/a.c").is_err());
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
        assert_eq!(copied("home/a.c").unwrap(), Some(6));
        assert_eq!(copied("home/a.c").unwrap(), None);
    }
}
