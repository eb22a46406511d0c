//! Reading and writing through arrays of `struct iovec` (16 bytes: address, length).

use super::words::*;
use crate::plan::{Count, Slot, When, Written};

#[rustfmt::skip]
pub(crate) static ROWS: &[Row] = &[
    call(19, "readv", &[fd("fd"), via("iov", INOUT), int("count")], ByFd).moves(Transfer::READ.of(MovedBytes::Vector)).plan(readv).hooked_for(Rule::of(HookShape::Vector).waits(HookWait::Input).aligned(), &[]),
    call(20, "writev", &[fd("fd"), inp("iov"), int("count")], ByFd).by(Handler::Writev).moves(Transfer::WRITE.of(MovedBytes::Vector)).to(Target::fd(0).vector()).hooked(Rule::PLAIN.writes().waits(HookWait::Output)),
    call(278, "vmsplice", &[fd("fd"), via("iov", INOUT), size("count"), hex("flags")], ByFdIf(vmsplice_waits)).by(Handler::Vmsplice).to(Target::fd(0).vector()).plan(vmsplice),
    call(295, "preadv", &[fd("fd"), via("iov", INOUT), int("count"), hex("pos_low"), hex("pos_high")], ByFd).moves(Transfer::READ.of(MovedBytes::Vector).at(3)).plan(readv).hooked_for(Rule::of(HookShape::Vector).waits(HookWait::Input).aligned(), &[]),
    call(296, "pwritev", &[fd("fd"), inp("iov"), int("count"), hex("pos_low"), hex("pos_high")], ByFd).by(Handler::Pwritev).moves(Transfer::WRITE.of(MovedBytes::Vector).at(3)).to(Target::fd(0).at(Given(3)).vector()).hooked(Rule::PLAIN.writes().waits(HookWait::Output)),
    call(310, "process_vm_readv", &[int("pid"), via("local", INOUT), size("local_count"), inp("remote"), size("remote_count"), hex("flags")], Never).by(Handler::ProcessVmReadv).plan(readv),
    call(311, "process_vm_writev", &[int("pid"), inp("local"), size("local_count"), inp("remote"), size("remote_count"), hex("flags")], Never).by(Handler::ProcessVmWritev),
    call(327, "preadv2", &[fd("fd"), via("iov", INOUT), int("count"), hex("pos_low"), hex("pos_high"), hex("flags")], ByFdIf(rw_waits)).moves(Transfer::READ.of(MovedBytes::Vector).at(3).or_position()).plan(readv).hooked_for(Rule::of(HookShape::Vector).waits(HookWait::Input).aligned(), &[]),
    call(328, "pwritev2", &[fd("fd"), inp("iov"), int("count"), hex("pos_low"), hex("pos_high"), hex("flags")], ByFdIf(rw_waits)).by(Handler::Pwritev2).moves(Transfer::WRITE.of(MovedBytes::Vector).at(3).or_position()).to(Target::fd(0).at(Given(3)).vector().flags(5)),
];

/// The most elements that the kernel takes (UIO_MAXIOV).
pub(crate) const IOV_MAX: u64 = 1024;

/// Not RWF_NOWAIT.
fn rw_waits(call: &Call) -> bool {
    call.u32(5) & 8 == 0
}

/// Not SPLICE_F_NONBLOCK.
fn vmsplice_waits(call: &Call) -> bool {
    call.u32(3) & 2 == 0
}

fn readv(b: &mut Builder<'_>) -> Verdict {
    let count = b.call.args[2];
    if count <= IOV_MAX
        && let Some(array) = b.input(1, count * 16)
    {
        b.iov(array, b.call.args[1], count, 0, Count::Ret, When::Success, OUT);
    }
    Ok(())
}

/// From a pipe into memory, or memory into a pipe: the descriptor decides. In the second case the kernel
/// writes nothing, and the buffers are as they were.
fn vmsplice(b: &mut Builder<'_>) -> Verdict {
    let count = b.call.args[2];
    if count <= IOV_MAX
        && let Some(array) = b.input(1, count * 16)
    {
        b.iov(array, b.call.args[1], count, 0, Count::Ret, When::Success, INOUT);
    }
    Ok(())
}

impl Builder<'_> {
    /// The buffers of an array of `count` iovecs at `addr`, which is piece `array`.
    #[expect(clippy::too_many_arguments, reason = "each says one thing, and there are two callers")]
    pub(crate) fn iov(
        &mut self,
        array: usize,
        addr: u64,
        count: u64,
        group: u32,
        of: Count,
        when: When,
        dir: Dir,
    ) {
        let mut room = crate::plan::RW_MAX;
        for i in 0..count.min(IOV_MAX) {
            let at = addr.wrapping_add(i * 16);
            let (Some(base), Some(len)) = (self.u64_at(at), self.u64_at(at.wrapping_add(8))) else { return };
            let len = len.min(room);
            room -= len;
            let slot = Slot::In { piece: array, offset: i * 16 };
            self.piece(slot, base, len, dir, Written::Spread { group, count: of }, when);
        }
    }

    /// `len` bytes at `addr`, whose address lies at `offset` of piece `parent`, of which a successful call
    /// writes as many units as its result.
    pub(crate) fn nested_ret(&mut self, parent: usize, offset: u64, addr: u64, len: u64, unit: u64) {
        let written = Written::Counted { count: Count::Ret, unit };
        self.piece(Slot::In { piece: parent, offset }, addr, len, OUT, written, When::Success);
    }
}
