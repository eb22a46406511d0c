//! Random functions, and damaged files.
//!
//! A function is a random row of instructions with one site and jumps between random instructions. Whatever
//! run comes out, a plain search over all jumps must agree that none leads into it, and its trampoline must
//! hold the same instructions. Where nothing stands in the way, a run must come out.

use crate::common::elf::{CODE, Elf};
use bis_rewrite::{SiteKind, Text};
use iced_x86::{FlowControl, Instruction, Mnemonic, OpKind};
use proptest::prelude::*;

/// Instructions that may move, of many lengths and forms.
const PLAIN: &[&[u8]] = &[
    &[0x90],
    &[0x50],
    &[0x31, 0xc0],
    &[0x89, 0xc7],
    &[0x48, 0x85, 0xc0],
    &[0x8b, 0x47, 0x08],
    &[0x48, 0x8b, 0x05, 0x10, 0x20, 0x00, 0x00],
    &[0xc7, 0x05, 0x10, 0x20, 0x00, 0x00, 0x78, 0x56, 0x34, 0x12],
    &[0x80, 0x3d, 0xf0, 0x1f, 0x00, 0x00, 0x00],
    &[0xb8, 0x27, 0x00, 0x00, 0x00],
    &[0x48, 0x3d, 0x01, 0xf0, 0xff, 0xff],
    &[0x64, 0x89, 0x02],
    &[0x48, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8],
    &[0xf0, 0x0f, 0xb1, 0x0d, 0x00, 0x30, 0x00, 0x00],
    &[0xc4, 0xe2, 0x7d, 0x58, 0x05, 0x00, 0x30, 0x00, 0x00],
    &[0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00],
];

/// Instructions that may not.
const FIXED: &[&[u8]] = &[
    &[0xe8, 0x00, 0x10, 0x00, 0x00],
    &[0xff, 0xd0],
    &[0xf3, 0x0f, 0x1e, 0xfa],
    &[0xd9, 0xe8],
    &[0xcd, 0x03],
];

/// Opcodes of jumps, and whether their displacement has 32 bits.
const JUMPS: &[(&[u8], bool)] = &[
    (&[0x74], false),
    (&[0x7f], false),
    (&[0xeb], false),
    (&[0xe3], false),
    (&[0x0f, 0x8e], true),
    (&[0xe9], true),
];

const SITES: &[&[u8]] = &[
    &[0x0f, 0x05],
    &[0x0f, 0x31],
    &[0x0f, 0xa2],
    &[0x0f, 0x01, 0xf9],
    &[0x0f, 0xc7, 0xf0],
    &[0x48, 0x0f, 0xc7, 0xf9],
    &[0xf3, 0x0f, 0xc7, 0xf8],
];

#[derive(Clone, Debug)]
enum Word {
    Bytes(&'static [u8]),
    /// A jump (its opcode, and whether its displacement has 32 bits) to the word of this number.
    Jump(&'static [u8], bool, prop::sample::Index),
}

fn word() -> impl Strategy<Value = Word> {
    prop_oneof![
        12 => prop::sample::select(PLAIN).prop_map(Word::Bytes),
        1 => prop::sample::select(FIXED).prop_map(Word::Bytes),
        3 => (
            prop::sample::select(JUMPS),
            any::<prop::sample::Index>(),
        )
            .prop_map(|((opcode, long), to)| Word::Jump(opcode, long, to)),
    ]
}

/// The bytes of a function, and the offset of each word.
fn assemble(words: &[Word]) -> Option<(Vec<u8>, Vec<usize>)> {
    let mut offsets = vec![0];
    for word in words {
        let len = match word {
            Word::Bytes(bytes) => bytes.len(),
            Word::Jump(opcode, long, _) => opcode.len() + if *long { 4 } else { 1 },
        };
        offsets.push(offsets.last()? + len);
    }
    let mut code = Vec::new();
    for (index, word) in words.iter().enumerate() {
        match word {
            Word::Bytes(bytes) => code.extend(*bytes),
            Word::Jump(opcode, long, to) => {
                code.extend(*opcode);
                let distance = offsets[to.index(words.len())] as i64 - offsets[index + 1] as i64;
                match long {
                    true => code.extend(i32::try_from(distance).ok()?.to_le_bytes()),
                    false => code.extend(i8::try_from(distance).ok()?.to_le_bytes()),
                }
            }
        }
    }
    Some((code, offsets))
}

fn targets(instructions: &[Instruction]) -> Vec<u64> {
    let jumps = |it: &&Instruction| it.op0_kind() == OpKind::NearBranch64;
    let addresses = |it: &&Instruction| it.is_ip_rel_memory_operand();
    let mut all: Vec<u64> = instructions.iter().filter(jumps).map(Instruction::near_branch64).collect();
    all.extend(instructions.iter().filter(addresses).map(Instruction::memory_displacement64));
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn nothing_leads_into_a_run(
        before in prop::collection::vec(word(), 0..12),
        site in prop::sample::select(SITES),
        after in prop::collection::vec(word(), 0..12),
        bias in (1_u64 << 32..1 << 40).prop_map(|bias| bias & !0xfff),
    ) {
        let at = before.len();
        let words = [&before[..], &[Word::Bytes(site)], &after, &[Word::Bytes(&[0xc3])]].concat();
        let Some((code, offsets)) = assemble(&words) else { return Ok(()) };
        let bytes = Elf::function(&code).bytes();
        let text = Text::parse(&bytes).expect("an ELF file");
        let address = CODE + offsets[at] as u64;
        prop_assert_eq!(text.sites().map(|(site, _)| site).collect::<Vec<_>>(), [address]);
        let instructions = crate::common::decode(&code, CODE);
        let all = targets(&instructions);
        let clear = |from: usize, to: usize| {
            let inside = CODE + offsets[from] as u64 + 1..CODE + offsets[to + 1] as u64;
            let plain = |index: &usize| matches!(words[*index], Word::Bytes(bytes) if PLAIN.contains(&bytes)) || *index == at;
            (from..=to).all(|index| plain(&index)) && !all.iter().any(|target| inside.contains(target))
        };
        match text.run_at(address) {
            Ok(run) => {
                prop_assert!(matches!(run.start(), start if start <= address && address < run.end()));
                let inside = run.start() + 1..run.end();
                prop_assert!(!all.iter().any(|target| inside.contains(target)));
                // Whole instructions, through which execution goes from one to the next.
                let moved: Vec<&Instruction> =
                    instructions.iter().filter(|it| (run.start()..run.end()).contains(&it.ip())).collect();
                prop_assert_eq!(moved.iter().map(|it| it.len()).sum::<usize>(), usize::from(run.len()));
                let goes_on = |it: &&Instruction| !matches!(
                    it.flow_control(),
                    FlowControl::UnconditionalBranch | FlowControl::Return | FlowControl::IndirectCall
                );
                // What follows a jump is not reached; it may be filler, and nothing else.
                let reached = moved.iter().copied().take_while(goes_on).count() + 1;
                prop_assert!(moved.iter().skip(reached).all(|it| it.mnemonic() == Mnemonic::Nop));
                let near = (run.start() + bias) & !0xfff;
                crate::common::check(&run, bias, near + 0x10_0000, near + 0x20_0000);
            }
            Err(reason) => {
                // The shortest stretch of plain instructions from the site on would have been a run.
                let to = (at..words.len()).find(|to| offsets[to + 1] - offsets[at] >= 5);
                prop_assert!(!to.is_some_and(|to| clear(at, to)), "{:?} {:x?}", reason, code);
                // And the same for those that begin before.
                let from = (0..at).rev().find(|from| offsets[at + 1] - offsets[*from] >= 5);
                // rdi = 15 does not occur, so no call is taken for a return from a signal.
                prop_assert!(!from.is_some_and(|from| clear(from, at)), "{:?} {:x?}", reason, code);
            }
        }
    }

}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    /// A damaged file is refused or analysed, and any trampoline that is made is one.
    #[test]
    fn damaged_files(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        in_headers in any::<bool>(),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let code = [&[0x74, 2][..], PLAIN[9], SITES[0], PLAIN[10], PLAIN[6], SITES[1], PLAIN[4], &[0xff, 0xe0]].concat();
        let elf = Elf {
            data: vec![0x11; 64],
            relocations: vec![CODE, 7],
            packed: vec![crate::common::elf::DATA, 1 | 0xf0],
            ..Elf::function(&code).with(&[0xc3])
        };
        let mut bytes = elf.bytes();
        let len = bytes.len();
        for (at, value) in changes {
            // Most of what can go wrong is in the headers: the first 64 bytes and the last 448.
            let at = match in_headers {
                true => (len - 448 + at.index(512)) % len,
                false => at.index(len),
            };
            bytes[at] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(len));
        }
        analyse(&bytes);
    }

    /// Damages a real library's unwind tables, in which more can be wrong.
    #[test]
    fn damaged_unwind_tables(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20)) {
        let mut bytes = small_program();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        analyse(&bytes);
    }
}

/// This machine's dynamic linker: small, and with everything in it.
fn small_program() -> Vec<u8> {
    crate::common::libraries().into_iter().min_by_key(Vec::len).expect("a library")
}

fn analyse(bytes: &[u8]) {
    let Ok(text) = Text::parse(bytes) else { return };
    crate::common::dense_is_sound(&text, true);
    for (site, kind) in
        text.sites().take(20).chain([(CODE + 7, SiteKind::Syscall), (u64::MAX, SiteKind::Syscall)])
    {
        if let Ok(run) = text.run_at(site) {
            assert!(run.site() == site && (run.kind() == kind || site == CODE + 7));
            let bias = 0x1_0000_0000_u64.wrapping_sub(run.start());
            let hook = bis_rewrite::Hook { slot: 0x1_0001_0000, save: Some(0x1000) };
            let _ = bis_rewrite::trampoline(&run, bias, 0x1_0002_0000, hook);
        }
    }
}
