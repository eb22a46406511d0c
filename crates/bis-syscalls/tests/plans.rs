//! Plans by hand, for what the kernel under the tests cannot easily be made to do: interrupted calls, faults,
//! counts that are larger than the room, other address spaces.

use bis_syscalls::{Call, Dir, Memory, Output, Plan, Planned, Slot, plan};

/// Memory at 0x10000, and nothing elsewhere.
struct Flat(Vec<u8>);

const BASE: u64 = 0x10000;

impl Flat {
    fn new(words: &[u64]) -> Flat {
        let mut bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        bytes.resize(8192, 0);
        Flat(bytes)
    }
}

impl Memory for Flat {
    fn read(&self, addr: u64, buf: &mut [u8]) -> bool {
        let Some(at) = addr.checked_sub(BASE).and_then(|at| usize::try_from(at).ok()) else { return false };
        let Some(end) = at.checked_add(buf.len()) else { return false };
        self.0.get(at..end).map(|from| buf.copy_from_slice(from)).is_some()
    }
}

fn planned(nr: u64, args: [u64; 6], mem: &Flat) -> Plan {
    match plan(&Call { nr, args }, mem) {
        Planned::Plan(plan) => plan,
        other => panic!("{other:?}"),
    }
}

/// The outputs with all pieces at home, as (piece, offset, length).
fn outputs(plan: &Plan, ret: i64, mem: &Flat) -> Vec<(usize, u64, u64)> {
    let at = |i: usize| plan.pieces[i].home;
    plan.outputs(ret, &at, mem).iter().map(|&Output { piece, offset, len }| (piece, offset, len)).collect()
}

#[test]
fn what_readv_returns_fills_the_buffers_in_order() {
    let mem = Flat::new(&[0x5000, 10, 0x6000, 0, 0x7000, 20, 0x8000, 30]);
    let plan = planned(19, [3, BASE, 4, 0, 0, 0], &mem);
    assert_eq!(plan.pieces.len(), 4, "the vector, and three buffers that are not empty");
    assert_eq!(plan.pieces[0].dir, Dir::In);
    assert_eq!(plan.pieces[2].slot, Slot::In { piece: 0, offset: 32 });
    assert_eq!(outputs(&plan, 15, &mem), [(1, 0, 10), (2, 0, 5)]);
    assert_eq!(outputs(&plan, 60, &mem), [(1, 0, 10), (2, 0, 20), (3, 0, 30)]);
    assert_eq!(outputs(&plan, 0, &mem), []);
    assert_eq!(outputs(&plan, -11, &mem), []);
}

#[test]
fn a_fault_may_come_after_some_bytes() {
    let mem = Flat::new(&[]);
    // Its second page ends where the memory does.
    let plan = planned(0, [3, BASE + 4096, 16384, 0, 0, 0], &mem);
    assert_eq!(outputs(&plan, -14, &mem), [(0, 0, 4096)]);
    assert_eq!(plan.outputs(-14, &|_| 0x9000, &mem), [], "a relocated buffer is never the one at fault");
}

#[test]
fn each_message_of_recvmmsg_has_its_own_count() {
    // Two messages, with one buffer of 100 bytes each; the kernel stored 7 and 50 as their lengths.
    let mut words = Vec::new();
    for i in 0..2_u64 {
        words.extend([0, 0, BASE + 128 + 16 * i, 1, 0x7000, 64, 0, [7, 50][usize::try_from(i).unwrap()]]);
    }
    words.extend([0x5000, 100, 0x6000, 100]);
    let mem = Flat::new(&words);
    let plan = planned(299, [3, BASE, 2, 0, 0, 0], &mem);
    let buffers = |ret| {
        let found = outputs(&plan, ret, &mem);
        let homes = found.iter().map(|&(piece, _, len)| (plan.pieces[piece].home, len));
        homes.filter(|(home, _)| matches!(home, 0x5000 | 0x6000)).collect::<Vec<_>>()
    };
    assert_eq!(buffers(2), [(0x5000, 7), (0x6000, 50)]);
    assert_eq!(buffers(1), [(0x5000, 7)]);
    assert_eq!(buffers(-11), []);
    // Of the array, no pointer that has a piece: the vectors at 16 and the control data at 32.
    let array: Vec<_> = outputs(&plan, 1, &mem).into_iter().filter(|o| o.0 == 0).collect();
    assert_eq!(array, [(0, 0, 16), (0, 24, 8), (0, 40, 24)]);
}

#[test]
fn recvmsg_gives_back_lengths_and_flags() {
    let mem = Flat::new(&[0x4000, 10, BASE + 64, 1, 0x7000, 24, 0, 0, 0x5000, 100]);
    let plan = planned(47, [3, BASE, 0, 0, 0, 0], &mem);
    let homes: Vec<u64> = plan.pieces.iter().map(|p| p.home).collect();
    assert_eq!(homes, [BASE, 0x4000, 0x7000, BASE + 64, 0x5000]);
    let expected = [(0, 8, 4), (0, 40, 8), (0, 48, 4), (1, 0, 10), (2, 0, 24), (4, 0, 100)];
    assert_eq!(outputs(&plan, 200, &mem), expected);
}

#[test]
fn an_in_out_length_can_exceed_the_room() {
    // The program said 5 bytes, the kernel answers that it has 400.
    let before = Flat::new(&[5]);
    let plan = planned(55, [3, 1, 31, 0x5000, BASE, 0], &before);
    assert_eq!(outputs(&plan, 0, &Flat::new(&[400])), [(0, 0, 4), (1, 0, 5)]);
    assert_eq!(outputs(&plan, 0, &Flat::new(&[3])), [(0, 0, 4), (1, 0, 3)]);
    assert_eq!(outputs(&plan, -34, &Flat::new(&[400])), [(0, 0, 4)]);
}

#[test]
fn what_remains_of_a_sleep_is_written_when_a_signal_ends_it() {
    let mem = Flat::new(&[]);
    let plan = planned(35, [BASE, BASE + 64, 0, 0, 0, 0], &mem);
    assert_eq!(outputs(&plan, 0, &mem), []);
    for interrupted in [-4, -516, -514] {
        assert_eq!(outputs(&plan, interrupted, &mem), [(0, 0, 16)]);
    }
    assert_eq!(outputs(&plan, -22, &mem), []);
}

#[test]
fn poll_writes_what_happened_even_when_interrupted() {
    let mem = Flat::new(&[]);
    let plan = planned(7, [BASE, 2, 9, 0, 0, 0], &mem);
    for ret in [0, 2, -4, -516] {
        assert_eq!(outputs(&plan, ret, &mem), [(0, 6, 2), (0, 14, 2)]);
    }
    let plan = planned(232, [3, BASE, 10, 9, 0, 0], &mem);
    assert_eq!(outputs(&plan, 3, &mem), [(0, 0, 36)]);
    assert_eq!(outputs(&plan, -4, &mem), []);
}

#[test]
fn select_takes_whole_words() {
    let mem = Flat::new(&[]);
    let plan = planned(23, [65, BASE, 0, BASE + 64, BASE + 128, 0], &mem);
    assert_eq!(outputs(&plan, 1, &mem), [(0, 0, 16), (1, 0, 16), (2, 0, 16)]);
    assert_eq!(outputs(&plan, -514, &mem), [(2, 0, 16)], "the time left only");
}

#[test]
fn a_child_that_has_not_changed_writes_nothing() {
    let mem = Flat::new(&[]);
    let plan = planned(61, [0, BASE, 1, BASE + 64, 0, 0], &mem);
    assert_eq!(outputs(&plan, 0, &mem), []);
    assert_eq!(outputs(&plan, 77, &mem), [(0, 0, 4), (1, 0, 144)]);
}

#[test]
fn futex_words_stay_where_they_are() {
    let mem = Flat::new(&[]);
    let plan = planned(202, [BASE, 6, 0, 0, BASE + 8, 0], &mem);
    assert!(plan.pieces[0].fixed && plan.pieces[0].home == BASE && plan.pieces.len() == 1);
    let plan = planned(202, [BASE, 0x85, 0, 0, BASE + 8, 0], &mem);
    assert!(plan.pieces[0].fixed && plan.pieces[0].home == BASE + 8);
    assert_eq!(planned(202, [BASE, 0x80, 0, 0, 0, 0], &mem).pieces, []);
}

#[test]
fn clone_writes_the_words_that_its_flags_say() {
    let mem = Flat::new(&[0x10_0000 | 0x1000, 0x4000, 0, 0x5000, 0, 0, 0, 0, 0, 0, 0]);
    let plan = planned(435, [BASE, 88, 0, 0, 0, 0], &mem);
    assert_eq!(plan.pieces.iter().map(|p| p.home).collect::<Vec<_>>(), [BASE, 0x4000, 0x5000]);
    assert!(plan.pieces.iter().all(|p| p.fixed));
    assert_eq!(planned(56, [0x11, 0, 0x5000, 0x6000, 0, 0], &mem).pieces, []);
    assert_eq!(planned(56, [0x10_0000, 0, 0x5000, 0x6000, 0, 0], &mem).pieces[0].home, 0x5000);
}

#[test]
fn ioctls_that_are_not_known_are_slow() {
    let mem = Flat::new(&[]);
    let ask = |request| plan(&Call { nr: 16, args: [3, request, BASE, 0, 0, 0] }, &mem);
    assert!(matches!(ask(0x1234_5678), Planned::Slow(_)));
    assert!(matches!(ask(0xc010_6400), Planned::Slow(_)));
    assert!(matches!(ask(0xae01), Planned::Refuse(25, _)));
    let plan = planned(16, [3, 0xffff_ffff_0000_5413, BASE, 0, 0, 0], &mem);
    assert_eq!(outputs(&plan, 0, &mem), [(0, 0, 8)], "the request is an unsigned int");
    assert_eq!(outputs(&plan, -25, &mem), []);
}

#[test]
fn interfaces_are_listed_behind_a_pointer() {
    let mem = Flat::new(&[80, 0x5000]);
    let plan = planned(16, [3, 0x8912, BASE, 0, 0, 0], &mem);
    assert_eq!(plan.pieces[1].slot, Slot::In { piece: 0, offset: 8 });
    assert_eq!(outputs(&plan, 0, &Flat::new(&[40, 0x5000])), [(0, 0, 4), (1, 0, 40)]);
}

#[test]
fn the_type_of_a_message_comes_before_its_bytes() {
    let mem = Flat::new(&[]);
    let plan = planned(70, [1, BASE, 100, 0, 0, 0], &mem);
    assert_eq!(outputs(&plan, 0, &mem), [(0, 0, 8)]);
    assert_eq!(outputs(&plan, 30, &mem), [(0, 0, 38)]);
}

#[test]
fn what_an_older_kernel_would_refuse_is_refused() {
    let mem = Flat::new(&[]);
    for (nr, errno) in [(334, 38), (425, 38), (206, 38), (321, 1), (470, 38), (0x4000_0000, 38)] {
        match plan(&Call { nr, args: [0; 6] }, &mem) {
            Planned::Refuse(got, _) => assert_eq!(got, errno, "call {nr}"),
            other => panic!("{other:?}"),
        }
    }
}
