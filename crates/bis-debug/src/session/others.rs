//! The processes that share memory with the session's: they go on where its replica waits for them, and what
//! they change of the bytes that the user watches is theirs.

use bis_replay::{Halt, Limit, Solo, Stop, solo::Other};

use super::{live::Live, points::Points};

/// What others have changed while the replica that ran last waited for them.
#[derive(Debug, Default)]
pub(super) struct Others<'t>(Option<Other<'t>>);

impl<'t> Others<'t> {
    /// Lets a replica run.
    pub(super) fn advance(
        &mut self,
        host: &mut Solo<'t>,
        points: &Points,
        live: &mut Live<'t>,
        limit: &Limit<'_>,
    ) -> Result<Stop, Halt> {
        self.0 = None;
        let mut values = None;
        std::mem::swap(&mut host.company, &mut live.company);
        let stop = host.advance(&mut live.replica, limit, &mut |replica, other| {
            if !points.has_watchpoints() {
                return;
            }
            let now = points.values(replica);
            if other.is_some() && values.as_ref() != Some(&now) {
                self.0 = other;
            }
            values = Some(now);
        });
        std::mem::swap(&mut host.company, &mut live.company);
        stop
    }

    /// The process that has changed watched bytes last, for people.
    pub(super) fn take_change(&mut self) -> Option<String> {
        let Other { entry, event } = self.0.take()?;
        Some(format!("bis: process {} has changed it, on its way to event {event}", entry.pid))
    }
}
