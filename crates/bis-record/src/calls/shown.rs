//! A text of /proc that a task reads, as it would be without bis: what is kept of it while it is read.

pub mod reading;
mod text;
mod window;

pub use text::OwnSeccomp;

use std::{
    fs::{self, File},
    io::{self, Read as _, Seek as _, SeekFrom},
    ops::Range,
    os::fd::AsRawFd as _,
    path::{Path, PathBuf},
};

use bis_trace::types::{Addr, Fd, Tid};
use bis_tracee::{proc, sys};

use crate::calls::shown::window::Window;

/// A text that is being read.
#[derive(Debug)]
pub struct ShownText {
    fd: Fd,
    file: ShownFile,
    /// The program's own open file: its position is that of the descriptor. None where the kernel does not
    /// let us have it.
    open: Option<File>,
    text: Vec<u8>,
    /// Where the rest of it comes from.
    rest: Option<Rest>,
    window: Window,
}

impl ShownText {
    /// Is this what the descriptor means?
    fn is_behind(&self, tid: Tid, fd: Fd) -> bool {
        let is_it = |open: &File| sys::same_open_file(tid, fd, open.as_raw_fd()).unwrap_or(false);
        self.fd == fd && self.open.as_ref().is_some_and(is_it)
    }

    /// Where the descriptor stands.
    fn position(&self) -> Option<u64> {
        self.open.as_ref()?.stream_position().ok()
    }

    /// Moves the position of the descriptor from there on by so much. False: it is not where it is to be,
    /// because the kernel has less to say than is shown.
    fn move_on(&self, at: u64, len: u64) -> bool {
        let Some(mut open) = self.open.as_ref() else { return false };
        if matches!(self.file.what, Shown::Mappings | Shown::Numa) {
            // For an lseek to where its last read has not ended, the kernel makes again all that lies before
            // (seq_lseek): a list of tens of thousands of mappings that is read in pieces would take minutes.
            return io::copy(&mut open.take(len), &mut io::sink()).is_ok_and(|read| read == len);
        }
        open.seek(SeekFrom::Start(at.wrapping_add(len))).is_ok()
    }
}

/// What of a list of mappings has not been made into text yet. Many a reader stops where it has found what it
/// looked for, and the kernel looks at each page for what it says in smaps.
#[derive(Debug)]
struct Rest {
    file: File,
    /// As the kernel says it.
    raw: Vec<u8>,
    /// What was ours when that was read, and may be no more.
    ours: Vec<Range<Addr>>,
}

impl Rest {
    /// Reads on. Whether that was all.
    fn read(&mut self) -> io::Result<bool> {
        let wanted = self.raw.len().max(RAW_BYTES_MIN);
        let got = (&mut self.file).take(wanted as u64).read_to_end(&mut self.raw)?;
        Ok(got < wanted)
    }
}

/// How much of the kernel's text is read at once, at least.
const RAW_BYTES_MIN: usize = 16 << 10;

/// Which file of a task's folder in /proc.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Shown {
    Mappings,
    Numa,
    Rollup,
    Status,
    Stat,
    Statm,
    Limits,
    Memory,
}

/// A file of /proc whose content is not to be the kernel's.
#[derive(Clone, PartialEq, Eq, Debug)]
struct ShownFile {
    what: Shown,
    path: PathBuf,
    /// The task that its path names, as its /proc calls it.
    number: Tid,
}

/// Which file a descriptor shows, by its name alone.
fn by_name(path: &Path) -> Option<(Shown, Tid)> {
    let what = match path.file_name()?.to_str()? {
        "maps" | "smaps" => Shown::Mappings,
        "numa_maps" => Shown::Numa,
        "smaps_rollup" => Shown::Rollup,
        "status" => Shown::Status,
        "stat" => Shown::Stat,
        "statm" => Shown::Statm,
        "limits" => Shown::Limits,
        "mem" => Shown::Memory,
        _ => return None,
    };
    let number = path.parent()?.file_name()?.to_str()?.parse().ok()?;
    Some((what, Tid(number)))
}

fn shown_file(tid: Tid, fd: Fd) -> Option<ShownFile> {
    let link = proc::fd(tid, fd);
    let path = fs::read_link(&link).ok()?;
    let (what, number) = by_name(&path)?;
    if is_bis(tid) {
        return None;
    }
    sys::is_on_procfs(&link).then_some(ShownFile { what, path, number })
}

/// Is this bis itself, which has to find out that it is recorded, or another build of it? It sees what is so.
fn is_bis(tid: Tid) -> bool {
    let executed = proc::identity(proc::path(tid, "exe"));
    proc::executable(tid).is_some_and(|exe| exe.file_name().is_some_and(|name| name == "bis"))
        || executed.is_some_and(|it| proc::identity("/proc/self/exe") == Some(it))
}

/// Is what a descriptor shows computed here?
pub fn is_shown(tid: Tid, fd: Fd) -> bool {
    shown_file(tid, fd).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_known_by_their_names() {
        let of = |path: &str| by_name(Path::new(path));
        assert_eq!(of("/proc/77/maps"), Some((Shown::Mappings, Tid(77))));
        assert_eq!(of("/proc/77/task/78/smaps"), Some((Shown::Mappings, Tid(78))));
        assert_eq!(of("/mnt/proc/5/mem"), Some((Shown::Memory, Tid(5))));
        assert_eq!(of("/proc/77/stat"), Some((Shown::Stat, Tid(77))));
        assert_eq!(of("/proc/77/statm"), Some((Shown::Statm, Tid(77))));
        assert_eq!(of("/proc/77/limits"), Some((Shown::Limits, Tid(77))));
        assert_eq!(of("/proc/stat"), None);
        assert_eq!(of("/proc/maps"), None);
    }
}
