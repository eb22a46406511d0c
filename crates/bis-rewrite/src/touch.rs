//! Which memory an instruction touches.

use std::ops::Range;

use iced_x86::{Decoder, DecoderOptions, InstructionInfoFactory, OpAccess, Register};

/// What is touched by an instruction that does not say how many bytes it takes: one that saves registers.
const WHOLE: u64 = 4096;

/// Bytes that an instruction touches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Touch {
    pub range: Range<u64>,
    /// It reads them, writes them, or both.
    pub is_read: bool,
    pub is_write: bool,
}

/// The registers that say where an instruction's memory is.
#[derive(Clone, Copy, Debug)]
pub struct Pointers {
    pub rip: u64,
    /// The general registers, by number.
    pub general: [u64; 16],
    pub fs_base: u64,
    pub gs_base: u64,
}

/// The memory that an instruction touches which is about to be executed with these registers, as far as it
/// says. `code`: what is there.
pub fn touches(code: &[u8], pointers: &Pointers) -> Vec<Touch> {
    let mut decoder = Decoder::with_ip(64, code, pointers.rip, DecoderOptions::NONE);
    let instruction = decoder.decode();
    let value = |register: Register| -> Option<u64> {
        let whole = match register.full_register() {
            register if register.is_gpr64() => pointers.general[register.number()],
            Register::FS => return Some(pointers.fs_base),
            Register::GS => return Some(pointers.gs_base),
            register if register.is_segment_register() => return Some(0),
            // Those of a gather are in a vector register.
            _ => return None,
        };
        Some(match register.size() {
            4 => whole & u64::from(u32::MAX),
            2 => whole & u64::from(u16::MAX),
            1 => whole & u64::from(u8::MAX),
            _ => whole,
        })
    };
    let mut factory = InstructionInfoFactory::new();
    let used = factory.info(&instruction).used_memory().iter();
    let touch = |used: &iced_x86::UsedMemory| {
        let at = used.virtual_address(0, |register, _, _| value(register))?;
        let len = match used.memory_size().size() {
            0 => WHOLE,
            len => len as u64,
        };
        let is_read = !matches!(used.access(), OpAccess::Write | OpAccess::CondWrite);
        let is_write = !matches!(used.access(), OpAccess::Read | OpAccess::CondRead);
        Some(Touch { range: at..at.saturating_add(len), is_read, is_write })
    };
    used.filter(|used| used.access() != OpAccess::NoMemAccess).filter_map(touch).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_reads_and_what_writes() {
        let pointers = Pointers { rip: 0x1000, general: [0x2000; 16], fs_base: 0, gs_base: 0 };
        let cases: [(&[u8], u64, bool, bool); 5] = [
            // mov rax, [rbx]; mov [rbx], rax; xchg [rbx], al; lock cmpxchg [rbx], ecx; lock add [rbx], ecx.
            (&[0x48, 0x8b, 0x03], 8, true, false),
            (&[0x48, 0x89, 0x03], 8, false, true),
            (&[0x86, 0x03], 1, true, true),
            (&[0xf0, 0x0f, 0xb1, 0x0b], 4, true, true),
            (&[0xf0, 0x01, 0x0b], 4, true, true),
        ];
        for (code, len, is_read, is_write) in cases {
            let wanted = Touch { range: 0x2000..0x2000 + len, is_read, is_write };
            assert_eq!(touches(code, &pointers), [wanted], "{code:x?}");
        }
    }
}
