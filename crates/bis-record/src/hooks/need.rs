//! Whether a domain's text is to count although nobody has asked for it (`--ticks=auto`). A small text counts
//! from the second task on, which costs hardly anything. A large one counts when tasks have had to be stopped
//! in it by their state a few times. A large program whose threads sleep, or give way at their calls, or
//! compute in code that was made at run time, never comes to that, and its text costs nothing.
//!
//! By then there may be many tasks, and text is changed at the entry of a call that one of them makes. The
//! others stand somewhere: behind a call that they have made or wait in, where they were paused, or where
//! they begin. They go on in the new text as if nothing had happened, if they do not stand in the middle of
//! what gives way to a jump there. (What is on their stacks are addresses behind calls. The text can always
//! be entered there.) A task that stands in a trampoline of the text before goes on in that. The trampoline
//! stays, and what is known of it (`Patches::retire`); but where it leads back to must not be in such a
//! middle. If any task stands badly, the text is changed another time.

use std::os::unix::fs::FileExt;

use bis_trace::types::{Addr, Tid};
use bis_tracee::maps;

use crate::{
    process::Process,
    space::{Patches, Pool, TextRange, shown_text},
    task::Handle,
};

/// How much text is little, bytes: a program of C or Go with its libraries. To map it takes a few
/// milliseconds.
const SMALL: u64 = 4 << 20;

impl Patches {
    /// Is there little text?
    pub fn is_small(&self) -> bool {
        self.texts.iter().map(|text| text.end - text.start).sum::<u64>() <= SMALL
    }
}

impl Process {
    /// Looks whether the text may be changed for the dense one although there are others than this task,
    /// which stands at the entry of a call. Where it may not, that is noted, and nobody looks again for a
    /// while.
    pub(super) fn look_at_others(&mut self, tid: Tid) -> bool {
        let Some(hooks) = &self.hooks else { return false };
        if hooks.counts.need.is_refused() {
            return false;
        }
        let is_clear = self.others_are_clear(tid).unwrap_or(false);
        tracing::debug!(domain = %self.id, %tid, is_clear, "a text that counts is wanted");
        if let Some(hooks) = &mut self.hooks {
            hooks.counts.need.refuse(!is_clear);
        }
        is_clear
    }

    /// Do all others stand where they can go on in the dense text? None: that is not known.
    fn others_are_clear(&self, tid: Tid) -> Option<bool> {
        let patches = self.space.patches();
        let mut places = Vec::new();
        for task in self.tasks.values().filter(|task| task.tid != tid) {
            let rip = match (&task.handle, &task.call) {
                (_, Some(call)) => call.entry.ip(),
                (Handle::Stopped(stopped), None) => stopped.regs().ok()?.ip(),
                _ => return None,
            };
            if let Some(patch) = patches.in_trampoline(rip) {
                places.push(patch.end);
            } else if self.space.is_in_hooks(rip) || patches.is_trampoline(rip) || task.call.is_some() {
                // An interrupted call is made again by the instruction in front of it, which would have given
                // way.
                return None;
            } else {
                places.push(rip);
            }
        }
        places.sort_unstable();
        places.dedup();
        let mappings = maps::read(tid).ok()?;
        let is_there = |text: &&TextRange| places.iter().any(|at| text.contains(*at));
        for text in patches.texts.iter().filter(is_there) {
            let shown = shown_text(&mappings, text.start..text.end, &patches.guards);
            if shown.is_none() || text.is_changed {
                // It stays as it is.
                continue;
            }
            let Some((pool, _)) = self.pool(text, &mappings) else { continue };
            let within: Vec<Addr> = places.iter().copied().filter(|at| text.contains(*at)).collect();
            if !within.iter().all(|at| is_entered(&pool, text, *at)) {
                return Some(false);
            }
            // What the dense text has not taken is patched in it.
            let is_in_run = |run: &bis_rewrite::Run| {
                let start = text.mapped(run.start());
                let end = start.wrapping_add(run.len().into());
                Patches::lies_in(text, run) && within.iter().any(|at| start < *at && *at < end)
            };
            if text.file.runs().iter().any(is_in_run) {
                return Some(false);
            }
        }
        Some(true)
    }
}

/// Can this address be gone to in the dense text? Not so in the middle of what has given way to a jump.
fn is_entered(pool: &Pool, text: &TextRange, addr: Addr) -> bool {
    let Some(moved) = pool.enter(addr) else { return true };
    // The first instruction has become the jump.
    let own = text.own(addr);
    let entry = &pool.file.entry;
    let Some(part) = entry.segments.iter().find(|part| part.start <= own && own < part.start + part.len)
    else {
        return false;
    };
    let mut bytes = [0; 5];
    let is_read = entry.text.read_exact_at(&mut bytes, part.at + (own - part.start)).is_ok();
    let [0xe9, displacement @ ..] = bytes else { return false };
    let displacement = i64::from(i32::from_le_bytes(displacement));
    let target = addr.wrapping_add(5).wrapping_add(displacement.cast_unsigned());
    is_read && target == moved
}
