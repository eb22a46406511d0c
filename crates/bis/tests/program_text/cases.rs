//! What is recorded, and what must have been seen in it.

use Sight::{Count, Dense, Fork, Guard, HookedCall, Moved, Own, Patch, Patched, Vdso};

/// A program, how it is recorded, and what must have happened for the trial to mean anything.
pub struct Case {
    pub name: &'static str,
    pub flags: &'static [&'static str],
    pub argv: &'static [&'static str],
    /// A guest in place of `argv`.
    pub guest: Option<&'static str>,
    pub shows: &'static [Sight],
}

/// What the walk has come across.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sight {
    Patch,
    /// Text that is patched by the mapping of a file.
    Patched,
    Fault,
    Guard,
    Dense,
    Own,
    Vdso,
    HookedCall,
    Fork,
    Moved,
    Count,
}

/// Makes much of libc's text writable while another thread is there, and goes on in it.
const OPENED: &str = "
import ctypes, threading, time
libc = ctypes.CDLL(None)
end = threading.Event()
other = threading.Thread(target=end.wait)
other.start()
page = ctypes.cast(libc.getppid, ctypes.c_void_p).value & ~0xfff
assert libc.mprotect(ctypes.c_void_p(page - 0x8000), ctypes.c_size_t(0x10000), 7) == 0
libc.getppid()
end.set()
other.join()
time.sleep(0.01)
";

pub const CASES: [Case; 16] = [
    Case { name: "true", flags: &[], argv: &["/bin/true"], guest: None, shows: &[Patch, Vdso, Moved] },
    Case { name: "no_hooks", flags: &["--no-hooks"], argv: &["/bin/true"], guest: None, shows: &[Vdso] },
    Case {
        name: "python",
        flags: &[],
        argv: &["python3", "-c", "import hashlib, time, json, ctypes; print(time.time() > 0)"],
        guest: None,
        shows: &[Patch, Vdso, Moved],
    },
    Case {
        name: "python_threads",
        flags: &["--ticks=software"],
        argv: &[
            "python3",
            "-c",
            "import threading, hashlib\nfor i in range(4): threading.Thread(target=lambda: sum(range(99999))).start()",
        ],
        guest: None,
        shows: &[Patch, Dense, Moved],
    },
    Case {
        name: "shell",
        flags: &[],
        argv: &["/bin/sh", "-c", "echo a | cat; (echo b; /bin/true); date > /dev/null"],
        guest: None,
        shows: &[Patch, Fork, Moved, HookedCall],
    },
    Case {
        name: "again",
        flags: &[],
        argv: &["/bin/sh", "-c", "for i in 1 2 3 4; do (/bin/true; exit); done"],
        guest: None,
        shows: &[Patch, Patched, Fork, Moved, HookedCall],
    },
    Case {
        name: "opened_again",
        flags: &[],
        argv: &["/bin/sh", "-c", "for i in 1 2 3; do python3 -c \"$0\"; done", OPENED],
        guest: None,
        shows: &[Patched, Own, HookedCall],
    },
    Case {
        name: "threads",
        flags: &["--ticks=software"],
        argv: &[],
        guest: Some("threads/create_join.c"),
        shows: &[Patch, Dense, Moved],
    },
    Case {
        name: "phases",
        flags: &["--ticks=software"],
        argv: &[],
        guest: Some("dense/phases.c"),
        shows: &[Dense, Moved, Fork],
    },
    Case {
        name: "guarded",
        flags: &["--ticks=software"],
        argv: &[],
        guest: Some("dense/guarded.c"),
        shows: &[Dense, Guard, Count],
    },
    Case {
        name: "guarded_sparse",
        flags: &[],
        argv: &[],
        guest: Some("time/counter_in_table.c"),
        shows: &[Guard],
    },
    Case { name: "counter", flags: &[], argv: &[], guest: Some("time/counter_first.c"), shows: &[Patch] },
    Case {
        name: "forbidden",
        flags: &["--ticks=software"],
        argv: &[],
        guest: Some("time/counter_forbidden.c"),
        shows: &[Patch, Dense, Own],
    },
    Case {
        name: "faults",
        flags: &[],
        argv: &[],
        guest: Some("time/chance_loops.c"),
        shows: &[Sight::Fault],
    },
    Case {
        name: "opened",
        flags: &[],
        argv: &["python3", "-c", OPENED],
        guest: None,
        shows: &[Patch, Own, HookedCall],
    },
    Case {
        name: "opened_dense",
        flags: &["--ticks=software"],
        argv: &["python3", "-c", OPENED],
        guest: None,
        shows: &[Patch, Own, Dense, HookedCall],
    },
];
