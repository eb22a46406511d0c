//! The books, whatever comes in whatever order, against a model that has of each task only what its tracer
//! could know.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::{tests::holds, *};

const TRACERS: [Tid; 2] = [Tid(1), Tid(2)];
const TASKS: [Tid; 3] = [Tid(11), Tid(12), Tid(13)];

#[derive(Clone, Copy, Debug)]
enum Op {
    Enter { tid: Tid, tracer: Tid, is_child: bool },
    Holds(Tid),
    LetGo(Tid, Mode),
    Hears(Tid),
    Ends(Tid),
    Waits { tracer: Tid, keeps: bool },
    TracerEnds(Tid),
}

fn op() -> impl Strategy<Value = Op> {
    let tid = || prop::sample::select(TASKS.to_vec());
    let tracer = || prop::sample::select(TRACERS.to_vec());
    let mode = prop::sample::select(vec![Mode::Cont, Mode::Syscall, Mode::Listen, Mode::Detached]);
    prop_oneof![
        4 => (tid(), tracer(), any::<bool>()).prop_map(|(tid, tracer, is_child)| {
            Op::Enter { tid, tracer, is_child }
        }),
        4 => tid().prop_map(Op::Holds),
        3 => (tid(), mode).prop_map(|(tid, mode)| Op::LetGo(tid, mode)),
        3 => tid().prop_map(Op::Hears),
        2 => tid().prop_map(Op::Ends),
        4 => (tracer(), any::<bool>()).prop_map(|(tracer, keeps)| Op::Waits { tracer, keeps }),
        1 => tracer().prop_map(Op::TracerEnds),
    ]
}

/// What is to be told of a task, and to whom.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct News {
    tracer: Tid,
    status: i32,
    is_end: bool,
}

#[derive(Default)]
struct Model {
    /// Who traces the task. One that has ended may still be told of.
    tracers: BTreeMap<Tid, Tid>,
    children: BTreeSet<Tid>,
    holding: BTreeSet<Tid>,
    /// Let go on, and its supervisor has not heard of it: for ever?
    released: BTreeMap<Tid, bool>,
    news: BTreeMap<Tid, News>,
}

impl Model {
    fn forget(&mut self, tid: Tid) {
        self.tracers.remove(&tid);
        self.children.remove(&tid);
        self.holding.remove(&tid);
        self.news.remove(&tid);
    }

    /// The next that a wait of this tracer tells: of the task with the lowest number.
    fn next(&self, tracer: Tid) -> Option<(Tid, i32)> {
        self.news.iter().find(|(_, news)| news.tracer == tracer).map(|(tid, news)| (*tid, news.status))
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn a_tracer_hears_of_each_stop_and_end_of_its_own_tracees_once(
        ops in prop::collection::vec(op(), 0..60),
    ) {
        let (books, mut model) = (Books::default(), Model::default());
        for (op, status) in ops.into_iter().zip(100..) {
            match op {
                Op::Enter { tid, tracer, is_child } => {
                    let tracee = Tracee { is_child, ..Tracee::new(tracer, tid, DomainId(1)) };
                    let is_free = !model.tracers.contains_key(&tid);
                    prop_assert_eq!(books.enter(tid, tracee), is_free, "{:?}", op);
                    if is_free {
                        model.forget(tid);
                        model.tracers.insert(tid, tracer);
                        model.children.extend(is_child.then_some(tid));
                    }
                }
                // A task that is about to go on holds again only when its supervisor has heard of that.
                Op::Holds(tid) if model.tracers.contains_key(&tid) && !model.released.contains_key(&tid) => {
                    books.with_live(tid, |it| it.state = holds(status));
                    model.holding.insert(tid);
                    model.news.insert(tid, News { tracer: model.tracers[&tid], status, is_end: false });
                }
                Op::Holds(_) => {}
                Op::LetGo(tid, mode) if model.tracers.contains_key(&tid) => {
                    let is_held = model.holding.remove(&tid);
                    let is_detached = mode == Mode::Detached;
                    let is_heard = is_held || model.released.contains_key(&tid);
                    prop_assert_eq!(books.let_go(tid, mode, None).is_some(), is_heard);
                    model.news.remove(&tid);
                    if is_held {
                        model.released.insert(tid, is_detached);
                    }
                    if is_detached {
                        model.released.entry(tid).and_modify(|it| *it = true);
                        model.forget(tid);
                    }
                }
                Op::LetGo(..) => {}
                Op::Hears(tid) => {
                    let heard = books.take_released(tid).map(|(_, _, mode)| mode == Mode::Detached);
                    prop_assert_eq!(heard, model.released.remove(&tid));
                }
                Op::Ends(tid) => {
                    let told = model.tracers.get(&tid).copied().filter(|_| !model.children.contains(&tid));
                    prop_assert_eq!(books.end(tid, status), told);
                    // Of one that has ended before, its tracer may still have to hear.
                    if model.tracers.contains_key(&tid) || model.released.contains_key(&tid) {
                        model.forget(tid);
                        model.released.remove(&tid);
                        model.news.extend(told.map(|tracer| (tid, News { tracer, status, is_end: true })));
                    }
                }
                Op::Waits { tracer, keeps } => {
                    let next = model.next(tracer);
                    prop_assert_eq!(books.has_report(tracer, |_, _| true), next.is_some());
                    prop_assert_eq!(books.take_report(tracer, keeps, |_, _| true), next);
                    if !keeps && let Some((tid, _)) = next {
                        model.news.remove(&tid);
                    }
                }
                Op::TracerEnds(tracer) => {
                    for tid in books.of_tracer(tracer) {
                        let is_held = model.holding.contains(&tid) || model.released.contains_key(&tid);
                        prop_assert_eq!(books.let_go(tid, Mode::Detached, None).is_some(), is_held);
                        model.released.extend(is_held.then_some((tid, true)));
                        model.forget(tid);
                    }
                }
            }
            for tid in TASKS {
                // One whom nobody traces any more, and whose supervisor has not heard of that yet, is in the
                // books still.
                let is_known = model.tracers.contains_key(&tid) || model.released.contains_key(&tid);
                prop_assert_eq!(books.is_tracee(tid), is_known, "{} after {:?}", tid, op);
                let is_stopped = model.holding.contains(&tid) || is_listening(&books, tid);
                prop_assert_eq!(books.is_stopped(tid), is_stopped);
            }
            for tracer in TRACERS {
                let waited = model.tracers.values().any(|it| *it == tracer)
                    || model.news.values().any(|news| news.is_end && news.tracer == tracer);
                prop_assert_eq!(books.has_tracee(tracer, |_, _| true), waited);
            }
        }
    }
}

fn is_listening(books: &Books, tid: Tid) -> bool {
    books.with_live(tid, |it| it.mode == Mode::Listen) == Some(true)
}

/// As the kernel has it: a task that its tracer has let go on while its process is stopped runs alone, until
/// that is stopped anew, and the tracer may ask it to stop.
#[test]
fn a_task_runs_alone_in_its_stopped_process_until_something_else_is_wanted_of_it() {
    let books = Books::default();
    let (pid, other, tid) = (Tid(20), Tid(30), TASKS[0]);
    books.note_stop(pid);
    assert!(!books.runs_alone(tid));
    assert!(books.enter(tid, Tracee::new(TRACERS[0], pid, DomainId(1))));
    assert!(!books.runs_alone(tid), "its process is not stopped");
    books.with(tid, |it| it.is_stop_told = true);
    assert!(books.runs_alone(tid));
    books.note_stop(other);
    assert!(books.runs_alone(tid), "that is another process");
    books.with(tid, |it| it.is_asked = true);
    assert!(books.is_asked(tid) && !books.runs_alone(tid));
    books.with(tid, |it| (it.is_asked, it.mode) = (false, Mode::Listen));
    assert!(!books.is_asked(tid) && !books.runs_alone(tid) && books.is_stopped(tid));
    books.with(tid, |it| (it.mode, it.state) = (Mode::Cont, holds(7)));
    assert!(!books.runs_alone(tid) && books.is_stopped(tid));
    books.with(tid, |it| it.state = State::Runs);
    books.note_stop(pid);
    assert!(!books.runs_alone(tid));
    books.with(tid, |it| (it.is_stop_told, it.state) = (true, State::Ended(9)));
    assert!(!books.runs_alone(tid) && !books.is_stopped(tid));
}

#[test]
fn a_process_is_concerned_by_its_tracees_and_by_its_tracers() {
    let books = Books::default();
    assert!(!books.concerns(Tid(20)));
    assert!(books.enter(TASKS[0], Tracee::new(TRACERS[0], Tid(20), DomainId(1))));
    assert!(books.concerns(Tid(20)) && books.concerns(TRACERS[0]) && !books.concerns(TRACERS[1]));
    assert!(!books.concerns(TASKS[0]), "a thread is no process");
    assert_eq!(books.of_tracer(TRACERS[0]), [TASKS[0]]);
    books.remove(TASKS[0]);
    assert!(!books.concerns(Tid(20)) && books.of_tracer(TRACERS[0]).is_empty());
}

#[test]
fn what_is_touched_is_told_once() {
    let books = Books::default();
    assert!(books.enter(TASKS[0], Tracee::new(TRACERS[0], Tid(20), DomainId(1))));
    assert!(!books.is_watched(TASKS[0]) && !books.take_touch(TASKS[0]));
    // Register 0, for writes of 8 bytes.
    let set = books.with(TASKS[0], |it| it.debug.set([0x1000, 0, 0, 0], 1 | 0b1001 << 16));
    assert_eq!(set, Some(true));
    books.with(TASKS[0], |it| it.debug.is_due = true);
    assert!(books.is_watched(TASKS[0]));
    assert!(books.take_touch(TASKS[0]) && !books.take_touch(TASKS[0]));
}

#[test]
fn a_tracer_sees_what_tracers_have_written_until_an_event_says_it() {
    let books = Books::default();
    let piece = |addr: u64, data: &[u8]| MemWrite { addr: Addr(addr), data: data.to_vec() };
    books.write(DomainId(1), piece(0x1000, &[1, 2, 3]));
    books.write(DomainId(1), piece(0x1001, &[9]));
    books.write(DomainId(2), piece(0x1000, &[7]));
    let read = |addr: u64| {
        let mut bytes = [0xff; 4];
        books.overlay(DomainId(1), Addr(addr), &mut bytes);
        bytes
    };
    assert_eq!(read(0x1000), [1, 9, 3, 0xff]);
    assert_eq!(read(0xffe), [0xff, 0xff, 1, 9]);
    assert_eq!(read(0x1002), [3, 0xff, 0xff, 0xff]);
    assert_eq!(books.take_writes(DomainId(1)), [piece(0x1000, &[1, 2, 3]), piece(0x1001, &[9])]);
    assert_eq!((books.take_writes(DomainId(1)), read(0x1000)), (vec![], [0xff; 4]));
}
