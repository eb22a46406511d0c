//! The table against the kernel that runs the tests: real system calls, made three times each.
//!
//! A case lays its arguments out in an arena of poison. Twice, with different poisons, the call is made where
//! the arguments are: every byte that changed must lie in what `outputs` says, and every byte that it says of
//! an `Out` piece must have changed in one of the two (else a recorder that relocates would copy rubbish
//! home). The third time the pieces are relocated as the recorder does it: then nothing at home may change
//! but fixed pieces, and in scratch only the outputs.
//!
//! This file and its modules are the one place of the crate that has unsafe code: the calls themselves.

mod arena;
mod cases;
mod more;
#[path = "../common/native.rs"]
mod native;

use arena::Arena;
use bis_syscalls::{Call, Dir, Output, Plan, Planned, Slot, describe, plan};
use native::Native;
use std::collections::HashSet;

/// What a case wants to come out of its call.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Want {
    Success,
    Errno(i32),
}

/// The cases so far, by call number.
#[derive(Default)]
pub struct Checked {
    calls: HashSet<u64>,
    succeeded: HashSet<u64>,
}

fn make(call: &Call) -> i64 {
    let [a, b, c, d, e, f] = call.args;
    // SAFETY: the cases pass addresses in the arena only, with room for what the call writes.
    let ret = unsafe { libc::syscall(i64::try_from(call.nr).unwrap(), a, b, c, d, e, f) };
    if ret == -1 { -i64::from(std::io::Error::last_os_error().raw_os_error().unwrap()) } else { ret }
}

fn planned(call: &Call) -> Plan {
    match plan(call, &Native) {
        Planned::Plan(plan) => plan,
        other => panic!("{}: {other:?}", describe(call, None)),
    }
}

fn covers(plan: &Plan, outputs: &[Output], place: &[u64], addr: u64) -> bool {
    outputs.iter().any(|o| {
        assert!(o.offset + o.len <= plan.pieces[o.piece].len);
        (place[o.piece] + o.offset..place[o.piece] + o.offset + o.len).contains(&addr)
    })
}

impl Checked {
    /// Checks the call that `lay` lays out in an arena; it is asked anew for each time the call is made.
    pub fn call(&mut self, nr: i64, want: Want, lay: impl Fn(&mut Arena) -> [u64; 6]) {
        self.call_as(nr, want, &lay);
    }

    /// Built once, not for each case.
    fn call_as(&mut self, nr: i64, want: Want, lay: &dyn Fn(&mut Arena) -> [u64; 6]) {
        let nr = u64::try_from(nr).unwrap();
        let mut changed = Vec::new();
        let mut claimed = Vec::new();
        for poison in [0xa5, 0x5a] {
            let mut arena = Arena::new(poison);
            let call = Call { nr, args: lay(&mut arena) };
            let plan = planned(&call);
            let before = arena.copy();
            let ret = make(&call);
            verdict(&call, ret, want);
            let place: Vec<u64> = plan.pieces.iter().map(|p| p.home).collect();
            let outputs = plan.outputs(ret, &|i| place[i], &Native);
            let here = arena.changed(&before);
            for &addr in &here {
                let at = addr - arena.base();
                assert!(
                    covers(&plan, &outputs, &place, addr),
                    "{}: byte {at} of the arena changed, outputs {outputs:?} of {plan:#?}",
                    describe(&call, Some(ret))
                );
            }
            changed.extend(here.iter().map(|addr| addr - arena.base()));
            claimed.push(outputs.iter().filter(|o| plan.pieces[o.piece].dir == Dir::Out).fold(
                Vec::new(),
                |mut all, o| {
                    let from = place[o.piece] + o.offset - arena.base();
                    all.extend(from..from + o.len);
                    all
                },
            ));
        }
        let changed: HashSet<u64> = changed.into_iter().collect();
        for at in claimed.iter().flatten().filter(|at| claimed.iter().all(|c| c.contains(at))) {
            assert!(changed.contains(at), "call {nr}: byte {at} is said to be written, and is not");
        }
        self.relocated(nr, want, lay);
        self.calls.insert(nr);
        if want == Want::Success {
            self.succeeded.insert(nr);
        }
    }

    fn relocated(&self, nr: u64, want: Want, lay: &dyn Fn(&mut Arena) -> [u64; 6]) {
        let mut home = Arena::new(0xa5);
        let mut call = Call { nr, args: lay(&mut home) };
        let plan = planned(&call);
        let mut scratch = Arena::new(0x3c);
        let mut place = Vec::new();
        for piece in &plan.pieces {
            if piece.fixed {
                place.push(piece.home);
                continue;
            }
            let len = usize::try_from(piece.len).unwrap();
            let at = scratch.room(len);
            if piece.dir != Dir::Out {
                let bytes = home.get(piece.home, len).to_vec();
                scratch.set(at, &bytes);
            }
            match piece.slot {
                Slot::Arg(i) => call.args[usize::from(i)] = at,
                Slot::In { piece, offset } => scratch.set(place[piece] + offset, &at.to_le_bytes()),
            }
            place.push(at);
        }
        let (home_before, scratch_before) = (home.copy(), scratch.copy());
        let ret = make(&call);
        verdict(&call, ret, want);
        let outputs = plan.outputs(ret, &|i| place[i], &Native);
        for addr in home.changed(&home_before) {
            assert!(
                plan.pieces.iter().any(|p| p.fixed && (p.home..p.home + p.len).contains(&addr)),
                "{}: relocated, and yet byte {} at home changed",
                describe(&call, Some(ret)),
                addr - home.base()
            );
        }
        for addr in scratch.changed(&scratch_before) {
            assert!(
                covers(&plan, &outputs, &place, addr),
                "{}: byte {} of scratch changed, outputs {outputs:?} of {plan:#?}",
                describe(&call, Some(ret)),
                addr - scratch.base()
            );
        }
    }
}

fn verdict(call: &Call, ret: i64, want: Want) {
    match want {
        Want::Success => assert!(ret >= 0, "{}", describe(call, Some(ret))),
        Want::Errno(errno) => assert_eq!(ret, -i64::from(errno), "{}", describe(call, Some(ret))),
    }
}

/// One test, since the calls change state of the whole process (masks, descriptors).
#[test]
fn the_kernel_writes_what_the_table_says() {
    let mut checked = Checked::default();
    cases::run(&mut checked);
    more::run(&mut checked);
    let count = checked.succeeded.len();
    assert!(count >= 60, "only {count} different calls were checked in success");
    println!("{} different calls, {count} of them in success", checked.calls.len());
}
