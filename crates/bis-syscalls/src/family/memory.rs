//! The address space. Most of these the recorder carries out specially, because replay must do the same to
//! the replayed address space; here are their shapes and the plain memory that some also write.

use super::words::*;
use crate::describe::names::{MAP_FLAGS, MLOCK_FLAGS, PROT};
use crate::plan::{When, Written};

#[rustfmt::skip]
pub(crate) static ROWS: &[Row] = &[
    call(9, "mmap", &[ptr("addr"), size("len"), named("prot", &PROT), named("flags", &MAP_FLAGS), fd("fd"), hex("offset")], Never).by(Handler::Mmap).plan(mmap).note("MAP_DROPPABLE fails with EINVAL: when the kernel drops a page cannot be recorded; as before Linux 6.11").hooked_for(Rule::of(HookShape::Memory), &[]),
    call(10, "mprotect", &[ptr("addr"), size("len"), named("prot", &PROT)], Never).by(Handler::Mprotect).fails_halfway().hooked_for(Rule::of(HookShape::Memory), &[]),
    call(11, "munmap", &[ptr("addr"), size("len")], Never).by(Handler::Munmap).hooked_for(Rule::of(HookShape::Memory), &[]),
    call(12, "brk", &[ptr("addr")], Never).by(Handler::Brk).hooked_for(Rule::of(HookShape::Memory), &[]),
    call(25, "mremap", &[ptr("addr"), size("old_len"), size("new_len"), hex("flags"), ptr("new_addr")], Never).by(Handler::Mremap),
    call(26, "msync", &[ptr("addr"), size("len"), hex("flags")], Never),
    call(27, "mincore", &[ptr("addr"), size("len"), via("vec", OUT)], Never).plan(mincore),
    call(28, "madvise", &[ptr("addr"), size("len"), int("advice")], Never).by(Handler::Madvise).fails_halfway().hooked_for(Rule::of(HookShape::Memory), &[]),
    call(149, "mlock", &[ptr("addr"), size("len")], Never),
    call(150, "munlock", &[ptr("addr"), size("len")], Never),
    call(151, "mlockall", &[named("flags", &MLOCK_FLAGS)], Never),
    call(152, "munlockall", &[], Never),
    call(216, "remap_file_pages", &[ptr("addr"), size("len"), hex("prot"), size("page"), hex("flags")], Never).by(Handler::RemapFilePages),
    call(237, "mbind", &[ptr("addr"), size("len"), int("mode"), inp("nodes"), size("max_node"), hex("flags")], Never),
    call(238, "set_mempolicy", &[int("mode"), inp("nodes"), size("max_node")], Never),
    call(239, "get_mempolicy", &[out("mode", Fixed(4)), via("nodes", OUT), size("max_node"), ptr("addr"), hex("flags")], Never).plan(get_mempolicy),
    call(256, "migrate_pages", &[int("pid"), size("max_node"), inp("old"), inp("new")], Never),
    call(279, "move_pages", &[int("pid"), size("count"), inp("pages"), inp("nodes"), always("status", N(1, 4)), hex("flags")], Never),
    call(323, "userfaultfd", &[hex("flags")], Never).refuse(ENOSYS, "page faults that another thread resolves cannot be recorded; as on a kernel without CONFIG_USERFAULTFD; a request to /dev/userfaultfd fails with ENOTTY"),
    call(325, "mlock2", &[ptr("addr"), size("len"), hex("flags")], Never),
    call(329, "pkey_mprotect", &[ptr("addr"), size("len"), named("prot", &PROT), int("pkey")], Never).by(Handler::PkeyMprotect),
    call(330, "pkey_alloc", &[hex("flags"), hex("rights")], Never).refuse(ENOSYS, "protection keys are state that replay does not rebuild; as on a kernel without them, and programs go on without"),
    call(331, "pkey_free", &[int("pkey")], Never).refuse(ENOSYS, "as pkey_alloc"),
    call(440, "process_madvise", &[fd("pidfd"), inp("iov"), size("count"), int("advice"), hex("flags")], Never).refuse(ENOSYS, "it changes another address space behind its recorder's back; as before Linux 5.10").traced("another process's memory"),
    call(447, "memfd_secret", &[hex("flags")], Never).refuse(ENOSYS, "memory that a recorder cannot read; as on a kernel with secretmem off"),
    call(448, "process_mrelease", &[fd("pidfd"), hex("flags")], Never).traced("another process's memory"),
    call(450, "set_mempolicy_home_node", &[ptr("addr"), size("len"), size("node"), hex("flags")], Never),
    call(453, "map_shadow_stack", &[ptr("addr"), size("len"), hex("flags")], Never).refuse(ENOSYS, "shadow stacks are state that replay does not rebuild; as before Linux 6.6"),
    call(462, "mseal", &[ptr("addr"), size("len"), hex("flags")], Never).note("replay does not seal: what sealing makes fail is in the recorded results"),
];

impl Row {
    const fn refuse(self, errno: i32, note: &'static str) -> Row {
        refused(self.nr, self.name, self.args, errno, note)
    }
}

/// The kernel may drop pages of droppable memory at any time, where it finds no other room.
fn mmap(b: &mut Builder<'_>) -> Verdict {
    const MAP_TYPE: u32 = 0xf;
    const MAP_DROPPABLE: u32 = 8;
    if b.call.u32(3) & MAP_TYPE == MAP_DROPPABLE {
        return Err(Stop::Refuse(EINVAL, "MAP_DROPPABLE; as before Linux 6.11"));
    }
    Ok(())
}

/// One byte for each page of the range; written page of bytes by page, so an error may come after some.
fn mincore(b: &mut Builder<'_>) -> Verdict {
    b.always(2, b.call.args[1].div_ceil(4096));
    Ok(())
}

/// Whole 8-byte words of the mask for `max_node - 1` bits; the kernel takes at most a page of bits,
/// and has written the mode when it refuses more.
fn get_mempolicy(b: &mut Builder<'_>) -> Verdict {
    b.always(0, 4);
    let words = b.call.args[2].min(4096 * 8).div_ceil(64);
    b.fields(1, words * 8, Written::All, When::Success);
    Ok(())
}
