//! Calls that send data out: what goes to standard output and error is echoed by replay, and what goes into a
//! file that somebody maps shared changes that memory.

use std::{fs, os::linux::fs::MetadataExt};

use bis_syscalls::{Call, Handler};
use bis_trace::{
    event::{Echo, Effect, Meta, Outcome},
    types::{EventSeq, ObjectId, Tid},
};

use crate::{call::Entry, domain::Domain, error::Result, task::InCall};

/// The most buffers that one call takes (UIO_MAXIOV).
const BUFFERS_MAX: u64 = 1024;

impl Domain {
    /// Before a write: if it goes to standard output or error, nobody else may write there until it is known how
    /// much was written.
    pub(super) fn enter_write(&mut self, tid: Tid, call: &Call) -> Result<Entry> {
        let Some(number) = self.session.stdio.which(tid, call.i32(0)) else { return Ok(Entry::Make) };
        if !self.session.stdio.try_lock(number, self.id) {
            // Whoever waits here holds no token, so that the one who writes can come to an end.
            self.release_tokens()?;
            self.session.stdio.lock(number, self.id);
            self.ensure_tokens()?;
        }
        self.call(tid)?.echo = Some(number);
        Ok(Entry::Make)
    }

    /// The buffers of a write or writev, as (address, length), cut to what was written.
    fn buffers(&self, vector: bool, args: [u64; 6], written: u64) -> Vec<(u64, u64)> {
        if !vector {
            return vec![(args[1], written)];
        }
        let mut left = written;
        let mut ranges = Vec::new();
        for index in 0..args[2].min(BUFFERS_MAX) {
            let at = args[1] + 16 * index;
            let (Ok(base), Ok(len)) = (self.memory.read_u64(at), self.memory.read_u64(at + 8)) else { break };
            let len = len.min(left);
            if len > 0 {
                ranges.push((base, len));
            }
            left -= len;
        }
        ranges
    }

    fn is_vector(nr: u64) -> bool {
        [libc::SYS_writev, libc::SYS_pwritev, libc::SYS_pwritev2].contains(&nr.cast_signed())
    }

    /// After a call that took the lock of a stream: says what went out, and lets others write.
    pub fn echoed(
        &mut self,
        call: &mut InCall,
        result: i64,
        seq: EventSeq,
        outcome: &mut Outcome,
    ) -> Result<()> {
        let Some(fd) = call.echo.take() else { return Ok(()) };
        let mut done = Ok(());
        if let Ok(len) = u64::try_from(result)
            && len > 0
        {
            let ranges = self.buffers(Self::is_vector(call.nr), call.entry.args(), len);
            outcome.echo = Some(Echo { fd, ranges });
            done = self.session.writer.meta(&Meta::Echo { seq, domain: self.id, fd, len });
        }
        self.session.stdio.unlock(fd, self.id);
        Ok(done?)
    }

    /// The shared object that a descriptor's file is, if it is one.
    fn object_of(&self, tid: Tid, fd: i32) -> Option<ObjectId> {
        if self.session.registry.is_empty() {
            return None;
        }
        let meta = fs::metadata(format!("/proc/{tid}/fd/{fd}")).ok()?;
        self.session.registry.find((meta.st_dev(), meta.st_ino()))
    }

    /// Where the last write through this descriptor ended, for one that has a position.
    fn position(tid: Tid, fd: i32) -> Option<u64> {
        let info = fs::read_to_string(format!("/proc/{tid}/fdinfo/{fd}")).ok()?;
        info.lines().find_map(|line| line.strip_prefix("pos:"))?.trim().parse().ok()
    }

    pub(super) fn leave_write(
        &mut self,
        tid: Tid,
        handler: Handler,
        args: [u64; 6],
        result: i64,
        outcome: &mut Outcome,
    ) -> Result<()> {
        #[expect(clippy::cast_possible_truncation, reason = "the kernel's own reading of an int argument")]
        let fd = args[0] as i32;
        let Some(object) = self.object_of(tid, fd) else { return Ok(()) };
        let written = result.cast_unsigned();
        let positioned = matches!(handler, Handler::Pwrite64 | Handler::Pwritev | Handler::Pwritev2);
        let mut offset = if positioned && args[3] != u64::MAX {
            args[3]
        } else {
            Self::position(tid, fd).unwrap_or(written).saturating_sub(written)
        };
        let vector = matches!(handler, Handler::Writev | Handler::Pwritev | Handler::Pwritev2);
        for (addr, len) in self.buffers(vector, args, written) {
            let data = self.memory.read_vec(addr, usize::try_from(len).unwrap_or(0))?;
            outcome.effects.push(Effect::WriteObject { object, offset, data });
            offset += len;
        }
        Ok(())
    }

    /// Calls that move data between descriptors without showing it to the program. Where the data would have to
    /// be known (standard output, a shared mapping), the call is refused as for a kind of file that does not
    /// support it, and programs fall back to reading and writing.
    pub(super) fn enter_transfer(&mut self, tid: Tid, handler: Handler, call: &Call) -> Result<Entry> {
        let out = match handler {
            Handler::Sendfile | Handler::Vmsplice => call.i32(0),
            Handler::Tee => call.i32(1),
            _ => call.i32(2),
        };
        let known = self.session.stdio.which(tid, out).is_some() || self.object_of(tid, out).is_some();
        Ok(if known { Entry::Done(-i64::from(libc::EINVAL)) } else { Entry::Make })
    }
}
