//! prctl and arch_prctl: which options write memory, and which must not reach the kernel.

use super::words::*;
use crate::describe::names::{ARCH_PRCTL_OPTIONS, PRCTL_OPTIONS};
use crate::plan::{Count, When, Written};

#[rustfmt::skip]
pub(crate) static ROWS: &[Row] = &[
    call(157, "prctl", &[named("option", &PRCTL_OPTIONS), hex("arg2"), hex("arg3"), hex("arg4"), hex("arg5")], Never).by(Handler::Prctl).plan(prctl).note("PR_SET_MM fails with EPERM, as without CAP_SYS_RESOURCE").hooked_for(Rule::of(HookShape::Prctl), &[]),
    call(158, "arch_prctl", &[named("option", &ARCH_PRCTL_OPTIONS), hex("addr")], Never).by(Handler::ArchPrctl).plan(arch_prctl).hooked_for(Rule::of(HookShape::Memory), &[]),
];

const PR_GET_AUXV: u32 = 0x4155_5856;
const PR_SET_VMA: u32 = 0x5356_4d41;
const PR_SET_PTRACER: u32 = 0x5961_6d61;

fn prctl(b: &mut Builder<'_>) -> Verdict {
    let written = Written::Counted { count: Count::Ret, unit: 1 };
    match b.call.u32(0) {
        // GET_PDEATHSIG, GET_UNALIGN, GET_FPEMU, GET_FPEXC, GET_ENDIAN, GET_TSC, GET_CHILD_SUBREAPER.
        2 | 5 | 9 | 11 | 19 | 25 | 37 => b.out(1, 4),
        // GET_NAME.
        16 => b.out(1, 16),
        // GET_TID_ADDRESS.
        40 => b.out(1, 8),
        // SET_MM: MAP_SIZE.
        35 if b.call.u32(1) == 15 => b.out(2, 4),
        // SCHED_CORE: GET.
        62 if b.call.u32(1) == 0 => b.out(4, 8),
        // The result is the whole length, whatever the room.
        PR_GET_AUXV => b.fields(1, b.call.args[2].min(4096), written, When::Success),
        59 => {
            return Err(Stop::Refuse(
                EINVAL,
                "PR_SET_SYSCALL_USER_DISPATCH would hide calls; as before 5.11",
            ));
        }
        // Other options that are known only read memory, or have none.
        1..=66 | 71..=78 | PR_SET_VMA | PR_SET_PTRACER => None,
        _ => return Err(Stop::Slow("unknown prctl option")),
    };
    Ok(())
}

fn arch_prctl(b: &mut Builder<'_>) -> Verdict {
    match b.call.u32(0) {
        // GET_FS, GET_GS; GET_XCOMP_SUPP, GET_XCOMP_PERM, GET_XCOMP_GUEST_PERM; GET_UNTAG_MASK,
        // GET_MAX_TAG_BITS; SHSTK_STATUS.
        0x1003 | 0x1004 | 0x1021 | 0x1022 | 0x1024 | 0x4001 | 0x4003 | 0x5005 => b.out(1, 8),
        // SET_GS, SET_FS; GET_CPUID, SET_CPUID; REQ_XCOMP_PERM, REQ_XCOMP_GUEST_PERM.
        0x1001 | 0x1002 | 0x1011 | 0x1012 | 0x1023 | 0x1025 => None,
        0x2001..=0x2003 => return Err(Stop::Refuse(EINVAL, "mapping a vdso; as without checkpoint support")),
        0x4002 | 0x4004 => return Err(Stop::Refuse(EINVAL, "tagged addresses; as before Linux 6.4")),
        0x5001..=0x5004 => return Err(Stop::Refuse(EINVAL, "shadow stacks; as before Linux 6.6")),
        _ => return Err(Stop::Slow("unknown arch_prctl option")),
    };
    Ok(())
}
