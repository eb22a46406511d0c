//! Addresses that a task has named to the kernel, which writes there at the task's end, and in an exec, or
//! runs its handlers there. A value.

use std::mem;

use bis_trace::{event::MemWrite, types::Addr};

#[derive(Default, Debug)]
pub struct Named {
    clear_tid: Addr,
    robust_list: Addr,
    alt_stack: Option<Vec<u8>>,
    at_exec: Vec<MemWrite>,
}

impl Named {
    /// Of a task that begins with this word.
    pub fn with_clear_tid(clear_tid: Addr) -> Named {
        Named { clear_tid, ..Named::default() }
    }

    /// The word that the kernel clears at the task's end (set_tid_address), or null.
    pub fn clear_tid(&self) -> Addr {
        self.clear_tid
    }

    pub fn set_clear_tid(&mut self, addr: Addr) {
        self.clear_tid = addr;
    }

    /// The head of the robust futex list, or null.
    pub fn robust_list(&self) -> Addr {
        self.robust_list
    }

    pub fn set_robust_list(&mut self, head: Addr) {
        self.robust_list = head;
    }

    /// Its stack for handlers, as the kernel has it (a `stack_t`); none: it was not asked, or that has
    /// changed since.
    pub fn alt_stack(&self) -> Option<&Vec<u8>> {
        self.alt_stack.as_ref()
    }

    pub fn know_alt_stack(&mut self, stack: Vec<u8>) {
        self.alt_stack = Some(stack);
    }

    /// It may be another one now.
    pub fn forget_alt_stack(&mut self) {
        self.alt_stack = None;
    }

    /// The task executes a program: what the kernel writes if it succeeds, beside the word. The memory is
    /// gone then.
    pub fn begin_exec(&mut self, writes: Vec<MemWrite>) {
        self.at_exec = writes;
    }

    /// It has executed one.
    pub fn end_exec(&mut self) -> Vec<MemWrite> {
        mem::take(&mut self.at_exec)
    }

    /// Where the kernel writes on the way of an exec: the word, if there is one, and all else.
    pub fn written_at_exec(&self) -> impl Iterator<Item = Addr> {
        let word = Some(self.clear_tid).filter(|addr| !addr.is_null());
        word.into_iter().chain(self.at_exec.iter().map(|write| write.addr))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exec_writes_the_word_and_what_was_asked_for() {
        let mut named = Named::default();
        assert_eq!(named.written_at_exec().count(), 0);
        named.begin_exec(vec![MemWrite { addr: Addr(0x2000), data: vec![1] }]);
        named.set_clear_tid(Addr(0x1000));
        assert_eq!(named.written_at_exec().collect::<Vec<_>>(), [Addr(0x1000), Addr(0x2000)]);
        assert_eq!((named.end_exec().len(), named.end_exec().len()), (1, 0));
    }
}
