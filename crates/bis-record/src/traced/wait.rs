//! A `wait4` or `waitid`: of whom it wants to hear, and what it is told. A value, which knows of processes
//! only what it is given.

use bis_syscalls::Call;
use bis_trace::types::{Addr, Tid};

use super::books::{State, Tracee};

const WNOHANG: u32 = libc::WNOHANG as u32;
const WNOWAIT: u32 = libc::WNOWAIT as u32;
const WEXITED: u32 = libc::WEXITED as u32;

/// Of whom a wait wants to hear.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Whom {
    Anybody,
    Task(Tid),
    Group(i32),
}

/// A `wait4` or `waitid`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wait {
    whom: Whom,
    flags: u32,
    /// Where the status, or the `siginfo_t`, is to be written.
    pub at: Addr,
    pub usage: Addr,
    pub is_waitid: bool,
}

impl Wait {
    /// None: this call is no wait, or one for nobody whom a tracer could have. `own_group` is that of the
    /// caller, and `outside` says whom it means by a number.
    pub fn of(
        call: &Call,
        own_group: impl FnOnce() -> i32,
        outside: impl FnOnce(Tid) -> Tid,
    ) -> Option<Wait> {
        match call.nr.cast_signed() {
            libc::SYS_wait4 => {
                let whom = match call.i32(0) {
                    -1 => Whom::Anybody,
                    0 => Whom::Group(own_group()),
                    number if number > 0 => Whom::Task(outside(Tid(number))),
                    number => Whom::Group(number.saturating_neg()),
                };
                let [_, at, _, usage, ..] = call.args;
                Some(Wait { whom, flags: call.u32(2), at: Addr(at), usage: Addr(usage), is_waitid: false })
            }
            libc::SYS_waitid => {
                let whom = match call.u32(0) {
                    libc::P_ALL => Whom::Anybody,
                    libc::P_PID => Whom::Task(outside(Tid(call.i32(1)))),
                    libc::P_PGID if call.i32(1) == 0 => Whom::Group(own_group()),
                    libc::P_PGID => Whom::Group(call.i32(1)),
                    _ => return None,
                };
                let (at, usage) = (Addr(call.args[2]), Addr(call.args[4]));
                Some(Wait { whom, flags: call.u32(3), at, usage, is_waitid: true })
            }
            _ => None,
        }
    }

    /// What it is told, it may be told again.
    pub fn keeps(&self) -> bool {
        self.flags & WNOWAIT != 0
    }

    /// Does it come back at once where there is nothing to tell?
    pub fn is_prompt(&self) -> bool {
        self.flags & WNOHANG != 0
    }

    /// Does this wait want to hear of this tracee? `group` is the process group of a process.
    pub fn is_meant(&self, tid: Tid, it: &Tracee, group: impl FnOnce(Tid) -> Option<i32>) -> bool {
        let is_end = matches!(it.state, State::Ended(_));
        if is_end && self.is_waitid && self.flags & WEXITED == 0 {
            return false;
        }
        match self.whom {
            Whom::Anybody => true,
            Whom::Task(wanted) => wanted == tid,
            Whom::Group(wanted) => group(it.pid) == Some(wanted),
        }
    }

    /// What it writes at `at` to tell of this status of a task, which the caller calls so.
    pub fn told(&self, name: Tid, status: i32) -> Vec<u8> {
        if self.is_waitid { info(name, status) } else { status.to_le_bytes().to_vec() }
    }

    /// Its result then.
    pub fn result(&self, name: Tid) -> i64 {
        if self.is_waitid { 0 } else { name.0.into() }
    }
}

/// The fields of a `siginfo_t` that `waitid` writes.
fn info(tid: Tid, status: i32) -> Vec<u8> {
    let (code, number) = if status & 0x7f == 0x7f {
        (libc::CLD_TRAPPED, status >> 8)
    } else if status & 0x7f == 0 {
        (libc::CLD_EXITED, status >> 8)
    } else {
        (libc::CLD_KILLED, status & 0x7f)
    };
    // signo, errno, code, padding, pid, uid, status.
    [libc::SIGCHLD, 0, code, 0, tid.0, 0, number].into_iter().flat_map(i32::to_le_bytes).collect()
}

#[cfg(test)]
mod tests {
    use bis_trace::types::DomainId;

    use super::*;

    const OWN_GROUP: i32 = 70;

    fn wait(nr: i64, args: [i64; 6]) -> Option<Wait> {
        let call = Call { nr: nr.cast_unsigned(), args: args.map(i64::cast_unsigned) };
        // The caller calls each task by the next lower number.
        Wait::of(&call, || OWN_GROUP, |Tid(number)| Tid(number + 1))
    }

    fn wait4(whom: i64, flags: i32) -> Wait {
        wait(libc::SYS_wait4, [whom, 0x1000, flags.into(), 0x2000, 0, 0]).expect("it is a wait")
    }

    fn waitid(kind: libc::idtype_t, whom: i64, flags: i32) -> Option<Wait> {
        wait(libc::SYS_waitid, [kind.into(), whom, 0x1000, flags.into(), 0x2000, 0])
    }

    /// Which of the tasks 5, of a process in group 50, and 7, of one in group 70, it is about.
    fn meant(wait: &Wait, state: &State) -> Vec<i32> {
        let is_meant = |number: &i32| {
            let it = Tracee { state: state.clone(), ..Tracee::new(Tid(1), Tid(number + 100), DomainId(1)) };
            wait.is_meant(Tid(*number), &it, |Tid(pid)| Some((pid - 100) * 10))
        };
        [5, 7].into_iter().filter(is_meant).collect()
    }

    #[test]
    fn wait4_means_whom_its_number_says() {
        assert_eq!(meant(&wait4(-1, 0), &State::Runs), [5, 7]);
        assert_eq!(meant(&wait4(4, 0), &State::Runs), [5], "a number is the caller's own");
        assert_eq!(meant(&wait4(0, 0), &State::Runs), [7]);
        assert_eq!(meant(&wait4(-50, 0), &State::Runs), [5]);
        assert_eq!(meant(&wait4(i32::MIN.into(), 0), &State::Runs), []);
    }

    #[test]
    fn waitid_means_whom_its_kind_and_number_say() {
        let of = |kind, whom| meant(&waitid(kind, whom, libc::WEXITED).expect("it is a wait"), &State::Runs);
        assert_eq!(of(libc::P_ALL, 4), [5, 7]);
        assert_eq!(of(libc::P_PID, 6), [7]);
        assert_eq!(of(libc::P_PGID, 50), [5]);
        assert_eq!(of(libc::P_PGID, 0), [7]);
        assert_eq!(waitid(libc::P_PIDFD, 4, libc::WEXITED), None);
        assert_eq!(wait(libc::SYS_pause, [0; 6]), None);
    }

    #[test]
    fn a_waitid_hears_of_ends_only_where_it_wants_to_and_a_wait4_always() {
        let ended = State::Ended(9);
        assert_eq!(meant(&waitid(libc::P_ALL, 0, libc::WSTOPPED).unwrap(), &ended), []);
        assert_eq!(meant(&waitid(libc::P_ALL, 0, libc::WEXITED).unwrap(), &ended), [5, 7]);
        assert_eq!(meant(&wait4(-1, 0), &ended), [5, 7]);
    }

    #[test]
    fn flags_and_places_are_those_of_each_call() {
        let flags = libc::WNOHANG | libc::WNOWAIT;
        for wait in [wait4(-1, flags), waitid(libc::P_ALL, 0, flags).unwrap()] {
            assert!(wait.is_prompt() && wait.keeps());
            assert_eq!((wait.at, wait.usage), (Addr(0x1000), Addr(0x2000)));
        }
        assert!(!wait4(-1, libc::WNOHANG).keeps() && !wait4(-1, libc::WNOWAIT).is_prompt());
    }

    #[test]
    fn a_wait4_comes_back_with_the_task_and_a_waitid_with_nothing() {
        let (wait4, waitid) = (wait4(-1, 0), waitid(libc::P_ALL, 0, 0).unwrap());
        assert_eq!((wait4.result(Tid(7)), waitid.result(Tid(7))), (7, 0));
        assert_eq!(wait4.told(Tid(7), 0x057f), [0x7f, 5, 0, 0]);
        assert_eq!(waitid.told(Tid(7), 0x057f), info(Tid(7), 0x057f));
    }

    #[test]
    fn what_waitid_says_of_a_status() {
        let fields = |status| {
            let bytes = info(Tid(7), status);
            let int = |at: usize| i32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
            (int(0), int(8), int(16), int(24))
        };
        assert_eq!(fields(0x057f), (17, libc::CLD_TRAPPED, 7, 5));
        assert_eq!(fields(0x0300), (17, libc::CLD_EXITED, 7, 3));
        assert_eq!(fields(9), (17, libc::CLD_KILLED, 7, 9));
    }
}
