//! The circles of one function: which of its backward branches must be counted, so that each circle has a
//! count.
//!
//! Without its backward branches a function only leads onwards, and ends. So to count all of them is enough,
//! and it is more than enough: where the compiler has put a block out of line at the end, the branch back
//! from there closes no circle. The branches are taken one by one, the last first, and each is let off if its
//! target cannot come back to it by branches that are not counted. What remains without counts never has a
//! circle, but for short loops, which are let off by wish: they may be part of a larger circle, and are gone
//! through in the search.
//!
//! The search for all branches of a function together takes a bounded number of steps for each of its blocks.
//! When they are used up, what is left of the branches is counted.
//!
//! Calls are taken to return, and jumps to other functions to be gone for good; `calls` sees to circles
//! through those.

use iced_x86::Instruction;

use super::{SHORT, class::Class};
use crate::{bits::Bits, functions::Region};

/// Steps of all searches in a function, for each of its blocks.
const STEPS: usize = 64;

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Counted,
    Needless,
    Short,
}

/// A stretch of instructions that is entered at its start only, and left at its end.
#[derive(Clone, Copy)]
struct Block {
    /// The block that follows, if execution can fall through to it.
    next: u32,
    /// Where its branch leads.
    target: u32,
    /// Its branch leads backwards and is counted (so far).
    counted: bool,
    /// It ends in a computed jump that leads to named addresses after itself.
    table: bool,
    /// A search with this number has been here.
    seen: u32,
    /// Number of the knot that it is in: blocks that all lead to one another.
    knot: u32,
}

impl Block {
    const NEW: Self = Self { next: NONE, target: NONE, counted: false, table: false, seen: 0, knot: NONE };
}

/// The branches of the function that is looked at. The rest is memory that is used again.
#[derive(Default)]
pub(super) struct Flow {
    start: u64,
    end: u64,
    /// (index of the instruction, address it leads to)
    branches: Vec<(usize, u64)>,
    /// Indices of computed jumps that lead forward.
    tables: Vec<usize>,
    /// Where a block begins, by index of the instruction.
    leads: Vec<bool>,
    /// Number of the block that an instruction is in.
    block_of: Vec<u32>,
    blocks: Vec<Block>,
    todo: Vec<u32>,
    searches: u32,
    knots: Knots,
    /// By offset from the function's start, the index of the instruction there. Where none begins it may hold
    /// anything.
    index_at: Vec<u32>,
}

/// Index of the instruction at `address`.
fn find(index_at: &[u32], start: u64, instructions: &[Instruction], address: u64) -> Option<usize> {
    let index = *index_at.get(usize::try_from(address.wrapping_sub(start)).ok()?)? as usize;
    (instructions.get(index)?.ip() == address).then_some(index)
}

impl Flow {
    pub fn begin(&mut self, region: &Region) {
        (self.start, self.end) = (region.start, region.end);
        self.branches.clear();
        self.tables.clear();
    }

    /// The instruction of this index branches to this address of the function. In order of indices.
    pub fn branch(&mut self, index: usize, target: u64) {
        self.branches.push((index, target));
    }

    /// The instruction of this index is a computed jump that is not counted, and leads to pointed addresses
    /// after it.
    pub fn table(&mut self, index: usize) {
        self.tables.push(index);
    }

    /// What to do with each backward branch: (index of the instruction, what to do). `pointers` are the
    /// addresses that the file names.
    pub fn verdicts(
        &mut self,
        instructions: &[Instruction],
        pointers: &Bits,
        short_loops: bool,
    ) -> Vec<(usize, Verdict)> {
        if !self.branches.iter().any(|(index, target)| *target <= instructions[*index].ip()) {
            return Vec::new();
        }
        let len = (self.end - self.start) as usize;
        self.index_at.resize(len.max(self.index_at.len()), 0);
        for (index, it) in instructions.iter().enumerate() {
            self.index_at[(it.ip() - self.start) as usize] = index as u32;
        }
        // (index, index of the target, verdict)
        let mut backward: Vec<(usize, usize, Verdict)> = self
            .branches
            .iter()
            .filter(|(index, target)| *target <= instructions[*index].ip())
            .map(|(index, target)| {
                let to = find(&self.index_at, self.start, instructions, *target);
                (*index, to.unwrap_or(usize::MAX), Verdict::Counted)
            })
            .collect();
        let all: Vec<(usize, usize)> = backward.iter().map(|(from, to, _)| (*from, *to)).collect();
        if !short_loops {
            for (from, to, verdict) in &mut backward {
                if *to != usize::MAX && is_short(instructions, &all, *to, *from) {
                    *verdict = Verdict::Short;
                }
            }
        }
        if backward.iter().any(|(_, _, verdict)| *verdict == Verdict::Counted) {
            self.build(instructions, pointers, &backward);
            self.let_off(instructions, pointers, &mut backward);
        }
        backward.into_iter().map(|(index, _, verdict)| (index, verdict)).collect()
    }

    fn build(&mut self, instructions: &[Instruction], pointers: &Bits, backward: &[(usize, usize, Verdict)]) {
        let (index_at, start) = (&self.index_at, self.start);
        let index_of = |address: u64| find(index_at, start, instructions, address);
        self.leads.clear();
        self.leads.resize(instructions.len() + 1, false);
        self.leads[0] = true;
        for (_, target) in &self.branches {
            if let Some(index) = index_of(*target) {
                self.leads[index] = true;
            }
        }
        if !self.tables.is_empty() {
            for index in pointers.members(self.start, self.end).filter_map(index_of) {
                self.leads[index] = true;
            }
        }
        self.blocks.clear();
        self.block_of.clear();
        for (index, it) in instructions.iter().enumerate() {
            if self.leads[index] {
                self.blocks.push(Block::NEW);
            }
            let block = self.blocks.len() as u32 - 1;
            self.block_of.push(block);
            let class = Class::of(it);
            if class.ends() {
                self.leads[index + 1] = true;
            }
            if self.leads[index + 1] && index + 1 < instructions.len() && class.goes_on() {
                self.blocks[block as usize].next = block + 1;
            }
        }
        for (index, target) in &self.branches {
            let to = index_of(*target).map_or(NONE, |to| self.block_of[to]);
            self.blocks[self.block_of[*index] as usize].target = to;
        }
        for (index, _, verdict) in backward {
            self.blocks[self.block_of[*index] as usize].counted = *verdict == Verdict::Counted;
        }
        for index in &self.tables {
            self.blocks[self.block_of[*index] as usize].table = true;
        }
        self.searches = 0;
        // A function with tables counts as one knot.
        if self.tables.is_empty() {
            self.knots.tie(&mut self.blocks);
        }
    }

    /// Lets off what closes no circle.
    fn let_off(
        &mut self,
        instructions: &[Instruction],
        pointers: &Bits,
        backward: &mut [(usize, usize, Verdict)],
    ) {
        let mut steps = self.blocks.len() * STEPS;
        // The last block from which a branch that is not counted leads backwards: a search need not go on
        // after that.
        let mut last = 0;
        for (index, _, verdict) in backward.iter() {
            if *verdict == Verdict::Short {
                last = last.max(self.block_of[*index]);
            }
        }
        for (from, to, verdict) in backward.iter_mut().rev() {
            if *verdict != Verdict::Counted || *to == usize::MAX {
                continue;
            }
            let (from, to) = (self.block_of[*from], self.block_of[*to]);
            if self.blocks[from as usize].knot != self.blocks[to as usize].knot {
                *verdict = Verdict::Needless;
                self.blocks[from as usize].counted = false;
                last = last.max(from);
                continue;
            }
            match self.reaches(instructions, pointers, to, from, last.max(from), &mut steps) {
                Some(false) => {
                    *verdict = Verdict::Needless;
                    self.blocks[from as usize].counted = false;
                    last = last.max(from);
                }
                Some(true) => {}
                None => return,
            }
        }
    }

    /// Whether execution gets from the start of one block to the end of another without a count, by blocks up
    /// to `last`. None if that would take too long to find out.
    fn reaches(
        &mut self,
        instructions: &[Instruction],
        pointers: &Bits,
        from: u32,
        wanted: u32,
        last: u32,
        steps: &mut usize,
    ) -> Option<bool> {
        self.searches += 1;
        let knot = self.blocks[from as usize].knot;
        self.todo.clear();
        self.todo.push(from);
        let mut tables_from = u64::MAX;
        while let Some(block) = self.todo.pop() {
            if block == wanted {
                return Some(true);
            }
            let known = &mut self.blocks[block as usize];
            if block > last
                || known.knot != knot
                || std::mem::replace(&mut known.seen, self.searches) == self.searches
            {
                continue;
            }
            *steps = steps.checked_sub(1)?;
            let known = *known;
            if known.next != NONE {
                self.todo.push(known.next);
            }
            if known.target != NONE && !known.counted {
                self.todo.push(known.target);
            }
            if known.table {
                // To all that is named after the jump, of which an earlier table has seen to the later part.
                let first = self.block_of.partition_point(|number| *number <= block);
                let after = instructions.get(first).map_or(self.end, Instruction::ip);
                // To look at one word of the set is less work than a step.
                let words = tables_from.min(self.end).saturating_sub(after) / (64 * 16);
                *steps = steps.checked_sub(words as usize)?;
                for pointed in pointers.members(after, tables_from.min(self.end)) {
                    if let Some(index) = find(&self.index_at, self.start, instructions, pointed) {
                        *steps = steps.checked_sub(1)?;
                        self.todo.push(self.block_of[index]);
                    }
                }
                tables_from = tables_from.min(after);
            }
        }
        Some(false)
    }
}

/// Finds the knots of a function in one walk (by Tarjan's algorithm): a branch from one to another closes no
/// circle.
#[derive(Default)]
struct Knots {
    /// By block: when the walk came there, counted from 1; the earliest that it leads back to.
    order: Vec<(u32, u32)>,
    /// Blocks whose knot is not known yet.
    open: Vec<u32>,
    /// The way to where the walk stands, with the number of branches that have been followed.
    way: Vec<(u32, u8)>,
}

impl Knots {
    fn tie(&mut self, blocks: &mut [Block]) {
        self.order.clear();
        self.order.resize(blocks.len(), (0, 0));
        let mut time = 0;
        for first in 0..blocks.len() as u32 {
            if self.order[first as usize].0 != 0 {
                continue;
            }
            self.come(first, &mut time);
            while let Some((block, followed)) = self.way.last_mut() {
                let (number, at) = (*block, *block as usize);
                *followed += 1;
                let to = match *followed {
                    1 => blocks[at].next,
                    2 => blocks[at].target,
                    _ => {
                        self.way.pop();
                        self.leave(blocks, number);
                        continue;
                    }
                };
                if to == NONE {
                    continue;
                }
                if self.order[to as usize].0 == 0 {
                    self.come(to, &mut time);
                } else if blocks[to as usize].knot == NONE {
                    self.order[at].1 = self.order[at].1.min(self.order[to as usize].0);
                }
            }
        }
    }

    fn come(&mut self, block: u32, time: &mut u32) {
        *time += 1;
        self.order[block as usize] = (*time, *time);
        self.open.push(block);
        self.way.push((block, 0));
    }

    fn leave(&mut self, blocks: &mut [Block], block: u32) {
        let (came, back) = self.order[block as usize];
        if let Some((above, _)) = self.way.last() {
            let above = *above as usize;
            self.order[above].1 = self.order[above].1.min(back);
        }
        if came == back {
            while let Some(member) = self.open.pop() {
                blocks[member as usize].knot = block;
                if member == block {
                    break;
                }
            }
        }
    }
}

/// Whether the branch at `from` back to `to` is a short loop, with nothing in it that takes long, and no
/// other loop.
fn is_short(instructions: &[Instruction], backward: &[(usize, usize)], to: usize, from: usize) -> bool {
    let leaves = |it: &Instruction| {
        matches!(Class::of(it), Class::Call | Class::Away | Class::Site | Class::Other)
            // A repeated string instruction may take any time.
            || it.has_rep_prefix()
            || it.has_repne_prefix()
    };
    if from - to >= SHORT || instructions[to..=from].iter().any(leaves) {
        return false;
    }
    let first = backward.partition_point(|(index, _)| *index < to);
    !backward[first..]
        .iter()
        .take_while(|(index, _)| *index < from)
        .any(|(_, target)| *target > to && *target != usize::MAX)
}

#[cfg(test)]
mod tests {
    use iced_x86::{Decoder, DecoderOptions, FlowControl};
    use proptest::prelude::*;

    use super::*;
    use crate::{bits::Bits, image::Image};

    /// A file without text, for an empty set of pointers.
    fn nothing_pointed() -> Bits {
        let path = std::env::current_exe().expect("this test");
        let bytes = std::fs::read(path).expect("readable");
        Bits::new(&Image::parse(&bytes).expect("an ELF file"))
    }

    /// The verdicts on a function of jumps of 6 bytes: (conditional, where to), or none for an instruction
    /// that goes on. With each, the indices of both ends.
    fn verdicts(jumps: &[Option<(bool, usize)>], short_loops: bool) -> Vec<(usize, usize, Verdict)> {
        let mut code = Vec::new();
        for (index, jump) in jumps.iter().enumerate() {
            match jump {
                Some((conditional, to)) => {
                    let distance = (*to as i32 - index as i32 - 1) * 6;
                    code.extend(if *conditional { [0x0f, 0x84] } else { [0x90, 0xe9] });
                    code.extend(distance.to_le_bytes());
                }
                None => code.extend([0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00]),
            }
        }
        let instructions: Vec<Instruction> =
            Decoder::with_ip(64, &code, 0, DecoderOptions::NONE).into_iter().collect();
        let end = code.len() as u64;
        let region = Region { start: 0, end, sure: true, disputed: false, lsda: None, unwound: true };
        let mut flow = Flow::default();
        flow.begin(&region);
        for (index, it) in instructions.iter().enumerate() {
            if it.near_branch_target() != 0 || it.flow_control() != FlowControl::Next {
                flow.branch(index, it.near_branch_target());
            }
        }
        let found = flow.verdicts(&instructions, &nothing_pointed(), short_loops);
        let number = |ip: u64| (ip / 6) as usize;
        found
            .into_iter()
            .map(|(index, verdict)| {
                let it = &instructions[index];
                (number(it.ip()), number(it.near_branch_target()), verdict)
            })
            .collect()
    }

    /// Whether execution can go in a circle without a counted branch.
    fn has_circle(jumps: &[Option<(bool, usize)>], verdicts: &[(usize, usize, Verdict)]) -> bool {
        let counted =
            |from: usize| verdicts.iter().any(|(at, _, verdict)| *at == from && *verdict == Verdict::Counted);
        let next = |from: usize| {
            let falls = !matches!(jumps[from], Some((false, _)));
            let fall = (falls && from + 1 < jumps.len()).then_some(from + 1);
            let jump = jumps[from].filter(|_| !counted(from)).map(|(_, to)| to);
            fall.into_iter().chain(jump)
        };
        // Take away whatever leads only to what was taken away.
        let mut left: Vec<usize> = (0..jumps.len()).collect();
        while let Some(at) = left.iter().position(|one| !next(*one).any(|to| left.contains(&to))) {
            left.remove(at);
        }
        !left.is_empty()
    }

    #[test]
    fn a_block_out_of_line_needs_no_count() {
        // A loop of 1..=3, with a block at 5 that goes back into it.
        let jumps = [None, None, Some((true, 5)), Some((true, 1)), Some((false, 6)), Some((false, 3)), None];
        assert_eq!(verdicts(&jumps, true), [(3, 1, Verdict::Counted), (5, 3, Verdict::Needless)]);
    }

    #[test]
    fn short_loops_are_the_innermost() {
        let jumps = [None, None, Some((true, 1)), None, Some((true, 0))];
        assert_eq!(verdicts(&jumps, false), [(2, 1, Verdict::Short), (4, 0, Verdict::Counted)]);
        let mut long = vec![None; SHORT];
        long.push(Some((true, 0)));
        assert_eq!(verdicts(&long, false), [(SHORT, 0, Verdict::Counted)]);
        long.remove(1);
        long[SHORT - 1] = Some((true, 0));
        assert_eq!(verdicts(&long, false), [(SHORT - 1, 0, Verdict::Short)]);
    }

    proptest! {
        #[test]
        fn every_circle_has_a_count(
            picks in prop::collection::vec(
                prop::option::of((any::<bool>(), any::<prop::sample::Index>())),
                2..40,
            ),
        ) {
            let len = picks.len();
            let jumps: Vec<Option<(bool, usize)>> =
                picks.iter().map(|pick| pick.as_ref().map(|(conditional, to)| (*conditional, to.index(len)))).collect();
            let found = verdicts(&jumps, true);
            let backward = jumps.iter().enumerate().filter(|(at, jump)| jump.is_some_and(|(_, to)| to <= *at));
            prop_assert_eq!(found.len(), backward.count());
            prop_assert!(!has_circle(&jumps, &found), "{:?}", found);
            // And none is counted in vain: without it there would be a circle.
            for at in 0..found.len() {
                let mut fewer = found.clone();
                if fewer[at].2 == Verdict::Counted {
                    fewer[at].2 = Verdict::Needless;
                    prop_assert!(has_circle(&jumps, &fewer), "{:?}", found[at]);
                }
            }
        }
    }
}
