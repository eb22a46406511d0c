//! Programs that may be executed but not read (mode 0711). The kernel shows their memory to root alone, so an
//! ordinary user's recorder cannot record them. Their exec fails, as that of a program which may not be
//! executed does: whoever wanted to start it is told so, and goes on. Only where such a program is the
//! recording's first is there nothing to record.

use std::{
    fs::{self, File},
    io::ErrorKind,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use bis_trace::types::Tid;
use bis_tracee::proc;
use rustix::fs::{Access, AtFlags, CWD, accessat};

use super::args::ExecArgs;
use crate::{calls::Entry, crew::Crew, error::Result};

impl Crew {
    /// At the entry of an exec: its failure, if its program is such a one.
    pub(super) fn enter_unreadable(&self, tid: Tid, exec: &ExecArgs) -> Result<Option<Entry>> {
        if self.tasks.get(&tid).is_some_and(|task| task.stand_in.is_some()) {
            return Ok(None);
        }
        let Some(path) = self.program(tid, exec).filter(|path| is_unreadable(path)) else {
            return Ok(None);
        };
        let name = fs::read_link(&path).unwrap_or(path);
        let name = name.display();
        let text = format!(
            "task {tid}: the exec of {name} fails: it may be executed but not read; only root can record it, and \
             --detach leaves it out of the recording"
        );
        self.session.note(self.session.writer.next_seq(), text)?;
        Ok(Some(Entry::Done(-i64::from(libc::EACCES))))
    }

    /// The file that an exec names, as we find it.
    pub(super) fn program(&self, tid: Tid, exec: &ExecArgs) -> Option<PathBuf> {
        let name = self.memory.read_c_str(exec.name).ok()?;
        Some(proc::seen_by(tid, exec.folder, &name))
    }
}

fn is_unreadable(path: &Path) -> bool {
    // Nearly always it may be read, and this is all.
    if accessat(CWD, path, Access::READ_OK, AtFlags::EACCESS).is_ok() {
        return false;
    }
    let is_program =
        fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0);
    is_program && File::open(path).is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
}
