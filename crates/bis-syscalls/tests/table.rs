//! The table as a whole: it is complete, its text is up to date, and no arguments make it fail.

use bis_syscalls::{
    Call, Dir, How, Memory, Planned, Slot, describe, errno_name, markdown, may_block, plan, row, rows,
};
use proptest::prelude::*;

#[test]
fn every_call_of_the_kernel_has_its_row() {
    let ours: Vec<(u64, &str)> = rows().iter().map(|row| (row.nr, row.name)).collect();
    // Not `Sysno::iter`, which leaves out the last.
    let theirs: Vec<(u64, &str)> = (0..=1023_u16)
        .filter_map(|nr| syscalls::Sysno::new(nr.into()).map(|call| (u64::from(nr), call.name())))
        .collect();
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(ours, theirs);
    }
    assert_eq!(ours.len(), theirs.len());
    assert_eq!(ours.len(), 383);
    for &(nr, name) in &ours {
        assert_eq!(row(nr).unwrap().name, name);
    }
    assert!(row(337).is_none() && row(470).is_none() && row(u64::MAX).is_none());
}

#[test]
fn refusals_and_slow_paths_say_why() {
    for row in rows() {
        assert!(row.args.len() <= 6, "{}", row.name);
        if let How::Refused(errno) = row.how {
            assert!(!row.note.is_empty() && errno_name(errno).is_some(), "{}", row.name);
        }
    }
}

#[test]
fn the_page_in_the_tree_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/syscalls.md");
    if std::env::var_os("BIS_UPDATE_DOCS").is_some() {
        std::fs::write(path, markdown()).unwrap();
    }
    let page = std::fs::read_to_string(path).unwrap();
    assert!(
        page == markdown(),
        "docs/syscalls.md is not what the table says: run `BIS_UPDATE_DOCS=1 cargo test -p bis-syscalls`"
    );
}

#[test]
fn calls_as_text() {
    let text = |nr, args, ret| describe(&Call { nr, args }, ret);
    let at = u64::MAX - 99;
    assert_eq!(
        text(257, [at, 0x1000, 0o2000101, 0o644, 0, 0], Some(3)),
        "openat(AT_FDCWD, 0x1000, O_WRONLY|O_CREAT|O_CLOEXEC, 0o644) = 3"
    );
    assert_eq!(text(0, [3, 0, 9, 0, 0, 0], Some(-11)), "read(3, NULL, 9) = -1 EAGAIN");
    assert_eq!(text(62, [at, 9, 0, 0, 0, 0], None), "kill(-100, SIGKILL)");
    assert_eq!(text(16, [1, 0x5413, 0x2000, 0, 0, 0], Some(0)), "ioctl(1, TIOCGWINSZ, 0x2000) = 0");
    assert_eq!(
        text(9, [0, 4096, 3, 0x22, at, 0], Some(0x7fff_f7ff_0000)),
        "mmap(NULL, 4096, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -100, 0x0) = 0x7ffff7ff0000"
    );
    assert_eq!(errno_name(2), Some("ENOENT"));
    assert_eq!(errno_name(512), Some("ERESTARTSYS"));
    assert_eq!(errno_name(4000), None);
}

#[test]
fn arguments_decide_whether_a_call_waits() {
    let waits = |nr, args| may_block(&Call { nr, args });
    // futex WAIT and WAKE; wait4 with and without WNOHANG; poll; recvfrom with MSG_DONTWAIT; fcntl F_SETLKW.
    assert!(waits(202, [0, 0x80, 0, 0, 0, 0]) && !waits(202, [0, 0x81, 0, 0, 0, 0]));
    assert!(waits(61, [0; 6]) && !waits(61, [0, 0, 1, 0, 0, 0]));
    assert!(waits(7, [0, 0, u64::MAX, 0, 0, 0]) && !waits(7, [0; 6]));
    assert!(waits(45, [0; 6]) && !waits(45, [0, 0, 0, 0x40, 0, 0]));
    assert!(waits(72, [0, 7, 0, 0, 0, 0]) && !waits(72, [0, 6, 0, 0, 0, 0]));
    assert!(waits(73, [0, 2, 0, 0, 0, 0]) && !waits(73, [0, 6, 0, 0, 0, 0]));
    assert!(!waits(39, [0; 6]) && waits(0, [0; 6]) && !waits(9999, [0; 6]));
}

/// Memory that gives the same pseudo-random bytes at an address each time; some pages are not there.
struct Noise(u64);

impl Memory for Noise {
    fn read(&self, addr: u64, buf: &mut [u8]) -> bool {
        if addr >= 1 << 47 {
            return false;
        }
        for (at, byte) in (addr..).zip(buf.iter_mut()) {
            let mix = |x: u64| (x ^ self.0).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            if mix(at >> 12) >> 60 == 0 {
                return false;
            }
            // Half of all words are small, so that lengths and counts are often sensible.
            let small = mix(at >> 3) >> 63 == 0 && at & 7 != 0;
            *byte = if small { 0 } else { mix(at).to_le_bytes()[7] };
        }
        true
    }
}

fn argument() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        0..4096_u64,
        (0..8_u64).prop_map(|i| u64::MAX - i),
        0x1000..0x7fff_0000_0000_u64,
        prop::sample::select(vec![0x5401, 0x8912, 0xc020_660b, 0xc018_9436, 0x5413, 1 << 31, 1 << 63]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_arguments_make_a_plan_fail(
        args in prop::array::uniform6(argument()),
        seed in any::<u64>(),
        ret in prop_oneof![-530..1100_i64, any::<i64>()],
        moved in any::<bool>(),
    ) {
        let mem = Noise(seed);
        for row in rows() {
            let call = Call { nr: row.nr, args };
            prop_assert!(describe(&call, Some(ret)).starts_with(row.name));
            may_block(&call);
            let Planned::Plan(plan) = plan(&call, &mem) else { continue };
            for (i, piece) in plan.pieces.iter().enumerate() {
                prop_assert!(piece.home != 0 && piece.len != 0 && piece.home.checked_add(piece.len).is_some());
                if let Slot::In { piece: parent, offset } = piece.slot {
                    prop_assert!(parent < i && offset + 8 <= plan.pieces[parent].len, "{}", row.name);
                }
            }
            let place = |i: usize| plan.pieces[i].home.wrapping_add(u64::from(moved) << 12);
            for o in plan.outputs(ret, &place, &mem) {
                let piece = &plan.pieces[o.piece];
                prop_assert!(o.len > 0 && o.offset + o.len <= piece.len && piece.dir != Dir::In);
                for other in &plan.pieces {
                    if let Slot::In { piece, offset } = other.slot && piece == o.piece {
                        prop_assert!(o.offset + o.len <= offset || o.offset >= offset + 8);
                    }
                }
            }
        }
    }
}
