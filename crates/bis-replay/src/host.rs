//! What is around a replica: who else is replayed, where its output goes, what is known of its pauses. A
//! replica asks its host; a host never calls a replica. A job's host waits for nothing either: where a turn
//! has not come, the replica stops and says so.

use std::{fs::File, io, sync::Arc};

use bis_trace::{
    event::Turn,
    types::{DomainId, EventSeq, ObjectId, StandardStream},
};
use bis_tracee::Stopped;

use crate::{echo::Reader, error::Halt, learnt::How, objects::Mapped, space::Inherited};

/// See the module's text.
pub trait Host {
    /// Has the whole replay ended? Then a task that was killed is no divergence.
    fn is_cancelled(&self) -> bool;

    /// How to look for the pause of this event.
    fn how(&self, pause: EventSeq) -> How;

    /// A pause is looked for.
    fn begin_pause(&mut self, domain: DomainId, pause: EventSeq);

    /// It was found.
    fn end_pause(&mut self, domain: DomainId);

    /// Have all these turns come?
    fn have_come(&self, turns: &[Turn]) -> bool;

    /// A turn of this domain's replica ends. `mapped`: does its address space show the object?
    ///
    /// # Errors
    /// Where it was not its turn.
    fn release(&mut self, domain: DomainId, turn: Turn, mapped: Mapped) -> io::Result<()>;

    /// The file of a shared object.
    ///
    /// # Errors
    /// Where it does not exist yet.
    fn object(&self, object: ObjectId) -> io::Result<Arc<File>>;

    /// # Errors
    /// Where it exists already.
    fn add_object(&mut self, object: ObjectId, file: File) -> io::Result<()>;

    /// Is somebody to see what this domain writes?
    fn hears(&self, domain: DomainId) -> bool;

    /// Bytes that the program writes to its standard output or error at this event.
    ///
    /// # Errors
    /// Where they cannot be written.
    fn hear(&mut self, seq: EventSeq, stream: StandardStream, bytes: &[u8]) -> io::Result<Reader>;

    /// These were all of this event.
    ///
    /// # Errors
    /// As [`Host::hear`].
    fn heard(&mut self, seq: EventSeq) -> io::Result<Reader>;

    /// Takes this domain, which the replica forks now, if it is to be replayed from here. False: it is not.
    fn take_fork(&mut self, domain: DomainId) -> bool;

    /// This is its process, and what it has of its parent's address space.
    ///
    /// # Errors
    /// Where it cannot be replayed.
    fn forked(&mut self, domain: DomainId, child: Stopped, inherited: Inherited) -> Result<(), Halt>;
}
