//! Locks that are taken anew before those who wait for them have their turns (`task/too_late.rs`): whoever
//! gives such a lock back gives way there, to a task of its own process or to another process.

use std::{
    sync::atomic::Ordering,
    thread,
    time::{Duration, Instant},
};

use bis_agent::hooks::state;
use bis_syscalls::{Call, FutexUse, futex_use};
use bis_trace::types::{Addr, Tid};

use crate::{
    crew::Crew,
    domain::Domain,
    latecomers::Place,
    process::Process,
    stuck::HOOKED_MIN,
    task::{Handle, Task},
};

/// How long a process that has been woken has to ask for what it needs to go on, and how often it is looked
/// whether it has.
const ASKS_WITHIN: Duration = Duration::from_millis(2);
const LOOK: Duration = Duration::from_micros(20);

impl Process {
    /// A task makes this call: does it wait for a lock for which it comes too late?
    pub fn note_wait(&mut self, tid: Tid, call: &Call) {
        let (hooked, now) = (self.hooked(), Instant::now());
        let lock = match futex_use(call) {
            Some(FutexUse::Wait(addr)) => Some(Addr(addr)),
            Some(FutexUse::Wake(_)) | None => None,
        };
        let place = lock.and_then(|lock| self.place(lock));
        let Process { crew: Crew { tasks, session, .. }, .. } = self;
        let Some(task) = tasks.get_mut(&tid) else { return };
        let Some(lock) = lock else { return task.too_late.do_other() };
        task.too_late.wait(lock, hooked, now);
        if task.too_late.is_so(now) {
            task.latecomer = place.map(|place| session.latecomers.add(place, now));
            if task.latecomer.is_some() {
                // Whoever wakes it has to have the same tokens, and hears of it with them.
                task.too_late.let_in(lock, now);
            }
        }
    }

    /// A task goes on in its program, so many hooked calls having been made.
    fn note_going_on(&mut self, tid: Tid, hooked: u64) {
        if let Some(task) = self.tasks.get_mut(&tid).filter(|task| task.call.is_none()) {
            task.latecomer = None;
            task.too_late.go_on(hooked, Instant::now());
        }
    }

    /// How many calls hooks have made.
    pub fn hooked(&self) -> u64 {
        self.hooks.as_ref().map_or(0, |hooks| hooks.area.get(state::COUNT))
    }

    /// Where a lock is, for other processes; none: they do not have it.
    fn place(&self, lock: Addr) -> Option<Place> {
        let range = self.space.shared().at(lock)?;
        Some((range.object, range.offset + (lock - range.start)))
    }
}

impl Crew {
    /// Does somebody else than this task come too late for a lock, so that it is to be seen who gives it
    /// back?
    pub fn is_anybody_too_late(&self, tid: Tid) -> bool {
        let now = Instant::now();
        self.tasks.values().any(|task| task.tid != tid && task.too_late.is_so(now))
            || self.session.latecomers.are_there(now)
    }
}

impl Domain {
    /// This task has had its turn, and others wait for theirs. True: nobody else gets on, and it is led on
    /// for some instructions first.
    pub fn lead_on_if_stuck(&mut self, tid: Tid, now: Instant) -> bool {
        let hooked = self.hooked();
        // With chaos, turns end anywhere; a user's points and recorded steps are not to be missed.
        if self.session.chaos.is_some() || self.guided.is_some() || self.session.steps.is_some() {
            return false;
        }
        // A step is none of its counts, and a tracer of the program's own makes its steps itself.
        let may_step = |task: &&Task| {
            task.is_plain() && task.counter.is_none() && !self.session.traced.concerns(task.pid)
        };
        let Some(task) = self.tasks.get(&tid).filter(may_step) else { return false };
        let Handle::Stopped(stopped) = &task.handle else { return false };
        let Ok(regs) = stopped.regs() else { return false };
        let others = self.session.moves.load(Ordering::Relaxed) - self.moves;
        self.led_on = self.stuck.lose_turn((tid, regs.ip()), hooked, others, now);
        self.led_on.is_some()
    }

    /// A task goes on in its program.
    pub fn note_way_on(&mut self, tid: Tid) {
        let hooked = self.hooked();
        self.note_going_on(tid, hooked);
        self.stuck.go_on(tid, hooked);
    }

    /// This task does something else than to wait for others.
    pub fn note_move(&mut self, tid: Tid) {
        self.stuck.moves(tid);
        if self.holds_tokens() {
            self.tell_of_move();
        }
    }

    /// The domain has had its turn with what it shares with others: it has done something if its hooks have
    /// made many calls.
    pub fn note_tokens_given(&mut self) {
        let hooked = self.hooked();
        if hooked.saturating_sub(self.hooked_before) >= HOOKED_MIN {
            self.tell_of_move();
        }
        self.hooked_before = hooked;
    }

    fn tell_of_move(&mut self) {
        self.moves += 1;
        self.session.moves.fetch_add(1, Ordering::Relaxed);
    }

    /// A call of this task has had this result: if it has woken somebody who comes too late each time, the
    /// task gives way, and the other one gets a moment to come out of its wait.
    pub fn let_late_in(&mut self, tid: Tid, call: &Call, result: i64) {
        let Some(FutexUse::Wake(addr)) = futex_use(call).filter(|_| result > 0) else { return };
        let now = Instant::now();
        // Of several, the kernel says nowhere which it has woken. Each of the others is woken so later.
        let others = self.process.crew.tasks.values_mut().filter(|task| task.tid != tid);
        let late = others.filter_map(|task| task.too_late.let_in(Addr(addr), now).then_some(task.tid));
        if let Some(late) = late.last() {
            self.woken = Some(late);
            self.turns.give_way(tid, now);
        } else if self.place(Addr(addr)).is_some_and(|place| self.session.latecomers.are_at(place, now)) {
            while !self.session.registry.is_wanted() && now.elapsed() < ASKS_WITHIN {
                thread::sleep(LOOK);
            }
            self.gives_up = true;
        }
    }
}
