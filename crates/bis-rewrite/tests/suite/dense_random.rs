//! Random programs, run natively and with a dense text: without a trap, with a trap at every count, and at
//! every third. All must say the same.

use std::{
    process::Command,
    sync::atomic::{AtomicUsize, Ordering},
};

use crate::common::{
    dense::{ENDLESS, rewrite, rewrite_trapping, write},
    program::{Program, elf},
};
use proptest::prelude::*;

/// What a program writes, and its exit code.
fn run(path: &std::path::Path, bytes: &[u8]) -> (Vec<u8>, Option<i32>) {
    write(path, bytes);
    let output = Command::new(path).output().expect("it starts");
    (output.stdout, output.status.code())
}

#[test]
fn random_programs_run_as_before() {
    let trapped = AtomicUsize::new(0);
    let config = ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(numbers in prop::collection::vec(any::<u32>(), 50..600))| {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = |name: &str| dir.path().join(name);
        let (code, tables, functions) = Program::random(&numbers, true);
        let bytes = elf(&code, &tables, &functions);
        let (before, code) = run(&path("plain"), &bytes);
        prop_assert_eq!(code, Some(0));
        prop_assert!(!before.is_empty());
        for short_loops in [false, true] {
            let (bytes, coverage) = rewrite(&bytes, short_loops, Some(ENDLESS)).expect("a header to spare");
            let (after, code) = run(&path("dense"), &bytes);
            prop_assert_eq!(code, Some(0));
            prop_assert!(after == before, "{:?}", coverage);
        }
        for again in [0, 2] {
            let (bytes, coverage) = rewrite_trapping(&bytes, true, again, again).expect("a header to spare");
            let (after, code) = run(&path("trapping"), &bytes);
            // Its exit code says whether it trapped.
            prop_assert!(matches!(code, Some(0 | 1)), "it died: {:?}", coverage);
            prop_assert!(after == before, "{:?}", coverage);
            trapped.fetch_add(usize::from(code == Some(1)), Ordering::Relaxed);
        }
    });
    let trapped = trapped.into_inner();
    assert!(trapped > 300, "only {trapped} of 600 trapped at all");
}
