//! What a client writes, and calls: in a copy of the program ([`crate::session::diversion`]).

use bis_trace::types::{Addr, Signal, Tid};

use super::{memory::Listed, served::Served};
use crate::{
    protocol::{
        ThreadId,
        reply::{self, Errors},
    },
    session::{Report, Session, Why, diversion::Refusal},
};

impl<'t> Served<'t> {
    pub(super) fn write_memory(&mut self, addr: Addr, data: &[u8]) -> Vec<u8> {
        // To ask whether memory can be written in this way, clients write nothing.
        if data.is_empty() {
            return reply::ok();
        }
        let tid = self.whose(None).unwrap_or(self.session.tid());
        let written = self.session.write_memory(tid, addr, data);
        self.answer_write(written)
    }

    pub(super) fn write_registers(&mut self, thread: Option<ThreadId>, data: &[u8]) -> Vec<u8> {
        let Some(tid) = self.whose(thread) else {
            return self.errors.sentence("there is no such thread here");
        };
        let written = self
            .session
            .write_registers(tid, &|target, registers, extended| target.write_all(data, registers, extended));
        self.answer_write(written)
    }

    pub(super) fn write_register(&mut self, number: u64, thread: Option<ThreadId>, data: &[u8]) -> Vec<u8> {
        let Some(tid) = self.whose(thread) else {
            return self.errors.sentence("there is no such thread here");
        };
        let written = self.session.write_registers(tid, &|target, registers, extended| {
            target.write(number, data, registers, extended)
        });
        self.answer_write(written)
    }

    fn answer_write(&self, written: Result<(), Refusal>) -> Vec<u8> {
        match (written, self.errors) {
            (Ok(()), _) => reply::ok(),
            // Every gdb shows what is behind an E in the answer to a register's packet.
            (Err(refusal), Errors::Numbers) => Errors::Sentences.sentence(&refusal.text()),
            (Err(refusal), errors) => errors.sentence(&refusal.text()),
        }
    }

    /// The copy goes on, if there is one that is to.
    pub(super) fn resume_copy(
        &mut self,
        step: Option<(Tid, Option<(Addr, Addr)>)>,
        signal: Option<Signal>,
    ) -> Option<Vec<u8>> {
        self.session.forget_given_up();
        if !self.session.is_diverted() {
            self.session.end_diversion();
            return None;
        }
        let report = self.session.go_diverted(step, signal);
        Some(self.tell(report))
    }

    /// Backwards: from a copy that leads to where it was made.
    pub(super) fn backwards(&mut self, how: impl FnOnce(&mut Session<'t>) -> Report) -> Vec<u8> {
        self.has_resumed = true;
        // Which threads it means to go back with gdb has said at some time before.
        self.lets_one_go = true;
        if let Some(reply) = self.go_to_target() {
            return reply;
        }
        if !self.session.end_diversion() {
            self.session.leave_end();
            let reply = self.moved(how);
            // In front of the dynamic linker's begin, gdb looks for the program's symbols in a namespace that
            // is not there any more.
            if matches!(self.last.why, Why::Begin)
                && !self.memory.told_libraries.is_empty()
                && self.libraries("").is_some_and(|now| now.libraries.is_empty())
            {
                self.memory.listed = Listed::Moved;
            }
            return reply;
        }
        self.session.say_line("bis: back from the copy of the program, which is thrown away.");
        let report = Report { tid: self.session.tid(), why: Why::Arrived };
        self.tell(report)
    }
}
