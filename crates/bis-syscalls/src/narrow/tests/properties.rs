//! Whatever a program does, nothing panics and no piece lies outside of the room.

use super::*;
use proptest::prelude::*;

/// Memory that is not the same at any two addresses, with holes.
struct Noise {
    seed: u64,
    holes: u64,
}

impl Memory for Noise {
    fn read(&self, addr: u64, buf: &mut [u8]) -> bool {
        for (i, byte) in buf.iter_mut().enumerate() {
            let at = addr.wrapping_add(i as u64);
            if self.holes > 0 && (at >> 12).wrapping_mul(0x9e37_79b9) % 16 < self.holes {
                return false;
            }
            let mixed = (at ^ self.seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            // Many zeros and small numbers, so that counts and ends of arrays are found.
            *byte = if mixed >> 60 < 9 { 0 } else { mixed.to_le_bytes()[5] & 0x1f };
        }
        true
    }
}

fn number() -> impl Strategy<Value = u32> {
    prop_oneof![
        3 => 0..64_u32,
        1 => any::<u32>(),
        2 => 0x1000_0000..0x1001_0000_u32,
        1 => Just(0),
        1 => Just(u32::MAX),
    ]
}

fn is_in_room(addr: u64) -> bool {
    (ROOM..ROOM + ROOM_LEN).contains(&addr)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn nothing_panics_and_pieces_lie_in_the_room(
        nr in prop_oneof![8 => 0..480_u32, 1 => Just(102), 2 => Just(117), 1 => Just(54), 1 => any::<u32>()],
        args in [number(), number(), number(), number(), number(), number()],
        seed in any::<u64>(),
        holes in 0..3_u64,
        result in prop_oneof![Just(0), 1..5_i64, 0..5000_i64, -600..0_i64, any::<i64>()],
    ) {
        let mem = Noise { seed, holes };
        let call = NarrowCall { nr, args };
        match translate(&call, ROOM, &mem) {
            Translated::Thunk(thunk) => {
                prop_assert!(thunk.content.len() as u64 <= ROOM_LEN);
                for arg in thunk.call.args.into_iter().filter(|arg| is_in_room(*arg)) {
                    let is_its_own = args.iter().any(|own| u64::from(*own) == arg);
                    // A piece of no bytes may lie at the end.
                    prop_assert!(is_its_own || arg <= ROOM + thunk.content.len() as u64);
                }
                prop_assert!(crate::row(thunk.call.nr).is_some());
                let (narrow, writes) = thunk.finish(result, &mem);
                prop_assert!(narrow <= i64::from(u32::MAX));
                if narrow < 0 {
                    prop_assert!((-4095..0).contains(&narrow));
                }
                prop_assert!(writes.iter().all(|(_, bytes)| !bytes.is_empty()));
                // The room as it was before the call is no less sensible.
                let room = Pieces::default().with(ROOM, &thunk.content);
                thunk.finish(result, &room);
            }
            Translated::Own(own) => prop_assert!(crate::row(own.call.nr).is_some()),
            Translated::Refused(errno, why) => prop_assert!(errno > 0 && !why.is_empty()),
            Translated::Done(result) => prop_assert!((-4095..0).contains(&result)),
        }
    }
}
