//! Files by path and by descriptor: opening, reading, writing, attributes, directories. Not links and
//! extended attributes (`links.rs`), mounts (`mounts.rs`), or vectors (`vectors.rs`).

use super::words::*;
use crate::describe::names::{AT_FLAGS, OPEN_FLAGS, SEEK};

const STAT: Size = Fixed(144);
const STATFS: Size = Fixed(120);
/// Entries of a directory: the kernel skips the padding between them.
const ENTRIES: Size = Ret32(2, 1);

/// O_CREAT, O_WRONLY, O_TRUNC.
const CREAT: OpenFlags = OpenFlags::Always(0o100 | 1 | 0o1000);

#[rustfmt::skip]
pub(crate) static ROWS: &[Row] = &[
    call(0, "read", &[fd("fd"), out("buf", Ret(2, 1)), size("count")], ByFd).moves(Transfer::READ).hooked(Rule::PLAIN.waits(HookWait::Input).aligned()),
    call(1, "write", &[fd("fd"), inp("buf"), size("count")], ByFd).by(Handler::Write).moves(Transfer::WRITE).to(Target::fd(0)).hooked(Rule::PLAIN.writes().waits(HookWait::Output)),
    call(2, "open", &[path("path"), named("flags", &OPEN_FLAGS), mode("mode")], May).by(Handler::Open).opens(Opens::path(0, OpenFlags::In(1))).hooked(Rule::of(HookShape::Open).flags(1).path(0)),
    call(3, "close", &[fd("fd")], May).hooked(Rule::PLAIN.clears(0)),
    call(4, "stat", &[path("path"), out("buf", STAT)], Never),
    call(5, "fstat", &[fd("fd"), out("buf", STAT)], Never),
    call(6, "lstat", &[path("path"), out("buf", STAT)], Never),
    call(8, "lseek", &[fd("fd"), long("offset"), named("whence", &SEEK)], Never),
    call(17, "pread64", &[fd("fd"), out("buf", Ret(2, 1)), size("count"), long("offset")], ByFd).moves(Transfer::READ.at(3)).hooked(Rule::PLAIN.waits(HookWait::Input).aligned()),
    call(18, "pwrite64", &[fd("fd"), inp("buf"), size("count"), long("offset")], ByFd).by(Handler::Pwrite64).moves(Transfer::WRITE.at(3)).to(Target::fd(0).at(Given(3))).hooked(Rule::PLAIN.writes().waits(HookWait::Output)),
    call(21, "access", &[path("path"), mode("mode")], Never),
    call(22, "pipe", &[out("fds", Fixed(8))], Never).hooked(Rule::PLAIN.makes(HookMakes::Two)),
    call(32, "dup", &[fd("fd")], Never).hooked(Rule::PLAIN.makes(HookMakes::Copy)),
    call(33, "dup2", &[fd("old"), fd("new")], Never).hooked(Rule::PLAIN.clears(1).makes(HookMakes::Copy)),
    call(40, "sendfile", &[fd("out"), fd("in"), inout("offset", Fixed(8)), size("count")], May).by(Handler::Sendfile).moves(Transfer::WRITE.of(MovedBytes::Descriptor { count: 3 })).to(Target::fd(0).from(1)).hooked_for(Rule::PLAIN.writes().waits(HookWait::Output), &[piece(2, Fixed(8))]),
    call(73, "flock", &[fd("fd"), hex("op")], If(flock_waits)),
    call(74, "fsync", &[fd("fd")], May).hooked(Rule::of(HookShape::Disk)),
    call(75, "fdatasync", &[fd("fd")], May).hooked(Rule::of(HookShape::Disk)),
    call(76, "truncate", &[path("path"), long("length")], Never).by(Handler::Truncate).to(Target::path(0)),
    call(77, "ftruncate", &[fd("fd"), long("length")], Never).by(Handler::Ftruncate).to(Target::fd(0)).hooked(Rule::PLAIN.writes()),
    call(78, "getdents", &[fd("fd"), inout("buf", ENTRIES), uint("count")], Never),
    call(79, "getcwd", &[out("buf", Ret(1, 1)), size("size")], Never),
    call(80, "chdir", &[path("path")], Never).traced("what a relative path means"),
    call(81, "fchdir", &[fd("fd")], Never).traced("what a relative path means"),
    call(83, "mkdir", &[path("path"), mode("mode")], Never),
    call(84, "rmdir", &[path("path")], Never),
    call(85, "creat", &[path("path"), mode("mode")], May).by(Handler::Open).opens(Opens::path(0, CREAT)),
    call(90, "chmod", &[path("path"), mode("mode")], Never),
    call(91, "fchmod", &[fd("fd"), mode("mode")], Never),
    call(92, "chown", &[path("path"), int("uid"), int("gid")], Never),
    call(93, "fchown", &[fd("fd"), int("uid"), int("gid")], Never),
    call(94, "lchown", &[path("path"), int("uid"), int("gid")], Never),
    call(95, "umask", &[mode("mask")], Never),
    call(132, "utime", &[path("path"), inp("times")], Never),
    call(133, "mknod", &[path("path"), mode("mode"), hex("dev")], Never),
    call(136, "ustat", &[hex("dev"), out("buf", Fixed(32))], Never),
    call(137, "statfs", &[path("path"), out("buf", STATFS)], Never),
    call(138, "fstatfs", &[fd("fd"), out("buf", STATFS)], Never),
    call(161, "chroot", &[path("path")], Never).traced("what a relative path means"),
    call(162, "sync", &[], May).hooked(Rule::of(HookShape::Disk)),
    call(187, "readahead", &[fd("fd"), long("offset"), size("count")], Never),
    call(217, "getdents64", &[fd("fd"), inout("buf", ENTRIES), uint("count")], Never),
    call(221, "fadvise64", &[fd("fd"), long("offset"), size("len"), int("advice")], Never),
    call(235, "utimes", &[path("path"), inp("times")], Never),
    call(253, "inotify_init", &[], Never).hooked(Rule::PLAIN.makes(HookMakes::Harmless)),
    call(254, "inotify_add_watch", &[fd("fd"), path("path"), hex("mask")], Never),
    call(255, "inotify_rm_watch", &[fd("fd"), int("wd")], Never),
    call(257, "openat", &[dirfd("dirfd"), path("path"), named("flags", &OPEN_FLAGS), mode("mode")], May).by(Handler::Open).opens(Opens::beside(0, 1, OpenFlags::In(2))).hooked(Rule::of(HookShape::Open).flags(2).path(1)),
    call(258, "mkdirat", &[dirfd("dirfd"), path("path"), mode("mode")], Never),
    call(259, "mknodat", &[dirfd("dirfd"), path("path"), mode("mode"), hex("dev")], Never),
    call(260, "fchownat", &[dirfd("dirfd"), path("path"), int("uid"), int("gid"), named("flags", &AT_FLAGS)], Never),
    call(261, "futimesat", &[dirfd("dirfd"), path("path"), inp("times")], Never),
    call(262, "newfstatat", &[dirfd("dirfd"), path("path"), out("buf", STAT), named("flags", &AT_FLAGS)], Never),
    call(268, "fchmodat", &[dirfd("dirfd"), path("path"), mode("mode")], Never),
    call(269, "faccessat", &[dirfd("dirfd"), path("path"), mode("mode")], Never),
    call(275, "splice", &[fd("in"), inout("in_offset", Fixed(8)), fd("out"), inout("out_offset", Fixed(8)), size("len"), hex("flags")], May).by(Handler::Splice).to(Target::fd(2).from(0).at(Behind(3))),
    call(276, "tee", &[fd("in"), fd("out"), size("len"), hex("flags")], If(tee_waits)).by(Handler::Tee).to(Target::fd(1).from(0)),
    call(277, "sync_file_range", &[fd("fd"), long("offset"), long("len"), hex("flags")], May).hooked(Rule::of(HookShape::Disk)),
    call(280, "utimensat", &[dirfd("dirfd"), path("path"), inp("times"), named("flags", &AT_FLAGS)], Never),
    call(285, "fallocate", &[fd("fd"), hex("mode"), long("offset"), long("len")], Never).by(Handler::Fallocate).to(Target::fd(0)).hooked(Rule::PLAIN.writes()),
    call(292, "dup3", &[fd("old"), fd("new"), named("flags", &OPEN_FLAGS)], Never).hooked(Rule::PLAIN.clears(1).makes(HookMakes::Copy)),
    call(293, "pipe2", &[out("fds", Fixed(8)), named("flags", &OPEN_FLAGS)], Never).hooked(Rule::PLAIN.makes(HookMakes::Two)),
    call(294, "inotify_init1", &[named("flags", &OPEN_FLAGS)], Never).hooked(Rule::PLAIN.makes(HookMakes::Harmless)),
    call(300, "fanotify_init", &[hex("flags"), hex("event_flags")], Never),
    call(301, "fanotify_mark", &[fd("fd"), hex("flags"), hex("mask"), dirfd("dirfd"), path("path")], Never),
    call(303, "name_to_handle_at", &[dirfd("dirfd"), path("path"), via("handle", INOUT), out("mount_id", Fixed(8)), named("flags", &AT_FLAGS)], Never).plan(name_to_handle),
    call(304, "open_by_handle_at", &[fd("mount"), inp("handle"), named("flags", &OPEN_FLAGS)], May),
    call(306, "syncfs", &[fd("fd")], May).hooked(Rule::of(HookShape::Disk)),
    call(319, "memfd_create", &[path("name"), hex("flags")], Never).by(Handler::MemfdCreate).note("one named \"pulseaudio\" is refused (ENOSYS): the memory would be shared with the sound server").hooked_for(Rule::of(HookShape::Memfd), &[]),
    call(326, "copy_file_range", &[fd("in"), inout("in_offset", Fixed(8)), fd("out"), inout("out_offset", Fixed(8)), size("len"), hex("flags")], May).by(Handler::CopyFileRange).to(Target::fd(2).from(0).at(Behind(3))).hooked_for(Rule::of(HookShape::Copy).writes(), &[piece(1, Fixed(8)), piece(3, Fixed(8))]),
    call(332, "statx", &[dirfd("dirfd"), path("path"), named("flags", &AT_FLAGS), hex("mask"), out("buf", Fixed(256))], Never),
    call(436, "close_range", &[uint("first"), uint("last"), hex("flags")], May).traced("descriptors come and go that the hooks know nothing of"),
    call(437, "openat2", &[dirfd("dirfd"), path("path"), inp("how"), size("size")], May).by(Handler::Open).opens(Opens::beside(0, 1, OpenFlags::Behind(2))),
    call(439, "faccessat2", &[dirfd("dirfd"), path("path"), mode("mode"), named("flags", &AT_FLAGS)], Never),
    call(451, "cachestat", &[fd("fd"), inp("range"), out("stat", Fixed(40)), hex("flags")], Never),
    call(452, "fchmodat2", &[dirfd("dirfd"), path("path"), mode("mode"), named("flags", &AT_FLAGS)], Never),
    call(468, "file_getattr", &[dirfd("dirfd"), path("path"), inout("attr", N(3, 1)), size("size"), named("flags", &AT_FLAGS)], Never),
    call(469, "file_setattr", &[dirfd("dirfd"), path("path"), inp("attr"), size("size"), named("flags", &AT_FLAGS)], Never),
];

/// Not LOCK_NB, not LOCK_UN.
fn flock_waits(call: &Call) -> bool {
    call.u32(1) & (4 | 8) == 0
}

/// Not SPLICE_F_NONBLOCK. For `splice` itself that says nothing: the flag concerns its pipe, not what is at
/// the other end.
fn tee_waits(call: &Call) -> bool {
    call.u32(3) & 2 == 0
}

/// `struct file_handle`: the room for the handle (which is the size that it needs, after EOVERFLOW), its
/// type, then the handle. The mount's id is an int, or 8 bytes with AT_HANDLE_MNT_ID_UNIQUE (1).
fn name_to_handle(b: &mut Builder<'_>) -> Verdict {
    let room = b.u32_at(b.call.args[2]).unwrap_or(0).min(128);
    b.always(2, 8 + u64::from(room));
    let id_len = if b.call.u32(4) & 1 != 0 { 8 } else { 4 };
    b.always(3, id_len);
    Ok(())
}
