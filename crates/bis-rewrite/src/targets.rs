//! Everything in a file that names an address in its text.
//!
//! Two sets of bits, one bit for each byte of text:
//! * *pointers*: symbols, relocations, the entry point, landing pads of exceptions, jump tables, and in files
//!   linked for a fixed address every word of data that looks like an address in the text. A bit there is
//!   final.
//! * *branches*: at every byte of the text, whether or not an instruction begins there, a jump, call or `lea`
//!   is assumed whose displacement of 32 bits follows. This finds the jumps of functions that are split in
//!   two, without decoding the whole file. It also finds jumps that do not exist; so when a bit is in the
//!   way, whoever set it is looked for, and let off if its own function's instructions show that it is no
//!   such instruction.
//!
//! Jumps of 8 bits reach 127 bytes, and are looked for around each run when it is chosen.
//!
//! Tables of relative addresses (`entry + address of the table`) have no length that could be read. A table
//! is taken to go on until an entry does not lead into the text, or until the next address from which a `lea`
//! reads what could be a table. Reading too far only makes the analysis more careful.

use std::{ops::Range, sync::OnceLock};

use iced_x86::{Instruction, OpKind};
use object::{
    LittleEndian, Object as _, ObjectSymbol as _, SymbolKind, elf,
    read::elf::{Rela as _, SectionHeader as _},
};

use crate::{bits::Bits, functions, image::Section, listing::Listing, scan};

/// What is known of the addresses that a file mentions.
pub(crate) struct Targets {
    pub(crate) pointers: Bits,
    branches: Bits,
    /// For files linked for a fixed address: (number, where it stands), for each 4 bytes of text, at any
    /// alignment, that could be an address in the text. Sorted. Looked for when first asked.
    numbers: OnceLock<Vec<(u64, u64)>>,
    /// Addresses of what could be jump tables, sorted.
    tables: Vec<u64>,
    /// Regions whose landing pads could not be read, by their start. Sorted.
    unread: Vec<u64>,
}

impl Targets {
    pub fn of(listing: &Listing<'_>) -> Self {
        let mut targets = Self {
            pointers: Bits::new(listing),
            branches: Bits::new(listing),
            numbers: OnceLock::new(),
            tables: Vec::new(),
            unread: Vec::new(),
        };
        for section in listing.code() {
            targets.scan(listing, section);
            listing.note_seen(section);
        }
        targets.tables.sort_unstable();
        targets.tables.dedup();
        for (index, table) in targets.tables.iter().enumerate() {
            let next = targets.tables.get(index + 1).copied().unwrap_or(u64::MAX);
            read_table(listing, *table, next, &mut targets.pointers);
        }
        targets.symbols(listing);
        targets.relocations(listing);
        if listing.is_fixed() {
            for section in listing.sections.iter().filter(|section| !section.executable) {
                targets.words(section);
                listing.note_seen(section);
            }
        }
        for region in listing.functions().lsdas() {
            let pads = region.lsda.and_then(|lsda| functions::landing_pads(listing, region.start, lsda));
            match pads {
                Some(pads) => pads.into_iter().for_each(|pad| targets.pointers.set(pad)),
                None => targets.unread.push(region.start),
            }
        }
        targets
    }

    /// Whether something points to an address of `from..to`.
    pub fn pointed(&self, listing: &Listing<'_>, from: u64, to: u64) -> bool {
        if self.pointers.any(from, to) {
            return true;
        }
        let numbers = self.numbers.get_or_init(|| self.numbers(listing));
        let first = numbers.partition_point(|(number, _)| *number < from);
        numbers[first..]
            .iter()
            .take_while(|(number, _)| *number < to)
            .any(|(_, place)| is_number(listing, *place))
    }

    /// Whether a branch of 32 bits, or a `lea`, anywhere in the file leads to an address of `from..to`.
    pub fn branched(&self, listing: &Listing<'_>, from: u64, to: u64) -> bool {
        self.branches.any(from, to)
            && listing.code().any(|section| {
                listing.looked(section.data.len() as u64);
                scan::displacements(section.data).any(|(at, displacement)| {
                    let place = section.start + at as u64;
                    let target = after(place, displacement);
                    (from..to).contains(&target) && is_displacement(listing, place, target)
                })
            })
    }

    /// Whether a `lea` gives this address, and what is there could be a table of relative addresses.
    pub fn is_table(&self, address: u64) -> bool {
        self.tables.binary_search(&address).is_ok()
    }

    /// Where the entries of the relative table at `table` lead, at most `max` of them.
    pub fn entries<'t>(
        &'t self,
        listing: &'t Listing<'_>,
        table: u64,
        max: usize,
    ) -> impl Iterator<Item = u64> + 't {
        let after = self.tables.partition_point(|known| *known <= table);
        let next = self.tables.get(after).copied().unwrap_or(u64::MAX);
        (0..max as u64)
            .map(move |index| table.wrapping_add(index * 4))
            .take_while(move |entry| *entry < next)
            .map_while(move |entry| table_entry(listing, table, entry))
    }

    /// Whether where exceptions of this function land could be read.
    pub fn lands_known(&self, region_start: u64) -> bool {
        self.unread.binary_search(&region_start).is_err()
    }

    fn scan(&mut self, listing: &Listing<'_>, section: &Section<'_>) {
        for (at, displacement) in scan::displacements(section.data) {
            let target = after(section.start + at as u64, displacement);
            self.branches.set(target);
            let is_lea = at >= 2 && section.data[at - 2] == 0x8d;
            if is_lea && table_entry(listing, target, target).is_some() {
                self.tables.push(target);
            }
        }
    }

    fn numbers(&self, listing: &Listing<'_>) -> Vec<(u64, u64)> {
        let mut found = Vec::new();
        for section in listing.code().filter(|_| listing.is_fixed()) {
            let places = scan::numbers(section.data, self.pointers.low(), self.pointers.high());
            found.extend(places.map(|(at, number)| (number, section.start + at as u64)));
        }
        found.sort_unstable();
        found
    }

    fn symbols(&mut self, listing: &Listing<'_>) {
        self.pointers.set(listing.file.entry());
        for symbol in listing.file.symbols().chain(listing.file.dynamic_symbols()) {
            if !matches!(symbol.kind(), SymbolKind::File | SymbolKind::Tls | SymbolKind::Section) {
                self.pointers.set(symbol.address());
            }
        }
    }

    fn relocations(&mut self, listing: &Listing<'_>) {
        let file = &listing.file;
        let (endian, all) = (LittleEndian, file.data());
        let names = file.elf_dynamic_symbol_table();
        for section in file.elf_section_table().iter() {
            if section.sh_flags(endian) & u64::from(elf::SHF_ALLOC) == 0 {
                continue;
            }
            if let Ok(Some((relocations, _))) = section.rela(endian, all) {
                for relocation in relocations {
                    let addend = relocation.r_addend(endian) as u64;
                    let symbol = relocation.r_sym(endian, false);
                    let value = names
                        .symbol(object::SymbolIndex(symbol as usize))
                        .map_or(0, |symbol| symbol.st_value.get(endian));
                    self.pointers.set(value.wrapping_add(addend));
                }
            }
            if section.sh_type(endian) == elf::SHT_RELR
                && let Ok(bytes) = section.data(endian, all)
            {
                self.packed_relocations(listing, bytes);
            }
        }
    }

    /// SHT_RELR: an even word is the address of one pointer, an odd one is a set of those among the 63 words
    /// that follow. The pointers themselves are in place.
    fn packed_relocations(&mut self, listing: &Listing<'_>, bytes: &[u8]) {
        let mut next = 0_u64;
        let mut pointer = |address: u64| {
            if let Some(word) = listing.bytes_from(address).and_then(<[u8]>::first_chunk) {
                self.pointers.set(u64::from_le_bytes(*word));
            }
        };
        for word in bytes.as_chunks::<8>().0 {
            let word = u64::from_le_bytes(*word);
            if word & 1 == 0 {
                pointer(word);
                next = word.wrapping_add(8);
            } else {
                (0..63)
                    .filter(|bit| word >> (bit + 1) & 1 == 1)
                    .for_each(|bit| pointer(next.wrapping_add(bit * 8)));
                next = next.wrapping_add(63 * 8);
            }
        }
    }

    fn words(&mut self, section: &Section<'_>) {
        let (low, high) = (self.pointers.low(), self.pointers.high());
        let skip = (section.start.wrapping_neg() & 7) as usize;
        for word in section.data.get(skip..).unwrap_or_default().as_chunks::<8>().0 {
            let word = u64::from_le_bytes(*word);
            if word.wrapping_sub(low) < high - low {
                self.pointers.set(word);
            }
        }
    }
}

/// The address that a displacement of 32 bits at `place` leads to, when it ends its instruction.
fn after(place: u64, displacement: i32) -> u64 {
    (place + 4).wrapping_add_signed(i64::from(displacement))
}

/// The instruction whose bytes are at `place`, if the function there can be told. `Err` if it cannot.
fn instruction_at(listing: &Listing<'_>, place: u64) -> Result<Instruction, ()> {
    let region = listing.functions().region(listing, place).ok_or(())?;
    if !region.sure || region.is_doubtful() {
        return Err(());
    }
    let instructions = listing.decode(&region);
    if instructions.iter().any(Instruction::is_invalid) {
        return Err(());
    }
    let index = instructions.partition_point(|it| it.ip() <= place);
    index.checked_sub(1).map(|index| instructions[index]).ok_or(())
}

/// Whether what stands at `place` is really the displacement of an instruction that names `target`.
pub(crate) fn is_displacement(listing: &Listing<'_>, place: u64, target: u64) -> bool {
    instruction_at(listing, place).map_or(true, |it| names(&it, target))
}

/// Whether an instruction branches to `target`, or computes it as an address.
pub(crate) fn names(it: &Instruction, target: u64) -> bool {
    names_any(it, &(target..target + 1))
}

/// Whether an instruction branches to one of these addresses, or computes it as an address.
pub(crate) fn names_any(it: &Instruction, targets: &Range<u64>) -> bool {
    let near = (0..it.op_count()).any(|op| it.op_kind(op) == OpKind::NearBranch64)
        && targets.contains(&it.near_branch64());
    near || (it.is_ip_rel_memory_operand() && targets.contains(&it.memory_displacement64()))
}

/// Whether the four bytes at `place` are really a number of an instruction.
fn is_number(listing: &Listing<'_>, place: u64) -> bool {
    let Ok(it) = instruction_at(listing, place) else { return true };
    let Some(bytes) = listing.bytes_from(it.ip()).and_then(|bytes| bytes.get(..it.len())) else {
        return true;
    };
    let mut decoder = iced_x86::Decoder::with_ip(64, bytes, it.ip(), iced_x86::DecoderOptions::NONE);
    let it = decoder.decode();
    let parts = decoder.get_constant_offsets(&it);
    let offset = (place - it.ip()) as usize;
    // Of a branch and of an operand relative to rip, the four bytes are no address: `branches` knows those.
    let displacement = parts.has_displacement() && !it.is_ip_rel_memory_operand();
    (displacement && parts.displacement_offset() == offset)
        || (parts.has_immediate() && parts.immediate_offset() == offset && parts.immediate_size() >= 4)
}

/// The address that the table entry at `entry` leads to, relative to `table`, if it is in the text.
fn table_entry(listing: &Listing<'_>, table: u64, entry: u64) -> Option<u64> {
    let four = listing.bytes_from(entry)?.first_chunk()?;
    let target = table.wrapping_add_signed(i64::from(i32::from_le_bytes(*four)));
    (target != table && listing.code_at(target).is_some()).then_some(target)
}

fn read_table(listing: &Listing<'_>, table: u64, next: u64, pointers: &mut Bits) {
    let mut entry = table;
    while entry < next
        && let Some(target) = table_entry(listing, table, entry)
    {
        pointers.set(target);
        entry += 4;
    }
}
