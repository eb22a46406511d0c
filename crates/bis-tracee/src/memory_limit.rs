//! The allocator of the command: the C library's, which says in one line when there is no memory left and
//! ends the process. Rust's own way is to abort, with a status that could be the recorded program's.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    ffi::CStr,
    os::fd::{AsRawFd as _, OwnedFd},
    sync::{
        OnceLock,
        atomic::{AtomicI32, Ordering},
    },
};

/// [`System`], but nobody is refused memory and lives.
#[derive(Debug)]
pub struct Said {
    /// The exit status of a process that was refused memory before it has said which it is to be
    /// ([`say_with_status`]): by the first of its arguments.
    pub early: fn(&[u8]) -> u8,
}

/// Nobody has said it yet.
const UNSAID: i32 = -1;

static STATUS: AtomicI32 = AtomicI32::new(UNSAID);

/// Of [`leave_word_in`].
static WORD: OnceLock<(OwnedFd, &'static CStr)> = OnceLock::new();

const LINE: &[u8] =
    b"bis: failed to allocate memory: the limit of memory, ulimit -v or the container's, is too low\n";

/// Where in it the word begins that is left: behind the name that a line of ours has.
const WORD_AT: usize = b"bis: ".len();

/// From here on, this is the exit status of a process without memory.
pub fn say_with_status(status: u8) {
    STATUS.store(status.into(), Ordering::Relaxed);
}

/// From here on, a process without memory leaves the line that it says in a file `name` in this folder, too:
/// whoever looks at what it has left finds there why it ended. Only the first call counts.
pub fn leave_word_in(folder: OwnedFd, name: &'static CStr) {
    let _ = WORD.set((folder, name));
}

fn leave_word() {
    let Some((folder, name)) = WORD.get() else { return };
    // Several threads may come here at once, and each ends the process: each writes the whole word first.
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    let word = &LINE[WORD_AT..];
    // SAFETY: system calls on constant bytes and plain numbers; where one fails, the line has been said at
    // least.
    unsafe {
        let file = libc::openat(folder.as_raw_fd(), name.as_ptr(), flags, 0o600);
        libc::write(file, word.as_ptr().cast(), word.len());
    }
}

fn status(early: fn(&[u8]) -> u8) -> i32 {
    let said = STATUS.load(Ordering::Relaxed);
    if said != UNSAID {
        return said;
    }
    let mut words = [0; 4096];
    // SAFETY: system calls on a constant and on an array of that length; where one fails, there are no words.
    let len = unsafe {
        let file = libc::open(c"/proc/self/cmdline".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        libc::read(file, words.as_mut_ptr().cast(), words.len())
    };
    let words = words.get(..usize::try_from(len).unwrap_or(0)).unwrap_or_default();
    early(words.split(|byte| *byte == 0).nth(1).unwrap_or_default()).into()
}

fn given(memory: *mut u8, early: fn(&[u8]) -> u8) -> *mut u8 {
    if memory.is_null() {
        // SAFETY: system calls on constant bytes and a plain number. What is traced is killed by the kernel.
        unsafe {
            libc::write(libc::STDERR_FILENO, LINE.as_ptr().cast(), LINE.len());
        }
        leave_word();
        // SAFETY: a plain number.
        unsafe {
            libc::_exit(status(early));
        }
    }
    memory
}

// SAFETY: all is System's, which keeps the contract, for the same layouts.
unsafe impl GlobalAlloc for Said {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract.
        given(unsafe { System.alloc(layout) }, self.early)
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        given(unsafe { System.alloc_zeroed(layout) }, self.early)
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, len: usize) -> *mut u8 {
        // SAFETY: as above.
        given(unsafe { System.realloc(memory, layout, len) }, self.early)
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}
