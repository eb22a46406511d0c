//! Computed jumps: may one of them lead between the instructions of a run?
//!
//! A jump through a pointer that was loaded from memory or handed in leads to an address that the file names
//! somewhere whole (a relocation, a symbol, a `lea`), and `targets.rs` has all of those. What is left are
//! addresses that the function *computes*. Compilers compute one kind: a table of 32-bit distances, `movsxd
//! x, [base + index * 4]`, `add x, base`, `jmp x`, with the base from a `lea`. That one is known, and its
//! table is read. In a function that jumps to anything else computed, no run may have an interior in which an
//! instruction begins.

use std::cell::OnceCell;

use iced_x86::{
    FlowControl, Instruction, InstructionInfoFactory, MemorySize, Mnemonic, OpAccess, OpKind, Register,
};

use crate::{functions::Region, listing::Listing, targets::Targets};

/// How many instructions before a jump its table is looked for.
const LOOK_BACK: usize = 24;

/// How many instructions before its use the base of a table is looked for.
const BASE_BACK: usize = 1 << 14;

/// Whether every computed jump of a function is understood. `instructions` are all of the function's.
pub(crate) fn understood(targets: &Targets, instructions: &[Instruction]) -> bool {
    let landed = OnceCell::new();
    let landings = || {
        let mut landed: Vec<u64> = instructions.iter().map(Instruction::near_branch_target).collect();
        landed.sort_unstable();
        landed
    };
    let lands = |ip: u64| landed.get_or_init(landings).binary_search(&ip).is_ok();
    Jumps { targets, instructions, lands: &lands }.all_known()
}

/// As `understood`, for text of which nobody wants to have all instructions at once: the answer needs those
/// before a jump, and of all others where they lead and what they write.
pub(crate) fn understood_in(listing: &Listing<'_>, targets: &Targets, region: &Region) -> bool {
    let all = || listing.instructions(region.start, region);
    let landed = OnceCell::new();
    let landings = || {
        let mut landed = vec![0_u64; (region.len() / 64 + 1) as usize];
        for target in all().map(|it| it.near_branch_target()).filter(|target| region.contains(*target)) {
            let at = target - region.start;
            landed[(at / 64) as usize] |= 1 << (at % 64);
        }
        landed
    };
    let lands = |ip: u64| {
        let at = ip - region.start;
        landed.get_or_init(landings)[(at / 64) as usize] >> (at % 64) & 1 == 1
    };
    let writes = OnceCell::new();
    let mut is_pointer = |register| writes.get_or_init(|| Writes::of(all())).is_pointer(register);
    let mut info = InstructionInfoFactory::new();
    let mut row: Vec<Instruction> = Vec::with_capacity(2 * BASE_BACK);
    for it in all() {
        if row.len() == 2 * BASE_BACK {
            row.drain(..BASE_BACK);
        }
        row.push(it);
        if is_computed(&it) {
            let jumps = Jumps { targets, instructions: &row, lands: &lands };
            if !jumps.is_known(row.len() - 1, &mut is_pointer, &mut info) {
                return false;
            }
        }
    }
    true
}

/// The computed jumps of one function.
pub(crate) struct Jumps<'f> {
    pub targets: &'f Targets,
    /// All of the function's.
    pub instructions: &'f [Instruction],
    /// Whether a branch of the function leads to an address (or, which makes the answers more careful, may).
    pub lands: &'f dyn Fn(u64) -> bool,
}

impl Jumps<'_> {
    /// Whether each leads to an address that the file names, or to an entry of a table that can be read.
    pub fn all_known(&self) -> bool {
        let mut info = InstructionInfoFactory::new();
        let writes = OnceCell::new();
        let all = || Writes::of(self.instructions.iter().copied());
        let mut is_pointer = |register| writes.get_or_init(all).is_pointer(register);
        let mut computed = self.instructions.iter().enumerate().filter(|(_, it)| is_computed(it));
        computed.all(|(index, _)| self.is_known(index, &mut is_pointer, &mut info))
    }

    /// Whether the jump at `index` does. `is_pointer` says it of a register, whatever the place.
    fn is_known(
        &self,
        index: usize,
        is_pointer: &mut dyn FnMut(Register) -> bool,
        info: &mut InstructionInfoFactory,
    ) -> bool {
        let jump = &self.instructions[index];
        match jump.op0_kind() {
            OpKind::Memory => {
                jump.mnemonic() == Mnemonic::Jmp && jump.memory_size() == MemorySize::QwordOffset
            }
            OpKind::Register => {
                let register = jump.op0_register();
                self.is_loaded(index, register, info)
                    || self.table(index, register, info).is_some()
                    || is_pointer(register)
            }
            _ => false,
        }
    }

    /// The table of relative addresses that the jump at `index` goes through, if that is what it does.
    pub fn table_of(&self, index: usize) -> Option<u64> {
        let jump = &self.instructions[index];
        let register = (jump.op0_kind() == OpKind::Register).then(|| jump.op0_register())?;
        self.table(index, register, &mut InstructionInfoFactory::new())
    }
}

fn is_computed(it: &Instruction) -> bool {
    it.flow_control() == FlowControl::IndirectBranch
}

/// Whether an instruction writes (part of) a 64-bit register.
fn writes(it: &Instruction, register: Register, info: &mut InstructionInfoFactory) -> bool {
    info.info(it)
        .used_registers()
        .iter()
        .any(|used| used.register().full_register() == register && is_write(used.access()))
}

fn is_write(access: OpAccess) -> bool {
    !matches!(access, OpAccess::Read | OpAccess::CondRead | OpAccess::None | OpAccess::NoMemAccess)
}

/// Whether an instruction might write a register; quick, and true too often.
fn may_write(it: &Instruction, register: Register, info: &mut InstructionInfoFactory) -> bool {
    match it.mnemonic() {
        Mnemonic::Cmp | Mnemonic::Test | Mnemonic::Nop => false,
        _ if it.flow_control() == FlowControl::ConditionalBranch => false,
        Mnemonic::Pop | Mnemonic::Mov | Mnemonic::Lea | Mnemonic::Add | Mnemonic::Sub => {
            it.op0_kind() == OpKind::Register && it.op0_register().full_register() == register
        }
        _ => writes(it, register, info),
    }
}

/// What a function ever puts into each register of 64 bits, wherever.
#[derive(Default)]
struct Writes {
    /// One bit for each register that gets something else than a pointer that came whole from elsewhere.
    others: u16,
    /// For each register: bits of those that it gets values of.
    copies: [u16; 16],
}

impl Writes {
    fn of(instructions: impl Iterator<Item = Instruction>) -> Self {
        let mut info = InstructionInfoFactory::new();
        let mut writes = Self::default();
        for it in instructions {
            writes.add(&it, &mut info);
            if writes.others == u16::MAX {
                break;
            }
        }
        writes
    }

    fn add(&mut self, it: &Instruction, info: &mut InstructionInfoFactory) {
        for register in written(it, info).filter(|register| register.is_gpr64()) {
            match source(it, register) {
                Source::Elsewhere => {}
                Source::Register(from) if from.is_gpr64() => {
                    self.copies[register.number()] |= 1 << from.number();
                }
                Source::Register(_) | Source::Other => self.others |= 1 << register.number(),
            }
        }
    }

    /// Whether every value that a register ever gets, by way of others too, is a pointer that came whole from
    /// elsewhere.
    fn is_pointer(&self, register: Register) -> bool {
        if !register.is_gpr64() {
            return false;
        }
        let (mut done, mut todo) = (0_u16, 1_u16 << register.number());
        while todo != 0 {
            done |= todo;
            let copies = (0..16).filter(|number| todo >> number & 1 == 1).map(|number| self.copies[number]);
            todo = copies.fold(0, |all, some| all | some) & !done;
        }
        done & self.others == 0
    }
}

/// The 64-bit registers of which an instruction writes a part; quick, and too many of some.
fn written(it: &Instruction, info: &mut InstructionInfoFactory) -> impl Iterator<Item = Register> {
    let mut found = [Register::None; 16];
    let mut add = |register: Register| {
        if register.full_register().is_gpr64() {
            found[register.full_register().number()] = register.full_register();
        }
    };
    match it.mnemonic() {
        Mnemonic::Cmp | Mnemonic::Test | Mnemonic::Nop => {}
        _ if it.flow_control() == FlowControl::ConditionalBranch => {}
        Mnemonic::Pop | Mnemonic::Mov | Mnemonic::Lea | Mnemonic::Add | Mnemonic::Sub => {
            if it.op0_kind() == OpKind::Register {
                add(it.op0_register());
            }
        }
        _ => {
            let used = info.info(it).used_registers().iter();
            used.filter(|used| is_write(used.access())).for_each(|used| add(used.register()));
        }
    }
    found.into_iter().filter(|register| *register != Register::None)
}

/// What an instruction puts into a register.
enum Source {
    /// A pointer that came whole from memory, from the file's own words, or from nobody who computes
    /// addresses.
    Elsewhere,
    Register(Register),
    Other,
}

/// What an instruction puts into a register that it writes.
fn source(it: &Instruction, register: Register) -> Source {
    if it.mnemonic() == Mnemonic::Syscall {
        // What a kernel call leaves (rax, rcx, r11) is no address of this file's.
        return Source::Elsewhere;
    }
    // Nothing: the zero that a null pointer is.
    let is_zero = it.mnemonic() == Mnemonic::Xor
        && it.op0_kind() == OpKind::Register
        && it.op1_kind() == OpKind::Register
        && it.op0_register() == it.op1_register();
    if is_zero {
        return Source::Elsewhere;
    }
    if it.op0_kind() != OpKind::Register || it.op0_register() != register {
        return Source::Other;
    }
    match it.mnemonic() {
        Mnemonic::Pop => Source::Elsewhere,
        Mnemonic::Lea if it.is_ip_rel_memory_operand() => Source::Elsewhere,
        // The canonical demangling of a pointer that the C library keeps.
        Mnemonic::Ror => Source::Elsewhere,
        Mnemonic::Xor if it.segment_prefix() == Register::FS => Source::Elsewhere,
        mnemonic if mnemonic == Mnemonic::Mov || is_cmov(it) => match it.op1_kind() {
            OpKind::Memory => Source::Elsewhere,
            OpKind::Register => Source::Register(it.op1_register()),
            _ => Source::Other,
        },
        _ => Source::Other,
    }
}

fn is_cmov(it: &Instruction) -> bool {
    it.condition_code() != iced_x86::ConditionCode::None
        && it.flow_control() == FlowControl::Next
        && !it.is_jcc_near()
}

impl Jumps<'_> {
    /// Whether the register of the jump at `index` was loaded from memory, whole, shortly before, on the only
    /// way there.
    fn is_loaded(&self, index: usize, register: Register, info: &mut InstructionInfoFactory) -> bool {
        let first = index.saturating_sub(LOOK_BACK);
        for at in (first..index).rev() {
            let it = &self.instructions[at];
            let straight = matches!(it.flow_control(), FlowControl::Next | FlowControl::ConditionalBranch);
            if !straight || (self.lands)(self.instructions[at + 1].ip()) {
                return false;
            }
            if may_write(it, register, info) {
                return it.mnemonic() == Mnemonic::Mov
                    && it.op0_kind() == OpKind::Register
                    && it.op0_register() == register
                    && it.op1_kind() == OpKind::Memory;
            }
        }
        false
    }

    /// The table, if the jump at `index` is the end of the known sequence.
    fn table(&self, index: usize, register: Register, info: &mut InstructionInfoFactory) -> Option<u64> {
        let first = index.saturating_sub(LOOK_BACK);
        let straight = |it: &Instruction| {
            matches!(it.flow_control(), FlowControl::Next | FlowControl::ConditionalBranch)
        };
        let mut sum = None;
        for at in (first..index).rev() {
            let it = &self.instructions[at];
            // Nothing may join the sequence in its middle.
            if !straight(it) || (self.lands)(self.instructions[at + 1].ip()) {
                return None;
            }
            if !writes(it, register, info) {
                if let Some((x, base)) = sum
                    && writes(it, x, info)
                {
                    return self.loaded(it, x, base, info);
                }
                if let Some((_, base)) = sum
                    && writes(it, base, info)
                {
                    // The base may come between the load and the sum only if the load used it too: it did
                    // not.
                    return None;
                }
                continue;
            }
            match sum {
                None => {
                    // add x, base; jmp x: the load of x is before; or add base, x; jmp base: x is the other
                    // one.
                    let (one, other) = terms(it).filter(|_| it.op0_register() == register)?;
                    let loaded = self.instructions[first..at]
                        .iter()
                        .rev()
                        .find(|it| writes(it, one, info) || writes(it, other, info))
                        .map(Instruction::op0_register);
                    sum = match loaded {
                        Some(x) if x == one => Some((one, other)),
                        Some(x) if x == other => Some((other, one)),
                        _ => return None,
                    };
                    if one != register && other != register {
                        // A third register holds the sum; what follows looks at the two terms only.
                        return self.before(first, at, sum?, info);
                    }
                }
                Some((x, base)) if x == register => return self.loaded(it, x, base, info),
                Some(_) => return None,
            }
        }
        None
    }

    /// As [`Self::table`], from the sum at `index` on, for a sum that overwrites neither of its terms.
    fn before(
        &self,
        first: usize,
        index: usize,
        (x, base): (Register, Register),
        info: &mut InstructionInfoFactory,
    ) -> Option<u64> {
        for at in (first..index).rev() {
            let it = &self.instructions[at];
            let straight = matches!(it.flow_control(), FlowControl::Next | FlowControl::ConditionalBranch);
            if !straight || (self.lands)(self.instructions[at + 1].ip()) {
                return None;
            }
            if writes(it, x, info) {
                return self.loaded(it, x, base, info);
            }
            if writes(it, base, info) {
                return None;
            }
        }
        None
    }

    /// The table that `it` loads an entry of, into `x`.
    fn loaded(
        &self,
        it: &Instruction,
        x: Register,
        base: Register,
        info: &mut InstructionInfoFactory,
    ) -> Option<u64> {
        if !is_load(it, x, base) {
            return None;
        }
        self.base(base, it, info)
    }

    /// The last thing put into `base` before the load, in the order of the text, if it is the address of a
    /// table. Every other address that a `lea` of the file gives is read as a table anyway, if it looks like
    /// one.
    fn base(&self, base: Register, load: &Instruction, info: &mut InstructionInfoFactory) -> Option<u64> {
        let before = self.instructions.partition_point(|it| it.ip() < load.ip());
        let mut near = self.instructions[..before].iter().rev().take(BASE_BACK);
        let last = near.find(|it| may_write(it, base, info))?;
        let is_lea = last.mnemonic() == Mnemonic::Lea && last.is_ip_rel_memory_operand();
        let table = last.memory_displacement64();
        (is_lea && self.targets.is_table(table)).then_some(table)
    }
}

/// The two registers that an instruction adds into its first operand.
fn terms(it: &Instruction) -> Option<(Register, Register)> {
    if it.op0_kind() != OpKind::Register {
        return None;
    }
    match it.mnemonic() {
        Mnemonic::Add if it.op1_kind() == OpKind::Register => Some((it.op0_register(), it.op1_register())),
        Mnemonic::Lea
            if it.memory_index_scale() == 1
                && it.memory_displacement64() == 0
                && it.memory_base().is_gpr64()
                && it.memory_index().is_gpr64() =>
        {
            Some((it.memory_base(), it.memory_index()))
        }
        _ => None,
    }
}

/// `movsxd x, [base + index * 4]`
fn is_load(it: &Instruction, x: Register, base: Register) -> bool {
    it.mnemonic() == Mnemonic::Movsxd
        && it.op0_kind() == OpKind::Register
        && it.op0_register() == x
        && it.op1_kind() == OpKind::Memory
        && it.memory_base() == base
        && it.memory_index_scale() == 4
        && it.memory_index() != Register::None
        && it.memory_displacement64() == 0
        && it.segment_prefix() == Register::None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{analysis::Analysis, image::Image};

    /// Both ways to ask agree, for all functions of a real library and for all the text between them.
    #[test]
    fn a_region_is_judged_in_pieces_as_it_is_as_a_whole() {
        let Ok(bytes) = std::fs::read("/lib/x86_64-linux-gnu/libc.so.6") else {
            eprintln!("not run: there is no libc here");
            return;
        };
        let text = Analysis::new(Image::parse(&bytes).expect("a library"));
        let mut counts = [0, 0];
        for region in text.functions().all() {
            let instructions = text.decode(region);
            if !instructions.iter().any(is_computed) {
                continue;
            }
            let whole = understood(text.targets(), &instructions);
            assert_eq!(understood_in(&text, text.targets(), region), whole, "{region:?}");
            counts[usize::from(whole)] += 1;
        }
        assert!(counts[0] > 0 && counts[1] > 10, "{counts:?}");
    }
}
