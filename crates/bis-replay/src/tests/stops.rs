//! One task whose driver has breakpoints in it.

use std::{
    collections::BTreeSet,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use bis_trace::types::{Addr, Registers};

use super::*;
use crate::{Ahead, Halt, Interrupt, Limit, Replica, Solo, Stop, World};

const ROUNDS: u16 = 500;
/// The first instruction of a round, and the second, which a jump in the first one's place covers, too.
const FIRST: Addr = Addr(CODE + 5);
const SECOND: Addr = Addr(CODE + 7);
/// The one behind these.
const THIRD: Addr = Addr(CODE + 10);

/// A loop, and `exit_group`.
fn rounds() -> Tape {
    let [low, high] = ROUNDS.to_le_bytes();
    // mov ecx, ROUNDS; then test eax, eax; lea edx, [rcx]; dec ecx; jnz
    let begin = [0xb9, low, high, 0, 0];
    let round = [0x85, 0xc0, 0x8d, 0x51, 0x00, 0xff, 0xc9, 0x75, 0xf7];
    let mut tape = Tape::new();
    tape.exec(A, &[&begin[..], &round, &call_code(231)].concat());
    let regs = Registers { rdx: 1, eflags: 0x246, ..first_regs() };
    tape.exit(A, at_call(&regs, 21, 231));
    tape
}

/// Whenever it is interrupted while it goes on from a breakpoint, it does not come there a second time: also
/// where that lies in text that has given way to a jump which counts, and where a copy goes on in its place.
#[test]
fn an_interrupt_behind_a_breakpoint_is_no_second_arrival() {
    for counted in [Some(FIRST), Some(SECOND), None] {
        for goes_on_as_copy in [false, true] {
            let stops = u64::from(ROUNDS) * if counted.is_some() { 1 } else { 2 };
            let found = interrupted(counted, goes_on_as_copy);
            assert_eq!(found, (stops, [ROUNDS.into(); 2]), "{counted:?} {goes_on_as_copy}");
        }
    }
}

/// Where nobody is told of arrivals, they cost a stop each only at first: then the program counts them.
#[test]
fn arrivals_that_are_only_counted_are_soon_counted_by_the_program() {
    let (_folder, trace) = rounds().trace(true);
    let world = World::new(&trace).unwrap();
    let mut host = Solo::new(&world, None);
    let mut replica = host.begin(A).unwrap();
    replica.attend();
    let each = Limit { each_event: true, ..Limit::default() };
    host.advance(&mut replica, &each, &mut |_, _| {}).unwrap();
    replica.set_points_and_counts(&BTreeSet::from([THIRD]), &BTreeSet::from([FIRST])).unwrap();
    let mut stops = 0;
    while let Stop::Point(_, addr) = host.advance(&mut replica, &each, &mut |_, _| {}).unwrap() {
        stops += 1;
        assert_eq!((addr, replica.traps().arrivals(FIRST)), (THIRD, stops));
        // Those are whole that no program counts.
        assert_eq!(replica.traps().all_arrivals().contains_key(&FIRST), stops < 64, "{stops}");
    }
    assert_eq!(stops, u64::from(ROUNDS));
}

/// How often the task stops at the two instructions up to its next event, and comes to each of them, while
/// it is interrupted all the time. At one of them, the program may count by itself.
fn interrupted(counted: Option<Addr>, goes_on_as_copy: bool) -> (u64, [u64; 2]) {
    let (_folder, trace) = rounds().trace(true);
    let world = World::new(&trace).unwrap();
    let mut host = Solo::new(&world, None);
    let mut replica = host.begin(A).unwrap();
    replica.attend();
    let (interrupt, is_over) = (Interrupt::default(), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut wait = 0;
            while !is_over.load(Ordering::Relaxed) {
                wait = (wait + 7) % 50;
                thread::sleep(Duration::from_micros(wait));
                interrupt.ask();
            }
        });
        let stops = || count_stops(&mut host, &mut replica, counted, goes_on_as_copy, &interrupt);
        let stops = catch_unwind(AssertUnwindSafe(stops));
        is_over.store(true, Ordering::Relaxed);
        let arrivals = [FIRST, SECOND].map(|addr| replica.traps().arrivals_before(addr));
        (stops.unwrap().unwrap(), arrivals)
    })
}

fn count_stops<'t>(
    host: &mut Solo<'t>,
    replica: &mut Replica<'t>,
    counted: Option<Addr>,
    goes_on_as_copy: bool,
    interrupt: &Interrupt,
) -> Result<u64, Halt> {
    let each = Limit { each_event: true, ..Limit::default() };
    host.advance(replica, &each, &mut |_, _| {})?;
    replica.set_points(&BTreeSet::from([FIRST, SECOND]))?;
    if let Some(counted) = counted {
        assert!(replica.count_arrivals(counted, None, Ahead::Event)?, "the program does not count");
    }
    let limit = Limit { interrupt: Some(interrupt), ..each };
    let mut stops = 0;
    loop {
        match host.advance(replica, &limit, &mut |_, _| {})? {
            Stop::Interrupted => {
                if goes_on_as_copy && let Some(mut copy) = replica.checkpoint(&mut host.company)? {
                    (*replica, host.company) = copy.resume()?;
                }
                interrupt.take();
            }
            Stop::Point(_, addr) => {
                assert_ne!(Some(addr), counted);
                stops += 1;
            }
            Stop::Event(_) => return Ok(stops),
            stop => panic!("{stop:?}"),
        }
    }
}
