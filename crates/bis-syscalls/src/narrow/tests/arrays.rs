//! Vectors, messages, arguments of programs, sets of descriptors, and the multiplexers.

use super::*;

#[test]
fn an_iovec_has_longs() {
    let mem = Pieces::default().words(0x1000, &[0x5000, 10, 0x6000, 0xffff_ffff]);
    let thunk = thunk(145, [3, 0x1000, 2], &mem);
    assert_eq!(thunk.call, Call { nr: 19, args: [3, ROOM, 2, 0, 0, 0] });
    assert_eq!(thunk.at(ROOM, 32), longs(&[0x5000, 10, 0x6000, u64::MAX]));
    assert_eq!(done(145, [3, 0x1000, 1025], &mem), -22);
    assert_eq!(done(145, [3, 0x1000, 3], &mem), -14);
}

#[test]
fn a_position_is_one_number() {
    let mem = Pieces::default().words(0x1000, &[0x5000, 10]);
    assert_eq!(thunk(333, [3, 0x1000, 1, 0x8000_0000, 1], &mem).call.args[3..], [0x1_8000_0000, 0, 0]);
    assert_eq!(thunk(378, [3, 0x1000, 1, u32::MAX, u32::MAX, 8], &mem).call.args[3..], [u64::MAX, 0, 8]);
    assert_eq!(thunk(180, [3, 0x1000, 1, 5, 6], &mem).call.args[3], 0x6_0000_0005);
    assert_eq!(thunk(19, [3, 0xffff_fff6, 2], &mem).call.args, [3, u64::MAX - 9, 2, 0, 0, 0]);
    let llseek = thunk(140, [3, 1, 2, 0x9000, 0], &mem);
    assert_eq!(llseek.call, Call { nr: 8, args: [3, 0x1_0000_0002, 0, 0, 0, 0] });
    let written = (0x9000, longs(&[0x1_0000_0002]));
    assert_eq!(llseek.finish(0x1_0000_0002, &mem), (0, vec![written]));
    assert_eq!(llseek.finish(-22, &mem), (-22, vec![]));
}

const HEADER: [u32; 7] = [0x4000, 16, 0x2000, 1, 0x3000, 16, 0];

fn with_header(header: &[u32]) -> Pieces {
    Pieces::default().words(0x1000, header).words(0x2000, &[0x5000, 5])
}

#[test]
fn descriptors_are_sent() {
    // Two descriptors, and credentials after them.
    let control = [20, 1, 1, 7, 8, 24, 1, 2, 100, 0, 0];
    let header = [0, 0, 0x2000, 1, 0x3000, 44, 0];
    let mem = with_header(&header).words(0x3000, &control);
    let thunk = thunk(370, [3, 0x1000, 0x40], &mem);
    assert_eq!(thunk.call.nr, 46);
    let wide = thunk.at(thunk.call.args[1], 56);
    let field = |at: usize| u64::from_le_bytes(wide[at..at + 8].try_into().unwrap());
    assert_eq!((field(16), field(24), field(40)), (ROOM, 1, 56));
    assert_eq!(thunk.at(ROOM, 16), longs(&[0x5000, 5]));
    let expected = [longs(&[24]), words(&[1, 1, 7, 8]), longs(&[28]), words(&[1, 2, 100, 0, 0, 0])];
    assert_eq!(thunk.at(field(32), 56), expected.concat());
    // A length that is too large, and one that is too small.
    for len in [45, 8] {
        let mem = with_header(&header).words(0x3000, &[len, 1, 1, 7, 8, 0, 0, 0, 0, 0, 0]);
        assert_eq!(done(370, [3, 0x1000, 0], &mem), -22);
    }
}

#[test]
fn descriptors_are_received() {
    let thunk = thunk(372, [3, 0x1000, 0], &with_header(&HEADER));
    let header = thunk.call.args[1];
    let wide = thunk.at(header, 56).to_vec();
    let control = u64::from_le_bytes(wide[32..40].try_into().unwrap());
    assert_eq!(wide[40..48], longs(&[20]), "room for one descriptor, as in the 32-bit layout");
    let mut after = thunk.content.clone();
    let put = |after: &mut Vec<u8>, at: u64, bytes: &[u8]| {
        let start = usize::try_from(at - ROOM).unwrap();
        after[start..start + bytes.len()].copy_from_slice(bytes);
    };
    put(&mut after, control, &[longs(&[20]), words(&[1, 1, 9])].concat());
    put(&mut after, header + 8, &words(&[10]));
    put(&mut after, header + 40, &longs(&[20]));
    put(&mut after, header + 48, &words(&[0x4000_0000]));
    let room = Pieces::default().with(ROOM, &after);
    let expected =
        vec![(0x3000, words(&[16, 1, 1, 9])), (0x1004, words(&[10])), (0x1014, words(&[16, 0x4000_0000]))];
    assert_eq!(thunk.finish(5, &room), (5, expected));
    assert_eq!(thunk.finish(-11, &room), (-11, vec![]));
}

#[test]
fn what_does_not_fit_is_cut() {
    let header = [0, 0, 0x2000, 1, 0x3000, 40, 0];
    let thunk = thunk(372, [3, 0x1000, 0], &with_header(&header));
    let at = thunk.call.args[1];
    let wide = thunk.at(at, 56).to_vec();
    let control = u64::from_le_bytes(wide[32..40].try_into().unwrap());
    // A timestamp, which shrinks to 20 bytes; and five descriptors, of which two fit.
    let bytes = [longs(&[32]), words(&[1, 29]), longs(&[1, 2]), longs(&[36]), words(&[1, 1, 5, 6])].concat();
    let mut after = thunk.content.clone();
    let start = usize::try_from(control - ROOM).unwrap();
    let len = u64::from_le_bytes(wide[40..48].try_into().unwrap());
    assert_eq!(len, 56, "24 bytes are left for the second message");
    let mut bytes = bytes;
    bytes.truncate(56);
    bytes[32..40].copy_from_slice(&longs(&[24]));
    after[start..start + bytes.len()].copy_from_slice(&bytes);
    let used = usize::try_from(at - ROOM).unwrap() + 40;
    after[used..used + 8].copy_from_slice(&longs(&[56]));
    let room = Pieces::default().with(ROOM, &after);
    let control = words(&[20, 1, 29, 1, 2, 20, 1, 1, 5, 6]);
    assert_eq!(thunk.finish(5, &room), (5, vec![(0x3000, control), (0x1014, words(&[40, 0]))]));
}

#[test]
fn arguments_of_a_program_are_pointers() {
    let mem = Pieces::default().words(0x1000, &[0x5000, 0xf000_0000, 0]).words(0x2000, &[0]);
    let thunk = thunk(11, [0x9000, 0x1000, 0x2000], &mem);
    assert_eq!(thunk.call, Call { nr: 59, args: [0x9000, ROOM, ROOM + 32, 0, 0, 0] });
    assert_eq!(thunk.at(ROOM, 24), longs(&[0x5000, 0xf000_0000, 0]));
    assert_eq!(thunk.at(ROOM + 32, 8), longs(&[0]));
    assert_eq!(self::thunk(11, [0x9000, 0, 0], &mem).call.args[1..3], [0, 0]);
    assert_eq!(done(11, [0x9000, 0x3000, 0], &mem), -14);
    // No end of it.
    let many = Pieces::default().words(0x1000, &vec![0x5000; 40_000]);
    assert!(matches!(translated(11, [0x9000, 0x1000, 0], &many), Translated::Refused(7, _)));
    let fit = Pieces::default().words(0x1000, &[vec![0x5000; 32_000], vec![0]].concat());
    self::thunk(11, [0x9000, 0x1000, 0], &fit);
}

#[test]
fn a_set_has_words_of_4_bytes() {
    // 40 descriptors: two words here, one of 8 bytes there. 20: one word here, and none behind it.
    let mem = Pieces::default().words(0x1000, &[1, 0xff]).words(0x2000, &[3]).words(0x3000, &[1, 500_000]);
    let thunk = thunk(142, [40, 0x1000, 0, 0, 0x3000], &mem);
    assert_eq!(thunk.call.args, [40, ROOM, 0, 0, ROOM + 16, 0]);
    assert_eq!(thunk.at(ROOM, 8), words(&[1, 0xff]));
    assert_eq!(thunk.at(ROOM + 16, 16), longs(&[1, 500_000]));
    let after = [words(&[1, 0x80]), longs(&[9]), longs(&[0, 7])].concat();
    let room = Pieces::default().with(ROOM, &after);
    // Only the word that has changed; and the time that is left.
    let expected = vec![(0x1004, words(&[0x80])), (0x3000, words(&[0, 7]))];
    assert_eq!(thunk.finish(2, &room), (2, expected));
    assert_eq!(thunk.finish(-514, &room), (-514, vec![(0x3000, words(&[0, 7]))]));
    let short = self::thunk(142, [20, 0x2000, 0, 0, 0], &mem);
    assert_eq!(short.at(ROOM, 8), longs(&[3]));
    assert_eq!(done(142, [u32::MAX, 0x2000, 0, 0, 0], &mem), -22);
    // The program says more descriptors than its set has.
    let large =
        self::thunk(142, [0x7fff_ffff, 0x2000, 0, 0, 0], &Pieces::default().with(0x2000, &[3; 0x1000]));
    assert_eq!(large.call.args[0], 1 << 19);
}

#[test]
fn the_oldest_select_has_its_arguments_in_memory() {
    let mem = Pieces::default().words(0x1000, &[20, 0x2000, 0, 0, 0]).words(0x2000, &[3]);
    assert_eq!(thunk(82, [0x1000], &mem).call, Call { nr: 23, args: [20, ROOM, 0, 0, 0, 0] });
}

#[test]
fn the_mask_of_pselect_lies_behind_a_pair() {
    let mem = Pieces::default().words(0x1000, &[0x7000, 8]);
    for nr in [308, 413] {
        let thunk = thunk(nr, [0, 0, 0, 0, 0, 0x1000], &mem);
        assert_eq!(thunk.call, Call { nr: 270, args: [0, 0, 0, 0, 0, ROOM] });
        assert_eq!(thunk.at(ROOM, 16), longs(&[0x7000, 8]));
    }
}

#[test]
fn socketcall_is_the_call_that_it_stands_for() {
    let mem = Pieces::default().words(0x1000, &[3, 0x5000, 10, 0x40, 0x6000, 0x7000]);
    assert_eq!(thunk(102, [12, 0x1000], &mem).call.args, [3, 0x5000, 10, 0x40, 0x6000, 0x7000]);
    assert_eq!(thunk(102, [12, 0x1000], &mem).call.nr, 45);
    // recv has no address.
    assert_eq!(thunk(102, [10, 0x1000], &mem).call, Call { nr: 45, args: [3, 0x5000, 10, 0x40, 0, 0] });
    assert_eq!(thunk(102, [4, 0x1000], &mem).call, Call { nr: 50, args: [3, 0x5000, 0, 0, 0, 0] });
    assert_eq!(done(102, [0, 0x1000], &mem), -22);
    assert_eq!(done(102, [21, 0x1000], &mem), -22);
    assert_eq!(done(102, [1, 0x9000], &mem), -14);
}

#[test]
fn ipc_is_the_call_that_it_stands_for() {
    let mem = Pieces::default()
        .words(0x1000, &[0x2000, 9])
        .words(0x2000, &[7, 0x1111, 0x2222])
        .words(0x3000, &[5, 0]);
    assert_eq!(thunk(117, [1, 8, 1, 0, 0x2000], &mem).call, Call { nr: 65, args: [8, 0x2000, 1, 0, 0, 0] });
    let timed = thunk(117, [4, 8, 1, 0, 0x2000, 0x3000], &mem);
    assert_eq!(timed.call, Call { nr: 220, args: [8, 0x2000, 1, ROOM, 0, 0] });
    assert_eq!(timed.at(ROOM, 16), longs(&[5, 0]));
    let sent = thunk(117, [11, 8, 8, 0x800, 0x2000], &mem);
    assert_eq!(sent.call, Call { nr: 69, args: [8, ROOM, 8, 0x800, 0, 0] });
    assert_eq!(sent.at(ROOM, 16), [longs(&[7]), words(&[0x1111, 0x2222])].concat());
    // msgrcv has its buffer and type in memory, or in newer shape in its arguments.
    for thunk in [thunk(117, [12, 8, 4, 0x800, 0x1000], &mem), thunk(401, [8, 0x2000, 4, 9, 0x800], &mem)] {
        assert_eq!(thunk.call, Call { nr: 70, args: [8, ROOM, 4, 9, 0x800, 0] });
        let room = thunk.left(ROOM, &[longs(&[9]), words(&[0x3333])].concat());
        assert_eq!(thunk.finish(4, &room), (4, vec![(0x2000, words(&[9, 0x3333]))]));
    }
    assert!(matches!(translated(117, [24, 8, 2, 0, 0x2000], &mem), Translated::Refused(22, _)));
    let Translated::Own(own) = translated(117, [21, 8, 0x1000, 0x5000, 0x7000_0000], &mem) else { panic!() };
    assert_eq!(own.call, Call { nr: 30, args: [8, 0x7000_0000, 0x1000, 0, 0, 0] });
    assert_eq!((own.outputs, own.result_at), (Some(vec![(0x5000, 4)]), Some(0x5000)));
}
