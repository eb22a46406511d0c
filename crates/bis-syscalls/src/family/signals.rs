//! Signals: actions, masks, sending, waiting. A signal set is as long as the call's own size argument says
//! (the kernel takes only 8).

use super::words::*;
use crate::describe::names::SIG_HOW;
use crate::plan::{Slot, When, Written};

#[rustfmt::skip]
pub(crate) static ROWS: &[Row] = &[
    call(13, "rt_sigaction", &[sig("signal"), inp("new"), out("old", Fixed(32)), size("set_size")], Never).by(Handler::SigAction).hooked(Rule::of(HookShape::Sigaction)),
    call(14, "rt_sigprocmask", &[named("how", &SIG_HOW), inp("new"), out("old", Fixed(8)), size("set_size")], Never).hooked(Rule::PLAIN),
    call(15, "rt_sigreturn", &[], Never).by(Handler::SigReturn),
    call(34, "pause", &[], May),
    call(62, "kill", &[int("pid"), sig("signal")], Never).by(Handler::Kill),
    call(127, "rt_sigpending", &[out("set", N(1, 1)), size("set_size")], Never).plan(sigpending).hooked(Rule::PLAIN),
    call(128, "rt_sigtimedwait", &[inp("set"), out("info", Fixed(128)), inp("timeout"), size("set_size")], May).takes_signals().never_restarted(),
    call(129, "rt_sigqueueinfo", &[int("pid"), sig("signal"), inp("info")], Never).by(Handler::RtSigqueueinfo).sends_to(Receiver::Process(0)),
    call(130, "rt_sigsuspend", &[inp("mask"), size("set_size")], May),
    call(131, "sigaltstack", &[inp("new"), out("old", Fixed(24))], Never).traced("it says whether the caller stands on that stack, and a hook stands on its own"),
    call(200, "tkill", &[int("tid"), sig("signal")], Never).by(Handler::Tkill).sends_to(Receiver::Thread(0)),
    call(219, "restart_syscall", &[], May).by(Handler::RestartSyscall),
    call(234, "tgkill", &[int("tgid"), int("tid"), sig("signal")], Never).by(Handler::Tgkill).sends_to(Receiver::Thread(1)),
    call(282, "signalfd", &[fd("fd"), inp("mask"), size("set_size")], Never),
    call(289, "signalfd4", &[fd("fd"), inp("mask"), size("set_size"), hex("flags")], Never),
    call(297, "rt_tgsigqueueinfo", &[int("tgid"), int("tid"), sig("signal"), inp("info")], Never).by(Handler::RtTgsigqueueinfo).sends_to(Receiver::Thread(1)),
    call(424, "pidfd_send_signal", &[fd("pidfd"), sig("signal"), inp("info"), hex("flags")], Never).by(Handler::PidfdSendSignal),
];

/// The one call that takes a set shorter than 8 bytes.
fn sigpending(b: &mut Builder<'_>) -> Verdict {
    let len = b.call.args[1].min(8);
    b.piece(Slot::Arg(0), b.call.args[0], len, OUT, Written::All, When::Success);
    Ok(())
}
