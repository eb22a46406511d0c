//! Files that really run with a dense text: a copy of a program or library whose executable segments are the
//! rewritten ones, with the trampolines in a segment of their own.
//!
//! The words and the hooks are at fixed addresses, and somebody must map them before the first count. The
//! entry point of a *starter* (a static program, or the dynamic linker) is preceded by code that does. Other
//! programs are run through a dynamic linker that is a starter.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use super::{
    elf::rel32,
    program::{AGAIN, RESUME},
    room::{Room, number},
};
use bis_rewrite::{
    COUNTS_MAX, Coverage, DenseLayout, DenseOptions, Place, SiteKind, SiteKinds, Text, count_word,
};

const WORDS: u32 = 0x7000_1000;
const CALLS: u32 = WORDS + 0x100;
const OTHERS: u32 = WORDS + 0x110;

/// lea rcx, [rcx - 2]; jmp rcx: from just after the call's instruction to it.
const MAKE_CALL: u64 = u64::from_le_bytes([0x48, 0x8d, 0x49, 0xfe, 0xff, 0xe1, 0xcc, 0xcc]);
/// lea rdx, [rdx - 2]; jmp rdx, in the same way.
const EXECUTE: u64 = u64::from_le_bytes([0x48, 0x8d, 0x52, 0xfe, 0xff, 0xe2, 0xcc, 0xcc]);

/// So many counts that none traps.
pub const ENDLESS: u64 = COUNTS_MAX;

pub const HOOKED: [SiteKind; 3] = [SiteKind::Syscall, SiteKind::Rdtsc, SiteKind::Cpuid];

/// Maps the words, fills them, and goes on at `entry`, with the instructions of which it took the place.
fn starter(at: u64, entry: u64, words: &[(u64, u64)], linker: Option<u64>) -> Vec<u8> {
    let mut code = Vec::new();
    // mmap(WORDS, 1 MiB, everything, private | anonymous | fixed, -1, 0)
    code.extend([0xb8, 9, 0, 0, 0, 0xbf]);
    code.extend(WORDS.to_le_bytes());
    code.extend([0xbe, 0, 0, 0x10, 0, 0xba, 7, 0, 0, 0, 0x41, 0xba, 0x32, 0, 0, 0]);
    code.extend([0x49, 0xc7, 0xc0, 0xff, 0xff, 0xff, 0xff, 0x45, 0x31, 0xc9, 0x0f, 0x05]);
    for (word, value) in words {
        // mov rax, value; mov [word], rax
        code.extend([0x48, 0xb8]);
        code.extend(value.to_le_bytes());
        code.extend([0x48, 0x89, 0x04, 0x25]);
        code.extend((*word as u32).to_le_bytes());
    }
    // What a fresh process has in its registers: nothing.
    code.extend([0x31, 0xc0, 0x31, 0xff, 0x31, 0xf6, 0x31, 0xd2, 0x31, 0xc9]);
    code.extend([0x45, 0x31, 0xd2, 0x45, 0x31, 0xc0, 0x45, 0x31, 0xdb]);
    let Some(function) = linker else {
        code.extend(rel32(&[0xe9], at + code.len() as u64, entry));
        return code;
    };
    // mov rdi, rsp; call function; jmp to what follows in the linker
    code.extend([0x48, 0x89, 0xe7]);
    code.extend(rel32(&[0xe8], at + code.len() as u64, function));
    code.extend(rel32(&[0xe9], at + code.len() as u64, entry + 8));
    code
}

/// As [`rewrite`], for a program of `program.rs` with a handler: each count after the first `counts` traps,
/// and it goes on with `again` more.
pub fn rewrite_trapping(
    elf: &[u8],
    short_loops: bool,
    counts: u64,
    again: u64,
) -> Option<(Vec<u8>, Coverage)> {
    make(elf, short_loops, Some(counts), Some(again))
}

/// A copy of `elf` with a dense text. `counts`: it is a starter, and traps after so many. Nothing if there is
/// no header to spare.
pub fn rewrite(elf: &[u8], short_loops: bool, counts: Option<u64>) -> Option<(Vec<u8>, Coverage)> {
    make(elf, short_loops, counts, None)
}

fn make(
    elf: &[u8],
    short_loops: bool,
    counts: Option<u64>,
    again: Option<u64>,
) -> Option<(Vec<u8>, Coverage)> {
    let room = Room::of(elf)?;
    let new = room.addr;
    let text = Text::parse(elf).expect("an ELF file");
    let plan = text.dense(DenseOptions { short_loops, hooks: SiteKinds::of(&HOOKED) });
    let layout = DenseLayout {
        trampolines: new,
        counter: WORDS,
        save: WORDS + 8,
        hooks: vec![
            (SiteKind::Syscall, u64::from(CALLS)),
            (SiteKind::Rdtsc, u64::from(OTHERS)),
            (SiteKind::Cpuid, u64::from(OTHERS)),
        ],
        hook_save: None,
    };
    let dense = plan.build(0, &layout).expect("near enough");
    let mut out = elf.to_vec();
    for segment in &dense.segments {
        let first = segment.offset as usize;
        let len = segment.bytes.len().min(out.len() - first);
        out[first..first + len].copy_from_slice(&segment.bytes[..len]);
    }
    let mut added = dense.trampolines;
    if let Some(counts) = counts {
        let (at, entry) = (new + added.len() as u64, number::<8>(elf, 24));
        // A dynamic linker looks whether it was started at its own entry point, so that must stay where it
        // is.
        let first = room.offset_of(elf, entry)?;
        let linker = match &out[first..first + 8] {
            [0x48, 0x89, 0xe7, 0xe8, distance @ ..] => {
                let distance = i64::from(i32::from_le_bytes(distance.try_into().expect("four bytes")));
                Some((entry + 8).wrapping_add_signed(distance))
            }
            _ => None,
        };
        let mut words = vec![
            (u64::from(WORDS), count_word(counts)),
            (u64::from(CALLS), MAKE_CALL),
            (u64::from(OTHERS), EXECUTE),
        ];
        if let Some(again) = again {
            words.push((AGAIN, count_word(again)));
            let mut at = RESUME + 8;
            for pc in new..new + added.len() as u64 {
                if let Some(Place::Count { resume, trap: true, .. }) = dense.map.place(0, pc) {
                    words.extend([(at, pc + 1), (at + 8, resume)]);
                    at += 16;
                }
            }
        }
        added.extend(starter(at, entry, &words, linker));
        match linker {
            Some(_) => out[first..first + 5].copy_from_slice(&rel32(&[0xe9], entry, at)),
            None => out[24..32].copy_from_slice(&at.to_le_bytes()),
        }
    }
    room.fill(&mut out, added);
    Some((out, *plan.coverage()))
}

/// Writes a program that is to be executed.
///
/// Another process does it: where this one has the file open for writing, whatever another test starts at the
/// same moment has it, too, until it executes its own program, and the kernel refuses to execute the file
/// (ETXTBSY).
pub fn write(path: &Path, bytes: &[u8]) {
    let mut install = Command::new("install");
    install.args(["-m", "755", "/dev/stdin"]).arg(path).stdin(Stdio::piped());
    let mut installs = install.spawn().expect("install starts");
    installs.stdin.take().expect("it is piped").write_all(bytes).expect("install reads");
    assert!(installs.wait().expect("ours").success(), "install {}", path.display());
}

const FOLDERS: [&str; 5] =
    ["/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/usr/lib"];

fn library(name: &str) -> Option<Vec<u8>> {
    FOLDERS.iter().find_map(|dir| fs::read(Path::new(dir).join(name)).ok())
}

/// A folder with a rewritten dynamic linker and rewritten libraries, to run rewritten programs on.
pub struct World {
    pub dir: tempfile::TempDir,
    short_loops: bool,
}

impl World {
    /// With these libraries, of those that the machine has. The linker sets up `counts`.
    pub fn new(libraries: &[&str], short_loops: bool, counts: u64) -> Option<Self> {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let linker =
            library("ld-linux-x86-64.so.2").or_else(|| fs::read("/lib64/ld-linux-x86-64.so.2").ok())?;
        let (linker, _) = rewrite(&linker, short_loops, Some(counts))?;
        write(&dir.path().join("ld.so"), &linker);
        for name in libraries {
            if let Some((bytes, _)) = library(name).and_then(|bytes| rewrite(&bytes, short_loops, None)) {
                write(&dir.path().join(name), &bytes);
            }
        }
        Some(Self { dir, short_loops })
    }

    /// Rewrites the program too; what starts it.
    pub fn program(&self, path: &Path) -> Option<PathBuf> {
        let (bytes, _) = rewrite(&fs::read(path).ok()?, self.short_loops, None)?;
        let to = self.dir.path().join(format!("program-{}", path.file_name()?.to_str()?));
        write(&to, &bytes);
        Some(to)
    }

    /// A command that runs `file` as if it were `program`.
    pub fn command(&self, program: &Path, file: &Path) -> Command {
        let mut command = Command::new(self.dir.path().join("ld.so"));
        command.arg("--library-path").arg(self.dir.path()).arg("--argv0").arg(program).arg(file);
        command
    }
}

#[track_caller]
pub fn same(what: &str, before: &Output, after: &Output) {
    let text = |output: &Output| {
        let of = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status, of(&output.stdout), of(&output.stderr))
    };
    assert!(!before.stdout.is_empty(), "{what} says nothing: {before:?}");
    assert!(text(before) == text(after), "{what}: {:?} is not {:?}", text(before), text(after));
}
