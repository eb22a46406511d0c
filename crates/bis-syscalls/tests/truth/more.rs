//! Cases of the families that have functions of their own: vectors, messages, waiting, futexes, ioctl, ipc.

use crate::Want::{Errno, Success};
use crate::cases::{fd, memory_file};
use crate::{Arena, Checked};
use libc::*;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixDatagram, UnixStream};

pub fn run(c: &mut Checked) {
    vectors(c);
    sockets(c);
    messages(c);
    waiting(c);
    children(c);
    requests(c);
    ipc(c);
}

fn vectors(c: &mut Checked) {
    let (reader, mut writer) = UnixStream::pair().unwrap();
    c.call(SYS_readv, Success, |a| {
        (&writer).write_all(b"0123456789").unwrap();
        let (one, two, three) = (a.room(4), a.room(4), a.room(40));
        [fd(&reader), a.words(&[one, 4, two, 4, three, 40]), 3, 0, 0, 0]
    });
    writer.flush().unwrap();
    let pid = u64::from(std::process::id());
    c.call(SYS_process_vm_readv, Success, |a| {
        let source = a.put(b"the source");
        let (one, two) = (a.room(4), a.room(20));
        let (local, remote) = (a.words(&[one, 4, two, 20]), a.words(&[source, 10]));
        [pid, local, 2, remote, 1, 0]
    });
}

fn sockets(c: &mut Checked) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let client = std::net::TcpStream::connect(address).unwrap();
    let (server, _) = listener.accept().unwrap();
    c.call(SYS_getsockname, Success, |a| [fd(&client), a.room(64), a.put(&len(64)), 0, 0, 0]);
    c.call(SYS_getpeername, Success, |a| [fd(&client), a.room(64), a.put(&len(5)), 0, 0, 0]);
    for nr in [SYS_accept, SYS_accept4] {
        c.call(nr, Success, |a| {
            std::mem::forget(std::net::TcpStream::connect(address).unwrap());
            [fd(&listener), a.room(64), a.put(&len(64)), 0, 0, 0]
        });
    }
    c.call(SYS_getsockopt, Success, |a| [fd(&client), 1, 7, a.room(4), a.put(&len(4)), 0]);
    c.call(SYS_getsockopt, Success, |a| [fd(&client), 6, 11, a.room(400), a.put(&len(400)), 0]);
    c.call(SYS_getsockopt, Errno(ENOPROTOOPT), |a| [fd(&client), 1, 999, a.room(4), a.put(&len(4)), 0]);
    c.call(SYS_socketpair, Success, |a| [1, 1, 0, a.room(8), 0, 0]);
    c.call(SYS_socketpair, Errno(EOPNOTSUPP), |a| [2, 1, 0, a.room(8), 0, 0]);
    c.call(SYS_recvfrom, Success, |a| {
        (&server).write_all(b"hello").unwrap();
        [fd(&client), a.room(64), 64, 0, a.room(64), a.put(&len(64))]
    });
    c.call(SYS_recvfrom, Success, |a| {
        (&server).write_all(b"hello").unwrap();
        [fd(&client), a.room(64), 64, 0x20, 0, 0]
    });
    c.call(SYS_recvfrom, Errno(EAGAIN), |a| [fd(&client), a.room(64), 64, 0x40, 0, 0]);
    let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let from = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    from.connect(udp.local_addr().unwrap()).unwrap();
    c.call(SYS_recvfrom, Success, |a| {
        from.send(b"a datagram").unwrap();
        [fd(&udp), a.room(4), 4, 0x20, a.room(64), a.put(&len(64))]
    });
}

fn len(len: u32) -> [u8; 4] {
    len.to_le_bytes()
}

/// A `struct msghdr`: name and its room, vectors and their count, control and its room.
fn header(a: &mut Arena, buffers: &[usize], control: usize) -> [u64; 7] {
    let name = a.room(128);
    let mut iov = Vec::new();
    for &len in buffers {
        iov.extend([a.room(len), len as u64]);
    }
    let iov = a.words(&iov);
    let room = a.room(control);
    [name, 128, iov, buffers.len() as u64, room, control as u64, 0]
}

/// Sends a datagram and a descriptor with it.
fn send_descriptor(socket: &UnixDatagram) {
    let mut text = *b"with a descriptor";
    let mut iov = iovec { iov_base: text.as_mut_ptr().cast(), iov_len: text.len() };
    let control: [u64; 3] = [20, 1 | 1 << 32, 1];
    // SAFETY: all fields of msghdr may be zero.
    let mut msg: msghdr = unsafe { std::mem::zeroed() };
    msg.msg_iov = &raw mut iov;
    msg.msg_iovlen = 1;
    msg.msg_control = control.as_ptr().cast_mut().cast();
    msg.msg_controllen = 24;
    // SAFETY: the message describes the memory above.
    let sent = unsafe { sendmsg(socket.as_raw_fd(), &raw const msg, 0) };
    assert_eq!(usize::try_from(sent), Ok(text.len()));
}

fn messages(c: &mut Checked) {
    let (reader, writer) = UnixDatagram::pair().unwrap();
    reader.set_nonblocking(true).unwrap();
    c.call(SYS_recvmsg, Success, |a| {
        send_descriptor(&writer);
        let hdr = header(a, &[4, 100], 64);
        [fd(&reader), a.words(&hdr), 0, 0, 0, 0]
    });
    // No room for the control data.
    c.call(SYS_recvmsg, Success, |a| {
        send_descriptor(&writer);
        let hdr = header(a, &[4], 0);
        [fd(&reader), a.words(&hdr), 0, 0, 0, 0]
    });
    c.call(SYS_recvmsg, Errno(EAGAIN), |a| {
        let hdr = header(a, &[4, 100], 64);
        [fd(&reader), a.words(&hdr), 0, 0, 0, 0]
    });
    c.call(SYS_recvmmsg, Success, |a| {
        writer.send(b"first").unwrap();
        send_descriptor(&writer);
        let mut all = Vec::new();
        for _ in 0..3 {
            all.extend(header(a, &[3, 40], 64));
            all.push(0xffff_ffff);
        }
        [fd(&reader), a.words(&all), 3, 0x40, a.words(&[1, 0]), 0]
    });
    c.call(SYS_sendmmsg, Success, |a| {
        let mut all = Vec::new();
        for text in ["one", "three"] {
            let text = a.put(text.as_bytes());
            let iov = a.words(&[text, 3]);
            all.extend([0, 0, iov, 1, 0, 0, 0, 0xffff_ffff]);
        }
        [fd(&writer), a.words(&all), 2, 0x40, 0, 0]
    });
}

fn waiting(c: &mut Checked) {
    let (reader, mut writer) = UnixStream::pair().unwrap();
    writer.write_all(b"x").unwrap();
    let (r, w) = (fd(&reader), fd(&writer));
    let fds = [r | 1 << 32, w | 5 << 32];
    c.call(SYS_poll, Success, |a| [a.words(&fds), 2, 0, 0, 0, 0]);
    c.call(SYS_ppoll, Success, |a| [a.words(&fds), 2, a.words(&[1, 0]), 0, 8, 0]);
    assert!(w < 64, "the sets below are one word");
    let set = |a: &mut Arena| a.words(&[1 << r | 1 << w]);
    c.call(SYS_select, Success, |a| [w.max(r) + 1, set(a), set(a), set(a), a.words(&[1, 0]), 0]);
    c.call(SYS_pselect6, Success, |a| [w.max(r) + 1, set(a), set(a), 0, a.words(&[1, 0]), 0]);
    c.call(SYS_select, Success, |a| [0, 0, 0, 0, a.words(&[0, 100]), 0]);
    // SAFETY: no pointers but to the event.
    let epoll = unsafe {
        let epoll = epoll_create1(0);
        let mut event = epoll_event { events: 1, u64: 7 };
        assert_eq!(epoll_ctl(epoll, EPOLL_CTL_ADD, reader.as_raw_fd(), &raw mut event), 0);
        u64::try_from(epoll).unwrap()
    };
    c.call(SYS_epoll_wait, Success, |a| [epoll, a.room(120), 10, 0, 0, 0]);
    c.call(SYS_epoll_pwait, Success, |a| [epoll, a.room(120), 10, 0, 0, 8]);
    c.call(SYS_epoll_pwait2, Success, |a| [epoll, a.room(120), 10, a.words(&[0, 0]), 0, 8]);
    // WAKE_OP sets the second word to 5; TRYLOCK_PI puts our id into the first.
    c.call(SYS_futex, Success, |a| [a.put(&[0; 4]), 0x85, 1, 1, a.put(&[0; 4]), 5 << 12]);
    c.call(SYS_futex, Success, |a| [a.put(&[0; 4]), 0x88, 0, 0, 0, 0]);
    c.call(SYS_futex, Errno(EAGAIN), |a| [a.put(&[0; 4]), 0x80, 1, 0, 0, 0]);
}

/// Starts a child that ends at once with status 3, and waits until it has, without taking the status.
fn child() -> u64 {
    // SAFETY: the child only exits.
    unsafe {
        let pid = fork();
        if pid == 0 {
            _exit(3);
        }
        let mut info: siginfo_t = std::mem::zeroed();
        let id = u32::try_from(pid).unwrap();
        assert_eq!(waitid(P_PID, id, &raw mut info, WEXITED | WNOWAIT), 0);
        u64::from(id)
    }
}

fn children(c: &mut Checked) {
    c.call(SYS_wait4, Success, |a| [child(), a.room(4), 0, a.room(144), 0, 0]);
    c.call(SYS_waitid, Success, |a| [1, child(), a.room(128), 4, a.room(144), 0]);
    c.call(SYS_waitid, Errno(EINVAL), |a| [77, 0, a.room(128), 4, a.room(144), 0]);
    c.call(SYS_waitid, Errno(ECHILD), |a| [1, u64::from(std::process::id()), a.room(128), 4, a.room(144), 0]);
    c.call(SYS_wait4, Errno(ECHILD), |a| [u64::from(u32::MAX), a.room(4), 0, a.room(144), 0, 0]);
    // SAFETY: the child waits to be killed.
    let pid = unsafe { fork() };
    if pid == 0 {
        // SAFETY: nothing but waiting.
        unsafe { pause() };
        std::process::abort();
    }
    let id = u64::try_from(pid).unwrap();
    c.call(SYS_wait4, Success, |a| [id, a.room(4), 1, a.room(144), 0, 0]);
    c.call(SYS_waitid, Success, |a| [1, id, a.room(128), 4 | 1, a.room(144), 0]);
    // SAFETY: our own child, and then it is gone.
    unsafe {
        assert_eq!(kill(pid, SIGKILL), 0);
        assert_eq!(waitpid(pid, std::ptr::null_mut(), 0), pid);
    }
}

fn requests(c: &mut Checked) {
    // SAFETY: no pointers.
    let terminal = u64::try_from(unsafe { posix_openpt(O_RDWR | O_NOCTTY) }).unwrap();
    for (request, len) in [
        (0x5401, 36),
        (0x802c_542a, 44),
        (0x5413, 8),
        (0x5405, 18),
        (0x8004_5430, 4),
        (0x541b, 4),
        (0x8004_5439, 4),
    ] {
        c.call(SYS_ioctl, Success, |a| [terminal, request, a.room(len), 0, 0, 0]);
    }
    let file = memory_file();
    c.call(SYS_ioctl, Success, |a| [file, 0x541b, a.room(4), 0, 0, 0]);
    c.call(SYS_ioctl, Success, |a| [file, 0x5460, a.room(8), 0, 0, 0]);
    c.call(SYS_ioctl, Success, |a| [file, 2, a.room(4), 0, 0, 0]);
    c.call(SYS_ioctl, Errno(ENOTTY), |a| [file, 0x5401, a.room(36), 0, 0, 0]);
    let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut lo = [0; 40];
    lo[..2].copy_from_slice(b"lo");
    for request in [0x8913, 0x8915, 0x8921, 0x8927, 0x8933] {
        c.call(SYS_ioctl, Success, |a| [fd(&udp), request, a.put(&lo), 0, 0, 0]);
    }
    c.call(SYS_ioctl, Success, |a| {
        let room = a.room(400);
        [fd(&udp), 0x8912, a.words(&[400, room]), 0, 0, 0]
    });
    c.call(SYS_fcntl, Success, |a| [file, 5, a.words(&[1, 0, 0, 0]), 0, 0, 0]);
    c.call(SYS_fcntl, Success, |a| [file, 16, a.room(8), 0, 0, 0]);
    c.call(SYS_fcntl, Success, |a| [file, 1035, a.room(8), 0, 0, 0]);
}

fn ipc(c: &mut Checked) {
    // SAFETY: no pointers.
    let (shm, sem, msg) = unsafe {
        let private = IPC_PRIVATE;
        (shmget(private, 4096, 0o600), semget(private, 2, 0o600), msgget(private, 0o600))
    };
    let id = |id: i32| u64::try_from(id).expect("System V ipc");
    c.call(SYS_shmctl, Success, |a| [id(shm), 2, a.room(112), 0, 0, 0]);
    c.call(SYS_shmctl, Success, |a| [0, 3, a.room(72), 0, 0, 0]);
    c.call(SYS_shmctl, Success, |a| [0, 14, a.room(48), 0, 0, 0]);
    c.call(SYS_semctl, Success, |a| [id(sem), 0, 2, a.room(104), 0, 0]);
    c.call(SYS_semctl, Success, |a| [0, 0, 3, a.room(40), 0, 0]);
    c.call(SYS_msgctl, Success, |a| [id(msg), 2, a.room(120), 0, 0, 0]);
    c.call(SYS_msgctl, Success, |a| [0, 3, a.room(32), 0, 0, 0]);
    c.call(SYS_msgrcv, Success, |a| {
        let text: [u64; 2] = [5, 0x6665_6463_6261];
        // SAFETY: the message is a type and then text.
        assert_eq!(unsafe { msgsnd(msg, text.as_ptr().cast(), 7, 0) }, 0);
        [id(msg), a.room(64), 56, 0, 0, 0]
    });
    // SAFETY: removing what was made above.
    unsafe {
        shmctl(shm, IPC_RMID, std::ptr::null_mut());
        semctl(sem, 0, IPC_RMID);
        msgctl(msg, IPC_RMID, std::ptr::null_mut());
    }
}
