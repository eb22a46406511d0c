//! Signals: masks of 32 bits, queued siginfos, and waiting for a signal. Signal sets of 8 bytes have one
//! layout.

use super::layout::Fields;
use super::room::{Made, Maker, Other, When, made};
use super::siginfo;
use super::time::Width;

const SIGPROCMASK: u64 = 14;
const SET_LEN: u64 = 8;
const SIG_BLOCK: u32 = 0;
const SIG_SETMASK: u32 = 2;

/// The first 32 signals of a set.
fn first_word(bytes: &[u8]) -> Result<Vec<u8>, i32> {
    Ok(bytes[..4].to_vec())
}

impl Maker<'_> {
    /// A set of 8 bytes with these of the first 32 signals.
    fn mask(&mut self, signals: u32) -> Result<u64, Other> {
        self.put(&u64::from(signals).to_le_bytes())
    }
}

pub(super) fn sigpending(m: &mut Maker<'_>) -> Made {
    made(127, [m.out(m.raw(0), SET_LEN, first_word)?, SET_LEN])
}

/// The mask is the third argument itself.
pub(super) fn sigsuspend(m: &mut Maker<'_>) -> Made {
    made(130, [m.mask(m.raw(2))?, SET_LEN])
}

/// The result is the old mask.
fn old_mask(m: &mut Maker<'_>) -> Result<u64, Other> {
    let from = m.space(SET_LEN)?;
    m.back(
        When::Success,
        |after, [from, ..]| {
            after.result = Fields(&after.bytes(from, 4)?).u32(0).into();
            Ok(())
        },
        [from, 0, 0, 0],
    );
    Ok(from)
}

pub(super) fn sgetmask(m: &mut Maker<'_>) -> Made {
    made(SIGPROCMASK, [SIG_BLOCK.into(), 0, old_mask(m)?, SET_LEN])
}

pub(super) fn ssetmask(m: &mut Maker<'_>) -> Made {
    made(SIGPROCMASK, [SIG_SETMASK.into(), m.mask(m.raw(0))?, old_mask(m)?, SET_LEN])
}

/// A call that sends the siginfo at argument `i`.
pub(super) fn sent(m: &mut Maker<'_>, nr: u64, i: usize) -> Made {
    let mut call = m.plain(nr);
    if m.raw(i) != 0 {
        let info = siginfo::widened(&m.read(m.arg(i), 128)?);
        call.args[i] = m.put(&info)?;
    }
    Ok(call)
}

pub(super) fn sigtimedwait(m: &mut Maker<'_>, width: Width) -> Made {
    let info = m.out_opt(m.raw(1), 128, siginfo::shape)?;
    made(128, [m.arg(0), info, m.times_in(2, 1, width)?, m.arg(3)])
}
