//! Symbols that lie apart from their programs, as distributions have them: found by build-id, as debuggers
//! do.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use object::Object as _;

use super::{Count, SYMBOLS, copy};
use crate::options::DebugError;

/// Where the machine has symbols.
const SYSTEM: &str = "/usr/lib/debug";

/// The file of a program's symbols: in the trace, on the machine, or where debuginfod has put what it
/// fetched.
pub fn separate(trace: &Path, program: &Path, file: &object::File<'_>) -> Option<PathBuf> {
    let by_id = file.build_id().ok().flatten().and_then(|id| {
        let in_folders = [trace.join(SYMBOLS), SYSTEM.into()].into_iter().map(|folder| folder.join(name(id)));
        let fetched = debuginfod_cache().map(|cache| cache.join(hex(id)).join("debuginfo"));
        in_folders.chain(fetched).find(|path| path.is_file())
    });
    by_id.or_else(|| by_link(program, file))
}

/// By the name that the program itself has for it. (The debugger compares a sum of its content.)
fn by_link(program: &Path, file: &object::File<'_>) -> Option<PathBuf> {
    let (name, _) = file.gnu_debuglink().ok().flatten()?;
    let name = Path::new(std::str::from_utf8(name).ok()?).file_name()?;
    let folder = program.parent()?;
    let system = Path::new(SYSTEM).join(folder.strip_prefix("/").ok()?);
    let places = [folder.to_owned(), folder.join(".debug"), system].map(|folder| folder.join(name));
    places.into_iter().find(|path| path.is_file())
}

fn debuginfod_cache() -> Option<PathBuf> {
    let home = || env::var_os("HOME").map(PathBuf::from);
    env::var_os("DEBUGINFOD_CACHE_PATH").map(PathBuf::from).or_else(|| {
        let caches = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        Some(caches.or_else(|| Some(home()?.join(".cache")))?.join("debuginfod_client"))
    })
}

/// Below a folder of symbols.
fn name(id: &[u8]) -> PathBuf {
    let id = hex(id);
    let (first, rest) = id.split_at_checked(2).unwrap_or((&id, ""));
    Path::new(".build-id").join(first).join(format!("{rest}.debug"))
}

fn hex(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Puts a program's symbols into the trace, and what they share with others' (dwz makes such files).
pub(super) fn keep(
    trace: &Path,
    found: &Path,
    (path, program): (&Path, &object::File<'_>),
    count: &mut Count,
) -> Result<(), DebugError> {
    let folder = Path::new(SYMBOLS);
    // Without a build-id, debuggers look for the program's own name for it, in the folder of the program
    // below this one.
    let own = match program.build_id().ok().flatten() {
        Some(id) => folder.join(name(id)),
        None => {
            let beside = path.with_file_name(found.file_name().unwrap_or_default());
            folder.join(beside.strip_prefix("/").unwrap_or(&beside))
        }
    };
    if let Some(bytes) = copy(found, trace, &own)? {
        count.add(bytes);
    }
    let content = fs::read(found).map_err(super::reading)?;
    if let Some((shared, id)) = shared(found, &content)
        && let Some(bytes) = copy(&shared, trace, &folder.join(name(&id)))?
    {
        count.add(bytes);
    }
    Ok(())
}

/// The file of what these symbols share with others, and its build-id.
pub(super) fn shared(symbols: &Path, content: &[u8]) -> Option<(PathBuf, Vec<u8>)> {
    let file = object::File::parse(content).ok()?;
    let (path, id) = file.gnu_debugaltlink().ok().flatten()?;
    let path = Path::new(std::str::from_utf8(path).ok()?);
    let by_path = symbols.parent()?.join(path);
    let found = [by_path, Path::new(SYSTEM).join(name(id))].into_iter().find(|path| path.is_file())?;
    let content = fs::read(&found).ok()?;
    let is_it =
        object::File::parse(content.as_slice()).is_ok_and(|file| file.build_id().ok().flatten() == Some(id));
    is_it.then(|| (found, id.to_vec()))
}
