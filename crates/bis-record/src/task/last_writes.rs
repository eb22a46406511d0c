//! What the kernel writes when a task ends whose memory others still use. Some of it has to be asked before
//! the task has ended.

use bis_trace::{
    event::MemWrite,
    types::{Addr, Tid},
};
use bis_tracee::sys;

use crate::crew::Crew;

impl Crew {
    /// What the kernel writes when a task ends whose memory others still use: it clears the word that the
    /// task has named (set_tid_address) and marks the robust futexes that the task holds. Both are as the
    /// kernel's `mm_release` and `exit_robust_list` do it.
    pub fn last_writes(&mut self, tid: Tid) -> Vec<MemWrite> {
        let mut writes = self.orphaned_futexes(tid);
        writes.extend(self.cleared_word(tid));
        writes
    }

    /// Of these last writes, those that change something. Only before they happen.
    pub fn changes(&self, mut writes: Vec<MemWrite>) -> Vec<MemWrite> {
        let memory = |write: &MemWrite| self.memory.read_vec(write.addr, write.data.len());
        writes.retain(|write| memory(write).is_ok_and(|data| data != write.data));
        writes
    }

    /// Of these last writes, those that have happened. The memory may be gone, or not be writable: the kernel
    /// does not mind.
    pub fn happened(&self, mut writes: Vec<MemWrite>) -> Vec<MemWrite> {
        // With its last task the process's memory goes, and what it shares with others stays.
        let is_last = self.tasks.len() <= 1;
        let memory = |write: &MemWrite| self.memory.read_vec(write.addr, write.data.len());
        writes.retain(|write| memory(write).map_or(is_last, |data| data == write.data));
        writes
    }

    /// The word that it has named.
    pub fn cleared_word(&self, tid: Tid) -> Option<MemWrite> {
        let clear_tid = self.tasks.get(&tid)?.named.clear_tid();
        let is_read = !clear_tid.is_null() && self.tasks.len() > 1;
        is_read.then(|| MemWrite { addr: clear_tid, data: vec![0; 4] })
    }

    /// The robust futexes. Only while the task's memory is there.
    pub fn orphaned_futexes(&self, tid: Tid) -> Vec<MemWrite> {
        /// ROBUST_LIST_LIMIT.
        const ENTRIES_MAX: usize = 2048;
        let Some(task) = self.tasks.get(&tid) else { return Vec::new() };
        let (robust_list, name) = (task.named.robust_list(), task.own_name);
        let mut writes = Vec::new();
        if !robust_list.is_null() {
            let word = |addr: Addr| self.memory.read_u64(addr).unwrap_or(0);
            // `struct robust_list_head`: the first entry, the offset, the one under way.
            let head = self.memory.read_upto(robust_list, 3 * 8);
            let mut head =
                head.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()));
            let [mut entry, offset, pending] = [(); 3].map(|()| head.next().unwrap_or(0));
            let mut entries = vec![pending];
            while entry & !1 != robust_list.0 && entry != 0 && entries.len() < ENTRIES_MAX {
                entries.push(entry);
                entry = word(Addr(entry & !1));
            }
            for entry in entries.into_iter().filter(|entry| *entry != 0) {
                let addr = (entry & !1).wrapping_add(offset);
                if let Ok(value) = self.memory.read_u32(Addr(addr))
                    && value & libc::FUTEX_TID_MASK == name.0.cast_unsigned()
                {
                    let value = value & libc::FUTEX_WAITERS | libc::FUTEX_OWNER_DIED;
                    writes.push(MemWrite { addr: Addr(addr), data: value.to_le_bytes().to_vec() });
                }
            }
        }
        writes
    }

    /// Where the task has its list of robust futexes, before the kernel forgets it. The hooks make
    /// set_robust_list without a word.
    pub fn ask_robust_list(&mut self, tid: Tid) {
        if let (Ok(head), Some(task)) = (sys::robust_list(tid), self.tasks.get_mut(&tid)) {
            task.named.set_robust_list(Addr(head));
        }
    }
}
