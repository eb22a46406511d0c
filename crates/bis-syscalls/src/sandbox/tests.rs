//! What filters say, and which of several is heard. (Programs at random, against the kernel:
//! `tests/sandbox.rs`.)

use super::*;

fn insn(code: u16, jt: u8, jf: u8, k: u32) -> Insn {
    Insn { code, jt, jf, k }
}

/// Load the number; if it is `nr`, answer `hit`, else `miss`.
fn about(nr: u32, hit: u32, miss: u32) -> Filter {
    let program = vec![insn(0x20, 0, 0, 0), insn(0x15, 0, 1, nr), insn(6, 0, 0, hit), insn(6, 0, 0, miss)];
    Filter::new(program).unwrap()
}

fn call(nr: u32) -> Question {
    Question { nr, ip: 0x40_1000, args: [0x1_0000_0002, 0, 0, 0, 0, 0], table: Table::Wide }
}

fn sandbox(filters: impl IntoIterator<Item = Filter>) -> Sandbox {
    let mut sandbox = Sandbox::default();
    filters.into_iter().for_each(|filter| sandbox.add(filter).unwrap());
    sandbox
}

#[test]
fn the_strictest_answer_wins_and_of_equals_the_newest() {
    let allow = action::ALLOW;
    let all = [
        about(1, action::ERRNO | 5, allow),
        about(1, action::ERRNO | 7, allow),
        about(2, action::LOG, allow),
        about(3, action::TRAP | 9, action::ALLOW),
        about(3, action::ERRNO | 1, allow),
        about(4, action::KILL_THREAD, allow),
        about(4, action::KILL_PROCESS, allow),
        about(5, action::TRACE | 3, allow),
        about(6, 0x1234_0000, allow),
        about(7, action::ERRNO | 0xffff, allow),
    ];
    let sandbox = sandbox(all);
    assert_eq!((sandbox.mode(), sandbox.len()), (2, 10));
    assert_eq!(sandbox.judge(&call(0)), Verdict::Allow);
    assert_eq!(sandbox.judge(&call(1)), Verdict::Errno(7));
    assert_eq!(sandbox.judge(&call(2)), Verdict::Allow);
    assert_eq!(sandbox.judge(&call(3)), Verdict::Trap(9));
    assert_eq!(sandbox.judge(&call(4)), Verdict::KillProcess);
    assert_eq!(sandbox.judge(&call(5)), Verdict::Trace(3));
    // No action that there is.
    assert_eq!(sandbox.judge(&call(6)), Verdict::KillProcess);
    assert_eq!(sandbox.judge(&call(7)), Verdict::Errno(4095));
}

#[test]
fn what_looks_at_no_argument_is_known_beforehand() {
    let argument = vec![
        insn(0x20, 0, 0, 0),
        insn(0x15, 0, 3, 10),
        insn(0x20, 0, 0, 16),
        insn(0x15, 0, 1, 2),
        insn(6, 0, 0, action::ERRNO | 1),
        insn(6, 0, 0, action::ALLOW),
    ];
    let sandbox = sandbox([Filter::new(argument).unwrap(), about(11, action::ERRNO | 2, action::ALLOW)]);
    assert!(sandbox.always_allows(9));
    assert!(!sandbox.always_allows(10) && !sandbox.always_allows(11));
    assert_eq!(sandbox.judge(&call(10)), Verdict::Errno(1));
    assert_eq!(sandbox.judge(&Question { args: [3; 6], ..call(10) }), Verdict::Allow);
}

#[test]
fn strict_mode_allows_four_calls() {
    let mut strict = Sandbox::default();
    strict.be_strict().unwrap();
    let allowed: Vec<u32> = (0..500).filter(|nr| strict.judge(&call(*nr)) == Verdict::Allow).collect();
    assert_eq!((strict.mode(), allowed), (1, vec![0, 1, 15, 60]));
    assert_eq!(strict.add(about(1, 0, 0)), Err(EINVAL));
    let mut filtered = sandbox([about(1, 0, action::ALLOW)]);
    assert_eq!(filtered.be_strict(), Err(EINVAL));
}

#[test]
fn a_thread_follows_only_where_it_has_nothing_of_its_own() {
    let old = sandbox([about(1, 0, action::ALLOW)]);
    let mut newer = old.clone();
    newer.add(about(2, 0, action::ALLOW)).unwrap();
    assert!(old.is_ancestor_of(&newer) && Sandbox::default().is_ancestor_of(&newer));
    assert!(!newer.is_ancestor_of(&old));
    // The same program, installed by itself.
    assert!(!sandbox([about(1, 0, action::ALLOW)]).is_ancestor_of(&newer));
}

#[test]
fn what_the_kernel_refuses_is_refused() {
    let ret = insn(6, 0, 0, 0);
    let bad = |program: &[Insn]| assert_eq!(Filter::new(program.to_vec()), Err(EINVAL), "{program:?}");
    bad(&[]);
    bad(&[insn(0x20, 0, 0, 0)]);
    bad(&[insn(0x20, 0, 0, 2), ret]);
    bad(&[insn(0x20, 0, 0, 64), ret]);
    bad(&[insn(0x15, 1, 0, 0), ret]);
    bad(&[insn(0x05, 0, 0, u32::MAX), ret]);
    bad(&[insn(0x34, 0, 0, 0), ret]);
    bad(&[insn(0x64, 0, 0, 32), ret]);
    bad(&[insn(0x94, 0, 0, 1), ret]);
    bad(&[insn(0x60, 0, 0, 0), ret]);
    bad(&[insn(0x02, 0, 0, 16), ret]);
    bad(&vec![ret; INSNS_MAX + 1]);
    assert!(Filter::new(vec![ret; INSNS_MAX]).is_ok());
    assert!(Filter::new(vec![insn(0x02, 0, 0, 3), insn(0x60, 0, 0, 3), ret]).is_ok());
}

#[test]
fn all_filters_together_have_a_limit() {
    let mut sandbox = Sandbox::default();
    let long = || Filter::new(vec![insn(6, 0, 0, action::ALLOW); INSNS_MAX]).unwrap();
    let added = (0..10).take_while(|_| sandbox.add(long()).is_ok()).count();
    assert_eq!(added, 7);
    assert_eq!(sandbox.add(long()), Err(ENOMEM));
}
