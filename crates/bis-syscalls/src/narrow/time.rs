//! Times. The old 32-bit calls have times of two signed 32-bit numbers. Those of the `time64` family have the
//! 64-bit layout; but the upper half of their nanoseconds is padding, which a C library need not clear, and
//! which the kernel ignores in a call of a 32-bit program. So these are copied too.

use super::layout::{Fresh, narrowed, signed, widened};
use super::room::{Made, Maker, Other, When, made};

/// Which layout a call's times have.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    /// `old_timespec32`, `old_timeval32`.
    Old,
    /// `__kernel_timespec`.
    Wide,
}

use Width::{Old, Wide};

pub(super) fn narrow(bytes: &[u8]) -> Result<Vec<u8>, i32> {
    Ok(narrowed(bytes))
}

fn as_it_is(bytes: &[u8]) -> Result<Vec<u8>, i32> {
    Ok(bytes.to_vec())
}

/// Bytes that no time has, to see whether the kernel wrote one there.
const UNTOUCHED: [u8; 16] = [0xff; 16];

impl Maker<'_> {
    /// `count` times at `addr` in the 64-bit layout.
    fn times(&self, addr: u32, count: u64, width: Width) -> Result<Vec<u8>, Other> {
        match width {
            Old => Ok(widened(&self.read(addr.into(), 8 * count)?)),
            Wide => {
                let mut bytes = self.read(addr.into(), 16 * count)?;
                bytes.chunks_exact_mut(16).for_each(|time| time[12..].fill(0));
                Ok(bytes)
            }
        }
    }

    /// The place in the room of `count` times that the kernel reads; 0 for a null pointer.
    pub(super) fn times_in(&mut self, i: usize, count: u64, width: Width) -> Result<u64, Other> {
        let addr = self.raw(i);
        if addr == 0 {
            return Ok(0);
        }
        let times = self.times(addr, count, width)?;
        self.put(&times)
    }

    /// Where the kernel writes `count` times.
    pub(super) fn times_out(&mut self, i: usize, count: u64, width: Width) -> Result<u64, Other> {
        match width {
            Old => self.out_opt(self.raw(i), 16 * count, narrow),
            Wide => Ok(self.arg(i)),
        }
    }

    /// A time that the kernel reads, and where it stores what is left of it.
    pub(super) fn timeout(&mut self, i: usize, width: Width) -> Result<u64, Other> {
        let addr = self.raw(i);
        if addr == 0 {
            return Ok(0);
        }
        let time = self.times(addr, 1, width)?;
        self.lazy(When::Always, &time, addr, if width == Old { narrow } else { as_it_is })
    }

    /// Where the kernel stores the rest of a sleep that a signal interrupts.
    fn rest(&mut self, i: usize, width: Width) -> Result<u64, Other> {
        match (width, self.raw(i)) {
            (_, 0) => Ok(0),
            (Old, addr) => self.lazy(When::Interrupted, &UNTOUCHED, addr, narrow),
            (Wide, addr) => Ok(addr.into()),
        }
    }
}

pub(super) fn nanosleep(m: &mut Maker<'_>) -> Made {
    made(35, [m.times_in(0, 1, Old)?, m.rest(1, Old)?])
}

pub(super) fn clock_nanosleep(m: &mut Maker<'_>, width: Width) -> Made {
    made(230, [m.arg(0), m.arg(1), m.times_in(2, 1, width)?, m.rest(3, width)?])
}

pub(super) fn clock_settime(m: &mut Maker<'_>, width: Width) -> Made {
    made(227, [m.arg(0), m.times_in(1, 1, width)?])
}

/// clock_gettime, clock_getres, sched_rr_get_interval, getitimer, timer_gettime, timerfd_gettime: a number,
/// and where `count` times go.
pub(super) fn asked(m: &mut Maker<'_>, nr: u64, count: u64) -> Made {
    made(nr, [m.arg(0), m.times_out(1, count, Old)?])
}

pub(super) fn gettimeofday(m: &mut Maker<'_>) -> Made {
    made(96, [m.times_out(0, 1, Old)?, m.arg(1)])
}

pub(super) fn settimeofday(m: &mut Maker<'_>) -> Made {
    made(164, [m.times_in(0, 1, Old)?, m.arg(1)])
}

/// The seconds are the result, and are stored in 4 bytes.
pub(super) fn time(m: &mut Maker<'_>) -> Made {
    if m.raw(0) != 0 {
        let numbers = [m.arg(0), 0, 0, 0];
        m.back(
            When::Success,
            |after, [to, ..]| {
                let seconds = super::layout::low(after.count());
                after.write(to, seconds.to_le_bytes().to_vec());
                Ok(())
            },
            numbers,
        );
    }
    made(201, [0])
}

/// The x86-64 table has no `stime`; `settimeofday` without microseconds is the same.
pub(super) fn stime(m: &mut Maker<'_>) -> Made {
    let seconds = m.read_u32(m.arg(0))?;
    let mut timeval = Fresh::new(16);
    timeval.u64(0, signed(seconds));
    made(164, [m.put(&timeval.0)?, 0])
}

/// A `struct utimbuf` is two longs, as large as a time.
pub(super) fn utime(m: &mut Maker<'_>) -> Made {
    made(132, [m.arg(0), m.times_in(1, 1, Old)?])
}

pub(super) fn utimes(m: &mut Maker<'_>) -> Made {
    made(235, [m.arg(0), m.times_in(1, 2, Old)?])
}

pub(super) fn futimesat(m: &mut Maker<'_>) -> Made {
    made(261, [m.arg(0), m.arg(1), m.times_in(2, 2, Old)?])
}

pub(super) fn utimensat(m: &mut Maker<'_>, width: Width) -> Made {
    made(280, [m.arg(0), m.arg(1), m.times_in(2, 2, width)?, m.arg(3)])
}

pub(super) fn setitimer(m: &mut Maker<'_>) -> Made {
    made(38, [m.arg(0), m.times_in(1, 2, Old)?, m.times_out(2, 2, Old)?])
}

/// timer_settime, timerfd_settime.
pub(super) fn timer_settime(m: &mut Maker<'_>, nr: u64, width: Width) -> Made {
    made(nr, [m.arg(0), m.arg(1), m.times_in(2, 2, width)?, m.times_out(3, 2, width)?])
}

/// `struct sigevent`: a value (a `sigval` of a pointer's size), the signal, how to notify, and the thread.
pub(super) fn sigevent(m: &mut Maker<'_>, i: usize) -> Result<u64, Other> {
    if m.raw(i) == 0 {
        return Ok(0);
    }
    let bytes = m.read(m.arg(i), 64)?;
    let mut wide = Fresh::new(64);
    wide.put(0, &bytes[..4]);
    wide.put(8, &bytes[4..16]);
    m.put(&wide.0)
}

pub(super) fn timer_create(m: &mut Maker<'_>) -> Made {
    made(222, [m.arg(0), sigevent(m, 1)?, m.arg(2)])
}

/// The operations of which the fourth argument is a time; for the others it is a number.
fn takes_time(op: u32) -> bool {
    // WAIT, LOCK_PI, WAIT_BITSET, WAIT_REQUEUE_PI, LOCK_PI2; without PRIVATE and CLOCK_REALTIME.
    matches!(op & 0x7f, 0 | 6 | 9 | 11 | 13)
}

pub(super) fn futex(m: &mut Maker<'_>, width: Width) -> Made {
    let timeout = if takes_time(m.raw(1)) { m.times_in(3, 1, width)? } else { m.arg(3) };
    made(202, [m.arg(0), m.arg(1), m.arg(2), timeout, m.arg(4), m.arg(5)])
}

/// A call with a time at argument `i` that is only read; all else is the same.
pub(super) fn timed(m: &mut Maker<'_>, nr: u64, i: usize, width: Width) -> Made {
    let mut call = m.plain(nr);
    call.args[i] = m.times_in(i, 1, width)?;
    Ok(call)
}

/// `struct mq_attr` is eight longs.
pub(super) fn mq_open(m: &mut Maker<'_>) -> Made {
    // O_CREAT
    let attr = if m.raw(1) & 0x40 != 0 { mq_attr(m, 3)? } else { m.arg(3) };
    made(240, [m.arg(0), m.arg(1), m.arg(2), attr])
}

pub(super) fn mq_getsetattr(m: &mut Maker<'_>) -> Made {
    let new = mq_attr(m, 1)?;
    made(245, [m.arg(0), new, m.out_opt(m.raw(2), 64, narrow)?])
}

fn mq_attr(m: &mut Maker<'_>, i: usize) -> Result<u64, Other> {
    if m.raw(i) == 0 {
        return Ok(0);
    }
    let wide = widened(&m.read(m.arg(i), 32)?);
    m.put(&wide)
}

pub(super) fn mq_notify(m: &mut Maker<'_>) -> Made {
    made(244, [m.arg(0), sigevent(m, 1)?])
}
