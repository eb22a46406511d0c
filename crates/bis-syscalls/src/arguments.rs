//! Where the arguments lie of calls that do one thing with different arguments: columns of their rows, so
//! that whoever looks at such a call need not ask which one it is. Plain data and pure functions.

use crate::model::Call;
use crate::plan::Memory;

fn arg(args: [u64; 6], index: u8) -> u64 {
    args[usize::from(index)]
}

/// A call that moves bytes between the descriptor in argument 0 and memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transfer {
    /// From the descriptor to memory.
    pub reads: bool,
    pub memory: MovedBytes,
    /// The argument that says where in the file; none: at the descriptor's position, which the call moves.
    pub at: Option<u8>,
    /// -1 in that argument means the position, too.
    pub may_be_position: bool,
    /// The argument with the flags of a message (MSG_...); none: it is a read or write of a file.
    pub flags: Option<u8>,
}

/// Where the bytes are that a call moves, and how many.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MovedBytes {
    /// At argument 1, as many as argument 2 says.
    Bytes,
    /// Argument 1 leads to an array of `struct iovec`, of so many as argument 2 says.
    Vector,
    /// Argument 1 leads to a `struct msghdr`.
    Message,
    /// They come from another descriptor, as many as this argument says.
    Descriptor { count: u8 },
}

const MSG_PEEK: i32 = 2;
const MSG_WAITALL: i32 = 0x100;

impl Transfer {
    pub(crate) const READ: Transfer =
        Transfer { reads: true, memory: MovedBytes::Bytes, at: None, may_be_position: false, flags: None };
    pub(crate) const WRITE: Transfer = Transfer { reads: false, ..Transfer::READ };

    pub(crate) const fn of(self, memory: MovedBytes) -> Transfer {
        Transfer { memory, ..self }
    }

    pub(crate) const fn at(self, at: u8) -> Transfer {
        Transfer { at: Some(at), ..self }
    }

    pub(crate) const fn or_position(self) -> Transfer {
        Transfer { may_be_position: true, ..self }
    }

    pub(crate) const fn flags(self, index: u8) -> Transfer {
        Transfer { flags: Some(index), ..self }
    }

    /// Where in its file a call with these arguments begins; none: at the position.
    pub fn given(&self, args: [u64; 6]) -> Option<u64> {
        let is_place = |at: &u64| !self.may_be_position || *at != u64::MAX;
        self.at.map(|index| arg(args, index)).filter(is_place)
    }

    /// The flags of its message; none of them where it is no message.
    pub fn message_flags(&self, args: [u64; 6]) -> u64 {
        self.flags.map_or(0, |index| arg(args, index))
    }

    /// Does a call with these arguments wait until it has moved all its bytes? Others may move fewer.
    pub fn waits_for_all(&self, args: [u64; 6]) -> bool {
        let flags = i32::try_from(self.message_flags(args)).unwrap_or(0);
        if self.reads { flags & MSG_WAITALL != 0 && flags & MSG_PEEK == 0 } else { self.at.is_none() }
    }

    /// May the kernel be asked for fewer of its bytes in place of the program? It may where one argument
    /// says how many they are, and they are not meant for a place in a file.
    pub fn may_be_shortened(&self) -> bool {
        self.memory == MovedBytes::Bytes && self.at.is_none()
    }
}

/// Where a call that makes a task has what it asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MakesTask {
    /// In its arguments: the flags (CLONE_...), the stack, where the maker is told, where the child is, and
    /// the thread's storage.
    ByArguments,
    /// In a `struct clone_args`, to which argument 0 leads.
    ByStruct,
    /// Nowhere: these are always its flags.
    With(u64),
}

/// What a call that opens a file by its name is told: the arguments that say it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Opens {
    /// The folder's descriptor, from which a relative name leads on; none: it is the current folder.
    pub folder: Option<u8>,
    pub path: u8,
    pub flags: OpenFlags,
}

/// Where the flags (`O_...`) of a call lie that opens a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpenFlags {
    /// In this argument.
    In(u8),
    /// They are the first word behind this pointer (`struct open_how`).
    Behind(u8),
    /// Nowhere: it always opens with these.
    Always(i32),
}

impl Opens {
    pub(crate) const fn path(path: u8, flags: OpenFlags) -> Opens {
        Opens { folder: None, path, flags }
    }

    pub(crate) const fn beside(folder: u8, path: u8, flags: OpenFlags) -> Opens {
        Opens { folder: Some(folder), path, flags }
    }
}

/// Whom a call names that sends a signal with information of its own, or to one thread alone: the argument
/// that does. (`kill` is none of these: all that is said of its signal is who has sent it.)
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Receiver {
    Process(u8),
    Thread(u8),
}

/// The arguments of a call that asks for a limit of a process, or sets one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LimitCall {
    /// The process, 0 for the caller's; none: it is the caller's.
    pub process: Option<u8>,
    /// Which limit (RLIMIT_...).
    pub resource: u8,
    /// Where the new limit is, if it may set one.
    pub new: Option<u8>,
    /// Where the one before goes, if it tells that.
    pub old: Option<u8>,
}

/// A wait that is certain before its call is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sleep {
    /// Until somebody wakes the task.
    UntilWoken,
    /// For these seconds and nanoseconds, from now on.
    For(i64, i64),
    /// Until this clock (CLOCK_...) says so many.
    Until(i32, i64, i64),
}

/// The wait of a call, if it waits as its memory is now.
pub type SleepFn = fn(&Call, &dyn Memory) -> Option<Sleep>;

/// A call that the kernel's vdso answers by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Vdso {
    Always,
    /// Where argument 0 is a clock that it knows.
    OfClock,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{How, Kind, Row, rows};

    fn named(name: &str) -> &'static Row {
        rows().iter().find(|row| row.name == name).unwrap_or_else(|| panic!("no call {name}"))
    }

    #[test]
    fn transfers_have_their_descriptor_first_and_their_flags_last() {
        let mut count = 0;
        for (row, transfer) in rows().iter().filter_map(|row| Some((row, row.transfer?))) {
            assert!(matches!(row.args[0].kind, Kind::Fd), "{}", row.name);
            for (index, name) in [(transfer.flags, "flags"), (transfer.at.map(|_| 2), "count")] {
                assert!(index.is_none_or(|index| row.args[usize::from(index)].name == name), "{}", row.name);
            }
            // What is written to a file is written to one that the row names, at the same place.
            let is_write = !transfer.reads && transfer.flags.is_none();
            assert_eq!(is_write, row.target.is_some(), "{}", row.name);
            assert!(!is_write || matches!(row.how, How::Recorder(_)), "{}", row.name);
            let at = [1, 2, 3, u64::MAX, 5, 6];
            let begins = |at: Option<u64>| at.filter(|at| *at != u64::MAX);
            if let Some(target) = row.target {
                assert_eq!(begins(transfer.given(at)), target.given(at), "{}", row.name);
                assert_eq!(transfer.memory == MovedBytes::Vector, target.is_vector, "{}", row.name);
            }
            count += 1;
        }
        assert_eq!(count, 15);
    }

    #[test]
    fn where_a_transfer_begins_is_said_by_an_argument_or_by_the_position() {
        let given = |name, at| named(name).transfer.unwrap().given([1, 2, 3, at, 0, 0]);
        assert_eq!((given("read", 7), given("writev", 7)), (None, None));
        assert_eq!((given("pread64", 7), given("pwritev2", 7)), (Some(7), Some(7)));
        // The kernel refuses the first; the second is at the position.
        assert_eq!((given("pread64", u64::MAX), given("preadv2", u64::MAX)), (Some(u64::MAX), None));
    }

    #[test]
    fn writes_to_streams_wait_for_all_their_bytes_and_reads_where_they_are_asked_to() {
        let waits = |name, flags| named(name).transfer.unwrap().waits_for_all([1, 2, flags, flags, 0, 0]);
        assert!(waits("write", 0) && waits("writev", 0) && waits("sendfile", 0) && waits("sendmsg", 0));
        assert!(!waits("pwrite64", 0) && !waits("read", 0x100) && !waits("recvfrom", 0));
        assert!(waits("recvfrom", 0x100) && waits("recvmsg", 0x100) && !waits("recvmsg", 0x102));
    }

    /// Words at addresses; there is no other memory.
    struct Words(&'static [(u64, i64)]);

    impl Memory for Words {
        fn read(&self, addr: u64, buf: &mut [u8]) -> bool {
            let mut at = addr;
            buf.chunks_mut(8).all(|part| {
                let word = self.0.iter().find(|(place, _)| *place == at);
                at += 8;
                word.is_some_and(|(_, word)| {
                    part.copy_from_slice(&word.to_le_bytes()[..part.len()]);
                    true
                })
            })
        }
    }

    #[test]
    fn sleeps_are_known_by_their_times_and_futexes_by_their_words() {
        let memory = Words(&[(0x1000, 5), (0x1008, 7), (0x2000, 3)]);
        let sleep = |name, args| {
            let row = named(name);
            row.sleep.and_then(|sleep| sleep(&Call { nr: row.nr, args }, &memory))
        };
        assert_eq!(sleep("nanosleep", [0x1000, 0, 0, 0, 0, 0]), Some(Sleep::For(5, 7)));
        assert_eq!(sleep("nanosleep", [0x3000, 0, 0, 0, 0, 0]), None);
        assert_eq!(sleep("clock_nanosleep", [1, 0, 0x1000, 0, 0, 0]), Some(Sleep::For(5, 7)));
        assert_eq!(sleep("clock_nanosleep", [1, 1, 0x1000, 0, 0, 0]), Some(Sleep::Until(1, 5, 7)));
        // WAIT and WAIT_BITSET, private and not; WAKE.
        assert_eq!(sleep("futex", [0x2000, 0, 3, 0, 0, 0]), Some(Sleep::UntilWoken));
        assert_eq!(sleep("futex", [0x2000, 0x89, 3, 0, 0, 0]), Some(Sleep::UntilWoken));
        assert_eq!(sleep("futex", [0x2000, 0, 4, 0, 0, 0]), None);
        assert_eq!(sleep("futex", [0x2000, 1, 3, 0, 0, 0]), None);
        assert_eq!(sleep("read", [0x1000, 0, 0, 0, 0, 0]), None);
    }

    #[test]
    fn only_calls_whose_bytes_one_argument_counts_may_be_shortened() {
        let may = |row: &&&Row| row.transfer.is_some_and(|transfer| transfer.may_be_shortened());
        let names: Vec<&str> = rows().iter().filter(may).map(|row| row.name).collect();
        assert_eq!(names, ["read", "write", "sendto", "recvfrom"]);
    }
}
