//! What the bytes of rdrand, rdseed, rdpid, lsl and xbegin are said to be, in files made by hand.

use crate::common::elf::{CODE, Elf};
use bis_rewrite::{Hook, Learned, Operand, Reason, SiteKind, Text, chance_bytes, cpuid_bytes, trampoline};

fn chances(code: &[u8]) -> Vec<Learned> {
    let bytes = Elf::function(code).bytes();
    let text = Text::parse(&bytes).expect("an ELF file");
    chance_bytes(code).into_iter().map(|at| text.chance_at(CODE + at as u64)).collect()
}

fn one(code: &[u8]) -> (u64, SiteKind, Option<Operand>) {
    match &chances(code)[..] {
        [Learned::Run(run)] => (run.site() - CODE, run.kind(), run.operand()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_kind_is_found_with_its_prefixes() {
    let operand = |register, width| Some(Operand { register, width });
    // rdrand eax; jnc -5; ret
    assert_eq!(one(&[0x0f, 0xc7, 0xf0, 0x73, 0xfb, 0xc3]), (0, SiteKind::Rdrand, operand(0, 4)));
    // nop; rdrand r10; nop; ret
    assert_eq!(one(&[0x90, 0x49, 0x0f, 0xc7, 0xf2, 0x90, 0xc3]), (1, SiteKind::Rdrand, operand(10, 8)));
    // rdseed r9w; nop; ret
    assert_eq!(one(&[0x66, 0x41, 0x0f, 0xc7, 0xf9, 0x90, 0xc3]), (0, SiteKind::Rdseed, operand(9, 2)));
    // rdpid rbx; nop; ret
    let (site, kind, found) = one(&[0xf3, 0x0f, 0xc7, 0xfb, 0x90, 0xc3]);
    assert_eq!((site, kind, found.unwrap().register), (0, SiteKind::Rdpid, 3));
    // xbegin +1; ret; ret
    assert_eq!(one(&[0xc7, 0xf8, 1, 0, 0, 0, 0xc3, 0xc3]), (0, SiteKind::Xbegin, None));
    // lsl eax, ecx; ret; ret. Then: nop; lsl r9, rbx; nop; ret. And: lsl ax, r10w; nop
    assert_eq!(one(&[0x0f, 0x03, 0xc1, 0x90, 0x90, 0xc3]), (0, SiteKind::Lsl, operand(0, 4)));
    assert_eq!(one(&[0x90, 0x4c, 0x0f, 0x03, 0xcb, 0x90, 0xc3]), (1, SiteKind::Lsl, operand(9, 8)));
    assert_eq!(one(&[0x66, 0x41, 0x0f, 0x03, 0xc2, 0x90, 0xc3]), (0, SiteKind::Lsl, operand(0, 2)));
    // fnstenv [rdi]; fldenv [rdi]; nop; ret
    assert_eq!(one(&[0xd9, 0x37, 0xd9, 0x27, 0x90, 0xc3]), (0, SiteKind::Fnstenv, None));
    // nop; fnsave [r13 + 8]; nop; ret
    assert_eq!(one(&[0x90, 0x41, 0xdd, 0x75, 0x08, 0x90, 0xc3]), (1, SiteKind::Fnstenv, None));
    // xsavec [rsp + 0x40]; ret
    assert_eq!(one(&[0x0f, 0xc7, 0x64, 0x24, 0x40, 0xc3]), (0, SiteKind::Xsavec, None));
    // nop; xsavec64 [r9]; nop; ret
    assert_eq!(one(&[0x90, 0x49, 0x0f, 0xc7, 0x21, 0x90, 0xc3]), (1, SiteKind::Xsavec, None));
}

/// The instructions of a trampoline, as far as its copy of the site's, as text.
fn way_of(code: &[u8]) -> Result<Vec<String>, bis_rewrite::Error> {
    use iced_x86::{Decoder, DecoderOptions};
    const AT: u64 = CODE + 0x1000;
    let [Learned::Run(run)] = &chances(code)[..] else { panic!("one") };
    let made = trampoline(run, 0, AT, Hook { slot: AT + 0x1000, save: Some(0x5000) })?;
    let decoder = Decoder::with_ip(64, &made.bytes, AT, DecoderOptions::NONE);
    Ok(decoder.into_iter().take_while(|it| it.ip() <= made.traced).map(|it| it.to_string()).collect())
}

#[test]
fn the_hook_behind_an_xsavec_gets_the_address_of_its_area() {
    for (code, area) in [
        (&[0x0f, 0xc7, 0x64, 0x24, 0x40, 0xc3][..], "[rsp+40h]"),
        (&[0x0f, 0xc7, 0x21, 0x90, 0x90, 0xc3], "[rcx]"),
        (&[0x4b, 0x0f, 0xc7, 0x64, 0xe1, 0xc0, 0xc3], "[r9+r12*8-40h]"),
        (&[0x49, 0x0f, 0xc7, 0x64, 0x24, 0x08, 0xc3], "[r12+8]"),
    ] {
        let way = way_of(code).expect("near enough");
        let (saves, asks) = (way.iter().filter(|it| it.starts_with("xsavec")), format!("lea rcx,{area}"));
        assert!(saves.clone().count() == 2 && saves.clone().all(|it| it.ends_with(area)), "{way:?}");
        assert_eq!(way[1..4], ["mov [5000h],rcx".to_owned(), asks, "mov [5008h],rcx".to_owned()]);
    }
    // Relative to where it is.
    let way = way_of(&[0x0f, 0xc7, 0x25, 0x10, 0, 0, 0, 0xc3]).expect("near enough");
    assert_eq!(way[0].strip_prefix("xsavec "), way[2].strip_prefix("lea rcx,"), "{way:?}");
    // Nobody knows where that is: xsavec gs:[rcx].
    assert!(way_of(&[0x65, 0x0f, 0xc7, 0x21, 0x90, 0xc3]).is_err());
}

#[test]
fn the_hook_behind_an_fnstenv_gets_the_address_of_what_it_has_written() {
    for (code, name, area) in [
        (&[0xd9, 0x74, 0x24, 0xe4, 0x90, 0xc3][..], "fnstenv", "[rsp-1Ch]"),
        (&[0xd9, 0x31, 0x90, 0x90, 0x90, 0xc3], "fnstenv", "[rcx]"),
        (&[0x43, 0xdd, 0x74, 0xe1, 0xc0, 0xc3], "fnsave", "[r9+r12*8-40h]"),
    ] {
        let way = way_of(code).expect("near enough");
        let (stores, asks) = (way.iter().filter(|it| it.starts_with(name)), format!("lea rcx,{area}"));
        assert!(stores.clone().count() == 2 && stores.clone().all(|it| it.ends_with(area)), "{way:?}");
        assert_eq!(way[1..4], ["mov [5000h],rcx".to_owned(), asks, "mov [5008h],rcx".to_owned()]);
    }
    // Of real mode; and beside what the processor remembers: fnstenv [rdi]; fld1.
    assert!(!matches!(chances(&[0x66, 0xd9, 0x37, 0x90, 0x90, 0xc3])[..], [Learned::Run(_)]));
    let found = chances(&[0xd9, 0x37, 0xd9, 0xe8, 0x90, 0xc3]);
    assert_eq!(found, [Learned::Clock { site: CODE, kind: SiteKind::Fnstenv }]);
}

#[test]
fn few_bytes_that_look_like_an_fnstenv_are_looked_at() {
    // mov ecx, ebx; jae +0x10; mov eax, [rcx + 0x40]: the operand of the first, and the jump's opcode.
    let code = [0x89, 0xd9, 0x73, 0x10, 0x8b, 0x41, 0x40].repeat(20);
    let at_begin = 38 / 7 + 1;
    assert!(chance_bytes(&code).len() <= at_begin, "{:?}", chance_bytes(&code));
    // And one among them is found.
    let code = [&code[..70], &[0xd9, 0x37, 0xd9, 0x27], &code[70..]].concat();
    assert!(chance_bytes(&code).contains(&70));
}

#[test]
fn the_hook_of_an_lsl_gets_its_selector() {
    for (code, selector) in [
        (&[0x0f, 0x03, 0xc0, 0x90, 0x90, 0xc3][..], "rax"),
        (&[0x0f, 0x03, 0xc1, 0x90, 0x90, 0xc3], "rcx"),
        (&[0x66, 0x41, 0x0f, 0x03, 0xc2, 0x90, 0xc3], "r10"),
        (&[0x4d, 0x0f, 0x03, 0xff, 0x90, 0xc3], "r15"),
    ] {
        let way = way_of(code).expect("near enough");
        assert_eq!(way[..2], ["mov [5000h],rcx".to_owned(), format!("mov [5008h],{selector}")]);
        assert!(way.last().is_some_and(|it| it.starts_with("lsl ")), "{way:?}");
    }
    // Too short for a jump; and with its selector in memory it is left alone.
    let found = chances(&[0x0f, 0x03, 0xc1, 0xc3]);
    assert_eq!(found, [Learned::Clock { site: CODE, kind: SiteKind::Lsl }]);
    assert_eq!(chances(&[0x0f, 0x03, 0x01, 0x90, 0x90, 0xc3]), []);
}

#[test]
fn cpuid_is_found_with_room_and_without() {
    // xor eax, eax; cpuid; mov eax, ebx; ret. Then: too short for a jump.
    for (code, site, has_room) in
        [(&[0x31, 0xc0, 0x0f, 0xa2, 0x89, 0xd8, 0xc3][..], 2, true), (&[0x0f, 0xa2, 0xc3], 0, false)]
    {
        let bytes = Elf::function(code).bytes();
        let text = Text::parse(&bytes).expect("an ELF file");
        let [at] = cpuid_bytes(code)[..] else { panic!("one") };
        let found = text.chance_at(CODE + at as u64);
        match &found {
            Learned::Run(run) if has_room => {
                assert_eq!((run.site() - CODE, run.kind()), (site, SiteKind::Cpuid))
            }
            Learned::Clock { site: begin, kind } if !has_room => {
                assert_eq!((begin - CODE, *kind), (site, SiteKind::Cpuid))
            }
            other => panic!("{other:?}"),
        }
        assert!(found.is_of_chance(CODE + site));
    }
    // mov eax, 0xa20f00; ret
    let code = [0xb8, 0x00, 0x0f, 0xa2, 0x00, 0xc3];
    let bytes = Elf::function(&code).bytes();
    let text = Text::parse(&bytes).expect("an ELF file");
    assert_eq!(text.chance_at(CODE + 2), Learned::Refused { site: CODE + 2, reason: Reason::NotASite });
}

#[test]
fn a_number_is_none() {
    // mov eax, 0xf0c70f; ret
    let found = chances(&[0xb8, 0x0f, 0xc7, 0xf0, 0x00, 0xc3]);
    assert_eq!(found, [Learned::Refused { site: CODE + 1, reason: Reason::NotASite }]);
    // cmpxchg8b [rax]; ret: the opcode with memory.
    assert_eq!(chances(&[0x0f, 0xc7, 0x08, 0xc3]), []);
    // xbegin to nowhere.
    assert_eq!(chances(&[0xc7, 0xf8, 0, 0, 0, 0x70, 0xc3]), []);
}

#[test]
fn what_is_remembered_is_found_again_by_its_opcode() {
    let [found] = &chances(&[0x66, 0x41, 0x0f, 0xc7, 0xf9, 0x90, 0xc3])[..] else { panic!("one") };
    assert!(found.is_of_chance(CODE + 2) && found.is_of_chance(CODE + 3));
    assert!(!found.is_of_chance(CODE + 4));
    let refused = Learned::Refused { site: CODE + 7, reason: Reason::NotASite };
    assert!(refused.is_of_chance(CODE + 7) && !refused.is_of_chance(CODE + 8));
}
