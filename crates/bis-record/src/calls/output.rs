//! Calls that write: what goes to standard output and error is echoed by replay. (What goes into a file that
//! somebody maps shared changes that memory: `objects.rs`.)

use bis_syscalls::Call;
use bis_trace::{
    event::{Echo, Meta, Outcome},
    types::{EventSeq, Fd, Tid},
};
use bis_tracee::checksum;

use super::args::{FileTransfer, buffers};
use crate::{calls::Entry, crew::Crew, domain::Domain, error::Result, task::InCall};

impl Domain {
    /// Before a write: if it goes to standard output or error, nobody else may write there until it is known
    /// how much was written.
    pub(super) fn enter_write(&mut self, tid: Tid, call: &Call) -> Result<Entry> {
        let fd = Fd::of_arg(call.args[0]);
        let Some(stream) = self.session.stdio.which(tid, fd) else {
            return Ok(match self.enter_send(tid, call)? {
                Entry::Make => self.enter_write_to(tid, fd),
                done => done,
            });
        };
        self.lock_echo(tid, stream)?;
        let waits = self.call(tid)?.pauses() || !self.session.stdio.is_file(stream);
        Ok(if self.tasks.len() > 1 && !waits { Entry::MakeAtOnce } else { Entry::Make })
    }
}

impl Crew {
    /// After a call that took the lock of a stream: says what went out, and lets others write.
    pub fn tell_output(
        &mut self,
        call: &mut InCall,
        result: i64,
        seq: EventSeq,
        outcome: &mut Outcome,
    ) -> Result<()> {
        let Some(stream) = call.lock.let_go() else { return Ok(()) };
        let mut done = Ok(());
        if let Ok(len) = u64::try_from(result)
            && len > 0
        {
            let args = call.entry.args();
            let is_vector = FileTransfer::of(call.entry.nr(), args).is_some_and(|it| it.is_vector);
            let ranges = buffers(&self.memory, is_vector, args, len);
            let sum = checksum::sum_in_a_row(|addr, len| self.memory.read_upto(addr, len), &ranges);
            outcome.echo = Some(Echo { stream, ranges, sum });
            done = self.session.writer.meta(&Meta::Echo { seq, domain: self.id, stream, len });
        }
        self.session.stdio.unlock(stream, self.id);
        Ok(done?)
    }
}
