//! process_vm_writev: into the caller's own memory, into that of a tracee that holds, into that of another
//! domain (by mail, see `mail.rs`), or out of the recording (then it is nobody's concern).

use bis_syscalls::Call;
use bis_trace::{
    event::MemWrite,
    types::{Addr, Tid, prot},
};
use bis_tracee::{
    maps::{self, Mapping},
    task,
};

use super::args::int;
use crate::{
    calls::{Entry, Exit},
    crew::Crew,
    domain::Domain,
    error::Result,
    mail::Sent,
    task::process_of,
};

/// The most pieces that one call takes (UIO_MAXIOV).
const PIECES_MAX: u64 = 1024;

/// Below this the stack may hold something (the red zone is 128 bytes).
const BELOW_STACK: u64 = 1024;

fn failed(errno: i32) -> Entry {
    Entry::Done(-i64::from(errno))
}

/// What of `source` goes where: up to the first byte that cannot be written, as the kernel has it; and how
/// many bytes that are.
fn writable(mappings: &[Mapping], remote: &[(Addr, u64)], source: &[u8]) -> (Vec<MemWrite>, usize) {
    // How much of a range can be written, from its beginning.
    let good_len = |addr: Addr, len: u64| {
        let mut at = addr;
        while let Some(m) = mappings.iter().find(|m| m.start <= at && at < m.end && m.prot & prot::WRITE != 0)
        {
            at = m.end;
            if at - addr >= len {
                return len;
            }
        }
        at - addr
    };
    let (mut pieces, mut done) = (Vec::new(), 0);
    for (addr, len) in remote {
        let len = (*len).min((source.len() - done) as u64);
        let good = good_len(*addr, len);
        let end = done + usize::try_from(good).unwrap_or(0);
        if good > 0 {
            pieces.push(MemWrite { addr: *addr, data: source[done..end].to_vec() });
        }
        done = end;
        if good < len {
            break;
        }
    }
    (pieces, done)
}

impl Domain {
    pub(super) fn enter_process_vm_writev(&mut self, tid: Tid, call: &Call) -> Result<Entry> {
        let target = self.session.outside(tid, Tid(call.i32(0)));
        let Some(pid) = process_of(target) else { return Ok(Entry::Make) };
        if self.tasks.contains_key(&target) || !self.session.mail.is_member(pid) {
            return Ok(Entry::Make);
        }
        let [_, local, local_count, remote, remote_count, flags] = call.args;
        if flags != 0 || local_count > PIECES_MAX || remote_count > PIECES_MAX {
            return Ok(failed(libc::EINVAL));
        }
        let (Some(local), Some(remote)) =
            (self.pieces(Addr(local), local_count), self.pieces(Addr(remote), remote_count))
        else {
            return Ok(failed(libc::EFAULT));
        };
        let wanted: u64 = local.iter().map(|(_, len)| len).sum();
        if wanted == 0 || remote.iter().all(|(_, len)| *len == 0) {
            return Ok(Entry::Done(0));
        }
        let allowed = self.try_access(tid, call)?;
        if allowed != 0 {
            return Ok(Entry::Done(allowed));
        }
        let source = self.gather(local, u64::MAX);
        let done = match self.poke_pieces(tid, target, &remote, &source) {
            None => self.send_memory(target, &remote, &source)?,
            poked => poked,
        };
        Ok(match done {
            None => failed(libc::ESRCH),
            Some(0) => failed(libc::EFAULT),
            Some(done) => Entry::Done(i64::try_from(done).unwrap_or(0)),
        })
    }

    /// Sends these bytes to the memory of another process of the recording, up to the first that cannot be
    /// written. How many they were; none: it has ended.
    pub(super) fn send_memory(
        &mut self,
        target: Tid,
        remote: &[(Addr, u64)],
        source: &[u8],
    ) -> Result<Option<usize>> {
        let Some(pid) = process_of(target) else { return Ok(None) };
        loop {
            if self.session.mail.is_execing(pid) {
                // Others may need our tokens to let it come to an end.
                self.release_tokens()?;
            }
            let domain = self.session.mail.target(pid, || task::is_alive(pid));
            self.ensure_tokens()?;
            let Some(domain) = domain else { return Ok(None) };
            let mappings = maps::read(target).unwrap_or_default();
            if mappings.is_empty() {
                // It has ended meanwhile.
                return Ok(None);
            }
            let (pieces, done) = writable(&mappings, remote, source);
            if done == 0 {
                return Ok(Some(0));
            }
            match self.session.mail.send(pid, domain, &pieces) {
                Sent::OnTheirWay => {
                    self.session.watch.call_all();
                    return Ok(Some(done));
                }
                Sent::Gone => return Ok(None),
                Sent::Changed => {}
            }
        }
    }
}

impl Crew {
    /// A tracer writes to a tracee that holds: what it executes next, a call or an instruction, finds these
    /// bytes. How many they were, up to the first that cannot be written; none: the task does not hold for
    /// the caller, or others see what is written there, too.
    fn poke_pieces(&self, tid: Tid, target: Tid, remote: &[(Addr, u64)], source: &[u8]) -> Option<usize> {
        if !self.session.traced.is_used() {
            return None;
        }
        let mappings = maps::read(target).ok()?;
        let (pieces, done) = writable(&mappings, remote, source);
        let is_touched = |m: &Mapping, piece: &MemWrite| {
            m.start < piece.addr + piece.data.len() as u64 && piece.addr < m.end
        };
        if mappings.iter().any(|m| m.shared && pieces.iter().any(|piece| is_touched(m, piece))) {
            return None;
        }
        for piece in &pieces {
            self.poke_through_file(tid, target, piece.addr, &piece.data)?;
        }
        Some(done)
    }

    /// What these buffers of the caller hold, up to the first byte that cannot be read, and no more than
    /// `most`.
    pub(super) fn gather(&self, buffers: Vec<(Addr, u64)>, most: u64) -> Vec<u8> {
        let mut source = Vec::new();
        for (addr, len) in buffers {
            let len = len.min(most - source.len() as u64);
            let data = self.memory.read_upto(addr, usize::try_from(len).unwrap_or(0));
            let is_short = (data.len() as u64) < len;
            source.extend(data);
            if is_short {
                break;
            }
        }
        source
    }

    /// An iovec array of the caller; none where it cannot be read or is not valid.
    fn pieces(&self, addr: Addr, count: u64) -> Option<Vec<(Addr, u64)>> {
        let piece = |at: Addr| Some((self.memory.read_addr(at).ok()?, self.memory.read_u64(at + 8).ok()?));
        (0..count).map(|index| piece(addr + 16 * index)).collect()
    }

    /// Tries whether the caller may change the target's memory: has it read an address where nothing is. 0,
    /// or the error that the kernel gives.
    fn try_access(&mut self, tid: Tid, call: &Call) -> Result<i64> {
        let at = (self.stopped(tid)?.regs()?.rsp - BELOW_STACK) & !15;
        let Ok(before) = self.memory.read_vec(Addr(at), 32) else { return Ok(0) };
        // One byte to here, from an address that no program can have.
        let iovs: Vec<u8> =
            [at, 1, 0xffff_8000_0000_0000, 1_u64].into_iter().flat_map(u64::to_le_bytes).collect();
        self.memory.write(Addr(at), &iovs)?;
        let args = [call.args[0], at, 1, at + 16, 1, 0];
        let result = self.call_for(tid, libc::SYS_process_vm_readv, args);
        self.memory.write(Addr(at), &before)?;
        let result = result?;
        let refused = [libc::EPERM, libc::ESRCH, libc::EACCES].contains(&i32::try_from(-result).unwrap_or(0));
        Ok(if refused { result } else { 0 })
    }

    /// Into the domain's own memory, which the kernel has done.
    pub(super) fn leave_process_vm_writev(&mut self, it: &mut Exit<'_>) -> Result<()> {
        let (tid, args, result) = (it.tid, it.args(), it.result);
        let outcome = &mut *it.outcome;
        let target = self.session.outside(tid, Tid(int(args[0])));
        if !self.tasks.contains_key(&target) {
            return Ok(());
        }
        let mut left = result.cast_unsigned();
        for (base, len) in self.pieces(Addr(args[3]), args[4].min(PIECES_MAX)).unwrap_or_default() {
            let len = len.min(left);
            if len > 0 {
                let data = self.memory.read_vec(base, usize::try_from(len).unwrap_or(0))?;
                outcome.writes.push(MemWrite { addr: base, data });
            }
            left -= len;
        }
        Ok(())
    }
}
