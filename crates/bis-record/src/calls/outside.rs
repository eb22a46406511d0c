//! Memory that somebody outside of the recording can change: a file that another process has mapped shared
//! too, or open for writing, a segment that another one has attached. (A file that the program has mapped
//! privately is among them: what is written to it is in the pages that the program has not written to.) What
//! that process stores there is in no event, and replay diverges where the program depends on it. So the
//! trace says at the mapping who that was, `bis info` lists it, and a divergence names it.
//!
//! Which process has what is looked up in /proc, which shows it for the processes of the same user (to root,
//! for all). One that comes later is not seen.

use std::{
    collections::{HashMap, HashSet},
    fs, mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use bis_trace::types::{EventSeq, Tid};
use bis_tracee::{maps, ours, proc};

use crate::{
    error::Result,
    session::Session,
    space::{Key, key_of_mapping},
};

/// How long all such looks of a recording take together: a program may map thousands of files.
const LOOKS_MAX: Duration = Duration::from_millis(300);

/// How nice the thread that looks is.
const NICE: i32 = 10;

/// How many times as long as all looks have taken the thread rests behind each, and lets others come
/// together. So what looks take grows with the square root of the time only.
const RESTS: u32 = 10;

/// Something that was mapped.
#[derive(Debug)]
pub struct Look {
    /// What it is.
    pub key: Key,
    /// Where the trace is to say so.
    pub seq: EventSeq,
    /// What it says, but for who that is.
    pub text: String,
    /// It is mapped privately, perhaps many times: it is looked for once.
    pub is_private: bool,
}

/// What is to be looked for, by a thread of its own: nobody waits for the answer.
#[derive(Debug, Default)]
pub struct Looks(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    looks: Vec<Look>,
    /// A thread is at work.
    is_looking: bool,
    spent: Duration,
    /// Files that are mapped privately, and were asked for.
    private: HashSet<Key>,
}

impl Looks {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds one. True: a thread has to be started.
    fn add(&self, look: Look) -> bool {
        let mut waiting = self.lock();
        if waiting.spent > LOOKS_MAX {
            return false;
        }
        // The program may have thousands of these open itself, and leaves time for the others.
        if look.is_private && (waiting.spent > LOOKS_MAX / 2 || !waiting.private.insert(look.key)) {
            return false;
        }
        waiting.looks.push(look);
        !mem::replace(&mut waiting.is_looking, true)
    }

    /// A look through all processes has taken so long. How long the next one is to wait.
    fn rest(&self, spent: Duration) -> Duration {
        let mut waiting = self.lock();
        waiting.spent += spent;
        RESTS * waiting.spent
    }

    /// All that wait: a program maps many files at once, and each look goes through all processes. Nothing:
    /// the thread ends.
    fn next(&self) -> Vec<Look> {
        let mut waiting = self.lock();
        if waiting.spent > LOOKS_MAX {
            waiting.looks.clear();
        }
        let next = mem::take(&mut waiting.looks);
        waiting.is_looking = !next.is_empty();
        next
    }
}

impl Session {
    /// Has it looked who outside of the recording could change what was mapped; the trace says it then.
    pub fn look_outside(self: &Arc<Session>, look: Look) {
        if self.looks.add(look) {
            self.spawn("outside".into(), look_all);
        }
    }
}

fn look_all(session: &Arc<Session>) -> Result<()> {
    // Not on the core of the domain whose supervisor has asked.
    session.cores.unpin(Tid(0));
    // Nor before anybody who is recorded. (How nice it is, each thread has for itself: sched(7).)
    let _ = rustix::process::nice(NICE);
    loop {
        let looks = session.looks.next();
        if looks.is_empty() {
            return Ok(());
        }
        let began = Instant::now();
        let keys = looks.iter().map(|look| look.key).collect();
        let users = users_of(keys, |pid| session.is_recorded(pid));
        for Look { key, seq, text, .. } in looks {
            if let Some((pid, found)) = users.get(&key) {
                session
                    .note(seq, format!("{text}: {} (process {pid}) {}", proc::name(*pid), found.text()))?;
            }
        }
        session.wait_for_nobody_else(session.looks.rest(began.elapsed()));
    }
}

/// For each of these files, which are new to the recording: a process outside of it that could change the
/// file, and what it has of that. Those are left out that nobody has.
fn users_of(mut keys: HashSet<Key>, is_recorded: impl Fn(Tid) -> bool) -> HashMap<Key, (Tid, Use)> {
    let bis = fs::read_link("/proc/self/exe").ok();
    let mut users = HashMap::new();
    for pid in proc::processes() {
        if keys.is_empty() {
            break;
        }
        // One that executes nothing is the kernel's own; or it is not ours to look at, in any way.
        let Some(executable) = proc::executable(pid) else { continue };
        if is_recorded(pid) || bis.as_ref() == Some(&executable) {
            continue;
        }
        let uses = Use::of_process(pid, &keys);
        // One that has just been born is recorded, too.
        if uses.is_empty() || is_ours(pid) {
            continue;
        }
        for (key, found) in uses {
            keys.remove(&key);
            users.insert(key, (pid, found));
        }
    }
    users
}

/// Does this bis trace the process?
fn is_ours(pid: Tid) -> bool {
    let tracer = proc::Fields::of(pid).and_then(|status| status.tid("TracerPid"));
    let process = |thread: Tid| proc::Fields::of(thread).and_then(|status| status.tid("Tgid"));
    tracer.and_then(process) == Some(ours::process_id())
}

/// Does a process outside of the recording map this file shared?
pub fn is_mapped_outside(key: Key, is_ours: impl Fn(Tid) -> bool) -> bool {
    let maps = |pid: &Tid| {
        let mappings = maps::read(*pid).unwrap_or_default();
        mappings.iter().any(|m| m.shared && key_of_mapping(m) == key)
    };
    proc::processes().into_iter().filter(|pid| !is_ours(*pid)).any(|pid| maps(&pid))
}

/// What another process has of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Use {
    Mapped,
    OpenForWriting,
}

impl Use {
    /// What a process has of these files.
    fn of_process(pid: Tid, keys: &HashSet<Key>) -> HashMap<Key, Use> {
        let open = proc::fds(pid).unwrap_or_default().into_iter();
        let open = open.filter(|fd| proc::is_open_for_writing(pid, *fd));
        let open = open.filter_map(|fd| proc::identity(proc::fd(pid, fd)));
        let mappings = maps::read(pid).unwrap_or_default();
        let mapped = mappings.iter().filter(|mapping| mapping.shared).map(key_of_mapping);
        let uses = open.map(|key| (key, Use::OpenForWriting)).chain(mapped.map(|key| (key, Use::Mapped)));
        uses.filter(|(key, _)| keys.contains(key)).collect()
    }

    fn text(self) -> &'static str {
        match self {
            Use::Mapped => "has it mapped, too",
            Use::OpenForWriting => "has it open for writing",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_looks_until_nothing_is_left_or_it_took_long() {
        let look = || Look { key: (1, 2), seq: EventSeq(3), text: String::new(), is_private: false };
        let looks = Looks::default();
        assert!(looks.add(look()), "nobody looks yet");
        assert!(!looks.add(look()));
        assert_eq!(looks.next().len(), 2, "at once");
        assert!(looks.next().is_empty());
        assert!(looks.add(look()) && !looks.add(look()), "the thread has ended");
        assert_eq!(looks.next().len(), 2);
        let (first, second) = (looks.rest(LOOKS_MAX / 4), looks.rest(LOOKS_MAX / 4));
        assert!(first > LOOKS_MAX && second == 2 * first, "the longer, the more has been looked");
        looks.rest(LOOKS_MAX);
        assert!(looks.next().is_empty() && !looks.add(look()), "no time is left");
    }

    #[test]
    fn a_file_that_is_mapped_privately_is_looked_for_once_and_leaves_time() {
        let look = |key, is_private| Look { key, seq: EventSeq(3), text: String::new(), is_private };
        let looks = Looks::default();
        assert!(looks.add(look((1, 2), true)) && !looks.add(look((1, 2), true)));
        assert!(looks.next().len() == 1 && looks.next().is_empty());
        assert!(looks.add(look((1, 3), true)), "another one");
        looks.rest(LOOKS_MAX * 2 / 3);
        assert!(looks.next().len() == 1 && looks.next().is_empty());
        assert!(!looks.add(look((1, 4), true)) && looks.add(look((1, 4), false)));
    }
}
