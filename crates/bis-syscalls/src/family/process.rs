//! Processes and threads: creation, exec, exit, waiting, ids.

use super::words::*;
use crate::describe::names::{CLONE_FLAGS, WAIT_FLAGS};
use crate::plan::{Slot, When, Written};

#[rustfmt::skip]
pub(crate) static ROWS: &[Row] = &[
    call(39, "getpid", &[], Never),
    call(56, "clone", &[named("flags", &CLONE_FLAGS), ptr("stack"), via("parent_tid", OUT), ptr("child_tid"), ptr("tls")], Never).by(Handler::Clone).makes(MakesTask::ByArguments).plan(clone),
    call(57, "fork", &[], Never).by(Handler::Fork).makes(MakesTask::With(FORK)),
    call(58, "vfork", &[], Never).by(Handler::Vfork).makes(MakesTask::With(VFORK)),
    call(59, "execve", &[path("path"), inp("argv"), inp("envp")], Never).by(Handler::Execve).note("a hook answers one of what is not there").hooked_for(Rule::of(HookShape::Exec).path(0), &[]),
    call(60, "exit", &[int("status")], Never).by(Handler::Exit),
    call(61, "wait4", &[int("pid"), out("status", Fixed(4)), named("options", &WAIT_FLAGS), out("rusage", Fixed(144))], If(wait4_waits)).by(Handler::Wait).plan(wait4).hooked_for(Rule::of(HookShape::Wait).flags(2), &[piece(1, Fixed(4)), piece(3, Fixed(144))]),
    call(102, "getuid", &[], Never),
    call(104, "getgid", &[], Never),
    call(105, "setuid", &[int("uid")], Never),
    call(106, "setgid", &[int("gid")], Never),
    call(107, "geteuid", &[], Never),
    call(108, "getegid", &[], Never),
    call(109, "setpgid", &[int("pid"), int("pgid")], Never),
    call(110, "getppid", &[], Never),
    call(111, "getpgrp", &[], Never),
    call(112, "setsid", &[], Never),
    call(113, "setreuid", &[int("ruid"), int("euid")], Never),
    call(114, "setregid", &[int("rgid"), int("egid")], Never),
    call(115, "getgroups", &[int("size"), out("list", Ret32(0, 4))], Never),
    call(116, "setgroups", &[int("size"), inp("list")], Never),
    call(117, "setresuid", &[int("ruid"), int("euid"), int("suid")], Never),
    call(118, "getresuid", &[out("ruid", Fixed(4)), out("euid", Fixed(4)), out("suid", Fixed(4))], Never),
    call(119, "setresgid", &[int("rgid"), int("egid"), int("sgid")], Never),
    call(120, "getresgid", &[out("rgid", Fixed(4)), out("egid", Fixed(4)), out("sgid", Fixed(4))], Never),
    call(121, "getpgid", &[int("pid")], Never),
    call(122, "setfsuid", &[int("uid")], Never),
    call(123, "setfsgid", &[int("gid")], Never),
    call(124, "getsid", &[int("pid")], Never),
    call(135, "personality", &[hex("persona")], Never).by(Handler::Personality),
    call(186, "gettid", &[], Never),
    call(218, "set_tid_address", &[ptr("tid")], Never).by(Handler::SetTidAddress).hooked_for(Rule::of(HookShape::Memory), &[]),
    call(231, "exit_group", &[int("status")], Never).by(Handler::ExitGroup),
    call(247, "waitid", &[int("which"), int("id"), out("info", Fixed(128)), named("options", &WAIT_FLAGS), out("rusage", Fixed(144))], If(waitid_waits)).by(Handler::Wait).plan(waitid).hooked_for(Rule::of(HookShape::Wait).flags(3), &[piece(2, Fixed(128)), piece(4, Fixed(144))]),
    call(272, "unshare", &[named("flags", &CLONE_FLAGS)], Never).traced("descriptors come and go that the hooks know nothing of"),
    call(308, "setns", &[fd("fd"), named("type", &CLONE_FLAGS)], Never).traced("descriptors come and go that the hooks know nothing of"),
    call(312, "kcmp", &[int("pid1"), int("pid2"), int("type"), size("idx1"), size("idx2")], Never),
    call(322, "execveat", &[dirfd("dirfd"), path("path"), inp("argv"), inp("envp"), hex("flags")], Never).by(Handler::Execveat),
    call(434, "pidfd_open", &[int("pid"), hex("flags")], Never),
    call(435, "clone3", &[via("args", INOUT), size("size")], Never).by(Handler::Clone3).makes(MakesTask::ByStruct).plan(clone3),
    call(438, "pidfd_getfd", &[fd("pidfd"), fd("target"), hex("flags")], Never).traced("descriptors come and go that the hooks know nothing of"),
];

/// SIGCHLD, with which the child's end is told. CLONE_VM and CLONE_VFORK beside it.
const FORK: u64 = 17;
const VFORK: u64 = FORK | 0x100 | 0x4000;

const CLONE_PIDFD: u64 = 0x1000;
const CLONE_PARENT_SETTID: u64 = 0x0010_0000;
const WNOHANG: u32 = 1;

fn wait4_waits(call: &Call) -> bool {
    call.u32(2) & WNOHANG == 0
}

fn waitid_waits(call: &Call) -> bool {
    call.u32(3) & WNOHANG == 0
}

/// Nothing is written when the result is 0 (WNOHANG, and no child has changed).
fn wait4(b: &mut Builder<'_>) -> Verdict {
    for (i, len) in [(1, 4), (3, 144)] {
        let slot = Slot::Arg(i);
        b.piece(slot, b.call.args[usize::from(i)], len, OUT, Written::All, When::Above(0));
    }
    Ok(())
}

/// Of the siginfo's 128 bytes the kernel writes six 4-byte fields: signo, errno, code, pid, uid, status. With
/// WNOHANG and nobody to wait for, and with an error, it writes zeros there, and leaves the rusage alone.
fn waitid(b: &mut Builder<'_>) -> Verdict {
    b.fields(2, 128, Written::Ranges(&[(0, 12), (16, 12)]), When::Always);
    b.inout(4, 144);
    Ok(())
}

/// The parent's tid word is written by PARENT_SETTID, or holds the descriptor of PIDFD. The child's word
/// (CHILD_SETTID) is written in the child's address space when it first runs: the recorder's matter.
fn clone(b: &mut Builder<'_>) -> Verdict {
    if b.call.args[0] & (CLONE_PARENT_SETTID | CLONE_PIDFD) != 0 {
        b.fixed(Slot::Arg(2), b.call.args[2], 4);
    }
    Ok(())
}

/// `struct clone_args`: flags at 0, the address of the pidfd at 8, of the parent's tid word at 24.
fn clone3(b: &mut Builder<'_>) -> Verdict {
    let at = b.call.args[0];
    let Some(flags) = b.u64_at(at) else { return Ok(()) };
    let Some(args) = b.input(0, b.call.args[1].min(4096)) else { return Ok(()) };
    b.pin(Some(args));
    for (flag, offset) in [(CLONE_PIDFD, 8), (CLONE_PARENT_SETTID, 24)] {
        if flags & flag != 0
            && let Some(addr) = b.u64_at(at.wrapping_add(offset))
        {
            b.fixed(Slot::In { piece: args, offset }, addr, 4);
        }
    }
    Ok(())
}
