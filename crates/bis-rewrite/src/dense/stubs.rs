//! Calls of a library to its own functions by way of its linkage table. Compilers make such calls wherever
//! another file might have a function of the same name; mostly none has, and then a recursion goes through
//! the table.
//!
//! A stub jumps through a slot that the dynamic linker fills, and the file's relocations say with which
//! symbol. If the file itself defines that, the stub counts as leading there.

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl};
use object::{
    LittleEndian, SymbolIndex, elf,
    read::elf::{Rela as _, SectionHeader as _},
};

use crate::analysis::Analysis;

/// Instructions of a stub up to its jump: there may be an `endbr64` before it.
const LOOK: usize = 2;

/// (slot, where the file's own definition of its symbol is), by slot.
pub(super) struct Stubs(Vec<(u64, u64)>);

impl Stubs {
    pub fn of(text: &Analysis<'_>) -> Self {
        let (endian, all) = (LittleEndian, text.file.data());
        let names = text.file.elf_dynamic_symbol_table();
        let mut slots = Vec::new();
        for section in text.file.elf_section_table().iter() {
            let Ok(Some((relocations, _))) = section.rela(endian, all) else { continue };
            for relocation in relocations {
                let kind = relocation.r_type(endian, false);
                if kind != elf::R_X86_64_JUMP_SLOT && kind != elf::R_X86_64_GLOB_DAT {
                    continue;
                }
                let symbol = names.symbol(SymbolIndex(relocation.r_sym(endian, false) as usize));
                let value = symbol.map_or(0, |symbol| symbol.st_value.get(endian));
                if value != 0 {
                    slots.push((relocation.r_offset(endian), value));
                }
            }
        }
        slots.sort_unstable();
        Self(slots)
    }

    /// Where the stub at `address` leads to, if that is in this file.
    pub fn follow(&self, text: &Analysis<'_>, address: u64) -> Option<u64> {
        let section = text.code_at(address).filter(|section| section.plt && !self.0.is_empty())?;
        let mut decoder = Decoder::with_ip(64, section.from(address)?, address, DecoderOptions::NONE);
        for _ in 0..LOOK {
            let it = decoder.decode();
            if it.code() == Code::Jmp_rm64 && it.is_ip_rel_memory_operand() {
                let slot = it.memory_displacement64();
                let index = self.0.binary_search_by_key(&slot, |(slot, _)| *slot).ok()?;
                return Some(self.0[index].1);
            }
            if it.flow_control() != FlowControl::Next {
                return None;
            }
        }
        None
    }
}
