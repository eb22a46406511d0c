//! What of a file the kernel maps executable, page by page.

use object::{LittleEndian, elf, read::elf::ProgramHeader as _};

use crate::{analysis::Analysis, image::Section};

/// Bytes of a page.
pub(super) const PAGE: u64 = 4096;

/// An executable segment, as mapped: everything is a multiple of [`PAGE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Load {
    /// The file's address of its first byte.
    pub start: u64,
    /// Bytes of it that come from the file, at `offset` there. The last page's rest is zero where the file
    /// ends before.
    pub len: u64,
    pub offset: u64,
}

impl Load {
    fn contains(&self, start: u64, end: u64) -> bool {
        self.start <= start && end <= self.start + self.len
    }
}

/// The executable segments of a file, by address.
pub(super) struct Loads(pub Vec<Load>);

impl Loads {
    pub fn of(text: &Analysis<'_>) -> Self {
        let len = text.file.data().len() as u64;
        let mut loads: Vec<Load> = text
            .file
            .elf_program_headers()
            .iter()
            .filter(|header| header.p_type(LittleEndian) == elf::PT_LOAD)
            .filter(|header| header.p_flags(LittleEndian) & elf::PF_X != 0)
            .filter_map(|header| {
                let (address, offset) = (header.p_vaddr(LittleEndian), header.p_offset(LittleEndian));
                let size = header.p_filesz(LittleEndian);
                let end = offset.checked_add(size).filter(|end| *end <= len)?;
                let early = address % PAGE;
                let sane = offset % PAGE == early && size != 0 && address < 1 << 62;
                sane.then(|| Load {
                    start: address - early,
                    len: (end - (offset - early)).next_multiple_of(PAGE),
                    offset: offset - early,
                })
            })
            .collect();
        loads.sort_by_key(|load| load.start);
        // Segments that lie over one another in memory hide parts of each other.
        if loads.windows(2).any(|two| two[0].start + two[0].len > two[1].start) {
            loads.clear();
        }
        Self(loads)
    }

    /// Whether a section is in memory, with the bytes that its header says.
    pub fn has(&self, section: &Section<'_>) -> bool {
        self.find(section.start, section.end()).is_some_and(|(_, load)| {
            section.offset.checked_sub(load.offset) == Some(section.start - load.start)
        })
    }

    /// The segment that `start..end` lies in, and its number.
    pub fn find(&self, start: u64, end: u64) -> Option<(usize, Load)> {
        let at = self.0.partition_point(|load| load.start <= start).checked_sub(1)?;
        Some((at, self.0[at])).filter(|(_, load)| load.contains(start, end))
    }
}
