//! Which bytes of the text are one function.
//!
//! Unwind tables (.eh_frame) say it for compiled code and for most assembly, symbols with a size for some of
//! the rest, and Go's programs have a table of their own (`go.rs`). Such a *region* decodes from its start,
//! and its instructions are known. What lies between is a region too, but not a *sure* one: there may be data
//! in it, after which decoding goes on in step only by luck. Nothing that is concluded from the instructions
//! of an unsure region may make the analysis less careful.

use gimli::{BaseAddresses, CieOrFde, EhFrame, LittleEndian, Pointer, UnwindSection as _};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _, SymbolKind};

use crate::{go, image::Image};

/// The longest function whose instructions are looked at.
const FUNCTION_MAX: u64 = 1 << 20;

/// A stretch of text whose instructions follow one another from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    pub start: u64,
    /// Address after the last byte; more than `start`.
    pub end: u64,
    /// Somebody said that this is one function.
    pub sure: bool,
    /// More than one said so, and they disagree.
    pub disputed: bool,
    /// Where its exceptions land is written here.
    pub lsda: Option<u64>,
    /// Unwind tables said so, not only a symbol.
    pub unwound: bool,
}

impl Region {
    pub fn contains(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }

    /// Number of bytes.
    pub fn len(&self) -> u64 {
        self.end - self.start
    }

    /// Whether nothing that its instructions would say is believed: several say what is here, or it is longer
    /// than any function, and to decode it for each place would take for ever.
    pub fn is_doubtful(&self) -> bool {
        self.disputed || self.sure && self.len() > FUNCTION_MAX
    }
}

/// All functions that the file tells of.
pub(crate) struct Functions {
    /// In order of start; each lies within one executable section.
    regions: Vec<Region>,
    /// The unwind tables could not be read to their end.
    pub broken: bool,
}

impl Functions {
    pub fn of(image: &Image<'_>) -> Self {
        let (mut regions, broken) = unwind_tables(image);
        settle(&mut regions);
        let named = symbols(image, &regions);
        regions.extend(named);
        settle(&mut regions);
        let of_go = of_go(image, &regions);
        regions.extend(of_go);
        settle(&mut regions);
        dispute_data(image, &mut regions);
        Self { regions, broken }
    }

    /// The region that `address` is in; none outside of the text.
    pub fn region(&self, image: &Image<'_>, address: u64) -> Option<Region> {
        let next = self.regions.partition_point(|region| region.start <= address);
        let before = next.checked_sub(1).map(|at| self.regions[at]);
        if let Some(region) = before.filter(|region| region.contains(address)) {
            return Some(region);
        }
        let section = image.code_at(address)?;
        let start = before.map_or(section.start, |region| region.end.max(section.start));
        let end = self.regions.get(next).map_or(section.end(), |region| region.start.min(section.end()));
        Some(Region { start, end, sure: false, disputed: false, lsda: None, unwound: false })
    }

    /// All that the file tells of, in order; they do not overlap.
    pub fn all(&self) -> &[Region] {
        &self.regions
    }

    /// Whether unwind tables tell of more than half of the text. What they do not tell of is then something
    /// special: written by hand, or generated, and perhaps data to somebody.
    pub fn mostly_unwound(&self, image: &Image<'_>) -> bool {
        let code: u64 = image.code().map(|section| section.data.len() as u64).sum();
        let told = self.regions.iter().filter(|region| region.unwound);
        told.map(|region| region.end - region.start).sum::<u64>() > code / 2
    }

    /// Where exceptions of every function land, as far as the file says it readably.
    pub fn lsdas(&self) -> impl Iterator<Item = &Region> {
        self.regions.iter().filter(|region| region.lsda.is_some())
    }
}

/// Sorts, and makes regions that overlap into one that is disputed.
fn settle(regions: &mut Vec<Region>) {
    regions.sort_by_key(|region| (region.start, region.end));
    regions.dedup_by(|next, kept| {
        if (next.start, next.end) == (kept.start, kept.end) {
            kept.lsda = kept.lsda.or(next.lsda);
            kept.unwound |= next.unwound;
            return true;
        }
        if next.start < kept.end {
            kept.end = kept.end.max(next.end);
            kept.disputed = true;
            return true;
        }
        false
    });
}

/// The region of `len` bytes at `start`, if it is within one executable section.
fn region(image: &Image<'_>, start: u64, len: u64, lsda: Option<u64>) -> Option<Region> {
    let end = start.checked_add(len)?;
    let inside = image.code_at(start).is_some_and(|section| end <= section.end());
    (inside && len != 0).then_some(Region { start, end, sure: true, disputed: false, lsda, unwound: false })
}

fn unwind_tables(image: &Image<'_>) -> (Vec<Region>, bool) {
    let mut regions = Vec::new();
    let Some(section) = image.file.section_by_name(".eh_frame") else { return (regions, false) };
    let Ok(data) = section.data() else { return (regions, true) };
    let mut bases = BaseAddresses::default().set_eh_frame(section.address());
    if let Some(code) = image.file.section_by_name(".text") {
        bases = bases.set_text(code.address());
    }
    let frames = EhFrame::new(data, LittleEndian);
    let mut entries = frames.entries(&bases);
    // Nearly all functions share a few CIEs; parsing one for each function would take half of the time.
    let mut last = None;
    loop {
        let entry = match entries.next() {
            Ok(Some(entry)) => entry,
            Ok(None) => return (regions, false),
            Err(_) => return (regions, true),
        };
        let CieOrFde::Fde(partial) = entry else { continue };
        let parsed = partial.parse(|frames, bases, offset| match &last {
            Some((known, cie)) if *known == offset => Ok(gimli::CommonInformationEntry::clone(cie)),
            _ => {
                let cie = frames.cie_from_offset(bases, offset)?;
                last = Some((offset, cie.clone()));
                Ok(cie)
            }
        });
        let Ok(function) = parsed else { return (regions, true) };
        let lsda = function.lsda().map(|pointer| match pointer {
            Pointer::Direct(address) => address,
            // An address at which nothing readable is: the region's landing pads count as unknown.
            Pointer::Indirect(_) => u64::MAX,
        });
        // The frames of signals begin one byte early, for unwinders that look one byte before a return
        // address. That byte may be the last of another instruction.
        let early = u64::from(function.is_signal_trampoline());
        let (start, len) = (function.initial_address(), function.len());
        let region = region(image, start.saturating_add(early), len.saturating_sub(early), lsda);
        regions.extend(region.map(|region| Region { unwound: true, ..region }));
    }
}

/// A function that has data in it by the symbols' word cannot be decoded from its start.
fn dispute_data(image: &Image<'_>, regions: &mut [Region]) {
    for symbol in image.file.symbols().chain(image.file.dynamic_symbols()) {
        if symbol.kind() == SymbolKind::Data
            && let Some(at) =
                regions.partition_point(|region| region.start <= symbol.address()).checked_sub(1)
            && regions[at].contains(symbol.address())
        {
            regions[at].disputed = true;
        }
    }
}

/// What symbols know and unwind tables do not: whole functions, and the rest of functions whose unwinding is
/// described in part (`clone`: its child has nobody to return to).
fn symbols(image: &Image<'_>, known: &[Region]) -> Vec<Region> {
    let mut found = Vec::new();
    let all = image.file.symbols().chain(image.file.dynamic_symbols());
    for symbol in all.filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() != 0) {
        let Some(whole) = region(image, symbol.address(), symbol.size(), None) else { continue };
        let first = known.partition_point(|region| region.end <= whole.start);
        let inside: Vec<&Region> =
            known[first..].iter().take_while(|region| region.start < whole.end).collect();
        if inside.iter().any(|region| region.start < whole.start || region.end > whole.end) {
            continue;
        }
        let mut start = whole.start;
        for region in inside {
            if start < region.start {
                found.push(Region { start, end: region.start, ..whole });
            }
            start = region.end;
        }
        if start < whole.end {
            found.push(Region { start, end: whole.end, ..whole });
        }
    }
    found
}

/// What Go's table knows and nothing else does.
fn of_go(image: &Image<'_>, known: &[Region]) -> Vec<Region> {
    let is_new = |whole: &Region| {
        let first = known.partition_point(|region| region.end <= whole.start);
        known.get(first).is_none_or(|region| region.start >= whole.end)
    };
    let all = go::functions(image).into_iter();
    all.filter_map(|(start, end)| region(image, start, end - start, None)).filter(is_new).collect()
}

/// Where exceptions that pass through the function at `start` land, from its table at `lsda` (the format is
/// that of all C++ compilers on ELF: where pads count from, types, then a list of calls). `None` if it cannot
/// be read.
pub(crate) fn landing_pads(image: &Image<'_>, start: u64, lsda: u64) -> Option<Vec<u64>> {
    const OMITTED: u8 = 0xff;
    let mut table = Table { at: lsda, rest: image.bytes_from(lsda)? };
    let base = match table.byte()? {
        OMITTED => start,
        encoding => table.value(encoding)?,
    };
    if table.byte()? != OMITTED {
        table.uleb()?;
    }
    let encoding = table.byte()?;
    let len = usize::try_from(table.uleb()?).ok()?;
    table.rest = table.rest.get(..len)?;
    let mut pads = Vec::new();
    while !table.rest.is_empty() {
        table.value(encoding)?;
        table.value(encoding)?;
        let pad = table.value(encoding)?;
        table.uleb()?;
        if pad != 0 {
            pads.push(base.wrapping_add(pad));
        }
    }
    Some(pads)
}

/// A reader of exception tables.
struct Table<'a> {
    /// Address of the first byte of `rest`.
    at: u64,
    rest: &'a [u8],
}

impl Table<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        self.at += N as u64;
        Some(*taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take::<1>().map(|byte| byte[0])
    }

    fn uleb(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..63).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// A number in one of the encodings of unwind tables (DW_EH_PE_*), absolute or relative to its own place.
    fn value(&mut self, encoding: u8) -> Option<u64> {
        let place = self.at;
        let value = match encoding & 0x0f {
            0x00 | 0x04 | 0x0c => u64::from_le_bytes(self.take()?),
            0x01 => self.uleb()?,
            0x02 => u64::from(u16::from_le_bytes(self.take()?)),
            0x03 => u64::from(u32::from_le_bytes(self.take()?)),
            0x0a => i64::from(i16::from_le_bytes(self.take()?)) as u64,
            0x0b => i64::from(i32::from_le_bytes(self.take()?)) as u64,
            _ => return None,
        };
        match encoding & 0xf0 {
            0x00 => Some(value),
            0x10 => Some(value.wrapping_add(place)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::Analysis;

    /// Landing pads of a real C++ library: all can be read, and each is an instruction of its function (or of
    /// the part of it that lies elsewhere).
    #[test]
    fn landing_pads_of_a_library() {
        let folders =
            ["/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/usr/lib"];
        let Some(bytes) = folders.iter().find_map(|dir| std::fs::read(format!("{dir}/libstdc++.so.6")).ok())
        else {
            eprintln!("not run: there is no libstdc++ on this machine");
            return;
        };
        let text = Analysis::new(Image::parse(&bytes).expect("a library"));
        let mut count = 0;
        for region in text.functions().lsdas() {
            let pads = landing_pads(&text, region.start, region.lsda.expect("one")).expect("readable");
            for pad in pads {
                let of = text.functions().region(&text, pad).expect("in the text");
                assert!(of.sure && text.decode(&of).iter().any(|it| it.ip() == pad), "{pad:#x}");
                assert!(text.targets().pointed(&text, pad, pad + 1));
                count += 1;
            }
        }
        assert!(count > 1000, "only {count} landing pads");
    }
}
