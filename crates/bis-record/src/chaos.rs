//! Chaos: scheduling that a program may meet, and hardly ever does, so that rare bugs become frequent.
//!
//! - Turns last from a single instruction to twenty milliseconds, and who gets the next is drawn.
//! - Now and then, for a while, one thread gets a turn only when no other of its domain can run: the waiting thread that
//!   never came in time, the writer that nobody saw halfway.
//! - Reads of pipes and stream sockets, and writes to them that may not wait, move fewer bytes than they were asked to,
//!   where POSIX lets them.
//!
//! All draws come from one seed. With the same seed a recording makes the same choices, though not at the same moments:
//! the program's own time is not chaos's to choose. A recording is replayed without any of this.

use std::{
    fs,
    os::unix::fs::{FileTypeExt, MetadataExt},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use bis_syscalls::Call;
use bis_trace::types::{Registers, Tid};

use crate::{domain::Domain, error::Result};

/// Bounds of a turn, and of the time between two looks of the watch thread.
const TURN_MIN: Duration = Duration::from_micros(50);
const TURN_MAX: Duration = Duration::from_millis(20);
const LOOK_MAX: Duration = Duration::from_millis(3);

/// Bounds of the time for which a thread is starved, or none is.
const MOOD_MIN: Duration = Duration::from_millis(5);
const MOOD_MAX: Duration = Duration::from_millis(300);

/// The calls that may move fewer bytes, by number: what they have in common is that the third argument says how many.
pub const SHORTENED: [u64; 4] = [
    libc::SYS_read.cast_unsigned(),
    libc::SYS_write.cast_unsigned(),
    libc::SYS_recvfrom.cast_unsigned(),
    libc::SYS_sendto.cast_unsigned(),
];

/// What draws.
#[derive(Debug)]
pub struct Chaos {
    random: Mutex<fastrand::Rng>,
}

impl Chaos {
    pub fn new(seed: u64) -> Chaos {
        Chaos { random: Mutex::new(fastrand::Rng::with_seed(seed)) }
    }

    fn draw<T>(&self, draw: impl FnOnce(&mut fastrand::Rng) -> T) -> T {
        draw(&mut self.random.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A time between these, short and long ones as often: its logarithm is uniform.
    fn time(&self, min: Duration, max: Duration) -> Duration {
        let ratio = max.as_secs_f64() / min.as_secs_f64();
        min.mul_f64(ratio.powf(self.draw(fastrand::Rng::f64)))
    }

    /// How long a turn lasts.
    pub fn turn(&self) -> Duration {
        self.time(TURN_MIN, TURN_MAX)
    }

    /// How many instructions a turn lasts, if it is one of the very short ones: no timer is fine enough for the few
    /// instructions between a check and what relies on it.
    pub fn steps(&self) -> Option<usize> {
        const MAX_LOG2: u32 = 11;
        self.draw(|random| {
            let max = 2 << random.u32(..MAX_LOG2);
            (random.u8(..) < 80).then(|| random.usize(1..max))
        })
    }

    /// How long the watch thread sleeps.
    pub fn look(&self) -> Duration {
        self.time(TURN_MIN, LOOK_MAX)
    }

    /// Of so many that could have the next turn: which.
    pub fn next(&self, count: usize) -> usize {
        self.draw(|random| if random.u8(..) < 85 { random.usize(..count.max(1)) } else { 0 })
    }

    /// For the next while (the second): which of so many threads is starved, if one is.
    fn mood(&self, count: usize) -> (Option<usize>, Duration) {
        let victim = self.draw(|random| random.bool().then(|| random.usize(..count.max(1))));
        (victim, self.time(MOOD_MIN, MOOD_MAX))
    }

    /// How many of `len` bytes a call moves.
    fn part(&self, len: u64) -> u64 {
        self.draw(|random| if len > 1 && random.u8(..) < 64 { random.u64(1..len) } else { len })
    }
}

impl Domain {
    /// Draws anew, when its time has come, who is starved.
    pub fn change_mood(&mut self) {
        let Some(chaos) = &self.session.chaos else { return };
        if self.mood_ends.is_some_and(|end| Instant::now() < end) {
            return;
        }
        let (victim, time) = chaos.mood(self.tasks.len());
        self.starved = victim.and_then(|index| self.tasks.keys().nth(index).copied());
        self.mood_ends = Some(Instant::now() + time);
    }

    /// Is it this task that gets a turn only where no other can?
    pub fn is_starved(&self, tid: Tid) -> bool {
        self.starved == Some(tid) && self.mood_ends.is_some_and(|end| Instant::now() < end)
    }

    /// At the entry of a call that is about to be made: asks the kernel for fewer bytes than the program does, perhaps.
    pub fn shorten(&mut self, tid: Tid, call: &Call) -> Result<()> {
        let Some(chaos) = self.session.chaos.clone() else { return Ok(()) };
        if !SHORTENED.contains(&call.nr) || self.call(tid)?.echo.is_some() {
            return Ok(());
        }
        let Some(least) = least(tid, call) else { return Ok(()) };
        let len = chaos.part(call.args[2]).max(least);
        if len >= call.args[2] {
            return Ok(());
        }
        let regs = self.stopped(tid)?.regs()?;
        self.stopped(tid)?.set_regs(&Registers { rdx: len, orig_rax: regs.orig_rax, ..regs })?;
        self.call(tid)?.shortened = true;
        Ok(())
    }
}

/// The fewest bytes that this read or write may move with nothing lost, if it may move fewer than asked for: a read of a TCP
/// socket, whose bytes come in any pieces; of a pipe or a local socket, as many as are written in one piece for certain; a
/// write that may not wait. A write that may wait moves everything.
fn least(tid: Tid, call: &Call) -> Option<u64> {
    /// A write of no more than this to a pipe is not divided (pipe(7)).
    const PIPE_BUF: u64 = 4096;
    let socket_call = call.nr == SHORTENED[2] || call.nr == SHORTENED[3];
    let reads = call.nr == SHORTENED[0] || call.nr == SHORTENED[2];
    // Peeking, waiting for all of it, ends of records and out-of-band bytes depend on the length.
    let plain_flags = u64::from((libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL).cast_unsigned());
    let flags = if socket_call { call.args[3] } else { 0 };
    if flags & !plain_flags != 0 {
        return None;
    }
    let fd = call.i32(0);
    let meta = fs::metadata(format!("/proc/{tid}/fd/{fd}")).ok()?;
    let waits = flags & u64::from(libc::MSG_DONTWAIT.cast_unsigned()) == 0 && !is_nonblocking(tid, fd);
    if !reads && waits {
        return None;
    }
    if meta.file_type().is_fifo() {
        return Some(PIPE_BUF);
    }
    if meta.file_type().is_socket() { least_of_socket(tid, meta.ino(), PIPE_BUF) } else { None }
}

fn is_nonblocking(tid: Tid, fd: i32) -> bool {
    let info = fs::read_to_string(format!("/proc/{tid}/fdinfo/{fd}")).unwrap_or_default();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|text| i32::from_str_radix(text.trim(), 8).ok());
    flags.is_some_and(|flags| flags & libc::O_NONBLOCK != 0)
}

/// The same for a socket; none for one of packets.
fn least_of_socket(tid: Tid, inode: u64, local: u64) -> Option<u64> {
    let listed = |table: &str, column: usize, matches: &dyn Fn(&[&str]) -> bool| {
        let text = fs::read_to_string(format!("/proc/{tid}/net/{table}")).unwrap_or_default();
        text.lines().skip(1).any(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            fields.get(column).and_then(|field| field.parse().ok()) == Some(inode) && matches(&fields)
        })
    };
    // /proc/net/unix: Num RefCount Protocol Flags Type St Inode; type 1 is SOCK_STREAM.
    if listed("unix", 6, &|fields| fields.get(4) == Some(&"0001")) {
        return Some(local);
    }
    (listed("tcp", 9, &|_| true) || listed("tcp6", 9, &|_| true)).then_some(1)
}
