//! What the tests of this crate share: real libraries, ELF files made by hand, and the check of a trampoline.

pub mod dense;
pub mod elf;
pub mod program;
pub mod room;

use std::{fs, path::Path};

use bis_rewrite::{
    DenseLayout, DenseOptions, Entry, Hook, Place, Run, SiteKind, SiteKinds, Text, trampoline,
};
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

/// Makes a dense text of a file of any kind, and checks that map and bytes fit together: every instruction of
/// the trampolines has a place, nothing else has, and whatever is entered is an instruction there.
pub fn dense_is_sound(text: &Text<'_>, short_loops: bool) {
    let hooks = SiteKind::ALL.map(|kind| (kind, 0x7000_2000)).to_vec();
    let plan = text.dense(DenseOptions { short_loops, hooks: SiteKinds::of(&SiteKind::ALL) });
    let bias = 0x1000_0000;
    let layout = DenseLayout {
        trampolines: bias + 0x4000_0000,
        counter: 0x7000_1000,
        save: 0x7000_1008,
        hooks,
        hook_save: Some(0x7000_1010),
    };
    let Ok(dense) = plan.build(bias, &layout) else { return };
    let coverage = plan.coverage();
    for tally in
        [&coverage.backward, &coverage.crossing, &coverage.calls, &coverage.computed, &coverage.hooks]
    {
        let all = tally.taken + tally.needless + tally.short + tally.left_in_all();
        assert_eq!(tally.seen, all, "{coverage:?}");
    }
    assert_eq!(
        plan.left().len(),
        [&coverage.backward, &coverage.crossing, &coverage.calls, &coverage.computed, &coverage.hooks]
            .map(|tally| tally.left_in_all())
            .iter()
            .sum::<usize>()
    );
    let words = 8 * SiteKind::ALL.len();
    let all = decode(&dense.trampolines[words..], layout.trampolines + words as u64);
    let mut next = all.iter().peekable();
    let mut traced = dense.map.sites().iter().peekable();
    for offset in 0..dense.trampolines.len() as u64 {
        let pc = layout.trampolines + offset;
        let begins = next.next_if(|it| it.ip() == pc);
        let place = dense.map.place(bias, pc);
        if let Some(site) = traced.next_if(|site| site.done.wrapping_add(bias) <= pc) {
            assert_eq!(dense.map.site_of(bias, site.done.wrapping_add(bias)), Some(site));
        }
        // Within the way to a hook every address counts, up to the site's own instruction.
        let inside = traced.peek().is_some_and(|site| {
            (site.entry.wrapping_add(bias)..=site.traced.wrapping_add(bias)).contains(&pc)
        });
        match begins {
            Some(it) => {
                assert!(!it.is_invalid(), "{pc:#x}");
                let place = place.unwrap_or_else(|| panic!("{pc:#x} has no place"));
                let trap = matches!(place, Place::Count { trap: true, .. });
                assert_eq!(trap, it.mnemonic() == Mnemonic::Int3, "{pc:#x}");
            }
            None => assert!(place.is_none() || inside, "{pc:#x}: {place:?}"),
        }
    }
    assert!(next.next().is_none());
    assert_eq!(dense.map.place(bias, layout.trampolines + dense.trampolines.len() as u64), None);
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
