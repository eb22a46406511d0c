//! A program that runs live: nothing of it is recorded until one of its processes asks for its first
//! checkpoint.
//!
//! One thread watches all that the program begins ([`bis_tracee::lookout`]). A process that asks becomes a
//! domain, from an image of it as it stands (`found.rs`): its threads are parked, a supervisor of its own
//! takes them over, and the first thing that happens there is that the call is made again. The others are
//! watched on; each of them that asks becomes a domain as well.

use std::{sync::Arc, time::Duration};

use bis_trace::types::Tid;
use bis_tracee::{
    Stopped, TraceeError,
    filter::Mode,
    found::FoundError,
    lookout::{Lookout, Seen},
    ours,
};

use crate::{
    error::{RecordError, Result},
    found::{self, Image},
    seed::Seed,
    session::Session,
};

/// How soon the lookout ends once the program has ended as a domain.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Starts the thread that watches the program.
pub fn begin(session: &Arc<Session>) {
    session.spawn("lookout".into(), watch);
}

fn watch(session: &Arc<Session>) -> Result<()> {
    let mut lookout = Lookout::start(session.spawn_spec(Mode::Watch)?)?;
    session.set_root(lookout.root());
    let looked = ours::kicked_every(LOOK_EVERY, || look(session, &mut lookout));
    looked.unwrap_or_else(|| look(session, &mut lookout))
}

/// Until there is nobody to be watched, or the program has ended and nobody waits for what it has left.
fn look(session: &Arc<Session>, lookout: &mut Lookout) -> Result<()> {
    loop {
        match lookout.wait()? {
            Seen::Asks(asker) => take(session, lookout, *asker)?,
            Seen::Ended(code) => session.note_end_of_process(lookout.root(), code),
            Seen::Kicked => {}
            Seen::Nobody => return Ok(()),
        }
        if session.has_ended() && !session.options.wait {
            lookout.let_all_go();
            return Ok(());
        }
    }
}

/// A task asks for a checkpoint: its process is recorded from here on. Where that cannot be, the call fails.
fn take(session: &Arc<Session>, lookout: &mut Lookout, asker: Stopped) -> Result<()> {
    let tid = asker.tid();
    let found = match lookout.take(asker) {
        Ok(Some(found)) => found,
        Ok(None) => return Ok(()),
        Err(error) => return refused(session, tid, error.into()),
    };
    let memory = match found::look(&found) {
        Ok(memory) => memory,
        Err(error) => {
            if let Err(error) = lookout.give_back(found, tid, libc::EOPNOTSUPP) {
                tracing::debug!(%tid, %error, "not given back");
            }
            return refused(session, tid, error);
        }
    };
    match Image::of(session, found, &memory).and_then(Image::park) {
        Ok(image) => {
            session.begin_recording();
            session.plant(Seed::Watched(Box::new(image)));
            Ok(())
        }
        Err(error) if is_end(tid, &error) => Ok(()),
        Err(error) => Err(error),
    }
}

/// A process goes on as it was, unless it has ended.
fn refused(session: &Session, tid: Tid, why: RecordError) -> Result<()> {
    if !is_end(tid, &why) {
        session.note_refusal(why.to_string());
    }
    Ok(())
}

/// Was the process killed meanwhile?
fn is_end(tid: Tid, error: &RecordError) -> bool {
    let is_dead = matches!(
        error,
        RecordError::Tracee(TraceeError::Died(_))
            | RecordError::Found(FoundError::NoProcess(_) | FoundError::Tracee(TraceeError::Died(_)))
    );
    is_dead || error.is_death_of(tid)
}
