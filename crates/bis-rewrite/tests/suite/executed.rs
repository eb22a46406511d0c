//! Trampolines, executed. A copy of a real program or library is rewritten as a file: every run that the
//! analysis allows is patched, the trampolines and a hook come in a segment of their own. The hook does
//! nothing but make the call, at the trampoline's own instruction. The program must then do what it did
//! before.
//!
//! With a hook that is an invalid instruction instead, it must die of that: so the calls really go this way.

use std::{
    fs,
    os::unix::process::ExitStatusExt as _,
    path::PathBuf,
    process::{Command, Output},
};

use crate::common::{
    dense::write,
    room::{Room, number},
};
use bis_rewrite::{Entry, Hook, SiteKind, Text, trampoline};

const SIGILL: i32 = 4;

/// lea rcx, [rcx - 2]; jmp rcx: from just after the call's instruction to it.
const MAKE_CALL: [u8; 6] = [0x48, 0x8d, 0x49, 0xfe, 0xff, 0xe1];
/// lea rdx, [rdx - 2]; jmp rdx, in the same way.
const EXECUTE: [u8; 6] = [0x48, 0x8d, 0x52, 0xfe, 0xff, 0xe2];
const DIE: [u8; 6] = [0x0f, 0x0b, 0x0f, 0x0b, 0x0f, 0x0b];

/// A copy in which all sites are patched, and how many those are; nothing if there is no header to spare.
fn rewrite(elf: &[u8], hook: [u8; 6]) -> Option<(Vec<u8>, usize)> {
    let fixed = number::<2>(elf, 16) == 2;
    let room = Room::of(elf)?;
    let new = room.addr;
    let mut out = elf.to_vec();
    // Two slots with the hooks' addresses, then the hooks, then the trampolines.
    let (calls, others) = (new + 16, new + 24);
    let mut segment = [calls.to_le_bytes(), others.to_le_bytes()].concat();
    segment.extend(hook);
    segment.resize(24, 0xcc);
    segment.extend(if hook == MAKE_CALL { EXECUTE } else { hook });
    segment.resize(64, 0xcc);
    let mut patched = 0;
    let text = Text::parse(elf).expect("an ELF file");
    for (site, kind) in text.sites() {
        let Ok(run) = text.run_at(site) else { continue };
        let slot = match kind {
            SiteKind::Syscall => new,
            SiteKind::Rdtsc | SiteKind::Cpuid => new + 8,
            _ => continue,
        };
        let place = room.offset_of(elf, run.start()).expect("in the file");
        if !run.matches(&out[place..]) {
            // Its neighbour took some of its bytes.
            continue;
        }
        let at = new + segment.len() as u64;
        let mut made = trampoline(&run, 0, at, Hook { slot, save: None }).expect("near");
        if !fixed {
            // Nobody adds to the slots' content what a library's addresses are moved by: jump without them.
            let jump = (made.traced - at) as usize - 6;
            assert_eq!(made.bytes[jump..jump + 2], [0xff, 0x25]);
            let to = if kind.entry() == Entry::Rcx { calls } else { others };
            let distance = to.wrapping_sub(made.traced) as i64 as i32;
            made.bytes[jump..jump + 2].copy_from_slice(&[0x90, 0xe9]);
            made.bytes[jump + 2..jump + 6].copy_from_slice(&distance.to_le_bytes());
        }
        segment.extend(made.bytes);
        out[place..place + made.patch.len()].copy_from_slice(&made.patch);
        patched += 1;
    }
    room.fill(&mut out, segment);
    Some((out, patched))
}

#[track_caller]
fn same(what: &str, before: &Output, after: &Output) {
    let text = |output: &Output| {
        let of = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status, of(&output.stdout), of(&output.stderr))
    };
    assert!(!before.stdout.is_empty(), "{what} says nothing");
    assert_eq!(text(before), text(after), "{what}");
}

const SCRIPT: &str = "set -e; d=$(mktemp -d); cd $d; for i in 1 2 3; do echo line $i >> f; done; cat f | sort -r | md5sum; \
    mkdir sub; mv f sub/g; ln -s sub/g h; ls -1 . sub; (sleep 0.01; echo later) & wait; \
    trap 'echo caught' USR1; kill -USR1 $$; find . | sort; head -c 100000 /dev/zero | sha256sum; dd if=/dev/zero bs=512 count=9 2>/dev/null | wc -c; \
    (exit 3) || echo $?; cd /; rm -r $d; uname -s; echo done";

/// A static program, if there is one.
#[test]
fn a_static_program_runs_rewritten() {
    let candidates = ["/usr/bin/busybox", "/bin/busybox", "/bin/busybox-static"];
    let Some(busybox) = candidates.into_iter().find_map(|path| fs::read(path).ok()) else {
        eprintln!("not run: there is no busybox on this machine");
        return;
    };
    if number::<2>(&busybox, 16) != 2 {
        eprintln!("not run: this machine's busybox is not linked for a fixed address");
        return;
    }
    let dir = tempfile::tempdir().expect("a temporary folder");
    let (plain, path) = (dir.path().join("plain/busybox"), dir.path().join("rewritten/busybox"));
    for file in [&plain, &path] {
        fs::create_dir(file.parent().expect("a folder")).expect("a folder");
    }
    write(&plain, &busybox);
    let run = |path: &PathBuf| Command::new(path).args(["sh", "-c", SCRIPT]).output().expect("it starts");
    let before = run(&plain);
    let (bytes, patched) = rewrite(&busybox, MAKE_CALL).expect("a header to spare");
    assert!(patched > 100, "only {patched} sites");
    write(&path, &bytes);
    same("busybox", &before, &run(&path));

    let (bytes, _) = rewrite(&busybox, DIE).expect("a header to spare");
    write(&path, &bytes);
    assert_eq!(run(&path).status.signal(), Some(SIGILL));
}

/// The C library under all kinds of programs.
#[test]
fn programs_run_on_a_rewritten_c_library() {
    let library = &crate::common::libraries()[0];
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("libc.so.6");
    let run = |command: &[&str], rewritten: bool| {
        let mut started = Command::new(command[0]);
        started.args(&command[1..]).env_remove("LD_LIBRARY_PATH");
        if rewritten {
            started.env("LD_LIBRARY_PATH", dir.path());
        }
        started.output()
    };
    let Some((bytes, patched)) = rewrite(library, MAKE_CALL) else {
        eprintln!("not run: this machine's C library has no header to spare");
        return;
    };
    assert!(patched > 300, "only {patched} sites");
    write(&path, &bytes);
    let threads = "import threading, os, time, subprocess, select, socket, signal\n\
        out = []\n\
        ts = [threading.Thread(target=lambda i=i: (time.sleep(0.001 * i), out.append(i))) for i in range(20)]\n\
        [t.start() for t in ts]; [t.join() for t in ts]; print(sorted(out))\n\
        print(subprocess.check_output(['echo', 'child']))\n\
        a, b = socket.socketpair(); a.send(b'x' * 1000); print(len(b.recv(2000)), select.select([a], [], [], 0.001))\n\
        signal.signal(signal.SIGALRM, lambda *_: print('alarm')); signal.setitimer(signal.ITIMER_REAL, 0.01); time.sleep(0.05)\n\
        p = os.fork()\n\
        if p == 0: os._exit(7)\n\
        print(os.waitpid(p, 0)[1], os.getcwd() == os.path.realpath('.'))\n";
    let commands: [&[&str]; 5] = [
        &["/bin/sh", "-c", SCRIPT],
        &["/bin/bash", "-c", SCRIPT],
        &["/usr/bin/python3", "-c", threads],
        &[
            "/usr/bin/perl",
            "-e",
            "print `echo from a child`, join ' ', map { $_ * 2 } 1..3; sleep 0; print \"\\n\"",
        ],
        &["/usr/bin/sort", "--parallel=4", "-S1M", "/etc/passwd"],
    ];
    let mut ran = 0;
    for command in commands {
        let Ok(before) = run(command, false) else { continue };
        same(command[0], &before, &run(command, true).expect("it starts"));
        ran += 1;
    }
    assert!(ran >= 2);

    let (bytes, _) = rewrite(library, DIE).expect("a header to spare");
    write(&path, &bytes);
    assert_eq!(run(commands[0], true).expect("it starts").status.signal(), Some(SIGILL));
}
