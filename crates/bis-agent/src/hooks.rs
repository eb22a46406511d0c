//! The hooks as the supervisor sees them: where their parts lie, the state that both share, the table of the
//! calls that they may make, and the entries of their log. What both sides must say alike is in
//! [`crate::shared`] alone, of which the build makes the header that the hooks' own sources include.

mod table;

use std::mem::offset_of;

use crate::shared::{CALL, EIGHTS, Head, LEFT, MAP_AGAIN, MAP_KEPT_AGAIN};

pub use crate::shared::{
    AREA_BASE, CALLS, CLONE_BYTES_MIN, COPIED_BASE, COUNT_RCX, COUNTDOWN, CPUID_BASE, Change, FALLBACK,
    FD_CLASS_BASE, FDS, FILES_BASE, FILES_BITS, FdClass, IN_FNSTENV, IN_XSAVEC, KEPT_BASE, KEPT_MAX,
    KeptFile, LOG_BASE, LOG_LEN, MAP_PLAIN, NR_LSL, NR_RDPID, NR_RDRAND, NR_RDSEED, NR_RDTSC, NR_RDTSCP,
    PAGE, PLAIN_BASE, PLAIN_MAX, Piece, PieceKind, PlainRange, Row, SAFEPOINT, SCRATCH_BASE, TABLE_BASE,
    file_bit, flag, state,
};
pub use table::table;

mod symbols {
    #![allow(dead_code, reason = "the build lists every symbol of the hooks")]
    include!(concat!(env!("OUT_DIR"), "/hooks_symbols.rs"));
}

/// Where the hooks' text is mapped, right behind the stub.
pub const TEXT_BASE: u64 = symbols::TEXT_BASE;

/// The most answers that there is room for.
pub const CPUID_MAX: usize = ((TABLE_BASE - CPUID_BASE - 8) / 24) as usize;

/// A question to the cpuid instruction and its answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cpuid {
    pub leaf: u32,
    /// In ecx; none: it does not matter.
    pub subleaf: Option<u32>,
    /// eax, ebx, ecx, edx.
    pub answer: [u32; 4],
}

/// Bytes of the table: [`CALLS`] rows.
pub const TABLE_LEN: usize = CALLS * Row::LEN;

/// Bytes of the area.
pub const AREA_LEN: u64 = PLAIN_BASE + (PLAIN_MAX * size_of::<PlainRange>()) as u64 - AREA_BASE;
const _: () = assert!(AREA_LEN.is_multiple_of(PAGE));

/// Where a trampoline enters, with rcx = the address behind the trampoline's own system call.
pub const ENTER: u64 = symbols::ENTER;
/// Where a trampoline of a vdso function that reads the clock (clock_gettime, gettimeofday, time) enters,
/// with rcx as for [`ENTER`].
pub const CLOCK: u64 = symbols::CLOCK;
/// Where a trampoline of an rdtsc instruction enters, with rdx = the address behind the trampoline's own.
pub const RDTSC: u64 = symbols::RDTSC;
/// Where a trampoline of an rdtscp instruction enters, with rdx as for [`RDTSC`].
pub const RDTSCP: u64 = symbols::RDTSCP;
/// Where a trampoline of a cpuid instruction enters, with rdx = the address behind the trampoline's own.
pub const CPUID: u64 = symbols::CPUID;
/// Where a trampoline of an rdrand, rdseed, rdpid or lsl instruction enters, with rcx = the address behind
/// the trampoline's own, the program's rcx at [`state::SAVED_RCX`], and for lsl its selector at
/// [`state::SAVED_R11`].
pub const CHANCE: u64 = symbols::CHANCE;
/// Where a trampoline of an xsavec instruction enters after its own, with rcx = the address behind the copy
/// of it that follows, the program's rcx at [`state::SAVED_RCX`], and the area's address at
/// [`state::SAVED_R11`].
pub const XSAVEC: u64 = symbols::XSAVEC;
/// Where a trampoline of an fnstenv or fnsave instruction enters after its own, with the same as for
/// [`XSAVEC`]: it leads into that hook.
pub const FNSTENV: u64 = symbols::FNSTENV;
/// From here on, [`XSAVEC_KEPT`] are on its stack.
pub const XSAVEC_KEPT_FROM: u64 = symbols::XSAVEC_KEPT;
/// The registers of the program that it keeps, by their numbers, the first one at the end of the hooks' stack
/// ([`SCRATCH_BASE`]), the next one below it; and below all, the flags. It uses no other of the program's.
pub const XSAVEC_KEPT: [u8; 8] = [0, 2, 6, 7, 8, 9, 10, 11];
/// From here on, flags, rsi and rdi are on its stack, in this order ([`SCRATCH_BASE`]).
pub const CPUID_KEPT_FROM: u64 = symbols::CPUID_KEPT;
/// Where it begins to take the answer out of the row at rsi. Until then, rax and rcx are the question, and
/// rdx is what it was entered with.
pub const CPUID_FOUND: u64 = symbols::CPUID_FOUND;
/// Where it is about to leave the question to the trampoline's own instruction. It has not touched rax, rcx
/// and rdx.
pub const CPUID_LEFT: u64 = symbols::CPUID_LEFT;
/// Address just after that hook. All of the ways into hooks, and out of them but to a safepoint, lie between
/// [`ENTER`] and here.
pub const CPUID_END: u64 = symbols::MAKE;
/// From here to [`SYSCALL`] inclusive, a call can still be called off: by going on at [`BAILED`].
pub const MAKE_CHECK: u64 = symbols::MAKE_CHECK;
/// The hooks' own system call instruction.
pub const SYSCALL: u64 = symbols::SYSCALL;
/// The address behind it: what a seccomp filter sees.
pub const SYSCALL_END: u64 = symbols::SYSCALL_END;
/// Goes on as if the call had been called off.
pub const BAILED: u64 = symbols::BAILED;
/// A fault from here to [`COPY_FAULT`] exclusive is one of the program's pointers.
pub const COPY: u64 = symbols::COPY;
/// Goes on after such a fault.
pub const COPY_FAULT: u64 = symbols::COPY_FAULT;
/// Where the ways to a safepoint begin. They end at [`SAFEPOINT_END`].
pub const SAFEPOINT_FROM: u64 = symbols::SAFEPOINT_WHOLE;
/// What a seccomp filter sees of the traced call at the end of a hook: all registers are the program's, but
/// for rip and rax, which are in the state. The call is [`SAFEPOINT`].
pub const SAFEPOINT_END: u64 = symbols::SAFEPOINT_END;
/// What a seccomp filter sees of a call with which a hook changes the address space in replay.
pub const CHANGE_END: u64 = symbols::CHANGE_END;
/// An int3: the replayed program made another call than the log has.
pub const DIVERGED: u64 = symbols::DIVERGED;

/// The text as it runs while recording, to be placed at [`TEXT_BASE`].
pub const TEXT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/hooks.bin"));

const _: () = assert!(TEXT_BASE == crate::AGENT_BASE + crate::AGENT_LEN);
const _: () = assert!(TEXT_BASE + TEXT.len() as u64 <= PLACES_BASE);
const _: () = assert!(TABLE_BASE + TABLE_LEN as u64 <= AREA_BASE);

/// Where in the hooks' text a replay must know its way. They lie elsewhere in the hooks of each version, and
/// of each compiler: a trace is replayed with its own hooks, and these say it themselves, in the last bytes
/// before the answers of cpuid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Places {
    /// As [`ENTER`], and so on.
    pub enter: u64,
    pub rdtscp: u64,
    pub chance: u64,
    pub cpuid: u64,
    pub cpuid_end: u64,
    pub copy: u64,
    pub copy_fault: u64,
    pub safepoint_end: u64,
    pub diverged: u64,
    /// Behind the call with which a hook changes the address space in replay; 0: these hooks do not.
    pub change_end: u64,
}

/// What replay and hooks agree on beside [`Places`]: the addresses of text, table, area and log, [`state`]'s
/// offsets, and the log's entries. To be raised when one of these changes its meaning; then replay needs to
/// know both, or refuses the older.
///
/// 2: hooks change the address space, and an entry of such a call has a [`Change`]. 3: they make arch_prctl
/// and set_tid_address, whose entries have one, too, and map kept files.
const AGREEMENT: u64 = 3;

/// The one before has neither of the two calls, nor files.
const AGREEMENT_WITHOUT_FILES: u64 = 2;

/// The first does not change the address space, says one place less, and has the answers of cpuid here.
const AGREEMENT_WITHOUT_CHANGES: u64 = 1;
const CPUID_BASE_WITHOUT_CHANGES: u64 = 0x7000_6000;

const PLACES_MAGIC: [u8; 8] = *b"BISHOOKS";

/// Where the hooks say their [`Places`]: magic, agreement, the places in the order of their declaration.
const PLACES_BASE: u64 = CPUID_BASE - Places::LEN as u64;

impl Places {
    /// Bytes.
    pub const LEN: usize = 8 * 12;

    /// Of the first agreement.
    const LEN_WITHOUT_CHANGES: usize = 8 * 11;

    /// Those of this version's hooks.
    pub const OURS: Places = Places {
        enter: ENTER,
        rdtscp: RDTSCP,
        chance: CHANCE,
        cpuid: CPUID,
        cpuid_end: CPUID_END,
        copy: COPY,
        copy_fault: COPY_FAULT,
        safepoint_end: SAFEPOINT_END,
        diverged: DIVERGED,
        change_end: CHANGE_END,
    };

    /// Bytes of an image's begin that [`Places::of`] wants to see.
    pub const SEEN: usize = (CPUID_BASE - TEXT_BASE) as usize;

    /// The places of these hooks, of which `image` is the begin; none if this version cannot replay them.
    pub fn of(image: &[u8]) -> Option<Places> {
        let (text, said) = image.get(..Self::SEEN)?.split_at(Self::SEEN - Self::LEN);
        if let Some(words) = said.strip_prefix(&PLACES_MAGIC) {
            return Places::said(words, &[AGREEMENT, AGREEMENT_WITHOUT_FILES]);
        }
        let end = usize::try_from(CPUID_BASE_WITHOUT_CHANGES - TEXT_BASE).unwrap_or(0);
        let first = text.get(end - Self::LEN_WITHOUT_CHANGES..end)?;
        if let Some(words) = first.strip_prefix(&PLACES_MAGIC) {
            return Places::said(words, &[AGREEMENT_WITHOUT_CHANGES]);
        }
        // Or hooks that do not say it.
        let is_silent = said.iter().all(|byte| *byte == 0);
        (is_silent && is_replayed_text(text.get(..TEXT.len())?)).then_some(Places::OURS)
    }

    /// What hooks of one of these agreements say, behind the magic.
    fn said(words: &[u8], agreements: &[u64]) -> Option<Places> {
        let word = |at: usize| Some(u64::from_le_bytes(words.get(8 * at..8 * at + 8)?.try_into().ok()?));
        let agreement = word(0).filter(|agreement| agreements.contains(agreement))?;
        let place = |at: usize| word(at).filter(|place| (TEXT_BASE..PLACES_BASE).contains(place));
        Some(Places {
            enter: place(1)?,
            rdtscp: place(2)?,
            chance: place(3)?,
            cpuid: place(4)?,
            cpuid_end: place(5)?,
            copy: place(6)?,
            copy_fault: place(7)?,
            safepoint_end: place(8)?,
            diverged: place(9)?,
            change_end: if agreement == AGREEMENT_WITHOUT_CHANGES { 0 } else { place(10)? },
        })
    }

    fn bytes(&self) -> [u8; Self::LEN] {
        let Places {
            enter,
            rdtscp,
            chance,
            cpuid,
            cpuid_end,
            copy,
            copy_fault,
            safepoint_end,
            diverged,
            change_end,
        } = *self;
        let places =
            [enter, rdtscp, chance, cpuid, cpuid_end, copy, copy_fault, safepoint_end, diverged, change_end];
        let mut bytes = [0; Self::LEN];
        bytes[..8].copy_from_slice(&PLACES_MAGIC);
        for (word, place) in [AGREEMENT].iter().chain(&places).zip(bytes[8..].chunks_exact_mut(8)) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }
}

/// Until hooks are mapped, nobody asks for them.
impl Default for Places {
    fn default() -> Places {
        Places::OURS
    }
}

/// The instruction in place of the system call in replay.
const NOTHING: [u8; 2] = [0x66, 0x90];

/// Is this the text of [`image`] for replay, as this version makes it?
fn is_replayed_text(text: &[u8]) -> bool {
    let at = usize::try_from(SYSCALL - TEXT_BASE).unwrap_or(0);
    text.len() == TEXT.len()
        && text[..at] == TEXT[..at]
        && text[at..at + 2] == NOTHING
        && text[at + 2..] == TEXT[at + 2..]
}

/// Text and table as one piece for [`TEXT_BASE`]; for replay with an instruction that does nothing in place
/// of the system call.
pub fn image(replay: bool, cpuid: &[Cpuid], table: &[Row; CALLS]) -> Vec<u8> {
    let table_at = usize::try_from(TABLE_BASE - TEXT_BASE).unwrap_or(0);
    let mut image = vec![0; table_at + TABLE_LEN];
    image[..TEXT.len()].copy_from_slice(TEXT);
    if replay {
        let at = usize::try_from(SYSCALL - TEXT_BASE).unwrap_or(0);
        image[at..at + 2].copy_from_slice(&NOTHING);
    }
    let cpuid = &cpuid[..cpuid.len().min(CPUID_MAX)];
    let cpuid_at = usize::try_from(CPUID_BASE - TEXT_BASE).unwrap_or(0);
    image[cpuid_at - Places::LEN..cpuid_at].copy_from_slice(&Places::OURS.bytes());
    image[cpuid_at..cpuid_at + 8].copy_from_slice(&(cpuid.len() as u64).to_le_bytes());
    for (known, place) in cpuid.iter().zip(image[cpuid_at + 8..].chunks_exact_mut(24)) {
        let [eax, ebx, ecx, edx] = known.answer;
        let words = [known.leaf, known.subleaf.unwrap_or(u32::MAX), eax, ebx, ecx, edx];
        for (word, place) in words.iter().zip(place.chunks_exact_mut(4)) {
            place.copy_from_slice(&word.to_le_bytes());
        }
    }
    for (row, place) in table.iter().zip(image[table_at..].chunks_exact_mut(Row::LEN)) {
        place.copy_from_slice(&row.bytes());
    }
    image
}

/// Is this address one of the hooks' text?
pub fn is_inside(rip: u64) -> bool {
    (TEXT_BASE..TABLE_BASE).contains(&rip)
}

/// An entry of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry<'a> {
    /// The call's number.
    pub nr: u16,
    /// The call would have waited, and was left to be traced.
    pub left: bool,
    /// What the kernel gave; meaningless for a call that was left.
    pub result: i64,
    /// The memory that it wrote, in the log's own order and padding.
    pub data: &'a [u8],
}

impl Entry<'_> {
    /// What the call has changed of the address space, or of the task, if it has.
    pub fn change(&self) -> Option<Change> {
        let may_change = !self.left && CHANGING_CALLS.contains(&self.nr);
        let is_long = self.data.len() == size_of::<Change>();
        if !may_change || !is_long && self.data.len() != offset_of!(Change, file) {
            return None;
        }
        let word = |at: usize| self.data.get(at..at + 8)?.try_into().map(u64::from_le_bytes).ok();
        Some(Change {
            nr: word(offset_of!(Change, nr))?,
            addr: word(offset_of!(Change, addr))?,
            len: word(offset_of!(Change, len))?,
            how: word(offset_of!(Change, how))?,
            file: word(offset_of!(Change, file)).unwrap_or(0),
            offset: word(offset_of!(Change, offset)).unwrap_or(0),
        })
    }
}

impl Change {
    pub const MMAP: u64 = libc::SYS_mmap.cast_unsigned();
    pub const MPROTECT: u64 = libc::SYS_mprotect.cast_unsigned();
    pub const MUNMAP: u64 = libc::SYS_munmap.cast_unsigned();
    pub const MADVISE: u64 = libc::SYS_madvise.cast_unsigned();
    pub const ARCH_PRCTL: u64 = libc::SYS_arch_prctl.cast_unsigned();
    /// How an arch_prctl says where thread-local storage is (asm/prctl.h).
    pub const SET_TID_ADDRESS: u64 = libc::SYS_set_tid_address.cast_unsigned();

    /// Does replay's hook make it, too?
    pub fn is_made_again(&self) -> bool {
        self.nr != Change::SET_TID_ADDRESS
    }

    /// The number in the trace of the file that it maps.
    pub fn file(&self) -> Option<u64> {
        self.file.checked_sub(1).filter(|_| self.nr == Change::MMAP)
    }

    /// The arguments with which replay's hook makes it. Where a file is to be mapped, the descriptor is
    /// another one: in its place is the file's number, plus 1.
    pub fn args(&self) -> [u64; 6] {
        let Change { nr, addr, len, how, file, offset } = *self;
        match nr {
            Change::ARCH_PRCTL => [how, addr, 0, 0, 0, 0],
            Change::MMAP if file != 0 => [addr, len, how, MAP_KEPT_AGAIN, file, offset],
            Change::MMAP => [addr, len, how, MAP_AGAIN, u64::MAX, 0],
            _ => [addr, len, how, 0, 0, 0],
        }
    }
}

/// The calls whose entries may have a [`Change`].
const CHANGING_CALLS: [u16; 7] = [
    libc::SYS_mmap as u16,
    libc::SYS_mprotect as u16,
    libc::SYS_munmap as u16,
    libc::SYS_brk as u16,
    libc::SYS_madvise as u16,
    libc::SYS_arch_prctl as u16,
    libc::SYS_set_tid_address as u16,
];

/// The entries of a log, up to its end or its first damage.
pub fn entries(log: &[u8]) -> impl Iterator<Item = Entry<'_>> {
    let mut rest = log;
    std::iter::from_fn(move || {
        const LEN: usize = size_of::<Head>();
        let head: &[u8; LEN] = rest.first_chunk()?;
        let word = u32::from_le_bytes(*head[offset_of!(Head, head)..].first_chunk()?);
        let len = usize::try_from(word >> EIGHTS).ok()? * 8;
        let entry = rest.get(..len).filter(|entry| entry.len() >= LEN)?;
        rest = &rest[len..];
        Some(Entry {
            nr: u16::try_from(word & CALL).ok()?,
            left: word & LEFT != 0,
            result: i64::from_le_bytes(*head[offset_of!(Head, result)..].first_chunk()?),
            data: &entry[LEN..],
        })
    })
}

/// The files that hooks map, as their log has it: where in the log each one's word is, and its number in the
/// trace.
pub fn mapped_files(log: &[u8]) -> impl Iterator<Item = (u64, u64)> {
    let mut at = 0;
    entries(log).filter_map(move |entry| {
        let data_at = at + size_of::<Head>();
        at = data_at + entry.data.len();
        Some(((data_at + offset_of!(Change, file)) as u64, entry.change()?.file()?))
    })
}

#[cfg(test)]
mod tests {
    use iced_x86::{Decoder, DecoderOptions, Mnemonic};

    use super::*;

    #[test]
    fn a_change_has_two_words_more_where_it_maps_a_file() {
        let change = |nr: u16, words: &[u64]| {
            let data: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            Entry { nr, left: false, result: 0, data: &data }.change()
        };
        let mmap = libc::SYS_mmap as u16;
        let short = change(mmap, &[9, 0x1000, 0x2000, 3]).unwrap();
        assert_eq!((short.file(), short.args()), (None, [0x1000, 0x2000, 3, MAP_AGAIN, u64::MAX, 0]));
        let long = change(mmap, &[9, 0x1000, 0x2000, 1, 5, 0x3000]).unwrap();
        assert_eq!((long.file(), long.args()), (Some(4), [0x1000, 0x2000, 1, MAP_KEPT_AGAIN, 5, 0x3000]));
        for other in [&[9, 0x1000, 0x2000][..], &[9, 0x1000, 0x2000, 1, 5], &[9, 0x1000, 0x2000, 1, 5, 0, 0]]
        {
            assert_eq!(change(mmap, other), None);
        }
        assert_eq!(change(libc::SYS_read as u16, &[9, 0x1000, 0x2000, 3]), None);
    }

    #[test]
    fn nothing_jumps_on_the_line_to_which_the_kernel_returns() {
        const LINE: u64 = 64;
        let rest = usize::try_from(LINE - SYSCALL_END % LINE).unwrap();
        let at = usize::try_from(SYSCALL_END - TEXT_BASE).unwrap();
        // movq $2, STATE_PHASE; ret
        let phase = u32::try_from(AREA_BASE + state::PHASE).unwrap().to_le_bytes();
        let expected = [&[0x48, 0xc7, 0x04, 0x25], &phase[..], &[2, 0, 0, 0, 0xc3]].concat();
        assert_eq!(TEXT[at..at + expected.len()], expected);
        assert!(rest < expected.len(), "the ret is foreseen only {rest} bytes further");
    }

    /// Where the text has `syscall` instructions. (Their bytes may be a part of others: a jump's distance.)
    fn system_calls(text: &[u8]) -> Vec<u64> {
        let decoder = Decoder::with_ip(64, text, TEXT_BASE, DecoderOptions::NONE);
        decoder
            .into_iter()
            .filter(|insn| insn.mnemonic() == Mnemonic::Syscall)
            .map(|insn| insn.ip())
            .collect()
    }

    #[test]
    fn the_system_call_instructions_are_those_that_the_supervisor_knows() {
        let found = system_calls(TEXT);
        assert_eq!(found, [SYSCALL, SAFEPOINT_END - 2, CHANGE_END - 2]);
        let replayed = image(true, &[], &table());
        assert!(is_replayed_text(&replayed[..TEXT.len()]));
        assert!(!is_replayed_text(TEXT));
        assert!(!is_replayed_text(&replayed));
        assert_eq!(system_calls(&replayed[..TEXT.len()]), [SAFEPOINT_END - 2, CHANGE_END - 2]);
    }

    #[test]
    fn behind_an_xsavec_no_register_is_used_that_is_not_kept() {
        use iced_x86::{InstructionInfoFactory, OpAccess, Register};
        let at = usize::try_from(symbols::SAVED - TEXT_BASE).unwrap();
        let decoder = Decoder::with_ip(64, &TEXT[at..], symbols::SAVED, DecoderOptions::NONE);
        let mut factory = InstructionInfoFactory::new();
        let mut written = std::collections::BTreeSet::new();
        for insn in decoder.into_iter().take_while(|insn| insn.mnemonic() != Mnemonic::Ret) {
            let registers = factory.info(&insn).used_registers().iter();
            let changes =
                registers.filter(|used| !matches!(used.access(), OpAccess::Read | OpAccess::CondRead));
            let general = changes.map(|used| used.register().full_register()).filter(|it| it.is_gpr64());
            written.extend(general.map(Register::number));
        }
        // rcx is kept in the state, and rsp is the hooks' own.
        written.retain(|number| ![1, 4].contains(number));
        assert!(
            !written.is_empty() && written.iter().all(|it| XSAVEC_KEPT.contains(&(*it as u8))),
            "{written:?}"
        );
    }

    #[test]
    fn a_log_ends_at_its_damage() {
        let mut log = Vec::new();
        for (nr, data) in [(0u32, &b"12345678"[..]), (39, b"")] {
            log.extend((nr | (16 + data.len() as u32) << 9).to_le_bytes());
            log.extend([0; 4]);
            log.extend((-5i64).to_le_bytes());
            log.extend(data);
        }
        let found: Vec<(u16, i64, usize)> = entries(&log).map(|e| (e.nr, e.result, e.data.len())).collect();
        assert_eq!(found, [(0, -5, 8), (39, -5, 0)]);
        assert_eq!(entries(&log[..20]).count(), 0);
        log[1] = 0;
        assert_eq!(entries(&log).count(), 0);
    }
}
