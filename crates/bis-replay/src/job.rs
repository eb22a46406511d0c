//! Which domains may run: slots, turns, and the end of everything when one domain fails.
//!
//! Every domain has a thread. A thread runs its domain only while it holds a slot; there are `jobs` of them,
//! each with a core of its own. A domain that waits for something that another domain must do first (the turn
//! of a shared object) gives its slot back meanwhile, so that jobs which have not begun get their chance: no
//! number of slots can lock up. Among those that want a slot, domains that exist already (forked ones, and
//! those that waited) go before new ones: what is there ends soonest, and the number of living processes
//! stays small.
//!
//! One mutex for all of it: it is entered a few times in the life of a domain and once for each turn, never
//! for each event. Each thread that waits sleeps on a condition variable of its own, and is woken when what
//! it waits for is there. (With one variable for all, each turn woke everybody: where hundreds of domains
//! waited, replay did little else.)
//!
//! Nothing here may hang. The first error cancels all: sleeping threads wake up, and every replayed process
//! is killed, so that a thread which waits for its task sees it die. And if every domain that is not at its
//! end waits for a turn, no turn will come: that is the mark of a trace that was cut.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    fs::File,
    io,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use bis_trace::{
    event::Turn,
    types::{DomainId, ObjectId, Tid},
};

use crate::{
    error::{Halt, ReplayError},
    objects::Objects,
    process::{Living, as_pid, kill},
};

/// Domains that exist and want a slot, beyond which a parent that forks another lets them go first.
const QUEUE_LEN_MAX: usize = 16;

/// The right to run, and the number of the core to run on.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Slot {
    core: usize,
}

/// The kinds of domains that ask for a slot. Lower goes first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Class {
    /// A domain that has a process already.
    Living,
    /// One that would begin.
    New,
}

#[derive(Default)]
struct State {
    free: Vec<usize>,
    /// The domains that want a slot, and where each of them sleeps.
    queue: BTreeMap<(Class, u64), Arc<Condvar>>,
    next_ticket: u64,
    /// Domains that have begun, or will without anybody's help, and are not at their end.
    active: usize,
    /// Those of them that wait for turns that have not come, by their tickets.
    waiting: HashMap<u64, Waiting>,
    /// Each of these, at one of the turns that have not come: the number of the turn, and the ticket.
    awaited: HashMap<ObjectId, BTreeSet<(u64, u64)>>,
    begun: HashSet<DomainId>,
    /// Processes that nobody could take over; killed, to be reaped at the end.
    orphans: Vec<Tid>,
    objects: Objects,
    failure: Option<ReplayError>,
    ended: Ended,
}

/// What somebody waits for, and where it sleeps.
struct Waiting {
    turns: Vec<Turn>,
    woken: Arc<Condvar>,
}

/// How the replay of all domains ended, where nothing failed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) enum Ended {
    #[default]
    Whole,
    /// The trace was cut.
    Cut(String),
    /// A place was taken for another, or a jump was seen: it has to begin again, with what was learnt from
    /// that.
    Again,
    /// It took longer than it may.
    TooLong,
}

pub(crate) struct Board {
    state: Mutex<State>,
    cancelled: AtomicBool,
    /// The processes to kill when all is cancelled.
    living: Arc<Living>,
}

impl Board {
    /// A board with one slot for each of `cores`, and `active` domains that will begin by themselves.
    pub(crate) fn new(cores: Vec<usize>, active: usize) -> Board {
        let state = State { free: cores, active, ..State::default() };
        Board { state: Mutex::new(state), cancelled: AtomicBool::new(false), living: Arc::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Waits for a slot; none when all was cancelled.
    pub(crate) fn acquire(&self, class: Class) -> Option<Slot> {
        let mut state = self.lock();
        let ticket = (class, state.ticket());
        let woken = Arc::new(Condvar::new());
        state.queue.insert(ticket, Arc::clone(&woken));
        loop {
            if self.is_cancelled() {
                state.queue.remove(&ticket);
                return None;
            }
            if state.queue.first_key_value().is_some_and(|(first, _)| *first == ticket)
                && let Some(core) = state.free.pop()
            {
                state.queue.remove(&ticket);
                state.offer();
                return Some(Slot { core });
            }
            state = wait(&woken, state);
        }
    }

    pub(crate) fn release(&self, slot: Slot) {
        let mut state = self.lock();
        state.free.push(slot.core);
        state.offer();
    }

    /// Are so many domains waiting for a slot that whoever makes more should let them go first?
    pub(crate) fn is_crowded(&self) -> bool {
        let state = self.lock();
        state.queue.keys().filter(|(class, _)| *class == Class::Living).count() >= QUEUE_LEN_MAX
    }

    /// One more domain has begun.
    pub(crate) fn add_active(&self) {
        self.lock().active += 1;
    }

    /// A domain is at its end, whatever end that is.
    pub(crate) fn remove_active(&self) {
        let mut state = self.lock();
        state.active = state.active.saturating_sub(1);
        if state.is_stuck() {
            state.wake_all();
        }
    }

    /// Works on the shared objects; no turn comes by that.
    pub(crate) fn objects<T>(&self, work: impl FnOnce(&mut Objects) -> T) -> T {
        work(&mut self.lock().objects)
    }

    /// There is one more shared object, and its first turn has come.
    pub(crate) fn add_object(&self, object: ObjectId, file: File) -> io::Result<()> {
        let mut state = self.lock();
        state.objects.add(object, file)?;
        state.come(object);
        Ok(())
    }

    /// A turn has ended ([`Objects::release`]), and the next one has come.
    pub(crate) fn end_turn(&self, turn: Turn, is_over: bool) -> io::Result<()> {
        let mut state = self.lock();
        state.objects.release(turn, is_over)?;
        state.come(turn.object);
        Ok(())
    }

    /// Have all these turns come?
    pub(crate) fn have_come(&self, turns: &[Turn]) -> bool {
        turns.is_empty() || self.lock().objects.have_come(turns)
    }

    /// Is this the first time that this domain begins?
    pub(crate) fn begin_once(&self, domain: DomainId) -> bool {
        self.lock().begun.insert(domain)
    }

    /// The processes that must not outlive the replay.
    pub(crate) fn living(&self) -> &Arc<Living> {
        &self.living
    }

    /// Kills a process that no thread could take over.
    pub(crate) fn add_orphan(&self, pid: Tid) {
        self.living.remove(pid);
        self.lock().orphans.push(pid);
        kill(pid);
    }

    /// Ends everything: threads that wait wake up, and every replayed process is killed.
    pub(crate) fn cancel(&self) {
        // Under the lock: whoever looks whether all is cancelled, and then waits, has the lock.
        let state = self.lock();
        self.cancelled.store(true, Ordering::Relaxed);
        drop(state);
        self.living.end();
        self.lock().wake_all();
    }

    /// Cancels everything because of an error; the first one is kept.
    pub(crate) fn fail(&self, error: ReplayError) {
        let mut state = self.lock();
        if !self.is_cancelled() && state.failure.is_none() {
            state.failure = Some(error);
        }
        drop(state);
        self.cancel();
    }

    /// A domain could be replayed in part only.
    pub(crate) fn cut(&self, why: String) {
        let mut state = self.lock();
        if state.ended == Ended::Whole {
            state.ended = Ended::Cut(why);
        }
    }

    /// Cancels everything, for no error: the first such reason is kept.
    pub(crate) fn end_with(&self, ended: Ended) {
        let mut state = self.lock();
        if !self.is_cancelled() {
            state.ended = ended;
        }
        drop(state);
        self.cancel();
    }

    /// How it went, after all threads have ended. Reaps what is left.
    pub(crate) fn outcome(self) -> Result<Ended, ReplayError> {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        for pid in state.orphans {
            // It is our child and it was killed, so this ends soon; if it is not, there is nothing to reap.
            let _ = rustix::process::waitpid(as_pid(pid), rustix::process::WaitOptions::empty());
        }
        state.failure.map_or(Ok(state.ended), Err)
    }
}

/// A slot in use; dropping this gives it back.
pub(crate) struct Held<'b> {
    board: &'b Board,
    /// None while its owner waits for something.
    slot: Option<Slot>,
}

impl<'b> Held<'b> {
    pub(crate) fn new(board: &'b Board, slot: Option<Slot>) -> Held<'b> {
        Held { board, slot }
    }

    pub(crate) fn core(&self) -> Option<usize> {
        self.slot.as_ref().map(|slot| slot.core)
    }

    /// The slot is of another core from now on; the job that had that one next has ours.
    pub(crate) fn move_to(&mut self, core: usize) {
        let Some(slot) = &mut self.slot else { return };
        if let Some(other) = self.board.lock().free.iter_mut().find(|free| **free == core) {
            *other = slot.core;
        }
        slot.core = core;
    }

    /// Lets those go first that exist and want a slot now.
    ///
    /// # Errors
    /// [`Halt::Cancelled`].
    pub(crate) fn let_others(&mut self) -> Result<(), Halt> {
        if let Some(slot) = self.slot.take() {
            self.board.release(slot);
        }
        self.slot = Some(self.board.acquire(Class::Living).ok_or(Halt::Cancelled)?);
        Ok(())
    }

    /// Waits until all these turns have come. The slot is given back meanwhile if it has to wait at all, and
    /// another one taken afterwards.
    ///
    /// # Errors
    /// [`Halt::Cancelled`], and [`Halt::Cut`] when no domain is left that could end the turn before.
    pub(crate) fn await_turns(&mut self, turns: &[Turn]) -> Result<(), Halt> {
        let board = self.board;
        let mut state = board.lock();
        if state.objects.have_come(turns) {
            return Ok(());
        }
        let ticket = state.ticket();
        let woken = Arc::new(Condvar::new());
        state.add_waiting(ticket, Waiting { turns: turns.to_vec(), woken: Arc::clone(&woken) });
        if let Some(slot) = self.slot.take() {
            state.free.push(slot.core);
            state.offer();
        }
        let result = loop {
            if board.is_cancelled() {
                break Err(Halt::Cancelled);
            }
            if !state.waiting.contains_key(&ticket) {
                break Ok(());
            }
            if state.is_stuck() {
                break Err(Halt::Cut("it waits for a domain whose events end before".into()));
            }
            state = wait(&woken, state);
        };
        // It may still be among those awaited: a domain that is not waiting any more is passed over there.
        state.waiting.remove(&ticket);
        drop(state);
        result?;
        self.slot = Some(board.acquire(Class::Living).ok_or(Halt::Cancelled)?);
        Ok(())
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            self.board.release(slot);
        }
    }
}

fn wait<'a>(woken: &Condvar, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
    woken.wait(state).unwrap_or_else(PoisonError::into_inner)
}

impl State {
    /// A number that nobody else has.
    fn ticket(&mut self) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        ticket
    }

    /// If a slot is free, wakes the one whose it is.
    fn offer(&self) {
        if !self.free.is_empty()
            && let Some((_, woken)) = self.queue.first_key_value()
        {
            woken.notify_one();
        }
    }

    /// Somebody waits from now on; if all its turns have come, it need not, and is woken.
    fn add_waiting(&mut self, ticket: u64, waiting: Waiting) {
        match waiting.turns.iter().find(|turn| !self.objects.have_come(&[**turn])) {
            Some(turn) => {
                self.awaited.entry(turn.object).or_default().insert((turn.turn, ticket));
                self.waiting.insert(ticket, waiting);
            }
            None => waiting.woken.notify_one(),
        }
    }

    /// A turn of this object has come: a domain that waited for it waits for the next of its turns, or not
    /// any longer.
    fn come(&mut self, object: ObjectId) {
        while let Some(awaited) = self.awaited.get_mut(&object)
            && let Some(&(turn, ticket)) = awaited.first()
            && self.objects.have_come(&[Turn { object, turn }])
        {
            awaited.pop_first();
            if awaited.is_empty() {
                self.awaited.remove(&object);
            }
            if let Some(waiting) = self.waiting.remove(&ticket) {
                self.add_waiting(ticket, waiting);
            }
        }
    }

    /// Does every domain that has not ended wait, each for a turn that has not come?
    fn is_stuck(&self) -> bool {
        self.waiting.len() >= self.active
    }

    fn wake_all(&self) {
        self.waiting.values().map(|waiting| &waiting.woken).chain(self.queue.values()).for_each(|woken| {
            woken.notify_one();
        });
    }
}

#[cfg(test)]
mod tests {
    use std::{io, thread, time::Duration};

    use bis_trace::types::ObjectId;

    use super::*;
    use crate::objects;

    const OBJECT: ObjectId = ObjectId(1);

    fn turn(turn: u64) -> Turn {
        Turn { object: OBJECT, turn }
    }

    fn with_object(jobs: usize, active: usize) -> Board {
        let board = Board::new(vec![0; jobs], active);
        let file = objects::make(OBJECT, 1, None).unwrap();
        board.add_object(OBJECT, file).unwrap();
        board
    }

    #[test]
    fn who_waits_for_a_turn_lends_its_slot() {
        let board = with_object(1, 2);
        thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                let mut held = Held::new(&board, board.acquire(Class::New));
                let result = held.await_turns(&[turn(1)]);
                assert!(result.is_ok() && held.core().is_some());
            });
            // With the only slot lent, this can begin; then the turn comes.
            while board.lock().waiting.is_empty() {
                thread::sleep(Duration::from_millis(1));
            }
            let slot = board.acquire(Class::New).unwrap();
            board.end_turn(turn(0), false).unwrap();
            board.release(slot);
            waiter.join().unwrap();
        });
    }

    /// Of two objects, whichever comes first.
    #[test]
    fn who_waits_for_several_turns_goes_on_when_the_last_has_come() {
        let other = ObjectId(2);
        let both = [turn(2), Turn { object: other, turn: 1 }];
        for first in [OBJECT, other] {
            let board = with_object(1, 2);
            board.add_object(other, objects::make(other, 1, None).unwrap()).unwrap();
            thread::scope(|scope| {
                let waiter = scope.spawn(|| Held::new(&board, None).await_turns(&both));
                while board.lock().waiting.is_empty() {
                    thread::sleep(Duration::from_millis(1));
                }
                let end = |object, turn| board.end_turn(Turn { object, turn }, false).unwrap();
                end(OBJECT, 0);
                let later = if first == OBJECT { (other, 0) } else { (OBJECT, 1) };
                if first == OBJECT {
                    end(OBJECT, 1)
                } else {
                    end(other, 0)
                }
                assert_eq!(board.lock().waiting.len(), 1, "one of its turns has not come");
                end(later.0, later.1);
                assert!(waiter.join().unwrap().is_ok());
            });
            assert!(board.lock().waiting.is_empty() && board.lock().awaited.is_empty());
        }
    }

    #[test]
    fn a_turn_that_cannot_come_is_a_cut_and_not_a_hang() {
        let board = with_object(2, 3);
        thread::scope(|scope| {
            for wanted in [2, 3] {
                let board = &board;
                scope.spawn(move || {
                    let result = Held::new(board, board.acquire(Class::New)).await_turns(&[turn(wanted)]);
                    assert!(matches!(result, Err(Halt::Cut(_))), "{result:?}");
                    board.remove_active();
                });
            }
            thread::sleep(Duration::from_millis(20));
            assert_eq!(board.lock().waiting.len(), 2, "a third domain may still end the turn");
            board.remove_active();
        });
    }

    #[test]
    fn the_first_failure_wakes_everybody_and_is_kept() {
        let board = with_object(1, 5);
        thread::scope(|scope| {
            scope.spawn(|| {
                let result = Held::new(&board, None).await_turns(&[turn(7)]);
                assert!(matches!(result, Err(Halt::Cancelled)));
            });
            let slot = board.acquire(Class::New).unwrap();
            scope.spawn(|| assert!(board.acquire(Class::Living).is_none()));
            thread::sleep(Duration::from_millis(5));
            board.fail(ReplayError::Machine("first".into()));
            board.fail(ReplayError::io("second", io::ErrorKind::Other.into()));
            board.release(slot);
        });
        assert!(matches!(board.outcome(), Err(ReplayError::Machine(text)) if text == "first"));
    }

    #[test]
    fn domains_that_exist_go_before_new_ones() {
        let board = Board::new(vec![0], 2);
        let slot = board.acquire(Class::New).unwrap();
        let order = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for class in [Class::New, Class::Living] {
                let (board, order) = (&board, &order);
                scope.spawn(move || {
                    let slot = board.acquire(class).unwrap();
                    order.lock().unwrap().push(class);
                    board.release(slot);
                });
            }
            while board.lock().queue.len() < 2 {
                thread::sleep(Duration::from_millis(1));
            }
            board.release(slot);
        });
        assert_eq!(*order.lock().unwrap(), [Class::Living, Class::New]);
    }
}
