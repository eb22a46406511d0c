//! What the tests of this crate share: real libraries, ELF files made by hand, and the check of a trampoline.
#![allow(dead_code, reason = "each test uses its own part")]

pub mod dense;
pub mod elf;
pub mod program;

use std::{fs, path::Path};

use bis_rewrite::{Entry, Hook, Run, SiteKind, trampoline};
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};

const SAVE: u32 = 0x7000_1040;

/// Libraries that every test machine of this kind has at one of these places.
pub fn libraries() -> Vec<Vec<u8>> {
    let names = ["libc.so.6", "ld-linux-x86-64.so.2", "libm.so.6", "libstdc++.so.6"];
    let folders = ["/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/usr/lib"];
    names
        .iter()
        .filter_map(|name| folders.iter().find_map(|dir| fs::read(Path::new(dir).join(name)).ok()))
        .collect()
}

pub fn decode(bytes: &[u8], at: u64) -> Vec<Instruction> {
    Decoder::with_ip(64, bytes, at, DecoderOptions::NONE).into_iter().collect()
}

/// What an instruction does, apart from where it stands: all operands, with absolute targets and addresses.
pub fn meaning(it: &Instruction, bias: u64) -> String {
    let mut words = format!("{:?} {:?} {:?}", it.mnemonic(), it.segment_prefix(), it.has_lock_prefix());
    words += &format!(" {:?} {:?} {:?}", it.has_rep_prefix(), it.has_repne_prefix(), it.op_mask());
    for op in 0..it.op_count() {
        words += &match it.op_kind(op) {
            OpKind::Register => format!(" {:?}", it.op_register(op)),
            OpKind::NearBranch64 => format!(" to {:#x}", it.near_branch64().wrapping_add(bias)),
            OpKind::Memory if it.is_ip_rel_memory_operand() => {
                format!(" at {:#x} {:?}", it.memory_displacement64().wrapping_add(bias), it.memory_size())
            }
            OpKind::Memory => format!(
                " [{:?}+{:?}*{}+{:#x}] {:?}",
                it.memory_base(),
                it.memory_index(),
                it.memory_index_scale(),
                it.memory_displacement64(),
                it.memory_size()
            ),
            OpKind::Immediate8
            | OpKind::Immediate16
            | OpKind::Immediate32
            | OpKind::Immediate64
            | OpKind::Immediate8to16
            | OpKind::Immediate8to32
            | OpKind::Immediate8to64
            | OpKind::Immediate32to64 => format!(" {:#x}", it.immediate(op)),
            other => format!(" {other:?}"),
        };
    }
    words
}

/// Checks all that is promised of one trampoline.
pub fn check(run: &Run, bias: u64, at: u64, slot: u64) {
    let made = trampoline(run, bias, at, Hook { slot, save: Some(SAVE) }).expect("near enough");
    let start = run.start().wrapping_add(bias);

    // The patch: a jump to the trampoline, then traps.
    assert_eq!(made.patch.len(), usize::from(run.len()));
    let jump = &decode(&made.patch, start)[0];
    assert_eq!((jump.mnemonic(), jump.len(), jump.near_branch64()), (Mnemonic::Jmp, 5, at));
    assert!(made.patch[5..].iter().all(|byte| *byte == 0xcc));

    let originals = decode(run.bytes(), run.start());
    let copies = decode(&made.bytes, at);
    assert!(copies.iter().all(|it| !it.is_invalid()));
    assert_eq!(made.places.len(), originals.len() + 1);
    let mut next = copies.iter();
    for (original, (from, to)) in originals.iter().zip(&made.places) {
        assert_eq!(original.ip().wrapping_add(bias), *from);
        let mut copy = next.next().expect("an instruction for each");
        assert_eq!(copy.ip(), *to);
        if original.ip() == run.site() {
            if run.kind().entry() == Entry::SavedRcx {
                assert_eq!(copy.mnemonic(), Mnemonic::Mov);
                assert_eq!(
                    (copy.memory_base(), copy.memory_displacement64()),
                    (Register::None, u64::from(SAVE))
                );
                assert_eq!(copy.op1_register(), Register::RCX);
                copy = next.next().expect("lea");
            }
            let link = if run.kind().entry() == Entry::Rdx { Register::RDX } else { Register::RCX };
            assert_eq!((copy.mnemonic(), copy.op0_register()), (Mnemonic::Lea, link));
            assert_eq!(copy.memory_displacement64(), made.done);
            copy = next.next().expect("jmp");
            assert_eq!((copy.mnemonic(), copy.op0_kind()), (Mnemonic::Jmp, OpKind::Memory));
            assert_eq!((copy.is_ip_rel_memory_operand(), copy.memory_displacement64()), (true, slot));
            copy = next.next().expect("the instruction itself");
            assert_eq!((copy.ip(), copy.next_ip()), (made.traced, made.done));
            assert_eq!(made.abort.is_some(), run.kind() == SiteKind::Xbegin);
            assert_eq!(made.original(made.traced), Some(*from));
        }
        assert_eq!(meaning(original, bias), meaning(copy, 0), "{run:?}");
        assert_eq!(made.original(*to), Some(*from));
    }
    let back = next.next().expect("the jump back");
    let end = start + u64::from(run.len());
    assert_eq!(made.places.last(), Some(&(end, back.ip())));
    assert_eq!((back.mnemonic(), back.near_branch64()), (Mnemonic::Jmp, end));
    assert!(next.next().is_none());
}
