//! The first look at a file: every function that the file tells of is decoded once, from its start.
//!
//! It leaves behind, in one bit for each byte of text: where instructions begin, and which addresses are
//! *entered*, that is named by any instruction (or by anything that could be one, in the bytes that belong to
//! no known function); and the list of what may have to be counted or hooked. Nothing of this is looked for
//! again later.

use iced_x86::{Code, Decoder, DecoderOptions, Instruction, OpKind, Register};

use super::{
    Coverage, DenseOptions,
    class::Class,
    flow::{Flow, Verdict},
    loads::Loads,
    stubs::Stubs,
};
use crate::{
    analysis::Analysis, bits::Bits, functions::Region, image::Section, run::SiteKind, scan, tables::Jumps,
};

/// What may have to be counted or hooked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// A branch in its function.
    Branch,
    /// A branch to another.
    Crossing,
    /// A direct call.
    Call,
    /// A computed jump.
    Computed,
    /// A special instruction.
    Site(SiteKind),
}

/// A place in the text that is to be counted or hooked, if it can be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub at: u64,
    /// Where it leads; of [`What::Computed`] and [`What::Site`], nothing.
    pub target: u64,
    /// Number of its function.
    pub region: u32,
    pub len: u8,
    pub what: What,
}

/// A call, or a branch to another function: (number of the function it is in, number of the one it leads to).
#[derive(Clone, Copy, Debug)]
pub(super) struct Edge {
    pub candidate: Candidate,
    pub to: u32,
}

pub(super) struct Survey {
    /// Where the instructions of known functions begin.
    pub starts: Bits,
    /// What is named by instructions, or could be.
    pub entered: Bits,
    pub candidates: Vec<Candidate>,
    /// In the order of the functions they are in.
    pub edges: Vec<Edge>,
    /// Numbers of the functions with a computed jump that is not understood. Sorted.
    pub obscure: Vec<u32>,
    pub coverage: Coverage,
}

/// Finds the function at an address in constant time: the first function that ends after each line of the
/// text begins.
struct Lines {
    lines: Vec<u32>,
}

const LINE: usize = 64;

impl Lines {
    fn new(bits: &Bits, regions: &[Region]) -> Self {
        let mut lines = Vec::new();
        for (number, region) in regions.iter().enumerate() {
            let Some(last) = bits.index(region.end - 1) else { continue };
            lines.resize(lines.len().max(last / LINE + 1), number as u32);
        }
        Self { lines }
    }

    fn find(&self, bits: &Bits, regions: &[Region], address: u64) -> Option<u32> {
        let first = *self.lines.get(bits.index(address)? / LINE)?;
        let at = regions[first as usize..].iter().position(|region| region.end > address)?;
        let number = first + at as u32;
        regions[number as usize].contains(address).then_some(number)
    }
}

impl Survey {
    pub fn of(text: &Analysis<'_>, options: DenseOptions, loads: &Loads) -> Self {
        let regions = text.functions().all();
        let starts = Bits::new(text);
        let lines = Lines::new(&starts, regions);
        let mut survey = Self {
            entered: Bits::new(text),
            starts,
            candidates: Vec::new(),
            edges: Vec::new(),
            obscure: Vec::new(),
            coverage: Coverage::default(),
        };
        let mut look = Look {
            text,
            options,
            stubs: Stubs::of(text),
            lines,
            regions,
            instructions: Vec::new(),
            flow: Flow::default(),
        };
        let mostly_unwound = text.functions().mostly_unwound(text);
        for section in text.code() {
            survey.coverage.text += section.data.len() as u64;
            let mut known = section.start;
            if !section.plt && loads.has(section) && !text.functions().broken {
                let first = regions.partition_point(|region| region.start < section.start);
                for (index, region) in regions[first..].iter().enumerate() {
                    if region.start >= section.end() {
                        break;
                    }
                    let number = (first + index) as u32;
                    // A program that generates code may keep a store of it in its text, to copy from (V8
                    // does, and gives each piece a symbol). A copy would lead to the trampolines from the
                    // wrong place.
                    let told = region.unwound || !mostly_unwound;
                    if region.sure && !region.disputed && told && look.decode(section, region) {
                        survey.unknown(section, known, region.start);
                        known = region.end;
                        look.region(&mut survey, region, number);
                    }
                }
            }
            survey.unknown(section, known, section.end());
        }
        survey
    }

    /// Marks all that instructions in `from..to` might name, if there are any and wherever they begin.
    fn unknown(&mut self, section: &Section<'_>, from: u64, to: u64) {
        if from >= to {
            return;
        }
        let offset = |address: u64| (address - section.start) as usize;
        if section.data[offset(from)..offset(to)].iter().any(|byte| !matches!(byte, 0x90 | 0xcc))
            && !section.plt
        {
            self.coverage.unknown += to - from;
        }
        // Displacements that begin in this stretch, after an opcode that may be before it.
        let first = offset(from).saturating_sub(2);
        let last = (offset(to) + 3).min(section.data.len());
        let base = section.start + first as u64;
        for (at, displacement) in scan::displacements(&section.data[first..last]) {
            let place = base + at as u64;
            if (from..to).contains(&place) {
                self.entered.set((place + 4).wrapping_add_signed(i64::from(displacement)));
            }
        }
        for (at, two) in section.data[offset(from)..last].windows(2).enumerate() {
            if matches!(two[0], 0x70..=0x7f | 0xeb | 0xe0..=0xe3) && from + (at as u64) < to {
                let after = from + at as u64 + 2;
                self.entered.set(after.wrapping_add_signed(i64::from(two[1] as i8)));
            }
        }
        let (low, high) = (self.entered.low(), self.entered.high());
        for (_, number) in scan::numbers(&section.data[offset(from)..last], low, high) {
            self.entered.set(number);
        }
    }
}

/// Where an instruction leads that is more than a plain one.
enum Leads {
    /// To the next one.
    On,
    /// To this place of its own function.
    Within(u64),
    /// To another function, which is still to be found.
    Away(Candidate),
    /// To a place that is computed.
    Anywhere,
}

impl Survey {
    /// Notes what kind of place this instruction of a function is, of this class. Where it leads, and whether
    /// it has little room for a jump.
    fn note(
        &mut self,
        it: &Instruction,
        class: Class,
        (region, number): (&Region, u32),
        options: &DenseOptions,
    ) -> (Leads, bool) {
        let is_near = it.op0_kind() == OpKind::NearBranch64;
        let is_short = it.len() < 5;
        let candidate =
            |target, what| Candidate { at: it.ip(), target, region: number, len: it.len() as u8, what };
        match class {
            Class::Site => {
                self.entered.set(it.near_branch_target());
                let kind = SiteKind::of(it).filter(|kind| options.hooks.has(*kind));
                if let Some(kind) = kind {
                    self.coverage.hooks.seen += 1;
                    self.candidates.push(candidate(0, What::Site(kind)));
                }
                (Leads::On, kind.is_some())
            }
            Class::Branch | Class::Jump if is_near => {
                let target = it.near_branch64();
                self.entered.set(target);
                if !region.contains(target) {
                    self.coverage.crossing.seen += 1;
                    return (Leads::Away(candidate(target, What::Crossing)), is_short);
                }
                let is_backward = target <= it.ip();
                self.coverage.backward.seen += usize::from(is_backward);
                (Leads::Within(target), is_backward && is_short)
            }
            Class::Call if is_near => {
                let target = it.near_branch64();
                self.entered.set(target);
                (Leads::Away(candidate(target, What::Call)), false)
            }
            Class::Computed => {
                self.coverage.computed.seen += 1;
                (Leads::Anywhere, false)
            }
            _ => (Leads::On, false),
        }
    }
}

struct Look<'t, 'a> {
    text: &'t Analysis<'a>,
    options: DenseOptions,
    stubs: Stubs,
    lines: Lines,
    regions: &'t [Region],
    /// Those of the function that is looked at.
    instructions: Vec<Instruction>,
    flow: Flow,
}

impl Look<'_, '_> {
    /// Decodes a function; false if some of its bytes are no instruction.
    fn decode(&mut self, section: &Section<'_>, region: &Region) -> bool {
        self.instructions.clear();
        let Some(bytes) = section.from(region.start) else { return false };
        let Some(bytes) = bytes.get(..(region.end - region.start) as usize) else { return false };
        let mut decoder = Decoder::with_ip(64, bytes, region.start, DecoderOptions::NONE);
        while decoder.can_decode() {
            // In its place, because an instruction is large to copy.
            self.instructions.push(Instruction::default());
            if let Some(it) = self.instructions.last_mut() {
                decoder.decode_out(it);
                if it.is_invalid() {
                    return false;
                }
            }
        }
        true
    }

    fn region(&mut self, survey: &mut Survey, region: &Region, number: u32) {
        let Some(first) = survey.starts.index(region.start) else { return };
        let (low, high) = (survey.entered.low(), survey.entered.high());
        let (mut computed, mut cramped) = (false, false);
        self.flow.begin(region);
        for (index, it) in self.instructions.iter().enumerate() {
            survey.starts.set_index(first + (it.ip() - region.start) as usize);
            // Any number that is an address in the text counts as one, whatever the instruction does with it.
            // For a branch the number is where it leads.
            for number in [it.memory_displacement64(), it.immediate64()] {
                if number.wrapping_sub(low) < high - low {
                    survey.entered.set(number);
                }
            }
            let class = Class::of(it);
            if class == Class::Plain {
                continue;
            }
            let (leads, is_cramped) = survey.note(it, class, (region, number), &self.options);
            cramped |= is_cramped;
            match leads {
                Leads::On => {}
                Leads::Within(target) => self.flow.branch(index, target),
                Leads::Away(candidate) => self.edge(survey, candidate),
                Leads::Anywhere => computed = true,
            }
        }
        if computed {
            self.computed(survey, region, number, cramped);
        }
        self.circles(survey, number);
    }

    fn edge(&self, survey: &mut Survey, candidate: Candidate) {
        let is_call = candidate.what == What::Call;
        let find = |address| self.lines.find(&survey.starts, self.regions, address);
        let own =
            find(candidate.target).or_else(|| self.stubs.follow(self.text, candidate.target).and_then(find));
        match own {
            Some(to) => {
                survey.coverage.calls.seen += usize::from(is_call);
                survey.edges.push(Edge { candidate, to });
            }
            // To another file, or to code of which nothing is known.
            None if !is_call => survey.coverage.crossing.needless += 1,
            None => {}
        }
    }

    /// The computed jumps of a function: which are to be counted, and whether all are understood.
    fn computed(&mut self, survey: &mut Survey, region: &Region, number: u32, cramped: bool) {
        let lands = |ip: u64| survey.entered.has(ip);
        let jumps = Jumps { targets: self.text.targets(), instructions: &self.instructions, lands: &lands };
        let mut short = cramped;
        for (index, it) in self.instructions.iter().enumerate() {
            if Class::of(it) != Class::Computed {
                continue;
            }
            if self.leads_forward(&jumps, index, region) {
                survey.coverage.computed.needless += 1;
                self.flow.table(index);
                continue;
            }
            short |= it.len() < 5;
            let len = it.len() as u8;
            survey.candidates.push(Candidate {
                at: it.ip(),
                target: 0,
                region: number,
                len,
                what: What::Computed,
            });
        }
        if short && !jumps.all_known() {
            survey.obscure.push(number);
        }
    }

    /// Whether a computed jump surely leads to later addresses of its own function only: a `switch`. Its
    /// table has as many entries as the comparison before it says.
    fn leads_forward(&self, jumps: &Jumps<'_>, index: usize, region: &Region) -> bool {
        let jump = &self.instructions[index];
        let Some(count) = bound(&self.instructions[..index]) else { return false };
        let forward = |target: u64| target > jump.ip() && region.contains(target);
        if jump.op0_kind() == OpKind::Memory {
            let plain = jump.code() == Code::Jmp_rm64
                && jump.memory_base() == Register::None
                && jump.memory_index_scale() == 8
                && jump.segment_prefix() == Register::None;
            let table = jump.memory_displacement64();
            return plain
                && self.text.is_fixed()
                && self.text.bytes_from(table).is_some_and(|bytes| {
                    let words = bytes.as_chunks::<8>().0;
                    words.len() >= count
                        && words[..count].iter().all(|word| forward(u64::from_le_bytes(*word)))
                });
        }
        jumps.table_of(index).is_some_and(|table| {
            let mut read = 0;
            let all = jumps.targets.entries(self.text, table, count).all(|target| {
                read += 1;
                forward(target)
            });
            all && read == count
        })
    }

    /// Decides which backward branches of the function close a circle.
    fn circles(&mut self, survey: &mut Survey, number: u32) {
        let pointers = &self.text.targets().pointers;
        let tally = &mut survey.coverage.backward;
        for (index, verdict) in self.flow.verdicts(&self.instructions, pointers, self.options.short_loops) {
            match verdict {
                Verdict::Needless => tally.needless += 1,
                Verdict::Short => tally.short += 1,
                Verdict::Counted => {
                    let it = &self.instructions[index];
                    survey.candidates.push(Candidate {
                        at: it.ip(),
                        target: it.near_branch64(),
                        region: number,
                        len: it.len() as u8,
                        what: What::Branch,
                    });
                }
            }
        }
    }
}

/// A table with more entries is not read.
const ENTRIES_MAX: u64 = 2048;

/// How many entries the table of a jump has, from `cmp x, last; ja` before it.
fn bound(before: &[Instruction]) -> Option<usize> {
    const LOOK_BACK: usize = 12;
    let above = before
        .iter()
        .rev()
        .take(LOOK_BACK)
        .position(|it| matches!(it.code(), Code::Ja_rel8_64 | Code::Ja_rel32_64))?;
    let compare = before[..before.len() - 1 - above].last()?;
    let register = compare.mnemonic() == iced_x86::Mnemonic::Cmp && compare.op_count() == 2;
    let last = match compare.op1_kind() {
        OpKind::Immediate8 | OpKind::Immediate8to32 | OpKind::Immediate8to64 | OpKind::Immediate8to16 => {
            u64::from(compare.immediate8())
        }
        OpKind::Immediate32 => u64::from(compare.immediate32()),
        _ => return None,
    };
    (register && last < ENTRIES_MAX).then_some(last as usize + 1)
}
