//! The host of a replica that somebody drives alone: a debugger, or a query. Only who shares memory with it
//! is replayed beside it, on the same thread, and only as far as it waits for them ([`crate::company`]).

use std::{collections::BTreeSet, fmt, fs::File, io, sync::Arc};

use bis_trace::{
    event::{DomainEntry, Turn},
    types::{DomainId, EventSeq, ObjectId, StandardStream},
};
use bis_tracee::{Stopped, balance::Seat, filter::HookedChanges};

use crate::{
    company::Company,
    echo::Reader,
    error::{Halt, ReplayError},
    host::Host,
    learnt::{How, Learnt},
    objects::Mapped,
    ours::{ProgramText, TextFiles},
    process::{Living, Process},
    replica::{Limit, Replica, Stop},
    run,
    space::Inherited,
    task::Interrupt,
    world::World,
};

/// What gets the bytes that the program writes to its standard output (1) and error (2).
pub type Ear = Box<dyn FnMut(StandardStream, &[u8]) -> io::Result<()>>;

/// See the module's text.
pub struct Solo<'t> {
    world: &'t World<'t>,
    /// The domains that are replayed beside the replica, and the shared objects.
    pub company: Company<'t>,
    /// The domain that is driven.
    driven: Option<DomainId>,
    learnt: Learnt,
    ear: Option<Ear>,
    /// Is the program to be heard now?
    pub is_audible: bool,
    /// The files behind programs' texts.
    texts: TextFiles,
    living: Arc<Living>,
}

impl fmt::Debug for Solo<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Solo").field("company", &self.company).field("is_audible", &self.is_audible).finish()
    }
}

/// Another domain has done an event, because the replica waits for it.
#[derive(Clone, Copy, Debug)]
pub struct Other<'t> {
    pub entry: &'t DomainEntry,
    pub event: EventSeq,
}

/// What is told when a replica begins to wait (none), and of each [`Other`] that does something meanwhile.
pub type Observer<'a, 't> = &'a mut dyn FnMut(&Replica<'t>, Option<Other<'t>>);

/// What has become of the turns that a replica waits for.
enum Awaited {
    Come,
    Interrupted,
    /// Nobody is left who could end them.
    Never,
}

/// What a domain of the company has done.
enum Moved {
    Event(EventSeq),
    Blocked,
    Interrupted,
    Ended,
}

impl<'t> Solo<'t> {
    /// A host that knows what is learnt of the trace's pauses.
    pub fn new(world: &'t World<'t>, ear: Option<Ear>) -> Solo<'t> {
        Solo {
            world,
            company: Company::default(),
            driven: None,
            learnt: Learnt::of_trace(world.trace),
            ear,
            is_audible: false,
            texts: TextFiles::default(),
            living: Arc::default(),
        }
    }

    /// The ear that has listened to the other listens here from now on.
    pub fn take_ear(&mut self, other: &mut Solo<'_>) {
        self.ear = other.ear.take();
    }

    /// What is known of the trace's pauses.
    pub fn learnt_mut(&mut self) -> &mut Learnt {
        &mut self.learnt
    }

    /// A replica of a domain, in front of its first event: from its exec, or from that of the ancestor that
    /// it is a copy of. The company is then its own.
    ///
    /// # Errors
    /// As [`Replica::advance`]; and where the trace lacks what is needed.
    pub fn begin(&mut self, domain: DomainId) -> Result<Replica<'t>, Halt> {
        let entry = self.world.entry(domain)?;
        self.company = Company::of(self.world, domain);
        self.driven = Some(domain);
        if !entry.base.is_copy() {
            self.company.end(domain);
            return self.execute(entry);
        }
        loop {
            if let Some(replica) = self.company.leave(domain)? {
                return Ok(*replica);
            }
            match self.let_one_go(&mut BTreeSet::new(), None)? {
                Some((_, Moved::Event(_) | Moved::Ended)) => {}
                _ => return Err(Halt::Failed(missing_fork(entry))),
            }
        }
    }

    /// Lets a replica go on, and others beside it where it waits for their turns with what they share.
    ///
    /// # Errors
    /// As [`Replica::advance`], of any of them; [`Halt::Cut`] where a turn cannot come any more.
    pub fn advance(
        &mut self,
        replica: &mut Replica<'t>,
        limit: &Limit<'_>,
        observer: Observer<'_, 't>,
    ) -> Result<Stop, Halt> {
        self.driven = Some(replica.entry().domain);
        loop {
            let stop = replica.advance(self, limit)?;
            let Stop::Turns(turns) = stop else { return Ok(stop) };
            observer(replica, None);
            let tell = &mut |other| observer(replica, Some(other));
            let awaited = self.await_turns(&turns, limit.interrupt, tell)?;
            self.company.is_underway = matches!(awaited, Awaited::Interrupted);
            match awaited {
                Awaited::Come => {}
                Awaited::Interrupted => return Ok(Stop::Interrupted),
                Awaited::Never => return Err(never(replica, &turns)),
            }
        }
    }

    fn await_turns(
        &mut self,
        turns: &[Turn],
        interrupt: Option<&Interrupt>,
        observer: &mut dyn FnMut(Other<'t>),
    ) -> Result<Awaited, Halt> {
        let mut blocked = BTreeSet::new();
        while !self.company.objects.have_come(turns) {
            match self.let_one_go(&mut blocked, interrupt)? {
                None => return Ok(Awaited::Never),
                Some((_, Moved::Interrupted)) => return Ok(Awaited::Interrupted),
                Some((entry, Moved::Event(event))) => observer(Other { entry, event }),
                Some((_, Moved::Ended | Moved::Blocked)) => {}
            }
        }
        Ok(Awaited::Come)
    }

    /// Lets that domain of the company go on whose next event comes first, up to that event. None: none can.
    fn let_one_go(
        &mut self,
        blocked: &mut BTreeSet<DomainId>,
        interrupt: Option<&Interrupt>,
    ) -> Result<Option<(&'t DomainEntry, Moved)>, Halt> {
        let Some(domain) = self.company.next(self.world, blocked)? else { return Ok(None) };
        let entry = self.world.entry(domain)?;
        let mut replica = match self.company.take(domain)? {
            Some(replica) => replica,
            None => match self.execute(entry) {
                Ok(replica) => Box::new(replica),
                Err(Halt::Cut(_)) => {
                    self.company.end(domain);
                    return Ok(Some((entry, Moved::Ended)));
                }
                Err(halt) => return Err(halt),
            },
        };
        let limit = Limit { each_event: true, interrupt, ..Limit::default() };
        let moved = loop {
            match replica.advance(self, &limit) {
                Ok(Stop::Turns(_)) => break Moved::Blocked,
                Ok(Stop::Interrupted) => break Moved::Interrupted,
                // Without tasks there is nothing that could be kept; and it waits for nobody any more.
                Ok(Stop::Event(_)) if replica.tasks().next().is_none() => {}
                Ok(Stop::Event(event)) => break Moved::Event(event),
                Ok(_) => break Moved::Ended,
                Err(halt) => {
                    self.company.put(replica);
                    return Err(halt);
                }
            }
        };
        match moved {
            Moved::Blocked => drop(blocked.insert(domain)),
            _ => blocked.clear(),
        }
        match moved {
            Moved::Ended => self.company.end(domain),
            _ => self.company.put(replica),
        }
        Ok(Some((entry, moved)))
    }

    /// A replica of a domain that begins with an exec.
    fn execute(&self, entry: &'t DomainEntry) -> Result<Replica<'t>, Halt> {
        let (stopped, process, inherited) =
            run::empty_process(self.world, &self.living, &Seat::default(), HookedChanges::Stop)?;
        let is_shown = self.company.is_shown(entry.domain);
        let text = is_shown.then(|| ProgramText::new(self.texts.clone()));
        Replica::new(self.world, entry, (stopped, process, Inherited { text, ..inherited }))
    }
}

/// Nobody ends the turns that this replica waits for.
fn never(replica: &mut Replica<'_>, turns: &[Turn]) -> Halt {
    let event = replica.next_event().ok().flatten().map_or(EventSeq(0), |event| event.seq);
    let (turn, object) = turns.first().map_or((0, 0), |turn| (turn.turn, turn.object.0));
    tracing::debug!(%event, turn, object, "nobody ends this turn");
    let more = if replica.world.goes_on {
        " (of a program that runs, one process is followed: record it, and debug the recording)"
    } else {
        ""
    };
    Halt::Cut(format!(
        "process {} shares memory with others, and waits at event {event} for what they do with it, which is not in the trace{more}",
        replica.entry().pid
    ))
}

fn missing_fork(entry: &DomainEntry) -> ReplayError {
    let what =
        format!("the events of those that process {} needs end before the one that forks it", entry.pid);
    ReplayError::Inconsistent { domain: entry.domain, seq: entry.seq, what }
}

impl Host for Solo<'_> {
    fn is_cancelled(&self) -> bool {
        self.living.is_over()
    }

    fn how(&self, pause: EventSeq) -> How {
        self.learnt.of(pause)
    }

    fn begin_pause(&mut self, _domain: DomainId, _pause: EventSeq) {}

    fn end_pause(&mut self, _domain: DomainId) {}

    fn have_come(&self, turns: &[Turn]) -> bool {
        self.company.objects.have_come(turns)
    }

    fn release(&mut self, _domain: DomainId, turn: Turn, mapped: Mapped) -> io::Result<()> {
        let is_over = mapped != Mapped::Now && self.world.is_of_one_domain(turn.object);
        self.company.objects.release(turn, is_over)
    }

    fn object(&self, object: ObjectId) -> io::Result<Arc<File>> {
        self.company.objects.file(object)
    }

    fn add_object(&mut self, object: ObjectId, file: File) -> io::Result<()> {
        self.company.objects.add(object, file)
    }

    fn hears(&self, domain: DomainId) -> bool {
        self.is_audible && self.ear.is_some() && self.driven == Some(domain)
    }

    fn hear(&mut self, _seq: EventSeq, stream: StandardStream, bytes: &[u8]) -> io::Result<Reader> {
        if let Some(ear) = &mut self.ear {
            // Where nobody listens any more, the program goes on all the same.
            if let Err(error) = ear(stream, bytes) {
                tracing::debug!(%error, "nobody hears the program any more");
                self.ear = None;
            }
        }
        Ok(Reader::There)
    }

    fn heard(&mut self, _seq: EventSeq) -> io::Result<Reader> {
        Ok(Reader::There)
    }

    fn take_fork(&mut self, domain: DomainId) -> bool {
        self.company.wants(domain)
    }

    fn forked(&mut self, domain: DomainId, child: Stopped, inherited: Inherited) -> Result<(), Halt> {
        let process = Process::new(child.tid(), &self.living);
        let text = inherited.text.filter(|_| self.company.is_shown(domain));
        let inherited = Inherited { text, ..inherited };
        match Replica::new(self.world, self.world.entry(domain)?, (child, process, inherited)) {
            Ok(replica) => self.company.put(Box::new(replica)),
            // The trace has nothing of it. Only who waits for it has to know.
            Err(Halt::Cut(_)) => self.company.end(domain),
            Err(halt) => return Err(halt),
        }
        Ok(())
    }
}
