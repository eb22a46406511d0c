//! The text that gives way to a jump.

use bis_rewrite::Span;
use bis_trace::types::Addr;

/// The text that gives way to a jump at an address of a program of so many bits. None: no jump can be there.
pub(crate) fn span_at(bits: u32, at: Addr, read: impl FnOnce(Addr, usize) -> Vec<u8>) -> Option<Span> {
    const CODE_MAX: usize = 64;
    Span::begin(bits, at.0, &read(at, CODE_MAX))
}
