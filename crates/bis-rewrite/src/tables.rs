//! Computed jumps: may one of them lead between the instructions of a run?
//!
//! A jump through a pointer that was loaded from memory or handed in leads to an address that the file names somewhere
//! whole (a relocation, a symbol, a `lea`), and `targets.rs` has all of those. What is left are addresses that the
//! function *computes*. Compilers compute one kind: a table of 32-bit distances, `movsxd x, [base + index * 4]`,
//! `add x, base`, `jmp x`, with the base from a `lea`. That one is known, and its table is read. In a function that
//! jumps to anything else computed, no run may have an interior in which an instruction begins.

use iced_x86::{
    FlowControl, Instruction, InstructionInfoFactory, MemorySize, Mnemonic, OpAccess, OpKind, Register,
};

use crate::{targets::Targets, text::Text};

/// How many instructions before a jump its table is looked for.
const LOOK_BACK: usize = 24;

/// How many instructions before its use the base of a table is looked for.
const BASE_BACK: usize = 1 << 14;

/// Whether every computed jump of a function is understood. `instructions` are all of the function's.
pub(crate) fn understood(text: &Text<'_>, instructions: &[Instruction]) -> bool {
    let lands = |ip: u64| instructions.iter().any(|it| it.near_branch_target() == ip);
    Jumps { targets: text.targets(), instructions, lands: &lands }.all_known()
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
        // The answer for a pointer depends on its register alone.
        let mut pointers = Vec::new();
        self.instructions.iter().enumerate().filter(|(_, it)| is_computed(it)).all(|(index, jump)| match jump
            .op0_kind()
        {
            OpKind::Memory => {
                jump.mnemonic() == Mnemonic::Jmp && jump.memory_size() == MemorySize::QwordOffset
            }
            OpKind::Register => {
                let register = jump.op0_register();
                if pointers.contains(&register)
                    || self.is_loaded(index, register, &mut info)
                    || self.table(index, register, &mut info).is_some()
                {
                    return true;
                }
                let pointer = is_pointer(self.instructions, &mut vec![register], &mut info);
                pointers.extend(pointer.then_some(register));
                pointer
            }
            _ => false,
        })
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
    info.info(it).used_registers().iter().any(|used| {
        used.register().full_register() == register
            && !matches!(
                used.access(),
                OpAccess::Read | OpAccess::CondRead | OpAccess::None | OpAccess::NoMemAccess
            )
    })
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

/// Whether every value that the function ever puts into the registers of `todo` is a pointer that came whole from
/// elsewhere.
fn is_pointer(
    instructions: &[Instruction],
    todo: &mut Vec<Register>,
    info: &mut InstructionInfoFactory,
) -> bool {
    let mut done = Vec::new();
    while let Some(register) = todo.pop() {
        if !register.is_gpr64() {
            return false;
        }
        done.push(register);
        for it in instructions {
            if !may_write(it, register, info) {
                continue;
            }
            let to_register = it.op0_kind() == OpKind::Register && it.op0_register() == register;
            match it.mnemonic() {
                Mnemonic::Pop if to_register => {}
                Mnemonic::Lea if to_register && it.is_ip_rel_memory_operand() => {}
                // What a kernel call leaves (rax, rcx, r11) is no address of this file's.
                Mnemonic::Syscall => {}
                // The canonical demangling of a pointer that the C library keeps.
                Mnemonic::Ror if to_register => {}
                Mnemonic::Xor if to_register && it.segment_prefix() == Register::FS => {}
                // Nothing: the zero that a null pointer is.
                Mnemonic::Xor
                    if it.op0_kind() == OpKind::Register
                        && it.op1_kind() == OpKind::Register
                        && it.op0_register() == it.op1_register() => {}
                mnemonic if to_register && (mnemonic == Mnemonic::Mov || is_cmov(it)) => {
                    match it.op1_kind() {
                        OpKind::Memory => {}
                        OpKind::Register => {
                            let from = it.op1_register();
                            if !done.contains(&from) && !todo.contains(&from) {
                                todo.push(from);
                            }
                        }
                        _ => return false,
                    }
                }
                _ => return false,
            }
        }
    }
    true
}

fn is_cmov(it: &Instruction) -> bool {
    it.condition_code() != iced_x86::ConditionCode::None
        && it.flow_control() == FlowControl::Next
        && !it.is_jcc_near()
}

impl Jumps<'_> {
    /// Whether the register of the jump at `index` was loaded from memory, whole, shortly before, on the only way there.
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
                    // The base may come between the load and the sum only if the load used it too: it did not.
                    return None;
                }
                continue;
            }
            match sum {
                None => {
                    // add x, base; jmp x: the load of x is before; or add base, x; jmp base: x is the other one.
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

    /// The last thing put into `base` before the load, in the order of the text, if it is the address of a table. Every
    /// other address that a `lea` of the file gives is read as a table anyway, if it looks like one.
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
