//! Descriptors come back: those opened since are closed, files and folders closed since are taken from the
//! shadow, positions and flags are as they were. The position of the recording's own output stays where it
//! is.

use std::{collections::BTreeSet, fs};

use bis_trace::types::{Addr, Fd, Tid};
use bis_tracee::{Memory, proc, remote::Remote, shadow::Shadow, sys};

use super::table::{Descriptor, Descriptors};
use crate::{crew::with_slot, error::Result, process::Process};

/// What fcntl can change of a descriptor's flags, beside close-on-exec.
const CHANGEABLE: i32 = libc::O_APPEND | libc::O_ASYNC | libc::O_DIRECT | libc::O_NOATIME | libc::O_NONBLOCK;

/// A way from our descriptors to a process's: a socket that it has one end of.
struct Passage {
    ours: fs::File,
    theirs: Fd,
}

/// Where a received descriptor's message lies behind the begin of the buffer, and its parts: the header (56
/// bytes), the one piece, the byte, the control message.
const PIECE: u64 = 64;
const BYTE: u64 = 80;
const CONTROL: u64 = 96;
const CONTROL_LEN: u64 = 24;

impl Passage {
    /// The process's end gets a number above `highest`.
    fn open(
        remote: &mut Remote<'_>,
        memory: &Memory,
        (buffer, highest): (u64, Fd),
    ) -> Result<Option<Passage>> {
        let kind = u64::from((libc::SOCK_DGRAM | libc::SOCK_CLOEXEC).cast_unsigned());
        let unix = u64::from(libc::AF_UNIX.cast_unsigned());
        if remote.call(libc::SYS_socketpair, [unix, kind, 0, buffer, 0, 0])? < 0 {
            return Ok(None);
        }
        let pair = memory.read_u64(Addr(buffer))?;
        let (one, other) = (Fd::of_arg(pair), Fd::of_arg(pair >> 32));
        let ours = sys::take_fd(remote.tid(), other);
        let above = highest.arg() + 1;
        let copy = u64::from(libc::F_DUPFD_CLOEXEC.cast_unsigned());
        let theirs = remote.call(libc::SYS_fcntl, [one.arg(), copy, above, 0, 0, 0])?;
        for fd in [one, other] {
            remote.call(libc::SYS_close, [fd.arg(), 0, 0, 0, 0, 0])?;
        }
        match (ours, Fd::made(theirs)) {
            (Ok(ours), Some(theirs)) => Ok(Some(Passage { ours, theirs })),
            (ours, theirs) => {
                tracing::debug!(?ours, ?theirs, "no way for descriptors");
                if let Some(theirs) = theirs {
                    remote.call(libc::SYS_close, [theirs.arg(), 0, 0, 0, 0, 0])?;
                }
                Ok(None)
            }
        }
    }

    /// The process gets this file as descriptor `fd`. False: it does not.
    fn pass(
        &self,
        remote: &mut Remote<'_>,
        memory: &Memory,
        (buffer, fd): (u64, Fd),
        file: &fs::File,
    ) -> Result<bool> {
        if sys::send_fd(&self.ours, file).is_err() {
            return Ok(false);
        }
        // struct msghdr, then struct iovec.
        let header = [0u64, 0, buffer + PIECE, 1, buffer + CONTROL, CONTROL_LEN, 0];
        let piece = [buffer + BYTE, 1];
        let bytes = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        memory.write(Addr(buffer), &bytes(&header))?;
        memory.write(Addr(buffer + PIECE), &bytes(&piece))?;
        if remote.call(libc::SYS_recvmsg, [self.theirs.arg(), buffer, 0, 0, 0, 0])? != 1 {
            return Ok(false);
        }
        // Behind the header of the control message.
        let received = Fd(memory.read_u32(Addr(buffer + CONTROL + 16))?.cast_signed());
        if received != fd {
            remote.call(libc::SYS_dup3, [received.arg(), fd.arg(), 0, 0, 0, 0])?;
            remote.call(libc::SYS_close, [received.arg(), 0, 0, 0, 0, 0])?;
        }
        Ok(true)
    }
}

impl Process {
    /// The process has the descriptors again that it had, at their positions.
    pub(super) fn restore_descriptors(
        &mut self,
        tid: Tid,
        shadow: &Shadow,
        then: &Descriptors,
        buffer: Addr,
    ) -> Result<()> {
        let now = Descriptors::of(tid);
        // What was printed is printed, and others write there, too.
        let is_output = |fd: &Fd| self.session.stdio.which(tid, *fd).is_some();
        let output: BTreeSet<Fd> = then.0.keys().copied().filter(is_output).collect();
        let mut remarks = Vec::new();
        with_slot(self, tid, |process, slot| {
            let memory = &process.memory;
            let mut remote = Remote::new(slot)?;
            have_the_same(&mut remote, memory, (shadow, buffer.0), (&now, then), &mut remarks)?;
            have_them_as_they_were(&mut remote, then, &output, &mut remarks)?;
            remote.finish()?;
            Ok(())
        })?;
        if let Some(hooks) = &self.hooks {
            hooks.area.forget_classes();
        }
        for remark in remarks {
            self.session.note(self.session.writer.next_seq(), remark)?;
        }
        Ok(())
    }
}

/// The task closes what it has opened since, and gets from the shadow what it has closed.
fn have_the_same(
    remote: &mut Remote<'_>,
    memory: &Memory,
    (shadow, buffer): (&Shadow, u64),
    (now, then): (&Descriptors, &Descriptors),
    remarks: &mut Vec<String>,
) -> Result<()> {
    let tid = remote.tid();
    let is_same = |fd: Fd, now: &Descriptor, then: &Descriptor| {
        let by_kernel = if then.is_held { sys::share_open_file(tid, shadow.pid(), fd).ok() } else { None };
        by_kernel.unwrap_or(now.file == then.file)
    };
    let stays = |fd: Fd| matches!((now.0.get(&fd), then.0.get(&fd)), (Some(now), Some(then)) if is_same(fd, now, then));
    for fd in now.0.keys().filter(|fd| !stays(**fd)) {
        remote.call(libc::SYS_close, [fd.arg(), 0, 0, 0, 0, 0])?;
    }
    let mut passage: Option<Passage> = None;
    for (fd, known) in then.0.iter().filter(|(fd, _)| !stays(**fd)) {
        let file = if known.is_held { sys::take_fd(shadow.pid(), *fd).ok() } else { None };
        if passage.is_none() && file.is_some() {
            let highest = then.0.keys().max().copied().unwrap_or(Fd(0));
            passage = Passage::open(remote, memory, (buffer, highest))?;
        }
        let is_back = match (&file, &passage) {
            (Some(file), Some(passage)) => passage.pass(remote, memory, (buffer, *fd), file)?,
            _ => false,
        };
        if !is_back {
            remarks.push(format!(
                "back at its checkpoint, task {tid} has descriptor {fd} no more: it was closed since, and only files \
                 and folders are kept open"
            ));
        }
    }
    if let Some(passage) = passage {
        remote.call(libc::SYS_close, [passage.theirs.arg(), 0, 0, 0, 0, 0])?;
    }
    Ok(())
}

/// Positions and flags are again what they were, but for those of the outputs.
fn have_them_as_they_were(
    remote: &mut Remote<'_>,
    then: &Descriptors,
    output: &BTreeSet<Fd>,
    remarks: &mut Vec<String>,
) -> Result<()> {
    let tid = remote.tid();
    let name =
        |fd: Fd| fs::read_link(proc::fd(tid, fd)).map(|name| name.display().to_string()).unwrap_or_default();
    for (fd, known) in then.0.iter().filter(|(fd, _)| !output.contains(fd)) {
        let Some(found) = Descriptor::of(tid, *fd) else { continue };
        if let Some(position) = known.position.filter(|position| found.position != Some(*position)) {
            remote.call(libc::SYS_lseek, [fd.arg(), position, 0, 0, 0, 0])?;
        }
        if (found.flags ^ known.flags) & CHANGEABLE != 0 {
            let set = u64::from(libc::F_SETFL.cast_unsigned());
            let flags = u64::from((known.flags & CHANGEABLE).cast_unsigned());
            remote.call(libc::SYS_fcntl, [fd.arg(), set, flags, 0, 0, 0])?;
        }
        if (found.flags ^ known.flags) & libc::O_CLOEXEC != 0 {
            let set = u64::from(libc::F_SETFD.cast_unsigned());
            let closes = u64::from(known.flags & libc::O_CLOEXEC != 0);
            remote.call(libc::SYS_fcntl, [fd.arg(), set, closes, 0, 0, 0])?;
        }
        if known.content.is_some() && found.content != known.content {
            remarks.push(format!(
                "task {tid} went back to a checkpoint; {} (descriptor {fd}) was written to since, and stays as it is",
                name(*fd)
            ));
        }
    }
    Ok(())
}
