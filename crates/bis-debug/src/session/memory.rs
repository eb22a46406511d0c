//! What the marks of a session take of memory, and how much they may.
//!
//! A mark is a process that does not run. It has most of its pages together with the replica and with other
//! marks, so what it takes can be said of all of them only: the kernel divides each page among those that
//! have it, and the parts of all marks are added up. Of that, as much as one of them has is what the replica
//! has anyway.

use std::{cell::Cell, rc::Rc};

use bis_trace::types::Tid;
use bis_tracee::proc::{self, Fields};

/// What all sessions of a debugger may take together, in bytes.
#[derive(Debug)]
pub struct Budget {
    bound: u64,
    used: Cell<u64>,
}

/// The machine's memory is divided by this, where nobody has said how much checkpoints may take.
const SHARE: u64 = 4;

impl Budget {
    pub fn new(bound: Option<u64>) -> Rc<Budget> {
        let all = || Fields::of_machine().and_then(|fields| fields.memory("MemTotal"));
        let bound = bound.unwrap_or_else(|| all().map_or(u64::MAX, |all| all / SHARE));
        Rc::new(Budget { bound, used: Cell::new(0) })
    }

    pub fn bound(&self) -> u64 {
        self.bound
    }

    /// What is left for a session that has said that it uses so much.
    pub fn left(&self, own: u64) -> u64 {
        self.bound.saturating_sub(self.used.get().saturating_sub(own))
    }

    /// A session that has used so much uses so much now.
    pub fn change(&self, from: u64, to: u64) {
        self.used.set(self.used.get().saturating_sub(from).saturating_add(to));
    }
}

/// What these marks' processes take beside the one of them that has most. Where it cannot be more than
/// `enough`, it is a number that it is not above: finding out takes a look at each page.
pub fn beside_one(pids: &[Tid], enough: u64) -> u64 {
    let most = without_largest(pids.iter().map(|pid| (resident(*pid), resident(*pid))));
    if most <= enough {
        return most;
    }
    without_largest(pids.iter().map(|pid| {
        let fields = Fields::of_memory(*pid);
        let memory = |name| fields.as_ref().and_then(|fields| fields.memory(name));
        (memory("Pss_Anon").or_else(|| memory("Pss")).unwrap_or(0), memory("Anonymous").unwrap_or(0))
    }))
}

/// The sum of the parts, without as much as the largest has.
fn without_largest(all: impl Iterator<Item = (u64, u64)>) -> u64 {
    let (sum, largest) =
        all.fold((0_u64, 0), |(sum, largest), (part, whole)| (sum + part, whole.max(largest)));
    sum.saturating_sub(largest)
}

/// The memory of a process that is not of files, also what it has together with others.
pub fn resident(pid: Tid) -> u64 {
    proc::resident(pid).unwrap_or(0)
}

/// Which marks stay: the first of each image, the newest, and of the others all but one in so many.
///
/// `marks`: the number of each over the whole session, and its image, in the order of places. `newest`: those
/// above it.
pub fn staying(marks: &[(u64, usize)], newest: u64, one_in: usize) -> Vec<bool> {
    let (mut first, mut count) = (None, 0);
    let stays = |(number, image): &(u64, usize)| {
        if first.replace(*image) != Some(*image) {
            return true;
        }
        count += 1;
        *number > newest || count % one_in != 0
    };
    marks.iter().map(stays).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_each_image_and_the_newest_stay() {
        let marks = [(1, 0), (2, 0), (3, 0), (9, 0), (4, 0), (5, 1), (6, 1), (7, 1), (8, 1)];
        let stay = staying(&marks, 7, 2);
        assert_eq!(stay, [true, true, false, true, false, true, true, false, true]);
        assert!(staying(&marks, 9, 3).iter().filter(|stays| !**stays).count() == 2);
    }

    #[test]
    fn thinned_out_again_and_again_hardly_any_old_one_stays() {
        let mut marks: Vec<(u64, usize)> = (1..=96).map(|number| (number, 0)).collect();
        for _ in 0..12 {
            let stay = staying(&marks, 92, 2);
            let mut stays = stay.iter();
            marks.retain(|_| *stays.next().unwrap());
        }
        let numbers: Vec<u64> = marks.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, [1, 2, 93, 94, 95, 96]);
    }

    #[test]
    fn what_one_of_them_has_is_not_counted() {
        // Three copies of a process that has written to nothing since, and two that have all pages for
        // themselves.
        assert_eq!(without_largest([(25, 100), (25, 100), (25, 100)].into_iter()), 0);
        assert_eq!(without_largest([(100, 100), (80, 80)].into_iter()), 80);
        assert_eq!(without_largest(std::iter::empty()), 0);
    }

    #[test]
    fn this_process_takes_memory() {
        let own = Tid(std::process::id().cast_signed());
        assert!(resident(own) > 0);
        // Twice the same one: a part that both have is not counted twice, if it is looked at.
        assert_eq!(beside_one(&[own], 0), 0);
        assert!(beside_one(&[own, own], u64::MAX) >= 4096);
        assert!(beside_one(&[own, own], 0) > 0);
    }

    #[test]
    fn sessions_share_what_there_is() {
        let budget = Budget::new(Some(100));
        budget.change(0, 30);
        assert_eq!(budget.left(30), 100);
        assert_eq!(budget.left(0), 70);
        budget.change(30, 0);
        assert_eq!(budget.left(0), 100);
        assert!(Budget::new(None).bound() < u64::MAX);
    }
}
