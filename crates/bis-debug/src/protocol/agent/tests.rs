//! Tests of [`super`].

use bis_trace::types::Addr;
use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// Registers 0 to 9 hold ten times their number; memory is this text at 0x1000.
#[derive(Default)]
struct Fake {
    variables: BTreeMap<u16, u64>,
}

const TEXT: &[u8] = b"\xff\xfe\xfd\xfc\xfb\xfa\xf9\xf8hello world\0";

impl Look for Fake {
    fn register(&mut self, number: u16) -> Option<u64> {
        (number < 10).then(|| 10 * u64::from(number))
    }

    fn memory(&mut self, addr: Addr, buffer: &mut [u8]) -> Result<(), Unreadable> {
        for (byte, addr) in buffer.iter_mut().zip(addr.and_behind(1)) {
            let at = addr.checked_since(Addr(0x1000)).filter(|at| *at < 0x1000).ok_or(Unreadable)?;
            *byte = usize::try_from(at).ok().and_then(|at| TEXT.get(at)).copied().unwrap_or(0);
        }
        Ok(())
    }

    fn variable(&mut self, number: u16) -> u64 {
        self.variables.get(&number).copied().unwrap_or(0)
    }

    fn set_variable(&mut self, number: u16, value: u64) {
        self.variables.insert(number, value);
    }
}

fn eval(code: &[u8]) -> Result<Outcome, Fault> {
    run(code, &mut Fake::default(), &Limits::default())
}

/// Bytecode: pushes these (as 64-bit constants), does this, ends.
fn code(stack: &[i64], ops: &[u8]) -> Vec<u8> {
    let pushes = stack.iter().flat_map(|value| std::iter::once(0x25).chain(value.to_be_bytes()));
    pushes.chain(ops.iter().copied()).chain([0x27]).collect()
}

fn check(stack: &[i64], ops: &[u8], expected: Result<i64, Fault>) {
    let found = eval(&code(stack, ops)).map(|outcome| outcome.value.map(u64::cast_signed));
    assert_eq!(found, expected.map(Some), "{stack:?} {ops:x?}");
}

#[test]
fn arithmetic() {
    check(&[7, 3], &[0x02], Ok(10));
    check(&[7, 9], &[0x03], Ok(-2));
    check(&[-7, 3], &[0x04], Ok(-21));
    check(&[-7, 2], &[0x05], Ok(-3));
    check(&[i64::MIN, -1], &[0x05], Ok(i64::MIN));
    check(&[-1, 2], &[0x06], Ok(i64::MAX));
    check(&[-7, 2], &[0x07], Ok(-1));
    check(&[i64::MIN, -1], &[0x07], Ok(0));
    check(&[-1, 16], &[0x08], Ok(15));
    for op in 0x05..=0x08 {
        check(&[1, 0], &[op], Err(Fault::DivisionByZero));
    }
    check(&[1, 4], &[0x09], Ok(16));
    check(&[1, 64], &[0x09], Ok(0));
    check(&[-16, 2], &[0x0a], Ok(-4));
    check(&[-16, 1000], &[0x0a], Ok(-1));
    check(&[-1, 60], &[0x0b], Ok(15));
    check(&[-1, -1], &[0x0b], Ok(0));
    check(&[5], &[0x0e], Ok(0));
    check(&[0], &[0x0e], Ok(1));
    check(&[6, 3], &[0x0f], Ok(2));
    check(&[6, 3], &[0x10], Ok(7));
    check(&[6, 3], &[0x11], Ok(5));
    check(&[0], &[0x12], Ok(-1));
    check(&[4, 4], &[0x13], Ok(1));
    check(&[-1, 1], &[0x14], Ok(1));
    check(&[-1, 1], &[0x15], Ok(0));
    check(&[0x80], &[0x16, 8], Ok(-128));
    check(&[0x17f], &[0x16, 8], Ok(127));
    check(&[-1], &[0x16, 64], Ok(-1));
    check(&[-1], &[0x16, 255], Ok(-1));
    check(&[-1], &[0x16, 0], Ok(0));
    check(&[-1], &[0x2a, 8], Ok(255));
    check(&[-1], &[0x2a, 64], Ok(-1));
    check(&[-1], &[0x2a, 0], Ok(0));
}

#[test]
fn the_stack() {
    check(&[1, 2], &[0x28, 0x02], Ok(4));
    check(&[1, 2], &[0x29], Ok(1));
    check(&[1, 2], &[0x2b, 0x03], Ok(1));
    check(&[1, 2, 3], &[0x32, 0], Ok(3));
    check(&[1, 2, 3], &[0x32, 2], Ok(1));
    check(&[1, 2, 3], &[0x32, 3], Err(Fault::Underflow));
    // a b c becomes c a b.
    check(&[1, 2, 3], &[0x33], Ok(2));
    check(&[1, 2, 3], &[0x33, 0x29], Ok(1));
    check(&[1, 2, 3], &[0x33, 0x29, 0x29], Ok(3));
    check(&[1, 2], &[0x33], Err(Fault::Underflow));
    check(&[1], &[0x02], Err(Fault::Underflow));
    check(&[0; 100], &[], Ok(0));
    check(&[0; 101], &[], Err(Fault::Overflow));
}

#[test]
fn what_it_looks_at() {
    check(&[], &[0x22, 0xff], Ok(255));
    check(&[], &[0x23, 1, 2], Ok(0x102));
    check(&[], &[0x24, 1, 2, 3, 4], Ok(0x102_0304));
    check(&[], &[0x26, 0, 7], Ok(70));
    check(&[], &[0x26, 1, 7], Err(Fault::NoRegister(0x107)));
    check(&[0x1000], &[0x17], Ok(0xff));
    check(&[0x1000], &[0x18], Ok(0xfeff));
    check(&[0x1000], &[0x19], Ok(0xfcfd_feff));
    check(&[0x1000], &[0x1a], Ok(0xf8f9_fafb_fcfd_feff_u64.cast_signed()));
    check(&[0x2000], &[0x17], Err(Fault::Memory(0x2000)));
    check(&[5], &[0x2d, 0, 1, 0x29, 0x2c, 0, 1], Ok(5));
    check(&[], &[0x2c, 0, 2], Ok(0));
    check(&[5], &[0x2e, 0, 1], Ok(5));
}

#[test]
fn tracing_does_nothing() {
    check(&[5, 0x1000, 4], &[0x0c], Ok(5));
    check(&[5, 0x1000, 4], &[0x2f], Ok(5));
    check(&[5], &[0x0d, 4], Ok(5));
    check(&[5], &[0x30, 0, 4], Ok(5));
    check(&[5], &[0x0c], Err(Fault::Underflow));
}

#[test]
fn jumps_and_ends() {
    // if_goto over the constant 1 to the constant 2.
    let choice = |condition: u8| eval(&[0x22, condition, 0x20, 0, 8, 0x22, 1, 0x27, 0x22, 2, 0x27]);
    assert_eq!(choice(0).map(|outcome| outcome.value), Ok(Some(1)));
    assert_eq!(choice(1).map(|outcome| outcome.value), Ok(Some(2)));
    assert_eq!(eval(&[0x21, 0, 0]), Err(Fault::Steps));
    assert_eq!(eval(&[0x21, 0, 3]), Err(Fault::Jump(3)));
    assert_eq!(eval(&[0x20]), Err(Fault::Underflow));
    assert_eq!(eval(&[]), Err(Fault::RunsOff));
    assert_eq!(eval(&[0x25, 0]), Err(Fault::RunsOff));
    assert_eq!(eval(&[0x31]), Err(Fault::NoInstruction(0x31)));
    assert_eq!(eval(&[0x1b]), Err(Fault::Unsupported(0x1b)));
    let empty = eval(&[0x27]).expect("an end");
    assert!(empty.value.is_none() && !empty.holds());
    assert!(eval(&[0x22, 2, 0x27]).expect("an end").holds());
}

fn printed(format: &str, arguments: &[i64]) -> Result<String, Fault> {
    let stack: Vec<i64> = arguments.iter().rev().copied().chain([0, 0]).collect();
    let len = u16::try_from(format.len() + 1).expect("short").to_be_bytes();
    let count = u8::try_from(arguments.len()).expect("few");
    let ops = [&[0x34, count], len.as_slice(), format.as_bytes(), &[0]].concat();
    Ok(String::from_utf8_lossy(&eval(&code(&stack, &ops))?.output).into_owned())
}

#[test]
fn printf() {
    let check = |format: &str, arguments: &[i64], expected: &str| {
        assert_eq!(printed(format, arguments).as_deref(), Ok(expected), "{format}");
    };
    check(r"a\tb\n\\\101\q%%", &[], "a\tb\n\\Aq%");
    check("%d %i %u", &[-1, 0x1_0000_0002, -1], "-1 2 4294967295");
    check("%ld %lu %hhd %hx", &[-1, -1, 0xff, -1], "-1 18446744073709551615 -1 ffff");
    check("%x %X %#x %o %#o %lx", &[255, 255, 255, 8, 8, -1], "ff FF 0xff 10 010 ffffffffffffffff");
    check("[%5d|%-5d|%05d|%+d|% d|%.3d]", &[42, 42, -42, 42, 42, 7], "[   42|42   |-0042|+42| 42|007]");
    check("%c%c%lc", &[65, 0x141, 0xe9], "AAé");
    check("%p", &[0x7fff], "0x7fff");
    check("<%s>", &[0x1008], "<hello world>");
    check("<%.5s> <%8.2s>", &[0x1008, 0x1008], "<hello> <      he>");
    let double = |value: f64| value.to_bits().cast_signed();
    check("%f %.2f %08.2f", &[double(1.5), double(-2.25), double(-2.25)], "1.500000 -2.25 -0002.25");
    check(
        "%e %g %g %g",
        &[double(1500.0), double(0.5), double(1e20), double(1e-5)],
        "1.500000e+03 0.5 1e+20 1e-05",
    );
    check("%G %f", &[double(1e20), double(f64::INFINITY)], "1E+20 inf");
    assert_eq!(printed("%d", &[]), Err(Fault::Format));
    assert_eq!(printed("%n", &[0]), Err(Fault::Format));
    assert_eq!(printed("%", &[0]), Err(Fault::Format));
    assert_eq!(printed("%99999d", &[0]), Err(Fault::Format));
    assert_eq!(printed("%*d", &[0, 0]), Err(Fault::Format));
    assert_eq!(printed("%s", &[0x2000]), Err(Fault::Memory(0x2000)));
    assert_eq!(printed(&"%4096d".repeat(17), &[0; 17]), Err(Fault::Output));
    assert_eq!(eval(&code(&[0, 0], &[0x34, 0, 0, 1, b'x'])), Err(Fault::Format), "no final zero");
}

/// Bytecode that is mostly right: pushes, then any instructions.
fn likely() -> impl Strategy<Value = Vec<u8>> {
    let op = prop_oneof![4 => 0x01u8..0x35, 1 => any::<u8>()];
    (prop::collection::vec(any::<i64>(), 0..6), prop::collection::vec(op, 0..60))
        .prop_map(|(stack, ops)| code(&stack, &ops))
}

proptest! {
    #[test]
    fn any_bytecode_ends(bytes in prop_oneof![prop::collection::vec(any::<u8>(), 0..80), likely()]) {
        let limits = Limits { steps: 1000, stack: 20, output: 5000 };
        if let Ok(outcome) = run(&bytes, &mut Fake::default(), &limits) {
            prop_assert!(outcome.output.len() <= limits.output);
        }
    }

    #[test]
    fn any_format_ends(
        format in prop::collection::vec(prop::sample::select(b"%%%%dsxfgelhc0123456789.-+# \\n'*a".to_vec()), 0..30),
        arguments in prop::collection::vec(prop_oneof![any::<i64>(), 0x1000i64..0x2000], 0..5),
    ) {
        let _ = printed(&String::from_utf8_lossy(&format), &arguments);
    }
}
