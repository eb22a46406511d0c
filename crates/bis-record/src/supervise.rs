//! The thread of a supervisor: a domain begins there, and is run to its end.

use std::{
    panic::{self, AssertUnwindSafe},
    sync::Arc,
};

use bis_tracee::ours;

use crate::{
    calls::Fork,
    domain::Domain,
    error::{RecordError, Result},
    seed::Seed,
    session::{Beginning, Session},
};

impl Beginning for Seed {
    fn name(&self) -> String {
        Seed::name(self)
    }

    /// Supervises the domain that begins with the seed, and those that its last task makes by exec, until
    /// there is none left.
    fn supervise(self, session: &Arc<Session>) -> Result<()> {
        let mut next = Some(self);
        while let Some(seed) = next {
            next = match seed.begin(session)? {
                Some(domain) => domain.supervise()?,
                None => None,
            };
        }
        Ok(())
    }
}

/// The child of a fork is handed over in the middle of a call, by code that knows nothing of other
/// beginnings.
impl Beginning for Fork {
    fn name(&self) -> String {
        format!("domain {}", self.id)
    }

    fn supervise(self, session: &Arc<Session>) -> Result<()> {
        Seed::Fork(Box::new(self)).supervise(session)
    }
}

impl Domain {
    /// Supervises the domain to its end. Returns the seed of the one that its last task goes on in, if it
    /// does.
    fn supervise(mut self) -> Result<Option<Seed>> {
        self.watched.seat.set_supervisor(ours::thread_id());
        self.run_or_show()
    }

    /// Runs the domain; where that fails, it can be looked at.
    fn run_or_show(&mut self) -> Result<Option<Seed>> {
        match panic::catch_unwind(AssertUnwindSafe(|| self.run())) {
            Ok(result) => result.inspect_err(|error| self.recorder().show_fault(error)),
            Err(cause) => {
                let what = "a supervisor panicked".into();
                let tid = self.watched.seat.runner();
                self.recorder().show_fault(&RecordError::Bug { tid, what });
                panic::resume_unwind(cause)
            }
        }
    }
}
