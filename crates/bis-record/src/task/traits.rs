//! What a task has from the task that has made it, and what of that it keeps over an exec. A value.

use crate::{calls::Held, signals::segv::SegvAction};

/// What the program has asked for where bis has set something else: it is told that it has it. Inherited by
/// children, and kept over exec but for `no_cpuid`.
#[derive(Clone, Debug, Default)]
pub struct Wishes {
    /// Reading the time stamp counter is to be a fault.
    pub no_tsc: bool,
    /// The cpuid instruction is to be a fault.
    pub no_cpuid: bool,
    /// Whether it wants no address space randomisation; none: as bis itself was started.
    pub no_randomize: Option<bool>,
    /// Memory that can be read can be executed (READ_IMPLIES_EXEC). Gone with an exec.
    pub reads_execute: bool,
    /// No new privileges by exec. (The kernel may have been told the same for our filter's sake.)
    pub no_new_privs: bool,
    /// Its own seccomp filters.
    pub held: Held,
    /// It was found with restartable sequences, and registers those of new threads: it has them, as far as it
    /// knows. (A C library that has them in its first thread ends the program where it gets none in another.)
    /// Gone with an exec.
    pub has_rseq: bool,
}

/// What a task has from the task that has made it, a thread as well as the child of a fork.
#[derive(Clone, Debug, Default)]
pub struct Traits {
    /// As the program set it: lower runs first.
    pub nice: i32,
    pub wishes: Wishes,
    /// `rdtsc` does not fault in it.
    pub reads_tsc: bool,
    /// What its process does at SIGSEGV; none: by default, or that is not known.
    pub segv: Option<SegvAction>,
}

impl Traits {
    /// What the task keeps in the image that it executes.
    pub fn after_exec(self) -> Traits {
        // A fresh image asks nothing of cpuid or of memory; whether it may read the counter is seen when it
        // is looked at.
        let wishes = Wishes { no_cpuid: false, reads_execute: false, has_rseq: false, ..self.wishes };
        let segv = self.segv.and_then(SegvAction::without_handler);
        Traits { nice: self.nice, wishes, reads_tsc: false, segv }
    }

    /// What a task has that this one makes by a clone with these flags.
    pub fn of_child(&self, flags: u64) -> Traits {
        let clears = flags & linux_raw_sys::general::CLONE_CLEAR_SIGHAND != 0;
        let segv = if clears { self.segv.and_then(SegvAction::without_handler) } else { self.segv };
        Traits { segv, ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exec_keeps_what_the_process_asked_for_and_not_what_its_image_did() {
        let wishes = Wishes {
            no_tsc: true,
            no_cpuid: true,
            no_randomize: Some(true),
            reads_execute: true,
            no_new_privs: true,
            held: Held::default(),
            has_rseq: true,
        };
        let kept = Traits { nice: 5, wishes, reads_tsc: true, segv: None }.after_exec();
        assert_eq!((kept.nice, kept.reads_tsc), (5, false));
        let wishes = kept.wishes;
        assert!(wishes.no_tsc && wishes.no_new_privs && !wishes.no_cpuid && !wishes.reads_execute);
        assert!(!wishes.has_rseq);
        assert_eq!(wishes.no_randomize, Some(true));
    }
}
