//! Clocks, timers, sleeping.

use super::words::*;
use crate::describe::names::CLOCKS;
use crate::plan::Memory;

const TIMESPEC: Size = Fixed(16);
const ITIMER: Size = Fixed(32);
const TIMEX: Size = Fixed(208);

#[rustfmt::skip]
pub(crate) static ROWS: &[Row] = &[
    call(35, "nanosleep", &[inp("time"), rem("rem", TIMESPEC)], May).sleeps(nanosleep),
    call(36, "getitimer", &[int("which"), out("value", ITIMER)], Never),
    call(37, "alarm", &[uint("seconds")], Never).sets_timer().traced("the recorder learns from it"),
    call(38, "setitimer", &[int("which"), inp("new"), out("old", ITIMER)], Never).sets_timer().traced("the recorder learns from it"),
    call(96, "gettimeofday", &[out("tv", Fixed(16)), out("tz", Fixed(8))], Never).in_vdso(Vdso::Always),
    call(159, "adjtimex", &[always("timex", TIMEX)], Never),
    call(164, "settimeofday", &[inp("tv"), inp("tz")], Never),
    call(201, "time", &[out("time", Fixed(8))], Never).in_vdso(Vdso::Always),
    call(222, "timer_create", &[named("clock", &CLOCKS), inp("event"), always("timer", Fixed(4))], Never).note("the id is written before an alarm timer is refused"),
    call(223, "timer_settime", &[int("timer"), hex("flags"), inp("new"), out("old", ITIMER)], Never).sets_timer(),
    call(224, "timer_gettime", &[int("timer"), out("value", ITIMER)], Never),
    call(225, "timer_getoverrun", &[int("timer")], Never),
    call(226, "timer_delete", &[int("timer")], Never).sets_timer(),
    call(227, "clock_settime", &[named("clock", &CLOCKS), inp("time")], Never),
    call(228, "clock_gettime", &[named("clock", &CLOCKS), out("time", TIMESPEC)], Never).in_vdso(Vdso::OfClock),
    call(229, "clock_getres", &[named("clock", &CLOCKS), out("res", TIMESPEC)], Never).in_vdso(Vdso::OfClock),
    call(230, "clock_nanosleep", &[named("clock", &CLOCKS), hex("flags"), inp("time"), rem("rem", TIMESPEC)], May).sleeps(clock_nanosleep),
    call(283, "timerfd_create", &[named("clock", &CLOCKS), hex("flags")], Never).hooked(Rule::PLAIN.makes(HookMakes::Harmless)),
    call(286, "timerfd_settime", &[fd("fd"), hex("flags"), inp("new"), out("old", ITIMER)], Never),
    call(287, "timerfd_gettime", &[fd("fd"), out("value", ITIMER)], Never),
    call(305, "clock_adjtime", &[named("clock", &CLOCKS), always("timex", TIMEX)], Never),
];

/// The seconds and nanoseconds of a `struct timespec`.
fn timespec(mem: &dyn Memory, addr: u64) -> Option<(i64, i64)> {
    let mut words = [0; 16];
    if !mem.read(addr, &mut words) {
        return None;
    }
    let word = |at: usize| words[at..].first_chunk().map_or(0, |word| i64::from_le_bytes(*word));
    Some((word(0), word(8)))
}

fn nanosleep(call: &Call, mem: &dyn Memory) -> Option<Sleep> {
    timespec(mem, call.args[0]).map(|(seconds, nanoseconds)| Sleep::For(seconds, nanoseconds))
}

fn clock_nanosleep(call: &Call, mem: &dyn Memory) -> Option<Sleep> {
    const TIMER_ABSTIME: u32 = 1;
    let (seconds, nanoseconds) = timespec(mem, call.args[2])?;
    Some(if call.u32(1) & TIMER_ABSTIME == 0 {
        Sleep::For(seconds, nanoseconds)
    } else {
        Sleep::Until(call.i32(0), seconds, nanoseconds)
    })
}
