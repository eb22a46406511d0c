//! The machine and the kernel: names, statistics, logs, modules, and calls that are gone.

use super::words::*;
use crate::plan::{Count, When, Written};

#[rustfmt::skip]
pub(crate) static ROWS: &[Row] = &[
    call(63, "uname", &[out("buf", Fixed(390))], Never),
    call(99, "sysinfo", &[out("info", Fixed(112))], Never),
    call(103, "syslog", &[int("action"), via("buf", OUT), int("len")], If(|c| c.u32(0) == 2)).plan(syslog),
    gone(134, "uselib"),
    call(139, "sysfs", &[int("option"), hex("arg1"), via("buf", OUT)], Never).plan(sysfs),
    call(153, "vhangup", &[], Never),
    refused(154, "modify_ldt", &[int("func"), ptr("buf"), size("count")], ENOSYS, "segments are state that replay does not rebuild; as on a kernel without CONFIG_MODIFY_LDT_SYSCALL"),
    gone(156, "_sysctl"),
    call(163, "acct", &[path("path")], Never),
    call(167, "swapon", &[path("path"), hex("flags")], Never).traced("it changes all of the machine"),
    call(168, "swapoff", &[path("path")], Never).traced("it changes all of the machine"),
    refused(169, "reboot", &[hex("magic"), hex("magic2"), hex("cmd"), ptr("arg")], EPERM, "it would end the recorder too; as without CAP_SYS_BOOT"),
    call(170, "sethostname", &[path("name"), int("len")], Never),
    call(171, "setdomainname", &[path("name"), int("len")], Never),
    refused(172, "iopl", &[int("level")], EPERM, "port input cannot be recorded; as without CAP_SYS_RAWIO"),
    refused(173, "ioperm", &[hex("from"), size("count"), int("on")], EPERM, "port input cannot be recorded; as without CAP_SYS_RAWIO"),
    gone(174, "create_module"),
    call(175, "init_module", &[inp("image"), size("len"), path("params")], Never).traced("it changes all of the machine"),
    call(176, "delete_module", &[path("name"), hex("flags")], Never).traced("it changes all of the machine"),
    gone(177, "get_kernel_syms"),
    gone(178, "query_module"),
    gone(180, "nfsservctl"),
    gone(181, "getpmsg"),
    gone(182, "putpmsg"),
    gone(183, "afs_syscall"),
    gone(184, "tuxcall"),
    gone(185, "security"),
    gone(205, "set_thread_area"),
    refused(206, "io_setup", &[uint("count"), ptr("ctx")], ENOSYS, "the kernel writes completions at any time; as on a kernel without CONFIG_AIO"),
    refused(207, "io_destroy", &[hex("ctx")], ENOSYS, "as io_setup"),
    refused(208, "io_getevents", &[hex("ctx"), long("min"), long("max"), ptr("events"), ptr("timeout")], ENOSYS, "as io_setup"),
    refused(209, "io_submit", &[hex("ctx"), long("count"), ptr("iocbs")], ENOSYS, "as io_setup"),
    refused(210, "io_cancel", &[hex("ctx"), ptr("iocb"), ptr("result")], ENOSYS, "as io_setup"),
    gone(211, "get_thread_area"),
    gone(212, "lookup_dcookie"),
    gone(236, "vserver"),
    refused(246, "kexec_load", &[hex("entry"), size("count"), ptr("segments"), hex("flags")], EPERM, "it would replace the kernel under the recorder; as without CAP_SYS_BOOT"),
    refused(298, "perf_event_open", &[ptr("attr"), int("pid"), int("cpu"), fd("group"), hex("flags")], ENOSYS, "counters differ from run to run and their buffers are written at any time; as on a kernel without CONFIG_PERF_EVENTS"),
    call(313, "finit_module", &[fd("fd"), path("params"), hex("flags")], Never).traced("it changes all of the machine"),
    call(318, "getrandom", &[out("buf", Ret(1, 1)), size("len"), hex("flags")], If(|c| c.u32(2) & 1 == 0)).hooked(Rule::of(HookShape::Random)),
    refused(320, "kexec_file_load", &[fd("kernel"), fd("initrd"), size("len"), path("cmdline"), hex("flags")], EPERM, "as kexec_load"),
    refused(333, "io_pgetevents", &[hex("ctx"), long("min"), long("max"), ptr("events"), ptr("timeout"), ptr("mask")], ENOSYS, "as io_setup"),
    refused(334, "rseq", &[ptr("area"), uint("len"), hex("flags"), hex("sig")], ENOSYS, "the kernel writes the area at every preemption; as before Linux 4.18, and C libraries go on without").hooked_for(Rule::of(HookShape::Refused), &[]),
    refused(335, "uretprobe", &[], ENOSYS, "only the kernel's own trampolines make it"),
    refused(336, "uprobe", &[], ENOSYS, "only the kernel's own trampolines make it"),
    refused(425, "io_uring_setup", &[uint("entries"), ptr("params")], ENOSYS, "the kernel writes the rings at any time; as on a kernel without CONFIG_IO_URING, and programs fall back"),
    refused(426, "io_uring_enter", &[fd("fd"), uint("submit"), uint("min"), hex("flags"), ptr("arg"), size("size")], ENOSYS, "as io_uring_setup"),
    refused(427, "io_uring_register", &[fd("fd"), uint("op"), ptr("arg"), uint("count")], ENOSYS, "as io_uring_setup"),
];

/// Actions 2 (READ), 3 (READ_ALL) and 4 (READ_CLEAR) write as many bytes as they return.
fn syslog(b: &mut Builder<'_>) -> Verdict {
    if matches!(b.call.u32(0), 2..=4) {
        let len = u64::try_from(b.call.i32(2)).unwrap_or(0);
        let written = Written::Counted { count: Count::Ret, unit: 1 };
        b.fields(1, len, written, When::Success);
    }
    Ok(())
}

/// Option 2 writes the name of a file system, a string whose room nobody says.
fn sysfs(b: &mut Builder<'_>) -> Verdict {
    match b.call.u32(0) {
        2 => Err(Stop::Slow("sysfs(2) writes a string of unknown length")),
        _ => Ok(()),
    }
}
