//! What tasks are called, and the system calls that they make in hooks: what is known of a replica beside its
//! memory and registers.

use bis_agent::hooks::{Entry, NR_RDRAND, entries};
use bis_trace::{
    event::{Effect, Event, EventKind},
    types::{Addr, Tid},
};

use crate::replica::{Replica, Stage};

/// Where the last brk of a log says that the data segment ends.
pub(crate) fn last_brk(log: &[u8]) -> Option<Addr> {
    let is_brk = |entry: &Entry<'_>| !entry.left && i64::from(entry.nr) == libc::SYS_brk;
    entries(log).filter(is_brk).last().map(|entry| Addr(entry.result.cast_unsigned()))
}

/// The longest name that the kernel keeps, with the null behind it.
const NAME_LEN: usize = 16;

impl Replica<'_> {
    /// What a task has called itself (PR_SET_NAME). None: it has its program's name.
    pub fn name(&self, tid: Tid) -> Option<&[u8]> {
        self.space.names.get(&tid).map(Vec::as_slice)
    }

    /// An event is about to come true: whoever it makes has its maker's name, and a task may give itself
    /// another.
    pub(crate) fn name_tasks(&mut self, event: &Event) {
        let effects = event.outcome().map_or(&[][..], |outcome| &outcome.effects);
        for effect in effects {
            if let Effect::NewTask { tid, .. } | Effect::Fork { tid, .. } = effect
                && let Some(name) = self.space.names.get(&event.tid)
            {
                let name = name.clone();
                self.space.names.insert(*tid, name);
            }
        }
        if let EventKind::Syscall { nr, entry, .. } | EventKind::SyscallEnter { nr, entry } = &event.kind
            && i64::try_from(*nr) == Ok(libc::SYS_prctl)
            && i32::try_from(entry.rdi) == Ok(libc::PR_SET_NAME)
        {
            let name = self.space.memory.read_upto(Addr(entry.rsi), NAME_LEN);
            let len = name.iter().position(|byte| *byte == 0).unwrap_or(NAME_LEN - 1).min(name.len());
            if !name.is_empty() {
                self.space.names.insert(event.tid, name[..len].to_vec());
            }
        }
    }

    /// The number of the system call that the running task makes next without an event of its own. Where it
    /// stands at a `syscall` instruction: is that the one?
    pub fn hooked_call(&self) -> Option<u64> {
        self.entry_at(|log, used| entries(log.get(used..)?).next())
    }

    /// The number of the system call that the running task has made last, without an event of its own, since
    /// the last event.
    pub fn last_hooked_call(&self) -> Option<u64> {
        self.entry_at(|log, used| entries(log.get(..used)?).last())
    }

    /// Does the running task make such a system call without an event of its own between the last event and
    /// the next one, or has it made one? Where that is not known, because nobody has asked for the next event
    /// or its task is at its place already, it may.
    pub fn may_make_hooked_call(&self, is_such: impl Fn(u64) -> bool) -> bool {
        let log = match self.cursor.underway.as_ref().map(|underway| (underway.event.tid, &underway.stage)) {
            Some((tid, Stage::Fresh)) => self.tasks.get(&tid).and_then(|task| task.hooked.as_ref()),
            Some((_, Stage::Going(going))) => going.hooked.as_ref(),
            _ => return true,
        };
        let mut calls = log.into_iter().flat_map(|hooked| entries(&hooked.log)).filter_map(|it| call_of(&it));
        calls.any(is_such)
    }

    /// Where the program's data segment ends, if that is known.
    pub(crate) fn brk(&self) -> Option<Addr> {
        let underway = self.cursor.underway.as_ref();
        let used = underway.and_then(|underway| match &underway.stage {
            Stage::Going(going) => {
                let used = usize::try_from(self.space.log_used().ok()?).ok()?;
                last_brk(going.hooked.as_ref()?.log.get(..used)?)
            }
            _ => None,
        });
        used.or(self.space.brk)
    }

    fn entry_at(&self, find: impl for<'a> Fn(&'a [u8], usize) -> Option<Entry<'a>>) -> Option<u64> {
        let underway = self.cursor.underway.as_ref()?;
        let (log, used) = match &underway.stage {
            Stage::Fresh => (&self.tasks.get(&underway.event.tid)?.hooked.as_ref()?.log, 0),
            Stage::Going(going) => {
                (&going.hooked.as_ref()?.log, usize::try_from(self.space.log_used().ok()?).ok()?)
            }
            Stage::There | Stage::Told | Stage::Released => return None,
        };
        call_of(&find(log, used)?)
    }
}

/// The number of the system call that an entry of a log tells of. One that was left to be traced has an
/// event.
fn call_of(entry: &Entry<'_>) -> Option<u64> {
    (!entry.left && entry.nr < NR_RDRAND).then(|| entry.nr.into())
}
