//! The calls that a seccomp filter from outside refuses: a container's, under which bis runs.
//!
//! Of all filters of a task the kernel takes the strictest answer (seccomp(2)), and an error is stricter than
//! a stop. So what a container refuses never comes to us: the program gets an error for a call that is
//! nowhere in the trace, and a replay on another machine, where nobody refuses it, would find a call that was
//! not recorded. So the trace says which calls those are, and the filter of replay refuses them, too. And
//! what a container refuses where a trace is replayed, and nobody has where it was recorded, must come to us
//! all the same ([`crate::filter`]).
//!
//! No filter can be read without privileges. They are asked instead, in a process of our own whose filter
//! stops each call: a call that stops there would have been let through, and is skipped; what does not stop
//! was refused. Nothing is ever executed. Filters look at arguments too, so those that are known for that are
//! asked with the ones that containers refuse.

use std::sync::OnceLock;

use bis_agent::{UNTRACED_SYSCALL, UNTRACED_SYSCALL_END};
use bis_trace::{
    event::{Refusal, When},
    types::{Registers, Signal, Tid},
};

use crate::{
    error::{Result, TraceeError},
    image, ours,
    proc::Fields,
    spawn::SpawnError,
    task::{self, Resume, Status, Stopped},
};

/// Behind the last call of Linux 7.2.
const CALLS: u32 = 480;

/// The kernel lets these through every filter, and they would end the process (uretprobe, uprobe).
const UNFILTERED: std::ops::RangeInclusive<u32> = 335..=336;

/// Arguments that a call must be refused with for it to be refused always: small numbers (families of sockets
/// that everybody has are among them), and all bits.
const OTHERS: [u64; 6] = [1, 2, 3, 10, 16, u64::MAX];

/// First arguments that are tried where a call is refused with some and not with others.
const SMALL: std::ops::Range<u32> = 0..64;

/// So often the process that asks may be killed for it.
const DEATHS_MAX: u32 = 16;

/// New namespaces of clone and unshare, which need privileges that containers do not have.
const NAMESPACES: [i32; 7] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];

/// Personalities that debuggers and emulators set.
const PERSONALITIES: [i32; 3] =
    [libc::ADDR_NO_RANDOMIZE, libc::READ_IMPLIES_EXEC, libc::ADDR_NO_RANDOMIZE | libc::READ_IMPLIES_EXEC];

/// What writes into a terminal as if somebody had typed it.
const TYPING: [u64; 2] = [libc::TIOCSTI, linux_raw_sys::ioctl::TIOCLINUX as u64];

/// Families of sockets (AF_UNSPEC to AF_MCTP).
const FAMILIES: std::ops::RangeInclusive<u32> = 0..=45;

/// Is there a filter that bis runs under itself?
pub fn is_there() -> bool {
    Fields::of(ours::process_id()).is_some_and(|status| is_filtered(&status))
}

fn is_filtered(status: &Fields) -> bool {
    status.text("Seccomp").is_some_and(|mode| mode != "0")
}

/// Is a process, with this status, under a filter that bis is not under? As many filters as bis has are the
/// same ones, the container's. How many there are the kernel says from 5.9 on.
pub fn has_more(status: &Fields) -> bool {
    let count = |status: &Fields| status.text("Seccomp_filters").map(str::to_owned);
    let ours = Fields::of(ours::process_id()).and_then(|ours| count(&ours));
    is_filtered(status) && (status.text("Seccomp") != Some("2") || ours.is_none() || count(status) != ours)
}

/// The calls that it refuses, asked for once; none where they could not be asked.
pub fn known() -> &'static [Refusal] {
    static KNOWN: OnceLock<Vec<Refusal>> = OnceLock::new();
    KNOWN.get_or_init(|| refusals().unwrap_or_default())
}

/// The calls that it refuses; none where there is no filter.
///
/// # Errors
/// Where no process can be made to ask it.
pub fn refusals() -> Result<Vec<Refusal>, SpawnError> {
    if !is_there() {
        return Ok(Vec::new());
    }
    let mut asker = Asker::new()?;
    let mut refused = Vec::new();
    for nr in (0..CALLS).filter(|nr| !UNFILTERED.contains(nr)) {
        let first = |word: u64| [word, 0, 0, 0, 0, 0];
        let Some(errno) = asker.ask(nr, first(0))? else { continue };
        // The filter may go by the arguments, and let others through.
        let mut is_always = true;
        for word in OTHERS {
            is_always &= asker.ask(nr, [word; 6])? == Some(errno);
        }
        if is_always {
            refused.push(Refusal { nr, when: When::Always, errno });
            continue;
        }
        for word in SMALL {
            if let Some(errno) = asker.ask(nr, first(word.into()))? {
                refused.push(Refusal { nr, when: When::Equal { arg: 0, word }, errno });
            }
        }
    }
    for (nr, when, args) in by_arguments() {
        let is_known = |refusal: &Refusal| refusal.nr == nr && [When::Always, when].contains(&refusal.when);
        if !refused.iter().any(is_known)
            && let Some(errno) = asker.ask(nr, args)?
        {
            refused.push(Refusal { nr, when, errno });
        }
    }
    Ok(refused)
}

/// A process in whose name calls are asked for.
struct Asker {
    slot: Option<Stopped>,
    tid: Tid,
    /// How often a filter has killed it, which is an answer, too.
    deaths: u32,
}

impl Asker {
    fn new() -> Result<Asker, SpawnError> {
        let (slot, _memory) = image::spawn_stub("bis-ask")?;
        let tid = slot.as_ref().map_or(Tid(0), Stopped::tid);
        Ok(Asker { slot, tid, deaths: 0 })
    }

    /// Which error the filter answers such a call with; none: it lets it through, or does something else
    /// about it.
    fn ask(&mut self, nr: u32, args: [u64; 6]) -> Result<Option<u16>, SpawnError> {
        // A filter that kills for much kills the program, too: there is little to be said of it.
        if self.deaths > DEATHS_MAX {
            return Ok(None);
        }
        match ask(&mut self.slot, nr, args) {
            Err(TraceeError::Died(_)) => {
                let deaths = self.deaths + 1;
                *self = Asker::new()?;
                self.deaths = deaths;
                Ok(None)
            }
            answer => Ok(answer?),
        }
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        task::end(self.tid);
    }
}

/// Calls with arguments that containers are known to refuse.
fn by_arguments() -> Vec<(u32, When, [u64; 6])> {
    let number = |nr: i64| u32::try_from(nr).unwrap_or(u32::MAX);
    let first = |word: u32| [u64::from(word), 0, 0, 0, 0, 0];
    let equal = |nr: i64, word: u32| (number(nr), When::Equal { arg: 0, word }, first(word));
    let bits = |nr: i64, flag: i32| {
        let bits = flag.cast_unsigned();
        (number(nr), When::HasBits { arg: 0, bits }, first(bits))
    };
    let executable = |nr: i64| {
        let bits = libc::PROT_EXEC.cast_unsigned();
        (number(nr), When::HasBits { arg: 2, bits }, [0, 0, bits.into(), 0, 0, 0])
    };
    let typing = TYPING.map(|request| {
        let word = u32::try_from(request).unwrap_or(0);
        (number(libc::SYS_ioctl), When::Equal { arg: 1, word }, [0, request, 0, 0, 0, 0])
    });
    let mut all: Vec<_> =
        PERSONALITIES.map(|persona| equal(libc::SYS_personality, persona.cast_unsigned())).to_vec();
    all.extend(FAMILIES.map(|family| equal(libc::SYS_socket, family)));
    for nr in [libc::SYS_clone, libc::SYS_unshare] {
        all.extend(NAMESPACES.map(|flag| bits(nr, flag)));
    }
    all.extend([libc::SYS_mprotect, libc::SYS_pkey_mprotect].map(executable));
    all.extend(typing);
    all
}

fn ask(slot: &mut Option<Stopped>, nr: u32, args: [u64; 6]) -> Result<Option<u16>> {
    let mut stopped = slot.take().ok_or(TraceeError::Died(Tid(0)))?;
    let [rdi, rsi, rdx, r10, r8, r9] = args;
    let regs = stopped.regs()?;
    // The call at whose entry the task stands is skipped.
    stopped.set_regs(&Registers {
        rip: UNTRACED_SYSCALL,
        rax: nr.into(),
        orig_rax: u64::MAX,
        rdi,
        rsi,
        rdx,
        r10,
        r8,
        r9,
        ..regs
    })?;
    let tid = stopped.tid();
    loop {
        let running = stopped.resume(Resume::Cont, None)?;
        let status = task::wait_for(tid)?;
        if matches!(status, Status::Exited(_) | Status::Killed(_) | Status::Exit(_)) {
            task::put_back(tid, status);
            return Err(TraceeError::Died(tid));
        }
        stopped = running.stopped();
        let answer = match status {
            Status::Seccomp => None,
            Status::Signal(Signal::TRAP) if stopped.regs()?.rip == UNTRACED_SYSCALL_END + 1 => {
                let result = stopped.regs()?.result();
                u16::try_from(-result).ok().filter(|errno| (1..=4095).contains(errno))
            }
            // SIGSYS, where the filter has a trap.
            Status::Signal(signal) if i32::from(signal.0) == libc::SIGSYS => None,
            _ => continue,
        };
        *slot = Some(stopped);
        return Ok(answer);
    }
}
