//! How a domain comes to its hooks: a fresh image gets them, and a forked child has its parent's.

use std::{
    fs::{self, File},
    ops::Range,
    os::unix::fs::MetadataExt,
    path::Path,
    sync::{Arc, OnceLock, PoisonError},
};

use bis_agent::{
    AGENT_BASE,
    hooks::{self, state},
};
use bis_trace::{
    event::{Backing, Effect, MemWrite, Outcome},
    ours::{self, AreaKind},
    types::{Addr, Fd, TickKind, Tid, prot},
};
use bis_tracee::{Stopped, TraceeError, address_limit, area::Area, image, maps::Mapping};

use super::{
    Hooks,
    counts::{self, Counts},
    patching::NewText,
    translators,
    watch::Watched,
};
use crate::{
    calls::CLONE_BYTES_MIN,
    crew::Crew,
    error::Result,
    process::Process,
    session::Session,
    space::{Patches, open_mapped},
};

/// What a forked child has of its parent's hooks.
#[derive(Debug)]
pub struct Inherited {
    area: Arc<Area>,
    classes: Vec<(Fd, hooks::FdClass)>,
    /// How often a file had begun to be watched when the classes were right.
    mapped: u64,
    fds_differ: bool,
    /// The ranges that hooks may change.
    plain: Vec<Range<Addr>>,
}

/// The devices of `/proc` and `/sys`. They stay what they are while this process does.
fn devices() -> [u64; 2] {
    static DEVICES: OnceLock<[u64; 2]> = OnceLock::new();
    *DEVICES.get_or_init(|| ["/proc", "/sys"].map(|root| fs::metadata(root).map_or(0, |meta| meta.dev())))
}

impl Hooks {
    /// Hooks for an area whose classes are right if no file has begun to be watched since there were
    /// `mapped`.
    fn new(session: &Session, watched: &Watched, area: Area, patches: &Patches, mapped: u64) -> Hooks {
        let area = Arc::new(area);
        for (offset, word) in (state::OUTPUTS..).step_by(8).zip(session.stdio.inodes()) {
            area.set(offset, word);
        }
        for (offset, device) in (state::DEVICES..).step_by(8).zip(devices()) {
            area.set(offset, device);
        }
        area.set(state::CLONE_MIN, session.cloning.as_ref().map_or(0, |_| CLONE_BYTES_MIN));
        area.set(state::COUNTED, session.ticks.counts_branches().into());
        area.set(state::FILES_ALONE, session.chaos.is_some().into());
        watched.set_hooks(Arc::clone(&area));
        // After that: a domain that watches a file from here on finds the area.
        let is_new = session.watch.mapped() != mapped;
        session.watch.show_files(&area);
        session.kept_files.show(&area);
        if is_new {
            area.forget_files();
        }
        let arenas = patches.arenas.iter().map(|arena| arena.start);
        let arenas = arenas.chain(patches.dense.chunks()).collect();
        *watched.arenas.lock().unwrap_or_else(PoisonError::into_inner) = arenas;
        let counts = Counts::new(&area);
        Hooks { area, counts, fds_differ: false, fds_shared: false, judged: [0; 8], told_cores: [0; 2] }
    }
}

/// What hooks take of a process's address space (their area, trampolines, text that counts) is beside the
/// program's limit of it (RLIMIT_AS), but not where bis itself runs under a hard limit, which it cannot
/// raise. A program that has less room than this, bytes, gets no hooks there: it would get ENOMEM where it
/// has memory without bis.
const ROOM_MIN: u64 = 64 << 20;

impl Process {
    /// Gives a fresh address space its hooks, and patches what is known of its text. To the domain's first
    /// outcome is added what replay needs of it.
    pub fn begin_hooks(
        &mut self,
        slot: &mut Option<Stopped>,
        (executable, folder): (&Path, &Path),
        outcome: &mut Outcome,
    ) -> Result<()> {
        if !self.session.options.hooks {
            return Ok(());
        }
        if self.space.bits() == 32 {
            // They are 64-bit code, for 64-bit calls.
            return Ok(());
        }
        if self.session.traced.is_tracee(self.first_tid) {
            // Its tracer looks at its text, and at each of its calls.
            return Ok(());
        }
        let session = Arc::clone(&self.session);
        let area = match self.map_hooks(slot, executable)? {
            Ok(area) => area,
            Err(why) => {
                let text = format!("task {}: no hooks, all calls are traced: {why}", self.first_tid);
                return session.note(session.writer.next_seq(), text);
            }
        };
        tell_hooks(&self.session, outcome)?;
        let mapped = session.watch.mapped();
        self.hooks = Some(Hooks::new(&session, &self.watched, area, self.space.patches(), mapped));
        self.show_heap();
        self.show_folder_is(folder);
        self.classify_inherited(self.first_tid);
        if self.tasks.values().any(|task| task.traits.wishes.no_tsc) {
            self.forbid_clock(outcome)?;
        }
        Ok(())
    }

    /// Patches the text that a fresh address space begins with. `mappings`: all that it had before the hooks
    /// came; `files`: those that are open already.
    pub fn patch_image(
        &mut self,
        tid: Tid,
        (mappings, files): (&[Mapping], &[(&Mapping, File)]),
        outcome: &mut Outcome,
    ) -> Result<()> {
        if self.hooks.is_none() {
            return Ok(());
        }
        let is_ours = |addr: Addr| (AGENT_BASE..hooks::AREA_BASE).contains(&addr.0);
        for mapping in mappings.iter().filter(|m| m.prot & prot::EXEC != 0 && !is_ours(m.start)) {
            // The vdso is overwritten; the old page of system calls has nothing else, and the kernel makes
            // those.
            if [&b"[vdso]"[..], b"[vsyscall]"].contains(&&mapping.name[..]) {
                continue;
            }
            let opened;
            let file = match files.iter().find(|(other, _)| other.is_of_same_file(mapping)) {
                Some((_, file)) => Some(file),
                None if mapping.inode == 0 => None,
                None => {
                    opened = open_mapped(tid, mapping);
                    opened.as_ref()
                }
            };
            self.watch_image(mapping, file);
            if let Some(file) = file {
                let Mapping { start, end, offset, prot, ref name, .. } = *mapping;
                let text = NewText { range: start..end, offset, prot, name };
                self.add_text(tid, &text, file, outcome)?;
                self.look_for_cpuid(start);
            }
        }
        Ok(())
    }

    /// May the image's text at this address have a `cpuid` that could not be replaced, because nobody tells
    /// where instructions begin there?
    fn look_for_cpuid(&mut self, start: Addr) {
        if self.session.has_cpuid_faulting || self.space.has_own_cpuid() {
            return;
        }
        let cache = self.session.texts.cache();
        let text = self.space.patches().text_at(start);
        let found = text.is_some_and(|text| text.file.may_ask_cpuid(text.part(text.offset), cache));
        if found {
            tracing::info!(domain = %self.id, %start, "cpuid may be asked unseen: it stays on its core");
            self.space.set_own_cpuid();
        }
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
        hooks.area.set_plain(&parent.plain);
        self.hooks = Some(hooks);
        self.show_heap();
        self.show_folder(self.first_tid);
        self.show_clock();
        Ok(())
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
            plain: hooks.area.plain(),
        })
    }
}

impl Crew {
    /// Maps what the hooks need. The inner error: why the program gets none, for people.
    fn map_hooks(
        &self,
        slot: &mut Option<Stopped>,
        executable: &Path,
    ) -> Result<std::result::Result<Area, String>> {
        if let Some(name) = translators::translator(executable) {
            return Ok(Err(format!("{name} reads the text of programs, to translate it")));
        }
        if address_limit::room(self.first_tid).is_some_and(|room| room < ROOM_MIN) {
            let why = "its limit of the address space (ulimit -v) leaves it little more than what it has when it \
                       begins";
            return Ok(Err(why.into()));
        }
        match image::map_hooks(slot, &self.memory, &self.session.hook_image.recorded) {
            Err(TraceeError::OutOfFiles(_)) => {
                Ok(Err("it had no descriptor left when it was executed".into()))
            }
            mapped => Ok(Ok(mapped?)),
        }
    }
}

/// What replay has to map for the hooks, and what of it is bis's own.
fn tell_hooks(session: &Session, outcome: &mut Outcome) -> Result<()> {
    let image = &session.hook_image;
    let file = match image.kept.get() {
        Some(kept) => *kept,
        None => {
            let kept = session.writer.files().keep_bytes(&image.replayed)?.file;
            *image.kept.get_or_init(|| kept)
        }
    };
    let text_len = hooks::AREA_BASE - hooks::TEXT_BASE;
    outcome.effects.push(Effect::Map {
        addr: Addr(hooks::TEXT_BASE),
        len: text_len,
        prot: 5,
        backing: Backing::File { file, offset: 0 },
    });
    outcome.effects.push(Effect::Map {
        addr: Addr(hooks::AREA_BASE),
        len: hooks::AREA_LEN,
        prot: 3,
        backing: Backing::Anonymous,
    });
    let areas = [
        (hooks::TEXT_BASE, text_len, AreaKind::Hooks),
        (hooks::AREA_BASE, hooks::AREA_LEN, AreaKind::HookState),
    ];
    outcome.ours().areas.extend(areas.map(|(addr, len, kind)| ours::Area { addr: Addr(addr), len, kind }));
    outcome.writes.push(MemWrite {
        addr: Addr(hooks::AREA_BASE),
        data: Area::replay_state(session.ticks.counts_branches()),
    });
    if session.ticks.kind() == TickKind::Software {
        outcome.writes.push(counts::full());
    }
    Ok(())
}
