//! With chaos: reads and writes that move fewer bytes than they were asked to, where POSIX lets them.
//!
//! Not where somebody waits for edges (EPOLLET): of a stream, a read or write that has moved less than it was
//! asked to says that there is no more, and that the next edge is to be waited for (epoll(7), question 9).

use std::{
    fs,
    os::unix::fs::{FileTypeExt, MetadataExt},
};

use bis_syscalls::{Call, Transfer, row};
use bis_trace::types::{Addr, Fd, Registers, Tid};
use bis_tracee::proc;

use super::Exit;
use crate::{chaos::Chaos, crew::Crew, error::Result};

/// The fewest bytes that this read or write may move with nothing lost, if it may move fewer than asked for:
/// a read of a TCP socket, whose bytes come in any pieces; of a pipe or a local socket, as many as are
/// written in one piece for certain; a write that may not wait. A write that may wait moves everything.
fn least(chaos: &Chaos, tid: Tid, call: &Call) -> Option<u64> {
    let transfer = row(call.nr)?.transfer.filter(Transfer::may_be_shortened)?;
    /// A write of no more than this to a pipe is not divided (pipe(7)).
    const PIPE_BUF: u64 = libc::PIPE_BUF as u64;
    // Peeking, waiting for all of it, ends of records and out-of-band bytes depend on the length.
    let plain_flags = u64::from((libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL).cast_unsigned());
    let flags = transfer.message_flags(call.args);
    if flags & !plain_flags != 0 {
        return None;
    }
    let fd = Fd::of_arg(call.args[0]);
    let meta = fs::metadata(proc::fd(tid, fd)).ok()?;
    if chaos.has_edges(meta.ino()) {
        return None;
    }
    let waits = flags & u64::from(libc::MSG_DONTWAIT.cast_unsigned()) == 0 && !is_nonblocking(tid, fd);
    if !transfer.reads && waits {
        return None;
    }
    if meta.file_type().is_fifo() {
        return Some(PIPE_BUF);
    }
    let is_socket = meta.file_type().is_socket();
    is_socket.then(|| chaos.socket(meta.ino(), || least_of_socket(tid, meta.ino(), PIPE_BUF)))?
}

fn is_nonblocking(tid: Tid, fd: Fd) -> bool {
    proc::open_flags(tid, fd).is_some_and(|flags| flags & libc::O_NONBLOCK != 0)
}

/// The least for a socket; none for one of packets.
fn least_of_socket(tid: Tid, inode: u64, local: u64) -> Option<u64> {
    let listed = |table: &str, column: usize, matches: &dyn Fn(&[&str]) -> bool| {
        let text = proc::read_text(proc::path(tid, &format!("net/{table}"))).unwrap_or_default();
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

impl Crew {
    /// At the exit of an `epoll_ctl`: are a descriptor's edges asked for?
    pub fn learn_edges(&self, it: &Exit<'_>) {
        let Some(chaos) = self.session.chaos.as_ref().filter(|_| it.result == 0) else { return };
        let [_, operation, fd, event, ..] = it.args();
        let asks = [libc::EPOLL_CTL_ADD, libc::EPOLL_CTL_MOD].map(|asks| u64::from(asks.cast_unsigned()));
        let edges = libc::EPOLLET.cast_unsigned();
        if asks.contains(&(operation & u64::from(u32::MAX)))
            && self.memory.read_u32(Addr(event)).is_ok_and(|events| events & edges != 0)
            && let Ok(meta) = fs::metadata(proc::fd(it.tid, Fd::of_arg(fd)))
        {
            chaos.note_edges(meta.ino());
        }
    }

    /// At the entry of a call that is about to be made: asks the kernel for fewer bytes than the program
    /// does, perhaps.
    pub fn shorten(&mut self, tid: Tid, call: &Call) -> Result<()> {
        let Some(chaos) = self.session.chaos.clone() else { return Ok(()) };
        if self.call(tid)?.lock.is_of_a_stream() {
            return Ok(());
        }
        let Some(least) = least(&chaos, tid, call) else { return Ok(()) };
        let len = chaos.part(call.args[2]).max(least);
        if len >= call.args[2] {
            return Ok(());
        }
        let regs = self.stopped(tid)?.regs()?;
        self.stopped(tid)?.set_regs(&Registers { rdx: len, orig_rax: regs.orig_rax, ..regs })?;
        self.call(tid)?.asked.ask_otherwise();
        Ok(())
    }
}
