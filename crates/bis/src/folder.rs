//! The folder of the traces: where it is, the names in it, making a new one, the `latest` link, and finding a
//! trace by name. What is in a trace is not known here, but for the mark by which one is recognised.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, DirBuilder, File},
    io::{self, Read},
    os::unix::{
        ffi::OsStrExt,
        fs::{DirBuilderExt, MetadataExt, symlink},
    },
    path::{Path, PathBuf},
    process,
};

use bis_trace::LAST_WORDS;
pub use bis_trace::is_recording;
use bis_tracee::memory_limit;
use rustix::fs::{FlockOperation, flock};

use crate::{
    args, env,
    failure::{Failure, Result},
    human,
};

/// The name of the link to the newest trace, and so the name of no trace.
pub const LATEST: &str = "latest";
/// What rr calls that link. Scripts of its users find the newest trace by it.
const LATEST_OF_RR: &str = "latest-trace";
/// What traces share is in this folder beside them.
const STORE: &str = "store";
/// What there is in the cache, each in a folder of its name: where programs have what the hooks replace,
/// dense texts (`bis-record` knows that these are beside the sites), and what content files have.
pub const SITES: &str = "sites";
pub const DENSE: &str = "dense";
pub const KNOWN: &str = "known";
/// What dense texts may have together, bytes, if nobody says anything else.
const CACHE_SIZE: u64 = 2 << 30;
/// The file that every trace has, and how it begins.
const LOG: &str = "log";
const LOG_MAGIC: &[u8] = b"BISTRACE";
/// More traces of one program are not kept: the names end.
const SAME_NAME_MAX: u32 = 1_000_000;

/// The folder of the traces, which need not exist yet.
pub fn traces() -> Result<PathBuf> {
    if let Some(folder) = env::BIS_TRACES.get().or_else(|| env::RR_TRACE_DIR.get()) {
        return Ok(folder.into());
    }
    data_home().map(|folder| folder.join("bis")).ok_or_else(|| {
        Failure::usage(format!(
            "failed to find the folder of the traces: neither {} nor {} is set; set {} to a folder, or give one with -o",
            env::XDG_DATA_HOME.name,
            env::HOME.name,
            env::BIS_TRACES.name
        ))
    })
}

fn data_home() -> Option<PathBuf> {
    // The XDG rules say that a relative path is to be ignored.
    let data = env::XDG_DATA_HOME.get().map(PathBuf::from).filter(|path| path.is_absolute());
    data.or_else(|| Some(PathBuf::from(env::HOME.get()?).join(".local/share")))
}

/// The folders in which there may be a store of what traces share: the user's, and the one beside the traces.
pub fn stores() -> Vec<PathBuf> {
    let users = data_home().map(|folder| folder.join("bis").join(STORE));
    let beside =
        traces().ok().map(|folder| folder.join(STORE)).filter(|beside| Some(beside) != users.as_ref());
    users.into_iter().chain(beside).collect()
}

/// The stores on the filesystem of a trace's folder, which is there. They need not exist yet.
pub fn stores_for(trace: &Path) -> Vec<PathBuf> {
    let Ok(device) = fs::metadata(trace).map(|folder| folder.dev()) else { return Vec::new() };
    // Of a folder that is to be made: that of the first one above it that is there.
    let is_near = |store: &PathBuf| {
        let there = store.ancestors().find_map(|folder| fs::metadata(folder).ok());
        there.is_some_and(|folder| folder.dev() == device)
    };
    stores().into_iter().filter(is_near).collect()
}

/// The folder in which one kind of thing is remembered between recordings; none where no home is known.
pub fn cache(kind: &str) -> Option<PathBuf> {
    let cache = env::XDG_CACHE_HOME.get().map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = cache.or_else(|| Some(PathBuf::from(env::HOME.get()?).join(".cache")));
    cache.map(|folder| folder.join("bis").join(kind))
}

/// What dense texts may have together, bytes.
pub fn cache_size() -> Result<u64> {
    let Some(value) = env::BIS_CACHE_SIZE.get() else { return Ok(CACHE_SIZE) };
    let value = value.to_string_lossy();
    args::size(&value).map_err(|error| {
        Failure::usage(format!("failed to read {}={value}: {error}", env::BIS_CACHE_SIZE.name))
    })
}

/// Makes a folder that only its owner may read, and its parents as needed.
pub fn make_private(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// A new folder `PROGRAM-N` in `traces`, made in one step so that two recordings never share one.
pub fn new_trace(traces: &Path, program: &Path) -> Result<PathBuf> {
    make_private(traces).map_err(|error| not_writable(traces, &error))?;
    let base = program.file_name().unwrap_or(OsStr::new("program"));
    for number in 0..SAME_NAME_MAX {
        let mut name = base.to_owned();
        name.push(format!("-{number}"));
        let path = traces.join(name);
        match DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(not_writable(&path, &error)),
        }
    }
    Err(Failure::usage(format!(
        "failed to name a trace in {}: there are too many; see bis rm",
        traces.display()
    )))
}

/// A folder for traces could not be made: HOME may be a strange one.
fn not_writable(path: &Path, error: &io::Error) -> Failure {
    Failure::usage(format!(
        "failed to make {}: {error} (set {} to a folder for traces that you may write to, or give one with -o)",
        path.display(),
        env::BIS_TRACES.name
    ))
}

/// Points `latest` at a trace in the same folder (none: removes the link), in one step.
pub fn set_latest(traces: &Path, name: Option<&OsStr>) -> io::Result<()> {
    let link = traces.join(LATEST);
    let Some(name) = name else { return fs::remove_file(link) };
    let fresh = traces.join(format!(".{LATEST}.{}", process::id()));
    // One may be left of a process that was killed and had our number.
    let _ = fs::remove_file(&fresh);
    symlink(name, &fresh)?;
    fs::rename(&fresh, link).inspect_err(|_| {
        let _ = fs::remove_file(&fresh);
    })
}

/// Where `latest` points, if it is there.
pub fn latest(traces: &Path) -> Option<OsString> {
    fs::read_link(traces.join(LATEST)).ok().map(PathBuf::into_os_string)
}

/// Whether a folder is a trace: it has a log that begins as logs do, or that is still empty.
pub fn is_trace(path: &Path) -> bool {
    let log = path.join(LOG);
    if !fs::symlink_metadata(&log).is_ok_and(|metadata| metadata.is_file()) {
        return false;
    }
    let mut head = Vec::new();
    let read = File::open(log).and_then(|file| file.take(LOG_MAGIC.len() as u64).read_to_end(&mut head));
    read.is_ok() && LOG_MAGIC.starts_with(&head)
}

/// Whether a folder may have been made for a trace that never came: an empty one, which a recorder leaves
/// that is killed at once.
pub fn is_unborn(path: &Path) -> bool {
    fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
}

/// The trace of that name in the folder of the traces, or at that path.
pub fn find(name: &OsStr) -> Result<PathBuf> {
    let shown = human::path(Path::new(name));
    if name.is_empty() {
        return Err(Failure::usage("failed to find the trace: its name is empty"));
    }
    let mut path = PathBuf::from(name);
    if path.file_name() == Some(OsStr::new(LATEST_OF_RR)) && path.symlink_metadata().is_err() {
        path.set_file_name(LATEST);
    }
    let name = &path.clone().into_os_string();
    if name.as_bytes().contains(&b'/') || name == "." || name == ".." {
        return match path.symlink_metadata() {
            Ok(_) => Ok(path),
            Err(error) => Err(Failure::of(format!("open the trace {shown}"), error)),
        };
    }
    let traces = traces()?;
    let named = traces.join(name);
    if named.exists() {
        return Ok(named);
    }
    if path.exists() {
        return Ok(path);
    }
    Err(Failure::usage(match name == LATEST {
        true => format!(
            "failed to find the latest trace: there is none in {} (record one: bis record PROGRAM)",
            traces.display()
        ),
        false => format!(
            "failed to find the trace {shown}: it is neither in {} nor a path (bis ls shows the traces)",
            traces.display()
        ),
    }))
}

/// All traces in the folder of the traces, by name. Whatever else lies there is passed over.
pub fn list(traces: &Path) -> Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(traces) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Failure::of(format!("read {}", traces.display()), error)),
    };
    let mut found: Vec<PathBuf> = entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .filter(|path| is_trace(path))
        .collect();
    found.sort();
    Ok(found)
}

/// Held while a trace is being recorded; the kernel lets go of it when the recorder is gone, however it went.
#[derive(Debug)]
pub struct Recording(Option<File>);

impl Drop for Recording {
    /// A process that the recorder has just forked shares the lock until it has closed or executed something,
    /// so closing the file here would not let go of it.
    fn drop(&mut self) {
        if let Some(file) = &self.0 {
            let _ = flock(file, FlockOperation::Unlock);
        }
    }
}

/// Marks a trace as being recorded. A filesystem without locks gives no mark, which only `ls` and `rm` miss.
pub fn mark_recording(path: &Path) -> Recording {
    let file = File::open(path).ok();
    Recording(file.filter(|file| flock(file, FlockOperation::NonBlockingLockExclusive).is_ok()))
}

/// A recorder that has no memory left can write no log any more: a line in the folder says so to its readers.
pub fn leave_word_in(path: &Path) {
    if let Ok(folder) = File::open(path) {
        memory_limit::leave_word_in(folder.into(), LAST_WORDS);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn names_count_up_and_latest_follows() {
        let folder = tempfile::tempdir().unwrap();
        let traces = folder.path().join("a/b");
        let first = new_trace(&traces, Path::new("/usr/bin/python3")).unwrap();
        let second = new_trace(&traces, Path::new("python3")).unwrap();
        assert_eq!((first, &second), (traces.join("python3-0"), &traces.join("python3-1")));
        assert_eq!(fs::metadata(&second).unwrap().permissions().mode() & 0o777, 0o700);
        for name in ["python3-0", "python3-1"] {
            set_latest(&traces, Some(OsStr::new(name))).unwrap();
            assert_eq!(latest(&traces).unwrap(), name);
        }
        set_latest(&traces, None).unwrap();
        assert_eq!(latest(&traces), None);
        assert_eq!(fs::read_dir(&traces).unwrap().count(), 2);
    }

    #[test]
    fn only_traces_are_listed() {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in [("real", "BISTRACE and more"), ("begun", ""), ("other", "a log of something")]
        {
            fs::create_dir(folder.path().join(name)).unwrap();
            fs::write(folder.path().join(name).join("log"), content).unwrap();
        }
        fs::create_dir(folder.path().join("empty")).unwrap();
        symlink("real", folder.path().join("latest")).unwrap();
        let names: Vec<_> =
            list(folder.path()).unwrap().iter().map(|p| p.file_name().unwrap().to_owned()).collect();
        assert_eq!(names, ["begun", "real"]);
        assert_eq!(list(&folder.path().join("nowhere")).unwrap(), Vec::<PathBuf>::new());
    }

    #[test]
    fn a_recording_shows_until_it_ends() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!is_recording(folder.path()));
        let mark = mark_recording(folder.path());
        assert!(is_recording(folder.path()));
        // As a process that was forked meanwhile has it.
        let shared = mark.0.as_ref().unwrap().try_clone().unwrap();
        drop(mark);
        assert!(!is_recording(folder.path()));
        drop(shared);
    }
}
