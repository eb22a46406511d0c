//! A replayed process as a thing that must be cleaned up: whatever way a domain's thread leaves, the process is
//! killed and reaped.

use bis_trace::types::Tid;
use bis_tracee::{
    Resume, Status, Stopped,
    task::{self},
};

use crate::job::{self, Board};

/// A process of ours that the calling thread traces. Dropping it ends it.
pub(crate) struct Stub<'b> {
    pid: Tid,
    board: &'b Board,
}

impl<'b> Stub<'b> {
    pub(crate) fn new(pid: Tid, board: &'b Board) -> Stub<'b> {
        board.add_living(pid);
        Stub { pid, board }
    }

    pub(crate) fn pid(&self) -> Tid {
        self.pid
    }
}

/// Waits until a killed task is gone, letting it through its last stops.
pub(crate) fn reap(tid: Tid) {
    loop {
        match task::wait_for(tid) {
            Ok(Status::Exited(_) | Status::Killed(_)) | Err(_) => return,
            Ok(_) => {
                if Stopped::adopt(tid).resume(Resume::Cont, None).is_err() {
                    return;
                }
            }
        }
    }
}

/// The threads of a process but its first: those that the kernel still knows, zombies included.
fn other_threads(pid: Tid) -> Vec<Tid> {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let names = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok().map(Tid));
    names.filter(|tid| *tid != pid).collect()
}

impl Drop for Stub<'_> {
    fn drop(&mut self) {
        job::kill(self.pid);
        // The first thread reports its end only after all others are reaped.
        loop {
            let others = other_threads(self.pid);
            if others.is_empty() {
                break;
            }
            others.into_iter().for_each(reap);
        }
        self.board.remove_living(self.pid);
        reap(self.pid);
    }
}
