//! 32-bit programs, whose calls and registers are others. Their exec fails with ENOEXEC, as on a kernel that
//! runs 64-bit ones only: whoever wanted to start one is told so, and goes on. What is executed may be a
//! script whose interpreter is such a program. Where the recording's first program is one, there is nothing
//! to record (`base.rs`).

use std::{
    fs::{self, File},
    io::Read as _,
    os::unix::fs::PermissionsExt,
    path::PathBuf,
};

use bis_trace::types::{Fd, Tid};
use bis_tracee::proc;

use super::args::ExecArgs;
use crate::{calls::Entry, domain::Domain, error::Result};

/// How much the kernel reads of a file to find out what it is (`include/uapi/linux/binfmts.h`).
const HEAD: u64 = 256;

/// How many interpreters it follows (`fs/exec.c`).
const INTERPRETERS_MAX: usize = 5;

impl Domain {
    /// At the entry of an exec: its failure, if its program is a 32-bit one.
    pub(super) fn enter_narrow(&self, tid: Tid, exec: &ExecArgs) -> Result<Option<Entry>> {
        if self.tasks.get(&tid).is_some_and(|task| task.stand_in.is_some()) {
            return Ok(None);
        }
        let Some(path) = self.program(tid, exec).and_then(|path| narrow_program(tid, path)) else {
            return Ok(None);
        };
        let name = fs::read_link(&path).unwrap_or(path);
        let text = format!(
            "task {tid}: the exec of {} fails (ENOEXEC): it is a 32-bit program; bis records 64-bit ones",
            name.display()
        );
        self.session.note(self.session.writer.next_seq(), text)?;
        Ok(Some(Entry::Done(-i64::from(libc::ENOEXEC))))
    }
}

/// The 32-bit program that executes this file, if one does.
fn narrow_program(tid: Tid, mut path: PathBuf) -> Option<PathBuf> {
    for _ in 0..=INTERPRETERS_MAX {
        let meta = fs::metadata(&path).ok()?;
        // Another failure comes first.
        if !meta.is_file() || meta.permissions().mode() & 0o111 == 0 {
            return None;
        }
        let mut head = Vec::new();
        File::open(&path).ok()?.take(HEAD).read_to_end(&mut head).ok()?;
        if is_narrow(&head) {
            return Some(path);
        }
        let interpreter = interpreter(&head)?;
        path = proc::seen_by(tid, Fd::CURRENT_FOLDER, interpreter);
    }
    None
}

/// Is this the head of a 32-bit ELF file?
fn is_narrow(head: &[u8]) -> bool {
    const CLASS_32: u8 = 1;
    head.starts_with(b"\x7fELF") && head.get(4) == Some(&CLASS_32)
}

/// The interpreter that the head of a script names.
fn interpreter(head: &[u8]) -> Option<&[u8]> {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let line = head.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let name = line.split(is_blank).find(|word| !word.is_empty())?;
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_32_bit_program_is_known_by_its_head() {
        assert!(is_narrow(b"\x7fELF\x01\x01\x01"));
        assert!(!is_narrow(b"\x7fELF\x02\x01\x01") && !is_narrow(b"\x7fELF") && !is_narrow(b"#!/bin/sh"));
    }

    #[test]
    fn a_script_names_its_interpreter() {
        assert_eq!(interpreter(b"#! /bin/sh -e\nexit"), Some(&b"/bin/sh"[..]));
        assert_eq!(interpreter(b"#!env"), Some(&b"env"[..]));
        assert_eq!(interpreter(b"#!  \n/bin/sh"), None);
        assert_eq!(interpreter(b"echo"), None);
    }
}
