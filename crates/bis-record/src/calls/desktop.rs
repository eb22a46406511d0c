//! Memory that programs share with the servers of a desktop: the display's, the sound's, the settings'. These
//! seldom are in the recording, and what they store is in no event. Programs can do without that memory, and
//! do so on the display of another machine; so they are told that there is none:
//!
//! - X11: a request by which a program lets the server attach a segment of its memory goes out with the
//!   number of a segment that does not exist. The server fails it, and programs send and get their pictures
//!   through the socket, as when the server is on another machine.
//! - `PulseAudio`: its memory (a memfd, or a file of /dev/shm, of a certain name) cannot be made, and sound
//!   goes through the socket.
//! - dconf: a page with one byte, in which its service says that settings have changed. The program gets a
//!   page of its own which always says so, and asks each time.
//!
//! A Wayland compositor only reads the memory that it shares with its clients. What other servers share is
//! noted where it can be seen (`outside.rs`).

use std::{
    ffi::OsStr,
    fs::{self, File},
    io,
    os::unix::{ffi::OsStrExt, fs::FileTypeExt},
    path::Path,
};

use bis_agent::hooks::FdClass;
use bis_syscalls::{Call, MovedBytes, row};
use bis_trace::{
    event::{Backing, Effect, Outcome},
    types::{Addr, Fd, PAGE, Tid},
};
use bis_tracee::{Memory, proc, sys};
use memchr::memmem;
use rustix::net::{
    AddressFamily, SendFlags, SocketAddrAny, SocketAddrUnix, getpeername, send, sockopt::socket_peercred,
};

use super::{
    args::{buffers, message_flags, message_pieces},
    memory::Made,
};
use crate::{calls::Entry, crew::Crew, error::Result, process::Process, session::Session};

/// Where X servers listen on their own machine: the display's number follows. The kernel's abstract names
/// have it, too.
const DISPLAYS: &[u8] = b"/tmp/.X11-unix/X";

/// The number of no segment: the kernel gives none that is as high (`ipc/util.h`).
const NO_SEGMENT: [u8; 4] = i32::MAX.to_le_bytes();

/// How much of a program's requests is looked at: more than its library gathers before it sends them.
const REQUESTS_MAX: u64 = 1 << 20;

/// The name that `PulseAudio` gives its memory, and how the names of its files begin.
const SOUND_MEMORY: &[u8] = b"pulseaudio";
const SOUND_FILES: &[u8] = b"/dev/shm/pulse-shm-";

/// How long dconf's page is: a byte for the service to set, and one that makes the file as long as that.
const SETTINGS_LEN: u64 = 2;

/// `MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED`.
const OWN_PAGE: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;

/// Where requests of a client tell the server of a segment that both are to share: the places of the
/// segment's number. Such a request begins with the extension's number, that of the request, and its length
/// in words (`shmproto.h`, `ShmAttach`). `is_segment` tells other data from numbers of segments.
fn attaches(requests: &[u8], is_segment: impl Fn(u32) -> bool) -> Vec<usize> {
    const FIRST_EXTENSION: u8 = 128;
    /// The number of the request, and four words.
    const ATTACH: [u8; 3] = [1, 4, 0];
    const LEN: usize = 16;
    const SEGMENT: usize = 8;
    let is_attach = |request: &[u8]| {
        let number = request[SEGMENT..].first_chunk().map(|word| u32::from_le_bytes(*word));
        request[0] >= FIRST_EXTENSION && number.is_some_and(&is_segment)
    };
    let places = memmem::find_iter(requests, &ATTACH).filter_map(|at| at.checked_sub(1));
    let found = places.filter(|at| at % 4 == 0 && requests.get(*at..*at + LEN).is_some_and(is_attach));
    found.map(|at| at + SEGMENT).collect()
}

/// Is it the page by which dconf's service tells that settings have changed? In its folder there is nothing
/// else of that length.
fn is_settings_page(name: &[u8], len: u64) -> bool {
    let folder = Path::new(OsStr::from_bytes(name)).parent().and_then(Path::file_name);
    folder == Some("dconf".as_ref()) && len == SETTINGS_LEN
}

/// The other end of a socket, if an X server listens there: its process.
fn display_of(socket: &File) -> io::Result<Option<Tid>> {
    let peer = getpeername(socket)?;
    if peer.as_ref().map(SocketAddrAny::address_family) != Some(AddressFamily::UNIX) {
        return Ok(None);
    }
    let unix = peer.and_then(|peer| SocketAddrUnix::try_from(peer).ok());
    let is_display = unix.is_some_and(|unix| {
        let path = unix.path_bytes().or(unix.abstract_name());
        path.is_some_and(|path| path.starts_with(DISPLAYS))
    });
    if !is_display {
        return Ok(None);
    }
    Ok(Some(Tid(socket_peercred(socket)?.pid.as_raw_nonzero().get())))
}

fn is_socket(tid: Tid, fd: Fd) -> bool {
    fs::metadata(proc::fd(tid, fd)).is_ok_and(|meta| meta.file_type().is_socket())
}

impl Process {
    /// Before something is sent: a request to an X server to share memory. It is sent by us, as one that will
    /// fail, and the program's call is not made.
    pub(super) fn enter_send(&mut self, tid: Tid, call: &Call) -> Result<Entry> {
        let fd = Fd::of_arg(call.args[0]);
        if self.is_known_plain(fd) || !is_socket(tid, fd) {
            return Ok(Entry::Make);
        }
        let Some(socket) = self.to_display(tid, fd) else { return Ok(Entry::Make) };
        let Some(mut requests) = sent(&self.memory, call) else { return Ok(Entry::Make) };
        if attaches(&requests, |_| true).is_empty() {
            return Ok(Entry::Make);
        }
        let segments = proc::segments();
        let is_ours =
            |number| segments.iter().any(|it| it.id == number && self.session.is_recorded(it.creator));
        let places = attaches(&requests, is_ours);
        if places.is_empty() {
            return Ok(Entry::Make);
        }
        for at in places {
            requests[at..at + NO_SEGMENT.len()].copy_from_slice(&NO_SEGMENT);
        }
        let waits = message_flags(call) & libc::MSG_DONTWAIT == 0;
        let flags = if waits { SendFlags::NOSIGNAL } else { SendFlags::NOSIGNAL | SendFlags::DONTWAIT };
        match send(&socket, &requests, flags) {
            Ok(len) => {
                let text = format!(
                    "task {tid} lets its X server share a segment of memory: refused, as by a server on another \
                     machine"
                );
                self.session.note(self.session.writer.next_seq(), text)?;
                Ok(Entry::Done(i64::try_from(len).unwrap_or(i64::MAX)))
            }
            Err(rustix::io::Errno::AGAIN) => Ok(Entry::Done(-i64::from(libc::EAGAIN))),
            // The program learns from the kernel what is wrong with its socket.
            Err(_) => Ok(Entry::Make),
        }
    }

    /// Do the hooks know already that the descriptor does not lead to a display? Writes that they leave to
    /// the recorder need not be looked at then.
    fn is_known_plain(&self, fd: Fd) -> bool {
        let hooks = self.hooks.as_ref().filter(|hooks| !hooks.fds_differ);
        hooks.is_some_and(|hooks| matches!(hooks.area.class_of(fd), FdClass::Plain | FdClass::File))
    }
}

impl Crew {
    /// Does this descriptor, a socket, lead to an X server outside of the recording?
    pub fn leads_to_display(&self, tid: Tid, fd: Fd) -> bool {
        self.to_display(tid, fd).is_some()
    }

    /// The same socket, if it does.
    fn to_display(&self, tid: Tid, fd: Fd) -> Option<File> {
        let socket = sys::take_fd(self.tasks.get(&tid)?.pid, fd).ok()?;
        let server = display_of(&socket).ok()??;
        (!self.session.is_recorded(server)).then_some(socket)
    }

    /// The memory that `PulseAudio` shares is not made.
    pub(super) fn enter_memfd(&mut self, tid: Tid, call: &Call) -> Result<Entry> {
        if self.memory.read_c_str(Addr(call.args[0])).is_ok_and(|name| name == SOUND_MEMORY) {
            return refuse_sound(&self.session, tid, libc::ENOSYS);
        }
        Ok(Entry::Make)
    }

    /// `PulseAudio`'s memory is not made where that would be a file, which is opened by this name.
    pub(super) fn enter_open_sound(&self, tid: Tid, name: Addr) -> Result<Entry> {
        let mut head = [0; SOUND_FILES.len()];
        if self.memory.read(name, &mut head).is_ok() && head == SOUND_FILES {
            return refuse_sound(&self.session, tid, libc::EACCES);
        }
        Ok(Entry::Make)
    }

    /// A mapping of the page by which dconf's service tells that settings have changed: there is a page of
    /// the program's own now, which says so. False: it is another file.
    pub(super) fn map_settings(
        &mut self,
        made: &Made,
        file: (&[u8], u64),
        outcome: &mut Outcome,
    ) -> Result<bool> {
        let Made { tid, addr, len, prot, is_shared } = *made;
        if !is_shared
            || prot != libc::PROT_READ.cast_unsigned()
            || len != PAGE
            || !is_settings_page(file.0, file.1)
        {
            return Ok(false);
        }
        let flags = u64::from(OWN_PAGE.cast_unsigned());
        if self.call_for(tid, libc::SYS_mmap, [addr.0, len, prot.into(), flags, u64::MAX, 0])?
            != addr.0.cast_signed()
        {
            return Ok(false);
        }
        outcome.effects.push(Effect::Map { addr, len, prot, backing: Backing::Anonymous });
        self.put(addr, vec![1], outcome)?;
        Ok(true)
    }
}

fn refuse_sound(session: &Session, tid: Tid, errno: i32) -> Result<Entry> {
    let text = format!("task {tid} wants to share memory with the sound server: refused, its socket does");
    session.note(session.writer.next_seq(), text)?;
    Ok(Entry::Done(-i64::from(errno)))
}

/// What a call is to send, if that may be requests to a display. None where it cannot be read, or goes
/// with descriptors.
fn sent(memory: &Memory, call: &Call) -> Option<Vec<u8>> {
    /// Where `struct msghdr` has the length of its control data.
    const CONTROL_LEN: u64 = 40;
    let transfer = row(call.nr)?.transfer.filter(|it| !it.reads && it.at.is_none())?;
    let ranges = match transfer.memory {
        MovedBytes::Bytes => buffers(memory, false, call.args, call.args[2]),
        MovedBytes::Vector => buffers(memory, true, call.args, REQUESTS_MAX),
        MovedBytes::Message => {
            let message = Addr(call.args[1]);
            if memory.read_u64(message + CONTROL_LEN).ok()? > 0 {
                return None;
            }
            message_pieces(memory, message, REQUESTS_MAX)
        }
        MovedBytes::Descriptor { .. } => return None,
    };
    let len: u64 = ranges.iter().map(|(_, len)| len).sum();
    // One that is longer than what is looked at is data.
    if len >= REQUESTS_MAX {
        return None;
    }
    let mut sent = Vec::new();
    for (addr, len) in ranges {
        sent.extend(memory.read_vec(addr, usize::try_from(len).ok()?).ok()?);
    }
    Some(sent)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `ShmQueryVersion`, then `ShmAttach` of segment 77, by an extension with the number 130.
    const REQUESTS: [u8; 20] = [130, 0, 1, 0, 130, 1, 4, 0, 1, 0, 0x20, 0, 77, 0, 0, 0, 0, 0, 0, 0];

    #[test]
    fn segments_are_found_in_requests() {
        assert_eq!(attaches(&REQUESTS, |number| number == 77), [12]);
        assert_eq!(attaches(&REQUESTS, |_| false), [], "no segment has this number");
        assert_eq!(attaches(&REQUESTS[..19], |_| true), [], "the request is not whole");
        assert_eq!(attaches(&REQUESTS[5..], |_| true), [], "a request begins with its extension");
        let mut core = REQUESTS;
        core[4] = 98;
        assert_eq!(attaches(&core, |_| true), [], "no extension has such a number");
    }

    #[test]
    fn the_page_of_settings_is_told_by_its_folder_and_length() {
        assert!(is_settings_page(b"/run/user/1000/dconf/user", 2));
        assert!(!is_settings_page(b"/run/user/1000/dconf/user", 4096));
        assert!(!is_settings_page(b"/home/me/.config/user", 2));
    }
}
