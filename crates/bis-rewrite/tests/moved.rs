//! Every run of real libraries, moved to many places: what the trampoline holds is decoded again and compared with the
//! run, instruction by instruction, by what each one reads, writes and branches to.
//!
//! Nothing is executed here.

use std::{fs, path::Path};

use bis_rewrite::{Entry, Hook, Reason, Run, SiteKind, Text, trampoline};
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};
use proptest::prelude::*;

const SAVE: u32 = 0x7000_1040;

/// Libraries that every test machine of this kind has at one of these places.
fn libraries() -> Vec<Vec<u8>> {
    let names = ["libc.so.6", "ld-linux-x86-64.so.2", "libm.so.6", "libstdc++.so.6"];
    let folders = ["/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/usr/lib"];
    names
        .iter()
        .filter_map(|name| folders.iter().find_map(|dir| fs::read(Path::new(dir).join(name)).ok()))
        .collect()
}

fn decode(bytes: &[u8], at: u64) -> Vec<Instruction> {
    Decoder::with_ip(64, bytes, at, DecoderOptions::NONE).into_iter().collect()
}

/// What an instruction does, apart from where it stands: all operands, with absolute targets and addresses.
fn meaning(it: &Instruction, bias: u64) -> String {
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
fn check(run: &Run, bias: u64, at: u64, slot: u64) {
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

#[test]
fn every_run_of_libraries_is_the_same_elsewhere() {
    let mut runs = 0;
    for library in libraries() {
        let text = Text::parse(&library).expect("a library");
        for (site, kind) in text.sites() {
            let Ok(run) = text.run_at(site) else { continue };
            assert_eq!((run.site(), run.kind()), (site, kind));
            assert!(run.len() >= 5 && run.start() <= site && site < run.end());
            for (bias, at, slot) in [
                (0x7f12_3456_7000, 0x7f12_3400_0000, 0x7f12_3300_0000),
                (0x7f12_3456_7000, 0x7f12_3500_0123, 0x7f12_34ff_fff8),
                (0x5555_5555_4000, 0x5555_9555_4000, 0x5555_d000_0000),
            ] {
                check(&run, bias, at, slot);
            }
            runs += 1;
        }
    }
    assert!(runs > 300, "only {runs} runs: where is the C library?");
}

#[test]
fn nearly_every_call_of_the_c_library_can_move() {
    let library = &libraries()[0];
    let text = Text::parse(library).expect("a library");
    let sites: Vec<u64> =
        text.sites().filter(|(_, kind)| *kind == SiteKind::Syscall).map(|(site, _)| site).collect();
    let refused: Vec<Reason> = sites.iter().filter_map(|site| text.run_at(*site).err()).collect();
    assert!(sites.len() > 300, "only {} calls", sites.len());
    assert!(
        refused.iter().filter(|reason| **reason != Reason::Sigreturn).count() * 100 < sites.len(),
        "{refused:?}"
    );
    assert!(refused.contains(&Reason::Sigreturn) && refused.len() < sites.len());
}

#[test]
fn other_addresses_are_refused() {
    let library = &libraries()[0];
    let text = Text::parse(library).expect("a library");
    let (site, _) = text.sites().next().expect("a call");
    assert!(text.run_at(site + 1).is_err());
    assert_eq!(text.run_at(0), Err(Reason::NotASite));
    assert_eq!(text.run_at(u64::MAX), Err(Reason::NotASite));
}

#[test]
fn distances_are_checked() {
    let library = &libraries()[0];
    let text = Text::parse(library).expect("a library");
    let run = text.sites().find_map(|(site, _)| text.run_at(site).ok()).expect("a run");
    let bias = 0x7f00_0000_0000;
    let hook = |slot| Hook { slot, save: None };
    assert!(trampoline(&run, bias, bias + (4 << 30), hook(bias + (4 << 30))).is_err());
    assert!(trampoline(&run, bias, bias - (1 << 30), hook(bias + (2 << 30))).is_err());
    assert!(trampoline(&run, bias, bias - (1 << 30), hook(bias)).is_ok());
}

proptest! {
    /// Runs of one library at any distance that displacements reach.
    #[test]
    fn runs_are_the_same_anywhere(
        pick in any::<prop::sample::Index>(),
        bias in (1_u64 << 32..1 << 46).prop_map(|bias| bias & !0xfff),
        distance in -(1_i64 << 30)..1 << 30,
        slot in -(1_i64 << 30)..1 << 30,
    ) {
        thread_local! {
            static RUNS: Vec<Run> = libraries().iter().flat_map(|library| {
                let text = Text::parse(library).expect("a library");
                text.sites().filter_map(|(site, _)| text.run_at(site).ok()).collect::<Vec<_>>()
            }).collect();
        }
        RUNS.with(|runs| {
            let run = &runs[pick.index(runs.len())];
            let at = (run.start() + bias).wrapping_add_signed(distance);
            check(run, bias, at, at.wrapping_add_signed(slot));
        });
    }
}
