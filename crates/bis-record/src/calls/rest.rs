//! Calls that move bytes and wait until they have moved all of them. A signal that the process ignores does
//! not even wake such a call natively; but the kernel shows it to a tracer, and for that the call returns
//! with what it has moved by then. So does it where only we have asked the task to stop. The task then makes
//! the call again for the rest, and the program sees one call that has moved all.

use bis_syscalls::Call;
use bis_trace::types::{Registers, Tid};

use super::finish::{EINTR, RESTARTS};
use crate::{domain::Domain, error::Result};

/// Which arguments of a call say what it moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Moves {
    /// The bytes' address, where they are the program's.
    address: Option<usize>,
    count: usize,
}

/// None for calls that may move fewer bytes than they are asked to, or that say in pieces where those are.
fn moves(call: &Call) -> Option<Moves> {
    let waits_for_all = |flags: u64| {
        let flags = i32::try_from(flags).unwrap_or(0);
        flags & libc::MSG_WAITALL != 0 && flags & libc::MSG_PEEK == 0
    };
    match call.nr.cast_signed() {
        libc::SYS_write | libc::SYS_sendto => Some(Moves { address: Some(1), count: 2 }),
        libc::SYS_recvfrom if waits_for_all(call.args[3]) => Some(Moves { address: Some(1), count: 2 }),
        libc::SYS_sendfile => Some(Moves { address: None, count: 3 }),
        _ => None,
    }
}

/// The arguments with which the rest is asked for, when so many bytes have been moved.
fn rest(mut args: [u64; 6], moves: Moves, moved: u64) -> [u64; 6] {
    args[moves.count] -= moved;
    if let Some(address) = moves.address {
        args[address] += moved;
    }
    args
}

impl Domain {
    /// The task stands at the exit of its call with these registers. Those with which the call ends; none: it
    /// is made again for what is left.
    pub fn moved(&mut self, tid: Tid, regs: Registers) -> Result<Option<Registers>> {
        let call = self.call(tid)?;
        let made = Call { nr: call.nr, args: call.entry.args() };
        let before = call.moved;
        let Some(moves) = moves(&made).filter(|_| !call.silent && call.before.is_none()) else {
            return Ok(Some(regs));
        };
        let (result, left) = (regs.result(), regs.args()[moves.count]);
        let now = u64::try_from(result).unwrap_or(0);
        let is_restart = result == EINTR || RESTARTS.contains(&result);
        let is_cut = now > 0 && now < left || before > 0 && is_restart;
        let whole = Registers { rax: before + now, ..regs };
        if is_cut && self.is_interrupted_by_us(tid)? {
            let call = self.call(tid)?;
            (call.moved, call.shortened) = (before + now, true);
            self.make_again(tid, rest(regs.args(), moves, now), whole)?;
            return Ok(None);
        }
        if before == 0 {
            return Ok(Some(regs));
        }
        // Whatever has ended it now: what was moved before is its result.
        self.stopped(tid)?.set_regs(&whole)?;
        Ok(Some(whole))
    }

    /// The task stands at the exit of its call: it is set back to make it again, with these arguments. What
    /// comes first decides: if it is a handler, the call has ended with the registers `otherwise`.
    pub fn make_again(&mut self, tid: Tid, args: [u64; 6], otherwise: Registers) -> Result<()> {
        let [rdi, rsi, rdx, r10, r8, r9] = args;
        let (rip, rax) = (self.again_rip(otherwise.rip) - 2, otherwise.orig_rax);
        let again = Registers { rip, rax, orig_rax: u64::MAX, rdi, rsi, rdx, r10, r8, r9, ..otherwise };
        self.stopped(tid)?.set_regs(&again)?;
        self.call(tid)?.set_back = Some(otherwise);
        self.task(tid)?.standing.go_on();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moves_all_or_waits_is_asked_for_the_rest() {
        let call = |nr: i64, args| Call { nr: nr.cast_unsigned(), args };
        let write = moves(&call(libc::SYS_write, [1, 0x1000, 100, 0, 0, 0])).unwrap();
        assert_eq!(rest([1, 0x1000, 100, 7, 0, 0], write, 40), [1, 0x1028, 60, 7, 0, 0]);
        let sendfile = moves(&call(libc::SYS_sendfile, [1, 2, 0x1000, 100, 0, 0])).unwrap();
        assert_eq!(rest([1, 2, 0x1000, 100, 0, 0], sendfile, 40), [1, 2, 0x1000, 60, 0, 0]);
        let receives = |flags: i32| {
            moves(&call(libc::SYS_recvfrom, [1, 0x1000, 100, flags.cast_unsigned().into(), 0, 0])).is_some()
        };
        assert!(receives(libc::MSG_WAITALL));
        assert!(!receives(0), "it takes what is there");
        assert!(!receives(libc::MSG_WAITALL | libc::MSG_PEEK), "it would see the same again");
        assert_eq!(moves(&call(libc::SYS_read, [0, 0x1000, 100, 0, 0, 0])), None);
    }
}
