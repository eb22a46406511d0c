//! Where a text reads the processor's time stamp counter, and where its bytes only look as if they did.
//!
//! A recorder that lets `rdtsc` run (because it does not make it fault) must be sure that no such instruction
//! is left in a program. The bytes tell: without `0f 31` and `0f 01 f9` anywhere in executable memory there
//! is none, at any alignment. Where they occur, [`crate::Text::clock_at`] says what they are: an instruction
//! with a [`Run`]; an instruction that has too little room for a jump, but can be overwritten by one that
//! faults ([`Learned::Clock`]); the inside of another instruction, into which nothing leads
//! ([`Learned::Inside`]); or something uncertain, which is refused.
//!
//! [`moved`] makes a copy of the vdso's text for another place, so that a hook can read the clock as the
//! program would. Nothing here looks at processes.

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind};
use memchr::memmem;

use crate::{
    analysis::Analysis,
    choose,
    record::Learned,
    run::{Reason, SiteKind, clock_fault},
};

/// The offsets at which `code` has the bytes of `rdtsc` or `rdtscp`, in order.
#[must_use]
pub fn clock_bytes(code: &[u8]) -> Vec<usize> {
    // Two searches for rare pairs: one for 0f, of which code has very many, takes eight times as long.
    let mut found: Vec<usize> = memmem::find_iter(code, &[0x0f, 0x31]).collect();
    found.extend(memmem::find_iter(code, &[0x0f, 0x01, 0xf9]));
    found.sort_unstable();
    found
}

/// Where there is more than this at once, nothing in it is believed.
const UNSURE_MAX: u64 = 32 << 20;

pub(crate) fn clock_at(text: &Analysis<'_>, vaddr: u64) -> Learned {
    let refused = |reason| Learned::Refused { site: vaddr, reason };
    let Some(region) = text.functions().region(text, vaddr) else { return refused(Reason::NotASite) };
    // Most of what looks like it in text that nobody tells of is something else, and there may be very much
    // of that.
    if !region.sure && region.len() > UNSURE_MAX || text.is_tired() {
        return refused(Reason::Undecoded);
    }
    if let Ok(run) = choose::run_at(text, vaddr) {
        return match clock_fault(run.kind()) {
            Some(_) => Learned::Run(run),
            None => refused(Reason::NotASite),
        };
    }
    if region.is_doubtful() || !region.sure || text.functions().broken {
        return refused(Reason::Undecoded);
    }
    let instructions = text.decode(&region);
    if instructions.iter().any(Instruction::is_invalid) {
        return refused(Reason::Undecoded);
    }
    let after = instructions.partition_point(|it| it.ip() <= vaddr);
    let Some(index) = after.checked_sub(1) else { return refused(Reason::Undecoded) };
    let it = &instructions[index];
    match SiteKind::of(it).filter(|kind| clock_fault(*kind).is_some()) {
        Some(kind) if it.ip() == vaddr => Learned::Clock { site: vaddr, kind },
        // Prefixes stand before it.
        Some(_) => refused(Reason::Prefixed),
        None if it.ip() == vaddr || it.next_ip() <= vaddr => refused(Reason::Undecoded),
        None => match choose::check_whole(text, region, &instructions, index) {
            Ok(()) => Learned::Inside { site: vaddr },
            Err(reason) => refused(reason),
        },
    }
}

/// Text that lies at `from` in a larger image (of addresses `image`), as it must be when the whole image lies
/// at `to` instead of at `image.start`: what it refers to outside of the image stays where it is. Each
/// `syscall` becomes `mov al, FALLBACK`, so that a function which would return a call's result returns a
/// number that ends in [`FALLBACK`].
///
/// None where it cannot be told what the text refers to, or where that is too far from `to`.
#[must_use]
pub fn moved(text: &[u8], from: u64, image: std::ops::Range<u64>, to: u64) -> Option<Vec<u8>> {
    let mut bytes = text.to_vec();
    let own = from..from + text.len() as u64;
    let mut decoder = Decoder::with_ip(64, text, from, DecoderOptions::NONE);
    while decoder.can_decode() {
        let it = decoder.decode();
        if it.is_invalid() {
            return None;
        }
        let at = usize::try_from(it.ip() - from).ok()?;
        if it.mnemonic() == Mnemonic::Syscall {
            bytes.get_mut(at..at + 2)?.copy_from_slice(&[0xb0, FALLBACK]);
        }
        if it.op0_kind() == OpKind::NearBranch64 && !own.contains(&it.near_branch64()) {
            return None;
        }
        // What it jumps to by a number in memory would be an address of the old place.
        if it.flow_control() == FlowControl::IndirectCall {
            return None;
        }
        if it.is_ip_rel_memory_operand() && !image.contains(&it.memory_displacement64()) {
            let offset = decoder.get_constant_offsets(&it).displacement_offset();
            let place = bytes.get_mut(at + offset..at + offset + 4)?;
            let distance = i32::from_le_bytes(place.try_into().ok()?);
            let shift = image.start.wrapping_sub(to).cast_signed();
            let distance = i32::try_from(i64::from(distance).checked_add(shift)?).ok()?;
            place.copy_from_slice(&distance.to_le_bytes());
        }
    }
    Some(bytes)
}

/// The last byte of what a function of a [`moved`] text returns instead of making a system call. No result of
/// the kernel's clocks has it: they return 0, a small negative number, or (seconds) do not make a call.
pub const FALLBACK: u8 = 0x7f;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_found_at_every_place() {
        let code = [0x0f, 0x31, 0x0f, 0x0f, 0x31, 0x0f, 0x01, 0xf9, 0x0f, 0x01, 0xf8, 0x0f];
        assert_eq!(clock_bytes(&code), [0, 3, 5]);
        assert_eq!(clock_bytes(&[0x0f]), []);
        assert_eq!(clock_bytes(&[]), []);
    }

    #[test]
    fn what_lies_outside_is_reached_from_the_new_place() {
        // 0x1100: mov eax, [rip - 0x2106] (0xf000 below... an address outside); lea rcx, [rip + 1] (inside);
        // syscall; ret
        let outside = 0x1106u64.wrapping_sub(0x2106);
        let code = [
            &[0x8b, 0x05][..],
            &(-0x2106i32).to_le_bytes(),
            &[0x48, 0x8d, 0x0d, 1, 0, 0, 0],
            &[0x0f, 0x05, 0xc3],
        ]
        .concat();
        let image = 0x1000..0x2000;
        let new = moved(&code, 0x1100, image, 0x9000).expect("nothing is uncertain");
        let mut decoder = Decoder::with_ip(64, &new, 0x9100, DecoderOptions::NONE);
        assert_eq!(decoder.decode().memory_displacement64(), outside);
        assert_eq!(decoder.decode().memory_displacement64(), 0x9100 + 14);
        assert_eq!(new[13..], [0xb0, FALLBACK, 0xc3]);
        assert_eq!(moved(&[0xe8, 0, 0, 0, 0x10], 0x1100, 0x1000..0x2000, 0x9000), None);
        assert_eq!(moved(&code, 0x1100, 0x1000..0x2000, 0x7f00_0000_0000), None);
    }
}
