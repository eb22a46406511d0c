//! The recorder's side of the hooks: what a domain does so that its tasks' system calls need not stop.
//!
//! The hooks log the calls that they make; the log becomes an event of the running task right before the task's next
//! event ([`Recorder::drain`](crate::events::Recorder::drain)). One log for each domain is enough, because one of its tasks runs at a time and the log is
//! taken at every event.
//!
//! A task that stops inside of a hook (a signal came, or its supervisor looked after it) is led out of it before
//! anything else happens in the domain:
//!
//! - before its call was made, or when the signal has interrupted the call, the call becomes a traced one, which the
//!   signal then interrupts as it should;
//! - after its call was made, it goes on to the end of the hook and stops there (a *safepoint*), with nothing but the
//!   program's own state in sight, and the signal is delivered.

mod chance;
mod classes;
pub mod clock;
pub mod counts;
pub mod dense;
mod guards;
mod need;
mod patching;
pub mod texts;
mod translators;
pub mod watch;

use std::{
    fs,
    os::unix::fs::MetadataExt,
    sync::{
        Arc, PoisonError,
        atomic::{Ordering, fence},
    },
};

use bis_agent::{
    AGENT_BASE,
    hooks::{self, Cpuid, Row, state},
};
use bis_trace::{
    event::{Backing, Effect, EventKind, MemWrite, Outcome, SignalPoint},
    ours::{self, AreaKind},
    types::{Registers, TickKind, Tid},
};
use bis_tracee::{
    Stopped, TraceeError,
    area::Area,
    cpu, image,
    maps::Mapping,
    siginfo::{Disposition, SigInfo},
};

use crate::{
    base::open_mapped,
    calls::CLONE_BYTES_MIN,
    domain::Domain,
    error::{RecordError, Result},
    session::Session,
    space::Patches,
};
use counts::Counts;
use watch::Watched;

/// The results with which the kernel says that a signal has interrupted a call: EINTR and ERESTART*.
const INTERRUPTED: [i64; 5] = [-4, -512, -513, -514, -516];

/// What is behind the hooks' text in every address space.
#[derive(Debug)]
pub struct HookImage {
    rows: Box<[Row; hooks::CALLS]>,
    /// What the processor says of itself.
    pub cpuid: Vec<Cpuid>,
    recorded: Vec<u8>,
    replayed: Vec<u8>,
}

impl HookImage {
    /// Without the calls of `traced`.
    pub fn new(traced: &[u64]) -> HookImage {
        let cpuid = cpu::cpuid_answers();
        let mut rows = Box::new(hooks::table());
        for row in traced.iter().filter_map(|nr| usize::try_from(*nr).ok()) {
            if let Some(row) = rows.get_mut(row) {
                *row = Row::default();
            }
        }
        let (recorded, replayed) = (hooks::image(false, &cpuid, &rows), hooks::image(true, &cpuid, &rows));
        HookImage { rows, cpuid, recorded, replayed }
    }

    /// May the hooks make this call?
    pub fn is_hooked(&self, nr: u64) -> bool {
        let row = usize::try_from(nr).ok().and_then(|nr| self.rows.get(nr));
        row.is_some_and(|row| row.flags & hooks::flag::HOOKED != 0)
    }
}

/// The hooks of one domain.
#[derive(Debug)]
pub struct Hooks {
    pub area: Arc<Area>,
    pub counts: Counts,
    /// Not all tasks have the same descriptors.
    pub fds_differ: bool,
    /// Somebody of another domain has the same descriptors.
    pub fds_shared: bool,
    /// The calls that are left to be judged (`calls/sandbox.rs`), as the area has them.
    pub judged: [u64; 8],
}

impl Hooks {
    /// Hooks for an area whose classes are right if no file has begun to be watched since there were `mapped`.
    fn new(session: &Session, watched: &Watched, area: Area, patches: &Patches, mapped: u64) -> Hooks {
        let area = Arc::new(area);
        for (offset, word) in (state::OUTPUTS..).step_by(8).zip(session.stdio.inodes()) {
            area.set(offset, word);
        }
        for (offset, root) in (state::DEVICES..).step_by(8).zip(["/proc", "/sys"]) {
            area.set(offset, fs::metadata(root).map_or(0, |meta| meta.dev()));
        }
        area.set(state::CLONE_MIN, session.cloning.as_ref().map_or(0, |_| CLONE_BYTES_MIN));
        area.set(state::COUNTED, session.ticks.counts_branches().into());
        watched.has_hooks(Arc::clone(&area));
        // After that: who watches a file from here on finds the area.
        let is_new = session.watch.mapped() != mapped;
        session.watch.show_files(&area);
        if is_new {
            area.forget_files();
        }
        let arenas = patches.arenas.iter().map(|arena| arena.start);
        let arenas = arenas.chain(patches.dense.chunks()).collect();
        *watched.arenas.lock().unwrap_or_else(PoisonError::into_inner) = arenas;
        let counts = Counts::new(&area);
        Hooks { area, counts, fds_differ: false, fds_shared: false, judged: [0; 8] }
    }
}

impl Domain {
    /// Gives a fresh address space its hooks, and patches what is known of its text. To the domain's first outcome is
    /// added what replay needs of it.
    pub fn begin_hooks(&mut self, slot: &mut Option<Stopped>, outcome: &mut Outcome) -> Result<()> {
        if !self.session.options.hooks {
            return Ok(());
        }
        let session = Arc::clone(&self.session);
        let executable = fs::read_link(format!("/proc/{}/exe", self.first_tid)).unwrap_or_default();
        if let Some(name) = translators::translator(&executable) {
            let text = format!(
                "task {}: no hooks, all calls are traced: {name} reads the text of programs, to translate it",
                self.first_tid
            );
            return session.note(session.writer.next_seq(), text);
        }
        let area = match image::map_hooks(slot, &self.memory, &session.hook_image.recorded) {
            Err(TraceeError::OutOfFiles(_)) => {
                let text = format!(
                    "task {}: no hooks, all calls are traced: it had no descriptor left when it was executed",
                    self.first_tid
                );
                return session.note(session.writer.next_seq(), text);
            }
            other => other?,
        };
        let file = session.writer.files().keep_bytes(&session.hook_image.replayed)?.file;
        let text_len = hooks::AREA_BASE - hooks::TEXT_BASE;
        outcome.effects.push(Effect::Map {
            addr: hooks::TEXT_BASE,
            len: text_len,
            prot: 5,
            backing: Backing::File { file, offset: 0 },
        });
        outcome.effects.push(Effect::Map {
            addr: hooks::AREA_BASE,
            len: hooks::AREA_LEN,
            prot: 3,
            backing: Backing::Anonymous,
        });
        let areas = [
            (hooks::TEXT_BASE, text_len, AreaKind::Hooks),
            (hooks::AREA_BASE, hooks::AREA_LEN, AreaKind::HookState),
        ];
        outcome.ours().areas.extend(areas.map(|(addr, len, kind)| ours::Area { addr, len, kind }));
        outcome.writes.push(MemWrite {
            addr: hooks::AREA_BASE,
            data: Area::replay_state(session.ticks.counts_branches()),
        });
        if session.ticks.kind() == TickKind::Software {
            outcome.writes.push(counts::full());
        }
        let mapped = session.watch.mapped();
        self.hooks = Some(Hooks::new(&session, &self.watched, area, self.space.patches(), mapped));
        self.show_folder(self.first_tid);
        self.classify_inherited(self.first_tid);
        if self.tasks.values().any(|task| task.traits.wishes.no_tsc) {
            self.forbid_clock(outcome)?;
        }
        Ok(())
    }

    /// Patches the text that a fresh address space begins with. `mappings`: all that it had before the hooks came.
    pub fn patch_image(&mut self, tid: Tid, mappings: &[Mapping], outcome: &mut Outcome) -> Result<()> {
        if self.hooks.is_none() {
            return Ok(());
        }
        let is_ours = |addr: u64| (AGENT_BASE..hooks::AREA_BASE).contains(&addr);
        for mapping in mappings.iter().filter(|m| m.prot & 4 != 0 && !is_ours(m.start)) {
            // The vdso is overwritten; the old page of system calls has nothing else, and the kernel makes those.
            if [&b"[vdso]"[..], b"[vsyscall]"].contains(&&mapping.name[..]) {
                continue;
            }
            let file = if mapping.inode == 0 { None } else { open_mapped(tid, mapping) };
            self.watch_image(mapping, file.as_ref());
            if let Some(file) = file {
                self.add_text(tid, (mapping.start, mapping.end), mapping.offset, &file, outcome)?;
            }
        }
        Ok(())
    }

    /// The task has another current folder now: does it lie in /proc?
    pub fn show_folder(&self, tid: Tid) {
        let Some(hooks) = &self.hooks else { return };
        let folder = fs::read_link(format!("/proc/{tid}/cwd")).unwrap_or_default();
        hooks.area.set(state::IN_PROC, folder.starts_with("/proc").into());
    }

    /// A forked child's hooks: its own area in place of the one that it shares with its parent.
    pub fn inherit_hooks(&mut self, slot: &mut Option<Stopped>, parent: Inherited) -> Result<()> {
        let area = parent.area.fork(slot)?;
        if parent.fds_differ {
            area.set(state::NO_FDS, 1);
        } else {
            for (fd, class) in parent.classes {
                area.set_class(fd, class);
            }
        }
        let mut hooks = Hooks::new(&self.session, &self.watched, area, self.space.patches(), parent.mapped);
        (hooks.fds_differ, hooks.fds_shared) = (parent.fds_differ, parent.fds_differ);
        self.hooks = Some(hooks);
        self.show_folder(self.first_tid);
        self.show_clock();
        Ok(())
    }

    /// Somebody of another domain will have the same descriptors (CLONE_FILES), for ever.
    pub fn share_fds(&mut self) {
        if let Some(hooks) = &mut self.hooks {
            hooks.fds_shared = true;
        }
        self.set_fds_differ(true);
    }

    /// What a child that is forked now will have of the hooks.
    pub fn hooks_for_child(&self) -> Option<Inherited> {
        let hooks = self.hooks.as_ref()?;
        let mapped = self.session.watch.mapped();
        Some(Inherited {
            mapped,
            area: Arc::clone(&hooks.area),
            classes: hooks.area.classes(),
            fds_differ: hooks.fds_differ,
        })
    }

    /// Has the hook that has left this call found that it would wait?
    pub fn take_tried(&self) -> bool {
        let Some(hooks) = &self.hooks else { return false };
        let tried = hooks.area.get(state::WAITS) != 0;
        if tried {
            hooks.area.set(state::WAITS, 0);
        }
        tried
    }

    /// Before a task goes on in its program: tells the hooks and the watch thread how things are.
    pub fn prepare(&mut self, tid: Tid) {
        let (alone, takes_turns) = (self.is_alone(), self.tasks.len() > 1 || self.holds_tokens());
        let stashed = self.tasks.get(&tid).is_some_and(|task| !task.stash.is_empty());
        self.watched.takes_turns.store(takes_turns, Ordering::Relaxed);
        self.watched.is_awaited.store(stashed, Ordering::Relaxed);
        if let Some(core) = self.watched.seat.take_wanted() {
            self.core = self.session.cores.move_to(core, self.core);
            self.pin();
        }
        self.watched.seat.runs(tid, self.session.cores.number(self.core));
        self.show_sandbox(tid);
        let Some(hooks) = &self.hooks else { return };
        // What is logged already has been logged as things were.
        if hooks.area.get(state::POS) == 0 {
            hooks.area.set(state::ALONE, alone.into());
        }
        hooks.area.set(state::STOP, stashed.into());
        // Whoever has just told it something has asked it to stop, too, perhaps before that was unsaid.
        fence(Ordering::SeqCst);
        if self.session.views.has_news(self.id) || self.session.mail.has_news(self.id) {
            hooks.area.set(state::STOP, 1);
        }
    }

    /// Where is the task in a hook, if it is in one?
    fn in_hook(&mut self, tid: Tid) -> Result<Option<Registers>> {
        if self.hooks.is_none() {
            return Ok(None);
        }
        let regs = self.stopped(tid)?.regs()?;
        Ok(self.is_in_hooks(regs.rip).then_some(regs))
    }

    /// Is this an address of the hooks, or of what they call?
    pub fn is_in_hooks(&self, rip: u64) -> bool {
        hooks::is_inside(rip)
            || self.space.clock().text.contains(&rip)
            || self.space.patches().is_on_the_way(rip)
    }

    /// Is the task about to make a call that its hook has left to us? A handler that came now would return to before the hook.
    /// Where that takes longer than a timer does (a task that is stepped), the call would never be made.
    pub fn is_left_by_hook(&self, rip: u64) -> bool {
        self.space.patches().is_left(rip)
    }

    /// The task goes on in its hook, and nobody else before it.
    fn go_on(&mut self, tid: Tid) -> Result<()> {
        let task = self.task(tid)?;
        task.standing.go_on_in_hook();
        Ok(())
    }

    /// The task stops with its process, wherever it is.
    pub fn stops_in_hook(&mut self, tid: Tid) -> Result<()> {
        let inside = self.in_hook(tid)?.is_some();
        self.task(tid)?.standing.halt(inside);
        Ok(())
    }

    /// The task is gone, perhaps out of a hook.
    pub fn end_in_hook(&self) {
        if let Some(hooks) = &self.hooks
            && hooks.area.get(state::IN_HOOK) != 0
        {
            for word in
                [state::IN_HOOK, state::PHASE, state::WRITING, state::BAIL, state::EXIT_STOP, state::CUT]
            {
                hooks.area.set(word, 0);
            }
        }
    }

    /// A fault inside of a hook: one of the program's pointers. True: it was that.
    pub fn fault_in_hook(&mut self, tid: Tid) -> Result<bool> {
        let Some(regs) = self.in_hook(tid)? else { return Ok(false) };
        if !(hooks::COPY..hooks::COPY_FAULT).contains(&regs.rip) {
            return Err(RecordError::Bug { tid, what: format!("a fault in the hooks at {:#x}", regs.rip) });
        }
        self.stopped(tid)?.set_regs(&Registers { rip: hooks::COPY_FAULT, ..regs })?;
        self.go_on(tid)?;
        Ok(true)
    }

    /// A signal for a handler finds the task in a hook. True: it was that, and the signal is kept.
    pub fn signal_in_hook(&mut self, tid: Tid, info: &SigInfo) -> Result<bool> {
        let signal = info.signal();
        let others = self.tasks.len() > 1 || self.holds_tokens();
        match self.kernels_disposition(tid, signal) {
            Disposition::Handler => {}
            Disposition::Ignore => return self.ignored_in_hook(tid),
            // It would stop in the hook, and all others could not come to where they stop.
            Disposition::Stop if others => {}
            _ => return Ok(false),
        }
        let Some(regs) = self.in_hook(tid)? else { return Ok(false) };
        let interrupts = self.call_off(tid, &regs)?;
        self.keep_back(tid, *info)?;
        self.task(tid)?.interrupts = interrupts.then_some(signal);
        if !interrupts && let Some(hooks) = &self.hooks {
            let phase = hooks.area.get(state::PHASE);
            // On its way out of the hook, it stops at the next one.
            hooks.area.set(if phase == 0 { state::STOP } else { state::EXIT_STOP }, 1);
        }
        // What of its calls could tell has been made, or is not made in the hook.
        self.hush(tid)?;
        self.go_on(tid)?;
        Ok(true)
    }

    /// A signal that is ignored finds the task in a hook. Without a tracer it would not have come: where it has ended a call that the
    /// kernel does not make again by itself, the call becomes a traced one. True: it was that.
    fn ignored_in_hook(&mut self, tid: Tid) -> Result<bool> {
        let Some(regs) = self.in_hook(tid)? else { return Ok(false) };
        let is_ended = regs.rip == hooks::SYSCALL_END && regs.result() == INTERRUPTED[0];
        if !is_ended || !self.call_off(tid, &regs)? {
            return Ok(false);
        }
        self.go_on(tid)?;
        Ok(true)
    }

    /// Turns the call of the hook that the task is in into a traced one, if it has not been made. False: it has.
    fn call_off(&mut self, tid: Tid, regs: &Registers) -> Result<bool> {
        let Some(hooks) = &self.hooks else { return Ok(false) };
        if hooks.area.get(state::PHASE) != 1 {
            return Ok(false);
        }
        let interrupted = regs.rip == hooks::SYSCALL_END && INTERRUPTED.contains(&regs.result());
        if regs.rip == hooks::SYSCALL || interrupted {
            let bailed = Registers { rip: hooks::BAILED, orig_rax: u64::MAX, ..*regs };
            self.stopped(tid)?.set_regs(&bailed)?;
            return Ok(true);
        }
        if regs.rip == hooks::SYSCALL_END {
            return Ok(false);
        }
        hooks.area.set(state::BAIL, 1);
        if (hooks::MAKE_CHECK..hooks::SYSCALL).contains(&regs.rip) {
            // It looks again: the branch there is made once, as in replay.
            let check = Registers { rip: hooks::MAKE_CHECK, orig_rax: u64::MAX, ..*regs };
            self.stopped(tid)?.set_regs(&check)?;
        }
        Ok(true)
    }

    /// The task has stopped because its supervisor wanted to look after it.
    pub fn looked_after(&mut self, tid: Tid) -> Result<()> {
        if let Some(regs) = self.in_hook(tid)? {
            self.call_off(tid, &regs)?;
            return self.go_on(tid);
        }
        let in_call = self.task(tid)?.call.is_some();
        if !in_call && self.interrupted(tid)? {
            return Ok(());
        }
        if self.in_hook(tid)?.is_some() {
            return self.go_on(tid);
        }
        let task = self.task(tid)?;
        task.standing.set_midway(!in_call);
        task.standing.go_on();
        Ok(())
    }

    /// A hook has ended and the task stopped there, for a signal or for what others have sent.
    pub fn safepoint(&mut self, tid: Tid, entry: &Registers) -> Result<()> {
        let Some(hooks) = &self.hooks else {
            return Err(RecordError::Bug { tid, what: "a safepoint without hooks".into() });
        };
        let (done, rax) = (hooks.area.get(state::DONE), hooks.area.get(state::SAVED_RAX));
        let is_whole = hooks.area.get(state::WHOLE) != 0;
        let [rcx, r11] = [state::SAVED_RCX, state::SAVED_R11].map(|word| hooks.area.get(word));
        hooks.area.set(state::WHOLE, 0);
        let (rcx, r11) = if is_whole { (rcx, r11) } else { (done, entry.r11) };
        let regs = Registers { rip: done, rcx, r11, rax, orig_rax: u64::MAX, ..*entry };
        self.stopped(tid)?.set_regs(&regs)?;
        self.drain(tid)?;
        let cut = self.cut_in_hook();
        let has_effects = is_whole || cut.is_some();
        if has_effects || !self.deliver_stashed(tid, &regs, SignalPoint::AfterHook)? {
            // For what others have sent, or what the hook itself could not say.
            let mut outcome = Outcome { regs, ..Outcome::default() };
            if let Some(fd) = cut {
                self.tell_cut(tid, fd, &mut outcome)?;
            }
            self.take_mail(&mut outcome)?;
            self.stopped(tid)?.set_regs(&regs)?;
            self.task(tid)?.standing.go_on();
            let (nr, outcome) = (hooks::SAFEPOINT, Box::new(outcome));
            self.event(tid, EventKind::Syscall { nr, entry: *entry, outcome })?;
            self.return_borrowed()?;
            if has_effects {
                self.deliver_stashed(tid, &regs, SignalPoint::AfterEvent)?;
            }
        }
        Ok(())
    }

    /// The descriptor with which a hook has cut a mapped file, if one has since this was last asked.
    fn cut_in_hook(&self) -> Option<i32> {
        let area = &self.hooks.as_ref()?.area;
        let fd = area.get(state::CUT).checked_sub(1)?;
        area.set(state::CUT, 0);
        i32::try_from(fd).ok()
    }

    /// Before a signal's frame is built: the address that the program knows.
    pub fn original_rip(&self, rip: u64) -> u64 {
        self.space.patches().original(rip)
    }

    /// Where a task goes on that is to go on there.
    pub fn patched_rip(&self, rip: u64) -> u64 {
        self.space.patches().enter(rip)
    }

    /// Where a task has to stand whose interrupted call the kernel is to make again.
    pub fn again_rip(&self, rip: u64) -> u64 {
        self.space.patches().again(rip)
    }

    /// A task with descriptors of its own joins the domain (vfork), or one that shared them is alone again.
    pub fn set_fds_differ(&mut self, differ: bool) {
        if let Some(hooks) = &mut self.hooks {
            let differ = differ || hooks.fds_shared;
            hooks.fds_differ = differ;
            hooks.area.forget_classes();
            hooks.area.set(state::NO_FDS, differ.into());
        }
    }
}

/// What a forked child has of its parent's hooks.
#[derive(Debug)]
pub struct Inherited {
    area: Arc<Area>,
    classes: Vec<(i32, hooks::FdClass)>,
    /// How often a file had begun to be watched when the classes were right.
    mapped: u64,
    fds_differ: bool,
}
