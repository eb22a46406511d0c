//! The numbers by which tasks know each other. A task in a pid namespace of its own (containers, `unshare
//! -p`) has one number in there and another out here. All ids of bis are those out here; this file translates
//! the ones that a program gives to the kernel or gets from it.
//!
//! A lookup reads `/proc` (some 20 µs, and all of `/proc` for [`outside`]): whoever knows that there are no
//! namespaces need not ask.

use std::fs;

use bis_trace::types::Tid;

use crate::{
    proc::{self, Fields},
    sys,
};

/// The numbers of a task, from the one out here to the one in its own namespace; none where it is gone.
fn numbers(tid: Tid) -> Vec<Tid> {
    let status = Fields::of(tid);
    let line = status.as_ref().and_then(|status| status.text("NSpid")).unwrap_or_default();
    line.split_whitespace().filter_map(|word| word.parse().ok()).map(Tid).collect()
}

/// The parent's process id, as the kernel sees it now.
pub fn parent(tid: Tid) -> Option<Tid> {
    // A tenth of what it takes to read it, of which each exec has need.
    sys::parent_of_process(tid).or_else(|| told_parent(tid))
}

/// The parent out of `/proc`: of threads, too, and from each kernel.
fn told_parent(tid: Tid) -> Option<Tid> {
    Fields::of(tid)?.tid("PPid")
}

/// What a task calls itself (gettid).
pub fn own(tid: Tid) -> Option<Tid> {
    numbers(tid).last().copied()
}

/// Which user it calls itself (getuid). The one that the kernel tells of those that its user namespace does
/// not know (65534), also where it is gone.
pub fn own_user(tid: Tid) -> u32 {
    const NOBODY: u32 = 65534;
    let status = Fields::of(tid);
    // The real one is the first of four.
    let line = status.as_ref().and_then(|status| status.text("Uid")).unwrap_or_default();
    let user = line.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0);
    let map = proc::read_text(proc::path(tid, "uid_map")).unwrap_or_default();
    inside_of_map(&map, user).and_then(|user| user.try_into().ok()).unwrap_or(NOBODY)
}

/// What an id is inside, by the text of a `uid_map`: lines of the first id inside, the first out here, and
/// how many there are.
fn inside_of_map(map: &str, id: u64) -> Option<u64> {
    map.lines().find_map(|line| {
        let mut words = line.split_whitespace().filter_map(|word| word.parse::<u64>().ok());
        let (inside, outside, count) = (words.next()?, words.next()?, words.next()?);
        id.checked_sub(outside).filter(|at| *at < count).map(|at| inside + at)
    })
}

/// Is it the first process of a pid namespace (not that of our own)?
pub fn is_init_inside(tid: Tid) -> bool {
    let numbers = numbers(tid);
    numbers.len() > 1 && numbers.last() == Some(&Tid(1))
}

/// What `observer` calls `tid`; none where one of them is gone, or `tid` cannot be seen from there.
pub fn inside(observer: Tid, tid: Tid) -> Option<Tid> {
    let depth = numbers(observer).len();
    numbers(tid).get(depth.checked_sub(1)?).copied()
}

/// Whom `observer` calls `number`: the id out here.
pub fn outside(observer: Tid, number: Tid) -> Option<Tid> {
    let depth = numbers(observer).len();
    if depth <= 1 {
        return Some(number);
    }
    let space = |tid: Tid| fs::read_link(proc::path(tid, "ns/pid")).ok();
    let own_space = space(observer);
    let is_it = |tid: &Tid| {
        let numbers = numbers(*tid);
        // One in a namespace further inside has a number here as well.
        numbers.get(depth - 1) == Some(&number) && (numbers.len() > depth || space(*tid) == own_space)
    };
    proc::processes().into_iter().flat_map(proc::threads).find(is_it)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn out_here_all_have_one_name() {
        let me = crate::ours::thread_id();
        assert_eq!((own(me), inside(me, me), outside(me, Tid(77))), (Some(me), Some(me), Some(Tid(77))));
        assert!(!is_init_inside(me));
        assert_eq!(inside(me, Tid(i32::MAX)), None);
    }

    #[test]
    fn users_are_called_as_inside() {
        assert_eq!(own_user(crate::ours::thread_id()), rustix::process::getuid().as_raw());
        let map = "         0       1000          1\n         5     100000       3\n";
        let asked = [999, 1000, 1001, 100_000, 100_002, 100_003];
        assert_eq!(asked.map(|id| inside_of_map(map, id)), [None, Some(0), None, Some(5), Some(7), None]);
        assert_eq!(inside_of_map("         0          0 4294967295\n", 33), Some(33));
    }

    #[test]
    fn both_ways_tell_the_same_parent() {
        let process = crate::ours::process_id();
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let ours = Tid(i32::try_from(child.id()).unwrap());
        assert_eq!((parent(ours), told_parent(ours)), (Some(process), Some(process)));
        child.kill().unwrap();
        // It has a parent until that has waited for it.
        assert_eq!(parent(ours), Some(process));
        child.wait().unwrap();
        assert_eq!((parent(ours), told_parent(ours)), (None, None));
        // Of a thread that is no process, too.
        let me =
            std::thread::spawn(|| (parent(crate::ours::thread_id()), told_parent(crate::ours::thread_id())));
        let (one, other) = me.join().unwrap();
        assert!(one.is_some() && one == other);
    }
}
