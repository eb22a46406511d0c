//! Names of files: links, renaming, removing, and extended attributes.

use super::words::*;
use crate::describe::names::AT_FLAGS;

#[rustfmt::skip]
pub(crate) static ROWS: &[Row] = &[
    call(82, "rename", &[path("old"), path("new")], Never),
    call(86, "link", &[path("old"), path("new")], Never),
    call(87, "unlink", &[path("path")], Never),
    call(88, "symlink", &[path("target"), path("path")], Never),
    call(89, "readlink", &[path("path"), out("buf", Ret32(2, 1)), int("size")], Never),
    call(263, "unlinkat", &[dirfd("dirfd"), path("path"), named("flags", &AT_FLAGS)], Never),
    call(264, "renameat", &[dirfd("old_dirfd"), path("old"), dirfd("new_dirfd"), path("new")], Never),
    call(265, "linkat", &[dirfd("old_dirfd"), path("old"), dirfd("new_dirfd"), path("new"), named("flags", &AT_FLAGS)], Never),
    call(266, "symlinkat", &[path("target"), dirfd("dirfd"), path("path")], Never),
    call(267, "readlinkat", &[dirfd("dirfd"), path("path"), out("buf", Ret32(3, 1)), int("size")], Never),
    call(316, "renameat2", &[dirfd("old_dirfd"), path("old"), dirfd("new_dirfd"), path("new"), hex("flags")], Never),
    call(188, "setxattr", &[path("path"), path("name"), inp("value"), size("size"), hex("flags")], Never),
    call(189, "lsetxattr", &[path("path"), path("name"), inp("value"), size("size"), hex("flags")], Never),
    call(190, "fsetxattr", &[fd("fd"), path("name"), inp("value"), size("size"), hex("flags")], Never),
    call(191, "getxattr", &[path("path"), path("name"), out("value", Ret(3, 1)), size("size")], Never),
    call(192, "lgetxattr", &[path("path"), path("name"), out("value", Ret(3, 1)), size("size")], Never),
    call(193, "fgetxattr", &[fd("fd"), path("name"), out("value", Ret(3, 1)), size("size")], Never),
    call(194, "listxattr", &[path("path"), out("list", Ret(2, 1)), size("size")], Never),
    call(195, "llistxattr", &[path("path"), out("list", Ret(2, 1)), size("size")], Never),
    call(196, "flistxattr", &[fd("fd"), out("list", Ret(2, 1)), size("size")], Never),
    call(197, "removexattr", &[path("path"), path("name")], Never),
    call(198, "lremovexattr", &[path("path"), path("name")], Never),
    call(199, "fremovexattr", &[fd("fd"), path("name")], Never),
    call(463, "setxattrat", &[dirfd("dirfd"), path("path"), named("flags", &AT_FLAGS), path("name"), inp("args"), size("size")], Never),
    call(464, "getxattrat", &[dirfd("dirfd"), path("path"), named("flags", &AT_FLAGS), path("name"), via("args", INOUT), size("size")], Never).plan(getxattrat),
    call(465, "listxattrat", &[dirfd("dirfd"), path("path"), named("flags", &AT_FLAGS), out("list", Ret(4, 1)), size("size")], Never),
    call(466, "removexattrat", &[dirfd("dirfd"), path("path"), named("flags", &AT_FLAGS), path("name")], Never),
];

/// `struct xattr_args`: the address of the value, its room (u32), flags (u32).
fn getxattrat(b: &mut Builder<'_>) -> Verdict {
    let at = b.call.args[4];
    let (Some(value), Some(room)) = (b.u64_at(at), b.u32_at(at.wrapping_add(8))) else { return Ok(()) };
    let Some(args) = b.input(4, b.call.args[5].min(4096)) else { return Ok(()) };
    b.nested_ret(args, 0, value, room.into(), 1);
    Ok(())
}
