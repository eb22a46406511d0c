//! Private mappings of files that change: who changes one by a call tells it, and who looks at one records what it
//! shows (`views.rs` is about when and why).
//!
//! What it shows is read from the domain's own memory, so it is right whatever has happened to the file and to the
//! pages since, and also for pages that the process has made its own. Where the file has grown over pages that
//! replay's copy of it does not have, replay gets anonymous memory there.
//!
//! Not done: where a file gets shorter, pages of its mappings cannot be accessed any more (SIGBUS); in replay they
//! stay. A note in the trace says so.

use std::{fs, os::linux::fs::MetadataExt};

use bis_syscalls::Handler;
use bis_trace::{
    event::{Backing, Effect, MemWrite, Outcome},
    types::Tid,
};
use bis_tracee::maps;

use super::objects::{RWF_APPEND, fd_path, int};
use crate::{
    domain::Domain,
    error::Result,
    registry::Key,
    task::InCall,
    views::{self, Change, View},
};

/// Content is read and recorded in pieces of at most this many bytes.
const PIECE_LEN: u64 = 1 << 20;

fn page_up(value: u64) -> u64 {
    value.saturating_add(4095) & !4095
}

impl Domain {
    /// A new private mapping of a file that may change.
    pub(super) fn add_view(&mut self, addr: u64, map_len: u64, key: Key, offset: u64, len: u64) {
        let (end, changed) = (addr + map_len, false);
        self.session.watch.watch_files();
        self.session.views.add(key, self.id);
        self.views.push(View { start: addr, end, key, offset, len, backed: page_up(len), changed });
    }

    /// The range is not mapped any more, or shows something else.
    pub(super) fn remove_views(&mut self, start: u64, end: u64) -> Vec<View> {
        self.forget_text(start, end);
        if self.views.is_empty() {
            return Vec::new();
        }
        let gone = views::cut(&mut self.views, start, end);
        for view in &gone {
            if self.views.iter().all(|other| other.key != view.key) {
                self.session.views.forget(view.key, self.id);
            }
        }
        gone
    }

    /// A mapping has moved, or has another length.
    pub(super) fn move_views(
        &mut self,
        (addr, old_len): (u64, u64),
        (new_addr, new_len): (u64, u64),
        keep: bool,
        outcome: &mut Outcome,
    ) {
        let source = self.views.iter().find(|view| view.start <= addr && addr < view.end).copied();
        if new_addr != addr {
            self.remove_views(new_addr, new_addr + new_len);
        }
        if !keep {
            self.remove_views(addr, addr + old_len);
        }
        if let Some(source) = source {
            let offset = source.offset + (addr - source.start);
            let moved = View { start: new_addr, end: new_addr + new_len, offset, ..source };
            self.session.views.add(moved.key, self.id);
            self.views.push(moved);
            if keep {
                self.show_again(addr, addr + old_len, outcome);
            }
            self.show_again(new_addr + old_len.min(new_len), new_addr + new_len, outcome);
        }
    }

    /// Pages of this range may show the file again, and not what the process has written there (MADV_DONTNEED).
    pub(super) fn show_again(&mut self, start: u64, end: u64, outcome: &mut Outcome) {
        for view in self.views.clone().iter().filter(|view| view.changed) {
            self.show(start.max(view.start), end.min(view.end), outcome);
        }
    }

    /// The memory of this range shows what it shows now.
    fn show(&self, start: u64, end: u64, outcome: &mut Outcome) {
        let mut addr = start;
        while addr < end {
            let len = usize::try_from((end - addr).min(PIECE_LEN)).unwrap_or(0);
            let data = self.memory.read_upto(addr, len);
            if data.is_empty() {
                return;
            }
            let next = addr + data.len() as u64;
            outcome.writes.push(MemWrite { addr, data });
            addr = next;
        }
    }

    /// At an event: what has changed in files that this domain has mapped privately.
    pub(crate) fn show_changes(&mut self, outcome: &mut Outcome) -> Result<()> {
        for change in self.session.views.take(self.id) {
            for index in 0..self.views.len() {
                let view = self.views[index];
                if view.key == change.key {
                    self.show_change(&view, &change, outcome)?;
                    let backed = view.backed.max(page_up(change.len));
                    self.views[index] = View { changed: true, len: change.len, backed, ..view };
                }
            }
        }
        Ok(())
    }

    fn show_change(&self, view: &View, change: &Change, outcome: &mut Outcome) -> Result<()> {
        let (mut start, mut end) = (change.start, change.end);
        if change.len > view.len {
            // What lies between the old end and the first new byte is zero now.
            (start, end) = (start.min(view.len), end.max(change.len));
        } else if change.len < view.len {
            // The rest of the last page is zero now.
            (start, end) = (start.min(change.len), end.max(page_up(change.len)));
            if view.addresses(page_up(change.len), page_up(view.len)).is_some() {
                let seq = self.session.writer.next_seq();
                let text = "a file that is mapped privately became shorter: what lies beyond its end can still be \
                            read in the replay";
                self.session.note(seq, text.into())?;
            }
        }
        if let Some((from, to)) = view.addresses(view.backed, page_up(change.len)) {
            let mappings = maps::read(self.first_tid_alive()).unwrap_or_default();
            for mapping in mappings.iter().filter(|m| m.start < to && from < m.end) {
                let addr = from.max(mapping.start);
                let (len, prot) = (to.min(mapping.end) - addr, mapping.prot);
                outcome.effects.push(Effect::Map { addr, len, prot, backing: Backing::Anonymous });
            }
        }
        if let Some((from, to)) = view.addresses(start, end.min(page_up(change.len))) {
            self.show(from, to, outcome);
        }
        Ok(())
    }

    /// A task through which the kernel shows the address space.
    fn first_tid_alive(&self) -> Tid {
        self.tasks.keys().next().copied().unwrap_or(self.first_tid)
    }

    /// May somebody have a view of the file that this path names?
    pub(super) fn is_viewed(&self, path: &str) -> bool {
        !self.session.views.is_empty()
            && fs::metadata(path).is_ok_and(|meta| self.session.views.has((meta.st_dev(), meta.st_ino())))
    }

    /// Where a call that wrote `written` bytes into a file began to write.
    fn written_at(
        &self,
        tid: Tid,
        handler: Handler,
        args: [u64; 6],
        written: u64,
        outcome: &Outcome,
    ) -> Result<u64> {
        use Handler as H;
        let given = match handler {
            H::Pwrite64 | H::Pwritev | H::Pwritev2 => (args[3] != u64::MAX).then_some(args[3]),
            H::CopyFileRange | H::Splice => self.moved_offset(args[3], written, outcome)?,
            _ => None,
        };
        let fd = int(if matches!(handler, H::CopyFileRange | H::Splice) { args[2] } else { args[0] });
        let append = handler == H::Pwritev2 && args[5] & RWF_APPEND != 0;
        Ok(Self::start_of(tid, fd, given, written, append))
    }

    /// At the exit of a call that has changed a file: tells all who have it mapped privately.
    pub(super) fn tell_views(
        &mut self,
        tid: Tid,
        handler: Handler,
        call: &InCall,
        result: i64,
        outcome: &Outcome,
    ) -> Result<()> {
        use Handler as H;
        if self.session.views.is_empty() {
            return Ok(());
        }
        let args = call.entry.args();
        let path = match handler {
            H::Write | H::Writev | H::Pwrite64 | H::Pwritev | H::Pwritev2 | H::Sendfile => {
                Some(fd_path(tid, int(args[0])))
            }
            H::CopyFileRange | H::Splice => Some(fd_path(tid, int(args[2]))),
            H::Truncate | H::Ftruncate | H::Fallocate => self.truncated_path(tid, handler, args),
            H::Open if self.truncates(call) => Some(fd_path(tid, i32::try_from(result).unwrap_or(-1))),
            _ => None,
        };
        let Some(meta) = path.and_then(|path| fs::metadata(path).ok()) else { return Ok(()) };
        let (key, len) = ((meta.st_dev(), meta.st_ino()), meta.st_size());
        if !self.session.views.has(key) {
            return Ok(());
        }
        let written = result.cast_unsigned();
        let (start, end) = match handler {
            H::Truncate | H::Ftruncate | H::Open => (len, len),
            // Holes, zeros, parts that move.
            H::Fallocate => (args[2], u64::MAX),
            _ => {
                let start = self.written_at(tid, handler, args, written, outcome)?;
                (start, start.saturating_add(written))
            }
        };
        self.session.views.tell(Change { key, start, end, len });
        self.session.watch.call_all();
        Ok(())
    }
}
