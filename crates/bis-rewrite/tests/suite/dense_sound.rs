//! The dense text of real libraries: bytes and map against each other, and against the original.

use bis_rewrite::{DenseLayout, DenseOptions, Place, SiteKind, SiteKinds, Text};
use iced_x86::{FlowControl, Instruction, Mnemonic, OpKind};

#[test]
fn bytes_and_map_of_libraries_fit_together() {
    for bytes in crate::common::libraries() {
        let text = Text::parse(&bytes).expect("a library");
        for short_loops in [false, true] {
            crate::common::dense_is_sound(&text, short_loops);
        }
    }
}

#[test]
fn nearly_every_branch_of_the_c_library_is_covered() {
    let bytes = &crate::common::libraries()[0];
    let text = Text::parse(bytes).expect("a library");
    for short_loops in [false, true] {
        let plan = text.dense(DenseOptions { short_loops, hooks: SiteKinds::of(&SiteKind::ALL) });
        let coverage = plan.coverage();
        for (tally, permille) in [
            (&coverage.backward, 970),
            (&coverage.crossing, 990),
            (&coverage.calls, 990),
            (&coverage.computed, 800),
            (&coverage.hooks, 980),
        ] {
            assert!(tally.left_in_all() * 1000 <= tally.seen * (1000 - permille), "{coverage:?}");
        }
    }
}

const BIAS: u64 = 0x1000_0000;

/// Follows every changed place of every library: what its trampoline does is what the original did,
/// instruction by instruction, apart from the counts.
#[test]
fn every_trampoline_does_what_the_text_did() {
    for bytes in crate::common::libraries() {
        let text = Text::parse(&bytes).expect("a library");
        let plan = text.dense(DenseOptions { short_loops: true, hooks: SiteKinds::of(&[SiteKind::Syscall]) });
        let layout = DenseLayout {
            trampolines: BIAS + 0x4000_0000,
            counter: 0x7000_1000,
            save: 0x7000_1008,
            hooks: vec![(SiteKind::Syscall, 0x7000_2000)],
            hook_save: None,
        };
        let dense = plan.build(BIAS, &layout).expect("near enough");
        let trampolines = crate::common::decode(&dense.trampolines[64..], layout.trampolines + 64);
        let at = |pc: u64| {
            let index = trampolines.binary_search_by_key(&pc, Instruction::ip);
            &trampolines[index.unwrap_or_else(|_| panic!("{pc:#x} is no instruction of the trampolines"))]
        };
        let mut followed = 0;
        for segment in &dense.segments {
            let original = &bytes[segment.offset as usize..]
                [..segment.bytes.len().min(bytes.len() - segment.offset as usize)];
            let mut offset = 0;
            while offset < original.len() {
                if original[offset] == segment.bytes[offset] {
                    offset += 1;
                    continue;
                }
                // The first byte that differs is an opcode, or in a displacement: find the instruction by
                // trying.
                let (start, changed) = (0..=5)
                    .filter_map(|back| {
                        let start = offset.checked_sub(back)?;
                        let ip = segment.start + BIAS + start as u64;
                        let it = *crate::common::decode(&segment.bytes[start..start + 15], ip).first()?;
                        let leads = it.op0_kind() == OpKind::NearBranch64
                            && it.near_branch64().wrapping_sub(layout.trampolines)
                                < dense.trampolines.len() as u64;
                        leads.then_some((start, it))
                    })
                    .next()
                    .unwrap_or_else(|| {
                        panic!("{:#x} changed, and leads nowhere", segment.start + offset as u64)
                    });
                let ip = segment.start + BIAS + start as u64;
                let before = crate::common::decode(&original[start..(start + 64).min(original.len())], ip);
                let to = at(changed.near_branch64());
                if before[0].flow_control() == changed.flow_control()
                    && before[0].len() == changed.len()
                    && is_count(to)
                {
                    // In place: the same branch, by way of a count.
                    let place = dense.map.place(BIAS, to.ip()).expect("a place");
                    assert_eq!(before[0].mnemonic(), changed.mnemonic());
                    assert!(
                        matches!(place, Place::Count { address, resume, taken: false, restore_rcx: false, trap: false, .. }
                            if address == before[0].near_branch64() && resume == address),
                        "{ip:#x}: {place:?}"
                    );
                    assert_eq!(exit(&trampolines, to.ip()).near_branch64(), before[0].near_branch64());
                    offset = start + changed.len();
                } else {
                    assert_eq!((changed.mnemonic(), changed.len()), (Mnemonic::Jmp, 5));
                    let mut end = start;
                    let mut expected = changed.near_branch64();
                    for it in &before {
                        // What was patched over by traps, and can be entered, is of the same run.
                        let same_run = segment.bytes[end] == 0xcc && dense.map.enter(BIAS, it.ip()).is_some();
                        if end >= start + 5 && !same_run {
                            break;
                        }
                        end += it.len();
                        let Some(entered) = dense.map.enter(BIAS, it.ip()) else {
                            // Filler after the end.
                            assert!(
                                matches!(it.mnemonic(), Mnemonic::Nop | Mnemonic::Int3),
                                "{:#x}",
                                it.ip()
                            );
                            continue;
                        };
                        assert!(entered >= expected, "{:#x}", it.ip());
                        expected = entered;
                        let moved = at(entered);
                        // At a count before a jump, the jump has been made.
                        let made = is_count(moved) && it.flow_control() == FlowControl::UnconditionalBranch;
                        let stands = if made { it.near_branch64() } else { it.ip() };
                        assert_eq!(dense.map.original(BIAS, entered), Some(stands));
                        if it.mnemonic() == Mnemonic::Syscall {
                            let site = dense
                                .map
                                .sites()
                                .iter()
                                .find(|site| site.site + BIAS == it.ip())
                                .expect("hooked");
                            assert_eq!(at(site.traced + BIAS).mnemonic(), Mnemonic::Syscall);
                            assert_eq!(at(site.traced + BIAS).next_ip(), site.done + BIAS);
                        } else if it.is_jcc_short_or_near() && moved.mnemonic() != it.mnemonic() {
                            let mut opposite = *it;
                            opposite.negate_condition_code();
                            assert_eq!(moved.mnemonic(), opposite.mnemonic());
                            assert_eq!(
                                leads(&dense, exit(&trampolines, moved.next_ip()).near_branch64()),
                                it.near_branch64()
                            );
                        } else if is_count(moved) {
                            let exit = exit(&trampolines, moved.ip());
                            match it.flow_control() {
                                FlowControl::UnconditionalBranch => {
                                    assert_eq!(leads(&dense, exit.near_branch64()), it.near_branch64());
                                }
                                _ => {
                                    assert_eq!(crate::common::meaning(exit, 0), crate::common::meaning(it, 0))
                                }
                            }
                        } else {
                            assert_eq!(
                                crate::common::meaning(moved, 0),
                                crate::common::meaning(it, 0),
                                "{:#x}",
                                it.ip()
                            );
                        }
                    }
                    assert!(segment.bytes[start + 5..end].iter().all(|byte| *byte == 0xcc));
                    offset = end;
                }
                followed += 1;
            }
        }
        assert!(followed > 100, "only {followed}");
    }
}

/// A jump back to the start of its own run goes to where that is now.
fn leads(dense: &bis_rewrite::Dense, to: u64) -> u64 {
    dense.map.original(BIAS, to).unwrap_or(to)
}

/// `sub` of the counter, or the saving of rcx.
fn is_count(it: &Instruction) -> bool {
    let word = it.op0_kind() == OpKind::Memory && it.memory_base() == iced_x86::Register::None;
    (it.mnemonic() == Mnemonic::Sub && word && it.memory_displacement64() == 0x7000_1000)
        || (it.mnemonic() == Mnemonic::Mov && word && it.memory_displacement64() == 0x7000_1008)
}

/// The exit of the count at `pc`: the first jump after it, but for the one to the trap.
fn exit(trampolines: &[Instruction], pc: u64) -> &Instruction {
    let first = trampolines.partition_point(|it| it.ip() < pc);
    let is_exit = |it: &&Instruction| it.mnemonic() == Mnemonic::Jmp;
    trampolines[first..].iter().take(9).find(is_exit).expect("an exit")
}

/// A function of a library that calls itself by way of the linkage table, which somebody else's function of
/// the same name might have taken.
#[test]
fn recursion_through_the_linkage_table_is_counted() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let (source, library) = (dir.path().join("fib.c"), dir.path().join("fib.so"));
    let code = "int other(int); int fib(int n) { return n < 2 ? other(n) : fib(n - 1) + fib(n - 2) + other(1); }\n\
        int leaf(int n) { return n + 1; } int caller(int n) { return leaf(n) + leaf(n + 2); }";
    std::fs::write(&source, code).expect("a temporary file");
    let flags = ["-O1", "-fPIC", "-shared", "-fsemantic-interposition", "-Wl,-z,lazy"];
    let compiled = std::process::Command::new("cc").args(flags).arg("-o").arg(&library).arg(&source).output();
    if !compiled.is_ok_and(|output| output.status.success()) {
        eprintln!("not run: there is no C compiler on this machine");
        return;
    }
    let bytes = std::fs::read(&library).expect("made");
    let text = Text::parse(&bytes).expect("a library");
    let plan = text.dense(DenseOptions::default());
    let calls = plan.coverage().calls;
    // fib calls itself twice, caller calls leaf twice; the compiler's start files may have calls of their
    // own.
    assert!(calls.seen >= 4, "{calls:?}");
    assert_eq!((calls.taken, calls.left_in_all()), (2, 0), "{:?}", plan.left());
}
