//! System V IPC: the multiplexer `ipc`, messages, and the control calls.

use super::ipc_shapes as shapes;
use super::layout::{Fields, low, low16, signed};
use super::own;
use super::room::{Made, Maker, Shape, When, fails, made, refused};
use super::time::{Width, timed};
use crate::errno::{EINVAL, ENOSYS};

const SEMCTL: u64 = 66;
const MSGCTL: u64 = 71;
const SHMCTL: u64 = 31;
const SEMTIMEDOP: u64 = 220;

const IPC_RMID: u32 = 0;
const IPC_SET: u32 = 1;
const IPC_STAT: u32 = 2;
const IPC_INFO: u32 = 3;

/// In a command: the structures are those of today, not of Linux 2.2. The direct calls know no others.
const IPC_64: u32 = 0x100;

const OLD_STRUCTURES: &str = "structures of System V IPC from before Linux 2.4";

/// `ipc(call, first, second, third, pointer, fifth)`; the upper half of `call` is the version of its shape.
pub(super) fn ipc(m: &mut Maker<'_>) -> Made {
    let [call, first, second, third, pointer, fifth] = std::array::from_fn(|i| m.raw(i));
    let (version, call) = (call >> 16, low16(call));
    let arguments = match call {
        1 => [first, pointer, second, 0, 0, 0],
        2 | 23 => [first, second, third, 0, 0, 0],
        3 if pointer == 0 => return fails(EINVAL),
        3 => [first, second, third, m.read_u32(pointer.into())?, 0, 0],
        4 => [first, pointer, second, fifth, 0, 0],
        11 => [first, pointer, second, third, 0, 0],
        12 if version != 0 => [first, pointer, second, fifth, third, 0],
        12 if pointer == 0 => return fails(EINVAL),
        12 => {
            let pair = m.read(pointer.into(), 8)?;
            [first, Fields(&pair).u32(0), second, Fields(&pair).u32(4), third, 0]
        }
        13 => [first, second, 0, 0, 0, 0],
        14 | 24 => [first, second, pointer, 0, 0, 0],
        21 if version == 1 => return fails(EINVAL),
        21 => return own::ipc_shmat(m),
        22 => [pointer, 0, 0, 0, 0, 0],
        _ => return fails(ENOSYS),
    };
    m.set_args(arguments);
    match call {
        1 => Ok(m.plain(65)),
        2 => Ok(m.plain(64)),
        3 => with_command(m, 2, semctl, |command| matches!(command, IPC_RMID | 11..=17)),
        4 => timed(m, SEMTIMEDOP, 3, Width::Old),
        11 => msgsnd(m),
        12 => msgrcv(m),
        13 => Ok(m.plain(68)),
        14 => with_command(m, 1, msgctl, |command| command == IPC_RMID),
        22 => Ok(m.plain(67)),
        23 => Ok(m.plain(29)),
        _ => with_command(m, 1, shmctl, |command| matches!(command, IPC_RMID | 11 | 12)),
    }
}

/// A control call of the multiplexer, whose command (argument `i`) says which structures it means.
/// `is_plain`: it has none.
fn with_command(
    m: &mut Maker<'_>,
    i: usize,
    call: fn(&mut Maker<'_>) -> Made,
    is_plain: fn(u32) -> bool,
) -> Made {
    let mut args: [u32; 6] = std::array::from_fn(|i| m.raw(i));
    let command = args[i] & !IPC_64;
    if command == args[i] && !is_plain(command) {
        return refused(EINVAL, OLD_STRUCTURES);
    }
    args[i] = command;
    m.set_args(args);
    call(m)
}

/// `struct msgbuf`: the type is a long, and then comes the text.
pub(super) fn msgsnd(m: &mut Maker<'_>) -> Made {
    let len = m.raw(2);
    if len.cast_signed() < 0 {
        return fails(EINVAL);
    }
    let narrow = m.read(m.arg(1), 4 + u64::from(len))?;
    let kind = signed(Fields(&narrow).u32(0));
    let wide = [&kind.to_le_bytes()[..], &narrow[4..]].concat();
    made(69, [m.arg(0), m.put(&wide)?, len.into(), m.arg(3)])
}

/// The type that is asked for is signed. A message never has more text than the room holds, unless the
/// machine's limit was raised.
pub(super) fn msgrcv(m: &mut Maker<'_>) -> Made {
    let len = m.raw(2);
    if len.cast_signed() < 0 {
        return fails(EINVAL);
    }
    let len = u64::from(len).min(m.left() - 8);
    let at = m.space(8 + len)?;
    let numbers = [at, m.arg(1), 0, 0];
    m.back(
        When::Success,
        |after, [from, to, ..]| {
            let wide = after.bytes(from, after.count().saturating_add(8))?;
            let kind = low(Fields(&wide).u64(0)).to_le_bytes();
            after.write(to, [&kind[..], &wide[8..]].concat());
            Ok(())
        },
        numbers,
    );
    made(70, [m.arg(0), at, len, m.long(3), m.arg(4)])
}

pub(super) fn semctl(m: &mut Maker<'_>) -> Made {
    match m.raw(2) {
        // IPC_INFO, SEM_INFO: ten numbers. The commands about semaphores have numbers or arrays of shorts.
        IPC_RMID | IPC_INFO | 11..=17 | 19 => Ok(m.plain(SEMCTL)),
        IPC_SET => control(m, SEMCTL, 3, Some(shapes::SEMAPHORE_SET), None),
        IPC_STAT | 18 | 20 => control(m, SEMCTL, 3, None, Some((shapes::SEMAPHORES, shapes::semaphores))),
        _ => fails(EINVAL),
    }
}

pub(super) fn msgctl(m: &mut Maker<'_>) -> Made {
    match m.raw(1) {
        // IPC_INFO, MSG_INFO: eight numbers.
        IPC_RMID | IPC_INFO | 12 => Ok(m.plain(MSGCTL)),
        IPC_SET => control(m, MSGCTL, 2, Some(shapes::QUEUE_SET), None),
        IPC_STAT | 11 | 13 => control(m, MSGCTL, 2, None, Some((shapes::QUEUE, shapes::queue))),
        _ => fails(EINVAL),
    }
}

pub(super) fn shmctl(m: &mut Maker<'_>) -> Made {
    match m.raw(1) {
        // SHM_LOCK, SHM_UNLOCK.
        IPC_RMID | 11 | 12 => Ok(m.plain(SHMCTL)),
        IPC_SET => control(m, SHMCTL, 2, Some(shapes::SEGMENT_SET), None),
        IPC_STAT | 13 | 15 => control(m, SHMCTL, 2, None, Some((shapes::SEGMENT, shapes::segment))),
        IPC_INFO => control(m, SHMCTL, 2, None, Some((shapes::LIMITS, shapes::limits))),
        14 => control(m, SHMCTL, 2, None, Some((shapes::USE, shapes::usage))),
        _ => fails(EINVAL),
    }
}

/// The call with the structure at argument `i`, which the kernel reads or writes.
fn control(
    m: &mut Maker<'_>,
    nr: u64,
    i: usize,
    set: Option<shapes::Set>,
    got: Option<(u64, Shape)>,
) -> Made {
    let mut call = m.plain(nr);
    if let Some((len, widen)) = set {
        let wide = widen(&m.read(m.arg(i), len)?);
        call.args[i] = m.put(&wide)?;
    }
    if let Some((len, shape)) = got {
        call.args[i] = m.out(m.raw(i), len, shape)?;
    }
    Ok(call)
}
