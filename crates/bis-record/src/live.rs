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
    found::{Found, FoundError},
    lookout::{Lookout, Seen},
    ours,
};

use crate::{
    error::{RecordError, Result},
    found::{Image, ParkedImage},
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
    let mut lookout = Lookout::start(&session.spawn_spec(Mode::Watch)?)?;
    session.set_root(lookout.root());
    let looked = ours::kicked_every(LOOK_EVERY, || look(session, &mut lookout));
    looked.unwrap_or_else(|| look(session, &mut lookout))
}

/// Until there is nobody to be watched, or the program has ended and nobody waits for what it has left.
fn look(session: &Arc<Session>, lookout: &mut Lookout) -> Result<()> {
    loop {
        match lookout.wait()? {
            Seen::Asks(asker) => take(session, lookout, *asker)?,
            Seen::Ended(code) => session.process_ended(lookout.root(), code),
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
    let taken = match lookout.take(asker) {
        Ok(Some(found)) => parked(session, lookout, tid, found),
        Ok(None) => return Ok(()),
        Err(error) => Err(error.into()),
    };
    match taken {
        Ok(image) => {
            session.begins_recording();
            Seed::Watched(Box::new(image)).plant(session);
            Ok(())
        }
        // It was killed meanwhile.
        Err(
            RecordError::Tracee(TraceeError::Died(_))
            | RecordError::Found(FoundError::NoProcess(_) | FoundError::Tracee(TraceeError::Died(_))),
        ) => Ok(()),
        Err(error) if error.is_death_of(tid) => Ok(()),
        Err(RecordError::Found(error @ FoundError::Unsupported { .. })) => {
            session.refuses(error.to_string());
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// The process as an image that another thread may take over.
fn parked(session: &Session, lookout: &mut Lookout, asker: Tid, found: Found) -> Result<ParkedImage> {
    let refused = |found| {
        if let Err(error) = lookout.give_back(found, asker, libc::EOPNOTSUPP) {
            tracing::debug!(%asker, %error, "not given back");
        }
    };
    Image::of(session, found.pid(), found, refused)?.park()
}
