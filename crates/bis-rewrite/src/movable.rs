//! Which instructions do the same in another place.

use iced_x86::{Code, FlowControl, Instruction, Mnemonic, OpKind, Register};

use crate::run::SiteKind;

/// Whether what follows an instruction runs after it (not always, for a conditional jump).
pub(crate) fn falls_through(it: &Instruction) -> bool {
    matches!(it.flow_control(), FlowControl::Next | FlowControl::ConditionalBranch)
}

/// Whether an instruction does the same elsewhere, when its displacements are adapted.
pub(crate) fn movable(it: &Instruction) -> bool {
    // These keep the program counter of the last x87 instruction, and save it to memory.
    movable_for_a_while(it) && !it.code().cpuid_features().iter().any(is_x87)
}

/// As `movable`, beside a site of this kind. Beside what stores the x87 environment there often is what loads
/// it; that and its like are control instructions, of which the processor does not remember where they were.
pub(crate) fn movable_beside(kind: SiteKind, it: &Instruction) -> bool {
    let is_control = matches!(
        it.mnemonic(),
        Mnemonic::Fldenv | Mnemonic::Fldcw | Mnemonic::Fnstcw | Mnemonic::Fnstsw | Mnemonic::Fnclex
    );
    movable(it) || kind == SiteKind::Fnstenv && is_control && movable_for_a_while(it)
}

/// As `movable`, but for the processor's memory of where the last x87 instruction was.
pub(crate) fn movable_for_a_while(it: &Instruction) -> bool {
    if it.is_invalid() || SiteKind::of(it).is_some() {
        return false;
    }
    // Relative to the lower half of rip: not in use, and not adaptable.
    let memory = (0..it.op_count()).any(|op| it.op_kind(op) == OpKind::Memory);
    if memory && it.memory_base() == Register::EIP {
        return false;
    }
    match it.mnemonic() {
        // The processor demands it where indirect branches land.
        Mnemonic::Endbr64 | Mnemonic::Endbr32 => return false,
        // The kernel and debuggers look at where it is.
        Mnemonic::Int
        | Mnemonic::Int1
        | Mnemonic::Int3
        | Mnemonic::Into
        | Mnemonic::Sysenter
        | Mnemonic::Sysexit => {
            return false;
        }
        Mnemonic::Xabort | Mnemonic::Xend | Mnemonic::Hlt => return false,
        Mnemonic::Fnstenv | Mnemonic::Fnsave => return false,
        _ => {}
    }
    match it.flow_control() {
        FlowControl::Next => true,
        FlowControl::ConditionalBranch => it.is_jcc_short_or_near() && is_near(it),
        FlowControl::UnconditionalBranch => is_near(it) && it.is_jmp_short_or_near(),
        FlowControl::IndirectBranch => matches!(it.code(), Code::Jmp_rm64 | Code::Jmp_rm32),
        FlowControl::Return => {
            matches!(it.code(), Code::Retnq | Code::Retnq_imm16 | Code::Retnd | Code::Retnd_imm16)
        }
        _ => false,
    }
}

/// Does it lead to an address of the program's width?
fn is_near(it: &Instruction) -> bool {
    matches!(it.op0_kind(), OpKind::NearBranch64 | OpKind::NearBranch32)
}

fn is_x87(feature: &iced_x86::CpuidFeature) -> bool {
    use iced_x86::CpuidFeature::{FPU, FPU287, FPU287XL_ONLY, FPU387, FPU387SL_ONLY};
    matches!(feature, FPU | FPU287 | FPU287XL_ONLY | FPU387 | FPU387SL_ONLY)
}
