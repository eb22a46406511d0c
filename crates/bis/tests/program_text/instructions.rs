//! Instructions, and whether a copy is the same one.

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind};

pub fn decode(bytes: &[u8], ip: u64) -> Instruction {
    Decoder::with_ip(64, &bytes[..bytes.len().min(15)], ip, DecoderOptions::NONE).decode()
}

/// Where the text does not end in the middle of it.
pub fn decode_in(bytes: &[u8], ip: u64) -> Option<Instruction> {
    Some(decode(bytes, ip)).filter(|it| !it.is_invalid())
}

/// Does a copy do what the instruction does?
pub fn same_instruction(own: &Instruction, copy: &Instruction) -> Result<(), String> {
    let differs = |what: &str| Err(format!("{own:?} ({what}) is {copy:?} in its place"));
    let is_site = matches!(
        own.mnemonic(),
        Mnemonic::Syscall
            | Mnemonic::Cpuid
            | Mnemonic::Rdtsc
            | Mnemonic::Rdtscp
            | Mnemonic::Rdrand
            | Mnemonic::Rdseed
            | Mnemonic::Rdpid
            | Mnemonic::Lsl
    );
    if is_site {
        // The way to a hook: the address behind the site in a register, perhaps after that was saved.
        let is_way = matches!(copy.mnemonic(), Mnemonic::Lea | Mnemonic::Mov);
        return if is_way { Ok(()) } else { differs("a site") };
    }
    let flow = own.flow_control();
    let branches = matches!(
        flow,
        FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch | FlowControl::IndirectBranch
    );
    // A count takes one from a word, or saves rcx first.
    let counts = copy.op0_kind() == OpKind::Memory
        && copy.memory_base() == iced_x86::Register::None
        && (copy.mnemonic() == Mnemonic::Sub && copy.immediate32() == 256
            || copy.mnemonic() == Mnemonic::Mov && copy.op1_register() == iced_x86::Register::RCX);
    if branches && counts && flow != FlowControl::ConditionalBranch {
        return Ok(());
    }
    if flow == FlowControl::ConditionalBranch && copy.flow_control() == flow {
        let (one, other) = (own.condition_code(), copy.condition_code());
        let around = copy.near_branch64().wrapping_sub(copy.next_ip()) < 100;
        let is_same = one == other && own.near_branch64() == copy.near_branch64();
        let mut negated = *own;
        negated.negate_condition_code();
        // With a count: the opposite condition leads around it.
        return if is_same || around && negated.condition_code() == other {
            Ok(())
        } else {
            differs("a branch")
        };
    }
    if own.mnemonic() != copy.mnemonic() {
        return differs("another instruction");
    }
    if own.op0_kind() == OpKind::NearBranch64 {
        return if own.near_branch64() == copy.near_branch64() {
            Ok(())
        } else {
            differs("it leads elsewhere")
        };
    }
    let same_memory = own.memory_displacement64() == copy.memory_displacement64()
        && own.is_ip_rel_memory_operand() == copy.is_ip_rel_memory_operand();
    let same_kinds = (0..own.op_count())
        .all(|op| own.op_kind(op) == copy.op_kind(op) && own.op_register(op) == copy.op_register(op));
    if own.len() != copy.len() || own.op_count() != copy.op_count() || !same_kinds || !same_memory {
        return differs("other operands");
    }
    Ok(())
}
