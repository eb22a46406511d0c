//! The register file of a Linux thread on x86-64, as clients see it: that of a 64-bit program, or of a 32-bit
//! one.
//!
//! One table ([`Target::registers`]) says for each register its number, its place in the block of `g`, and
//! where it really lives: a word of [`Registers`], bytes of the extended state, or an x87 field that has to
//! be made. From the table come the target description (`xml`), reading and writing (`access`), and LLDB's
//! `qRegisterInfo` (`info`).
//!
//! The numbers are those that gdb gives to the registers of the features in this order: core, SSE, Linux,
//! segments, AVX, AVX-512, protection keys. A feature is there if the program's XCR0 has its components.
//!
//! The extended state is the XSAVE area in the standard (non-compacted) form, as ptrace and signal frames
//! have it (Intel SDM volume 1, 13.4). It may be cut: what is not there holds its initial value.

mod access;
mod info;
mod table;
mod x87;
mod xml;

#[cfg(test)]
mod tests;

use bis_trace::types::Registers;

pub use access::WriteError;
pub use table::{Feature, Format, Register, Width};

/// Where the components of the extended state lie, in bytes from its start. The processor tells: `cpuid` leaf
/// 0xd, subleaf of the component, ebx. The legacy area (x87 and SSE) and the header are the same everywhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Offsets {
    /// The upper halves of ymm0 to ymm15 (component 2).
    pub ymm_high: usize,
    /// k0 to k7 (component 5).
    pub opmask: usize,
    /// The upper halves of zmm0 to zmm15 (component 6).
    pub zmm_high: usize,
    /// zmm16 to zmm31 (component 7).
    pub zmm_16_31: usize,
    /// The protection keys (component 9).
    pub pkru: usize,
}

impl Default for Offsets {
    /// Those of Intel's processors. AMD's have the components closer together.
    fn default() -> Offsets {
        Offsets { ymm_high: 576, opmask: 1088, zmm_high: 1152, zmm_16_31: 1664, pkru: 2688 }
    }
}

/// The longest extended state that is believed, in bytes. With AMX, the largest component, it is about 11
/// KiB.
pub const EXTENDED_MAX: usize = 1 << 16;

/// Where a register lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// The lowest bytes of a word of [`Registers::words`].
    Word(usize),
    /// Bytes of the extended state, of this component.
    Extended { offset: usize, component: u8 },
    /// An x87 field, which has 32 bits for clients and fewer in the extended state.
    X87(x87::Field),
}

/// The registers of threads of both widths, with a certain processor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Targets {
    wide: Target,
    narrow: Target,
}

impl Targets {
    /// As [`Target::new`].
    #[must_use]
    pub fn new(xcr0: u64, offsets: &Offsets) -> Targets {
        let of = |width| Target::new(width, xcr0, offsets);
        Targets { wide: of(Width::Bits64), narrow: of(Width::Bits32) }
    }

    /// Those of a thread that has these registers.
    #[must_use]
    pub fn of(&self, registers: &Registers) -> &Target {
        if registers.is_narrow() { &self.narrow } else { &self.wide }
    }
}

/// The registers of threads of one width, with a certain processor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Target {
    width: Width,
    registers: Vec<Register>,
    /// The files of the target description, with their names.
    files: Vec<(String, String)>,
}

impl Target {
    /// `xcr0` says which components there are. One whose offset is beyond [`EXTENDED_MAX`] is left out: the
    /// numbers may be those of a trace from a stranger.
    #[must_use]
    pub fn new(width: Width, xcr0: u64, offsets: &Offsets) -> Target {
        let registers = table::table(width, xcr0, offsets);
        let files = xml::files(width, &registers);
        Target { width, registers, files }
    }

    /// Bytes of a word.
    #[must_use]
    pub fn word_len(&self) -> usize {
        match self.width {
            Width::Bits32 => 4,
            Width::Bits64 => 8,
        }
    }

    /// The numbers of those that are asked for at each stop: the frame, the stack, the next instruction.
    #[must_use]
    pub fn frequent(&self) -> Vec<u64> {
        let numbers = ["rbp", "rsp", "rip", "ebp", "esp", "eip"].into_iter();
        numbers.filter_map(|name| Some(self.named(name)?.number as u64)).collect()
    }

    /// The registers by number.
    #[must_use]
    pub fn registers(&self) -> &[Register] {
        &self.registers
    }

    /// The register with this number.
    #[must_use]
    pub fn register(&self, number: u64) -> Option<&Register> {
        self.registers.get(usize::try_from(number).ok()?)
    }

    /// The register with gdb's name.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&Register> {
        self.registers.iter().find(|register| register.name == name)
    }

    /// A file of the target description, by the annex of `qXfer:features`: at first `target.xml`, then those
    /// that it includes.
    #[must_use]
    pub fn xml(&self, annex: &str) -> Option<&str> {
        self.files.iter().find(|(name, _)| name == annex).map(|(_, text)| text.as_str())
    }

    /// The bytes of the block of `g`.
    #[must_use]
    pub fn block_len(&self) -> usize {
        self.registers.last().map_or(0, |last| last.offset + last.len)
    }

    /// The answer to `qRegisterInfo`; none behind the last register.
    #[must_use]
    pub fn info(&self, number: u64) -> Option<Vec<u8>> {
        self.register(number).map(|register| info::info(self.width, register))
    }

    /// One register's bytes.
    #[must_use]
    pub fn read(&self, number: u64, registers: &Registers, extended: &[u8]) -> Option<Vec<u8>> {
        self.register(number).map(|register| access::read(register, registers, extended))
    }

    /// All registers, for `g`.
    #[must_use]
    pub fn read_all(&self, registers: &Registers, extended: &[u8]) -> Vec<u8> {
        self.registers.iter().flat_map(|register| access::read(register, registers, extended)).collect()
    }

    /// Writes one register. An extended state that is too short for it grows, and its header says that the
    /// register's component is in use.
    ///
    /// # Errors
    /// Where there is no such register, or it has another length. Nothing has changed then.
    pub fn write(
        &self,
        number: u64,
        bytes: &[u8],
        registers: &mut Registers,
        extended: &mut Vec<u8>,
    ) -> Result<(), WriteError> {
        let register = self.register(number).ok_or(WriteError::NoRegister)?;
        access::write(register, bytes, registers, extended)
    }

    /// Writes all registers, from a block of `G`. Registers that have the value already are left alone.
    ///
    /// # Errors
    /// Where the block has another length. Nothing has changed then.
    pub fn write_all(
        &self,
        block: &[u8],
        registers: &mut Registers,
        extended: &mut Vec<u8>,
    ) -> Result<(), WriteError> {
        if block.len() != self.block_len() {
            return Err(WriteError::Length { expected: self.block_len(), found: block.len() });
        }
        for register in &self.registers {
            let bytes = &block[register.offset..register.offset + register.len];
            if access::read(register, registers, extended) != bytes {
                access::write(register, bytes, registers, extended)?;
            }
        }
        Ok(())
    }

    /// A register's lowest eight bytes as a number, for the agent's interpreter.
    #[must_use]
    pub fn value(&self, number: u64, registers: &Registers, extended: &[u8]) -> Option<u64> {
        let bytes = self.read(number, registers, extended)?;
        Some(u64::from_le_bytes(std::array::from_fn(|at| bytes.get(at).copied().unwrap_or(0))))
    }
}
