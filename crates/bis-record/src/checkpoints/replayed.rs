//! The way back that changes nothing: what was recorded since a checkpoint is executed again, exactly, and
//! then the process goes on behind the call that has asked for it.
//!
//! A re-execution that is exact ends in the state in which it was asked for. So the process need not be set
//! back for it: it stays where it is, in its call, and a replica of it is made from the trace so far, by
//! whoever the recorder's user has chosen ([`OnReplay`]). The trace has the call's entry as an event of its
//! own, in front of which the replica has its end.

use std::{
    fmt,
    path::PathBuf,
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use bis_syscalls::own;
use bis_trace::types::{DomainId, EventSeq, Tid};
use bis_tracee::sys;

use crate::{
    domain::Domain,
    error::{RecordError, Result},
    session::Session,
    task::InCall,
};

/// How often it is looked whether the process that waits is still there.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What is to be executed again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stretch {
    /// Whose folder has all events up to `to`, and may get more.
    pub trace_dir: PathBuf,
    pub pid: Tid,
    pub domain: DomainId,
    /// The event behind which it begins: the return of the checkpoint.
    pub from: EventSeq,
    /// The last one: the entry of the call that asks for it.
    pub to: EventSeq,
}

/// Executes a stretch of a trace again, and says whether that did what was recorded. It is called on a thread
/// of its own, and is to come to an end soon where `is_wanted` says no more.
#[derive(Clone)]
pub struct OnReplay(Arc<Work>);

type Work = dyn Fn(&Stretch, &dyn Fn() -> bool) -> bool + Send + Sync;

impl OnReplay {
    pub fn new(work: impl Fn(&Stretch, &dyn Fn() -> bool) -> bool + Send + Sync + 'static) -> OnReplay {
        OnReplay(Arc::new(work))
    }
}

impl fmt::Debug for OnReplay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnReplay")
    }
}

impl Domain {
    /// The task asks that what was recorded since this checkpoint is executed again.
    pub(super) fn replay_since(&mut self, tid: Tid, mut state: InCall, handle: u64) -> Result<()> {
        let Some(from) = self.checkpoints.by_handle.get(&handle).map(|checkpoint| checkpoint.at) else {
            return self.not_made(tid, state, -i64::from(libc::EINVAL));
        };
        let (kind, sums) = state.enter();
        self.event_with(tid, kind, sums)?;
        self.session.writer.flush()?;
        let stretch = Stretch {
            trace_dir: self.session.options.trace_dir.clone(),
            pid: self.first_tid,
            domain: self.id,
            from,
            to: self.journal.last_seq(),
        };
        let result = match execute_again(&self.session, tid, stretch)? {
            true => {
                if let Some(checkpoint) = self.checkpoints.by_handle.get_mut(&handle) {
                    checkpoint.how = own::REPLAY;
                }
                0
            }
            false => -i64::from(libc::EIO),
        };
        self.not_made(tid, state, result)
    }
}

/// Lets a stretch be executed again, and waits for its end.
fn execute_again(session: &Session, tid: Tid, stretch: Stretch) -> Result<bool> {
    let Some(OnReplay(work)) = session.options.on_replay.clone() else { return Ok(false) };
    let (tell, told) = mpsc::channel();
    // When this channel's other end is gone, nobody wants it any more.
    let (want, wanted) = mpsc::channel::<()>();
    let run = move || {
        let is_wanted = || wanted.try_recv() != Err(mpsc::TryRecvError::Disconnected);
        let _ = tell.send(work(&stretch, &is_wanted));
    };
    let thread = thread::Builder::new().name("replay".into()).spawn(run);
    let failed = |source| RecordError::Os { what: "start a thread", source };
    let thread = thread.map_err(failed)?;
    let is_right = loop {
        // The task is stopped: what it has to report then is that it was killed.
        match told.recv_timeout(LOOK_EVERY) {
            Ok(is_right) => break is_right,
            Err(mpsc::RecvTimeoutError::Timeout) if sys::has_report(tid) => break false,
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => break false,
        }
    };
    drop(want);
    let _ = thread.join();
    Ok(is_right)
}
