//! The value by itself: bytes, places, and what becomes of them when mappings come and go.

use std::{collections::BTreeMap, io::Write as _};

use bis_agent::hooks::Places;
use bis_trace::{
    codec,
    event::{Backing, Insn},
    ours::{AreaKind, DenseText, Guard, PatchSet, PatchedText},
    types::Addr,
};
use proptest::prelude::*;

use super::*;

const TEXT: Addr = Addr(0x40_0000);
const ARENA: Addr = Addr(0x7fff_f800_0000);

fn none(file: FileId) -> Result<File, TraceError> {
    panic!("file {file} is not needed")
}

/// Feeds a value with what `make` says.
fn say(text: &mut ProgramText, make: impl FnOnce(&mut Ours)) {
    let mut outcome = Outcome::default();
    make(outcome.ours());
    text.apply(&outcome, none).unwrap();
}

fn effect(text: &mut ProgramText, effect: Effect) {
    text.apply(&Outcome { effects: vec![effect], ..Outcome::default() }, none).unwrap();
}

/// mov eax, 1 (5 bytes); syscall; cmp rax, rdx (3 bytes): the way to the hook takes 13.
fn call(start: Addr, trampoline: Addr) -> Patch {
    Patch {
        start,
        original: vec![0xb8, 1, 0, 0, 0, 0x0f, 5, 0x48, 0x39, 0xd0],
        trampoline,
        trampoline_len: 28,
        site: 5,
        insn: None,
        moved: vec![[0, 0], [5, 5], [7, 20], [10, 23]],
        abort: None,
    }
}

fn with(patches: Vec<Patch>) -> ProgramText {
    let mut text = ProgramText::default();
    say(&mut text, |ours| {
        ours.areas.push(Area { addr: ARENA, len: 0x1_0000, kind: AreaKind::Arena });
        ours.patches = patches.into_iter().map(Arc::new).collect();
    });
    text
}

fn shown(text: &ProgramText, addr: Addr, len: usize) -> Vec<u8> {
    let mut bytes = vec![0xcc; len];
    text.show(addr, &mut bytes).unwrap();
    bytes
}

#[test]
fn a_patch_is_a_jump_a_trampoline_and_places() {
    let text = with(vec![call(TEXT + 0x10, ARENA + 48)]);
    assert_eq!(
        shown(&text, TEXT + 0x0e, 14),
        [0xcc, 0xcc, 0xb8, 1, 0, 0, 0, 0x0f, 5, 0x48, 0x39, 0xd0, 0xcc, 0xcc]
    );
    // A part of it.
    assert_eq!(shown(&text, TEXT + 0x15, 2), [0x0f, 5]);
    let (start, at) = (TEXT + 0x10, ARENA + 48);
    let program = |addr| Shown::Program { addr };
    for (pc, expected) in [
        (start - 1, program(start - 1)),
        (start, program(start)),
        (at, program(start)),
        (at + 5, program(start + 5)),
        // The way to the hook, and the call that is traced.
        (at + 12, Shown::Within { addr: start + 5, exit: Exit::At(at + 20) }),
        (at + 18, Shown::Within { addr: start + 5, exit: Exit::At(at + 20) }),
        (at + 20, program(start + 7)),
        (at + 23, program(start + 10)),
        (at + 28, Shown::Nowhere),
        (ARENA, Shown::Nowhere),
    ] {
        assert_eq!(text.original(pc), expected, "{pc:#x}");
    }
    assert_eq!(text.places(start), [at]);
    assert_eq!(text.places(start + 5), [at + 5]);
    assert_eq!(text.places(start + 7), [at + 20]);
    assert_eq!(text.places(start + 10), [start + 10]);
    assert_eq!(text.places(start - 1), [start - 1]);
    assert_eq!(text.places(start + 1), [], "the middle of an instruction");
    assert_eq!(text.places(at), [], "the program does not have that");
    assert_eq!((text.leads_to(start), text.leads_to(at + 23)), (Some(at), Some(start + 10)));
    assert_eq!([start + 10, at, at + 5, at + 12, at + 20].map(|pc| text.leads_to(pc)), [None; 5]);
    let site = HookedSite { addr: start + 5, insn: None, done: at + 20 };
    assert_eq!((text.hooked_site(at + 20), text.hooked_site(at + 5)), (Some(site), None));
    assert!(text.is_ours(at) && text.is_ours(ARENA + 0xffff) && !text.is_ours(start));
}

#[test]
fn what_is_gone_leaves_its_trampoline() {
    let range = TEXT..TEXT + 0x1000;
    let (addr, len) = (range.start, 0x1000);
    let map = Effect::Map { addr, len: len - 5, prot: 5, backing: Backing::Anonymous };
    let moved = |keep| Effect::Remap { addr, old_len: len, new_addr: addr + 0x10_0000, new_len: len, keep };
    let onto =
        Effect::Remap { addr: addr - 0x10_0000, old_len: len, new_addr: addr, new_len: len, keep: true };
    let shrunk =
        Effect::Remap { addr: addr - len, old_len: 2 * len, new_addr: addr - len, new_len: len, keep: false };
    for (gone, effect_on) in [
        (true, map),
        (true, Effect::Unmap { addr, len }),
        (true, moved(false)),
        (false, moved(true)),
        (true, onto),
        (true, shrunk),
        (true, Effect::Advise { addr, len, advice: 4 }),
        (false, Effect::Advise { addr, len, advice: 10 }),
        (false, Effect::Protect { addr, len, prot: 5 }),
        (false, Effect::Unmap { addr: addr + len, len }),
    ] {
        let (start, at) = (TEXT + 0xff0, ARENA + 48);
        let mut text = with(vec![call(start, at)]);
        say(&mut text, |ours| {
            ours.faults.push(Fault { site: TEXT + 8, insn: Insn::Rdtsc, original: vec![0x0f, 0x31] });
        });
        let before = text.version();
        effect(&mut text, effect_on.clone());
        assert_eq!(text.version() != before, gone, "{effect_on:?}");
        assert_eq!(shown(&text, start, 1), [if gone { 0xcc } else { 0xb8 }], "{effect_on:?}");
        assert_eq!(shown(&text, TEXT + 8, 1), [if gone { 0xcc } else { 0x0f }], "{effect_on:?}");
        // A task that is in the trampoline goes on there.
        assert_eq!(text.original(at + 20), Shown::Program { addr: start + 7 });
        assert_eq!(text.places(start + 7), if gone { vec![start + 7, at + 20] } else { vec![at + 20] });
        assert_eq!(text.leads_to(start), (!gone).then_some(at));
    }
}

#[test]
fn text_becomes_the_programs_own_again() {
    let (start, at) = (TEXT + 0x10, ARENA + 48);
    let mut text = with(vec![call(start, at), call(start + 0x20, at + 32)]);
    say(&mut text, |ours| ours.own.push((start, 10)));
    assert_eq!(shown(&text, start, 1), [0xcc]);
    assert_eq!(shown(&text, start + 0x20, 1), [0xb8]);
    // And is patched again.
    say(&mut text, |ours| ours.patches.push(Arc::new(call(start, at + 64))));
    assert_eq!(text.places(start + 5), [at + 69, at + 5]);
    let copy = text.clone();
    effect(&mut text, Effect::Unmap { addr: TEXT, len: 0x1000 });
    assert_eq!(copy.places(start + 0x20), [at + 32], "a clone is another value");
}

#[test]
fn guards_end_with_their_protection() {
    let mut text = ProgramText::default();
    say(&mut text, |ours| {
        ours.guards = vec![Guard { page: TEXT, prot: 5 }, Guard { page: TEXT + 0x1000, prot: 5 }];
    });
    effect(&mut text, Effect::Protect { addr: TEXT, len: 1, prot: 5 });
    assert_eq!(text.guards().collect::<Vec<_>>(), [(TEXT + 0x1000, 5)]);
}

#[test]
fn functions_of_the_vdso_are_one_instruction() {
    // mov eax, 228; syscall; ret, with the call and what is behind it patched.
    let (start, at) = (TEXT + 0x100, ARENA + 48);
    let mut text = with(vec![Patch {
        start: start + 5,
        original: vec![0x0f, 5, 0xc3, 7, 8],
        trampoline: at,
        trampoline_len: 16,
        site: 0,
        insn: None,
        moved: vec![[0, 0], [2, 15]],
        abort: None,
    }]);
    say(&mut text, |ours| {
        ours.diverted.push(Diverted { addr: start, original: (1..=8).collect(), is_function: true });
        ours.diverted.push(Diverted { addr: start + 0x40, original: vec![0x0f, 0x31], is_function: false });
    });
    assert_eq!(shown(&text, start - 1, 12), [0xcc, 1, 2, 3, 4, 5, 6, 7, 8, 7, 8, 0xcc]);
    assert_eq!(shown(&text, start + 0x40, 2), [0x0f, 0x31]);
    let within = Shown::Within { addr: start, exit: Exit::Return };
    assert_eq!(text.original(start), Shown::Program { addr: start });
    assert_eq!([start + 5, at, at + 7, at + 13, at + 15].map(|pc| text.original(pc)), [within; 5]);
    assert_eq!((text.places(start), text.places(start + 4)), (vec![start], vec![]));
    assert_eq!([start + 5, at, at + 15].map(|pc| text.leads_to(pc)), [None; 3]);
    let site = HookedSite { addr: start, insn: None, done: at + 15 };
    assert_eq!(text.hooked_site(at + 15), Some(site));
}

#[test]
fn in_a_hook_the_state_tells_the_site() {
    use bis_agent::hooks::{self, AREA_BASE, state};
    use bis_trace::types::Registers;
    let clock = Patch { insn: Some(Insn::Cpuid), ..call(TEXT + 0x30, ARENA + 80) };
    let mut text = with(vec![call(TEXT + 0x10, ARENA + 48), clock]);
    let (one, two) = ((ARENA + 48 + 20).0, (ARENA + 80 + 20).0);
    assert_eq!(
        text.original(Addr(hooks::ENTER)),
        Shown::Program { addr: Addr(hooks::ENTER) },
        "no hooks are there"
    );
    say(&mut text, |ours| {
        ours.areas.push(Area { addr: Addr(hooks::TEXT_BASE), len: 0xa000, kind: AreaKind::Hooks });
    });
    let ask = |rip, rcx, rdx, words: &[(u64, u64)]| {
        let words: BTreeMap<u64, u64> = words.iter().copied().collect();
        let word = |addr: Addr| Some(words.get(&(addr.0 - AREA_BASE)).copied().unwrap_or(0));
        let regs = Registers { rip, rcx, rdx, ..Registers::default() };
        match text.original_of(&regs, &Places::OURS, word) {
            Shown::Within { addr, exit: Exit::At(_) } => addr,
            other => panic!("{other:?}"),
        }
    };
    let (call, cpuid) = (TEXT + 0x15, TEXT + 0x35);
    // At the entry the register counts, whatever was before; then the word.
    assert_eq!(ask(hooks::ENTER, one, two, &[(state::DONE, two)]), call);
    assert_eq!(ask(hooks::CPUID, one, two, &[(state::EXIT, one)]), cpuid);
    assert_eq!(ask(hooks::ENTER + 20, 7, two, &[(state::DONE, one), (state::IN_HOOK, 1)]), call);
    assert_eq!(ask(hooks::SYSCALL, two, two, &[(state::DONE, one), (state::IN_HOOK, 1)]), call);
    let in_cpuid = [(state::DONE, one), (state::EXIT, two - 2), (state::IN_HOOK, 1)];
    assert_eq!(ask(hooks::CPUID + 40, one, 3, &in_cpuid), cpuid);
}

#[test]
fn text_that_counts_shows_the_programs_file() {
    let mut kept = tempfile::tempfile().unwrap();
    kept.write_all(&(0..=255).cycle().take(0x2800).collect::<Vec<u8>>()).unwrap();
    let mut text = ProgramText::default();
    let mut outcome = Outcome::default();
    let dense = DenseText { addr: TEXT, len: 0x3000, pool: Addr(0x1000), file: FileId(3), offset: 0 };
    outcome.ours().dense.push(dense);
    let open = |file: FileId| {
        assert_eq!(file, FileId(3));
        Ok(kept.try_clone().unwrap())
    };
    text.apply(&outcome, open).unwrap();
    assert_eq!(shown(&text, TEXT - 1, 4), [0xcc, 0, 1, 2]);
    assert_eq!(shown(&text, TEXT + 0x27fe, 4), [0xfe, 0xff, 0, 0], "behind the file's end");
    assert_eq!(shown(&text, TEXT + 0x2fff, 2), [0, 0xcc]);
    // Its middle is the program's again; the rest goes on.
    say(&mut text, |ours| ours.own.push((TEXT + 0x1000, 0x1000)));
    assert_eq!(shown(&text, TEXT + 0xfff, 3), [0xff, 0xcc, 0xcc]);
    assert_eq!(shown(&text, TEXT + 0x1fff, 3), [0xcc, 0, 1]);
    let all: Vec<_> = text.believed().map(|part| (part.range, part.offset)).collect();
    assert_eq!(all, [(TEXT..TEXT + 0x1000, 0), (TEXT + 0x2000..TEXT + 0x3000, 0x2000)]);
    effect(&mut text, Effect::Unmap { addr: TEXT, len: 0x10_0000 });
    assert_eq!(text.believed().count(), 0);
}

#[test]
fn a_patched_text_is_what_its_set_says_until_it_is_the_programs_again() {
    let (start, at) = (TEXT + 0x10, ARENA + 48);
    let fault = Fault { site: TEXT + 0x1100, insn: Insn::Rdtsc, original: vec![0x0f, 0x31] };
    let set = PatchSet { patches: vec![Arc::new(call(start, at))], faults: vec![fault] };
    let mut kept = tempfile::tempfile().unwrap();
    kept.write_all(&[0; 0x3000]).unwrap();
    kept.write_all(&codec::write_set(&set).unwrap()).unwrap();
    let open = |file: FileId| {
        assert_eq!(file, FileId(7));
        Ok(kept.try_clone().unwrap())
    };
    let mut outcome = Outcome::default();
    let range =
        PatchedText { addr: TEXT, len: 0x2000, file: FileId(3), offset: 0x1000, set: FileId(7), at: 0x3000 };
    outcome.ours().patched.push(range);
    outcome.ours().areas.push(Area { addr: ARENA, len: 0x1_0000, kind: AreaKind::Arena });
    let (addr, backing) = (TEXT, Backing::File { file: FileId(7), offset: 0 });
    outcome.effects.push(Effect::Map { addr, len: 0x2000, prot: 5, backing });
    let mut text = ProgramText::default();
    text.apply(&outcome, open).unwrap();
    assert_eq!(shown(&text, start + 5, 2), [0x0f, 5]);
    assert_eq!(shown(&text, TEXT + 0x1100, 2), [0x0f, 0x31]);
    assert_eq!((text.places(start), text.leads_to(start)), (vec![at], Some(at)));
    let believed =
        |text: &ProgramText| text.believed().map(|part| (part.range, part.offset)).collect::<Vec<_>>();
    assert_eq!(believed(&text), [(TEXT..TEXT + 0x2000, 0x1000)]);
    // Its first page has the program's bytes again, in the same mapping.
    say(&mut text, |ours| ours.own.push((TEXT, 0x1000)));
    assert_eq!(text.places(start), [start, at], "a task may be in the trampoline");
    assert_eq!(shown(&text, TEXT + 0x1100, 2), [0x0f, 0x31]);
    assert_eq!(believed(&text), [(TEXT..TEXT + 0x2000, 0x1000)]);
    effect(&mut text, Effect::Unmap { addr: TEXT, len: 0x1000 });
    assert_eq!(believed(&text), [(TEXT + 0x1000..TEXT + 0x2000, 0x2000)]);
    // The same again, and a set that is none.
    text.apply(&outcome, open).unwrap();
    assert_eq!(believed(&text), [(TEXT..TEXT + 0x2000, 0x1000)]);
    outcome.ours().patched[0].at = 0x2ff8;
    let error = text.apply(&outcome, open).unwrap_err();
    assert!(matches!(error, TextError::NoSet { file: FileId(7), .. }), "{error}");
}

proptest! {
    /// Whatever is patched, the program's bytes come back; and each instruction has one place, which is shown
    /// as the instruction.
    #[test]
    fn overlays_restore_the_text(
        seed in proptest::collection::vec(any::<u8>(), 600),
        gaps in proptest::collection::vec((0u64..40, 5usize..=32, any::<bool>()), 1..12),
        from in 0usize..600,
        len in 0usize..600,
    ) {
        let mut memory = seed.clone();
        let mut text = ProgramText::default();
        let (mut at, mut trampoline) = (0u64, ARENA);
        let mut patches = Vec::new();
        for (gap, run, is_fault) in gaps {
            let start = at + gap;
            let place = usize::try_from(start).unwrap();
            let run = if is_fault { run.min(15) } else { run };
            if place + run > memory.len() {
                break;
            }
            let original = seed[place..place + run].to_vec();
            memory[place..place + run].fill(0xf4);
            at = start + run as u64;
            say(&mut text, |ours| {
                if is_fault {
                    ours.faults.push(Fault { site: TEXT + start, insn: Insn::Rdtsc, original });
                    return;
                }
                let len = u8::try_from(run).unwrap();
                let moved = vec![[0, 0], [2, 9], [len, 40]];
                let patch = Patch {
                    start: TEXT + start, original, trampoline, trampoline_len: 45, site: 0, insn: None, moved, abort: None,
                };
                patches.push(patch.clone());
                ours.patches.push(Arc::new(patch));
            });
            trampoline += 48;
        }
        let end = (from + len).min(600);
        let mut bytes = memory[from.min(end)..end].to_vec();
        text.show(TEXT + from.min(end) as u64, &mut bytes).unwrap();
        prop_assert_eq!(&bytes[..], &seed[from.min(end)..end]);
        for patch in patches {
            for (addr, copy) in patch.places().filter(|(addr, _)| *addr < patch.end()) {
                prop_assert_eq!(text.places(addr), [copy]);
                prop_assert_eq!(text.original(copy), Shown::Program { addr });
            }
        }
    }

    /// Nonsense, as a stranger's trace may have it, is no harm.
    #[test]
    fn nonsense_is_no_harm(words in proptest::collection::vec(any::<u64>(), 12), near in any::<bool>()) {
        let word = |index: usize| if near { u64::MAX - (words[index] & 0xffff) } else { words[index] };
        let mut text = ProgramText::default();
        say(&mut text, |ours| {
            ours.own.push((Addr(word(0)), word(1)));
            ours.areas.push(Area { addr: Addr(word(2)), len: word(3), kind: AreaKind::Arena });
            ours.diverted.push(Diverted { addr: Addr(word(4)), original: vec![1; 8], is_function: true });
            ours.patches.push(Arc::new(call(Addr(word(5)), Addr(word(6)))));
            ours.faults.push(Fault { site: Addr(word(7)), insn: Insn::Cpuid, original: vec![1, 2] });
            ours.guards.push(Guard { page: Addr(word(8)), prot: 5 });
        });
        for addr in words.iter().copied().map(Addr) {
            let _ = (text.original(addr), text.places(addr), text.leads_to(addr), text.hooked_site(addr));
            text.show(addr, &mut [0; 64]).unwrap();
        }
        let (addr, len) = (Addr(word(9)), word(10));
        for one in [
            Effect::Unmap { addr, len },
            Effect::Protect { addr, len, prot: 5 },
            Effect::Advise { addr, len, advice: 4 },
            Effect::Remap { addr, old_len: len, new_addr: Addr(word(11)), new_len: len, keep: false },
        ] {
            effect(&mut text, one);
        }
    }
}
