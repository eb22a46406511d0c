//! System V messages, semaphores and shared memory; POSIX message queues.

use super::words::*;
use crate::describe::names::OPEN_FLAGS;
use crate::plan::{Count, Slot, When, Written};

#[rustfmt::skip]
pub(crate) static ROWS: &[Row] = &[
    call(29, "shmget", &[hex("key"), size("size"), hex("flags")], Never),
    call(30, "shmat", &[int("id"), ptr("addr"), hex("flags")], Never).by(Handler::Shmat),
    call(31, "shmctl", &[int("id"), int("command"), via("buf", INOUT)], Never).plan(shmctl),
    call(64, "semget", &[hex("key"), int("count"), hex("flags")], Never),
    call(65, "semop", &[int("id"), inp("ops"), size("count")], May).never_restarted(),
    call(66, "semctl", &[int("id"), int("index"), int("command"), via("arg", INOUT)], Never).plan(semctl),
    call(67, "shmdt", &[ptr("addr")], Never).by(Handler::Shmdt),
    call(68, "msgget", &[hex("key"), hex("flags")], Never),
    call(69, "msgsnd", &[int("id"), inp("msg"), size("size"), hex("flags")], If(|c| c.u32(3) & IPC_NOWAIT == 0)),
    call(70, "msgrcv", &[int("id"), via("msg", OUT), size("size"), long("type"), hex("flags")], If(|c| c.u32(4) & IPC_NOWAIT == 0)).plan(msgrcv),
    call(71, "msgctl", &[int("id"), int("command"), via("buf", INOUT)], Never).plan(msgctl),
    call(220, "semtimedop", &[int("id"), inp("ops"), size("count"), inp("timeout")], May).never_restarted(),
    call(240, "mq_open", &[path("name"), named("flags", &OPEN_FLAGS), mode("mode"), inp("attr")], Never),
    call(241, "mq_unlink", &[path("name")], Never),
    call(242, "mq_timedsend", &[fd("fd"), inp("msg"), size("len"), uint("priority"), inp("timeout")], ByFd),
    call(243, "mq_timedreceive", &[fd("fd"), out("msg", Ret(2, 1)), size("len"), out("priority", Fixed(4)), inp("timeout")], ByFd),
    call(244, "mq_notify", &[fd("fd"), inp("event")], Never),
    call(245, "mq_getsetattr", &[fd("fd"), inp("new"), out("old", Fixed(64))], Never),
];

const IPC_NOWAIT: u32 = 0x800;
const IPC_RMID: u32 = 0;
const IPC_SET: u32 = 1;
const IPC_STAT: u32 = 2;
const IPC_INFO: u32 = 3;

fn shmctl(b: &mut Builder<'_>) -> Verdict {
    match b.call.u32(1) {
        // And SHM_STAT, SHM_STAT_ANY: struct shmid64_ds.
        IPC_STAT | 13 | 15 => b.out(2, 112),
        IPC_INFO => b.out(2, 72),
        // SHM_INFO. There are 4 bytes of padding in it.
        14 => b.inout(2, 48),
        // And SHM_LOCK, SHM_UNLOCK.
        IPC_RMID | IPC_SET | 11 | 12 => None,
        _ => return Err(Stop::Slow("unknown shmctl command")),
    };
    Ok(())
}

fn semctl(b: &mut Builder<'_>) -> Verdict {
    match b.call.u32(2) {
        // And SEM_STAT, SEM_STAT_ANY: struct semid64_ds.
        IPC_STAT | 18 | 20 => b.out(3, 104),
        // And SEM_INFO.
        IPC_INFO | 19 => b.out(3, 40),
        13 => return Err(Stop::Slow("GETALL writes as many numbers as the set has semaphores")),
        // GETPID, GETVAL, GETNCNT, GETZCNT, SETVAL, SETALL.
        IPC_RMID | IPC_SET | 11 | 12 | 14..=17 => None,
        _ => return Err(Stop::Slow("unknown semctl command")),
    };
    Ok(())
}

fn msgctl(b: &mut Builder<'_>) -> Verdict {
    match b.call.u32(1) {
        // And MSG_STAT, MSG_STAT_ANY: struct msqid64_ds.
        IPC_STAT | 11 | 13 => b.out(2, 120),
        // And MSG_INFO. There are 2 bytes of padding in it.
        IPC_INFO | 12 => b.inout(2, 32),
        IPC_RMID | IPC_SET => None,
        _ => return Err(Stop::Slow("unknown msgctl command")),
    };
    Ok(())
}

/// An 8-byte type, then as many bytes as the result says.
fn msgrcv(b: &mut Builder<'_>) -> Verdict {
    let len = b.call.args[2].saturating_add(8).min(crate::plan::RW_MAX);
    let written = Written::Counted { count: Count::RetPlus(8), unit: 1 };
    b.piece(Slot::Arg(1), b.call.args[1], len, OUT, written, When::Success);
    Ok(())
}
