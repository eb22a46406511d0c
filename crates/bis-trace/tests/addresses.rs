//! What can be calculated with addresses, at both ends of the address space too.

use bis_trace::types::{Addr, PAGE};

const LAST_PAGE: Addr = Addr(u64::MAX - (PAGE - 1));

#[test]
fn an_address_and_bytes_make_an_address_and_two_addresses_are_bytes_apart() {
    let (low, high) = (Addr(0x1000), Addr(0x1800));
    assert_eq!((low + 0x800, high - 0x800, high - low), (high, low, 0x800));
    assert_eq!((low.abs_diff(high), high.abs_diff(low)), (0x800, 0x800));
    assert_eq!((high.checked_since(low), low.checked_since(high)), (Some(0x800), None));
    assert_eq!((low.saturating_since(high), low.wrapping_since(high)), (0, 0u64.wrapping_sub(0x800)));
    assert_eq!((Addr::MAX.checked_add(1), Addr::NULL.checked_sub(1)), (None, None));
    assert_eq!((Addr::MAX.saturating_add(1), Addr::NULL.saturating_sub(1)), (Addr::MAX, Addr::NULL));
    assert_eq!((Addr::MAX.wrapping_add(1), Addr::NULL.wrapping_sub(1)), (Addr::NULL, Addr::MAX));
}

#[test]
fn pages_begin_at_or_below_an_address_and_end_at_or_above_it() {
    for (addr, floor, ceil) in [(0, 0, 0), (1, 0, PAGE), (PAGE, PAGE, PAGE), (2 * PAGE - 1, PAGE, 2 * PAGE)] {
        assert_eq!((Addr(addr).page_floor(), Addr(addr).page_ceil()), (Addr(floor), Addr(ceil)));
        assert_eq!(Addr(addr).checked_page_ceil(), Some(Addr(ceil)));
    }
    assert_eq!((Addr(2 * PAGE + 5).page_offset(), Addr(2 * PAGE + 5).page_number()), (5, 2));
    // No page begins above the last one.
    assert_eq!((LAST_PAGE.page_ceil(), LAST_PAGE.checked_page_ceil()), (LAST_PAGE, Some(LAST_PAGE)));
    assert_eq!((Addr::MAX.page_ceil(), Addr::MAX.checked_page_ceil()), (LAST_PAGE, None));
}

#[test]
fn steps_stay_within_their_range() {
    let steps = |start, end| Addr::steps(Addr(start)..Addr(end), 8).map(|addr| addr.0).collect::<Vec<u64>>();
    assert_eq!((steps(4, 20), steps(4, 21)), (vec![4, 12], vec![4, 12, 20]));
    assert!(steps(4, 4).is_empty() && steps(5, 4).is_empty());
    assert_eq!(Addr(4).and_behind(8).take(2).collect::<Vec<_>>(), [Addr(4), Addr(12)]);
}

#[test]
fn an_address_is_shown_in_hexadecimal_digits() {
    let addr = Addr(0x7fff_1000);
    assert_eq!(format!("{addr} {addr:?} {addr:#x} {addr:x}"), "0x7fff1000 0x7fff1000 0x7fff1000 7fff1000");
}
