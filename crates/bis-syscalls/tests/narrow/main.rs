//! Translated 32-bit calls against the kernel that runs the tests.
//!
//! A 64-bit process can make calls of the i386 table, too, by `int 0x80`. So each case is laid out twice at
//! the same addresses below 4 GiB: once the kernel is given the 32-bit call itself, and once the x86-64 call
//! that `translate` makes of it. Result and memory must be the same afterwards, byte by byte.
//!
//! Calls that the kernel makes as they are (`Own`) have nothing to compare, and are not here. This file and
//! its modules have unsafe code: the calls themselves.

mod cases;
mod low;
mod more;
#[path = "../common/native.rs"]
mod native;

use bis_syscalls::narrow::{NarrowCall, Translated, name, translate};
use bis_syscalls::{Call, Memory};
use low::{Low, int80};
use native::Native;
use std::collections::{BTreeSet, HashSet};

/// How exact the two ways are compared.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Same {
    /// Every byte, and the result.
    Bytes,
    /// Which bytes are written, and whether it succeeds: the values differ from call to call.
    Places,
}

impl Same {
    /// What lies in memory beforehand, a round for each. A byte that is written is only seen where it differs
    /// from the poison, so values that nobody can foretell are asked for more often: a round may be missed.
    fn poisons(self) -> &'static [u8] {
        match self {
            Same::Bytes => &[0xa5, 0x5a],
            Same::Places => &[0xa5, 0x5a, 0xc7, 0x39, 0xf6],
        }
    }
}

/// The calls so far that were checked, by name.
#[derive(Default)]
pub struct Checked {
    calls: HashSet<&'static str>,
    succeeded: HashSet<&'static str>,
}

fn make(call: &Call) -> i64 {
    let [a, b, c, d, e, f] = call.args;
    // SAFETY: the cases pass addresses in low memory only, with room for what the call writes.
    let ret = unsafe { libc::syscall(i64::try_from(call.nr).unwrap(), a, b, c, d, e, f) };
    if ret == -1 { -i64::from(std::io::Error::last_os_error().raw_os_error().unwrap()) } else { ret }
}

/// The call by way of x86-64.
fn thunked(call: &NarrowCall, low: &mut Low) -> i64 {
    let thunk = match translate(call, low.room(), &Native) {
        Translated::Thunk(thunk) => thunk,
        Translated::Done(result) => return result,
        other => panic!("{:?}: {other:?}", name(call.nr)),
    };
    low.fill_room(&thunk.content);
    let (result, writes) = thunk.finish(make(&thunk.call), &Native);
    for (to, bytes) in writes {
        if !low.write(to, &bytes) {
            return -14;
        }
    }
    result
}

fn low_half(result: i64) -> u32 {
    u32::try_from(result & 0xffff_ffff).unwrap()
}

impl Checked {
    /// Checks the call that `lay` lays out; it is asked anew each time the call is made, and gets its state
    /// (descriptors and the like) as it was.
    pub fn call(&mut self, nr: u32, same: Same, lay: impl Fn(&mut Low) -> [u32; 6]) {
        self.call_as(nr, same, &lay);
    }

    /// Built once, not for each case.
    fn call_as(&mut self, nr: u32, same: Same, lay: &dyn Fn(&mut Low) -> [u32; 6]) {
        let name = name(nr).expect("a number of the table");
        let mut changed: [BTreeSet<usize>; 2] = Default::default();
        let mut succeeds = true;
        for poison in same.poisons() {
            let mut results = [0; 2];
            let mut memory: [Vec<u8>; 2] = Default::default();
            for (way, changed) in changed.iter_mut().enumerate() {
                let mut low = Low::new(*poison);
                let call = NarrowCall { nr, args: lay(&mut low) };
                let before = low.copy();
                results[way] = if way == 0 { int80(&call) } else { thunked(&call, &mut low) };
                memory[way] = low.copy();
                changed.extend((0..before.len()).filter(|i| before[*i] != memory[way][*i]));
            }
            let [native, ours] = results;
            match same {
                Same::Bytes => assert_eq!(
                    low_half(native),
                    low_half(ours),
                    "{name}: {native} by the kernel, {ours} translated"
                ),
                Same::Places => assert_eq!(native < 0, ours < 0, "{name}: {native} and {ours}"),
            }
            if same == Same::Bytes {
                let [native, ours] = &memory;
                if let Some(at) = (0..native.len()).find(|at| native[*at] != ours[*at]) {
                    let from = at & !15;
                    panic!(
                        "{name}: byte {at}: the kernel {:x?}, we {:x?}",
                        &native[from..from + 48],
                        &ours[from..from + 48]
                    );
                }
            }
            succeeds &= native >= 0;
        }
        if same == Same::Places {
            assert_eq!(changed[0], changed[1], "{name}: which bytes are written");
        }
        self.calls.insert(name);
        if succeeds {
            self.succeeded.insert(name);
        }
    }
}

/// One test, since the calls change state of the whole process (masks, descriptors).
#[test]
fn a_translated_call_does_what_the_32_bit_one_does() {
    if !low::has_int80() {
        println!("skipped: this kernel has no 32-bit calls");
        return;
    }
    // Counts of the whole system's shared memory are compared, too: where this may be had, nobody else's.
    // SAFETY: this thread has nothing in the namespace that it leaves.
    let alone = unsafe { libc::unshare(libc::CLONE_NEWIPC) };
    if alone != 0 {
        println!("shares System V's objects with whoever runs beside it");
    }
    let mut checked = Checked::default();
    cases::run(&mut checked);
    more::run(&mut checked);
    println!("{} different calls, {} of them in success", checked.calls.len(), checked.succeeded.len());
    assert!(checked.succeeded.len() >= 80, "only {} calls in success", checked.succeeded.len());
}

#[test]
fn memory_that_is_not_there_cannot_be_read() {
    assert!(!Native.read(16, &mut [0; 8]));
}
