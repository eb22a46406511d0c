//! The limit of a process's address space (RLIMIT_AS), and what is bis's own within it.
//!
//! The kernel counts all that a process has mapped, so what bis maps there would be taken from the program:
//! it would get ENOMEM where it has memory without bis, and one that is above its limit may map nothing at
//! all, not even in place of something else. So the kernel's limit is the program's own and, beside that, as
//! much as bis has mapped: the soft limit grows with each mapping of ours ([`beside`]). A process cannot
//! raise its hard limit again without privileges, and nor can we for it; so where the program sets one, the
//! kernel's is higher from the start ([`Limit::with_headroom`]), by more than can ever be mapped.

use std::ptr;

use bis_agent::ARGUMENT_AT;
use bis_trace::types::{Addr, Tid};

use crate::{error::Result, lent::Lent, memory::Memory, proc, remote::Remote};

/// A limit of the address space, bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limit {
    pub soft: u64,
    pub hard: u64,
}

/// More than a process can map.
const HEADROOM: u64 = 1 << 47;

impl Limit {
    /// Bytes of a `struct rlimit`.
    pub const LEN: usize = 16;

    pub const NONE: Limit = Limit { soft: libc::RLIM_INFINITY, hard: libc::RLIM_INFINITY };

    /// Of a process, as the kernel has it; none where it is gone.
    pub fn of(tid: Tid) -> Option<Limit> {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the kernel fills `limit`, which lives, and reads nothing.
        let got = unsafe { libc::prlimit(tid.0, libc::RLIMIT_AS, ptr::null(), &raw mut limit) };
        if got == 0 {
            return Some(Limit { soft: limit.rlim_cur, hard: limit.rlim_max });
        }
        // It has another user, and we have no CAP_SYS_RESOURCE, as root in many a container.
        Limit::from_text(&proc::read_text(proc::path(tid, "limits")).ok()?)
    }

    /// From the text of /proc/PID/limits.
    fn from_text(text: &str) -> Option<Limit> {
        let words = text.lines().find_map(|line| line.strip_prefix("Max address space"))?;
        let mut limits = words.split_whitespace().map(|word| match word {
            "unlimited" => Some(libc::RLIM_INFINITY),
            bytes => bytes.parse().ok(),
        });
        Some(Limit { soft: limits.next()??, hard: limits.next()?? })
    }

    /// Makes it that of a process, from here. False: the kernel does not let us.
    pub fn set(self, tid: Tid) -> bool {
        let limit = libc::rlimit { rlim_cur: self.soft, rlim_max: self.hard };
        // SAFETY: the kernel reads `limit`, which lives, and writes nothing.
        unsafe { libc::prlimit(tid.0, libc::RLIMIT_AS, &raw const limit, ptr::null_mut()) == 0 }
    }

    pub fn is_there(self) -> bool {
        self.soft != libc::RLIM_INFINITY
    }

    /// From the bytes of a `struct rlimit`; none where there are fewer.
    pub fn from_bytes(bytes: &[u8]) -> Option<Limit> {
        let (soft, rest) = bytes.split_first_chunk()?;
        let hard = rest.first_chunk()?;
        Some(Limit { soft: u64::from_le_bytes(*soft), hard: u64::from_le_bytes(*hard) })
    }

    pub fn to_bytes(self) -> Vec<u8> {
        [self.soft.to_le_bytes(), self.hard.to_le_bytes()].concat()
    }

    /// The hard limit that leaves room for all that is ours.
    pub fn with_headroom(self) -> Limit {
        Limit { hard: self.hard.saturating_add(HEADROOM), ..self }
    }

    /// With room for so much more, as far as this hard limit allows it.
    pub fn and(self, own: u64, hard: u64) -> Limit {
        let soft = if self.is_there() { self.soft.saturating_add(own) } else { self.soft };
        Limit { soft: soft.min(hard), hard }
    }
}

/// Makes a limit that of the process in whose name calls are made: from here, or, where the process has
/// another user and we have no `CAP_SYS_RESOURCE`, by itself. False: the kernel lets neither of us.
///
/// # Errors
/// [`TraceeError::Died`](crate::TraceeError::Died) where the task ended meanwhile.
pub fn set_by(remote: &mut Remote<'_>, limit: Limit) -> Result<bool> {
    if limit.set(remote.tid()) {
        return Ok(true);
    }
    Memory::open(remote.tid())?.write(Addr(ARGUMENT_AT), &limit.to_bytes())?;
    Ok(remote.call(libc::SYS_prlimit64, arguments(ARGUMENT_AT))? == 0)
}

/// Those of prlimit64 that make what is at this address the caller's limit.
fn arguments(at: u64) -> [u64; 6] {
    [0, libc::RLIMIT_AS.into(), at, 0, 0, 0]
}

/// Does something that maps memory of ours in a process, or gives it back: it is not bound by the process's
/// limit, where that can be lifted (the hard limit allows it, or we have `CAP_SYS_RESOURCE`), and the soft
/// limit grows by as much as was mapped.
///
/// # Errors
/// Those of what is done.
pub fn beside<'a, T>(remote: &mut Remote<'a>, work: impl FnOnce(&mut Remote<'a>) -> Result<T>) -> Result<T> {
    lifted(remote, |remote, limit| set_by(remote, limit), work)
}

/// As [`beside`], for a process that has no agent yet: its calls are made at this `syscall; int3`.
///
/// # Errors
/// Those of what is done.
pub(crate) fn beside_at<'a, T>(
    remote: &mut Remote<'a>,
    memory: &Memory,
    at: Addr,
    work: impl FnOnce(&mut Remote<'a>) -> Result<T>,
) -> Result<T> {
    /// Below what a fresh image has on its stack; the kernel maps more of that than is used (fs/exec.c:
    /// setup_arg_pages).
    const BELOW: u64 = 1024;
    let set = |remote: &mut Remote<'a>, limit: Limit| {
        if limit.set(remote.tid()) {
            return Ok(true);
        }
        let place = remote.saved().sp() - BELOW;
        let lent = Lent::with(memory, place, &limit.to_bytes())?;
        let result = remote.call_at(at, at + 2, libc::SYS_prlimit64, arguments(place.0))?;
        lent.give_back()?;
        Ok(result == 0)
    };
    lifted(remote, set, work)
}

fn lifted<'a, T>(
    remote: &mut Remote<'a>,
    set: impl Fn(&mut Remote<'a>, Limit) -> Result<bool>,
    work: impl FnOnce(&mut Remote<'a>) -> Result<T>,
) -> Result<T> {
    let tid = remote.tid();
    let limit = Limit::of(tid).filter(|limit| limit.is_there());
    let Some((old, before)) = limit.and_then(|limit| Some((limit, proc::mapped(tid)?))) else {
        return work(remote);
    };
    let is_lifted = Limit::NONE.set(tid) || set(remote, Limit { soft: old.hard, ..old })?;
    let result = work(remote);
    if is_lifted {
        // Also where the work has failed: the process may live on.
        let now = proc::mapped(tid).unwrap_or(before);
        let soft = old.soft.saturating_add(now).saturating_sub(before).min(old.hard);
        match set(remote, Limit { soft, ..old }) {
            Ok(true) => {}
            // What the work says of its failure comes first.
            Err(error) if result.is_ok() => return Err(error),
            _ => tracing::debug!(%tid, "its limit of the address space could not be put back"),
        }
    }
    result
}

/// How many bytes of ours a process can still have, within its hard limit. None: it has no limit, or is gone.
pub fn room(tid: Tid) -> Option<u64> {
    let limit = Limit::of(tid).filter(|limit| limit.is_there())?;
    Some(limit.hard.saturating_sub(proc::mapped(tid)?))
}

/// Can memory of ours be mapped in place of something else, in a process or in its copy? Not where it has
/// more than its hard limit, and we may not lift that.
pub fn can_be_lifted(tid: Tid) -> bool {
    let Some(limit) = Limit::of(tid).filter(|limit| limit.is_there()) else { return true };
    if proc::mapped(tid).is_none_or(|mapped| mapped <= limit.hard) {
        return true;
    }
    let is_lifted = Limit::NONE.set(tid);
    if is_lifted {
        limit.set(tid);
    }
    is_lifted
}

#[cfg(test)]
mod tests {
    use bis_trace::types::Signal;

    use super::*;
    use crate::{TraceeError, image, sys, task};

    const LIMIT: Limit = Limit { soft: 5 << 20, hard: 6 << 20 };

    #[test]
    fn a_limit_is_two_words() {
        let bytes = LIMIT.to_bytes();
        assert_eq!(bytes[..8], (5u64 << 20).to_le_bytes());
        assert_eq!(Limit::from_bytes(&bytes), Some(LIMIT));
        assert_eq!(Limit::from_bytes(&bytes[1..]), None);
    }

    #[test]
    fn a_limit_is_found_in_the_text_of_all() {
        let of = |words: &str| {
            Limit::from_text(&format!("Max file size 1 2 bytes\nMax address space  {words} bytes\n"))
        };
        assert_eq!(of("5242880   6291456"), Some(LIMIT));
        assert_eq!(of("unlimited unlimited"), Some(Limit::NONE));
        assert_eq!((of("x 1"), Limit::from_text("")), (None, None));
    }

    #[test]
    fn the_kernels_text_says_what_it_says_when_asked() {
        let text = proc::read_text("/proc/self/limits").unwrap();
        assert_eq!(Limit::from_text(&text), Limit::of(crate::ours::process_id()));
    }

    #[test]
    fn a_limit_is_put_back_also_where_the_work_fails() {
        let (mut slot, _memory) = image::spawn_stub("bis-limit").unwrap();
        let tid = slot.as_ref().unwrap().tid();
        let limit = Limit { soft: 1 << 40, hard: 1 << 41 };
        assert!(limit.set(tid));
        let mut remote = Remote::new(&mut slot).unwrap();
        let failed = beside(&mut remote, |remote| {
            assert_ne!(Limit::of(remote.tid()), Some(limit), "it is lifted");
            Err::<(), _>(TraceeError::Died(remote.tid()))
        });
        assert!(failed.is_err());
        remote.finish().unwrap();
        assert_eq!(Limit::of(tid).unwrap().soft, limit.soft);
        sys::kill(tid, Signal::KILL).unwrap();
        let _ = task::wait_for(tid);
    }

    #[test]
    fn what_is_ours_is_beside_the_programs_limit() {
        let hard = LIMIT.with_headroom().hard;
        assert_eq!(LIMIT.and(1 << 30, hard), Limit { soft: (5 << 20) + (1 << 30), hard });
        // Within a hard limit that cannot be raised there is no more.
        assert_eq!(LIMIT.and(1 << 30, LIMIT.hard), Limit { soft: LIMIT.hard, hard: LIMIT.hard });
        assert_eq!(Limit::NONE.with_headroom(), Limit::NONE);
        assert_eq!(Limit::NONE.and(1 << 30, Limit::NONE.hard), Limit::NONE);
    }
}
