//! One ELF file as the analysis sees it: its sections in memory order, and where its sites are.
//!
//! Parsing reads headers alone. Functions (`functions.rs`) and what points into the text (`targets.rs`) are
//! worked out when first needed, once. Section headers are believed about where code and data lie: a file
//! that lies there gives runs whose bytes are not in memory, and `Run::matches` is false.

use std::sync::{
    Arc, Mutex, OnceLock, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use iced_x86::Instruction;
use object::{
    LittleEndian,
    elf::{self, FileHeader64},
    read::elf::{ElfFile64, FileHeader as _, SectionHeader as _},
};

use crate::{
    chance, choose, clock,
    functions::{Functions, Region},
    record::Learned,
    run::{Error, Reason, Run, SiteKind},
    span::Span,
    stretch::{self, Stretches},
    targets::Targets,
};

/// The most sections that a file has in memory; real ones have some thirty.
const SECTIONS_MAX: usize = 1000;

/// Much more is done for a file's places than decoding all its text so often, and so many bytes more, and no
/// further one is judged.
const WORK_FACTOR: u64 = 8;
const WORK_MIN: u64 = 64 << 20;

/// A section that the program has in memory, with its bytes in the file.
#[derive(Clone, Copy)]
pub(crate) struct Section<'a> {
    /// Address of the first byte; the last does not wrap around.
    pub start: u64,
    pub data: &'a [u8],
    pub executable: bool,
    /// Where its bytes are in the file.
    pub offset: u64,
    /// The linker made it, for calls into other files.
    pub plt: bool,
}

impl<'a> Section<'a> {
    pub fn end(&self) -> u64 {
        self.start + self.data.len() as u64
    }

    pub fn contains(&self, address: u64) -> bool {
        (self.start..self.end()).contains(&address)
    }

    /// The bytes from `address` to the section's end.
    pub fn from(&self, address: u64) -> Option<&'a [u8]> {
        self.data.get(usize::try_from(address.checked_sub(self.start)?).ok()?..)
    }
}

/// One ELF file's text as it lies in the file. Parsed once; analysed when first asked.
pub struct Text<'a> {
    pub(crate) file: ElfFile64<'a, LittleEndian>,
    /// Sorted by address; executable ones do not overlap.
    pub(crate) sections: Vec<Section<'a>>,
    pub(crate) functions: OnceLock<Functions>,
    pub(crate) targets: OnceLock<Targets>,
    pub(crate) stretches: Stretches,
    /// The function that was decoded last: who asks about places asks in their order.
    decoded: Mutex<Option<(Region, Arc<[Instruction]>)>>,
    work: AtomicU64,
    seen: Option<Box<Seen<'a>>>,
}

/// Is told of bytes that have been looked at, and will hardly be again.
type Seen<'a> = dyn Fn(&[u8]) + Send + Sync + 'a;

impl<'a> Text<'a> {
    /// The same, and `seen` is told each section that an analysis of the whole file is done with: who has
    /// mapped the file may let go of it.
    #[must_use]
    pub fn telling(self, seen: impl Fn(&[u8]) + Send + Sync + 'a) -> Self {
        Self { seen: Some(Box::new(seen)), ..self }
    }

    pub(crate) fn has_seen(&self, section: &Section<'_>) {
        if let Some(seen) = &self.seen {
            seen(section.data);
        }
    }

    /// Reads the headers of an ELF file, of which `elf` is all bytes.
    ///
    /// # Errors
    /// If it is not an ELF file for x86-64 with section headers, is damaged, or its code overlaps itself.
    pub fn parse(elf: &'a [u8]) -> Result<Self, Error> {
        let bad = |error: object::Error| Error::Elf(error.to_string());
        let file = ElfFile64::<LittleEndian>::parse(elf).map_err(bad)?;
        let header: &FileHeader64<LittleEndian> = file.elf_header();
        if header.e_machine(LittleEndian) != elf::EM_X86_64 {
            return Err(Error::Elf("it is not for x86-64".into()));
        }
        let kind = header.e_type(LittleEndian);
        if kind != elf::ET_EXEC && kind != elf::ET_DYN {
            return Err(Error::Elf("it is neither a program nor a shared library".into()));
        }
        let mut sections = Vec::new();
        for section in file.elf_section_table().iter() {
            let flags = section.sh_flags(LittleEndian);
            if flags & u64::from(elf::SHF_ALLOC) == 0 || flags & u64::from(elf::SHF_TLS) != 0 {
                continue;
            }
            let data = section.data(LittleEndian, elf).map_err(bad)?;
            let start = section.sh_addr(LittleEndian);
            if data.is_empty() {
                continue;
            }
            // The highest gigabytes stay free, so that sums of an address and a displacement need no check.
            if start.checked_add(data.len() as u64).is_none_or(|end| end > 1 << 62) {
                return Err(Error::Elf("a section lies outside of every address space".into()));
            }
            let executable = flags & u64::from(elf::SHF_EXECINSTR) != 0;
            let name = file.elf_section_table().section_name(LittleEndian, section).unwrap_or_default();
            let (offset, plt) = (section.sh_offset(LittleEndian), name.starts_with(b".plt"));
            sections.push(Section { start, data, executable, offset, plt });
        }
        // Sections that lie over one another in the file would make the work much more than the file's size.
        let all: usize = sections.iter().map(|section| section.data.len()).sum();
        if sections.len() > SECTIONS_MAX || all > elf.len() {
            return Err(Error::Elf("it has too many sections, or they overlap".into()));
        }
        sections.sort_by_key(|section| section.start);
        if sections.is_empty() {
            return Err(Error::Elf("it has no section headers".into()));
        }
        let code: Vec<&Section> = sections.iter().filter(|section| section.executable).collect();
        if code.windows(2).any(|two| two[0].end() > two[1].start) {
            return Err(Error::Elf("its executable sections overlap".into()));
        }
        Ok(Self {
            file,
            sections,
            functions: OnceLock::new(),
            targets: OnceLock::new(),
            stretches: Stretches::default(),
            decoded: Mutex::default(),
            work: AtomicU64::new(0),
            seen: None,
        })
    }

    /// Every special instruction in the functions that the file tells of, in order of addresses. What merely
    /// looks like one, inside another instruction or in data between functions, is not listed.
    pub fn sites(&self) -> impl Iterator<Item = (u64, SiteKind)> + use<> {
        let mut sites = Vec::new();
        let mut decoded: Option<(Region, Arc<[Instruction]>)> = None;
        for section in self.code() {
            for at in candidates(section.data) {
                let address = section.start + at as u64;
                if !decoded.as_ref().is_some_and(|(region, _)| region.contains(address)) {
                    let region = self.functions().region(self, address);
                    let Some(region) = region.filter(|region| region.sure && !region.disputed) else {
                        continue;
                    };
                    let instructions = self.decode(&region);
                    decoded = Some((region, instructions));
                }
                let Some((_, instructions)) = &decoded else { continue };
                let Ok(index) = instructions.binary_search_by_key(&address, Instruction::ip) else {
                    // Prefixes stand before what was found.
                    let index = instructions.partition_point(|it| it.ip() < address);
                    let Some(it) = index.checked_sub(1).map(|index| &instructions[index]) else { continue };
                    sites.extend(SiteKind::of(it).map(|kind| (it.ip(), kind)));
                    continue;
                };
                sites.extend(SiteKind::of(&instructions[index]).map(|kind| (address, kind)));
            }
        }
        sites.sort_unstable();
        sites.dedup();
        sites.into_iter()
    }

    /// The shortest run around the special instruction at `vaddr`.
    ///
    /// Where the file tells of no function (hand-written assembly, stripped programs without unwind tables),
    /// this believes the caller that the program really executes the instruction there; so ask only for what
    /// was seen to trap, or for what [`Text::sites`] gave. An answer for one that is really data would change
    /// the data.
    ///
    /// # Errors
    /// Why this site is better left alone.
    pub fn run_at(&self, vaddr: u64) -> Result<Run, Reason> {
        choose::run_at(self, vaddr)
    }

    /// What the bytes at `vaddr` are, which are those of `rdtsc` or `rdtscp`.
    #[must_use]
    pub fn clock_at(&self, vaddr: u64) -> Learned {
        clock::clock_at(self, vaddr)
    }

    /// What the bytes at `vaddr` are, where [`crate::chance_bytes`] or [`crate::cpuid_bytes`] has found an
    /// opcode.
    #[must_use]
    pub fn chance_at(&self, vaddr: u64) -> Learned {
        chance::chance_at(self, vaddr)
    }

    /// The shortest span that begins at `vaddr`.
    ///
    /// # Errors
    /// Why the instructions there are better left alone.
    pub fn span_at(&self, vaddr: u64) -> Result<Span, Reason> {
        choose::span_at(self, vaddr)
    }

    /// The executable sections.
    pub(crate) fn code(&self) -> impl Iterator<Item = &Section<'a>> {
        self.sections.iter().filter(|section| section.executable)
    }

    /// The executable section at `address`.
    pub(crate) fn code_at(&self, address: u64) -> Option<&Section<'a>> {
        self.code().find(|section| section.contains(address))
    }

    /// The file's bytes from `address` to the end of its section.
    pub(crate) fn bytes_from(&self, address: u64) -> Option<&'a [u8]> {
        self.sections.iter().find(|section| section.contains(address))?.from(address)
    }

    pub(crate) fn functions(&self) -> &Functions {
        self.functions.get_or_init(|| {
            let functions = Functions::of(self);
            self.sections.iter().for_each(|section| self.has_seen(section));
            functions
        })
    }

    pub(crate) fn targets(&self) -> &Targets {
        self.targets.get_or_init(|| Targets::of(self))
    }

    /// All instructions of a region, one after the other; invalid ones as such.
    pub(crate) fn decode(&self, region: &Region) -> Arc<[Instruction]> {
        let mut last = self.decoded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, instructions)) = &*last
            && known == region
        {
            // Who has asked for them will look at each.
            self.looked(region.len());
            return instructions.clone();
        }
        let instructions: Arc<[Instruction]> =
            stretch::instructions(self, region.start, region).collect::<Vec<_>>().into();
        self.worked(region.len());
        *last = Some((*region, instructions.clone()));
        instructions
    }

    /// Bytes of text have been decoded.
    pub(crate) fn worked(&self, bytes: u64) {
        self.work.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes of text have been looked at in another way: much less work, but it adds up.
    pub(crate) fn looked(&self, bytes: u64) {
        self.worked(bytes / 16);
    }

    /// How much has been done to answer what was asked so far: bytes that were decoded, or as much work in
    /// other ways.
    #[must_use]
    pub fn work(&self) -> u64 {
        self.work.load(Ordering::Relaxed)
    }

    /// Whether so much has been done that all further places are refused. No real file comes near; a file of
    /// which each byte is to be asked about would.
    pub(crate) fn is_tired(&self) -> bool {
        let all: u64 = self.code().map(|section| section.data.len() as u64).sum();
        self.work() > WORK_MIN + all * WORK_FACTOR
    }

    /// Whether the file is linked for one fixed address, so that plain numbers in it may be addresses.
    pub(crate) fn is_fixed(&self) -> bool {
        self.file.elf_header().e_type(LittleEndian) == elf::ET_EXEC
    }
}

/// Offsets at which the opcode of a special instruction may begin, in order.
fn candidates(code: &[u8]) -> Vec<usize> {
    let mut found = Vec::new();
    for (at, two) in code.windows(2).enumerate() {
        let register_form = || code.get(at + 2).is_some_and(|modrm| *modrm >= 0xf0);
        let special = match two {
            [0x0f, 0x05 | 0x31 | 0xa2] => true,
            [0x0f, 0x01] => code.get(at + 2) == Some(&0xf9),
            [0x0f, 0xc7] => register_form(),
            [0xc7, 0xf8] => true,
            _ => false,
        };
        if special {
            found.push(at);
        }
    }
    found
}
