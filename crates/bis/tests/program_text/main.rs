//! What a trace says of the program's own text is true.
//!
//! Real programs (none of which writes to its own text) are recorded, and their events gone through without
//! replaying them: what mappings and writes make of an address space is kept here, as far as files are
//! mapped. At each event that changes anything:
//! - all text, with what the trace says put over it, has the bytes that the program's file has on the disk;
//!   so has the vdso those of ours;
//! - each instruction that has moved is the same one in its place, and our jumps lead where they are said to;
//! - the places of events are places of the program: a call is made right behind a system call instruction.

mod cases;
#[path = "../common/mod.rs"]
mod common;
mod instructions;
mod mappings;

use std::{
    collections::{BTreeMap, HashMap},
    ffi::OsStr,
    fs::{self, File},
    os::unix::{ffi::OsStrExt, fs::FileExt},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use bis_agent::hooks;
use bis_replay::ours::{Exit, ProgramText, Shown, TextFiles};
use bis_trace::{
    Trace,
    event::{Backing, Base, Effect, Event, EventKind, Meta, Outcome, PausePlace},
    ours::Ours,
    types::{Addr, DomainId, EventSeq, FileId, PAGE},
};
use cases::{
    CASES, Case,
    Sight::{self, Count, Dense, Fork, Guard, HookedCall, Moved, Own, Patch, Patched, Vdso},
};
use common::{Folder, Step};
use instructions::{decode, decode_in, same_instruction};
use libtest_mimic::{Failed, Trial};
use mappings::{Mapping, Mappings};

const LIMIT: Duration = Duration::from_secs(60);
const EXEC: u32 = 4;

fn main() {
    let trial = |case: &'static Case| {
        Trial::test(case.name, move || common::repeated(|| run(case)))
            .with_ignored_flag(case.argv.first() == Some(&"python3") && !common::installed("python3"))
    };
    let mut trials: Vec<Trial> = CASES.iter().map(trial).collect();
    trials.push(Trial::test("refused_calls_stop_once", refused_calls_stop_once));
    libtest_mimic::run(&common::arguments(), trials).exit();
}

/// A call that is refused (each process of glibc asks for restartable sequences) stops until its instruction
/// is known, as one that is made does.
fn refused_calls_stop_once() -> Result<(), Failed> {
    let folder = Folder::new("program_text.refused")?;
    let mut stops = Vec::new();
    for number in 0..2 {
        let trace = folder.path().join(format!("trace.{number}"));
        let command = common::record_command(&trace, &[], &["true".as_ref()], folder.path());
        let recorded = common::run(command, "record", folder.path(), None, LIMIT)?;
        let mut dump = common::command(common::bis(), folder.path());
        dump.arg("dump").arg(&trace);
        let dump = common::run(dump, "dump", folder.path(), None, LIMIT)?;
        if recorded.status != 0 || dump.status != 0 {
            return Err(format!("{}\n{}", recorded.shown(), dump.shown()).into());
        }
        // What a hook has done stands as "rseq = ".
        let text = String::from_utf8(dump.stdout)?;
        stops.push(text.lines().filter(|line| line.contains(" rseq(")).count());
    }
    if stops[1] != 0 {
        return Err(format!("stops for rseq in the first recording and in the second: {stops:?}").into());
    }
    folder.done();
    Ok(())
}

fn failed(error: impl std::fmt::Display) -> Failed {
    error.to_string().into()
}

fn record(case: &Case, folder: &Folder) -> Result<(PathBuf, Step), Failed> {
    let program = folder.path().join("program");
    let mut argv: Vec<&OsStr> = case.argv.iter().map(OsStr::new).collect();
    if let Some(guest) = case.guest {
        common::compile(&common::tree().join("tests/guests").join(guest), &program)?;
        argv = vec![program.as_os_str()];
    }
    let trace = folder.path().join("trace");
    // The first one learns the sites.
    let mut step = None;
    for _ in 0..2 {
        let _ = fs::remove_dir_all(&trace);
        let command = common::record_command(&trace, case.flags, &argv, folder.path());
        let recorded = common::run(command, "record", folder.path(), None, LIMIT)?;
        if recorded.status != 0 {
            return Err(format!("failed to record\n{}", recorded.shown()).into());
        }
        step = Some(recorded);
    }
    Ok((trace, step.ok_or("nothing was recorded")?))
}

fn run(case: &Case) -> Result<(), Failed> {
    let folder = Folder::new(&format!("text.{}", case.name))?;
    let (dir, recorded) = record(case, &folder)?;
    common::replay_and_compare(&dir, &recorded, folder.path(), LIMIT)?;
    let trace = Trace::open(&dir).map_err(failed)?;
    if !trace.says_ours() {
        return Err("the trace does not say what is bis's own".into());
    }
    let paths = trace.metas().filter_map(|meta| match meta {
        Meta::File(entry) => Some((entry.file, PathBuf::from(OsStr::from_bytes(&entry.path)))),
        _ => None,
    });
    let mut walk = Walk {
        trace: &trace,
        paths: paths.collect(),
        contents: HashMap::new(),
        files: TextFiles::default(),
        vdso: own_vdso(),
        forks: HashMap::new(),
        sights: Vec::new(),
        text_checks: 0,
    };
    for entry in trace.domains() {
        walk.domain(entry.domain, &entry.base)
            .map_err(|error| format!("{} (domain {})", error.message().unwrap_or("?"), entry.domain))?;
    }
    for sight in case.shows {
        if !walk.sights.contains(sight) {
            return Err(format!("nothing was seen of {sight:?}; only {:?}", walk.sights).into());
        }
    }
    if walk.text_checks < 3 {
        return Err(format!("only {} texts were compared", walk.text_checks).into());
    }
    folder.done();
    Ok(())
}

/// This process's own vdso: all have the same.
fn own_vdso() -> Option<Vec<u8>> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let line = maps.lines().find(|line| line.ends_with("[vdso]"))?;
    let (start, end) = line.split_whitespace().next()?.split_once('-')?;
    let (start, end) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
    let mut bytes = vec![0; usize::try_from(end - start).ok()?];
    File::open("/proc/self/mem").ok()?.read_exact_at(&mut bytes, start).ok()?;
    Some(bytes)
}

/// A recorded address space as replay would have it, and as the program believes it.
#[derive(Clone, Default)]
struct Space {
    actual: Mappings,
    believed: Mappings,
    /// Pages that are not what their mapping shows.
    pages: BTreeMap<u64, Arc<Vec<u8>>>,
    text: ProgramText,
}

struct Walk<'t> {
    trace: &'t Trace,
    paths: HashMap<FileId, PathBuf>,
    contents: HashMap<FileId, Arc<Vec<u8>>>,
    files: TextFiles,
    vdso: Option<Vec<u8>>,
    /// What children have that are forked at an event.
    forks: HashMap<(DomainId, EventSeq), Space>,
    sights: Vec<Sight>,
    text_checks: u32,
}

impl Walk<'_> {
    fn see(&mut self, sight: Sight, is_there: bool) {
        if is_there && !self.sights.contains(&sight) {
            self.sights.push(sight);
        }
    }

    fn domain(&mut self, domain: DomainId, base: &Base) -> Result<(), Failed> {
        let mut space = match base {
            Base::Exec { .. } | Base::Image { .. } => {
                Space { text: ProgramText::new(self.files.clone()), ..Space::default() }
            }
            Base::Fork { parent, at } => {
                self.see(Fork, true);
                self.forks.get(&(*parent, *at)).cloned().ok_or("a fork without a parent")?
            }
        };
        for event in self.trace.events(domain) {
            let event = event.map_err(failed)?;
            let fail = |error: Failed| format!("event {}: {}", event.seq, error.message().unwrap_or("?"));
            self.place(&event, &space).map_err(fail)?;
            let Some(outcome) = event.outcome() else { continue };
            let before = space.text.version();
            self.apply(outcome, &mut space).map_err(fail)?;
            let forks = |effect: &Effect| matches!(effect, Effect::Fork { .. });
            if outcome.effects.iter().any(forks) {
                self.forks.insert((domain, event.seq), space.clone());
            }
            if space.text.version() != before || matches!(event.kind, EventKind::TaskExit { .. }) {
                self.check(&space).map_err(fail)?;
            }
        }
        Ok(())
    }

    fn content(&mut self, file: FileId) -> Result<Arc<Vec<u8>>, Failed> {
        if let Some(content) = self.contents.get(&file) {
            return Ok(Arc::clone(content));
        }
        let opened = self.trace.open_file(file).map_err(failed)?;
        let mut bytes = vec![0; usize::try_from(opened.metadata()?.len())?];
        opened.read_exact_at(&mut bytes, 0)?;
        let content = Arc::new(bytes);
        self.contents.insert(file, Arc::clone(&content));
        Ok(content)
    }

    /// What memory holds there, with zeros where nothing is mapped.
    fn memory(&mut self, space: &Space, start: u64, len: u64) -> Result<Vec<u8>, Failed> {
        let mut bytes = vec![0; usize::try_from(len)?];
        for (from, mapping) in space.actual.part(start, start + len) {
            let Some((file, offset)) = mapping.file else { continue };
            let content = self.content(file)?;
            let first = usize::try_from(offset)?.min(content.len());
            let shown = &content[first..content.len().min(first + usize::try_from(mapping.end - from)?)];
            bytes[usize::try_from(from - start)?..][..shown.len()].copy_from_slice(shown);
        }
        for (page, content) in space.pages.range(start & !(PAGE - 1)..start + len) {
            let (from, to) = ((*page).max(start), (page + PAGE).min(start + len));
            let part = &content[usize::try_from(from - page)?..usize::try_from(to - page)?];
            bytes[usize::try_from(from - start)?..][..part.len()].copy_from_slice(part);
        }
        Ok(bytes)
    }

    fn write(&mut self, space: &mut Space, addr: u64, data: &[u8]) -> Result<(), Failed> {
        let mut done = 0;
        while done < data.len() {
            let at = addr + done as u64;
            let (page, from) = (at & !(PAGE - 1), usize::try_from(at % PAGE)?);
            let len = (data.len() - done).min(4096 - from);
            // Only text is looked at, so only pages of files are kept, and those of the vdso and of arenas.
            let is_text = |(_, one): &(u64, Mapping)| one.file.is_some() || one.prot & EXEC != 0;
            if space.actual.part(page, page + PAGE).iter().any(is_text) {
                let mut content = match space.pages.get(&page) {
                    Some(content) => content.to_vec(),
                    None => self.memory(space, page, PAGE)?,
                };
                content[from..from + len].copy_from_slice(&data[done..done + len]);
                space.pages.insert(page, Arc::new(content));
            }
            done += len;
        }
        Ok(())
    }

    fn apply(&mut self, outcome: &Outcome, space: &mut Space) -> Result<(), Failed> {
        let ours = outcome.ours.as_deref();
        let is_mapped_by_us = |ours: &Ours, addr: Addr| {
            ours.dense.iter().any(|text| text.addr == addr)
                || ours.patched.iter().any(|text| text.addr == addr)
        };
        let counts = |map: &Effect| {
            let Effect::Map { addr, backing: Backing::File { file, .. }, .. } = map else { return false };
            // The first mapping there is the program's own.
            let is_set =
                |ours: &Ours| ours.patched.iter().all(|text| text.addr != *addr || text.set == *file);
            ours.is_some_and(|ours| is_mapped_by_us(ours, *addr) && is_set(ours))
        };
        for effect in &outcome.effects {
            match *effect {
                Effect::Map { addr: Addr(addr), len, prot, ref backing } => {
                    let file = match backing {
                        Backing::File { file, offset } => Some((*file, *offset)),
                        _ => None,
                    };
                    let end = addr + len.next_multiple_of(PAGE);
                    let mapping = Mapping { end, file, prot };
                    space.actual.insert(addr, mapping);
                    if !counts(effect) {
                        space.believed.insert(addr, mapping);
                    }
                    space.pages.retain(|page, _| *page < addr || end <= *page);
                }
                Effect::Unmap { addr: Addr(addr), len } => {
                    let end = addr + len.next_multiple_of(PAGE);
                    space.actual.remove(addr, end);
                    space.believed.remove(addr, end);
                    space.pages.retain(|page, _| *page < addr || end <= *page);
                }
                Effect::Protect { addr: Addr(addr), len, prot } => {
                    let end = addr + len.next_multiple_of(PAGE);
                    for mappings in [&mut space.actual, &mut space.believed] {
                        for (start, mapping) in mappings.part(addr, end) {
                            mappings.insert(start, Mapping { prot, ..mapping });
                        }
                    }
                }
                Effect::Remap { addr: Addr(addr), old_len, new_addr: Addr(new_addr), new_len, keep } => {
                    let parts = space.actual.part(addr, addr + old_len.min(new_len));
                    if !keep && addr != new_addr {
                        space.actual.remove(addr, addr + old_len);
                        space.believed.remove(addr, addr + old_len);
                    }
                    if parts.iter().any(|(_, one)| one.prot & EXEC != 0) {
                        return Err("text is moved, which this test does not follow".into());
                    }
                    space.actual.remove(new_addr, new_addr + new_len);
                    space.believed.remove(new_addr, new_addr + new_len);
                }
                Effect::Advise { addr: Addr(addr), len, advice: 4 } => {
                    space.pages.retain(|page, _| *page < addr || addr + len <= *page);
                }
                _ => {}
            }
        }
        for write in &outcome.writes {
            self.write(space, write.addr.0, &write.data)?;
        }
        let trace = self.trace;
        space.text.apply(outcome, |file| trace.open_file(file)).map_err(failed)?;
        if let Some(ours) = ours {
            self.see(Patch, !ours.patches.is_empty());
            self.see(Patched, !ours.patched.is_empty());
            self.see(Sight::Fault, !ours.faults.is_empty());
            self.see(Guard, !ours.guards.is_empty());
            self.see(Dense, !ours.dense.is_empty());
            self.see(Own, !ours.own.is_empty());
        }
        Ok(())
    }

    /// All text has the bytes that the program's files have, and all that has moved is the same elsewhere.
    fn check(&mut self, space: &Space) -> Result<(), Failed> {
        let own: Vec<(u64, Mapping)> = space.believed.part(0, u64::MAX);
        let guards: Vec<u64> = space.text.guards().map(|(page, _)| page.0).collect();
        for (start, mapping) in own {
            let Some((file, offset)) = mapping.file else { continue };
            let is_guarded = guards.iter().any(|page| (start..mapping.end).contains(page));
            if mapping.prot & EXEC == 0 && !is_guarded || space.text.is_ours(Addr(start)) {
                continue;
            }
            let len = mapping.end - start;
            let mut shown = self.memory(space, start, len)?;
            space.text.show(Addr(start), &mut shown).map_err(failed)?;
            let expected = self.on_disk(file, offset, len)?;
            if let Some(at) = shown.iter().zip(&expected).position(|(a, b)| a != b) {
                let (found, wanted) = (&shown[at..], &expected[at..]);
                return Err(format!(
                    "{:#x} is shown as {:02x?}, and the file has {:02x?}",
                    start + at as u64,
                    &found[..found.len().min(16)],
                    &wanted[..wanted.len().min(16)]
                )
                .into());
            }
            self.text_checks += 1;
        }
        self.check_vdso(space)?;
        self.check_copies(space)
    }

    fn on_disk(&mut self, file: FileId, offset: u64, len: u64) -> Result<Vec<u8>, Failed> {
        let path = self.paths.get(&file).ok_or("a file without an entry")?;
        let content = match fs::metadata(path) {
            Ok(_) if !path.starts_with("/proc") => {
                let mut bytes = vec![0; usize::try_from(len)?];
                let mut at = 0;
                let disk = File::open(path)?;
                while at < bytes.len() {
                    match disk.read_at(&mut bytes[at..], offset + at as u64)? {
                        0 => break,
                        read => at += read,
                    }
                }
                return Ok(bytes);
            }
            _ => self.content(file)?,
        };
        let first = usize::try_from(offset)?.min(content.len());
        let len = usize::try_from(len)?;
        let mut bytes = content[first..content.len().min(first + len)].to_vec();
        bytes.resize(len, 0);
        Ok(bytes)
    }

    fn check_vdso(&mut self, space: &Space) -> Result<(), Failed> {
        let Some(vdso) = self.vdso.clone() else { return Ok(()) };
        let len = vdso.len() as u64;
        // The only executable memory of no file that is not ours, and as long as that.
        let is_it = |(start, one): &(u64, Mapping)| {
            one.file.is_none() && one.prot == 5 && one.end - start == len && !space.text.is_ours(Addr(*start))
        };
        let Some((start, _)) = space.believed.part(0, u64::MAX).into_iter().find(is_it) else {
            return Ok(());
        };
        let plain = self.memory(space, start, len)?;
        let mut shown = plain.clone();
        space.text.show(Addr(start), &mut shown).map_err(failed)?;
        if !shown.starts_with(b"\x7fELF") {
            return Ok(());
        }
        self.see(Vdso, plain != vdso);
        match shown.iter().zip(&vdso).position(|(a, b)| a != b) {
            Some(at) => Err(format!("the vdso is shown with another byte at {at:#x}").into()),
            None => Ok(()),
        }
    }

    fn check_copies(&mut self, space: &Space) -> Result<(), Failed> {
        let text = &space.text;
        let copies: Vec<(u64, u64)> = text.copies().map(|(addr, copy)| (addr.0, copy.0)).collect();
        // Read in one piece: there are tens of thousands.
        let mut ranges = HashMap::new();
        for range in text.ours() {
            let bytes = self.memory(space, range.start.0, range.end - range.start)?;
            ranges.insert(range.start.0, bytes);
        }
        let starts: BTreeMap<u64, &Vec<u8>> = ranges.iter().map(|(start, bytes)| (*start, bytes)).collect();
        let at_copy = |copy: u64| -> Option<&[u8]> {
            let (start, bytes) = starts.range(..=copy).next_back()?;
            bytes.get(usize::try_from(copy - start).ok()?..)
        };
        let mut texts: BTreeMap<u64, (Vec<u8>, Vec<u8>)> = BTreeMap::new();
        for (start, mapping) in space.believed.part(0, u64::MAX) {
            if mapping.prot & EXEC != 0 && mapping.file.is_some() {
                let plain = self.memory(space, start, mapping.end - start)?;
                let mut shown = plain.clone();
                text.show(Addr(start), &mut shown).map_err(failed)?;
                texts.insert(start, (plain, shown));
            }
        }
        let mut jumps = 0;
        for (addr, copy) in copies {
            let wrong = |what: &str| format!("{addr:#x}, whose copy is at {copy:#x}: {what}");
            let found = text.original(Addr(copy));
            if found != (Shown::Program { addr: Addr(addr) }) {
                return Err(wrong(&format!("the copy is shown as {found:?}")).into());
            }
            let Some((start, (plain, shown))) = texts.range(..=addr).next_back() else { continue };
            let at = usize::try_from(addr - start)?;
            let (Some(own), Some(moved)) = (shown.get(at..), at_copy(copy)) else { continue };
            let places: Vec<u64> = text.places(Addr(addr)).iter().map(|place| place.0).collect();
            if !places.contains(&copy) {
                return Err(wrong(&format!("its places are {places:x?}")).into());
            }
            // The first of a run has become a jump, if its text has given way now.
            let jump = decode(&plain[at..], addr);
            let jump = if plain[at] == 0xe9 { jump.near_branch64() } else { 0 };
            if text.is_ours(Addr(jump)) {
                jumps += 1;
                if text.leads_to(Addr(addr)) != Some(Addr(jump)) || places[0] != jump {
                    return Err(wrong(&format!("the jump there leads to {jump:#x}")).into());
                }
            }
            let Some(own) = decode_in(own, addr) else { continue };
            // It is executed in the text exactly where its bytes are there.
            let around = at.saturating_sub(32)..(at + 32).min(plain.len());
            let is_changed = plain[around.clone()] != shown[around];
            let is_there = plain[at..at + own.len()] == shown[at..at + own.len()];
            if places.contains(&addr) && !is_there || !places.contains(&addr) && !is_changed {
                return Err(
                    wrong(&format!("its places are {places:x?}, its bytes in the text: {is_there}")).into()
                );
            }
            same_instruction(&own, &decode(moved, copy)).map_err(|what| wrong(&what))?;
            self.sights.extend((jumps > 0 && !self.sights.contains(&Moved)).then_some(Moved));
        }
        Ok(())
    }

    /// Where a task stands at an event is a place of the program.
    fn place(&mut self, event: &Event, space: &Space) -> Result<(), Failed> {
        let text = &space.text;
        let call = match &event.kind {
            EventKind::Syscall { nr, entry, .. } | EventKind::SyscallEnter { nr, entry } => {
                Some((*nr, entry))
            }
            EventKind::Pause(pause) => {
                self.see(Count, matches!(pause.place, PausePlace::Count(_)) && pause.trap != 0);
                let shown = text.original(pause.regs.ip());
                if shown == Shown::Nowhere {
                    return Err(format!("a pause at {:#x} is nowhere", pause.regs.rip).into());
                }
                if pause.trap != 0 && !matches!(text.original(Addr(pause.trap - 1)), Shown::Within { .. }) {
                    return Err(format!("the trap before {:#x} is {shown:?}", pause.trap).into());
                }
                None
            }
            _ => None,
        };
        let Some((nr, entry)) = call else { return Ok(()) };
        let shown = text.original(entry.ip());
        let (addr, in_vdso) = match shown {
            Shown::Program { addr } => (addr, false),
            Shown::Within { addr, exit: Exit::Return } => (addr, true),
            Shown::Hook if nr == hooks::SAFEPOINT => return Ok(()),
            other => return Err(format!("a call at {:#x} is {other:?}", entry.rip).into()),
        };
        if entry.ip() != addr {
            self.see(HookedCall, true);
            let site = text.hooked_site(entry.ip()).ok_or("a call behind no site")?;
            if site.done != entry.ip() || site.insn.is_some() || !in_vdso && site.addr + 2 != addr {
                return Err(format!("a call at {:#x} is one of {site:x?}", entry.rip).into());
            }
        }
        if in_vdso {
            return Ok(());
        }
        let is_text = |(_, one): &(u64, Mapping)| one.file.is_some() && one.prot & EXEC != 0;
        if space.believed.part(addr.0 - 2, addr.0).iter().any(is_text) {
            let mut bytes = self.memory(space, addr.0 - 2, 2)?;
            text.show(addr - 2, &mut bytes).map_err(failed)?;
            if bytes != [0x0f, 0x05] {
                return Err(format!("a call is made behind {:#x}, where {bytes:02x?} is", addr - 2).into());
            }
        }
        Ok(())
    }
}
