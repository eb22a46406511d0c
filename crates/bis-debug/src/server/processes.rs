//! Other processes of the recording: the list of them, and how a client goes from one to another. Each that
//! was visited has a session of its own, which stays where it was left with all that it knows, so that coming
//! back is quick.

use std::fmt::Write as _;

use bis_trace::{
    event::Base,
    types::{DomainId, EventSeq, Tid},
};

use super::served::Served;
use crate::session::{
    Report, Session, Why,
    place::Position,
    processes::{self, Life},
};

/// Where a client goes to in another process.
pub(super) struct Entrance {
    pub domain: DomainId,
    pub position: Position,
    /// For the user, where the process does not live at this moment.
    pub note: Option<String>,
}

impl<'t> Served<'t> {
    /// The same moment of another process; of one that does not live then, the closest that it has. An error
    /// is for people.
    pub(super) fn entrance(&self, pid: Tid) -> Result<Entrance, String> {
        let world = self.session.world();
        let now = self.session.replica().done().0;
        let Some(life) = processes::life_at(world, pid, now) else {
            return Err(match processes::lender(world, pid) {
                Some(lender) => format!(
                    "process {pid} lives in the memory of process {lender}, of which it is a thread (vfork): `process {lender}`"
                ),
                None => format!("the recording has no process {pid}; `process` lists those that it has"),
            });
        };
        let event = now.max(life.first().seq);
        let note = when_it_lives(&life, now);
        Ok(Entrance { domain: life.at(event).domain, position: Position::at(event), note })
    }

    /// The process that a user means by a number, or by the program that it was the first to execute.
    pub(super) fn process_named(&self, name: &str) -> Result<Tid, String> {
        if let Ok(number) = name.parse() {
            return Ok(Tid(number));
        }
        let lives = processes::lives(self.session.world());
        let found =
            lives.iter().find(|life| life.images.iter().any(|entry| crate::options::executes(entry, name)));
        found.map(|life| life.first().pid).ok_or_else(|| {
            format!("no process of the recording has executed {name}; `process` lists those that there are")
        })
    }

    /// From now on the client's session is the one of this domain's process.
    pub(super) fn enter(&mut self, domain: DomainId) -> Result<(), String> {
        if self.session.has(domain) {
            return Ok(());
        }
        let mut next = match self.aside.iter().position(|session| session.has(domain)) {
            Some(at) => self.aside.remove(at),
            None => self.session.beside(domain).map_err(|error| error.to_string())?,
        };
        next.take_over(&mut self.session);
        self.aside.push(std::mem::replace(&mut self.session, next));
        Ok(())
    }

    /// A client that is told of a fork, and then lets the parent go, wants to go on with the child (`set
    /// follow-fork-mode child`). False: that is not so here.
    pub(super) fn follow_child(&mut self) -> bool {
        let Why::Fork { pid, is_vfork: false } = self.last.why else { return false };
        let Ok(Entrance { domain, position, .. }) = self.entrance(pid) else { return false };
        if self.enter(domain).is_err() || self.session.seek(&position).is_err() {
            return false;
        }
        self.memory.is_elsewhere = false;
        (self.general, self.resumed) = (None, None);
        self.last = Report { tid: self.session.tid(), why: Why::Arrived };
        true
    }

    /// The processes, for people.
    pub(super) fn processes(&self) -> String {
        let world = self.session.world();
        let mut text = "  PID      BEGINS     ENDS       PROGRAM\n".to_owned();
        let current = self.session.entry().domain;
        for life in processes::lives(world) {
            for (number, entry) in life.images.iter().enumerate() {
                let mark = if entry.domain == current { "*" } else { " " };
                let next = life.images.get(number + 1).map(|next| next.seq);
                let end = next.or(life.end).map_or("?".into(), |end| end.to_string());
                let how = match &entry.base {
                    Base::Exec { .. } => String::new(),
                    Base::Image { .. } => " (found running)".into(),
                    Base::Fork { parent, .. } => world
                        .entry(*parent)
                        .map_or_else(|_| String::new(), |parent| format!(" (forked by {})", parent.pid)),
                };
                let command = world.command(entry);
                let begin = entry.seq.to_string();
                let pid = entry.pid.to_string();
                let _ = writeln!(text, "{mark} {pid:<8} {begin:<10} {end:<10} {command}{how}");
            }
        }
        text
    }
}

/// What is to be said where a process does not live at an event.
fn when_it_lives(life: &Life<'_>, event: EventSeq) -> Option<String> {
    let first = life.first();
    let pid = first.pid;
    if event < first.seq {
        let text = "does not exist yet at event";
        return Some(format!("bis: process {pid} {text} {event}: it begins at event {}, here", first.seq));
    }
    let end = life.end.filter(|end| *end < event)?;
    Some(format!("bis: process {pid} has ended before event {event}, at event {end}: this is its end"))
}

/// What there is in front of a process's begin, for people.
pub(super) fn before_begin(session: &Session<'_>) -> Option<String> {
    let entry = session.entry();
    let pid = entry.pid;
    if let Base::Fork { parent, at } = &entry.base {
        let parent = session.world().entry(*parent).ok()?.pid;
        return Some(format!(
            "bis: process {pid} begins here: process {parent} has forked it at event {at} (`process {parent}` goes there)"
        ));
    }
    if let Base::Image { .. } = &entry.base {
        return Some(format!(
            "bis: the recording of process {pid} begins here: it was running already, and what it did before was not recorded"
        ));
    }
    let life = processes::lives(session.world()).into_iter().find(|life| life.has(entry.domain))?;
    (life.first().domain != entry.domain).then(|| {
        format!(
            "bis: process {pid} has executed this program here: bis replay -f {pid} begins where it was forked"
        )
    })
}
