//! Whatever becomes of us, SIGKILL included, no task that is parked sleeps for ever: nobody traces it, so the
//! kernel does not end it with us.
//!
//! A process of our own, begun with the first task that is parked, waits for the end of a pipe whose other
//! end only we have. Then it kills those whose ids are in a table in memory that both share. It is in a
//! session of its own, blocks all signals, and has nothing else open; it is nobody's child that anybody waits
//! for.

use std::{
    collections::BTreeMap,
    io, mem,
    os::fd::{AsRawFd, IntoRawFd, RawFd},
    ptr, slice,
    sync::{
        Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicI32, Ordering},
    },
};

use bis_trace::types::{Signal, Tid};

use crate::{names, sys};

/// More than there are tasks at once.
const SLOTS: usize = 1 << 16;

/// All that are parked, and the slots of their ids; those beyond the table have none.
static PARKED: Mutex<BTreeMap<Tid, usize>> = Mutex::new(BTreeMap::new());

fn all_parked() -> MutexGuard<'static, BTreeMap<Tid, usize>> {
    PARKED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Its id; 0: there is none.
static GUARDIAN: AtomicI32 = AtomicI32::new(0);

/// The ids of those that the guardian kills, or 0; empty where it could not be begun.
fn table() -> &'static [AtomicI32] {
    static TABLE: OnceLock<&[AtomicI32]> = OnceLock::new();
    TABLE.get_or_init(|| {
        begin().unwrap_or_else(|error| {
            tracing::warn!(%error, "nobody will end parked tasks if bis is killed");
            &[]
        })
    })
}

/// Begins the guardian now; and says who gets orphans that we do not: its parent is the one who is the parent
/// of the program's orphans where nobody records it. Only before this process takes orphans itself
/// ([`crate::sys::become_subreaper`]).
pub fn begin_as_orphan() -> Option<Tid> {
    table();
    let guardian = GUARDIAN.load(Ordering::Acquire);
    (guardian > 0).then(|| names::parent(Tid(guardian))).flatten()
}

/// This task is about to be parked.
pub fn guard(tid: Tid) {
    let table = table();
    let mut parked = all_parked();
    let free = table.iter().position(|slot| slot.load(Ordering::Relaxed) == 0).unwrap_or(SLOTS);
    if let Some(slot) = table.get(free) {
        slot.store(tid.0, Ordering::Release);
    }
    parked.insert(tid, free);
}

/// It is not parked any more.
pub fn let_go(tid: Tid) {
    let mut parked = all_parked();
    if let Some(slot) = parked.remove(&tid).and_then(|slot| table().get(slot)) {
        slot.store(0, Ordering::Release);
    }
}

/// Kills all that are parked. For who is about to exit, and takes no more over: threads that would are not
/// waited for.
pub fn kill_parked() {
    for tid in all_parked().keys() {
        // It may be gone.
        let _ = sys::kill(*tid, Signal::KILL);
    }
}

fn begin() -> io::Result<&'static [AtomicI32]> {
    let len = SLOTS * mem::size_of::<AtomicI32>();
    let (end, ours) = io::pipe()?;
    // SAFETY: new shared memory of zeroes, which is never unmapped; any bytes are an AtomicI32. The forked
    // child makes system calls only. The mask is put back.
    unsafe {
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        let memory = libc::mmap(ptr::null_mut(), len, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let table: &'static [AtomicI32] = slice::from_raw_parts(memory.cast(), SLOTS);
        let (mut all, mut old): (libc::sigset_t, libc::sigset_t) = (mem::zeroed(), mem::zeroed());
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut old);
        let first = libc::fork();
        if first == 0 {
            // The child of a child that is gone: no thread of ours finds it when it waits for its tasks.
            let second = libc::fork();
            if second == 0 {
                watch(end.as_raw_fd(), table);
            }
            table[0].store(second, Ordering::Release);
            libc::_exit(0);
        }
        let error = io::Error::last_os_error();
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const old, ptr::null_mut());
        if first < 0 {
            return Err(error);
        }
        while libc::waitpid(first, ptr::null_mut(), libc::__WALL) < 0
            && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
        {}
        GUARDIAN.store(table[0].swap(0, Ordering::AcqRel), Ordering::Release);
        // Closed by our end, whatever that is, and by nothing else.
        let _ = ours.into_raw_fd();
        Ok(table)
    }
}

/// What the guardian does.
///
/// # Safety
/// In a freshly forked process, which it ends.
unsafe fn watch(end: RawFd, table: &[AtomicI32]) -> ! {
    // SAFETY: system calls on plain numbers, and on a byte of ours.
    unsafe {
        libc::setsid();
        libc::chdir(c"/".as_ptr());
        libc::dup2(end, 0);
        libc::syscall(libc::SYS_close_range, 1u32, u32::MAX, 0u32);
        let mut byte = 0u8;
        while libc::read(0, (&raw mut byte).cast(), 1) < 0 && *libc::__errno_location() == libc::EINTR {}
        for slot in table {
            let tid = slot.load(Ordering::Acquire);
            if tid > 0 {
                libc::kill(tid, libc::SIGKILL);
            }
        }
        libc::_exit(0)
    }
}
