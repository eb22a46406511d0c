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
use crate::{Halt, Interrupt, Limit, Replica, Solo, Stop, World};

const ROUNDS: u16 = 2000;
/// The first instruction of a round, and the second, which a jump in the first one's place covers, too.
const FIRST: Addr = Addr(CODE + 5);
const SECOND: Addr = Addr(CODE + 7);

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
/// where that lies in text that has given way to a jump which counts.
#[test]
fn an_interrupt_behind_a_breakpoint_is_no_second_arrival() {
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
        let counts = AssertUnwindSafe(|| count_stops(&mut host, &mut replica, &interrupt));
        let counts = catch_unwind(counts);
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(counts.unwrap().unwrap(), (ROUNDS.into(), [ROUNDS.into(); 2]));
    });
}

/// How often the task stops at the second instruction up to its next event, and comes to each of the two.
fn count_stops<'t>(
    host: &mut Solo<'t>,
    replica: &mut Replica<'t>,
    interrupt: &Interrupt,
) -> Result<(u64, [u64; 2]), Halt> {
    let each = Limit { each_event: true, ..Limit::default() };
    host.advance(replica, &each, &mut |_, _| {})?;
    replica.set_points(&BTreeSet::from([FIRST, SECOND]))?;
    assert!(replica.count_arrivals(FIRST, None)?, "the program does not count");
    let limit = Limit { interrupt: Some(interrupt), ..each };
    let mut stops = 0;
    loop {
        match host.advance(replica, &limit, &mut |_, _| {})? {
            Stop::Interrupted => {
                interrupt.take();
            }
            Stop::Point(_, addr) => {
                assert_eq!(addr, SECOND);
                stops += 1;
            }
            Stop::Event(_) => break,
            stop => panic!("{stop:?}"),
        }
    }
    let before = |addr| replica.traps().arrivals_before(addr);
    Ok((stops, [before(FIRST), before(SECOND)]))
}
