//! The events of a domain, in their order.

use bytes::Bytes;

use super::{Trace, ahead::ReadAhead, chunks::Chunks};
use crate::{
    codec,
    error::Result,
    event::{Event, EventKind},
    index::Damage,
    types::DomainId,
};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Open,
    /// The last event was [`EventKind::End`].
    Ended,
    Over,
}

/// The events of a domain ([`Trace::events`]). Holds one chunk in memory, which its copies share.
#[derive(Clone, Debug)]
pub struct Events<'a> {
    chunks: Chunks<'a>,
    /// The chunk in hand, decompressed, and how much of it has been read.
    messages: Bytes,
    at: usize,
    /// Events that it should still have.
    left: u32,
    /// Where it is in the log.
    offset: u64,
    state: State,
    /// What they say of bis's own memory is read, too.
    ours: bool,
}

impl<'a> Events<'a> {
    /// From now on, chunks are read ahead, as long as that is served. A copy reads ahead for itself.
    pub fn read_ahead(&mut self, ahead: &'a ReadAhead<'a>) {
        self.chunks.read_ahead(ahead);
    }

    /// The same events, but what they say of bis's own memory ([`crate::event::Outcome::ours`]) is left out:
    /// to replay alone, nobody needs it, and it takes time to read.
    #[must_use]
    pub fn without_ours(self) -> Self {
        Self { ours: false, ..self }
    }

    fn step(&mut self) -> Result<Option<Event>> {
        let trace = self.chunks.trace;
        while self.at == self.messages.len() {
            if self.left > 0 {
                return Err(trace.damaged(self.offset, "the chunk has fewer events than it says"));
            }
            let used = std::mem::take(&mut self.messages);
            self.at = 0;
            if used.is_unique() {
                self.chunks.give_back(used.into());
            }
            match self.chunks.next() {
                Some(next) => {
                    let (place, messages) = next?;
                    (self.messages, self.at) = (Bytes::from(messages), 0);
                    (self.left, self.offset) = (place.chunk.event_count, place.offset);
                }
                None => {
                    return match trace.table().damage {
                        // What was there may have been this stream's.
                        Some(Damage::Bad(offset)) if self.state != State::Ended => {
                            Err(trace.damaged(offset, "events of this domain may be lost there"))
                        }
                        _ => Ok(None),
                    };
                }
            }
        }
        let event;
        (event, self.at) = codec::read_event_at(&self.messages, self.at, self.ours)
            .map_err(|malformed| trace.damaged(self.offset, &malformed.to_string()))?;
        self.left = (self.left.checked_sub(1))
            .ok_or_else(|| trace.damaged(self.offset, "the chunk has more events than it says"))?;
        self.state = if event.kind == EventKind::End { State::Ended } else { State::Open };
        Ok(Some(event))
    }
}

impl Iterator for Events<'_> {
    type Item = Result<Event>;

    fn next(&mut self) -> Option<Result<Event>> {
        if self.state == State::Over {
            return None;
        }
        let next = self.step().transpose();
        // Where there is nothing more, there may be later.
        if matches!(next, Some(Err(_))) {
            self.state = State::Over;
        }
        next
    }
}

impl Trace {
    /// The events of a domain, in their order. The stream is over after an error. A stream of a trace that
    /// was cut short ends without [`EventKind::End`], and goes on where [`Trace::follow`] has found more.
    pub fn events(&self, domain: DomainId) -> Events<'_> {
        Events {
            chunks: self.chunks(domain.0),
            messages: Bytes::new(),
            at: 0,
            left: 0,
            offset: 0,
            state: State::Open,
            ours: true,
        }
    }
}
