//! Single structures: what is known of files, times, limits, children, signals, ids.

use super::*;
use crate::errno::EOVERFLOW;

fn stat() -> Vec<u8> {
    let mut bytes = longs(&[0xfe00, 0x1234, 2]);
    bytes.extend(words(&[0o100_644, 1000, 70_000, 0]));
    bytes.extend(longs(&[0x501, 5000, 4096, 16, 10, 11, 20, 21, 30, 31, 0, 0, 0]));
    assert_eq!(bytes.len(), 144);
    bytes
}

#[test]
fn stat64_has_its_fields_without_gaps() {
    let thunk = thunk(195, [0x1000, 0x2000], &Pieces::default());
    assert_eq!(thunk.call, Call { nr: 4, args: [0x1000, ROOM, 0, 0, 0, 0] });
    let (result, writes) = thunk.finish(0, &thunk.left(ROOM, &stat()));
    assert_eq!(result, 0);
    let expected = vec![
        (0x2000, longs(&[0xfe00])),
        (0x200c, words(&[0x1234, 0o100_644, 2, 1000, 70_000, 0x501, 0])),
        (0x202c, words(&[5000, 0, 4096, 16, 0, 10, 11, 20, 21, 30, 31, 0x1234, 0])),
    ];
    assert_eq!(writes, expected);
    assert_eq!(thunk.finish(-2, &Pieces::default()), (-2, vec![]));
    assert_eq!(
        self::thunk(300, [3, 0x1000, 0x2000, 0x100], &Pieces::default()).call.args[..4],
        [3, 0x1000, ROOM, 0x100]
    );
}

#[test]
fn what_the_oldest_stat_cannot_say_is_an_error() {
    let narrow = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = stat();
        change(&mut bytes);
        files::stat32(&bytes)
    };
    let fine = narrow(&|_| {}).unwrap();
    assert_eq!(fine.len(), 64);
    assert_eq!(fine[8..16], [0xa4, 0x81, 2, 0, 0xe8, 3, 0xfe, 0xff], "a group above 65535 is nobody");
    assert_eq!(narrow(&|bytes| bytes[52] = 1), Err(EOVERFLOW), "size");
    assert_eq!(narrow(&|bytes| bytes[51] = 0x80), Err(EOVERFLOW), "size");
    assert_eq!(narrow(&|bytes| bytes[12] = 1), Err(EOVERFLOW), "inode");
    assert_eq!(narrow(&|bytes| bytes[18] = 1), Err(EOVERFLOW), "links");
    let thunk = thunk(106, [0x1000, 0x2000], &Pieces::default());
    let mut large = stat();
    large[52] = 1;
    assert_eq!(thunk.finish(0, &thunk.left(ROOM, &large)), (-i64::from(EOVERFLOW), vec![]));
}

#[test]
fn statfs_counts_may_be_unknown() {
    let counts =
        |files: u64, blocks: u64| longs(&[1, 4096, blocks, 3, 4, files, 6, 7, 255, 4096, 32, 0, 0, 0, 0]);
    let narrow = files::statfs32(&counts(u64::MAX, 2)).unwrap();
    assert_eq!(narrow, words(&[1, 4096, 2, 3, 4, u32::MAX, 6, 7, 0, 255, 4096, 32, 0, 0, 0, 0]));
    assert_eq!(files::statfs32(&counts(5, 1 << 32)), Err(EOVERFLOW));
    assert_eq!(files::statfs32(&counts(1 << 32, 2)), Err(EOVERFLOW));
    let wide = files::statfs64_shape(&counts(5, 1 << 32)).unwrap();
    assert_eq!(wide.len(), 84);
    assert_eq!(wide[8..16], longs(&[1 << 32]));
    assert_eq!(done(268, [0x1000, 88, 0x2000], &Pieces::default()), -22);
}

#[test]
fn times_are_widened_with_their_sign() {
    let mem = Pieces::default().words(0x1000, &[0xffff_ffff, 5, 7, 9]);
    let sleep = thunk(162, [0x1000, 0x2000], &mem);
    assert_eq!(sleep.call, Call { nr: 35, args: [ROOM, ROOM + 16, 0, 0, 0, 0] });
    assert_eq!(sleep.at(ROOM, 16), longs(&[u64::MAX, 5]));
    // The rest is stored only where the kernel stored one.
    let rest = sleep.left(ROOM + 16, &longs(&[3, 4]));
    assert_eq!(sleep.finish(-4, &rest), (-4, vec![(0x2000, words(&[3, 4]))]));
    assert_eq!(sleep.finish(-516, &rest), (-516, vec![(0x2000, words(&[3, 4]))]));
    assert_eq!(sleep.finish(0, &rest), (0, vec![]));
    assert_eq!(sleep.finish(-4, &Pieces::default().with(ROOM, &sleep.content)), (-4, vec![]));
    // Of the wide ones the upper half of the nanoseconds is no number.
    let wide = Pieces::default().words(0x1000, &[1, 0, 2, 0xdead]);
    let thunk = thunk(404, [0, 0x1000], &wide);
    assert_eq!(thunk.at(ROOM, 16), longs(&[1, 2]));
    let asked = self::thunk(265, [1, 0x2000], &mem);
    let room = asked.left(ROOM, &longs(&[100, 200]));
    assert_eq!(asked.finish(0, &room), (0, vec![(0x2000, words(&[100, 200]))]));
}

#[test]
fn a_futex_has_a_time_or_a_number() {
    let mem = Pieces::default().words(0x1000, &[1, 2]);
    assert_eq!(thunk(240, [0x9000, 128, 5, 0x1000], &mem).call.args, [0x9000, 128, 5, ROOM, 0, 0]);
    assert_eq!(thunk(240, [0x9000, 128, 5, 0], &mem).call.args[3], 0);
    assert_eq!(thunk(240, [0x9000, 131, 5, 0x1000, 0x8000, 1], &mem).call.args[3], 0x1000);
    assert_eq!(thunk(240, [0x9000, 128 | 256 | 9, 5, 0x1000], &mem).call.args[3], ROOM);
}

#[test]
fn locks_have_three_layouts() {
    let mem = Pieces::default().words(0x1000, &[1, 0xffff_fff0, 20, 7]).words(0x2000, &[1, 5, 1, 20, 0, 7]);
    let short = thunk(221, [3, 5, 0x1000], &mem);
    assert_eq!(short.call, Call { nr: 72, args: [3, 5, ROOM, 0, 0, 0] });
    assert_eq!(short.at(ROOM, 32), [longs(&[1, u64::MAX - 15, 20]), words(&[7, 0])].concat());
    let answer = |start: u64, len: u64| [longs(&[0x1_0001, start, len]), words(&[99, 0])].concat();
    let fine = short.finish(0, &short.left(ROOM, &answer(10, 1 << 40)));
    assert_eq!(fine, (0, vec![(0x1000, words(&[0x1_0001, 10, 0x7fff_ffff, 99]))]));
    let far = short.finish(0, &short.left(ROOM, &answer(1 << 31, 5)));
    assert_eq!(far, (-75, vec![]));
    let long = thunk(221, [3, 12, 0x2000], &mem);
    assert_eq!(long.call.args[1], 5);
    assert_eq!(long.at(ROOM, 32), [longs(&[1, 0x1_0000_0005, 20]), words(&[7, 0])].concat());
    let answer = long.finish(0, &long.left(ROOM, &answer(1 << 40, 3)));
    assert_eq!(answer, (0, vec![(0x2000, words(&[0x1_0001, 0, 256, 3, 0, 99]))]));
    // What is set is only read.
    let set = thunk(221, [3, 6, 0x1000], &mem);
    assert_eq!(set.finish(0, &Pieces::default()), (0, vec![]));
}

#[test]
fn children_leave_status_and_usage() {
    let wait = thunk(114, [u32::MAX, 0x1000, 1, 0x2000], &Pieces::default());
    assert_eq!(wait.call, Call { nr: 61, args: [u32::MAX.into(), 0x1000, 1, ROOM, 0, 0] });
    let usage: Vec<u64> = (1..=18).collect();
    let room = wait.left(ROOM, &longs(&usage));
    let narrow: Vec<u32> = (1..=18).collect();
    assert_eq!(wait.finish(77, &room), (77, vec![(0x2000, words(&narrow))]));
    assert_eq!(wait.finish(0, &room), (0, vec![]), "nobody has changed");
    assert_eq!(
        thunk(7, [5, 0x1000, 2], &Pieces::default()).call,
        Call { nr: 61, args: [5, 0x1000, 2, 0, 0, 0] }
    );
    let waitid = thunk(284, [1, 5, 0x1000, 4, 0], &Pieces::default());
    let room = waitid.left(ROOM, &words(&[17, 0, 1, 0, 5, 1000, 3]));
    assert_eq!(waitid.finish(0, &room), (0, vec![(0x1000, words(&[17, 0, 1, 5, 1000, 3]))]));
}

#[test]
fn a_siginfo_goes_both_ways() {
    for (narrow, wide) in [
        // Sent with a value.
        (vec![10, 3, 0xffff_ffff, 5, 6, 0x8000_0000], vec![10, 3, 0xffff_ffff, 0, 5, 6, 0x8000_0000, 0]),
        // By kill.
        (vec![10, 0, 0, 5, 6, 0], vec![10, 0, 0, 0, 5, 6, 0, 0]),
        // A child's end, with times.
        (vec![17, 0, 1, 5, 6, 3, 8, 9], vec![17, 0, 1, 0, 5, 6, 3, 0, 8, 0, 9, 0]),
        // A fault.
        (vec![11, 0, 1, 0xf000_0000, 0], vec![11, 0, 1, 0, 0xf000_0000, 0]),
        // A timer.
        (vec![14, 0, 0xffff_fffe, 3, 4, 0x1234], vec![14, 0, 0xffff_fffe, 0, 3, 4, 0x1234, 0]),
        // A descriptor that is ready.
        (vec![29, 0, 1, 0x41, 7], vec![29, 0, 1, 0, 0x41, 0, 7, 0]),
        // A call that a filter stopped.
        (vec![31, 0, 1, 0x5000, 20, 0x4000_0003], vec![31, 0, 1, 0, 0x5000, 0, 20, 0x4000_0003]),
    ] {
        let padded = |words: &[u32]| {
            let mut bytes = super::words(words);
            bytes.resize(128, 0);
            bytes
        };
        assert_eq!(siginfo::widened(&padded(&narrow)), padded(&wide), "{narrow:?}");
        assert_eq!(siginfo::narrowed(&padded(&wide)), padded(&narrow), "{narrow:?}");
    }
}

#[test]
fn signals_are_queued_and_awaited() {
    let mut info = words(&[10, 0, 0xffff_ffff, 5, 6, 7]);
    info.resize(128, 0);
    let mem = Pieces::default().with(0x1000, &info).words(0x2000, &[1, 0]);
    let sent = thunk(178, [5, 10, 0x1000], &mem);
    assert_eq!(sent.call, Call { nr: 129, args: [5, 10, ROOM, 0, 0, 0] });
    assert_eq!(sent.at(ROOM, 32), words(&[10, 0, 0xffff_ffff, 0, 5, 6, 7, 0]));
    let awaited = thunk(177, [0x5000, 0x6000, 0x2000, 8], &mem);
    let (result, writes) = awaited.finish(10, &awaited.left(ROOM, sent.at(ROOM, 128)));
    assert_eq!((result, writes), (10, vec![(0x6000, info)]));
    let event: Vec<u32> = [5, 10, 4, 77].into_iter().chain([0; 12]).collect();
    let timer = thunk(259, [1, 0x1000, 0x2000], &Pieces::default().words(0x1000, &event));
    assert_eq!(timer.at(ROOM, 24), words(&[5, 0, 10, 4, 77, 0]));
    assert_eq!(thunk(259, [1, 0, 0x2000], &mem).call.args, [1, 0, 0x2000, 0, 0, 0]);
    let suspend = thunk(72, [0, 0, 0x200], &mem);
    assert_eq!(suspend.call, Call { nr: 130, args: [ROOM, 8, 0, 0, 0, 0] });
    assert_eq!(suspend.at(ROOM, 8), longs(&[0x200]));
}

#[test]
fn a_signal_stack_has_its_size_at_the_end() {
    let mem = Pieces::default().words(0x1000, &[0x7000_0000, 0, 8192]);
    let thunk = thunk(186, [0x1000, 0x2000], &mem);
    assert_eq!(thunk.at(ROOM, 24), longs(&[0x7000_0000, 0, 8192]));
    let room = thunk.left(ROOM + 32, &longs(&[0x6000_0000, 2, 4096]));
    assert_eq!(thunk.finish(0, &room), (0, vec![(0x2000, words(&[0x6000_0000, 2, 4096]))]));
}

#[test]
fn memory_is_told_in_larger_units_where_it_must() {
    let info = |total: u64| {
        let mut bytes = longs(&[1000, 1, 2, 3, total, 0x2000, 0, 0, 0, 0, 42, 0, 0]);
        bytes.extend(words(&[1, 0]));
        bytes
    };
    let small = system::sysinfo_shape(&info(0x8000_0000)).unwrap();
    assert_eq!(small, words(&[1000, 1, 2, 3, 0x8000_0000, 0x2000, 0, 0, 0, 0, 42, 0, 0, 1, 0, 0]));
    let large = system::sysinfo_shape(&info(0x8_0000_0000)).unwrap();
    assert_eq!(large, words(&[1000, 1, 2, 3, 0x80_0000, 2, 0, 0, 0, 0, 42, 0, 0, 4096, 0, 0]));
}

#[test]
fn limits_have_an_infinity_of_their_own() {
    let mem = Pieces::default().words(0x1000, &[100, u32::MAX]);
    let set = thunk(75, [7, 0x1000], &mem);
    assert_eq!(set.at(ROOM, 16), longs(&[100, u64::MAX]));
    for (nr, infinity) in [(191, u32::MAX), (76, 0x7fff_ffff)] {
        let get = thunk(nr, [7, 0x2000], &mem);
        let room = get.left(ROOM, &longs(&[100, 1 << 40]));
        assert_eq!(get.finish(0, &room), (0, vec![(0x2000, words(&[100, infinity]))]));
    }
}

#[test]
fn ids_of_16_bits_have_a_minus_one() {
    let mem = Pieces::default().with(0x1000, &[1, 0, 0xff, 0xff]);
    assert_eq!(thunk(164, [0xffff, 0x1_0005, 7], &mem).call.args[..3], [u32::MAX.into(), 5, 7]);
    assert_eq!(thunk(182, [0x5000, 0xffff, 3], &mem).call.args[..3], [0x5000, u32::MAX.into(), 3]);
    assert_eq!(thunk(24, [], &mem).finish(70_000, &mem), (65534, vec![]));
    let set = thunk(81, [2, 0x1000], &mem);
    assert_eq!(set.at(ROOM, 8), words(&[1, u32::MAX]));
    let get = thunk(80, [4, 0x2000], &mem);
    assert_eq!(get.call.args[..2], [4, ROOM]);
    let room = get.left(ROOM, &words(&[5, 70_000]));
    assert_eq!(get.finish(2, &room), (2, vec![(0x2000, vec![5, 0, 0xfe, 0xff])]));
    assert_eq!(thunk(80, [0, 0], &mem).call.args[..2], [0, 0]);
    let three = thunk(165, [0x2000, 0x3000, 0x4000], &mem);
    assert_eq!(three.call.args[..3], [ROOM, ROOM + 16, ROOM + 32]);
}

#[test]
fn own_calls_say_what_the_kernel_writes() {
    let mem = Pieces::default().words(0x1000, &[0x5000, 4096, 3, 0x22, u32::MAX, 0x2000]);
    let own = |nr: u32, args: &[u32]| {
        let mut given = [0; 6];
        given[..args.len()].copy_from_slice(args);
        match translate(&NarrowCall { nr, args: given }, ROOM, &mem) {
            Translated::Own(own) => (own.call.nr, own.call.args, own.outputs),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(
        own(174, &[10, 0x5000, 0x6000, 8]),
        (13, [10, 0x5000, 0x6000, 8, 0, 0], Some(vec![(0x6000, 20)]))
    );
    assert_eq!(own(67, &[10, 0x5000, 0x6000]), (13, [10, 0x5000, 0x6000, 8, 0, 0], Some(vec![(0x6000, 16)])));
    assert_eq!(own(174, &[10, 0x5000, 0, 8]).2, Some(vec![]));
    assert_eq!(own(120, &[0x11, 1, 2, 3, 4]), (56, [0x11, 1, 2, 4, 3, 0], None));
    assert_eq!(own(192, &[0, 4096, 3, 2, 5, 0x10_0000]).1[5], 0x1_0000_0000);
    assert_eq!(own(90, &[0x1000]), (9, [0x5000, 4096, 3, 0x22, u32::MAX.into(), 0x2000], None));
    assert_eq!(own(243, &[0x7000]), (205, [0x7000, 0, 0, 0, 0, 0], Some(vec![(0x7000, 16)])));
    assert_eq!(own(220, &[3, 0x7000, 100]), (217, [3, 0x7000, 100, 0, 0, 0], None));
    assert_eq!(own(126, &[0, 0x5000, 0x6000]).2, Some(vec![(0x6000, 4)]));
}
