//! The judging of calls by filters, against the kernel's: programs at random are given to both. Each is tried
//! in a thread of its own, because a filter stays for as long as the thread lives.

use bis_syscalls::sandbox::{Filter, Insn, Question, Sandbox, Table, Verdict};
use proptest::{prelude::*, test_runner::TestRunner};

/// The call that is asked about: it takes no arguments, so any may be given.
const ASKED: u32 = 110; // getppid
const ERRNO: u32 = 0x5_0000;
const ALLOW: u32 = 0x7fff_0000;

fn insn(code: u16, jt: u8, jf: u8, k: u32) -> Insn {
    Insn { code, jt, jf, k }
}

/// Instructions, mostly good ones.
fn any_insn() -> impl Strategy<Value = Insn> {
    let small = prop_oneof![0u32..16, 0u32..40, any::<u32>()];
    let codes = prop::sample::select(vec![
        0x00, 0x01, 0x02, 0x03, 0x60, 0x61, 0x80, 0x81, 0x04, 0x0c, 0x14, 0x1c, 0x24, 0x2c, 0x34, 0x3c, 0x44,
        0x4c, 0x54, 0x5c, 0x64, 0x6c, 0x74, 0x7c, 0x84, 0xa4, 0xac, 0x07, 0x87,
    ]);
    let jumps = prop::sample::select(vec![0x15, 0x1d, 0x25, 0x2d, 0x35, 0x3d, 0x45, 0x4d]);
    prop_oneof![
        12 => (codes, small).prop_map(|(code, k)| insn(code, 0, 0, k)),
        6 => (0u32..16).prop_map(|word| insn(0x20, 0, 0, word * 4)),
        4 => (jumps, 0u8..4, 0u8..4, prop_oneof![0u32..8, any::<u32>()]).prop_map(|(c, jt, jf, k)| insn(c, jt, jf, k)),
        1 => (0u32..3).prop_map(|k| insn(0x05, 0, 0, k)),
        1 => (any::<u8>(), any::<u32>()).prop_map(|(code, k)| {
            // A jump to nowhere, or none.
            insn(code.into(), 0, 0, if code == 5 { k | 100 } else { k % 70 })
        }),
    ]
}

/// What is there when the body ends is the errno of the call; all other calls are allowed.
fn program(body: Vec<Insn>) -> Vec<Insn> {
    let mut program = vec![
        insn(0x20, 0, 0, 0),
        insn(0x15, 1, 0, ASKED),
        insn(6, 0, 0, ALLOW),
        // So that many loads from memory are good.
        insn(0x02, 0, 0, 0),
        insn(0x02, 0, 0, 1),
        insn(0x02, 0, 0, 2),
    ];
    program.extend(body);
    // The farthest that a jump at its end leads.
    program.extend([insn(0x04, 0, 0, 0); 4]);
    program.extend([insn(0x54, 0, 0, 0x7ff), insn(0x44, 0, 0, ERRNO | 1), insn(0x16, 0, 0, 0)]);
    program
}

#[repr(C)]
struct Program {
    len: u16,
    filter: *const u8,
}

/// What the kernel says: whether it takes the program, and the errno of each call.
fn by_kernel(program: &[Insn], calls: &[[u64; 6]]) -> Result<Vec<i32>, i32> {
    let bytes: Vec<u8> = program.iter().flat_map(|insn| insn.to_bytes()).collect();
    let ask = move || {
        let errno = || std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
        let program =
            Program { len: u16::try_from(bytes.len() / Insn::LEN).unwrap(), filter: bytes.as_ptr() };
        // SAFETY: the arguments are what the two options want, and live until the call returns.
        let taken = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0
        };
        if !taken {
            return Err(errno());
        }
        let result = |args: &[u64; 6]| {
            let [a, b, c, d, e, f] = *args;
            // SAFETY: getppid looks at no argument.
            let result = unsafe { libc::syscall(ASKED.into(), a, b, c, d, e, f) };
            if result == -1 { errno() } else { 0 }
        };
        Ok(calls.iter().map(result).collect())
    };
    std::thread::scope(|scope| scope.spawn(ask).join().unwrap())
}

/// What our machine answers. (No program that is tried looks at the instruction's address.)
fn by_us(program: &[Insn], calls: &[[u64; 6]]) -> Result<Vec<i32>, i32> {
    let mut sandbox = Sandbox::default();
    sandbox.add(Filter::new(program.to_vec())?)?;
    let errno = |args: &[u64; 6]| match sandbox.judge(&Question {
        nr: ASKED,
        ip: 0,
        args: *args,
        table: Table::Wide,
    }) {
        Verdict::Errno(errno) => errno,
        // Nobody traces it.
        Verdict::Trace(_) => libc::ENOSYS,
        Verdict::Allow => 0,
        other => panic!("{other:?}"),
    };
    Ok(calls.iter().map(errno).collect())
}

#[test]
fn programs_mean_what_the_kernel_takes_them_for() {
    if let Err(errno) = by_kernel(&[insn(6, 0, 0, ALLOW)], &[]) {
        println!("not run: seccomp is not allowed here (errno {errno})");
        return;
    }
    let calls = prop::collection::vec(prop::array::uniform6(prop_oneof![0u64..5, any::<u64>()]), 4);
    let bodies = prop::collection::vec(any_insn(), 0..12);
    let config = ProptestConfig { cases: 3000, max_global_rejects: 30_000, ..ProptestConfig::default() };
    let mut runner = TestRunner::new(config);
    let taken = std::cell::Cell::new(0);
    let result = runner.run(&(bodies, calls), |(body, calls)| {
        // The instruction's address differs; a body that returns by itself, or divides by zero, might kill
        // us.
        let looks = |insn: &Insn| insn.code == 0x20 && (insn.k == 8 || insn.k == 12);
        let ends = |insn: &Insn| insn.code & 7 == 6 || insn.code == 0x3c;
        prop_assume!(!body.iter().any(|insn| looks(insn) || ends(insn)));
        let program = program(body);
        let found = by_us(&program, &calls);
        taken.set(taken.get() + u32::from(found.is_ok()));
        prop_assert_eq!(by_kernel(&program, &calls), found);
        Ok(())
    });
    result.unwrap();
    assert!(taken.get() > 100, "only {} programs were taken", taken.get());
}
