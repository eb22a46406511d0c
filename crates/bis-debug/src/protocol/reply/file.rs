//! Replies of `vFile`: a result, an error in the protocol's numbers, data, a file's state.

use super::{Payload, text};

/// A result that is a number: a descriptor, the bytes written, 0.
#[must_use]
pub fn file_result(result: u64) -> Payload {
    text(format_args!("F{result:x}"))
}

/// A failure, by Linux's `errno`.
#[must_use]
pub fn file_error(errno: i32) -> Payload {
    text(format_args!("F-1,{:x}", to_protocol(errno)))
}

/// Data that was read: of a file, or a link's target.
#[must_use]
pub fn file_data(data: &[u8]) -> Payload {
    let head = format!("F{:x};", data.len());
    [head.as_bytes(), data].concat()
}

/// The protocol's number of an error (gdb manual, "Errno Values"). They are those of Linux but for few; what
/// the protocol does not have is 9999.
fn to_protocol(errno: i32) -> i32 {
    const ENAMETOOLONG: i32 = 36;
    const ENOSYS: i32 = 38;
    match errno {
        1 | 2 | 4 | 5 | 9 | 13 | 14 | 16 | 17 | 19..=24 | 27..=30 => errno,
        ENOSYS => 88,
        ENAMETOOLONG => 91,
        _ => 9999,
    }
}

/// A file's state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FileStat {
    pub device: u64,
    pub inode: u64,
    /// Type and permissions, whose bits are those of Linux.
    pub mode: u32,
    pub links: u64,
    pub uid: u32,
    pub gid: u32,
    pub special_device: u64,
    pub size: u64,
    pub block_size: u64,
    pub blocks: u64,
    /// Seconds since 1970.
    pub accessed: u64,
    pub modified: u64,
    pub changed: u64,
}

impl FileStat {
    /// The protocol's `struct stat`: 64 bytes, most significant byte first. Numbers that do not fit are cut.
    #[must_use]
    pub fn bytes(&self) -> [u8; 64] {
        let mut bytes = [0; 64];
        let mut rest = bytes.as_mut_slice();
        let mut put = |value: u64, len: usize| {
            let (field, later) = std::mem::take(&mut rest).split_at_mut(len);
            field.copy_from_slice(&value.to_be_bytes()[8 - len..]);
            rest = later;
        };
        put(self.device, 4);
        put(self.inode, 4);
        put(u64::from(self.mode), 4);
        put(self.links, 4);
        put(u64::from(self.uid), 4);
        put(u64::from(self.gid), 4);
        put(self.special_device, 4);
        put(self.size, 8);
        put(self.block_size, 8);
        put(self.blocks, 8);
        put(self.accessed, 4);
        put(self.modified, 4);
        put(self.changed, 4);
        bytes
    }
}

/// The answer to `fstat` and `stat`.
#[must_use]
pub fn file_stat(stat: &FileStat) -> Payload {
    file_data(&stat.bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_and_errors() {
        let check = |payload: Payload, expected: &[u8]| assert_eq!(payload, expected);
        check(file_result(0x1f), b"F1f");
        check(file_error(2), b"F-1,2");
        check(file_error(38), b"F-1,58");
        check(file_error(110), b"F-1,270f");
        check(file_data(b"a#b"), b"F3;a#b");
        check(file_data(b""), b"F0;");
    }

    #[test]
    fn the_state_of_a_file_has_64_bytes() {
        let stat = FileStat {
            device: 1 << 32 | 2,
            mode: 0o10_0644,
            size: 0x1234,
            changed: 5,
            ..FileStat::default()
        };
        let bytes = stat.bytes();
        assert_eq!(bytes[..4], [0, 0, 0, 2]);
        assert_eq!(bytes[8..12], [0, 0, 0x81, 0xa4]);
        assert_eq!(bytes[28..36], 0x1234u64.to_be_bytes());
        assert_eq!(bytes[60..], [0, 0, 0, 5]);
        assert_eq!(file_stat(&stat).len(), 4 + 64);
    }
}
