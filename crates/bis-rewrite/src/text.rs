//! One ELF file's text, and the questions about it.

use std::sync::Arc;

use iced_x86::Instruction;

use crate::{
    analysis::Analysis,
    chance, choose, clock,
    functions::Region,
    image::Image,
    record::Learned,
    run::{Error, Reason, Run, SiteKind},
    span::Span,
};

/// One ELF file's text as it lies in the file. Parsed once; analysed when first asked.
pub struct Text<'a> {
    pub(crate) analysis: Analysis<'a>,
}

impl<'a> Text<'a> {
    /// Reads the headers of an ELF file, of which `elf` is all bytes.
    ///
    /// # Errors
    /// If it is not an ELF file for x86-64 with section headers, is damaged, or its code overlaps itself.
    pub fn parse(elf: &'a [u8]) -> Result<Self, Error> {
        Ok(Self { analysis: Analysis::new(Image::parse(elf)?) })
    }

    /// This text, and `seen` is told each section that an analysis of the whole file is done with: a caller
    /// that has mapped the file may let go of it.
    #[must_use]
    pub fn telling(mut self, seen: impl Fn(&[u8]) + Send + Sync + 'a) -> Self {
        self.analysis.listing.image.seen = Some(Box::new(seen));
        self
    }

    /// How much has been done to answer what was asked so far: bytes that were decoded, or as much work in
    /// other ways.
    #[must_use]
    pub fn work(&self) -> u64 {
        self.analysis.work()
    }

    /// Every special instruction in the functions that the file tells of, in order of addresses. What merely
    /// looks like one, inside another instruction or in data between functions, is not listed.
    pub fn sites(&self) -> impl Iterator<Item = (u64, SiteKind)> + use<> {
        let (text, mut sites) = (&self.analysis, Vec::new());
        let mut decoded: Option<(Region, Arc<[Instruction]>)> = None;
        for section in text.code() {
            for at in candidates(section.data) {
                let address = section.start + at as u64;
                if !decoded.as_ref().is_some_and(|(region, _)| region.contains(address)) {
                    let region = text.functions().region(text, address);
                    let Some(region) = region.filter(|region| region.sure && !region.disputed) else {
                        continue;
                    };
                    let instructions = text.decode(&region);
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
        choose::run_at(&self.analysis, vaddr)
    }

    /// What the bytes at `vaddr` are, which are those of `rdtsc` or `rdtscp`.
    #[must_use]
    pub fn clock_at(&self, vaddr: u64) -> Learned {
        clock::clock_at(&self.analysis, vaddr)
    }

    /// What the bytes at `vaddr` are, where [`crate::chance_bytes`] or [`crate::cpuid_bytes`] has found an
    /// opcode.
    #[must_use]
    pub fn chance_at(&self, vaddr: u64) -> Learned {
        chance::chance_at(&self.analysis, vaddr)
    }

    /// The shortest span that begins at `vaddr`.
    ///
    /// # Errors
    /// Why the instructions there are better left alone.
    pub fn span_at(&self, vaddr: u64) -> Result<Span, Reason> {
        choose::span_at(&self.analysis, vaddr)
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
