//! Each form of a count, on code made by hand: what takes the place of the original, what the map says of
//! every address, and what is left, and why.

use crate::common::program::{CODE, elf};
use bis_rewrite::{
    Coverage, Dense, DenseLayout, DenseOptions, Error, Place, Reason, SiteKind, SiteKinds, Tally, Text,
};
use iced_x86::{Instruction, Mnemonic};

const TRAMPOLINES: u64 = 0x1000_0000;
/// The addresses of the hooks come first.
const SLOTS: usize = 8 * SiteKind::ALL.len();
const FIRST: u64 = TRAMPOLINES + SLOTS as u64;

fn layout() -> DenseLayout {
    DenseLayout {
        trampolines: TRAMPOLINES,
        counter: 0x7000_1000,
        save: 0x7000_1008,
        hooks: vec![(SiteKind::Syscall, 0x7000_2000), (SiteKind::Cpuid, 0x7000_3000)],
        hook_save: None,
    }
}

struct Made {
    /// The rewritten code, from its first byte.
    code: Vec<u8>,
    dense: Dense,
    coverage: Coverage,
    left: Vec<(u64, Reason)>,
}

impl Made {
    fn text(&self) -> Vec<Instruction> {
        crate::common::decode(&self.code, CODE)
    }

    fn trampolines(&self) -> Vec<Instruction> {
        crate::common::decode(&self.dense.trampolines[SLOTS..], FIRST)
    }

    fn place(&self, offset: u64) -> Option<Place> {
        self.dense.map.place(0, FIRST + offset)
    }
}

/// Functions of these bytes, one after the other, made dense.
fn functions(parts: &[&[u8]], short_loops: bool) -> Made {
    let code = parts.concat();
    let mut at = CODE;
    let ranges: Vec<(u64, u64)> = parts
        .iter()
        .map(|part| {
            at += part.len() as u64;
            (at - part.len() as u64, part.len() as u64)
        })
        .collect();
    let bytes = elf(&code, &[], &ranges);
    let text = Text::parse(&bytes).expect("an ELF file");
    let hooks = SiteKinds::of(&[SiteKind::Syscall, SiteKind::Cpuid]);
    let plan = text.dense(DenseOptions { short_loops, hooks });
    let dense = plan.build(0, &layout()).expect("near enough");
    let segment = &dense.segments[0];
    assert_eq!((segment.start, segment.offset), (CODE, 0x1000));
    let code = segment.bytes[..code.len()].to_vec();
    Made { code, coverage: *plan.coverage(), left: plan.left().to_vec(), dense }
}

fn mnemonics(instructions: &[Instruction]) -> Vec<Mnemonic> {
    instructions.iter().map(Instruction::mnemonic).collect()
}

/// A count at `offset`, with the flags lost, that leads to `target`.
fn is_plain_count(made: &Made, offset: u64, target: u64) {
    let at = |pc: u64, taken: bool, trap: bool| {
        let expected = Place::Count {
            address: target,
            resume: target,
            taken,
            restore_rcx: false,
            flags_lost: taken,
            loses_flags: true,
            trap,
        };
        assert_eq!(made.place(offset + pc), Some(expected), "{pc}");
    };
    at(0, false, false);
    at(12, true, false);
    at(14, true, false);
    at(19, true, true);
    for pc in [1, 8, 13, 15, 18] {
        assert_eq!(made.place(offset + pc), None);
    }
    let all = made.trampolines();
    let first = all.iter().position(|it| it.ip() == FIRST + offset).expect("there");
    assert_eq!(
        mnemonics(&all[first..first + 4]),
        [Mnemonic::Sub, Mnemonic::Js, Mnemonic::Jmp, Mnemonic::Int3]
    );
    assert_eq!(all[first].memory_displacement64(), 0x7000_1000);
}

/// add eax, ecx, so often: flags are dead before it.
fn adds(count: usize) -> Vec<u8> {
    [0x01_u8, 0xc8].repeat(count)
}

#[test]
fn a_branch_with_32_bits_stays() {
    // 64 adds (128 bytes); jne back; ret
    let code = [&adds(64)[..], &[0x0f, 0x85], &(-134_i32).to_le_bytes(), &[0xc3]].concat();
    let made = functions(&[&code], false);
    let changed = made.text()[64];
    assert_eq!(
        (changed.mnemonic(), changed.ip(), changed.near_branch64()),
        (Mnemonic::Jne, CODE + 128, FIRST)
    );
    assert_eq!(made.trampolines()[2].near_branch64(), CODE);
    is_plain_count(&made, 0, CODE);
    assert_eq!(made.place(20), None);
    assert_eq!(made.dense.map.enter(0, CODE + 128), None);
    assert_eq!((made.coverage.backward.seen, made.coverage.backward.taken), (1, 1));
    // Nothing else has changed.
    assert!(made.code[..130] == code[..130] && made.code[134..] == code[134..]);

    let code = [&adds(64)[..], &[0x74, 5, 0xe9], &(-135_i32).to_le_bytes(), &[0xc3]].concat();
    let made = functions(&[&code], false);
    assert_eq!(made.text()[65].near_branch64(), FIRST);
    is_plain_count(&made, 0, CODE);
}

#[test]
fn a_call_stays_and_is_counted_where_it_recurses() {
    // 0: call 1; ret. 1: call 2; ret. 2: call 1; ret. The one that closes the circle is the last.
    let call = |from: i32, to: i32| [&[0xe8][..], &(to - from - 5).to_le_bytes(), &[0xc3]].concat();
    let made = functions(&[&call(0, 6), &call(6, 12), &call(12, 6)], false);
    let text = made.text();
    assert_eq!(text[0].near_branch64(), CODE + 6);
    assert_eq!(text[2].near_branch64(), CODE + 12);
    assert_eq!((text[4].mnemonic(), text[4].near_branch64()), (Mnemonic::Call, FIRST));
    is_plain_count(&made, 0, CODE + 6);
    assert_eq!(
        (made.coverage.calls.seen, made.coverage.calls.taken, made.coverage.calls.needless),
        (3, 1, 2)
    );
}

#[test]
fn a_branch_with_8_bits_moves_with_its_neighbours() {
    // 20 adds; sub edi, 1; jne back; ret
    let code = [&adds(20)[..], &[0x83, 0xef, 0x01, 0x75, 0xd3, 0xc3]].concat();
    let made = functions(&[&code], false);
    let text = made.text();
    assert_eq!((text[20].mnemonic(), text[20].len(), text[20].near_branch64()), (Mnemonic::Jmp, 5, FIRST));
    assert_eq!(made.code[45], 0xc3);
    let expected = [
        Mnemonic::Sub,
        Mnemonic::Je,
        Mnemonic::Sub,
        Mnemonic::Js,
        Mnemonic::Jmp,
        Mnemonic::Int3,
        Mnemonic::Jmp,
    ];
    let trampolines = made.trampolines();
    assert_eq!(mnemonics(&trampolines), expected);
    // The opposite condition leads around the count, to the jump back.
    assert_eq!(trampolines[1].near_branch64(), trampolines[6].ip());
    assert_eq!(trampolines[6].near_branch64(), CODE + 45);
    is_plain_count(&made, 5, CODE);
    let program = |address: u64| Some(Place::Program { address });
    assert_eq!(made.place(0), program(CODE + 40));
    assert_eq!(made.place(3), program(CODE + 43));
    assert_eq!(made.place(25), program(CODE + 45));
    assert_eq!(made.dense.map.enter(0, CODE + 40), Some(FIRST));
    assert_eq!(made.dense.map.enter(0, CODE + 43), Some(FIRST + 3));
    assert_eq!(made.dense.map.enter(0, CODE + 45), None);
}

#[test]
fn a_jump_with_8_bits_moves_with_what_is_before_or_with_filler() {
    // 20 adds; mov eax, ecx; js out; xor edx, edx; mov [rdx], eax; jmp back; out: ret
    let code = [&adds(20)[..], &[0x78, 0x06, 0x31, 0xd2, 0x89, 0x02, 0xeb, 0xd0, 0xc3]].concat();
    let made = functions(&[&code], false);
    assert_eq!(
        mnemonics(&made.trampolines()),
        [Mnemonic::Xor, Mnemonic::Mov, Mnemonic::Sub, Mnemonic::Js, Mnemonic::Jmp, Mnemonic::Int3]
    );
    is_plain_count(&made, 4, CODE);
    // A fault in the moved store is one of the original.
    assert_eq!(made.place(2), Some(Place::Program { address: CODE + 44 }));

    // js out; entered: jmp back; nop; out: ret, where both neighbours cannot be had but for the filler.
    let code = [&adds(20)[..], &[0x78, 0x05, 0xeb, 0xd4, 0x0f, 0x1f, 0x00, 0xc3]].concat();
    let made = functions(&[&code], false);
    assert_eq!(made.coverage.backward.taken, 1, "{:?}", made.left);
}

#[test]
fn flags_that_are_looked_at_are_kept() {
    // sete dl, so the flags of the branch are looked at: 64 adds between
    let code =
        [&[0x0f, 0x94, 0xc2][..], &adds(64), &[0x0f, 0x85], &(-137_i32).to_le_bytes(), &[0xc3]].concat();
    let made = functions(&[&code], false);
    assert_eq!(made.coverage.backward.flags_kept, 1);
    let at = |pc: u64, taken: bool, restore_rcx: bool, trap: bool| {
        let expected = Place::Count {
            address: CODE,
            resume: CODE,
            taken,
            restore_rcx,
            flags_lost: false,
            loses_flags: false,
            trap,
        };
        assert_eq!(made.place(pc), Some(expected), "{pc}");
    };
    at(0, false, false, false);
    at(8, false, false, false);
    at(16, false, true, false);
    at(23, false, true, false);
    at(31, true, true, false);
    at(44, true, true, false);
    at(52, true, false, false);
    at(57, true, true, false);
    at(65, true, false, true);
    assert!(made.trampolines().iter().all(|it| it.rflags_modified() == 0));
    // A shift by a number that is not known may leave them, an `inc` leaves the carry.
    for (first, kept) in [
        (&[0xd3, 0xe0, 0x0f, 0x94, 0xc2][..], 1),
        (&[0xff, 0xc0, 0x0f, 0x94, 0xc2], 0),
        (&[0xff, 0xc0, 0x0f, 0x92, 0xc2], 1),
        (&[0x0f, 0x92, 0xc2], 1),
    ] {
        let back = -(first.len() as i32 + 134);
        let code = [first, &adds(64), &[0x0f, 0x85], &back.to_le_bytes(), &[0xc3]].concat();
        assert_eq!(functions(&[&code], false).coverage.backward.flags_kept, kept, "{first:x?}");
    }
}

#[test]
fn a_computed_jump_is_counted_before_it_is_made() {
    // mov rax, [rdi]; jmp rax
    let made = functions(&[&[0x48, 0x8b, 0x07, 0xff, 0xe0]], false);
    assert_eq!(
        mnemonics(&made.trampolines()),
        [Mnemonic::Mov, Mnemonic::Sub, Mnemonic::Js, Mnemonic::Jmp, Mnemonic::Int3]
    );
    let jump = CODE + 3;
    let place = |taken, trap| Place::Count {
        address: jump,
        resume: FIRST + 17,
        taken,
        restore_rcx: false,
        flags_lost: taken,
        loses_flags: true,
        trap,
    };
    assert_eq!(made.place(3), Some(place(false, false)));
    assert_eq!(made.place(17), Some(place(true, false)));
    assert_eq!(made.place(19), Some(place(true, true)));
    assert_eq!(made.dense.map.enter(0, jump), Some(FIRST + 3));
    assert_eq!(made.coverage.computed.taken, 1);
}

#[test]
fn a_hook_may_have_a_count_beside_it() {
    // 20 adds; syscall; test eax, eax; jne back; ret: with the branch within the hook's run when it begins
    // there.
    let code = [&adds(20)[..], &[0x0f, 0x05, 0x85, 0xc0, 0x75, 0xd2, 0xc3]].concat();
    let made = functions(&[&code], false);
    assert_eq!((made.coverage.hooks.taken, made.coverage.backward.taken), (1, 1), "{:?}", made.left);
    let [site] = made.dense.map.sites() else { panic!("one site") };
    assert_eq!((site.kind, site.site, site.entry), (SiteKind::Syscall, CODE + 40, FIRST));
    let trampolines = made.trampolines();
    assert_eq!(
        mnemonics(&trampolines),
        [
            Mnemonic::Lea,
            Mnemonic::Jmp,
            Mnemonic::Syscall,
            Mnemonic::Test,
            Mnemonic::Je,
            Mnemonic::Sub,
            Mnemonic::Js,
            Mnemonic::Jmp,
            Mnemonic::Int3,
            Mnemonic::Jmp
        ]
    );
    assert_eq!((trampolines[2].ip(), trampolines[3].ip()), (site.traced, site.done));
    assert_eq!(trampolines[0].memory_displacement64(), site.done);
    assert_eq!(trampolines[1].memory_displacement64(), TRAMPOLINES);
    assert_eq!(made.dense.trampolines[..8], 0x7000_2000_u64.to_le_bytes());
    for pc in site.entry..=site.traced {
        assert_eq!(made.dense.map.original(0, pc), Some(site.site));
    }
    assert_eq!(made.dense.map.original(0, site.done), Some(CODE + 42));
    assert_eq!(made.dense.map.site_of(0, site.done), Some(site));
    assert_eq!(made.dense.map.site_of(0, site.done + 1), None);
}

#[test]
fn short_loops_are_counted_on_demand() {
    // sub edi, 1; jne back; ret
    let code = [0x83, 0xef, 0x01, 0x75, 0xfb, 0xc3];
    let made = functions(&[&code], false);
    assert_eq!((made.coverage.backward.short, made.coverage.backward.taken), (1, 0));
    assert!(made.code == code && made.dense.trampolines.len() == SLOTS);
    let made = functions(&[&code], true);
    assert_eq!((made.coverage.backward.short, made.coverage.backward.taken), (0, 1));
    // Back to its own run: without a way over the patch.
    assert_eq!(made.trampolines()[4].near_branch64(), FIRST);
    is_plain_count(&made, 5, CODE);
    // With a call in it, it is not short.
    let code = [0x50, 0x50, 0xff, 0xd0, 0x58, 0x58, 0x83, 0xef, 0x01, 0x75, 0xf5, 0xc3];
    assert_eq!(functions(&[&code], false).coverage.backward.taken, 1);
}

#[track_caller]
fn left(parts: &[&[u8]], which: fn(&Coverage) -> &Tally, reason: Reason) {
    let made = functions(parts, true);
    assert_eq!(which(&made.coverage).left(reason), 1, "{:?}", made.left);
    assert!(made.left.iter().any(|(_, why)| *why == reason));
}

#[test]
fn what_is_not_sure_is_left() {
    let backward: fn(&Coverage) -> &Tally = |coverage| &coverage.backward;
    // `loop` has no long form.
    left(&[&[0x01, 0xc8, 0x01, 0xc8, 0xe2, 0xfa, 0xc3]], backward, Reason::Unmovable);
    // A forward jump to the branch, and a return after it.
    left(&[&[0x74, 0x02, 0x01, 0xc8, 0x75, 0xfa, 0xc3]], backward, Reason::Branch);
    // A call before it, and the function's end after it.
    left(&[&[0xff, 0xd0, 0x75, 0xfc]], backward, Reason::Unmovable);
    // Another function jumps to it.
    left(&[&[0x83, 0xef, 0x01, 0x75, 0xfb, 0xc3], &[0xe9, 0xf8, 0xff, 0xff, 0xff]], backward, Reason::Branch);
    // The function jumps to what it computed from nothing that is known.
    left(
        &[&[0x83, 0xef, 0x01, 0x75, 0xfb, 0x48, 0x0f, 0xaf, 0xc7, 0x48, 0xff, 0xc8, 0x0f, 0xc8, 0xff, 0xe0]],
        backward,
        Reason::JumpTable,
    );
    // Two sites side by side: neither can move with the other (and the second has a return after it, too
    // short).
    let made = functions(&[&[0x0f, 0xa2, 0x0f, 0xa2, 0xc3]], true);
    assert_eq!(made.coverage.hooks.left(Reason::Unmovable), 2, "{:?}", made.left);
    let hooks: fn(&Coverage) -> &Tally = |coverage| &coverage.hooks;
    left(&[&[0xb8, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05, 0x90, 0x90, 0x90]], hooks, Reason::Sigreturn);
    left(&[&[0x48, 0x0f, 0x05, 0x90, 0x90, 0x90, 0x90]], hooks, Reason::Prefixed);
}

#[test]
fn what_the_layout_lacks_is_said() {
    let bytes = elf(&[0x0f, 0x05, 0x90, 0x90, 0x90, 0xc3], &[], &[(CODE, 6)]);
    let text = Text::parse(&bytes).expect("an ELF file");
    let options = DenseOptions { short_loops: false, hooks: SiteKinds::of(&[SiteKind::Syscall]) };
    let plan = text.dense(options);
    let error = |change: fn(&mut DenseLayout)| {
        let mut layout = layout();
        change(&mut layout);
        plan.build(0, &layout).expect_err("it cannot be built")
    };
    assert!(matches!(error(|layout| layout.hooks.clear()), Error::NoHook(SiteKind::Syscall)));
    assert!(matches!(error(|layout| layout.counter += 4), Error::BadWord(_)));
    assert!(matches!(error(|layout| layout.save = 0x8000_0000), Error::BadWord(_)));
    assert!(matches!(error(|layout| layout.trampolines = 0x2_0000_0000), Error::TooFar { .. }));
}
