//! What the bytes of `rdtsc` and `rdtscp` are said to be, in files made by hand: each kind, and next to it
//! the same with something that makes it uncertain.

use crate::common::elf::{CODE, Elf, rel32};
use bis_rewrite::{Key, Learned, Reason, SiteCache, SiteKind, Text, clock_bytes};

fn clock_at(elf: &Elf, at: u64) -> Learned {
    let bytes = elf.bytes();
    Text::parse(&bytes).expect("an ELF file").clock_at(at)
}

/// rdtsc; shl rdx, 32; or rax, rdx; ret
const READ: [u8; 10] = [0x0f, 0x31, 0x48, 0xc1, 0xe2, 0x20, 0x48, 0x09, 0xd0, 0xc3];
/// rdtscp; ret
const SHORT: [u8; 4] = [0x0f, 0x01, 0xf9, 0xc3];
/// mov eax, 0x310f; ret
const NUMBER: [u8; 6] = [0xb8, 0x0f, 0x31, 0, 0, 0xc3];

#[test]
fn one_with_room_is_a_run() {
    match clock_at(&Elf::function(&READ), CODE) {
        Learned::Run(run) => assert_eq!((run.start(), run.kind()), (CODE, SiteKind::Rdtsc)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn one_without_room_can_be_made_a_fault() {
    let expected = Learned::Clock { site: CODE, kind: SiteKind::Rdtscp };
    assert_eq!(clock_at(&Elf::function(&SHORT), CODE), expected);
    // A branch to right behind it leaves no room either.
    let code = [&READ[..], &[0xeb, 0xf6]].concat();
    let expected = Learned::Clock { site: CODE, kind: SiteKind::Rdtsc };
    assert_eq!(clock_at(&Elf::function(&code), CODE), expected);
}

#[test]
fn a_number_that_looks_like_one_is_inside() {
    assert_eq!(clock_at(&Elf::function(&NUMBER), CODE + 1), Learned::Inside { site: CODE + 1 });
}

#[test]
fn what_is_jumped_into_is_refused() {
    let from = CODE + NUMBER.len() as u64;
    let elf = Elf::function(&NUMBER).with(&rel32(&[0xe9], from, CODE + 1));
    assert_eq!(clock_at(&elf, CODE + 1), Learned::Refused { site: CODE + 1, reason: Reason::Branch });
}

#[test]
fn what_is_no_functions_is_refused() {
    let elf = Elf::function(&[0xc3]).without_name(&NUMBER);
    let found = clock_at(&elf, CODE + 2);
    assert!(matches!(found, Learned::Refused { .. }), "{found:?}");
    let found = clock_at(&Elf::function(&NUMBER), CODE + 0x10_0000);
    assert_eq!(found, Learned::Refused { site: CODE + 0x10_0000, reason: Reason::NotASite });
}

/// Of very much text that nobody tells of, nothing is believed.
#[test]
fn very_much_text_of_no_function_is_refused() {
    let elf = Elf::function(&[0xc3]).without_name(&[&[0x90; 33 << 20][..], &READ].concat()).bytes();
    let text = Text::parse(&elf).expect("an ELF file");
    let site = CODE + 1 + (33 << 20);
    assert_eq!(text.clock_at(site), Learned::Refused { site, reason: Reason::Undecoded });
    assert_eq!(text.work(), 0);
}

#[test]
fn one_with_prefixes_is_refused() {
    let code = [&[0x66][..], &SHORT].concat();
    let found = clock_at(&Elf::function(&code), CODE + 1);
    assert_eq!(found, Learned::Refused { site: CODE + 1, reason: Reason::Prefixed });
}

#[test]
fn the_cache_keeps_each_kind() {
    let elf = Elf::function(&READ).with(&SHORT).with(&NUMBER).bytes();
    let text = Text::parse(&elf).expect("an ELF file");
    let key = Key::of_content(blake3::hash(&elf).as_bytes());
    let code: Vec<u8> = [&READ[..], &SHORT, &NUMBER].concat();
    let found: Vec<Learned> =
        clock_bytes(&code).into_iter().map(|at| text.clock_at(CODE + at as u64)).collect();
    assert!(
        matches!(found[..], [Learned::Run(_), Learned::Clock { .. }, Learned::Inside { .. }]),
        "{found:?}"
    );
    let dir = tempfile::tempdir().expect("a temporary folder");
    let cache = SiteCache::open(&dir.path().join("sites")).expect("a new folder");
    cache.add(&key, &found).expect("room");
    assert_eq!(cache.load(&key), found);
}

/// In real programs nearly everything can be told, and what cannot is not many files' fault.
#[test]
fn real_libraries_have_nothing_uncertain() {
    let mut seen = 0;
    for path in ["/lib64/ld-linux-x86-64.so.2", "/lib/x86_64-linux-gnu/libc.so.6"] {
        let Ok(elf) = std::fs::read(path) else {
            eprintln!("ignored: there is no {path}");
            continue;
        };
        let text = Text::parse(&elf).expect("an ELF file");
        let functions: Vec<u64> = text.sites().map(|(site, _)| site).collect();
        let (first, last) = (functions[0], functions[functions.len() - 1]);
        // Programs and libraries of this kind have their text in the file where it is in memory.
        let part = first as usize..last as usize;
        for at in clock_bytes(&elf[part]) {
            let site = first + at as u64;
            let found = text.clock_at(site);
            assert!(!matches!(found, Learned::Refused { .. }), "{path}: {found:?}");
            seen += 1;
        }
    }
    eprintln!("{seen} places");
}
