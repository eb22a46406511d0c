//! The base of a stream that begins with a process that was found running: an image of it as it stands.
//!
//! The image is told by the same effects as that of an exec, and by what memory holds. Files that are mapped
//! are kept in the trace; of their pages, those are told that the process has written to. Other memory is
//! told whole, but for zeros; where it is much, events behind the base have it. All other tasks are made by
//! an effect, with all of their registers.
//!
//! What the recorder knows of other processes from their beginning on, it asks the kernel here: what the
//! kernel is to write when a thread ends, how nice the process is, on which cores it wants to run. The text
//! is patched as that of a fresh image, though threads stand anywhere in it. Each thread goes on where the
//! patches lead. An instruction into whose middle something in memory may lead is left as it is.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    ops::Range,
    sync::Arc,
};

use bis_agent::{AGENT_BASE, OURS, hooks};
use bis_trace::{
    event::{Backing, Base, Effect, EventKind, MemWrite, Outcome, SignalEvent, SignalPoint},
    types::{Addr, DomainId, Registers, Signal, Tid, prot},
};
use bis_tracee::{
    Memory, TraceeError,
    found::{Found, FoundError, Prepared, Thread, is_in_the_way},
    handover::Parked,
    maps::{self, Mapping},
    names,
    pagemap::{Page, PageMap},
    proc,
    remote::Remote,
    siginfo::SigInfo,
    sys,
    vdso::Vdso,
};

use crate::{
    base::{Started, say_ours},
    chaos::Chaos,
    crew::with_slot,
    domain::Domain,
    error::{RecordError, Result},
    events::Recorder,
    process::Process,
    session::Session,
    space::{AddressSpace, content_within, open_mapped, stack_floor, stack_limit_or_most},
    task::{Named, Task, ToStop, Traits, Wishes, parent_of},
};

/// Of the memory of its own that a process has, what is more than this is in events of its own.
const BASE_BYTES_MAX: u64 = 64 << 20;

/// Bytes that are looked at for one of those.
const PIECE: usize = 8 << 20;

/// Whose content may wait until the base is told: plain memory, in which nothing of ours is put.
fn may_wait(mapping: &Mapping) -> bool {
    mapping.inode == 0
        && !mapping.shared
        && mapping.prot & prot::EXEC == 0
        && (mapping.name.is_empty() || mapping.name == b"[heap]" || mapping.name.starts_with(b"[anon"))
}

/// How much memory of its own a process has there, bytes.
fn own_bytes(pages: &PageMap, mapping: &Mapping) -> u64 {
    let mut own = 0;
    let add = |from: Addr, to: Addr| own += to - from;
    let _ = pages.each_run(mapping.start, mapping.end, Page::is_own, add);
    own
}

/// Is there anything in it that an image cannot tell? Before anything is changed.
fn check(pid: Tid, mappings: &[Mapping]) -> Result<(), FoundError> {
    let unsupported = |what: String| Err(FoundError::Unsupported { pid, what });
    if mappings.iter().any(is_in_the_way) {
        return unsupported(format!("it has memory at {AGENT_BASE:#x}, where bis needs some"));
    }
    for mapping in mappings.iter().filter(|mapping| !mapping.is_vvar()) {
        let name = String::from_utf8_lossy(&mapping.name);
        let is_memory = ["/dev/shm/", "/dev/zero"].iter().any(|known| name.starts_with(known));
        if name.starts_with("/dev/") && !is_memory {
            return unsupported(format!("it has mapped the device {name}"));
        }
        if mapping.shared && mapping.inode != 0 && open_mapped(pid, mapping).is_none() {
            return unsupported(format!(
                "it has memory that it may share with others, which bis cannot read ({name}; root can)"
            ));
        }
    }
    Ok(())
}

/// What a thread has asked of the kernel before it was found.
fn traits_of(session: &Session, tid: Tid, has_rseq: bool) -> Traits {
    const NO_RANDOMIZE: u32 = libc::ADDR_NO_RANDOMIZE as u32;
    const READ_IMPLIES_EXEC: u32 = libc::READ_IMPLIES_EXEC as u32;
    let personality = proc::personality(tid);
    let status = proc::Fields::of(tid);
    let wishes = Wishes {
        no_randomize: Some(personality & NO_RANDOMIZE != 0),
        reads_execute: personality & READ_IMPLIES_EXEC != 0,
        no_new_privs: status.is_some_and(|status| status.text("NoNewPrivs") == Some("1")),
        has_rseq,
        ..Wishes::default()
    };
    if let Some(cores) = sys::get_affinity(tid).ok().filter(|cores| *cores != session.cores.original) {
        session.affinities.set(tid, cores);
    }
    let nice = proc::Stat::of(tid).ok().and_then(|stat| stat.nice()).unwrap_or(0);
    Traits { nice, wishes, reads_tsc: false, segv: None }
}

/// The streams whose edges the process has asked for before it was found: chaos does not shorten what it
/// reads and writes there.
fn note_edges(chaos: &Chaos, pid: Tid) {
    for entry in fs::read_dir(proc::path(pid, "fdinfo")).into_iter().flatten().flatten() {
        let text = proc::read_text(entry.path()).unwrap_or_default();
        text.lines().filter_map(edges_at).for_each(|inode| chaos.note_edges(inode));
    }
}

/// The number of the inode in a line of an epoll's /proc/PID/fdinfo, if that epoll tells of its edges
/// (EPOLLET).
fn edges_at(line: &str) -> Option<u64> {
    let words = || line.strip_prefix("tfd:").into_iter().flat_map(str::split_whitespace);
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let events = words().skip_while(|word| *word != "events:").nth(1).and_then(hex)?;
    let inode = words().find_map(|word| word.strip_prefix("ino:")).and_then(hex);
    inode.filter(|_| events & u64::from(libc::EPOLLET.cast_unsigned()) != 0)
}

/// The tasks of a process that was found, and where its heap ends.
fn tasks_of(
    session: &Session,
    pid: Tid,
    traits: &BTreeMap<Tid, Traits>,
    threads: Vec<Thread>,
) -> Result<(Vec<Task>, u64)> {
    let (mut tasks, mut brk) = (Vec::new(), 0);
    for Thread { stopped, is_halted, clear_tid } in threads {
        let tid = stopped.tid();
        let mut slot = Some(stopped);
        if tid == pid {
            let mut remote = Remote::new(&mut slot)?;
            brk = remote.must("find the heap", libc::SYS_brk, [0; 6])?;
            remote.finish()?;
        }
        let Some(stopped) = slot else {
            return Err(RecordError::Bug { tid, what: "lost while its image was made".into() });
        };
        let traits = traits.get(&tid).cloned().unwrap_or_default();
        let own_name = session.own_name(tid);
        let named = Named::with_clear_tid(clear_tid);
        let to_stop = ToStop::of_process(is_halted);
        tasks.push(Task { named, traits, to_stop, own_name, ..Task::new(stopped, pid) });
    }
    Ok((tasks, brk))
}

/// The words in memory that may lead into one of these texts, in order: return addresses, and what a
/// handler's frame or a coroutine has kept of an interrupted computation.
fn pointers_into(texts: &[Range<Addr>], writes: &[MemWrite]) -> BTreeSet<Addr> {
    let (Some(from), Some(to)) =
        (texts.iter().map(|text| text.start).min(), texts.iter().map(|text| text.end).max())
    else {
        return BTreeSet::new();
    };
    let mut found = BTreeSet::new();
    for MemWrite { addr, data } in writes {
        let skipped = usize::try_from(addr.0.wrapping_neg() % 8).unwrap_or(0);
        let words = data.get(skipped..).unwrap_or_default().chunks_exact(8);
        for word in words.filter_map(|word| word.try_into().ok().map(u64::from_le_bytes)).map(Addr) {
            if from <= word && word < to && texts.iter().any(|text| text.contains(&word)) {
                found.insert(word);
            }
        }
    }
    found
}

/// Opens the memory of a process that can be recorded from where it stands. Nothing of it is changed.
///
/// # Errors
/// Where it cannot, or was killed meanwhile.
pub fn look(found: &Found) -> Result<Memory> {
    check(found.pid(), &found.mappings()?)?;
    Ok(Memory::open(found.pid())?)
}

/// A process that was found, and is a recorded one from here on.
#[derive(Debug)]
pub struct Image {
    pid: Tid,
    traits: BTreeMap<Tid, Traits>,
    prepared: Prepared,
}

impl Image {
    /// Asks what there is to know of a process, whose memory [`look`] has opened, and makes it a recorded
    /// one.
    ///
    /// # Errors
    /// Where it was killed meanwhile.
    pub fn of(session: &Session, found: Found, memory: &Memory) -> Result<Image> {
        let pid = found.pid();
        if names::own(pid).is_some_and(|own| own != pid) {
            session.expect_namespaces();
        }
        // A thread that has just begun has not registered them yet.
        let has_rseq = found.tids().any(|tid| sys::rseq_of(tid).is_some());
        let traits = found.tids().map(|tid| (tid, traits_of(session, tid, has_rseq))).collect();
        session.limits.begin(pid);
        if let Some(chaos) = &session.chaos {
            note_edges(chaos, pid);
        }
        Ok(Image { pid, traits, prepared: found.prepare(memory)? })
    }

    /// This image, with threads that nobody traces until another supervisor takes them over.
    ///
    /// # Errors
    /// Where it was killed meanwhile.
    pub fn park(self) -> Result<ParkedImage> {
        let Image { pid, traits, prepared: Prepared { threads, vdso } } = self;
        let park = |thread: Thread| Ok((Parked::park(thread.stopped)?, thread.clear_tid));
        Ok(ParkedImage { pid, traits, threads: threads.into_iter().map(park).collect::<Result<_>>()?, vdso })
    }
}

/// An [`Image`] on its way from one supervisor to another.
#[derive(Debug)]
pub struct ParkedImage {
    pid: Tid,
    traits: BTreeMap<Tid, Traits>,
    /// Each with the address that the kernel clears at its end.
    threads: Vec<(Parked, Addr)>,
    vdso: Option<Vdso>,
}

impl ParkedImage {
    /// A domain around the process, whose tracer the calling thread becomes; writes its first event. None: it
    /// was killed meanwhile.
    pub fn begin(self, session: &Arc<Session>) -> Result<Option<Domain>> {
        let ParkedImage { pid, traits, threads, vdso } = self;
        let id = session.new_domain_id();
        // Kept until the domain has it.
        let (core, _watched) = session.settle(id);
        let mut seized = Vec::new();
        for (parked, clear_tid) in threads {
            match session.halted.take_over(parked) {
                Ok((stopped, is_halted)) => seized.push(Thread { stopped, is_halted, clear_tid }),
                // All of them were: they end with this thread.
                Err(TraceeError::Died(_)) => {
                    session.cores.leave(core);
                    return Ok(None);
                }
                Err(error) => return Err(error.into()),
            }
        }
        let image = Image { pid, traits, prepared: Prepared { threads: seized, vdso } };
        Domain::from_image(session, id, core, image).map(Some)
    }
}

impl Domain {
    /// A domain around a process that runs already, whose tracer the calling thread becomes; writes its first
    /// event.
    pub fn from_found(session: &Arc<Session>, pid: Tid) -> Result<Domain> {
        let id = session.new_domain_id();
        // Kept until the domain has it.
        let (core, _watched) = session.settle(id);
        let found = Found::seize(pid)?;
        let memory = look(&found)?;
        let image = Image::of(session, found, &memory)?;
        session.set_root(pid);
        Domain::from_image(session, id, core, image)
    }

    fn from_image(session: &Arc<Session>, id: DomainId, core: usize, image: Image) -> Result<Domain> {
        let Image { pid, traits, prepared: Prepared { threads, vdso } } = image;
        let memory = Memory::open(pid)?;
        session.mail.join(pid, id);
        let (tasks, brk) = tasks_of(session, pid, &traits, threads)?;
        let mut tasks = tasks.into_iter();
        let Some(task) = tasks.next() else {
            return Err(RecordError::Bug { tid: pid, what: "a process without a thread".into() });
        };
        let mappings = maps::read(pid)?;
        let mut outcome = Outcome::default();
        if let Some(stack) = mappings.iter().find(|mapping| mapping.name == b"[stack]") {
            let floor = stack_floor(&mappings, stack, stack_limit_or_most(pid));
            let (len, prot) = (stack.end - floor, stack.prot);
            outcome.effects.push(Effect::Map { addr: floor, len, prot, backing: Backing::Stack });
        }
        let mut space = AddressSpace::fresh(Addr(brk), &outcome.effects);
        space.set_stack_limit(stack_limit_or_most(pid));
        let mut domain = Domain::new(session, id, memory, space, task, core);
        for task in tasks {
            domain.turns.join(task.tid);
            domain.tasks.insert(task.tid, task);
        }
        domain.pin();
        let waiting = domain.tell_mappings(pid, &mappings, &mut outcome)?;
        say_ours(vdso.as_ref(), &mut outcome);
        domain.hook_found(pid, (&mappings, &waiting), vdso.as_ref(), &mut outcome)?;
        // Not before it has its hooks: without, it would be told its core, and stay there.
        domain.settle_on_core(pid);
        session.cores.stay(domain.core);
        domain.pin();
        domain.tell_threads(pid, &mut outcome)?;
        let tids: Vec<Tid> = domain.tasks.keys().copied().collect();
        for tid in tids {
            domain.begin_clock(tid)?;
        }
        let Started { path, argv, envp, cwd } = Started::of(pid);
        let auxv = fs::read(proc::path(pid, "auxv")).unwrap_or_default();
        let regs = outcome.regs;
        domain.recorder().start(parent_of(pid), Base::Image { path, argv, envp, cwd, auxv }, outcome)?;
        domain.recorder().tell_waiting(pid, &regs, &waiting)?;
        Ok(domain)
    }

    /// Tells what the process has mapped, with what is in it. The answer is the mappings whose content is
    /// left for events behind the base, which would be too large with it.
    fn tell_mappings(
        &mut self,
        pid: Tid,
        mappings: &[Mapping],
        outcome: &mut Outcome,
    ) -> Result<Vec<Mapping>> {
        let mut waiting = Vec::new();
        let pages =
            PageMap::open(pid).map_err(|source| RecordError::Os { what: "read the page map", source })?;
        let mut told = 0;
        for mapping in mappings.iter().filter(|m| !m.is_vvar() && m.start != Addr(AGENT_BASE)) {
            told += own_bytes(&pages, mapping);
            if told > BASE_BYTES_MAX && may_wait(mapping) {
                let Mapping { start: addr, prot, .. } = *mapping;
                let (len, backing) = (mapping.len(), Backing::Anonymous);
                outcome.effects.push(Effect::Map { addr, len, prot, backing });
                waiting.push(mapping.clone());
            } else {
                self.tell_mapping(pid, mapping, outcome)?;
            }
        }
        Ok(waiting)
    }
}

impl Recorder<'_> {
    /// Tells what this memory holds, which the base has only mapped: in events of the first task, which has
    /// not executed anything. As where a tracer has changed memory, they are signals that leave the task
    /// where it is.
    fn tell_waiting(&mut self, pid: Tid, regs: &Registers, waiting: &[Mapping]) -> Result<()> {
        for mapping in waiting {
            for start in Addr::steps(mapping.start..mapping.end, PIECE) {
                let part = start..mapping.end.min(start + PIECE as u64);
                let writes = content_within(pid, &self.memory, mapping, part)?;
                if writes.is_empty() {
                    continue;
                }
                let (signal, point, before) = (Signal::TRAP, SignalPoint::AfterEvent, *regs);
                let siginfo = SigInfo([0; 128]).of_signal(signal).0.to_vec();
                let handler = Some(Outcome { regs: *regs, writes, ..Outcome::default() });
                let event = SignalEvent { signal, siginfo, point, before, handler };
                self.event(pid, EventKind::Signal(Box::new(event)))?;
            }
        }
        Ok(())
    }
}

impl Process {
    /// Gives a process that runs already its hooks, where there is room for them, and patches its text: but
    /// not where a thread may come back into the middle of a patch by what it has in memory.
    fn hook_found(
        &mut self,
        pid: Tid,
        (mappings, waiting): (&[Mapping], &[Mapping]),
        vdso: Option<&Vdso>,
        outcome: &mut Outcome,
    ) -> Result<()> {
        let is_taken = |m: &Mapping| m.start < Addr(OURS.end) && hooks::TEXT_BASE < m.end.0;
        if mappings.iter().any(is_taken) {
            let text =
                format!("process {pid}: no hooks, all calls are traced: it has memory where they would be");
            return self.session.note(self.session.writer.next_seq(), text);
        }
        let texts = mappings.iter().filter(|m| m.prot & prot::EXEC != 0).map(|m| m.start..m.end);
        let texts = texts.collect::<Vec<_>>();
        let mut avoided = pointers_into(&texts, &outcome.writes);
        for mapping in waiting {
            for start in Addr::steps(mapping.start..mapping.end, PIECE) {
                let part = start..mapping.end.min(start + PIECE as u64);
                let writes = content_within(pid, &self.memory, mapping, part)?;
                avoided.extend(pointers_into(&texts, &writes));
            }
        }
        self.space.patches_mut().avoid(avoided.into_iter().collect());
        let executable = proc::executable(pid).unwrap_or_default();
        let folder = proc::link(pid, "cwd").unwrap_or_default();
        with_slot(self, pid, |process, slot| process.begin_hooks(slot, (&executable, &folder), outcome))?;
        self.patch_image(pid, (mappings, &[]), outcome)?;
        self.patch_vdso(pid, vdso, outcome)
    }

    /// Tells of all threads where they stand. One that would go on in the middle of a patch does so where
    /// that leads to.
    fn tell_threads(&mut self, pid: Tid, outcome: &mut Outcome) -> Result<()> {
        let tids: Vec<Tid> = self.tasks.keys().copied().collect();
        for tid in tids {
            let (regs, xstate) = with_slot(self, tid, |process, slot| {
                let Some(stopped) = slot else {
                    return Err(RecordError::Bug { tid, what: "lost while its image was made".into() });
                };
                let regs = stopped.regs()?;
                let rip = process.space.patched_rip(regs.ip()).0;
                if rip != regs.rip {
                    stopped.set_regs(&Registers { rip, ..regs })?;
                }
                Ok((Registers { rip, orig_rax: u64::MAX, ..regs }, Some(stopped.xstate()?)))
            })?;
            if tid == pid {
                (outcome.regs, outcome.xstate) = (regs, xstate);
            } else {
                outcome.effects.push(Effect::NewTask { tid, regs, xstate });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoll_says_of_what_it_tells_edges() {
        let line = |events| {
            format!("tfd:        5 events: {events:>8} data:                5  pos:0 ino:4f2a sdev:8")
        };
        assert_eq!(edges_at(&line("8000001d")), Some(0x4f2a));
        assert_eq!(edges_at(&line("1d")), None);
        assert_eq!(edges_at("pos:	0"), None);
    }
}
