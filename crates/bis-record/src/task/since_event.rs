//! What a task has done since its last event, as far as the next one depends on that. A value.

use bis_trace::event::EventKind;

/// See the module's text.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SinceEvent {
    has_log: bool,
    has_gone_on: bool,
}

impl SinceEvent {
    /// What its hooks have logged is the last that the stream says of it.
    pub fn has_log(&self) -> bool {
        self.has_log
    }

    /// It has gone on in its program since its last event.
    pub fn has_gone_on(&self) -> bool {
        self.has_gone_on
    }

    /// It goes on in its program.
    pub fn go_on(&mut self) {
        self.has_gone_on = true;
    }

    /// An event of it is written.
    pub fn write(&mut self, kind: &EventKind) {
        match kind {
            // Turns are the domain's, and lead no task anywhere.
            EventKind::Token { .. } => {}
            // What was logged says of calls that are over, and not where the task is.
            EventKind::Hooked { .. } => self.has_log = true,
            _ => *self = SinceEvent::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: EventKind = EventKind::Token { acquired: Vec::new(), released: Vec::new() };

    fn logged() -> EventKind {
        EventKind::Hooked { alone: true, log: Vec::new().into() }
    }

    fn entry() -> EventKind {
        EventKind::SyscallEnter { nr: 39, entry: bis_trace::types::Registers::default() }
    }

    #[test]
    fn a_log_is_the_last_that_is_said_of_a_task_until_it_has_another_event() {
        let mut it = SinceEvent::default();
        it.write(&logged());
        it.write(&TOKEN);
        assert!(it.has_log());
        it.write(&entry());
        assert!(!it.has_log());
        it.write(&TOKEN);
        assert!(!it.has_log());
    }

    #[test]
    fn neither_a_turn_nor_a_log_says_where_a_task_is_that_has_gone_on() {
        let mut it = SinceEvent::default();
        it.write(&logged());
        assert!(!it.has_gone_on());
        it.go_on();
        it.write(&TOKEN);
        it.write(&logged());
        assert!(it.has_gone_on());
        it.write(&entry());
        assert_eq!(it, SinceEvent::default());
    }
}
