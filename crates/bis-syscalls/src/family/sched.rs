//! Scheduling, priorities, resource limits and use.

use super::words::*;
use crate::plan::{When, Written};

#[rustfmt::skip]
pub(crate) static ROWS: &[Row] = &[
    call(24, "sched_yield", &[], May).note("the recorder may switch threads here").hooked_for(Rule::PLAIN.waits(HookWait::Turn), &[]),
    call(97, "getrlimit", &[int("resource"), out("limit", Fixed(16))], Never).by(Handler::Getrlimit).limits(LimitCall { process: None, resource: 0, new: None, old: Some(1) }).hooked_for(Rule::of(HookShape::Rlimit).flags(0), &[piece(1, Fixed(16)).written()]),
    call(98, "getrusage", &[int("who"), out("usage", Fixed(144))], Never),
    call(100, "times", &[out("tms", Fixed(32))], Never),
    call(140, "getpriority", &[int("which"), int("who")], Never),
    call(141, "setpriority", &[int("which"), int("who"), int("nice")], Never).traced("the recorder learns from it"),
    call(142, "sched_setparam", &[int("pid"), inp("param")], Never).traced("the recorder learns from it"),
    call(143, "sched_getparam", &[int("pid"), out("param", Fixed(4))], Never),
    call(144, "sched_setscheduler", &[int("pid"), int("policy"), inp("param")], Never).traced("the recorder learns from it"),
    call(145, "sched_getscheduler", &[int("pid")], Never),
    call(146, "sched_get_priority_max", &[int("policy")], Never),
    call(147, "sched_get_priority_min", &[int("policy")], Never),
    call(148, "sched_rr_get_interval", &[int("pid"), out("interval", Fixed(16))], Never),
    call(160, "setrlimit", &[int("resource"), inp("limit")], Never).by(Handler::Setrlimit).limits(LimitCall { process: None, resource: 0, new: Some(1), old: None }).traced("the recorder learns from it"),
    call(203, "sched_setaffinity", &[int("pid"), uint("size"), inp("mask")], Never).by(Handler::SchedSetaffinity),
    call(204, "sched_getaffinity", &[int("pid"), uint("size"), out("mask", Ret32(1, 1))], Never).by(Handler::SchedGetaffinity),
    call(251, "ioprio_set", &[int("which"), int("who"), int("ioprio")], Never),
    call(252, "ioprio_get", &[int("which"), int("who")], Never),
    call(302, "prlimit64", &[int("pid"), int("resource"), inp("new"), out("old", Fixed(16))], Never).by(Handler::Prlimit).limits(LimitCall { process: Some(0), resource: 1, new: Some(2), old: Some(3) }).hooked_for(Rule::of(HookShape::Rlimit).flags(1), &[piece(3, Fixed(16)).written()]),
    call(309, "getcpu", &[out("cpu", Fixed(4)), out("node", Fixed(4)), ptr("unused")], Never).by(Handler::Getcpu).in_vdso(Vdso::Always).note("one of the cores that the program has asked to run on, whichever it runs on; `rdtscp` says that one").hooked(Rule::PLAIN),
    call(314, "sched_setattr", &[int("pid"), via("attr", INOUT), hex("flags")], Never).plan(sched_setattr).traced("the recorder learns from it"),
    call(315, "sched_getattr", &[int("pid"), inout("attr", N32(2, 1)), uint("size"), hex("flags")], Never),
    call(324, "membarrier", &[int("cmd"), hex("flags"), int("cpu")], Never),
];

/// `struct sched_attr` begins with its size (0 means the first version's 48). The kernel stores the size that
/// it knows there when it fails with E2BIG.
fn sched_setattr(b: &mut Builder<'_>) -> Verdict {
    let len = match b.u32_at(b.call.args[1]) {
        None | Some(0) => 48,
        Some(len) => u64::from(len).clamp(4, 4096),
    };
    b.fields(1, len, Written::Ranges(&[(0, 4)]), When::Always);
    Ok(())
}
