//! The files whose text may be patched, as far as all domains share what is known of them.

use std::{
    collections::{HashMap, HashSet},
    fs::{File, Metadata, OpenOptions},
    io,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use bis_rewrite::{
    CHANCE_PREFIXES_MAX, DenseCache, DenseEntry, DenseLayout, DenseName, DenseOptions, DenseOrder, Key,
    Learned, Reason, Run, Scan, SiteCache, SiteKind, SiteKinds, Span, Text, chance_bytes, clock_bytes,
    cpuid_bytes, is_chance,
};
use bis_trace::types::{Addr, FileId, PAGE, Tid};
use bis_tracee::{
    proc,
    sys::{self, MappedFile},
};
use object::{
    LittleEndian,
    elf::{FileHeader64, PT_LOAD},
    read::elf::{FileHeader, ProgramHeader},
};

use crate::space::{KnownSets, MadePatches, Originals};

/// Device, inode, length and modification time, and the hash of the content where that is known: a changed
/// file is another one.
type Identity = (u64, u64, u64, i64, i64, Option<[u8; 32]>);

/// A file by its content in the trace, and by its own device and inode.
type KeptFile = (FileId, u64, u64);

/// A part of a file that is mapped where the file's own addresses say, plus a bias.
#[derive(Clone, Copy, Debug)]
struct Segment {
    offset: u64,
    vaddr: u64,
    len: u64,
}

/// The instruction of that name.
const CPUID: [u8; 2] = [0x0f, 0xa2];

/// A file with text in it.
pub struct TextFile {
    /// Device and inode of the file. It is not kept open: the program could not unmount its file system.
    identity: (u64, u64),
    /// What it has, where nobody changes it, if the trace keeps that; else the file itself.
    content: File,
    segments: Vec<Segment>,
    /// All of it.
    elf: MappedFile,
    text: Text<'static>,
    /// The name of its content, if that is known.
    key: Option<Key>,
    /// What was found, here or in earlier recordings.
    learned: Mutex<Places>,
    /// Where parts of the file have the bytes of rdtsc, and of what else is special: every process maps the
    /// same ones.
    scanned: Mutex<Vec<Scan>>,
    /// Which parts may have a `cpuid` that is not known to be one: each process of a browser asks.
    asks_cpuid: Mutex<HashMap<(u64, u64), bool>>,
    /// Short loops count. All processes of a recording share one dense text.
    short_loops: OnceLock<bool>,
    /// Its dense texts; none where there cannot be one.
    dense: Mutex<HashMap<DenseName, Option<Arc<DenseFile>>>>,
}

/// What is missing before a text can count.
#[derive(Debug)]
pub enum Lacks {
    /// It is there.
    Nothing,
    /// There can be none that way.
    All,
    /// This is to be made.
    One(DenseOrder),
}

/// A dense text that the trace keeps.
#[derive(Debug)]
pub struct DenseFile {
    pub entry: DenseEntry,
    /// The text in the trace, and the map.
    pub kept: (FileId, FileId),
}

impl std::fmt::Debug for TextFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TextFile").field("segments", &self.segments).finish_non_exhaustive()
    }
}

/// What is known of places, in the order in which it was found. Some files have thousands, which each process
/// asks for.
#[derive(Default)]
struct Places {
    all: Vec<Learned>,
    /// By address: which one.
    by_site: HashMap<u64, usize>,
}

impl Places {
    fn of(learned: Vec<Learned>) -> Places {
        let mut places = Places::default();
        learned.into_iter().for_each(|place| places.add(place));
        places
    }

    fn add(&mut self, place: Learned) {
        self.by_site.entry(place.site()).or_insert(self.all.len());
        self.all.push(place);
    }

    fn at(&self, site: u64) -> Option<&Learned> {
        self.by_site.get(&site).map(|index| &self.all[*index])
    }

    /// What is known of the opcode there, which may have prefixes before it.
    fn of_chance(&self, site: u64) -> Option<&Learned> {
        let begins = site.saturating_sub(CHANCE_PREFIXES_MAX)..=site;
        begins.rev().filter_map(|begin| self.at(begin)).find(|known| known.is_of_chance(site))
    }
}

/// A part of a file as a mapping shows it.
#[derive(Clone, Copy, Debug)]
pub struct MappedPart {
    /// Where it begins in the file, and how many bytes of it the mapping has.
    pub offset: u64,
    pub len: u64,
    /// The file's own address of its first byte.
    pub first: u64,
}

impl MappedPart {
    fn range(&self) -> (u64, u64) {
        (self.offset, self.len)
    }
}

/// Places of one kind: how they are looked for.
struct Look {
    /// Their offsets in a part of a file.
    places: fn(&Scan) -> &[u64],
    known: fn(&Places, u64) -> Option<&Learned>,
    find: fn(&Text<'static>, u64) -> Learned,
}

/// Looks through all of a text, of which little will be looked at again.
fn scan(part: (u64, u64), shown: &[u8], file: MappedFile) -> Scan {
    let offsets = |found: Vec<usize>| found.into_iter().map(|at| at as u64).collect();
    let has_cpuid = is_sought(SiteKind::Cpuid);
    let mut chances = chance_bytes(shown);
    if has_cpuid {
        chances.extend(cpuid_bytes(shown));
    }
    let scan = Scan { part, has_cpuid, clocks: offsets(clock_bytes(shown)), chances: offsets(chances) };
    file.forget(shown);
    scan
}

fn segments(elf: &[u8]) -> Option<Vec<Segment>> {
    let header = FileHeader64::<LittleEndian>::parse(elf).ok()?;
    let parts = header.program_headers(LittleEndian, elf).ok()?;
    let loaded = parts.iter().filter(|part| part.p_type(LittleEndian) == PT_LOAD);
    let segment = |part: &object::elf::ProgramHeader64<LittleEndian>| Segment {
        offset: part.p_offset(LittleEndian),
        vaddr: part.p_vaddr(LittleEndian),
        len: part.p_filesz(LittleEndian),
    };
    Some(loaded.map(segment).collect())
}

impl TextFile {
    /// `content` is what `file` has, where nobody changes it: what is remembered is told of that.
    fn open(
        file: &File,
        (key, content): (Option<Key>, &File),
        cache: Option<&SiteCache>,
    ) -> Option<TextFile> {
        let meta = file.metadata().ok()?;
        let (content, elf) = (content.try_clone().ok()?, sys::map_file(content).ok()?);
        let (segments, text) =
            (segments(elf.bytes())?, Text::parse(elf.bytes()).ok()?.telling(move |part| elf.forget(part)));
        let (learned, scanned) = cache
            .zip(key.as_ref())
            .map_or_else(Default::default, |(cache, key)| (cache.load(key), cache.scans(key)));
        // Its headers have been read.
        elf.forget(elf.bytes());
        Some(TextFile {
            identity: (meta.dev(), meta.ino()),
            content,
            segments,
            elf,
            text,
            key,
            learned: Mutex::new(Places::of(learned)),
            scanned: Mutex::new(scanned),
            asks_cpuid: Mutex::default(),
            short_loops: OnceLock::new(),
            dense: Mutex::default(),
        })
    }

    /// The file's own addresses that it has in memory: the first, and the end.
    pub fn extent(&self) -> (u64, u64) {
        let first = self.segments.iter().map(|part| part.vaddr).min().unwrap_or(0);
        let end = self.segments.iter().map(|part| part.vaddr + part.len).max().unwrap_or(0);
        (first, end)
    }

    /// The file, opened for reading by the path that this task knows it by; what it has, where it is not
    /// there any more.
    ///
    /// # Errors
    /// Where no descriptor is left.
    pub fn open_again(&self, tid: Tid, path: &Path) -> io::Result<File> {
        let inside = path.strip_prefix("/").unwrap_or(path);
        // A pipe may have its name by now, which would wait for a writer.
        let again = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(proc::path(tid, "root").join(inside));
        let is_it = |file: &File| file.metadata().is_ok_and(|meta| (meta.dev(), meta.ino()) == self.identity);
        again.ok().filter(is_it).map_or_else(|| self.content.try_clone(), Ok)
    }

    /// A part of the file: so many bytes from this offset, or as many as there are.
    fn part(&self, (offset, len): (u64, u64)) -> &[u8] {
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(self.elf.bytes().len());
        let shown = &self.elf.bytes()[from..];
        &shown[..usize::try_from(len).unwrap_or(usize::MAX).min(shown.len())]
    }

    /// The bytes that a mapping shows from `offset`: behind the file's end, zeros.
    pub fn shown(&self, offset: u64, len: u64) -> Vec<u8> {
        let mut bytes = self.part((offset, len)).to_vec();
        bytes.resize(usize::try_from(len).unwrap_or(0), 0);
        bytes
    }

    /// Calls `take` with what a look through a part (offset, length) of the file finds, of which `shown` is
    /// what there is: here, or in an earlier recording.
    fn with_scan<T>(
        &self,
        part: (u64, u64),
        shown: &[u8],
        cache: Option<&SiteCache>,
        take: impl FnOnce(&Scan) -> T,
    ) -> T {
        let mut scanned = self.scanned.lock().unwrap_or_else(PoisonError::into_inner);
        let has_cpuid = is_sought(SiteKind::Cpuid);
        // Damage that goes unnoticed could name places that are not there.
        let is_in = |places: &[u64]| places.iter().all(|at| *at < shown.len() as u64);
        let known = scanned.iter().position(|scan| {
            (scan.part, scan.has_cpuid) == (part, has_cpuid) && is_in(&scan.clocks) && is_in(&scan.chances)
        });
        if let Some(known) = known {
            return take(&scanned[known]);
        }
        let found = scan(part, shown, self.elf);
        let result = take(&found);
        scanned.push(found);
        if let (Some(cache), Some(key)) = (cache, &self.key)
            && let Err(error) = cache.set_scans(key, &scanned)
        {
            tracing::info!(%error, "what was found of a file is not remembered");
        }
        result
    }

    fn counts_short_loops(&self, key: &Key, cache: &DenseCache) -> bool {
        *self.short_loops.get_or_init(|| cache.counts_short_loops(key))
    }

    /// What is missing for the dense text whose trampolines lie as `layout` says, with `kinds` of sites
    /// hooked?
    pub fn lacks(&self, cache: &DenseCache, kinds: SiteKinds, layout: DenseLayout) -> Lacks {
        let Some(key) = self.key else { return Lacks::All };
        let short_loops = self.counts_short_loops(&key, cache);
        let options = DenseOptions { short_loops, hooks: kinds };
        let order = DenseOrder { key, options, layout };
        let name = order.name();
        match self.dense.lock().unwrap_or_else(PoisonError::into_inner).get(&name) {
            Some(Some(_)) => Lacks::Nothing,
            Some(None) => Lacks::All,
            None if cache.is_made(&name) => Lacks::Nothing,
            None if cache.is_refused(&name) => Lacks::All,
            None => Lacks::One(order),
        }
    }

    /// A task was caught where the dense text does not count: later processes count in this file's short
    /// loops, too.
    pub fn learn_loops(&self, cache: &DenseCache) {
        if let Some(key) = &self.key
            && !self.counts_short_loops(key, cache)
            && let Err(error) = cache.count_short_loops(key)
        {
            tracing::info!(%error, "a short loop is not remembered");
        }
    }

    /// The dense text whose trampolines lie `distance` bytes above the file's own addresses, made if it is
    /// not there yet; `keep` puts it into the trace. None where there can be none, with `kinds` of sites
    /// hooked as `layout` says.
    pub fn dense(
        &self,
        cache: &DenseCache,
        kinds: SiteKinds,
        layout: &DenseLayout,
        keep: impl FnOnce(&DenseEntry) -> Option<(FileId, FileId)>,
    ) -> Option<Arc<DenseFile>> {
        let key = self.key.as_ref()?;
        let short_loops = self.counts_short_loops(key, cache);
        let options = DenseOptions { short_loops, hooks: kinds };
        let name = DenseName::of(key, options, 0, layout);
        let mut dense = self.dense.lock().unwrap_or_else(PoisonError::into_inner);
        let make = || {
            let entry = cache.load(&name).or_else(|| {
                if cache.is_refused(&name) {
                    return None;
                }
                let made = self.text.dense(options).build(0, layout);
                let refuse = |error: &bis_rewrite::Error| {
                    tracing::info!(%error, "a text is not counted");
                    if let Err(error) = cache.refuse(&name) {
                        tracing::info!(%error, "that is not remembered");
                    }
                };
                let made = made.inspect_err(refuse).ok()?;
                let stored = cache.store(&name, &made);
                stored.inspect_err(|error| tracing::warn!(%error, "failed to write a dense text")).ok()
            })?;
            let kept = keep(&entry)?;
            Some(Arc::new(DenseFile { entry, kept }))
        };
        dense.entry(name).or_insert_with(make).clone()
    }

    /// What a mapping of the file from `offset` at `addr` adds to the file's own addresses.
    pub fn bias(&self, addr: Addr, offset: u64) -> Option<u64> {
        let holds = |part: &&Segment| part.offset & !(PAGE - 1) <= offset && offset < part.offset + part.len;
        let part = self.segments.iter().find(holds)?;
        Some(addr.0.wrapping_sub(part.vaddr.wrapping_sub(part.offset).wrapping_add(offset)))
    }

    /// The instructions from this address of the file on that may give way to a jump for a while.
    pub fn span_at(&self, vaddr: u64) -> Option<Span> {
        self.text.span_at(vaddr).ok()
    }

    /// What is at each place of a mapping that has the bytes of an instruction which reads the time stamp
    /// counter. None where such bytes might go on behind the mapping.
    pub fn clocks(&self, part: MappedPart, cache: Option<&SiteCache>) -> Option<Vec<Learned>> {
        let shown = self.part(part.range());
        if shown.len() as u64 == part.len && (shown.ends_with(&[0x0f]) || shown.ends_with(&[0x0f, 0x01])) {
            return None;
        }
        let look =
            Look { places: |scan| &scan.clocks, known: Places::at, find: |text, site| text.clock_at(site) };
        Some(self.look(part, cache, &look))
    }

    /// What is at each place of a mapping (as for [`TextFile::clocks`]) that has the opcode of an instruction
    /// which asks the processor for a number, begins a transaction, or, where nothing makes it fault, asks
    /// the processor about itself.
    pub fn chances(&self, part: MappedPart, cache: Option<&SiteCache>) -> Vec<Learned> {
        let look = Look {
            places: |scan| &scan.chances,
            known: Places::of_chance,
            find: |text, site| text.chance_at(site),
        };
        self.look(part, cache, &look)
    }

    /// May a part of the file have a `cpuid` where it is not known what the bytes are?
    pub fn may_ask_cpuid(&self, part: MappedPart, cache: Option<&SiteCache>) -> bool {
        let mut known = self.asks_cpuid.lock().unwrap_or_else(PoisonError::into_inner);
        *known.entry(part.range()).or_insert_with(|| self.looks_like_cpuid(part, cache))
    }

    fn looks_like_cpuid(&self, part: MappedPart, cache: Option<&SiteCache>) -> bool {
        let bytes = self.part(part.range());
        let is_there = |site: u64| {
            let at = usize::try_from(site.wrapping_sub(part.first)).unwrap_or(usize::MAX);
            bytes.get(at..).is_some_and(|rest| rest.starts_with(&CPUID))
        };
        self.chances(part, cache).iter().any(
            |found| matches!(found, Learned::Refused { site, reason: Reason::Undecoded } if is_there(*site)),
        )
    }

    /// What is at each of such places in a part of the file. What was not known yet is remembered.
    fn look(&self, part: MappedPart, cache: Option<&SiteCache>, look: &Look) -> Vec<Learned> {
        let mut learned = self.learned.lock().unwrap_or_else(PoisonError::into_inner);
        let mut news = Vec::new();
        let mut at = |offset: &u64| {
            let site = part.first.wrapping_add(*offset);
            if let Some(known) = (look.known)(&learned, site) {
                return known.clone();
            }
            let found = (look.find)(&self.text, site);
            learned.add(found.clone());
            news.push(found.clone());
            found
        };
        let found = self.with_scan(part.range(), self.part(part.range()), cache, |scan| {
            (look.places)(scan).iter().map(&mut at).collect()
        });
        if let (Some(cache), Some(key)) = (cache, &self.key)
            && let Err(error) = cache.add(key, &news)
        {
            tracing::info!(%error, "what was found of a file is not remembered");
        }
        found
    }

    /// How many places are known.
    pub fn places(&self) -> usize {
        self.learned.lock().unwrap_or_else(PoisonError::into_inner).all.len()
    }

    /// Bytes of the file.
    pub fn len(&self) -> u64 {
        self.elf.bytes().len() as u64
    }

    /// The runs that are known.
    pub fn runs(&self) -> Vec<Run> {
        let learned = self.learned.lock().unwrap_or_else(PoisonError::into_inner);
        let run = |learned: &Learned| match learned {
            Learned::Run(run) => Some(run.clone()),
            _ => None,
        };
        learned.all.iter().filter_map(run).collect()
    }

    /// The run around the instruction at this address of the file, which the program has executed; remembered
    /// for later domains and recordings.
    pub fn learn(&self, site: u64, cache: Option<&SiteCache>) -> Option<Run> {
        let mut learned = self.learned.lock().unwrap_or_else(PoisonError::into_inner);
        let found = learned.at(site).cloned().unwrap_or_else(|| {
            let found = match self.text.run_at(site) {
                Ok(run) => Learned::Run(run),
                Err(reason) => match self.text.chance_at(site) {
                    // A cpuid: where nothing makes it fault, something that does takes its place.
                    found @ Learned::Clock { .. } => found,
                    _ => {
                        tracing::debug!(site = format_args!("{site:#x}"), %reason, "a site stays as it is");
                        Learned::Refused { site, reason }
                    }
                },
            };
            learned.add(found.clone());
            if let (Some(cache), Some(key)) = (cache, &self.key)
                && let Err(error) = cache.add(key, std::slice::from_ref(&found))
            {
                tracing::info!(%error, "a site is not remembered");
            }
            found
        });
        match found {
            Learned::Run(run) => Some(run),
            _ => None,
        }
    }
}

/// All files with text that a recording has seen.
#[derive(Debug)]
pub struct Texts {
    cache: Option<SiteCache>,
    dense: Option<DenseCache>,
    /// Dense texts that others were asked to make.
    asked: Mutex<HashSet<DenseName>>,
    files: Mutex<HashMap<Identity, Option<Arc<TextFile>>>>,
    /// Files whose content the trace keeps, as they are mapped.
    kept: Mutex<HashMap<KeptFile, Option<Arc<TextFile>>>>,
    /// What has been made of them.
    pub made: MadePatches,
    pub sets: KnownSets,
    /// In place of what the dense texts show.
    pub originals: Originals,
}

impl Texts {
    /// `folder` is where sites are remembered between recordings; without it, or where it cannot be written,
    /// they are found anew each time. With `dense_bytes_max`, dense texts will be asked for; they are kept
    /// beside them, and have no more than these bytes together.
    pub fn new(folder: Option<&PathBuf>, dense_bytes_max: Option<u64>) -> Texts {
        let cache = folder.and_then(|folder| match SiteCache::open(folder) {
            Ok(cache) => Some(cache),
            Err(error) => {
                tracing::info!(%error, folder = %folder.display(), "sites are not remembered");
                None
            }
        });
        let dense = folder.zip(dense_bytes_max).and_then(|(folder, bytes_max)| {
            let dense = DenseCache::open(&folder.with_file_name("dense"), bytes_max);
            let failed =
                |error: &_| tracing::warn!(%error, "failed to open the folder of the dense texts: nothing is counted");
            dense.inspect_err(failed).ok()
        });
        let (asked, files, kept) = (Mutex::default(), Mutex::default(), Mutex::default());
        let (made, sets, originals) = (MadePatches::default(), KnownSets::default(), Originals::default());
        Texts { cache, dense, asked, files, kept, made, sets, originals }
    }

    /// Where dense texts are kept; none: there can be none.
    pub fn dense(&self) -> Option<&DenseCache> {
        self.dense.as_ref()
    }

    /// Notes that this text is asked for. True: nobody in this recording was asked to make it before.
    pub fn note_asked(&self, name: DenseName) -> bool {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).insert(name)
    }

    pub fn cache(&self) -> Option<&SiteCache> {
        self.cache.as_ref()
    }

    /// What is known of a kept file without looking at it: what [`Texts::of_kept`] has found before. None: it
    /// was not asked.
    #[expect(clippy::option_option, reason = "known to have no text is something else than not known")]
    pub fn known(&self, kept: FileId, meta: &Metadata) -> Option<Option<Arc<TextFile>>> {
        let known = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&(kept, meta.dev(), meta.ino())).cloned()
    }

    /// As [`Texts::of`], but `content` is only asked for where no mapping of this kept file was seen
    /// before.
    pub fn of_kept(
        &self,
        file: &File,
        kept: Option<FileId>,
        content: impl FnOnce() -> Option<([u8; 32], File)>,
    ) -> Option<Arc<TextFile>> {
        let Some(kept) = kept else { return self.of(file, None) };
        let meta = file.metadata().ok()?;
        let name = (kept, meta.dev(), meta.ino());
        let known = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(text) = known().get(&name) {
            return text.clone();
        }
        let text = self.of(file, content());
        known().insert(name, text.clone());
        text
    }

    /// What is known of a file; none if it has no text that could be patched. `kept` is the hash of its
    /// content, and that itself, as the trace keeps it; without them, nothing is remembered.
    pub fn of(&self, file: &File, kept: Option<([u8; 32], File)>) -> Option<Arc<TextFile>> {
        let digest = kept.as_ref().map(|(digest, _)| *digest);
        let meta = file.metadata().ok()?;
        let identity = (meta.dev(), meta.ino(), meta.size(), meta.mtime(), meta.mtime_nsec(), digest);
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let open = || {
            let content = kept.as_ref().map_or(file, |(_, content)| content);
            TextFile::open(file, (digest.as_ref().map(Key::of_content), content), self.cache.as_ref())
        };
        files.entry(identity).or_insert_with(|| open().map(Arc::new)).clone()
    }
}

/// Is every instruction of this kind looked for as soon as its text is mapped? Others are made to fault, or
/// are calls.
pub(super) fn is_sought(kind: SiteKind) -> bool {
    static CPUID_FAULTS: OnceLock<bool> = OnceLock::new();
    is_chance(kind) || kind == SiteKind::Cpuid && !CPUID_FAULTS.get_or_init(sys::has_cpuid_faulting)
}
