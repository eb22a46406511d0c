//! What other domains have sent to this one's memory, and what has changed in files that it shows, comes with
//! an event.

use bis_trace::{event::Outcome, types::Tid};

use super::views::Shown;
use crate::{error::Result, events::Recorder, process::Process, task::InCall};

impl Recorder<'_> {
    /// As [`Process::take_mail`], at the exit of a call: what is much has events of its own.
    pub fn take_mail_of_call(&mut self, tid: Tid, call: &mut InCall, outcome: &mut Outcome) -> Result<()> {
        self.follow_stack_limit(call, outcome);
        let shown = self.take_letters(outcome)?;
        self.show_in_pieces(tid, call, shown, outcome)
    }
}

impl Process {
    /// Bytes that other domains have sent come with this outcome. Last, so that memory and the outcome agree
    /// whatever the kernel has written.
    pub fn take_mail(&mut self, outcome: &mut Outcome) -> Result<()> {
        let shown = self.take_letters(outcome)?;
        self.show_all(shown, outcome);
        Ok(())
    }

    fn take_letters(&mut self, outcome: &mut Outcome) -> Result<Vec<Shown>> {
        for piece in self.session.mail.take(self.id) {
            // It may be unmapped by now; then nobody can miss it.
            if self.memory.write(piece.addr, &piece.data).is_ok() {
                outcome.writes.push(piece);
            }
        }
        self.find_changes(outcome)
    }
}
