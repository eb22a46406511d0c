//! Calls that move bytes and wait until they have moved all of them. A signal that the process ignores does
//! not even wake such a call natively; but the kernel shows it to a tracer, and for that the call returns
//! with what it has moved by then. So does it where only we have asked the task to stop. The task then makes
//! the call again for the rest, and the program sees one call that has moved all.

use bis_syscalls::{Call, MovedBytes, errno::RESTARTS, row};
use bis_trace::types::{Addr, Fd, Registers, Tid};
use bis_tracee::{Memory, proc, sys};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    net::sockopt::{Timeout, socket_timeout},
};

use super::{
    args::{message_flags, message_pieces, pieces},
    finish::EINTR,
};
use crate::{crew::Crew, error::Result, process::Process};

/// How a call says what it moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Moves {
    /// By these arguments: the bytes' address, where they are the program's, and how many they are.
    Bytes { address: Option<usize>, count: usize },
    /// By a vector. For what is left of one of its pieces stands another call, with these further arguments.
    Pieces { vector: Vector, of_one: u64, flags: u64 },
}

/// Where a call's vector is: argument 1 leads to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Vector {
    /// It is there, with as many pieces as argument 2 says.
    Bare,
    /// There is a `struct msghdr`.
    InMessage,
}

/// None for calls that may move fewer bytes than they are asked to.
fn moves(call: &Call) -> Option<Moves> {
    let transfer = row(call.nr)?.transfer.filter(|it| it.waits_for_all(call.args))?;
    let pieces = |vector, of_one: i64| {
        let (of_one, flags) = (of_one.cast_unsigned(), transfer.message_flags(call.args));
        Moves::Pieces { vector, of_one, flags }
    };
    Some(match transfer.memory {
        MovedBytes::Bytes => Moves::Bytes { address: Some(1), count: 2 },
        MovedBytes::Descriptor { count } => Moves::Bytes { address: None, count: count.into() },
        MovedBytes::Vector => pieces(Vector::Bare, libc::SYS_write),
        MovedBytes::Message if transfer.reads => pieces(Vector::InMessage, libc::SYS_recvfrom),
        MovedBytes::Message => pieces(Vector::InMessage, libc::SYS_sendto),
    })
}

impl Vector {
    /// The pieces with bytes, as the call with these arguments names them.
    fn pieces(self, memory: &Memory, args: [u64; 6]) -> Vec<(Addr, u64)> {
        let at = Addr(args[1]);
        match self {
            Vector::Bare => pieces(memory, at, args[2], u64::MAX),
            Vector::InMessage => message_pieces(memory, at, u64::MAX),
        }
    }
}

/// The arguments with which the rest is asked for, when so many bytes have been moved.
fn rest(mut args: [u64; 6], address: Option<usize>, count: usize, moved: u64) -> [u64; 6] {
    args[count] -= moved;
    if let Some(address) = address {
        args[address] += moved;
    }
    args
}

/// The pieces that are left, when so many bytes have been moved.
fn rest_of(pieces: &[(Addr, u64)], mut moved: u64) -> Vec<(Addr, u64)> {
    let left = |(addr, len): &(Addr, u64)| {
        let taken = moved.min(*len);
        moved -= taken;
        (taken < *len).then(|| (*addr + taken, *len - taken))
    };
    pieces.iter().filter_map(left).collect()
}

/// What a call that moves bytes has come to when it returns.
struct Moved {
    /// By its returns before.
    before: u64,
    now: u64,
    /// It has moved less than it was asked to, as far as its result tells.
    is_short: bool,
}

impl Moved {
    fn of(before: u64, result: i64, asked: u64) -> Moved {
        let now = u64::try_from(result).unwrap_or(0);
        let is_restart = result == EINTR || RESTARTS.contains(&result);
        Moved { before, now, is_short: now > 0 && now < asked || before > 0 && is_restart }
    }

    /// The registers with which the call has ended, if it has: what was moved is its result, whatever has
    /// ended it.
    fn whole(&self, regs: Registers, nr: u64) -> Registers {
        Registers { rax: self.before + self.now, orig_rax: nr, ..regs }
    }
}

impl Process {
    /// The task stands at the exit of its call with these registers. Those with which the call ends; none: it
    /// is made again for what is left.
    pub fn finish_move(&mut self, tid: Tid, regs: Registers) -> Result<Option<Registers>> {
        let call = self.call(tid)?;
        let made = call.entry.call();
        let is_ours = call.telling.is_whole() || call.pieces.before().is_some();
        let before = call.asked.moved();
        let Some(moves) = moves(&made).filter(|_| !is_ours) else { return Ok(Some(regs)) };
        let (vector, of_one, flags) = match moves {
            Moves::Bytes { address, count } => {
                let moved = Moved::of(before, regs.result(), regs.args()[count]);
                if moved.is_short && self.is_cut_by_nobody(tid, &made)? {
                    let args = rest(regs.args(), address, count, moved.now);
                    let whole = moved.whole(regs, made.nr);
                    return self.move_rest(tid, (made.nr, args), Vec::new(), whole).map(|()| None);
                }
                return self.end_move(tid, &moved, regs, made.nr);
            }
            Moves::Pieces { vector, of_one, flags } => (vector, of_one, flags),
        };
        if before == 0 && regs.result() <= 0 {
            return Ok(Some(regs));
        }
        // Where scratch memory stands for the program's, the registers lead there.
        let left = self.call(tid)?.asked.left().to_vec();
        let is_of_all = left.is_empty();
        let pieces = if is_of_all { vector.pieces(&self.memory, regs.args()) } else { left };
        let asked = if is_of_all { pieces.iter().map(|(_, len)| len).sum() } else { pieces[0].1 };
        let moved = Moved::of(before, regs.result(), asked);
        let left = rest_of(&pieces, moved.now);
        let is_cut = moved.is_short && self.is_cut_by_nobody(tid, &made)?;
        // The next piece is asked for where the one before is whole.
        let goes_on = !is_of_all && moved.now == asked;
        match left.first().copied().filter(|_| is_cut || goes_on) {
            Some((addr, len)) => {
                let args = [regs.rdi, addr.0, len, flags, 0, 0];
                self.move_rest(tid, (of_one, args), left, moved.whole(regs, made.nr)).map(|()| None)
            }
            None => self.end_move(tid, &moved, regs, made.nr),
        }
    }

    /// The call is made again with this number and these arguments, for what is left: of one that names its
    /// bytes in pieces, these.
    fn move_rest(
        &mut self,
        tid: Tid,
        again: (u64, [u64; 6]),
        left: Vec<(Addr, u64)>,
        whole: Registers,
    ) -> Result<()> {
        self.call(tid)?.asked.ask_for_rest(whole.rax, left);
        self.make_again(tid, again, whole)
    }

    /// The task stands at the exit of its call: it is set back to make it again, with this number and these
    /// arguments. What comes first decides: if it is a handler, the call has ended with the registers
    /// `otherwise`.
    pub fn make_again(&mut self, tid: Tid, again: (u64, [u64; 6]), otherwise: Registers) -> Result<()> {
        let (rax, [rdi, rsi, rdx, r10, r8, r9]) = again;
        let rip = (self.space.again_rip(otherwise.ip()) - 2).0;
        let again = Registers { rip, rax, orig_rax: u64::MAX, rdi, rsi, rdx, r10, r8, r9, ..otherwise };
        self.stopped(tid)?.set_regs(&again)?;
        self.call(tid)?.wait.be_set_back(otherwise);
        self.task(tid)?.standing.go_on();
        Ok(())
    }
}

impl Crew {
    /// Has nothing that the program can know of cut this call?
    fn is_cut_by_nobody(&self, tid: Tid, call: &Call) -> Result<bool> {
        if self.is_interrupted_by_us(tid)? {
            return Ok(true);
        }
        // A signal for the whole process wakes one thread, and another may have taken it since.
        let pid = self.task_ref(tid)?.pid;
        let has_others = self.tasks.values().any(|task| task.pid == pid && task.tid != tid);
        Ok(has_others && self.deliverable(tid)?.is_empty() && self.would_go_on(tid, pid, call))
    }

    /// Would a call that has moved a part of its bytes wait for the rest, had nothing interrupted it? Not
    /// where it may not wait, or waits for some time only, and not where the other end is gone.
    fn would_go_on(&self, tid: Tid, pid: Tid, call: &Call) -> bool {
        let fd = Fd::of_arg(call.args[0]);
        let waits = message_flags(call) & libc::MSG_DONTWAIT == 0
            && proc::open_flags(tid, fd).is_some_and(|flags| flags & libc::O_NONBLOCK == 0);
        let Some(file) = sys::take_fd(pid, fd).ok().filter(|_| waits) else { return false };
        let has_limit = |which| socket_timeout(&file, which).is_ok_and(|limit| limit.is_some());
        if has_limit(Timeout::Recv) || has_limit(Timeout::Send) {
            return false;
        }
        let gone = PollFlags::ERR | PollFlags::HUP | PollFlags::RDHUP | PollFlags::NVAL;
        let mut ends = [PollFd::new(&file, PollFlags::RDHUP)];
        poll(&mut ends, Some(&Timespec::default())).is_ok() && !ends[0].revents().intersects(gone)
    }

    /// The call has ended. `regs` says what it has moved at last.
    fn end_move(&mut self, tid: Tid, moved: &Moved, regs: Registers, nr: u64) -> Result<Option<Registers>> {
        if moved.before == 0 {
            return Ok(Some(regs));
        }
        let whole = moved.whole(regs, nr);
        self.stopped(tid)?.set_regs(&whole)?;
        Ok(Some(whole))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moves_all_or_waits_is_asked_for_the_rest() {
        let call = |nr: i64, args| Call { nr: nr.cast_unsigned(), args };
        let moved = |nr, args| moves(&call(nr, args)).expect("it moves all");
        let write = moved(libc::SYS_write, [1, 0x1000, 100, 0, 0, 0]);
        assert_eq!(write, Moves::Bytes { address: Some(1), count: 2 });
        assert_eq!(rest([1, 0x1000, 100, 7, 0, 0], Some(1), 2, 40), [1, 0x1028, 60, 7, 0, 0]);
        let sendfile = moved(libc::SYS_sendfile, [1, 2, 0x1000, 100, 0, 0]);
        assert_eq!(sendfile, Moves::Bytes { address: None, count: 3 });
        assert_eq!(rest([1, 2, 0x1000, 100, 0, 0], None, 3, 40), [1, 2, 0x1000, 60, 0, 0]);
        let receives = |flags: i32| {
            moves(&call(libc::SYS_recvfrom, [1, 0x1000, 100, flags.cast_unsigned().into(), 0, 0])).is_some()
        };
        assert!(receives(libc::MSG_WAITALL));
        assert!(!receives(0), "it takes what is there");
        assert!(!receives(libc::MSG_WAITALL | libc::MSG_PEEK), "it would see the same again");
        assert_eq!(moves(&call(libc::SYS_read, [0, 0x1000, 100, 0, 0, 0])), None);
    }

    #[test]
    fn what_is_left_of_pieces_begins_where_the_bytes_end() {
        let pieces = [(Addr(0x1000), 10), (Addr(0x2000), 20), (Addr(0x3000), 5)];
        assert_eq!(rest_of(&pieces, 4), [(Addr(0x1004), 6), (Addr(0x2000), 20), (Addr(0x3000), 5)]);
        assert_eq!(rest_of(&pieces, 10), [(Addr(0x2000), 20), (Addr(0x3000), 5)]);
        assert_eq!(rest_of(&pieces, 29), [(Addr(0x2013), 1), (Addr(0x3000), 5)]);
        assert_eq!(rest_of(&pieces, 35), []);
    }

    #[test]
    fn a_call_is_short_where_bytes_are_left_or_a_signal_has_ended_its_rest() {
        let is_short = |before, result, asked| Moved::of(before, result, asked).is_short;
        assert!(is_short(0, 10, 20) && is_short(10, EINTR, 10) && is_short(10, RESTARTS[0], 10));
        assert!(!is_short(0, 20, 20) && !is_short(0, EINTR, 20) && !is_short(10, -32, 10));
        assert!(!is_short(10, 0, 10), "there is nothing more to be had");
    }
}
