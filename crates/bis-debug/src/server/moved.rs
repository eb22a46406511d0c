//! What a client is told when the program has moved.

use bis_trace::types::Signal;

use super::{beside::Beside, processes, served::Served, stops};
use crate::{
    protocol::reply::{Reason, Stop},
    session::{Report, Session, Why},
};

impl<'t> Served<'t> {
    /// The program has moved: what is told of it.
    pub(super) fn moved(&mut self, how: impl FnOnce(&mut Session<'t>) -> Report) -> Vec<u8> {
        self.has_resumed = true;
        if let Some(reply) = self.vfork_done().or_else(|| self.go_to_target()) {
            return reply;
        }
        let report = how(&mut self.session);
        self.tell(report)
    }

    /// The client has been told of a vfork. Whatever it does next, the parent has its memory for itself again
    /// as far as the client is concerned: it would wait for that without its breakpoints, and the user may go
    /// elsewhere.
    pub(super) fn vfork_done(&mut self) -> Option<Vec<u8>> {
        if !std::mem::take(&mut self.waits_for_vfork) {
            return None;
        }
        let stop = Stop {
            signal: Some(Signal::TRAP),
            numbers: self.numbers(),
            thread: Some(self.thread(self.session.tid())),
            reason: Some(Reason::VforkDone),
            ..Stop::default()
        };
        Some(stop.payload())
    }

    pub(super) fn tell(&mut self, report: Report) -> Vec<u8> {
        self.keep_made();
        // The session's own may be another one when a copy has been thrown away, of which a client is not
        // told.
        (self.general, self.resumed) = (Some(report.tid), None);
        self.beside = Beside::default();
        if let Why::Broken(text) = &report.why {
            self.session.say_line(text);
        }
        if report.why == Why::Begin
            && let Some(text) = processes::before_begin(&self.session)
        {
            self.session.say_line(&text);
        }
        if let Why::End(Some(end)) = &report.why {
            self.session.say_line(&stops::end_text(*end, self.pid()));
        }
        if let Why::Fork { pid, is_vfork } = report.why {
            self.session.say_line(&stops::fork_text(self.pid(), pid, is_vfork));
            self.waits_for_vfork = is_vfork && self.features.has("vfork-events");
        }
        self.last = report;
        self.stop_reply()
    }

    pub(super) fn stop_reply(&mut self) -> Vec<u8> {
        let report = self.last.clone();
        stops::reply(self, &report)
    }
}
