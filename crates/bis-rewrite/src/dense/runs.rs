//! Room for a jump around a candidate: the shortest run of whole instructions, at least 5 bytes long, with
//! the candidate in it, into which nothing leads.
//!
//! This is what `choose` does for one site, for very many: all questions are put to the bits that the survey
//! left, and only the instructions next to the candidate are decoded again.

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind};

use super::survey::{Candidate, Survey, What};
use crate::{
    analysis::Analysis,
    bits::Bits,
    choose::is_sigreturn,
    functions::Region,
    image::Section,
    movable::{falls_through, movable},
    run::{JUMP, Reason, Run},
};

/// The most instructions of a run before its candidate.
const BEFORE: usize = 4;
/// The longest instruction.
const LONGEST: u64 = 15;

pub(super) struct Chooser<'p, 'a> {
    pub text: &'p Analysis<'a>,
    pub survey: &'p Survey,
    /// Bytes that have been given away.
    pub taken: Bits,
}

/// Instructions that follow one another.
pub(super) type Row = Vec<Instruction>;

impl Chooser<'_, '_> {
    /// The run for a candidate.
    pub fn choose(&self, candidate: &Candidate) -> Result<Row, Reason> {
        let region = self.text.functions().all()[candidate.region as usize];
        let section = self.text.code_at(candidate.at).ok_or(Reason::NotASite)?;
        let end = region.end.min(section.end());
        let site = decode(section, candidate.at, end).ok_or(Reason::Undecoded)?;
        let hooked = matches!(candidate.what, What::Site(_));
        if hooked {
            let before = self.before(section, &region, candidate.at);
            if site.mnemonic() == Mnemonic::Syscall && site.len() != 2 {
                return Err(Reason::Prefixed);
            }
            if site.mnemonic() == Mnemonic::Syscall && before.is_some_and(|it| is_sigreturn(&it)) {
                return Err(Reason::Sigreturn);
            }
        } else if !movable(&site) {
            return Err(Reason::Unmovable);
        }
        let mut options = Vec::new();
        let mut refused = Reason::TooShort;
        let mut head: Row = vec![site];
        loop {
            match self.extend(section, end, &head, candidate.at) {
                Ok(row) => options.push(row),
                Err(reason) if refused == Reason::TooShort => refused = reason,
                Err(_) => {}
            }
            if site.next_ip() - head[0].ip() >= JUMP as u64 || head.len() > BEFORE {
                break;
            }
            let Some(it) = self.before(section, &region, head[0].ip()) else { break };
            if !falls_through(&it) || !movable(&it) {
                if refused == Reason::TooShort && !movable(&it) {
                    refused = Reason::Unmovable;
                }
                break;
            }
            head.insert(0, it);
        }
        // A hook is best entered with nothing run before it; of a count, the shortest run is the best.
        if !hooked {
            options.sort_by_key(|row| (row.len(), len(row)));
        }
        for row in options {
            match self.check(&row, candidate.region, &region) {
                Ok(()) => return Ok(row),
                Err(reason) => refused = reason,
            }
        }
        Err(refused)
    }

    /// The instruction before `address`, in the same function.
    fn before(&self, section: &Section<'_>, region: &Region, address: u64) -> Option<Instruction> {
        let first = address.saturating_sub(LONGEST).max(region.start);
        let start = (first..address).rev().find(|at| self.survey.starts.has(*at))?;
        decode(section, start, address).filter(|it| it.next_ip() == address)
    }

    /// Adds to `head` what is needed to have enough bytes.
    fn extend(&self, section: &Section<'_>, end: u64, head: &Row, site: u64) -> Result<Row, Reason> {
        let mut row = head.clone();
        while len(&row) < JUMP as u64 {
            let last = row[row.len() - 1];
            if last.next_ip() >= end {
                return Err(Reason::TooShort);
            }
            let it = decode(section, last.next_ip(), end).ok_or(Reason::Undecoded)?;
            let reached = row.iter().all(|it| falls_through(it) || is_hooked(it, site));
            // After a jump or return only filler may follow.
            if !reached && !matches!(it.mnemonic(), Mnemonic::Nop | Mnemonic::Int3) {
                return Err(Reason::TooShort);
            }
            if !movable(&it) && (reached || it.mnemonic() != Mnemonic::Int3) {
                return Err(Reason::Unmovable);
            }
            row.push(it);
        }
        match len(&row) <= Run::MAX as u64 {
            true => Ok(row),
            false => Err(Reason::TooShort),
        }
    }

    /// Whether nothing leads into the run, and nobody else has its bytes.
    fn check(&self, row: &Row, number: u32, region: &Region) -> Result<(), Reason> {
        let (from, to) = (row[0].ip(), row[row.len() - 1].next_ip());
        if self.taken.any(from, to) {
            return Err(Reason::Taken);
        }
        self.clear(from, to, region)?;
        if row.len() > 1 && self.survey.obscure.binary_search(&number).is_ok() && !is_pair(row) {
            return Err(Reason::JumpTable);
        }
        Ok(())
    }

    /// Whether nothing that the file names is behind the first byte of `from..to`.
    pub fn clear(&self, from: u64, to: u64, region: &Region) -> Result<(), Reason> {
        if self.survey.entered.any(from + 1, to) {
            return Err(Reason::Branch);
        }
        let targets = self.text.targets();
        if !targets.lands_known(region.start) || targets.pointers.any(from + 1, to) {
            return Err(Reason::Pointer);
        }
        Ok(())
    }
}

/// Whether a run is a computed jump and, right before it, the instruction that computes where it leads.
/// Another computed jump cannot well lead between these two: what would be jumped through there was made for
/// the first one.
fn is_pair(row: &Row) -> bool {
    let [first, jump] = row.as_slice() else { return false };
    jump.flow_control() == FlowControl::IndirectBranch
        && jump.op0_kind() == OpKind::Register
        && first.op0_kind() == OpKind::Register
        && first.op0_register() == jump.op0_register()
        && matches!(first.mnemonic(), Mnemonic::Add | Mnemonic::Lea | Mnemonic::Mov)
}

fn len(row: &Row) -> u64 {
    row[row.len() - 1].next_ip() - row[0].ip()
}

/// Whether it is the special instruction at `site`, after which the program goes on whatever it is.
fn is_hooked(it: &Instruction, site: u64) -> bool {
    it.ip() == site && crate::SiteKind::of(it).is_some()
}

/// The instruction at `address`, if it ends by `end`.
fn decode(section: &Section<'_>, address: u64, end: u64) -> Option<Instruction> {
    let bytes = section.from(address)?;
    let bytes = &bytes[..bytes.len().min(usize::try_from(end.checked_sub(address)?).ok()?)];
    let it = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE).decode();
    (!it.is_invalid()).then_some(it)
}
