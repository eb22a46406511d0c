//! Text in which no function is told of, and functions that are longer than any: what is said of a place does
//! not depend on how long the text around it is, and the work for all places grows with the text, not with
//! the text times its places.

use crate::common::elf::{CODE, Elf, rel32};
use bis_rewrite::{Learned, Reason, SiteKind, Text, clock_bytes};
use proptest::prelude::*;

/// rdtsc; shl rdx, 32; or rax, rdx; ret
const READ: [u8; 10] = [0x0f, 0x31, 0x48, 0xc1, 0xe2, 0x20, 0x48, 0x09, 0xd0, 0xc3];
/// mov eax, 0x310f; ret
const NUMBER: [u8; 6] = [0xb8, 0x0f, 0x31, 0, 0, 0xc3];

/// What may surround a place: what moves and what does not, numbers that look like an `rdtsc`, jumps of which
/// it is known where they lead and others, and what makes the others pointers or not.
const PIECES: &[&[u8]] = &[
    &READ,
    &READ,
    &NUMBER,
    &[0x90],
    &[0x48, 0x8b, 0x47, 0x08],
    // jmp [rax * 8 + 0x500000]; mov rax, [rdx]; jmp rax
    &[0xff, 0x24, 0xc5, 0x00, 0x00, 0x50, 0x00],
    &[0x48, 0x8b, 0x02, 0xff, 0xe0],
    // nop; jmp rbx, after a label or not; mov rbx, rdi; pop rbx
    &[0x90, 0xff, 0xe3],
    &[0x48, 0x89, 0xfb],
    &[0x5b],
    // xor eax, eax; jmp short to itself's end; call to the next
    &[0x31, 0xc0],
    &[0xeb, 0x00],
    &[0xe8, 0x00, 0x00, 0x00, 0x00],
    // jmp short back into what may be a READ; mov eax, [rip - 12]
    &[0xeb, 0xf6],
    &[0x8b, 0x05, 0xf4, 0xff, 0xff, 0xff],
];

/// What makes the jumps through rbx and rdi uncertain: add rbx, 1; lea rdi, [rdi + rbx]
const UNCERTAIN: &[&[u8]] = &[&[], &[0x48, 0x83, 0xc3, 0x01], &[0x48, 0x8d, 0x3c, 0x1f]];

fn answers(code: &[u8]) -> Vec<Learned> {
    let elf = Elf::function(&[0xc3]).without_name(code).bytes();
    let text = Text::parse(&elf).expect("an ELF file");
    clock_bytes(code).into_iter().map(|at| text.clock_at(CODE + 1 + at as u64)).collect()
}

proptest! {
    #[test]
    fn much_text_says_what_little_says(
        pieces in prop::collection::vec(0..PIECES.len(), 0..60),
        uncertain in 0..UNCERTAIN.len(),
        before in 16..9000_usize,
        aim in 0..600_usize,
    ) {
        let pieces: Vec<u8> = pieces.iter().flat_map(|piece| PIECES[*piece]).copied().collect();
        // Far behind, mov eax, [rip + x], which may name the middle of a place.
        let code = [&vec![0x90; before][..], &pieces, UNCERTAIN[uncertain], &[0x90; 200]].concat();
        let code = [&code[..], &rel32(&[0x8b, 0x05], code.len() as u64, (before + aim) as u64), &[0x90; 16]].concat();
        let long = [&code[..], &vec![0x90; 128 << 10]].concat();
        prop_assert_eq!(answers(&code), answers(&long));
    }
}

/// A stretch is decoded when the first of its places is asked for, and again for whether its jumps are
/// understood.
#[test]
fn a_stretch_is_decoded_twice_whatever_it_has() {
    for (count, places) in [(100_000, 10), (100_000, 10_000), (2 << 20, 10_000)] {
        let code = [&NUMBER.repeat(count)[..], &READ].concat();
        let elf = Elf::function(&[0xc3]).without_name(&code).bytes();
        let text = Text::parse(&elf).expect("an ELF file");
        for at in (0..count).step_by(count.div_ceil(places)) {
            let site = CODE + 1 + (at * NUMBER.len()) as u64 + 1;
            assert_eq!(text.clock_at(site), Learned::Refused { site, reason: Reason::Undecoded });
        }
        let site = CODE + 1 + (count * NUMBER.len()) as u64;
        match text.clock_at(site) {
            Learned::Run(run) => assert_eq!((run.start(), run.kind()), (site, SiteKind::Rdtsc)),
            other => panic!("{count}: {other:?}"),
        }
        let most = 3 * code.len() as u64 + places as u64 * 5000;
        assert!(text.work() <= most, "{count}, {places}: {} > {most}", text.work());
    }
}

/// A function is decoded once for all places that are asked for one after the other.
#[test]
fn a_function_is_decoded_once_for_all_its_places() {
    let mov = [0xb8, 0x0f, 0x31, 0, 0];
    let code = [&mov.repeat(500)[..], &[0x90; 400_000], &[0xc3]].concat();
    let elf = Elf::function(&code).bytes();
    let text = Text::parse(&elf).expect("an ELF file");
    let mut inside = 0;
    for at in clock_bytes(&code) {
        inside += usize::from(matches!(text.clock_at(CODE + at as u64), Learned::Inside { .. }));
        if inside == 1 {
            assert!(text.work() < 2 * code.len() as u64, "{}", text.work());
        }
    }
    assert!(inside > 10, "{inside}");
}

/// A name for more than a megabyte is a table's, or somebody's joke.
#[test]
fn what_is_longer_than_any_function_is_not_looked_at() {
    let code = [&NUMBER[..5], &[0x90; 2 << 20], &READ].concat();
    let elf = Elf::function(&code).bytes();
    let text = Text::parse(&elf).expect("an ELF file");
    for at in clock_bytes(&code) {
        let site = CODE + at as u64;
        assert_eq!(text.clock_at(site), Learned::Refused { site, reason: Reason::Undecoded });
    }
    assert_eq!(text.work(), 0);
}

/// Of a text in which each byte is to be asked about, the last are refused: the work has an end.
#[test]
fn the_work_has_an_end() {
    let code = [&READ[..2].repeat(250_000)[..], &[0xc3]].concat();
    let elf = Elf::function(&code).bytes();
    let text = Text::parse(&elf).expect("an ELF file");
    let found: Vec<Learned> =
        clock_bytes(&code).into_iter().map(|at| text.clock_at(CODE + at as u64)).collect();
    assert!(matches!(found[0], Learned::Clock { .. }), "{:?}", found[0]);
    assert!(matches!(found[found.len() - 1], Learned::Refused { .. }));
    let most = (64 << 20) + 12 * code.len() as u64;
    assert!(text.work() < most, "{} > {most}", text.work());
}
