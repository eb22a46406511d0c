//! Signals, sockets, System V IPC, message queues, and ioctl.

use crate::Checked;
use crate::Same::{Bytes, Places};
use crate::cases::{fd, file};
use crate::low::Low;

const AF_UNIX: i32 = libc::AF_UNIX;

pub fn run(c: &mut Checked) {
    signals(c);
    options(c);
    messages(c);
    several(c);
    multiplexer(c);
    ipc(c);
    queues(c);
    requests(c);
}

/// This process's user and group.
fn ids() -> [u32; 2] {
    // SAFETY: calls without pointers.
    unsafe { [libc::getuid(), libc::getgid()] }
}

/// A socket of AF_INET.
fn datagrams() -> u32 {
    // SAFETY: a call without pointers.
    fd(unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM, 0) })
}

fn own_pid() -> u32 {
    std::process::id()
}

/// Leaves nothing pending.
fn drain() {
    // SAFETY: sets and times are ours.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigfillset(&raw mut set);
        let now = std::mem::zeroed();
        while libc::sigtimedwait(&raw const set, std::ptr::null_mut(), &raw const now) > 0 {}
    }
}

/// Blocks the signals that are sent here.
fn block() {
    // SAFETY: a set is ours.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        for signal in [libc::SIGUSR1, libc::SIGUSR2, 40] {
            libc::sigaddset(&raw mut set, signal);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut());
    }
}

fn signals(c: &mut Checked) {
    block();
    // SAFETY: a call without pointers.
    let tid = || u32::try_from(unsafe { libc::gettid() }).unwrap();
    let without_stack = || {
        let none = libc::stack_t { ss_sp: std::ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
        // SAFETY: no handler runs.
        unsafe { libc::sigaltstack(&raw const none, std::ptr::null_mut()) };
    };
    c.call(186, Bytes, |l| {
        without_stack();
        [0, l.space(12), 0, 0, 0, 0]
    });
    c.call(186, Bytes, |l| {
        without_stack();
        let (area, size) = (l.space(8192), 8192);
        [l.words(&[area, 0, size]), l.space(12), 0, 0, 0, 0]
    });
    c.call(186, Bytes, |l| [0, l.space(12), 0, 0, 0, 0]);
    c.call(186, Bytes, |l| [l.words(&[0, 2, 0]), 0, 0, 0, 0, 0]);
    c.call(68, Bytes, |_| [0; 6]);
    c.call(73, Bytes, |l| [l.space(4), 0, 0, 0, 0, 0]);
    c.call(175, Bytes, |l| [0, 0, l.space(8), 8, 0, 0]);
    c.call(176, Bytes, |l| [l.space(8), 8, 0, 0, 0, 0]);
    // A queued signal with a value, and what it is when it comes.
    let info = |l: &mut Low, signal: u32| l.words(&[signal, 3, 0xffff_ffff, 77, 88, 0x8765_4321, 1, 2, 3]);
    let padded = |l: &mut Low, signal: u32| {
        let at = l.space(128);
        let from = info(l, signal);
        let bytes = l.copy();
        let start = usize::try_from(from).unwrap() - 0x1000_0000;
        l.write(at.into(), &[&bytes[start..start + 36], &[0; 92]].concat());
        at
    };
    for signal in [10, 40] {
        c.call(335, Bytes, |l| {
            drain();
            [own_pid(), tid(), signal, padded(l, signal), 0, 0]
        });
        c.call(177, Bytes, |l| {
            drain();
            let at = padded(l, signal);
            let sent =
                bis_syscalls::narrow::NarrowCall { nr: 335, args: [own_pid(), tid(), signal, at, 0, 0] };
            assert_eq!(crate::low::int80(&sent), 0);
            [l.words(&[0xffff_ffff, 0xffff_ffff]), l.space(128), l.words(&[1, 0]), 8, 0, 0]
        });
    }
    c.call(178, Bytes, |l| [own_pid(), 0, padded(l, 10), 0, 0, 0]);
    c.call(421, Bytes, |l| {
        drain();
        // SAFETY: a signal that is blocked.
        unsafe { libc::syscall(libc::SYS_tgkill, own_pid(), tid(), libc::SIGUSR2) };
        [l.words(&[0xffff_ffff, 0xffff_ffff]), l.space(128), l.words(&[1, 0, 0, 4]), 8, 0, 0]
    });
    c.call(177, Bytes, |l| {
        drain();
        [l.words(&[0xffff_ffff, 0xffff_ffff]), l.space(128), l.words(&[0, 1000]), 8, 0, 0]
    });
    c.call(68, Bytes, |_| [0; 6]);
    c.call(69, Bytes, |_| {
        block();
        [0xa00; 6]
    });
    c.call(68, Bytes, |_| [0; 6]);
}

/// Two connected sockets.
fn pair(kind: i32) -> [u32; 2] {
    let mut ends = [0; 2];
    // SAFETY: an array of two.
    assert_eq!(unsafe { libc::socketpair(AF_UNIX, kind, 0, ends.as_mut_ptr()) }, 0);
    ends.map(fd)
}

fn options(c: &mut Checked) {
    let [socket, _] = pair(libc::SOCK_STREAM);
    let inet = datagrams();
    for name in [20, 21] {
        c.call(366, Bytes, |l| [socket, 1, name, l.words(&[5, 1000]), 8, 0]);
        c.call(366, Bytes, |l| [socket, 1, name, l.words(&[5, 1000]), 4, 0]);
        for room in [8, 4, 16, 0, 0xffff_ffff] {
            c.call(365, Bytes, |l| [socket, 1, name, l.space(16), l.words(&[room]), 0]);
        }
        c.call(366, Bytes, |l| [socket, 1, name, l.words(&[0, 0]), 8, 0]);
    }
    for name in [66, 67] {
        c.call(365, Bytes, |l| [socket, 1, name, l.space(16), l.words(&[16]), 0]);
    }
    c.call(365, Bytes, |l| [socket, 1, 17, l.space(12), l.words(&[12]), 0]);
    c.call(365, Bytes, |l| [socket, 1, 3, l.space(4), l.words(&[4]), 0]);
    c.call(366, Bytes, |l| [socket, 1, 9, l.words(&[1]), 4, 0]);
    // A filter of one instruction that takes all.
    c.call(366, Bytes, |l| {
        let code = l.words(&[6, 0xffff_ffff]);
        [inet, 1, 26, l.words(&[1, code]), 8, 0]
    });
    // Groups: 224.0.0.100 by interface 1.
    let group = |l: &mut Low| {
        let mut bytes = vec![0; 132];
        bytes[0] = 1;
        bytes[4] = 2;
        bytes[8..12].copy_from_slice(&[224, 0, 0, 100]);
        l.put(&bytes)
    };
    for name in [42, 45] {
        c.call(366, Bytes, |l| [fresh_group(name == 45), 0, name, group(l), 132, 0]);
        c.call(366, Bytes, |l| [fresh_group(name == 45), 0, name, group(l), 130, 0]);
    }
}

/// A socket, perhaps in the group.
fn fresh_group(is_member: bool) -> u32 {
    // SAFETY: a structure of ours.
    unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM, 0);
        libc::dup2(socket, 310);
        libc::close(socket);
        if is_member {
            let mut bytes = [0_u8; 136];
            bytes[0] = 1;
            bytes[8] = 2;
            bytes[12..16].copy_from_slice(&[224, 0, 0, 100]);
            libc::setsockopt(310, 0, 42, bytes.as_ptr().cast(), 136);
        }
    }
    310
}

/// `struct msghdr` with two buffers, and room for control messages.
fn header(l: &mut Low, data: &[u8], control: &[u8]) -> [u32; 7] {
    let (a, b) = (l.put(&data[..2]), l.put(&data[2..]));
    let vector = l.words(&[a, 2, b, u32::try_from(data.len() - 2).unwrap()]);
    let at = l.put(control);
    [0, 0, vector, 2, at, u32::try_from(control.len()).unwrap(), 0x55]
}

fn control(level: u32, kind: u32, data: &[u32]) -> Vec<u8> {
    let len = 12 + 4 * u32::try_from(data.len()).unwrap();
    [&[len, level, kind], data].concat().into_iter().flat_map(u32::to_le_bytes).collect()
}

/// Sends these descriptors and one byte by a call that is not under test.
fn send(socket: u32, fds: &[u32]) {
    let mut l = [0_u64; 64];
    let len = 16 + 4 * fds.len();
    let mut bytes = [0; 64];
    bytes[..8].copy_from_slice(&(len as u64).to_le_bytes());
    bytes[8..12].copy_from_slice(&1_u32.to_le_bytes());
    bytes[12..16].copy_from_slice(&1_u32.to_le_bytes());
    for (i, fd) in fds.iter().enumerate() {
        bytes[16 + 4 * i..20 + 4 * i].copy_from_slice(&fd.to_le_bytes());
    }
    let data = *b"hello";
    l[0] = data.as_ptr().addr() as u64;
    l[1] = 5;
    let header = [
        0,
        0,
        l.as_ptr().addr() as u64,
        1,
        if fds.is_empty() { 0 } else { bytes.as_ptr().addr() as u64 },
        if fds.is_empty() { 0 } else { len as u64 },
        0,
    ];
    // SAFETY: all of it lives until the call has returned.
    let sent = unsafe { libc::syscall(libc::SYS_sendmsg, socket, header.as_ptr(), 0) };
    assert_eq!(sent, 5, "{}", std::io::Error::last_os_error());
}

/// Two connected sockets that always have the same numbers. Descriptors from 200 on are closed, where
/// received ones go.
fn fixed_pair(kind: i32) -> [u32; 2] {
    // SAFETY: nothing that is still used has a number from 200 on.
    unsafe {
        libc::syscall(libc::SYS_close_range, 200, 0xffff, 0);
        while libc::dup(0) < 200 {}
        libc::close(200);
    }
    let ends = pair(kind);
    // SAFETY: numbers that only this function uses.
    unsafe {
        for (end, as_number) in ends.into_iter().zip([320, 321]) {
            libc::dup2(i32::try_from(end).unwrap(), as_number);
            libc::close(i32::try_from(end).unwrap());
        }
    }
    [320, 321]
}

fn set_option(socket: u32, name: i32) {
    let one = 1_i32;
    // SAFETY: an int of ours.
    let set =
        unsafe { libc::setsockopt(i32::try_from(socket).unwrap(), 1, name, (&raw const one).cast(), 4) };
    assert_eq!(set, 0);
}

fn messages(c: &mut Checked) {
    let kind = libc::SOCK_STREAM;
    // What is sent: descriptors, credentials, both, and what is wrong.
    let [uid, gid] = ids();
    let controls = [
        vec![],
        control(1, 1, &[0]),
        control(1, 1, &[0, 1, 2]),
        control(1, 2, &[own_pid(), uid, gid]),
        [control(1, 1, &[0, 1]), control(1, 2, &[own_pid(), uid, gid])].concat(),
        control(1, 1, &[999]),
        control(1, 99, &[0]),
        control(1, 1, &[0])[..8].to_vec(),
        [control(1, 1, &[0]), vec![0; 4]].concat(),
        {
            let mut long = control(1, 1, &[0]);
            long[0] = 40;
            long
        },
    ];
    for control in &controls {
        c.call(370, Bytes, |l| {
            let header = header(l, b"hello", control);
            [fixed_pair(kind)[0], l.words(&header), 0, 0, 0, 0]
        });
    }
    c.call(370, Bytes, |_| [fixed_pair(kind)[0], 16, 0, 0, 0, 0]);
    // What is received, with room for so many bytes of control messages.
    for fds in [&[][..], &[0], &[0, 1], &[0, 1, 2], &[0, 1, 2, 0, 1, 2, 0]] {
        for room in [0, 8, 12, 16, 20, 24, 28, 40] {
            c.call(372, Bytes, |l| {
                let [from, to] = fixed_pair(kind);
                send(from, fds);
                let header = header(l, b"hello", &vec![7; room]);
                [to, l.words(&header), 0, 0, 0, 0]
            });
        }
    }
    // With credentials before the descriptors.
    for room in [0, 12, 20, 24, 36, 40, 64, 100] {
        c.call(372, Bytes, |l| {
            let [from, to] = fixed_pair(kind);
            set_option(to, libc::SO_PASSCRED);
            send(from, &[0]);
            let header = header(l, b"hello", &vec![7; room]);
            [to, l.words(&header), 0x4000_0000, 0, 0, 0]
        });
    }
    // Timestamps of both kinds, and nanoseconds.
    for name in [29, 35, 63, 64] {
        c.call(372, Places, |l| {
            let [from, to] = fixed_pair(libc::SOCK_DGRAM);
            set_option(to, name);
            send(from, &[]);
            let mut header = header(l, b"hello", &[]);
            (header[4], header[5]) = (l.space(64), 64);
            [to, l.words(&header), 0, 0, 0, 0]
        });
    }
    // An address, and a message that does not come.
    c.call(372, Bytes, |l| {
        let [from, to] = fixed_pair(kind);
        send(from, &[]);
        let mut header = header(l, b"hello", &[]);
        (header[0], header[1]) = (l.space(20), 20);
        [to, l.words(&header), 0, 0, 0, 0]
    });
    c.call(372, Bytes, |l| {
        let header = header(l, b"hello", &[0; 16]);
        [fixed_pair(kind)[1], l.words(&header), 0x40, 0, 0, 0]
    });
    c.call(371, Bytes, |l| {
        let [from, to] = fixed_pair(kind);
        send(from, &[]);
        [to, l.space(10), 10, 0, 0, 0]
    });
}

fn several(c: &mut Checked) {
    let kind = libc::SOCK_DGRAM;
    let three = |l: &mut Low, room: usize| {
        let headers: Vec<u32> =
            (0..3).flat_map(|_| [&header(l, b"hello", &vec![7; room])[..], &[0x77]].concat()).collect();
        l.words(&headers)
    };
    c.call(345, Bytes, |l| [fixed_pair(kind)[0], three(l, 0), 3, 0, 0, 0]);
    c.call(345, Bytes, |l| [fixed_pair(kind)[0], three(l, 8), 3, 0, 0, 0]);
    c.call(345, Bytes, |_| [fixed_pair(kind)[0], 16, 3, 0, 0, 0]);
    for (nr, time) in [(337, &[1, 0][..]), (417, &[1, 0, 0, 9][..])] {
        c.call(nr, Bytes, |l| {
            let [from, to] = fixed_pair(kind);
            send(from, &[0]);
            send(from, &[]);
            [to, three(l, 16), 3, 0x40, 0, 0]
        });
        c.call(nr, Places, |l| {
            let [from, to] = fixed_pair(kind);
            send(from, &[0]);
            [to, three(l, 16), 1, 0, l.words(time), 0]
        });
    }
}

fn multiplexer(c: &mut Checked) {
    let call = |c: &mut Checked, number: u32, lay: &dyn Fn(&mut Low) -> Vec<u32>| {
        c.call(102, Bytes, |l| {
            let words = lay(l);
            [number, l.words(&words), 0, 0, 0, 0]
        });
    };
    call(c, 1, &|_| vec![99, 1, 0]);
    call(c, 4, &|_| vec![fixed_pair(1)[0], 1]);
    call(c, 9, &|l| vec![fixed_pair(1)[0], l.put(b"abc"), 3, 0]);
    call(c, 10, &|l| vec![fixed_pair(1)[0], l.space(3), 3, 0x40]);
    call(c, 11, &|l| vec![fixed_pair(1)[0], l.put(b"abc"), 3, 0, 0, 0]);
    call(c, 13, &|_| vec![fixed_pair(1)[0], 2]);
    call(c, 14, &|l| vec![fixed_pair(1)[0], 1, 20, l.words(&[1, 1]), 8]);
    call(c, 15, &|l| vec![fixed_pair(1)[0], 1, 20, l.space(8), l.words(&[8])]);
    call(c, 6, &|l| vec![fixed_pair(1)[0], l.space(20), l.words(&[20])]);
    call(c, 16, &|l| {
        let header = header(l, b"hello", &control(1, 1, &[0]));
        vec![fixed_pair(1)[0], l.words(&header), 0]
    });
    call(c, 17, &|l| {
        let [from, to] = fixed_pair(1);
        send(from, &[0]);
        let header = header(l, b"hello", &[7; 16]);
        vec![to, l.words(&header), 0]
    });
    call(c, 0, &|_| vec![0]);
    call(c, 21, &|_| vec![0; 6]);
    c.call(102, Bytes, |_| [1, 16, 0, 0, 0, 0]);
}

const IPC_64: u32 = 0x100;

fn ipc(c: &mut Checked) {
    // SAFETY: calls without pointers.
    let [sem, msg, shm] = unsafe {
        [
            libc::semget(libc::IPC_PRIVATE, 3, 0o600),
            libc::msgget(libc::IPC_PRIVATE, 0o600),
            libc::shmget(libc::IPC_PRIVATE, 5000, 0o600),
        ]
    }
    .map(fd);
    let pointer = |l: &mut Low, len: usize| {
        let to = l.space(len);
        l.words(&[to])
    };
    // Status, limits and use, by both ways.
    for command in [2, 3, 18, 19, 20] {
        let id = if matches!(command, 18 | 20) { 0 } else { sem };
        c.call(394, Places, |l| [id, 0, command, l.space(104), 0, 0]);
        c.call(117, Places, |l| [3, id, 0, command | IPC_64, pointer(l, 104), 0]);
    }
    c.call(394, Bytes, |l| [sem, 0, 2, l.space(104), 0, 0]);
    c.call(394, Bytes, |l| [sem, 0, 17, l.put(&[1, 0, 2, 0, 3, 0]), 0, 0]);
    c.call(394, Bytes, |l| [sem, 0, 13, l.space(6), 0, 0]);
    c.call(394, Bytes, |_| [sem, 1, 16, 7, 0, 0]);
    c.call(117, Bytes, |l| [3, sem, 1, 16 | IPC_64, l.words(&[9]), 0]);
    c.call(117, Bytes, |l| [3, sem, 1, 12, l.words(&[0]), 0]);
    c.call(117, Bytes, |_| [3, sem, 1, 12, 0, 0]);
    for (nr, number, id, len) in [(402, 14, msg, 120), (396, 24, shm, 112)] {
        for command in [2, 3, 12, 14, 11, 13, 15, 99] {
            c.call(nr, Places, |l| [id, command, l.space(len), 0, 0, 0]);
            c.call(117, Places, |l| [number, id, command | IPC_64, 0, l.space(len), 0]);
        }
        c.call(nr, Bytes, |l| [id, 2, l.space(len), 0, 0, 0]);
        c.call(nr, Bytes, |l| [id, 3, l.space(len), 0, 0, 0]);
    }
    c.call(396, Bytes, |l| [0, 14, l.space(48), 0, 0, 0]);
    // What is set: user, group, mode, and the room of a queue.
    for (nr, id, qbytes) in [(394, sem, 0), (402, msg, 8000), (396, shm, 0)] {
        c.call(nr, Bytes, |l| {
            let mut words = [0; 22];
            (words[1], words[2], words[5], words[17]) = (0, 0, 0o640, qbytes);
            let at = l.words(&words);
            if nr == 394 { [id, 0, 1, at, 0, 0] } else { [id, 1, at, 0, 0, 0] }
        });
        c.call(nr, Places, |l| {
            let to = l.space(104);
            if nr == 394 { [id, 0, 2, to, 0, 0] } else { [id, 2, to, 0, 0, 0] }
        });
    }
    // Operations and their times.
    c.call(393, Bytes, |_| [99, 0, 0, 0, 0, 0]);
    let up = |l: &mut Low| l.put(&[0, 0, 1, 0, 0, 0]);
    let wait = |l: &mut Low| l.put(&[2, 0, 0xf0, 0xff, 0, 0]);
    c.call(117, Bytes, |l| [1, sem, 1, 0, up(l), 0]);
    c.call(117, Bytes, |l| [4, sem, 1, 0, wait(l), l.words(&[0, 1000])]);
    c.call(420, Bytes, |l| [sem, wait(l), 1, l.words(&[0, 0, 1000, 9]), 0, 0]);
    // Messages, which end where they began.
    let text = |l: &mut Low| l.put(&[&7_u32.to_le_bytes()[..], b"hello"].concat());
    let queued = || {
        // SAFETY: a queue of this test; and memory of ours.
        unsafe {
            let id = i32::try_from(msg).unwrap();
            let mut old = [0_u8; 64];
            while libc::msgrcv(id, old.as_mut_ptr().cast(), 50, 0, libc::IPC_NOWAIT) >= 0 {}
            let sent = [7_u64, u64::from_le_bytes(*b"hello...")];
            libc::msgsnd(id, sent.as_ptr().cast(), 5, 0);
        }
        msg
    };
    c.call(400, Bytes, |l| [queued(), text(l), 5, 0, 0, 0]);
    c.call(400, Bytes, |l| [queued(), text(l), 0xffff_ffff, 0, 0, 0]);
    c.call(400, Bytes, |_| [queued(), 16, 5, 0, 0, 0]);
    for kind in [0, 7, 8, 0xffff_fff8] {
        c.call(401, Bytes, |l| [queued(), l.space(40), 30, kind, 0x800, 0]);
        c.call(117, Bytes, |l| [12 | 1 << 16, queued(), 30, 0x800, l.space(40), kind]);
        c.call(117, Bytes, |l| {
            let to = l.space(40);
            [12, queued(), 30, 0x800, l.words(&[to, kind]), 0]
        });
    }
    c.call(401, Bytes, |l| [queued(), l.space(40), 3, 0, 0x800, 0]);
    c.call(401, Bytes, |l| [queued(), l.space(40), 3, 0, 0x1800, 0]);
    c.call(117, Bytes, |l| [11, queued(), 5, 0, text(l), 0]);
    c.call(117, Bytes, |_| [13, 0x7777_7777, 0, 0, 0, 0]);
    c.call(117, Bytes, |_| [23, 0x7777_7777, 5, 0, 0, 0]);
    c.call(117, Bytes, |_| [2, 0x7777_7777, 1, 0, 0, 0]);
    c.call(117, Bytes, |_| [22, 0, 0, 0, 12345, 0]);
    c.call(117, Bytes, |_| [21 | 1 << 16, shm, 0, 0, 0, 0]);
    c.call(117, Bytes, |_| [30, 0, 0, 0, 0, 0]);
    // SAFETY: calls without pointers.
    unsafe {
        libc::semctl(i32::try_from(sem).unwrap(), 0, libc::IPC_RMID);
        libc::msgctl(i32::try_from(msg).unwrap(), libc::IPC_RMID, std::ptr::null_mut());
        libc::shmctl(i32::try_from(shm).unwrap(), libc::IPC_RMID, std::ptr::null_mut());
    }
}

fn queues(c: &mut Checked) {
    let path = format!("bis-narrow-{}", own_pid());
    let remove = || {
        let name = std::ffi::CString::new(format!("/{path}")).unwrap();
        // SAFETY: a string of ours.
        unsafe { libc::mq_unlink(name.as_ptr()) };
    };
    let queue = || {
        remove();
        let name = std::ffi::CString::new(format!("/{path}")).unwrap();
        // SAFETY: structures of ours.
        unsafe {
            let mut attr: libc::mq_attr = std::mem::zeroed();
            (attr.mq_maxmsg, attr.mq_msgsize) = (4, 32);
            let queue = libc::mq_open(name.as_ptr(), libc::O_CREAT | libc::O_RDWR, 0o600, &raw mut attr);
            if queue < 0 {
                return 999;
            }
            libc::dup2(queue, 315);
            libc::close(queue);
            let hello = *b"hello";
            libc::mq_send(315, hello.as_ptr().cast(), 5, 3);
        }
        315
    };
    c.call(277, Places, |l| {
        remove();
        [l.text(&path), 0o102, 0o600, l.words(&[0, 3, 40, 0, 0, 0, 0, 0]), 0, 0]
    });
    c.call(277, Bytes, |l| {
        remove();
        [l.text(&path), 0o102, 0o600, l.words(&[0, 0xffff_ffff, 40, 0, 0, 0, 0, 0]), 0, 0]
    });
    c.call(282, Bytes, |l| [queue(), 0, l.space(32), 0, 0, 0]);
    c.call(282, Bytes, |l| [queue(), l.words(&[0o4000, 0, 0, 0, 0, 0, 0, 0]), l.space(32), 0, 0, 0]);
    c.call(279, Bytes, |l| [queue(), l.put(b"abc"), 3, 1, l.words(&[1, 0]), 0]);
    c.call(280, Bytes, |l| [queue(), l.space(32), 32, l.space(4), l.words(&[1, 0]), 0]);
    c.call(418, Bytes, |l| [queue(), l.put(b"abc"), 3, 1, l.words(&[1, 0, 0, 3]), 0]);
    c.call(419, Bytes, |l| [queue(), l.space(32), 32, l.space(4), l.words(&[1, 0, 0, 3]), 0]);
    c.call(281, Bytes, |l| {
        let event = l.space(64);
        l.write(event.into(), &[5, 0, 0, 0, 10, 0, 0, 0, 1]);
        [queue(), event, 0, 0, 0, 0]
    });
    c.call(281, Bytes, |_| [queue(), 0, 0, 0, 0, 0]);
    remove();
}

fn requests(c: &mut Checked) {
    let socket = datagrams();
    let interface = |l: &mut Low| {
        let mut bytes = [9; 32];
        bytes[..16].copy_from_slice(b"lo\0.............");
        l.put(&bytes)
    };
    for request in [0x8913, 0x8915, 0x891b, 0x8921, 0x8927, 0x8933, 0x8942] {
        c.call(54, Bytes, |l| [socket, request, interface(l), 0, 0, 0]);
        c.call(54, Bytes, |_| [socket, request, 16, 0, 0, 0]);
    }
    c.call(54, Bytes, |l| {
        let mut bytes = [9; 32];
        bytes[16..20].copy_from_slice(&[1, 0, 0, 0]);
        [socket, 0x8910, l.put(&bytes), 0, 0, 0]
    });
    for len in [0, 31, 32, 64, 1000, 0xffff_ffff] {
        c.call(54, Bytes, |l| {
            let list = l.space(1000);
            [socket, 0x8912, l.words(&[len, list]), 0, 0, 0]
        });
    }
    c.call(54, Bytes, |l| [socket, 0x8912, l.words(&[77, 0]), 0, 0, 0]);
    c.call(54, Bytes, |l| [file(), 0x541b, l.space(4), 0, 0, 0]);
    c.call(54, Bytes, |l| [file(), 0x5421, l.words(&[1]), 0, 0, 0]);
    c.call(54, Bytes, |l| [file(), 0x8004_6601, l.space(8), 0, 0, 0]);
    c.call(54, Bytes, |l| [socket, 0x5401, l.space(60), 0, 0, 0]);
    // SAFETY: a call without pointers.
    let terminal = unsafe { libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY) };
    if terminal >= 0 {
        let terminal = fd(terminal);
        for (request, len) in [(0x5401, 36), (0x802c_542a, 44), (0x5413, 8), (0x8004_5430, 4), (0x540f, 4)] {
            c.call(54, Bytes, |l| [terminal, request, l.space(len), 0, 0, 0]);
        }
    }
    // SIOCGSTAMP after a packet.
    c.call(54, Places, |l| [socket, 0x8906, l.space(8), 0, 0, 0]);
}
