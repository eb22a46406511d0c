//! What the kernel says of a signal, as programs of 32 bits have it. Traces have it as 64-bit programs do.

/// Bytes of the structure, which is as long for both.
const LEN: usize = 128;

/// Codes of signals that the kernel itself sends for a reason of the signal's own are between these.
const SI_USER: i32 = 0;
const SI_KERNEL: i32 = 0x80;
const SI_SIGIO: i32 = -5;

/// Fields: where a 64-bit program has one, where a 32-bit program has it, and its bytes there. The signal,
/// its error and its code come first, and are the same.
type Fields = &'static [(usize, usize, usize)];

const HEAD: Fields = &[(0, 0, 12)];
/// Process, user.
const KILL: Fields = &[(16, 12, 8)];
/// Process (or timer), user (or overruns), the value.
const VALUE: Fields = &[(16, 12, 8), (24, 20, 4)];
/// Process, user, status, the times.
const CHILD: Fields = &[(16, 12, 12), (32, 24, 4), (40, 28, 4)];
/// The address, how exact it is, and its bounds; or the protection key in the place of the lower bound.
const FAULT: Fields = &[(16, 12, 4), (24, 16, 2), (32, 20, 4), (40, 24, 4)];
/// The address, and of a perf event the data, the type and the flags.
const PERF: Fields = &[(16, 12, 4), (24, 16, 4), (32, 20, 8)];
/// What is ready, and the descriptor.
const POLL: Fields = &[(16, 12, 4), (24, 16, 4)];
/// The address of the call, its number, the machine.
const CALL: Fields = &[(16, 12, 4), (24, 16, 8)];

/// The fields of this signal with this code, as the kernel chooses them (`siginfo_layout`).
fn fields(signal: i32, code: i32) -> Fields {
    if code > SI_USER && code < SI_KERNEL {
        return match signal {
            libc::SIGTRAP if code == 6 => PERF,
            libc::SIGILL | libc::SIGFPE | libc::SIGSEGV | libc::SIGBUS | libc::SIGTRAP => FAULT,
            libc::SIGCHLD => CHILD,
            libc::SIGSYS => CALL,
            _ if code <= 6 => POLL,
            _ => KILL,
        };
    }
    match code {
        SI_SIGIO => POLL,
        _ if code < 0 => VALUE,
        _ => KILL,
    }
}

/// The structure as a 32-bit program has it.
pub(super) fn narrow(wide: &[u8]) -> Vec<u8> {
    let int = |at: usize| {
        let bytes = wide.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, i32::from_le_bytes)
    };
    let mut narrow = vec![0; LEN];
    for (from, to, len) in HEAD.iter().chain(fields(int(0), int(8))) {
        if let Some(bytes) = wide.get(*from..from + len) {
            narrow[*to..to + len].copy_from_slice(bytes);
        }
    }
    narrow
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wide(signal: i32, code: i32) -> Vec<u8> {
        let mut info: Vec<u8> = (0..128).collect();
        info[..4].copy_from_slice(&signal.to_le_bytes());
        info[8..12].copy_from_slice(&code.to_le_bytes());
        info
    }

    #[test]
    fn a_fault_has_its_address() {
        let info = narrow(&wide(libc::SIGSEGV, 1));
        assert_eq!(info.len(), 128);
        assert_eq!(info[..18], [11, 0, 0, 0, 4, 5, 6, 7, 1, 0, 0, 0, 16, 17, 18, 19, 24, 25]);
        assert_eq!(info[20..28], [32, 33, 34, 35, 40, 41, 42, 43]);
    }

    #[test]
    fn a_value_and_a_child() {
        let info = narrow(&wide(libc::SIGUSR1, -1));
        assert_eq!(info[12..24], [16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27]);
        assert_eq!(info[24..], [0; 104]);
        let info = narrow(&wide(libc::SIGCHLD, 1));
        assert_eq!(info[20..32], [24, 25, 26, 27, 32, 33, 34, 35, 40, 41, 42, 43]);
        assert_eq!(narrow(&wide(libc::SIGTERM, 0))[12..24], [16, 17, 18, 19, 20, 21, 22, 23, 0, 0, 0, 0]);
    }

    #[test]
    fn cut_is_zero() {
        assert_eq!(narrow(&[5, 0]), [0; 128]);
    }
}
