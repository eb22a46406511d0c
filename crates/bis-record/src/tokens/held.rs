//! A domain's side of the run tokens: which shared memory it maps where, and when it holds the right to run.

use std::time::Instant;

use bis_trace::{
    event::{EventKind, Meta},
    shared::{Recount, SharedRange},
    types::{Addr, ObjectId, Tid},
};

use crate::{
    domain::Domain,
    error::{RecordError, Result},
    events::Recorder,
};

impl Domain {
    /// A new mapping of an object that the registry has already counted. With `held`, its token is ours.
    pub fn add_shared(&mut self, range: SharedRange, held: bool) -> Result<()> {
        let known = self.space.shared().maps(range.object);
        self.space.shared_mut().add(range);
        if held {
            self.tokens.hold(range.object);
        }
        if !known {
            self.session.writer.meta(&Meta::Share { object: range.object, domain: self.id })?;
        }
        Ok(())
    }

    /// The range is not mapped any more, or shows something else.
    pub fn remove_shared(&mut self, start: Addr, end: Addr) -> Result<()> {
        // The registry counts ranges.
        for Recount { object, before, after } in self.space.shared_mut().unmap(start, end) {
            for _ in before..after {
                self.session.registry.add(object, self.id);
            }
            self.tokens.unmap(object, before.saturating_sub(after));
        }
        Ok(())
    }

    /// After the event that tells of them: lets go of objects that the domain has unmapped. Not before: in
    /// replay, the domain would let go of them before it has done what it did up to that event.
    pub fn finish_unmapped(&mut self) -> Result<()> {
        for id in self.tokens.take_unmapped() {
            if self.tokens.holds(id) && !self.objects().contains(&id) {
                self.release(&[id])?;
            }
            self.session.registry.remove(id, self.id);
        }
        Ok(())
    }

    /// The objects whose tokens the domain needs to run: those that it maps, and those that the call in
    /// progress touches.
    fn objects(&self) -> Vec<ObjectId> {
        self.tokens.needed(self.space.shared().objects())
    }

    /// At the entry of a call that will write to an object, change its length or map it: takes its token as
    /// well, so that the call has a place in the order of the object's turns.
    pub fn borrow_object(&mut self, tid: Tid, object: ObjectId) -> Result<()> {
        if self.tokens.holds(object) {
            return Ok(());
        }
        self.write_entry(tid)?;
        self.session.writer.meta(&Meta::Share { object, domain: self.id })?;
        self.tokens.borrow(object);
        self.ensure_tokens()
    }

    /// After the event of a call: gives back what was borrowed for it, unless the domain maps it now.
    pub fn return_borrowed(&mut self) -> Result<()> {
        let shared = self.process.space.shared();
        let back = self.tokens.end_call(|id| shared.maps(id));
        back.into_iter().try_for_each(|id| self.release(&[id]))
    }

    /// Takes the tokens of all objects that the domain maps, waiting for them if need be. Whoever lets the
    /// program run or touches its memory calls it first.
    pub fn ensure_tokens(&mut self) -> Result<()> {
        if self.space.shared().is_empty() && self.tokens.borrowed.is_empty() {
            return Ok(());
        }
        let objects = self.objects();
        if objects.iter().all(|id| self.tokens.holds(*id)) {
            return Ok(());
        }
        self.release_tokens()?;
        let session = self.session.clone();
        session.registry.acquire(self.id, &objects, |acquired| {
            self.recorder().write_token_event(EventKind::Token { acquired, released: Vec::new() })
        })?;
        self.tokens.take(objects, Instant::now());
        Ok(())
    }

    /// Takes the tokens before this task goes on in its program; if somebody else has waited long enough, it
    /// is their turn first. Not while a task is at a place that the stream does not describe: in replay, what
    /// it did before would come after the other's turn.
    pub fn yield_tokens(&mut self, tid: Tid) -> Result<()> {
        let gives_up = std::mem::take(&mut self.gives_up);
        let now = Instant::now();
        let expired = gives_up || self.tokens.is_turn_over(now);
        if self.holds_tokens()
            && self.session.registry.is_wanted()
            && expired
            && self.led_on.is_none()
            && self.tasks.values().all(|task| !task.standing.is_midway())
            && (gives_up || !self.lead_on_if_stuck(tid, now))
        {
            self.release_tokens()?;
        }
        self.ensure_tokens()
    }

    /// Gives all tokens back: before a wait for the kernel in which others should be able to run.
    pub fn release_tokens(&mut self) -> Result<()> {
        let held = self.tokens.give_all_back();
        if held.is_empty() {
            return Ok(());
        }
        self.note_tokens_given();
        self.release(&held)
    }

    fn release(&mut self, ids: &[ObjectId]) -> Result<()> {
        self.tokens.give_back(ids);
        // A call in progress is seen as entered by whoever runs after us.
        self.write_entries()?;
        if let Some(task) = self.tasks.values().find(|task| task.standing.comes_first()) {
            let what = "a token is given back where no event describes the task's place".into();
            return Err(RecordError::Bug { tid: task.tid, what });
        }
        let session = self.session.clone();
        session.registry.release(self.id, ids, |released| {
            if released.is_empty() {
                return Ok(());
            }
            self.recorder().write_token_event(EventKind::Token { acquired: Vec::new(), released })
        })
    }
}

impl Recorder<'_> {
    fn write_token_event(&mut self, kind: EventKind) -> Result<()> {
        let tid = self.first_tid;
        self.event(tid, kind)
    }
}
