//! Files made by hand, one for each way in which something may lead into a run; and next to each, the same
//! file without it, which must not be refused.

use crate::common::elf::{CODE, DATA, Elf, NOTYPE, OBJECT, rel32};
use bis_rewrite::{Reason, Run, SiteKind, Text};

/// syscall; cmp rax, -4095; ret: the run is the first two.
const CALL: [u8; 9] = [0x0f, 0x05, 0x48, 0x3d, 0x01, 0xf0, 0xff, 0xff, 0xc3];
/// Where the `cmp` is.
const INTERIOR: u64 = CODE + 2;

fn run_at(elf: &Elf, site: u64) -> Result<Run, Reason> {
    let bytes = elf.bytes();
    Text::parse(&bytes).expect("an ELF file").run_at(site)
}

#[track_caller]
fn runs(elf: &Elf, site: u64, start: u64, len: u8) {
    let run = run_at(elf, site).expect("a run");
    assert_eq!((run.start(), run.len(), run.site()), (start, len, site));
}

#[track_caller]
fn refuses(elf: &Elf, site: u64, reason: Reason) {
    assert_eq!(run_at(elf, site), Err(reason));
}

#[test]
fn a_run_begins_at_its_site() {
    runs(&Elf::function(&CALL), CODE, CODE, 8);
    let bytes = Elf::function(&CALL).bytes();
    let sites: Vec<_> = Text::parse(&bytes).expect("an ELF file").sites().collect();
    assert_eq!(sites, [(CODE, SiteKind::Syscall)]);
}

#[test]
fn a_run_reaches_back_when_it_must() {
    // mov eax, 39; syscall; call ...
    let code = [&[0xb8, 39, 0, 0, 0, 0x0f, 0x05][..], &[0xe8, 0, 1, 0, 0, 0xc3]].concat();
    runs(&Elf::function(&code), CODE + 5, CODE, 7);
}

#[test]
fn branches_of_the_function() {
    // jmp +2 to the cmp
    refuses(&Elf::function(&[&[0xeb, 2], &CALL[..]].concat()), CODE + 2, Reason::Branch);
    // je +2 to the cmp, which would move too
    refuses(&Elf::function(&[&[0x74, 2], &CALL[..]].concat()), CODE + 2, Reason::Branch);
    // jmp +0 to the syscall: to the run's start
    runs(&Elf::function(&[&[0xeb, 0], &CALL[..]].concat()), CODE + 2, CODE + 2, 8);
    // loop, from after it, into the middle of the cmp
    refuses(&Elf::function(&[&CALL[..], &[0xe2, 0xf9, 0xc3]].concat()), CODE, Reason::Branch);
}

#[test]
fn branches_of_other_functions() {
    let other = CODE + 9;
    refuses(&Elf::function(&CALL).with(&rel32(&[0xe9], other, INTERIOR)), CODE, Reason::Branch);
    refuses(&Elf::function(&CALL).with(&rel32(&[0x0f, 0x85], other, INTERIOR + 3)), CODE, Reason::Branch);
    refuses(&Elf::function(&CALL).with(&rel32(&[0xe8], other, INTERIOR)), CODE, Reason::Branch);
    refuses(&Elf::function(&CALL).with(&rel32(&[0x48, 0x8d, 0x05], other, INTERIOR)), CODE, Reason::Branch);
    runs(&Elf::function(&CALL).with(&rel32(&[0xe9], other, CODE)), CODE, CODE, 8);
    // Short, from the next function; from beyond the end of the run's function to its end is no matter.
    refuses(&Elf::function(&CALL).with(&[0xeb, 0xf7]), CODE, Reason::Branch);
    runs(&Elf::function(&CALL).with(&[0xeb, 0xfd]), CODE, CODE, 8);
}

#[test]
fn what_only_looks_like_a_branch() {
    // movabs rax, imm64, whose number holds a jump to the cmp.
    let other = CODE + 9;
    let mut movabs = vec![0x48, 0xb8];
    movabs.extend(rel32(&[0xe9], other + 2, INTERIOR));
    movabs.extend([0, 0, 0, 0xc3]);
    runs(&Elf::function(&CALL).with(&movabs), CODE, CODE, 8);
    // Where no function is known, there is no telling.
    refuses(&Elf::function(&CALL).without_name(&movabs), CODE, Reason::Branch);
    let mut short = vec![0x48, 0xb8, 0xeb, 0xf5];
    short.extend([0, 0, 0, 0, 0, 0, 0xc3]);
    runs(&Elf::function(&CALL).with(&short), CODE, CODE, 8);
    refuses(&Elf::function(&CALL).without_name(&short), CODE, Reason::Branch);
}

#[test]
fn pointers() {
    let plain = Elf { data: vec![0; 64], ..Elf::function(&CALL) };
    let symbol = |at| {
        let mut elf = plain.clone();
        elf.symbols.push((at, 0, NOTYPE));
        elf
    };
    refuses(&symbol(INTERIOR), CODE, Reason::Pointer);
    runs(&symbol(CODE), CODE, CODE, 8);
    runs(&symbol(CODE + 8), CODE, CODE, 8);
    refuses(&Elf { entry: INTERIOR, ..plain.clone() }, CODE, Reason::Pointer);
    refuses(&Elf { relocations: vec![CODE, INTERIOR], ..plain.clone() }, CODE, Reason::Pointer);
    runs(&Elf { relocations: vec![CODE, CODE + 8], ..plain.clone() }, CODE, CODE, 8);

    // A word of data: an address only where addresses are fixed, or where a relocation says so.
    let mut data = vec![0; 24];
    data.extend(INTERIOR.to_le_bytes());
    let word = Elf { data, ..plain.clone() };
    runs(&word, CODE, CODE, 8);
    refuses(&Elf { fixed: true, ..word.clone() }, CODE, Reason::Pointer);
    refuses(&Elf { packed: vec![DATA + 24], ..word.clone() }, CODE, Reason::Pointer);
    runs(&Elf { packed: vec![DATA + 16], ..word.clone() }, CODE, CODE, 8);
    // Bit 2 of a set that follows DATA: the word at DATA + 8 + 2 * 8.
    refuses(&Elf { packed: vec![DATA, 1 | 1 << 3], ..word.clone() }, CODE, Reason::Pointer);
    runs(&Elf { packed: vec![DATA, 1 | 1 << 2], ..word }, CODE, CODE, 8);
}

#[test]
fn numbers_in_code() {
    let number = INTERIOR as u32;
    // mov edi, number
    let mov = [&[0xbf][..], &number.to_le_bytes(), &[0xc3]].concat();
    let elf = Elf::function(&CALL).with(&mov);
    runs(&elf, CODE, CODE, 8);
    refuses(&Elf { fixed: true, ..elf }, CODE, Reason::Pointer);
    // movabs rdi, a number in whose middle the address is: none.
    let movabs = [&[0x48, 0xbf, 1, 1][..], &number.to_le_bytes(), &[0, 0, 0xc3]].concat();
    runs(&Elf { fixed: true, ..Elf::function(&CALL).with(&movabs) }, CODE, CODE, 8);
}

/// A switch: lea rdx, [table]; movsxd rax, [rdx + rdi * 4]; add rax, rdx; jmp rax; then the call.
fn switch(add: &[u8], target: u64) -> (Elf, u64) {
    let mut code = rel32(&[0x48, 0x8d, 0x15], CODE, DATA);
    code.extend([0x48, 0x63, 0x04, 0xba]);
    code.extend(add);
    code.extend([0xff, 0xe0]);
    let site = CODE + code.len() as u64;
    code.extend(CALL);
    let entry = |to: u64| (to.wrapping_sub(DATA) as i64 as i32).to_le_bytes();
    let data = [entry(site), entry(site + target), entry(site)].concat();
    (Elf { data, ..Elf::function(&code) }, site)
}

#[test]
fn jump_tables() {
    const ADD: [u8; 3] = [0x48, 0x01, 0xd0];
    let (elf, site) = switch(&ADD, 0);
    runs(&elf, site, site, 8);
    let (elf, site) = switch(&ADD, 2);
    refuses(&elf, site, Reason::Pointer);
    // sub instead of add; a jump that comes from nowhere known
    let (elf, site) = switch(&[0x48, 0x29, 0xd0], 0);
    refuses(&elf, site, Reason::JumpTable);
    // add rax, rcx: the table's base is another register
    let (elf, site) = switch(&[0x48, 0x01, 0xc8], 0);
    refuses(&elf, site, Reason::JumpTable);
    // Something else joins before the jump.
    let (mut elf, site) = switch(&ADD, 0);
    elf.code.extend(rel32(&[0xe9], site + 9, site - 2));
    elf.symbols[0].1 += 5;
    refuses(&elf, site, Reason::JumpTable);
}

#[test]
fn jumps_through_pointers() {
    // jmp [rdi + 8]; jmp [rip + x]; mov rax, [rdi]; jmp rax; jmp rdx, which nobody writes
    for jump in
        [&[0xff, 0x67, 8][..], &[0xff, 0x25, 0, 0, 0, 0], &[0x48, 0x8b, 0x07, 0xff, 0xe0], &[0xff, 0xe2]]
    {
        runs(&Elf::function(&[&CALL[..], jump].concat()), CODE, CODE, 8);
    }
    // mov eax, [rdi]; jmp rax: half of an address. imul rdx, rdi; jmp rdx.
    for jump in [&[0x8b, 0x07, 0xff, 0xe0][..], &[0x48, 0x0f, 0xaf, 0xd7, 0xff, 0xe2]] {
        refuses(&Elf::function(&[&CALL[..], jump].concat()), CODE, Reason::JumpTable);
    }
}

#[test]
fn what_does_not_move() {
    let after = |next: &[u8]| Elf::function(&[&[0xc3, 0x0f, 0x05], next, &[0x90, 0x90, 0x90, 0xc3]].concat());
    // call, loop, jrcxz, rdtsc, syscall, fld1, int3, a prefix that makes rip 32 bits
    for next in [
        &[0xe8, 0, 1, 0, 0][..],
        &[0xe2, 0x10],
        &[0xe3, 0x10],
        &[0x0f, 0x31],
        &[0x0f, 0x05],
        &[0xd9, 0xe8],
        &[0xcc],
        &[0x67, 0x8b, 0x05, 0, 0, 0, 0],
        &[0xcd, 0x80],
    ] {
        refuses(&after(next), CODE + 1, Reason::Unmovable);
    }
    // endbr64 before, a call after
    let code = [0xf3, 0x0f, 0x1e, 0xfa, 0x0f, 0x05, 0xe8, 0, 1, 0, 0, 0xc3];
    refuses(&Elf::function(&code), CODE + 4, Reason::Unmovable);
    // mov eax, 15; syscall
    refuses(&Elf::function(&[0xb8, 15, 0, 0, 0, 0x0f, 0x05, 0x90, 0x90, 0x90]), CODE + 5, Reason::Sigreturn);
    refuses(&Elf::function(&[&[0x66], &CALL[..]].concat()), CODE, Reason::Prefixed);
}

#[test]
fn ends_of_functions() {
    refuses(&Elf::function(&[0xc3, 0x0f, 0x05, 0xc3]), CODE + 1, Reason::TooShort);
    // Filler of the same function may give way, of no function may not.
    runs(&Elf::function(&[0xc3, 0x0f, 0x05, 0xc3, 0x90, 0x90]), CODE + 1, CODE + 1, 5);
    runs(&Elf::function(&[0xc3, 0x0f, 0x05, 0xc3, 0xcc, 0xcc]), CODE + 1, CODE + 1, 5);
    refuses(&Elf::function(&[0xc3, 0x0f, 0x05, 0xc3]).without_name(&[0x90; 4]), CODE + 1, Reason::TooShort);
    // Filler to which something jumps
    refuses(&Elf::function(&[0x75, 4, 0xc3, 0x0f, 0x05, 0xc3, 0x90, 0x90, 0xc3]), CODE + 3, Reason::Branch);
    // Code after the return is no filler.
    refuses(&Elf::function(&[0xc3, 0x0f, 0x05, 0xc3, 0x31, 0xc0, 0xc3]), CODE + 1, Reason::TooShort);
}

#[test]
fn code_of_no_function() {
    let elf = Elf { entry: CODE, ..Elf::default() }.without_name(&CALL);
    runs(&elf, CODE, CODE, 8);
    let bytes = elf.bytes();
    assert_eq!(Text::parse(&bytes).expect("an ELF file").sites().count(), 0);
    // Only forwards.
    let code = [0xb8, 39, 0, 0, 0, 0x0f, 0x05, 0xe8, 0, 1, 0, 0, 0xc3];
    refuses(&Elf { entry: CODE, ..Elf::default() }.without_name(&code), CODE + 5, Reason::Unmovable);
}

#[test]
fn data_in_functions() {
    let mut elf = Elf::function(&[&CALL[..], &[0; 16]].concat());
    runs(&elf, CODE, CODE, 8);
    elf.symbols.push((CODE + 9, 16, OBJECT));
    refuses(&elf, CODE, Reason::Undecoded);
    // An instruction that is none
    refuses(&Elf::function(&[&CALL[..], &[0x06]].concat()), CODE, Reason::Undecoded);
}

#[test]
fn files_that_are_none() {
    for bytes in [&b""[..], b"\x7fELF", &[0; 4096]] {
        assert!(Text::parse(bytes).is_err());
    }
    let mut bytes = Elf::function(&CALL).bytes();
    // For another processor
    bytes[18] = 3;
    assert!(Text::parse(&bytes).is_err());
}
