//! One ELF file as a program has it in memory: its sections, and how much has been done with them.
//!
//! Parsing reads headers alone. Section headers are believed about where code and data lie: a file that lies
//! there gives runs whose bytes are not in memory, and `Run::matches` is false.

use std::sync::atomic::{AtomicU64, Ordering};

use object::{
    LittleEndian,
    elf::{self, FileHeader64},
    read::elf::{ElfFile64, FileHeader as _, SectionHeader as _},
};

use crate::run::Error;

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

/// One ELF file.
pub(crate) struct Image<'a> {
    pub file: ElfFile64<'a, LittleEndian>,
    /// Sorted by address; executable ones do not overlap.
    pub sections: Vec<Section<'a>>,
    work: AtomicU64,
    pub seen: Option<Box<Seen<'a>>>,
}

/// Is told of bytes that have been looked at, and will hardly be again.
pub(crate) type Seen<'a> = dyn Fn(&[u8]) + Send + Sync + 'a;

impl<'a> Image<'a> {
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
        Ok(Self { file, sections, work: AtomicU64::new(0), seen: None })
    }

    /// The bytes of this section are looked through: a test that counts them is told.
    pub fn note_seen(&self, section: &Section<'_>) {
        if let Some(seen) = &self.seen {
            seen(section.data);
        }
    }

    /// The executable sections.
    pub fn code(&self) -> impl Iterator<Item = &Section<'a>> {
        self.sections.iter().filter(|section| section.executable)
    }

    /// The executable section at `address`.
    pub fn code_at(&self, address: u64) -> Option<&Section<'a>> {
        self.code().find(|section| section.contains(address))
    }

    /// The file's bytes from `address` to the end of its section.
    pub fn bytes_from(&self, address: u64) -> Option<&'a [u8]> {
        self.sections.iter().find(|section| section.contains(address))?.from(address)
    }

    /// Bytes of text have been decoded.
    pub fn worked(&self, bytes: u64) {
        self.work.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes of text have been looked at in another way: much less work, but it adds up.
    pub fn looked(&self, bytes: u64) {
        self.worked(bytes / 16);
    }

    /// How much has been done to answer what was asked so far: bytes that were decoded, or as much work in
    /// other ways.
    pub fn work(&self) -> u64 {
        self.work.load(Ordering::Relaxed)
    }

    /// Whether so much has been done that all further places are refused. No real file comes near; a file of
    /// which each byte is to be asked about would.
    pub fn is_tired(&self) -> bool {
        let all: u64 = self.code().map(|section| section.data.len() as u64).sum();
        self.work() > WORK_MIN + all * WORK_FACTOR
    }

    /// Whether the file is linked for one fixed address, so that plain numbers in it may be addresses.
    pub fn is_fixed(&self) -> bool {
        self.file.elf_header().e_type(LittleEndian) == elf::ET_EXEC
    }
}
