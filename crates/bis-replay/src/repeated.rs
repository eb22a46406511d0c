//! String instructions that repeat themselves (`rep movsb`), as values: where their rounds lead, and what
//! they touch.

use std::ops::Range;

use bis_trace::types::{Addr, Registers};
use iced_x86::{Decoder, DecoderOptions, Mnemonic, OpKind, Register};

use crate::divergence::{Leave, compare};

/// `EFLAGS.ZF` and `EFLAGS.DF`; and what a comparison changes.
const ZERO_FLAG: u64 = 1 << 6;
const DIRECTION_FLAG: u64 = 1 << 10;
const STATUS_FLAGS: u64 = 0x8d5;

/// A string instruction that repeats itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Repeated {
    pub(crate) len: u64,
    /// What a round moves on by, bytes, and which of rsi and rdi.
    unit: u64,
    moves_rsi: bool,
    moves_rdi: bool,
    /// It loads rax.
    loads: bool,
    /// Another round comes only while the zero flag is this; none: that is the same to it.
    while_zero: Option<bool>,
    /// It counts in the whole of rcx.
    pub(crate) is_wide: bool,
    /// Its pointers are addresses, without a segment's base.
    pub(crate) is_flat: bool,
}

impl Repeated {
    pub(crate) fn of(bits: u32, code: &[u8]) -> Option<Repeated> {
        let instruction = Decoder::new(bits, code, DecoderOptions::NONE).decode();
        let (is_while_equal, is_while_other) = (instruction.has_rep_prefix(), instruction.has_repne_prefix());
        if !instruction.is_string_instruction() || !(is_while_equal || is_while_other) {
            return None;
        }
        let mnemonic = instruction.mnemonic();
        let compares = matches!(
            mnemonic,
            Mnemonic::Cmpsb
                | Mnemonic::Cmpsw
                | Mnemonic::Cmpsd
                | Mnemonic::Cmpsq
                | Mnemonic::Scasb
                | Mnemonic::Scasw
                | Mnemonic::Scasd
                | Mnemonic::Scasq
        );
        let loads = matches!(mnemonic, Mnemonic::Lodsb | Mnemonic::Lodsw | Mnemonic::Lodsd | Mnemonic::Lodsq);
        let has = |wanted: &[OpKind]| instruction.op_kinds().any(|kind| wanted.contains(&kind));
        Some(Repeated {
            len: instruction.len() as u64,
            unit: instruction.memory_size().size() as u64,
            moves_rsi: has(&[OpKind::MemorySegRSI, OpKind::MemorySegESI, OpKind::MemorySegSI]),
            moves_rdi: has(&[OpKind::MemoryESRDI, OpKind::MemoryESEDI, OpKind::MemoryESDI]),
            loads,
            while_zero: compares.then_some(is_while_equal),
            is_wide: has(&[OpKind::MemorySegRSI, OpKind::MemoryESRDI]),
            is_flat: !matches!(instruction.segment_prefix(), Register::FS | Register::GS),
        })
    }

    /// How many rounds, at least one, lead a task from the one place in front of a round to the other; none:
    /// no number of them does.
    pub(crate) fn rounds_between(self, from: &Registers, to: &Registers) -> Option<u64> {
        // Behind the last round, the task is not in front of the instruction any more.
        let rounds = from.rcx.checked_sub(to.rcx).filter(|rounds| *rounds > 0 && to.rcx > 0)?;
        let way = rounds.wrapping_mul(self.unit);
        let way = if from.eflags & DIRECTION_FLAG == 0 { way } else { way.wrapping_neg() };
        let moved = |register: u64| match register.wrapping_add(way) {
            register if self.is_wide => register,
            register => register & 0xffff_ffff,
        };
        let mut then = Registers { rcx: to.rcx, ..*from };
        if self.moves_rsi {
            then.rsi = moved(from.rsi);
        }
        if self.moves_rdi {
            then.rdi = moved(from.rdi);
        }
        if self.loads {
            then.rax = to.rax;
        }
        if self.while_zero.is_some() {
            then.eflags = from.eflags & !STATUS_FLAGS | to.eflags & STATUS_FLAGS;
        }
        compare(to, &then, Leave::OrigRax).is_empty().then_some(rounds)
    }

    /// Where its next round reads and writes, without a segment's base.
    pub(crate) fn touches(self, regs: &Registers) -> impl Iterator<Item = Addr> {
        let used = [(self.moves_rsi, regs.rsi), (self.moves_rdi, regs.rdi)];
        used.into_iter().filter(|(is_used, _)| *is_used).map(|(_, at)| Addr(at))
    }

    /// How many rounds it makes before one touches these bytes, if that many are left.
    pub(crate) fn rounds_before(self, regs: &Registers, bytes: &Range<Addr>) -> u64 {
        let (start, end, unit) = (bytes.start.0, bytes.end.0, self.unit.max(1));
        let is_backwards = regs.eflags & DIRECTION_FLAG != 0;
        let before = |at: u64| match is_backwards {
            false if at >= end => u64::MAX,
            false => start.saturating_sub(at) / unit,
            true if at.saturating_add(unit) <= start => u64::MAX,
            true if at < end => 0,
            true => (at - end) / unit + 1,
        };
        let rsi = if self.moves_rsi { before(regs.rsi) } else { u64::MAX };
        let rdi = if self.moves_rdi { before(regs.rdi) } else { u64::MAX };
        rsi.min(rdi)
    }

    /// Does another round come, if there are any left?
    pub(crate) fn goes_on(self, eflags: u64) -> bool {
        self.while_zero.is_none_or(|wanted| (eflags & ZERO_FLAG != 0) == wanted)
    }
}

/// The length of such an instruction, bytes; none: it is another one.
pub(crate) fn len(code: &[u8]) -> Option<u64> {
    Repeated::of(64, code).map(|repeated| repeated.len)
}

#[cfg(test)]
mod tests {
    use bis_trace::types::{Addr, Registers};

    use super::{Repeated, len};

    #[test]
    fn what_repeats_itself_is_known() {
        // rep stosq; repne scasb; rep movsb
        assert_eq!(len(&[0xf3, 0x48, 0xab]), Some(3));
        assert_eq!(len(&[0xf2, 0xae]), Some(2));
        assert_eq!(len(&[0xf3, 0xa4]), Some(2));
        // stosq; rep ret; movsd xmm0,[rdi]; nothing
        assert_eq!(len(&[0x48, 0xab]), None);
        assert_eq!(len(&[0xf3, 0xc3]), None);
        assert_eq!(len(&[0xf2, 0x0f, 0x10, 0x07]), None);
        assert_eq!(len(&[]), None);
    }

    #[test]
    fn only_comparisons_look_at_the_flag() {
        let of = |code: &[u8]| Repeated::of(64, code).map(|it| (it.while_zero, it.is_wide));
        assert_eq!(of(&[0xf3, 0xa4]), Some((None, true)));
        // repe cmpsb; repne scasb; rep stosb, counted in ecx
        assert_eq!(of(&[0xf3, 0xa6]), Some((Some(true), true)));
        assert_eq!(of(&[0xf2, 0xae]), Some((Some(false), true)));
        assert_eq!(of(&[0x67, 0xf3, 0xaa]), Some((None, false)));
    }

    #[test]
    fn rounds_lead_from_one_place_to_the_other() {
        let rounds = |code: &[u8], change: &dyn Fn(&mut Registers)| {
            let from = Registers { rcx: 10, rsi: 0x1000, rdi: 0x2000, rax: 7, ..Registers::default() };
            let mut to = Registers { rcx: 7, ..from };
            change(&mut to);
            Repeated::of(64, code).unwrap().rounds_between(&from, &to)
        };
        let (movsb, stosq, lodsb, scasb) =
            (&[0xf3, 0xa4][..], &[0xf3, 0x48, 0xab][..], &[0xf3, 0xac][..], &[0xf2, 0xae][..]);
        assert_eq!(rounds(movsb, &|to| (to.rsi, to.rdi) = (0x1003, 0x2003)), Some(3));
        assert_eq!(rounds(movsb, &|to| to.rdi = 0x2003), None);
        assert_eq!(rounds(stosq, &|to| to.rdi = 0x2018), Some(3));
        assert_eq!(rounds(stosq, &|to| (to.rdi, to.rax) = (0x2018, 8)), None);
        assert_eq!(rounds(lodsb, &|to| (to.rsi, to.rax) = (0x1003, 8)), Some(3));
        assert_eq!(rounds(scasb, &|to| (to.rdi, to.eflags) = (0x2003, 0x40)), Some(3));
        // None is left, or there are more: that is no place in front of a later round.
        assert_eq!(rounds(movsb, &|to| (to.rsi, to.rdi, to.rcx) = (0x100a, 0x200a, 0)), None);
        assert_eq!(rounds(movsb, &|to| to.rcx = 10), None);
        assert_eq!(rounds(movsb, &|to| (to.rsi, to.rdi, to.rcx) = (0xfff, 0x1fff, 11)), None);
        let backwards = |rdi| {
            let from = Registers { rcx: 10, rdi: 0x2000, eflags: 0x400, ..Registers::default() };
            let to = Registers { rcx: 9, rdi, ..from };
            Repeated::of(64, stosq).unwrap().rounds_between(&from, &to)
        };
        assert_eq!((backwards(0x1ff8), backwards(0x2008)), (Some(1), None));
        // addr32 rep stosb: the upper halves go.
        let short = Repeated::of(64, &[0x67, 0xf3, 0xaa]).unwrap();
        let from = Registers { rcx: 2, rdi: 0xffff_ffff, ..Registers::default() };
        assert_eq!(short.rounds_between(&from, &Registers { rcx: 1, rdi: 0, ..from }), Some(1));
    }

    #[test]
    fn rounds_are_made_up_to_watched_pages() {
        let before = |code: &[u8], rsi, rdi, eflags| {
            let regs = Registers { rsi, rdi, eflags, ..Registers::default() };
            Repeated::of(64, code).unwrap().rounds_before(&regs, &(Addr(0x2000)..Addr(0x3000)))
        };
        let (movsb, stosq, scasb) = (&[0xf3, 0xa4][..], &[0xf3, 0x48, 0xab][..], &[0xf2, 0xae][..]);
        // In front of it, the last element at an odd address; on it; behind it.
        assert_eq!(before(stosq, 0, 0x1ff0, 0), 2);
        assert_eq!(before(stosq, 0, 0x1fec, 0), 2);
        assert_eq!(before(stosq, 0, 0x1ffc, 0), 0);
        assert_eq!([before(stosq, 0, 0x2000, 0), before(stosq, 0, 0x2fff, 0)], [0, 0]);
        assert_eq!(before(stosq, 0, 0x3000, 0), u64::MAX);
        // The one that comes there first; what it does not use is nothing to it.
        assert_eq!(before(movsb, 0x1000, 0x1ffd, 0), 3);
        assert_eq!(before(movsb, 0x1fff, 0x5000, 0), 1);
        assert_eq!(before(scasb, 0x2000, 0x1000, 0), 0x1000);
        // Backwards.
        assert_eq!(before(stosq, 0, 0x3010, 0x400), 3);
        assert_eq!(before(stosq, 0, 0x3000, 0x400), 1);
        assert_eq!([before(stosq, 0, 0x2fff, 0x400), before(stosq, 0, 0x1ff9, 0x400)], [0, 0]);
        assert_eq!(before(stosq, 0, 0x1ff8, 0x400), u64::MAX);
        // fs: rep movsb
        assert!(
            !Repeated::of(64, &[0x64, 0xf3, 0xa4]).unwrap().is_flat
                && Repeated::of(64, movsb).unwrap().is_flat
        );
    }
}
