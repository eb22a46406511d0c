//! How a task goes on from a stop: the answer of whoever has looked after the stop. One place carries it out
//! (`task/waiting.rs` `Domain::go_onward`), for all that answer so (`reports.rs`).

use bis_tracee::Resume;

/// How a task goes on when its stop has been looked after.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Onward {
    /// It stays where it is until it has its turn, or is let go; or it runs already, or is gone.
    Stays,
    /// It goes on at once, and others may before it reports again.
    Goes(Resume),
    /// It goes on at once, and nobody else does before it has reported again.
    GoesAlone(Resume),
}

/// What decides how a task goes into its call.
#[derive(Clone, Copy, Debug)]
pub struct IntoCall {
    /// It may take a while, and others could run meanwhile.
    pub in_background: bool,
    /// It copies the address space somewhere in the call, or changes what is mapped there: nobody may change
    /// or copy that before its event, even if the call was interrupted, others had their turn, and it is made
    /// again.
    pub is_about_space: bool,
    /// That it is in the call is written already.
    pub is_entered: bool,
    pub has_others: bool,
    /// There is nobody else to look after, in this domain or in one that shares memory with it.
    pub is_alone: bool,
}

impl IntoCall {
    pub fn onward(&self) -> Onward {
        let others_may = self.in_background || !self.is_about_space && self.has_others && self.is_entered;
        // Who is alone sleeps in the scheduler, which counts us as idle.
        if others_may || self.is_alone {
            Onward::Goes(Resume::Syscall)
        } else {
            Onward::GoesAlone(Resume::Syscall)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A prompt call of one of several tasks.
    const PROMPT: IntoCall = IntoCall {
        in_background: false,
        is_about_space: false,
        is_entered: false,
        has_others: true,
        is_alone: false,
    };

    #[test]
    fn a_prompt_call_is_over_before_others_go_on() {
        assert_eq!(PROMPT.onward(), Onward::GoesAlone(Resume::Syscall));
        assert_eq!(IntoCall { in_background: true, ..PROMPT }.onward(), Onward::Goes(Resume::Syscall));
        let alone = IntoCall { has_others: false, is_alone: true, ..PROMPT };
        assert_eq!(alone.onward(), Onward::Goes(Resume::Syscall));
    }

    #[test]
    fn a_call_in_which_others_know_a_task_to_be_is_waited_for_only_where_it_is_about_the_address_space() {
        let entered = IntoCall { is_entered: true, ..PROMPT };
        assert_eq!(entered.onward(), Onward::Goes(Resume::Syscall));
        let copies = IntoCall { is_about_space: true, ..entered };
        assert_eq!(copies.onward(), Onward::GoesAlone(Resume::Syscall));
    }

    #[test]
    fn a_task_that_shares_memory_with_another_domain_is_waited_for() {
        let shares = IntoCall { has_others: false, is_entered: true, ..PROMPT };
        assert_eq!(shares.onward(), Onward::GoesAlone(Resume::Syscall));
    }
}
