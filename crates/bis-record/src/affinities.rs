//! The cores that the program has asked for, for which of its tasks. All tasks of a domain are pinned to its
//! core, whatever the program wants ([`crate::cores`]); a task without an entry is to run, as far as the
//! program knows, on every core that bis may use.
//!
//! Any task may ask for any other: so they are kept here, by the tasks' ids, and not with the tasks.

use std::{
    collections::HashMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use bis_trace::types::Tid;

/// Of all tasks of a recording; the kernel's bit masks.
#[derive(Debug, Default)]
pub struct Affinities {
    asked: Mutex<HashMap<Tid, Vec<u8>>>,
    /// Most programs never ask, and this is looked at whenever a task goes on.
    is_used: AtomicBool,
}

impl Affinities {
    fn with<T: Default>(&self, use_it: impl FnOnce(&mut HashMap<Tid, Vec<u8>>) -> T) -> T {
        if !self.is_used.load(Ordering::SeqCst) {
            return T::default();
        }
        use_it(&mut self.asked.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Which cores were asked for; none: none were.
    pub fn of(&self, tid: Tid) -> Option<Vec<u8>> {
        self.with(|asked| asked.get(&tid).cloned())
    }

    pub fn set(&self, tid: Tid, mask: Vec<u8>) {
        self.is_used.store(true, Ordering::SeqCst);
        self.with(|asked| asked.insert(tid, mask));
    }

    /// A task has been made, a thread as well as the child of a fork, and has the cores of its maker; but for
    /// those that somebody has asked for since, who has seen it before its maker's call was over.
    pub fn inherit(&self, maker: Tid, child: Tid) {
        self.with(|asked| {
            if let Some(mask) = asked.get(&maker).cloned() {
                asked.entry(child).or_insert(mask);
            }
        });
    }

    /// A thread that execs goes on under its process's id, with its own cores.
    pub fn execed(&self, former: Tid, tid: Tid) {
        if former != tid {
            self.with(|asked| match asked.remove(&former) {
                Some(mask) => asked.insert(tid, mask),
                None => asked.remove(&tid),
            });
        }
    }

    pub fn forget(&self, tid: Tid) {
        self.with(|asked| asked.remove(&tid));
    }
}

/// Is this core among those of a mask?
fn has_core(mask: &[u8], core: u32) -> bool {
    let byte = usize::try_from(core / 8).ok().and_then(|at| mask.get(at));
    byte.is_some_and(|byte| byte >> (core % 8) & 1 != 0)
}

/// The first core of a mask.
pub fn first_core(mask: &[u8]) -> Option<u32> {
    (0..u32::try_from(8 * mask.len()).unwrap_or(0)).find(|core| has_core(mask, *core))
}

/// The core that a task is told which is on `core`, and for which those of a mask were asked.
pub fn told(mask: &[u8], core: u32) -> u32 {
    if has_core(mask, core) { core } else { first_core(mask).unwrap_or(core) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask(byte: u8) -> Option<Vec<u8>> {
        Some(vec![byte])
    }

    #[test]
    fn a_task_has_its_makers_cores_unless_others_were_asked_for_since() {
        let asked = Affinities::default();
        asked.inherit(Tid(1), Tid(2));
        assert_eq!(asked.of(Tid(2)), None);
        asked.set(Tid(1), vec![1]);
        asked.inherit(Tid(1), Tid(2));
        asked.set(Tid(1), vec![2]);
        assert_eq!((asked.of(Tid(1)), asked.of(Tid(2))), (mask(2), mask(1)));
        asked.inherit(Tid(1), Tid(2));
        assert_eq!(asked.of(Tid(2)), mask(1));
        asked.forget(Tid(2));
        asked.inherit(Tid(1), Tid(2));
        assert_eq!(asked.of(Tid(2)), mask(2));
    }

    #[test]
    fn a_task_is_told_a_core_that_was_asked_for() {
        assert_eq!([0, 1, 2, 9, 70].map(|core| told(&[0b100, 0b10], core)), [2, 2, 2, 9, 2]);
        assert_eq!(told(&[0, 0], 3), 3);
    }

    #[test]
    fn a_thread_that_execs_keeps_its_cores_and_not_its_leaders() {
        let asked = Affinities::default();
        asked.set(Tid(1), vec![1]);
        asked.set(Tid(2), vec![2]);
        asked.execed(Tid(2), Tid(1));
        assert_eq!((asked.of(Tid(1)), asked.of(Tid(2))), (mask(2), None));
        asked.execed(Tid(1), Tid(1));
        assert_eq!(asked.of(Tid(1)), mask(2));
        asked.execed(Tid(3), Tid(1));
        assert_eq!(asked.of(Tid(1)), None);
    }
}
