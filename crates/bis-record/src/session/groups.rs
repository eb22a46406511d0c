//! Which process groups are orphaned: a question about values, whoever has read them.

use bis_trace::types::Tid;

/// What is known of a process, as far as it matters here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Member {
    pub group: Option<i32>,
    pub session: Option<i32>,
    /// The parent that it has in its own eyes.
    pub parent: Option<Tid>,
    /// It has ended, and nobody has waited for it yet.
    pub is_dead: bool,
}

/// Could the parent of this process let its group go on? It is one of another group of the same session.
fn is_kept(group: i32, pid: Tid, of: &impl Fn(Tid) -> Option<Member>) -> bool {
    let Some(member) = of(pid).filter(|it| it.group == Some(group) && !it.is_dead) else { return false };
    // The first process of all is nobody's shell.
    let Some(parent) = member.parent.filter(|parent| parent.0 > 1) else { return false };
    of(parent).is_some_and(|parent| parent.group != Some(group) && parent.session == member.session)
}

/// Has this process group a member whose parent could let it go on? `first` is one of it, and is looked at
/// first: of most groups, its own parent could, and the list of all processes is long.
pub(super) fn may_be_continued<I: IntoIterator<Item = Tid>>(
    group: i32,
    first: Tid,
    all: impl FnOnce() -> I,
    of: impl Fn(Tid) -> Option<Member>,
) -> bool {
    is_kept(group, first, &of) || all().into_iter().any(|pid| is_kept(group, pid, &of))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    type Processes = BTreeMap<i32, Member>;

    fn member(parent: i32, group: i32, session: i32) -> Member {
        Member { group: Some(group), session: Some(session), parent: Some(Tid(parent)), is_dead: false }
    }

    /// A shell (10) has started the pipe 20 and 21, whose first process has the child 22, in one session.
    fn shell() -> Processes {
        [
            (1, member(0, 1, 1)),
            (9, member(1, 9, 9)),
            (10, member(9, 10, 10)),
            (20, member(10, 20, 10)),
            (21, member(10, 20, 10)),
            (22, member(20, 20, 10)),
        ]
        .into()
    }

    fn may(all: &Processes, group: i32, first: i32) -> bool {
        let pids = || all.keys().copied().map(Tid);
        may_be_continued(group, Tid(first), pids, |Tid(pid)| all.get(&pid).copied())
    }

    #[test]
    fn a_shell_lets_its_jobs_go_on_whichever_of_them_stops() {
        for first in [20, 21, 22] {
            assert!(may(&shell(), 20, first), "{first}");
        }
        assert!(!may(&shell(), 10, 10), "the parent of the shell is in another session");
    }

    #[test]
    fn a_group_is_orphaned_when_the_last_member_with_a_parent_outside_is_gone() {
        let mut all = shell();
        all.remove(&20);
        all.insert(22, member(1, 20, 10));
        assert!(may(&all, 20, 22), "the other process of the pipe is the shell's child");
        all.get_mut(&21).unwrap().is_dead = true;
        assert!(!may(&all, 20, 22), "that has ended");
    }

    #[test]
    fn a_group_is_orphaned_when_its_shell_is_gone() {
        let mut all = shell();
        all.remove(&10);
        for pid in [20, 21] {
            all.get_mut(&pid).unwrap().parent = Some(Tid(1));
        }
        assert!(!may(&all, 20, 20));
        all.get_mut(&1).unwrap().session = Some(10);
        assert!(!may(&all, 20, 20), "the first process of all is nobody's shell");
        all.get_mut(&20).unwrap().parent = Some(Tid(9));
        assert!(!may(&all, 20, 20), "one of another session is none, either");
        all.get_mut(&9).unwrap().session = Some(10);
        assert!(may(&all, 20, 20));
    }

    #[test]
    fn who_cannot_be_looked_at_keeps_nobody() {
        assert!(!may(&Processes::new(), 20, 20));
        let mut all = shell();
        all.values_mut().for_each(|it| it.parent = None);
        assert!(!may(&all, 20, 20));
    }

    #[test]
    fn all_processes_are_looked_at_only_where_the_first_does_not_say_it() {
        let all = shell();
        let of = |Tid(pid): Tid| all.get(&pid).copied();
        let never = || -> Vec<Tid> { panic!("it is known already") };
        assert!(may_be_continued(20, Tid(20), never, of));
    }

    proptest! {
        /// As POSIX has it: a group is orphaned if the parent of every member is a member, or is of another
        /// session. (That of the first process of all counts as such.)
        #[test]
        fn a_group_may_be_continued_if_it_is_not_orphaned(
            drawn in prop::collection::vec((0..8_i32, 1..4_i32, 1..3_i32, any::<bool>()), 1..8),
            first in 1..9_i32,
            group in 1..4_i32,
        ) {
            let member = |(parent, group, session, is_dead): (i32, i32, i32, bool)| {
                Member { is_dead, ..member(parent, group, session) }
            };
            let all: Processes = (1..).zip(drawn.into_iter().map(member)).collect();
            let members = || all.values().filter(|it| it.group == Some(group) && !it.is_dead);
            let is_inside = |it: &Member| match it.parent {
                Some(Tid(parent)) if parent > 1 && all.contains_key(&parent) => {
                    all[&parent].group == Some(group) || all[&parent].session != it.session
                }
                _ => true,
            };
            prop_assert_eq!(may(&all, group, first), !members().all(is_inside));
        }
    }
}
