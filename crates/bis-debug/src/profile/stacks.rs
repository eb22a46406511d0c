//! Stacks of replayed tasks, as names of functions.
//!
//! Programs are compiled without frame pointers, so stacks are unwound by the tables of the trace's own files
//! (`.eh_frame`), which is `framehop`'s work. A file without such tables, and code that is made at run time,
//! are left by frame pointers, if at all. Names are those of the files' symbol tables; of a stripped file, of
//! its separate one if there is one ([`crate::pack`]).

use std::{
    collections::HashMap, ffi::OsStr, fs, io::Read, ops::Range, os::unix::ffi::OsStrExt as _, path::Path,
    rc::Rc, sync::Arc,
};

use bis_replay::{
    Replica, World,
    ours::{Believed, ProgramText},
};
use bis_trace::types::{Addr, FileId, PAGE, Registers, Tid, prot};
use bis_tracee::maps::Mapping;
use framehop::{
    ExplicitModuleSectionInfo, Module, Unwinder,
    x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64},
};
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, SegmentFlags, SymbolKind};

use crate::pack::separate;

/// How deep a stack may be.
const FRAMES_MAX: usize = 512;

/// What is known of a file.
struct Known {
    name: String,
    /// Its segments of code: offset in the file, and address. A mapping begins and ends with whole pages, so
    /// it has the end of the segment before it as well, which some linkers place without a gap.
    segments: Vec<(Range<u64>, u64)>,
    sections: Sections,
    /// Addresses and names, sorted.
    symbols: Vec<(Range<u64>, String)>,
}

#[derive(Clone)]
struct Section {
    range: Range<u64>,
    bytes: Arc<[u8]>,
}

/// Those that unwinding needs.
struct Sections {
    text: Option<Section>,
    eh_frame: Option<Section>,
    eh_frame_hdr: Option<Section>,
    got: Option<Range<u64>>,
}

/// A file's text in memory.
#[derive(Clone, PartialEq, Eq)]
struct Text {
    range: Range<u64>,
    file: FileId,
    /// In the file.
    offset: u64,
}

/// See the module's text.
pub(super) struct Stacks<'w> {
    world: &'w World<'w>,
    files: HashMap<FileId, Option<Rc<Known>>>,
    cache: CacheX86_64,
    /// What was mapped when the unwinder was made.
    mapped: Vec<Text>,
    unwinder: UnwinderX86_64<Arc<[u8]>>,
    /// Where each file's addresses begin.
    placed: Vec<(Range<u64>, u64, Rc<Known>)>,
}

impl<'w> Stacks<'w> {
    pub fn new(world: &'w World<'w>) -> Stacks<'w> {
        Stacks {
            world,
            files: HashMap::new(),
            cache: CacheX86_64::new(),
            mapped: Vec::new(),
            unwinder: UnwinderX86_64::new(),
            placed: Vec::new(),
        }
    }

    /// A task's frames, the outermost first.
    pub fn of(&mut self, replica: &Replica<'_>, tid: Tid) -> Vec<String> {
        let Ok(registers) = replica.registers(tid) else { return Vec::new() };
        self.look(replica);
        if registers.is_narrow() {
            let addresses = narrow_frames(replica, &registers);
            return addresses.iter().rev().map(|addr| self.name(*addr)).collect();
        }
        let mut pages: HashMap<u64, Vec<u8>> = HashMap::new();
        let mut read = |addr: u64| {
            let page = addr & !(PAGE - 1);
            let bytes = pages.entry(page).or_insert_with(|| {
                replica.memory().read_upto(Addr(page), usize::try_from(PAGE).unwrap_or(0))
            });
            let at = usize::try_from(addr - page).unwrap_or(0);
            let word = bytes.get(at..at + 8).and_then(|word| word.try_into().ok()).ok_or(())?;
            Ok(u64::from_le_bytes(word))
        };
        let start = UnwindRegsX86_64::new(registers.rip, registers.rsp, registers.rbp);
        let mut frames = self.unwinder.iter_frames(registers.rip, start, &mut self.cache, &mut read);
        let mut addresses = Vec::new();
        while let Ok(Some(frame)) = frames.next()
            && addresses.len() < FRAMES_MAX
        {
            addresses.push(frame.address_for_lookup());
        }
        addresses.iter().rev().map(|addr| self.name(*addr)).collect()
    }

    /// Makes the unwinder anew where other files are mapped than before.
    fn look(&mut self, replica: &Replica<'_>) {
        let texts = self.texts(replica);
        if texts == self.mapped {
            return;
        }
        self.unwinder = UnwinderX86_64::new();
        self.cache = CacheX86_64::new();
        self.placed.clear();
        for text in &texts {
            if let Some(known) = self.file(text.file) {
                self.place(text, known);
            }
        }
        self.mapped = texts;
    }

    /// The texts that are mapped. What counts in the place of a file's text is mapped from elsewhere; then
    /// the file is meant.
    fn texts(&self, replica: &Replica<'_>) -> Vec<Text> {
        let believed = || replica.text().into_iter().flat_map(ProgramText::believed);
        let numbers = |range: Range<Addr>| range.start.0..range.end.0;
        let text =
            |known: Believed| Text { range: numbers(known.range), file: known.file, offset: known.offset };
        let mut texts: Vec<Text> = believed().map(text).collect();
        let is_other = |mapping: &Mapping| {
            !believed().any(|known| known.range.start < mapping.end && mapping.start < known.range.end)
        };
        let maps = replica.maps().unwrap_or_default();
        let others = maps.iter().filter(|mapping| mapping.prot & prot::EXEC != 0 && is_other(mapping));
        texts.extend(others.filter_map(|mapping| {
            let shown = mapping.name.rsplit(|byte| *byte == b'/').next()?;
            let entry =
                self.world.files().find(|entry| !shown.is_empty() && entry.name.as_bytes() == shown)?;
            let range = numbers(mapping.start..mapping.end);
            Some(Text { range, file: entry.file, offset: mapping.offset })
        }));
        texts
    }

    fn place(&mut self, text: &Text, known: Rc<Known>) {
        let Text { range, offset, .. } = text.clone();
        let end = offset + (range.end - range.start);
        let segment = known.segments.iter().find(|(file, _)| offset < file.end && file.start < end);
        let Some((file, addr)) = segment else { return };
        let base = range.start.wrapping_sub(offset).wrapping_add(file.start).wrapping_sub(*addr);
        let Sections { text, eh_frame, eh_frame_hdr, got } = &known.sections;
        let extent = |section: &Option<Section>| section.as_ref().map(|section| section.range.clone());
        let bytes = |section: &Option<Section>| section.as_ref().map(|section| Arc::clone(&section.bytes));
        let info = ExplicitModuleSectionInfo {
            base_svma: 0,
            text_svma: extent(text),
            text: bytes(text),
            eh_frame_svma: extent(eh_frame),
            eh_frame: bytes(eh_frame),
            eh_frame_hdr_svma: extent(eh_frame_hdr),
            eh_frame_hdr: bytes(eh_frame_hdr),
            got_svma: got.clone(),
            ..Default::default()
        };
        self.unwinder.add_module(Module::new(known.name.clone(), range.clone(), base, info));
        self.placed.push((range, base, known));
    }

    fn name(&self, addr: u64) -> String {
        let Some((_, base, known)) = self.placed.iter().find(|(range, ..)| range.contains(&addr)) else {
            return "[unknown]".into();
        };
        let own = addr.wrapping_sub(*base);
        let after = known.symbols.partition_point(|(range, _)| range.start <= own);
        let found =
            after.checked_sub(1).and_then(|at| known.symbols.get(at)).filter(|(range, _)| own < range.end);
        found.map_or_else(|| format!("[{}]", known.name), |(_, name)| name.clone())
    }

    fn file(&mut self, file: FileId) -> Option<Rc<Known>> {
        if let Some(known) = self.files.get(&file) {
            return known.clone();
        }
        let known = self
            .read(file)
            .and_then(|(path, bytes)| know(self.world.trace().dir(), &path, &bytes))
            .map(Rc::new);
        self.files.insert(file, known.clone());
        known
    }

    /// A file's path, and the trace's own copy of it.
    fn read(&self, file: FileId) -> Option<(Vec<u8>, Vec<u8>)> {
        let trace = self.world.trace();
        let mut bytes = Vec::new();
        trace.open_file(file).ok()?.read_to_end(&mut bytes).ok()?;
        Some((trace.file(file).ok()?.path.clone(), bytes))
    }
}

fn know(trace: &Path, path: &[u8], bytes: &[u8]) -> Option<Known> {
    let file = object::File::parse(bytes).ok()?;
    let section = |name: &str| {
        let section = file.section_by_name(name)?;
        let range = section.address()..section.address() + section.size();
        Some(Section { range, bytes: section.data().ok()?.into() })
    };
    let is_code = |segment: &object::Segment<'_, '_>| match segment.flags() {
        SegmentFlags::Elf { p_flags } => p_flags & object::elf::PF_X != 0,
        _ => false,
    };
    let segment = |segment: object::Segment<'_, '_>| {
        let (offset, size) = segment.file_range();
        (offset..offset + size, segment.address())
    };
    let mut symbols = symbols(&file);
    if symbols.is_empty() || file.symbols().next().is_none() {
        let found = separate(trace, Path::new(OsStr::from_bytes(path)), &file);
        symbols.extend(found.and_then(|found| fs::read(found).ok()).into_iter().flat_map(|bytes| {
            object::File::parse(&*bytes).map(|file| self::symbols(&file)).unwrap_or_default()
        }));
    }
    symbols.sort_by_key(|(range, _)| (range.start, range.end));
    let name = Path::new(&*String::from_utf8_lossy(path)).file_name()?.to_string_lossy().into_owned();
    Some(Known {
        name,
        segments: file.segments().filter(is_code).map(segment).collect(),
        sections: Sections {
            text: section(".text"),
            eh_frame: section(".eh_frame"),
            eh_frame_hdr: section(".eh_frame_hdr"),
            got: section(".got").map(|section| section.range),
        },
        symbols,
    })
}

fn symbols(file: &object::File<'_>) -> Vec<(Range<u64>, String)> {
    let is_function =
        |symbol: &object::Symbol<'_, '_>| symbol.kind() == SymbolKind::Text && symbol.size() > 0;
    let all = file.symbols().chain(file.dynamic_symbols()).filter(is_function);
    let named = |symbol: object::Symbol<'_, '_>| {
        let range = symbol.address()..symbol.address() + symbol.size();
        Some((range, plain(symbol.name().ok()?)))
    };
    all.filter_map(named).collect()
}

/// A name as its language has it, without what would be read as the end of a frame.
fn plain(name: &str) -> String {
    let name = rustc_demangle::try_demangle(name)
        .map(|name| format!("{name:#}"))
        .ok()
        .or_else(|| cpp_demangle::Symbol::new(name).ok().and_then(|symbol| symbol.demangle().ok()))
        .unwrap_or_else(|| name.to_owned());
    name.replace(';', ":").replace('\n', " ")
}

/// The frames of a task of a 32-bit program, the innermost first, as far as functions keep their frames
/// linked: its unwind tables are not read.
fn narrow_frames(replica: &Replica<'_>, registers: &Registers) -> Vec<u64> {
    let word = |at: u64| replica.memory().read_u32(Addr(at)).map(u64::from).unwrap_or(0);
    let mut addresses = vec![registers.rip];
    let mut frame = registers.rbp;
    while addresses.len() < FRAMES_MAX {
        let (next, back) = (word(frame), word(frame.wrapping_add(4)));
        if back == 0 {
            break;
        }
        // In the call, which may be a function's last instruction.
        addresses.push(back - 1);
        if next <= frame {
            break;
        }
        frame = next;
    }
    addresses
}
