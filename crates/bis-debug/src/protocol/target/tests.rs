//! Tests of [`super`].

use proptest::prelude::*;

use super::*;

const X87_SSE: u64 = 3;
const AVX: u64 = 7;
const ALL: u64 = 0x2e7;

fn target(xcr0: u64) -> Target {
    Target::new(Width::Bits64, xcr0, &Offsets::default())
}

#[test]
fn numbers_are_those_of_gdb() {
    let check = |xcr0: u64, name: &str, expected: Option<usize>| {
        assert_eq!(target(xcr0).named(name).map(|register| register.number), expected, "{name}");
    };
    for (name, number) in [
        ("rax", 0),
        ("rbx", 1),
        ("rsp", 7),
        ("r15", 15),
        ("rip", 16),
        ("eflags", 17),
        ("cs", 18),
        ("gs", 23),
        ("st0", 24),
        ("fctrl", 32),
        ("ftag", 34),
        ("fop", 39),
        ("xmm0", 40),
        ("mxcsr", 56),
        ("orig_rax", 57),
        ("fs_base", 58),
        ("gs_base", 59),
    ] {
        check(X87_SSE, name, Some(number));
        check(ALL, name, Some(number));
    }
    check(X87_SSE, "ymm0h", None);
    check(AVX, "ymm0h", Some(60));
    check(AVX, "k0", None);
    check(ALL, "xmm16", Some(76));
    check(ALL, "ymm16h", Some(92));
    check(ALL, "k0", Some(108));
    check(ALL, "zmm0h", Some(116));
    check(ALL, "zmm31h", Some(147));
    check(ALL, "pkru", Some(148));
    check(AVX | 0x200, "pkru", Some(76));
}

#[test]
fn numbers_of_a_32_bit_program_are_those_of_gdb() {
    let target = Target::new(Width::Bits32, ALL, &Offsets::default());
    for (name, number) in [
        ("eax", 0),
        ("ecx", 1),
        ("esp", 4),
        ("eip", 8),
        ("eflags", 9),
        ("cs", 10),
        ("st0", 16),
        ("fctrl", 24),
        ("xmm0", 32),
        ("mxcsr", 40),
        ("orig_eax", 41),
        ("ymm0h", 42),
        ("k0", 50),
        ("zmm0h", 58),
        ("pkru", 66),
    ] {
        assert_eq!(target.named(name).map(|register| register.number), Some(number), "{name}");
    }
    let registers = Registers { rsp: 0x1_ffff_d000, cs: 0x23, ..Registers::default() };
    assert_eq!(target.value(4, &registers, &[]), Some(0xffff_d000), "the lower half");
    assert_eq!(target.frequent(), [5, 4, 8]);
    assert!(target.xml("target.xml").is_some_and(|text| text.contains("<architecture>i386</architecture>")));
    let targets = Targets::new(ALL, &Offsets::default());
    assert_eq!(targets.of(&registers), &target);
    assert_eq!(targets.of(&registers.wide()).frequent(), [6, 7, 16]);
}

#[test]
fn the_block_has_the_registers_in_order() {
    // 17 words of 8 bytes, eflags and 6 selectors of 4, st of 10, x87 words of 4, xmm, mxcsr, three words of
    // 8.
    assert_eq!(target(X87_SSE).block_len(), 17 * 8 + 7 * 4 + 80 + 32 + 256 + 4 + 24);
    let registers = Registers { rax: 1, rip: 0x1234, eflags: 0x246, fs_base: 0x7fff, ..Registers::default() };
    let target = target(X87_SSE);
    let block = target.read_all(&registers, &[]);
    let at = |name: &str| {
        let register = target.named(name).expect("is there");
        block[register.offset..register.offset + register.len].to_vec()
    };
    assert_eq!(at("rax"), 1u64.to_le_bytes());
    assert_eq!(at("rip"), 0x1234u64.to_le_bytes());
    assert_eq!(at("eflags"), 0x246u32.to_le_bytes());
    assert_eq!(at("fs_base"), 0x7fffu64.to_le_bytes());
    assert_eq!(at("fctrl"), 0x37fu32.to_le_bytes(), "the initial value, as there is no extended state");
    assert_eq!(at("mxcsr"), 0x1f80u32.to_le_bytes());
    assert_eq!(at("ftag"), 0xffffu32.to_le_bytes());
}

#[test]
fn places_in_the_extended_state() {
    let target = target(ALL);
    let extended: Vec<u8> = (0u32..2696).map(|at| (at / 8).to_le_bytes()[0]).collect();
    let check = |name: &str, offset: usize, len: usize| {
        let number = target.named(name).expect("is there").number as u64;
        let found = target.read(number, &Registers::default(), &extended).expect("is there");
        assert_eq!(found, extended[offset..offset + len], "{name}");
    };
    check("st1", 48, 10);
    check("xmm15", 400, 16);
    check("ymm1h", 592, 16);
    check("k7", 1144, 8);
    check("zmm1h", 1184, 32);
    check("xmm17", 1728, 16);
    check("ymm17h", 1744, 16);
    check("zmm17h", 1760, 32);
    check("pkru", 2688, 4);
}

#[test]
fn an_offset_that_cannot_be_is_not_believed() {
    let offsets = Offsets { pkru: usize::MAX, ymm_high: EXTENDED_MAX, ..Offsets::default() };
    assert_eq!(Target::new(Width::Bits64, ALL, &offsets), target(X87_SSE));
}

#[test]
fn writing_says_what_is_in_use() {
    let target = target(ALL);
    let check = |name: &str, in_use: u64| {
        let register = target.named(name).expect("is there");
        let (mut registers, mut extended) = (Registers::default(), Vec::new());
        let value = vec![0x11; register.len];
        target.write(register.number as u64, &value, &mut registers, &mut extended).expect("is there");
        let found =
            extended.get(512..520).map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().expect("eight")));
        assert_eq!(found, in_use, "{name}");
    };
    check("rax", 0);
    check("fctrl", 1);
    check("st0", 1);
    check("xmm0", 2);
    check("ymm0h", 4);
    check("k1", 0x20);
    check("zmm0h", 0x40);
    check("zmm16h", 0x80);
    check("pkru", 0x200);
}

#[test]
fn wrong_writes_change_nothing() {
    let target = target(X87_SSE);
    let (mut registers, mut extended) = (Registers::default(), Vec::new());
    let mut check = |number: u64, bytes: &[u8], expected: WriteError| {
        assert_eq!(target.write(number, bytes, &mut registers, &mut extended), Err(expected));
        assert!(registers == Registers::default() && extended.is_empty());
    };
    check(1000, &[], WriteError::NoRegister);
    check(0, &[1], WriteError::Length { expected: 8, found: 1 });
    let error = target.write_all(&[1], &mut registers, &mut extended);
    assert_eq!(error, Err(WriteError::Length { expected: target.block_len(), found: 1 }));
}

#[test]
fn the_upper_half_of_a_word_stays() {
    let target = target(X87_SSE);
    let (mut registers, mut extended) = (Registers { eflags: 1 << 40, ..Registers::default() }, Vec::new());
    target.write(17, &[2, 0, 0, 0], &mut registers, &mut extended).expect("eflags");
    assert_eq!(registers.eflags, 1 << 40 | 2);
    assert_eq!(target.value(17, &registers, &extended), Some(2));
}

#[test]
fn what_lldb_is_told() {
    let target = target(ALL);
    let check = |number: u64, expected: &str| {
        assert_eq!(
            target.info(number).map(|info| String::from_utf8_lossy(&info).into_owned()).as_deref(),
            Some(expected)
        );
    };
    check(
        16,
        "name:rip;bitsize:64;offset:128;encoding:uint;format:hex;set:General Purpose Registers;ehframe:16;dwarf:16;\
         generic:pc;",
    );
    check(
        24,
        "name:st0;bitsize:80;offset:164;encoding:vector;format:vector-uint8;set:Floating Point Registers;ehframe:33;\
         dwarf:33;",
    );
    check(34, "name:ftag;bitsize:32;offset:252;encoding:uint;format:hex;set:Floating Point Registers;");
    assert!(target.info(149).is_none());
}

#[test]
fn the_description_names_every_register_once() {
    for xcr0 in [X87_SSE, AVX, ALL] {
        let target = target(xcr0);
        let first = target.xml("target.xml").expect("is there");
        let includes = first.split("<xi:include href=\"").skip(1).filter_map(|rest| rest.split('"').next());
        let text: String = includes.map(|name| target.xml(name).expect("is there")).collect();
        for register in target.registers() {
            let element = format!("<reg name=\"{}\" bitsize=\"{}\" ", register.name, 8 * register.len);
            assert_eq!(text.matches(&element).count(), 1, "{element}");
        }
        assert_eq!(text.matches("<reg ").count(), target.registers().len());
        assert!(!text.contains(['{', '}', '*', '#', '$']), "Delve reads them as something else");
        assert_eq!(target.xml("other.xml"), None);
    }
}

/// What a register holds after any value was written to it: some bits of it do not exist.
fn kept(register: &Register, value: &[u8]) -> Vec<u8> {
    let bits = match register.name.as_str() {
        "fctrl" | "fstat" | "fiseg" | "foseg" => 0xffff,
        "fop" => 0x7ff,
        _ => return value.to_vec(),
    };
    let value = u32::from_le_bytes(value.try_into().expect("four bytes"));
    (value & bits).to_le_bytes().to_vec()
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        xcr0 in prop::sample::select(vec![X87_SSE, AVX, ALL]),
        which in any::<prop::sample::Index>(),
        value in prop::collection::vec(any::<u8>(), 32),
        state in prop::collection::vec(any::<u8>(), 0..2700),
    ) {
        let target = target(xcr0);
        let register = &target.registers()[which.index(target.registers().len())];
        let number = register.number as u64;
        let value = &value[..register.len];
        let (mut registers, mut extended) = (Registers::default(), state);
        let before = target.read_all(&registers, &extended);
        target.write(number, value, &mut registers, &mut extended).expect("it is a register");
        let after = target.read_all(&registers, &extended);
        prop_assert_eq!(after.len(), target.block_len());
        let range = register.offset..register.offset + register.len;
        if register.name != "ftag" {
            prop_assert_eq!(&after[range.clone()], kept(register, value));
        }
        // The full tag word follows from what registers hold.
        let tag = target.named("ftag").expect("is there");
        let others = (0..after.len()).filter(|at| !range.contains(at) && !(tag.offset..tag.offset + 4).contains(at));
        for at in others {
            prop_assert_eq!(after[at], before[at], "at {}", at);
        }
        // The same block again changes nothing.
        let written = (registers, extended.clone());
        target.write_all(&after, &mut registers, &mut extended).expect("the right length");
        prop_assert_eq!((registers, extended), written);
    }
}
