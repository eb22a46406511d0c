//! The choice of a run for a site.
//!
//! Runs that begin at the site are tried first: with them, a task that stands at the site stands at the
//! patch, and nothing that the hook must know of has run before it. Then those that begin one instruction
//! earlier, two, and so on, each only as long as it must be.

use std::sync::Arc;

use iced_x86::{Instruction, Mnemonic, OpKind, Register};

use crate::{
    analysis::Analysis,
    functions::Region,
    movable::{falls_through, movable_beside},
    run::{JUMP, Reason, Run, SiteKind},
    span::Span,
    stretch::Stretch,
    tables, targets,
};

/// How far a jump of 8 bits reaches, with its own two bytes.
const NEAR: u64 = 127 + 2;

/// What an instruction has, about.
const INSN_BYTES: u64 = 4;

pub(crate) fn run_at(text: &Analysis<'_>, vaddr: u64) -> Result<Run, Reason> {
    let region = text.functions().region(text, vaddr).ok_or(Reason::NotASite)?;
    if region.is_doubtful() || text.functions().broken || text.is_tired() {
        return Err(Reason::Undecoded);
    }
    let stretch = text.stretches.of(text, &region);
    let instructions = match &stretch {
        Some(stretch) => stretch.around(text, vaddr).into(),
        None => text.decode(&region),
    };
    let site = instructions.binary_search_by_key(&vaddr, Instruction::ip).map_err(|_| match region.sure {
        true => Reason::NotASite,
        false => Reason::Undecoded,
    })?;
    let kind = SiteKind::of(&instructions[site]).ok_or(Reason::NotASite)?;
    // Data between instructions of an unsure region is no reason to refuse: no conclusion is drawn from them.
    if region.sure && instructions.iter().any(Instruction::is_invalid) {
        return Err(Reason::Undecoded);
    }
    if kind == SiteKind::Syscall && instructions[site].len() != 2 {
        return Err(Reason::Prefixed);
    }
    if kind == SiteKind::Syscall && site > 0 && is_sigreturn(&instructions[site - 1]) {
        return Err(Reason::Sigreturn);
    }
    Chooser { text, region, stretch, instructions: &instructions, site, kind, understood: None }.choose()
}

/// The shortest span that begins at an instruction of a function whose instructions are known.
pub(crate) fn span_at(text: &Analysis<'_>, vaddr: u64) -> Result<Span, Reason> {
    let region = text.functions().region(text, vaddr).ok_or(Reason::NotASite)?;
    if region.is_doubtful() || !region.sure || text.functions().broken || text.is_tired() {
        return Err(Reason::Undecoded);
    }
    let instructions = text.decode(&region);
    let site = instructions.binary_search_by_key(&vaddr, Instruction::ip).map_err(|_| Reason::NotASite)?;
    if instructions.iter().any(Instruction::is_invalid) {
        return Err(Reason::Undecoded);
    }
    // The kind says nothing here.
    let kind = SiteKind::Syscall;
    let mut chooser =
        Chooser { text, region, stretch: None, instructions: &instructions, site, kind, understood: None };
    let last = chooser.extend(site)?;
    chooser.check(site, last)?;
    let len = usize::try_from(instructions[last].next_ip() - vaddr).unwrap_or(usize::MAX);
    let bytes = text.bytes_from(vaddr).and_then(|bytes| bytes.get(..len)).ok_or(Reason::NotASite)?;
    Span::new(vaddr, bytes).ok_or(Reason::Unmovable)
}

/// Fails where something leads into the middle of the instruction at `index`.
pub(crate) fn check_whole(
    text: &Analysis<'_>,
    region: Region,
    instructions: &[Instruction],
    index: usize,
) -> Result<(), Reason> {
    // The kind says nothing here.
    let kind = SiteKind::Syscall;
    Chooser { text, region, stretch: None, instructions, site: index, kind, understood: None }
        .check(index, index)
}

/// `mov eax, 15` or `mov rax, 15`: the number of rt_sigreturn.
pub(crate) fn is_sigreturn(it: &Instruction) -> bool {
    it.mnemonic() == Mnemonic::Mov
        && it.op0_kind() == OpKind::Register
        && it.op0_register().full_register() == Register::RAX
        && matches!(it.op1_kind(), OpKind::Immediate32 | OpKind::Immediate32to64 | OpKind::Immediate64)
        && it.immediate(1) == 15
}

struct Chooser<'t, 'a> {
    text: &'t Analysis<'a>,
    region: Region,
    /// The region, if it is so long that `instructions` are only those near the site.
    stretch: Option<Arc<Stretch>>,
    instructions: &'t [Instruction],
    /// Index of the site.
    site: usize,
    kind: SiteKind,
    /// Whether all computed jumps of the function are known, once asked.
    understood: Option<bool>,
}

impl Chooser<'_, '_> {
    fn movable(&self, it: &Instruction) -> bool {
        movable_beside(self.kind, it)
    }

    fn choose(mut self) -> Result<Run, Reason> {
        let mut refused = None;
        let mut first = self.site;
        loop {
            let attempt = self.extend(first).and_then(|last| self.check(first, last).map(|()| last));
            match attempt {
                Ok(last) => return self.run(first, last),
                // Of several reasons, that of the first attempt which had enough bytes says most.
                Err(reason) if refused.is_none_or(|known| known == Reason::TooShort) => {
                    refused = Some(reason)
                }
                Err(_) => {}
            }
            let enough =
                self.instructions[self.site].next_ip() - self.instructions[first].ip() >= JUMP as u64;
            let before = first.checked_sub(1).map(|index| &self.instructions[index]);
            match before {
                // In an unsure region only the site and what follows it are known to be instructions.
                Some(it) if self.region.sure && !enough && falls_through(it) && self.movable(it) => {
                    first -= 1
                }
                Some(it) if !enough && !self.movable(it) && refused == Some(Reason::TooShort) => {
                    return Err(Reason::Unmovable);
                }
                _ => return Err(refused.unwrap_or(Reason::TooShort)),
            }
        }
    }

    /// The last instruction of the shortest run that begins with `first` and has the site.
    fn extend(&self, first: usize) -> Result<usize, Reason> {
        let start = self.instructions[first].ip();
        let mut last = self.site;
        while self.instructions[last].next_ip() - start < JUMP as u64 {
            let it = self.instructions.get(last + 1).ok_or(Reason::TooShort)?;
            if it.is_invalid() {
                return Err(Reason::Undecoded);
            }
            let reached =
                (first..=last).all(|index| index == self.site || falls_through(&self.instructions[index]));
            // After a jump or return only filler may follow.
            if !reached && !matches!(it.mnemonic(), Mnemonic::Nop | Mnemonic::Int3) {
                return Err(Reason::TooShort);
            }
            if !self.movable(it) && (reached || it.mnemonic() != Mnemonic::Int3) {
                return Err(Reason::Unmovable);
            }
            last += 1;
        }
        Ok(last)
    }

    /// Whether nothing leads into the interior of the run.
    fn check(&mut self, first: usize, last: usize) -> Result<(), Reason> {
        let from = self.instructions[first].ip() + 1;
        let to = self.instructions[last].next_ip();
        let inside = from..to;
        self.text.looked(self.instructions.len() as u64 * INSN_BYTES);
        if self.stretch.as_ref().is_some_and(|stretch| stretch.names(from, to)) {
            return Err(Reason::Branch);
        }
        if self.instructions.iter().any(|it| targets::names_any(it, &inside)) {
            return Err(Reason::Branch);
        }
        if self.near(from, to) {
            return Err(Reason::Branch);
        }
        let known = self.text.targets();
        if known.branched(self.text, from, to) {
            return Err(Reason::Branch);
        }
        if !known.lands_known(self.region.start) || known.pointed(self.text, from, to) {
            return Err(Reason::Pointer);
        }
        if first != last {
            let (text, instructions) = (self.text, self.instructions);
            let understood = || match &self.stretch {
                Some(stretch) => stretch.understood(text, known),
                None => tables::understood(known, instructions),
            };
            if !*self.understood.get_or_insert_with(understood) {
                return Err(Reason::JumpTable);
            }
        }
        Ok(())
    }

    /// Whether a jump of 8 bits from outside of the function (or, where functions are not known, from
    /// anywhere) leads to an address of `from..to`. As with longer ones, every byte counts as such a jump
    /// until it is shown to be none.
    fn near(&self, from: u64, to: u64) -> bool {
        let Some(section) = self.text.code_at(from) else { return true };
        (from.saturating_sub(NEAR)..to + NEAR).any(|place| {
            let Some([opcode, distance]) = section.from(place).and_then(<[u8]>::first_chunk) else {
                return false;
            };
            let jumps = matches!(opcode, 0x70..=0x7f | 0xeb | 0xe0..=0xe3);
            let target = (place + 2).wrapping_add_signed(i64::from(*distance as i8));
            if !jumps || !(from..to).contains(&target) {
                return false;
            }
            if self.region.contains(place) && self.region.sure {
                // Its instructions are known and were asked.
                return false;
            }
            targets::is_displacement(self.text, place + 1, target)
        })
    }

    fn run(&self, first: usize, last: usize) -> Result<Run, Reason> {
        let (start, end) = (self.instructions[first].ip(), self.instructions[last].next_ip());
        let bytes = self.text.bytes_from(start).and_then(|bytes| bytes.get(..(end - start) as usize));
        let bytes = bytes.ok_or(Reason::NotASite)?;
        Run::new(start, self.instructions[self.site].ip(), self.kind, bytes).ok_or(Reason::Unmovable)
    }
}
