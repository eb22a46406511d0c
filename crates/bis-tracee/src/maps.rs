//! An address space's mappings, as `/proc/PID/maps` tells them.

use bis_trace::types::{Addr, Tid};

use crate::{
    error::{Result, TraceeError},
    proc,
};

/// One line of `/proc/PID/maps`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mapping {
    pub start: Addr,
    /// The first address after it.
    pub end: Addr,
    /// PROT_READ 1, PROT_WRITE 2, PROT_EXEC 4.
    pub prot: u32,
    pub shared: bool,
    /// Offset in the file, bytes.
    pub offset: u64,
    /// (major, minor) and inode of the file; inode 0 for anonymous memory.
    pub device: (u32, u32),
    pub inode: u64,
    /// As the kernel prints it: a path, `[stack]`, `[heap]`, ... or nothing.
    pub name: Vec<u8>,
}

impl Mapping {
    pub fn len(&self) -> u64 {
        self.end - self.start
    }

    pub fn is_empty(&self) -> bool {
        self.end == self.start
    }

    /// Does the other one show the same file?
    pub fn is_of_same_file(&self, other: &Mapping) -> bool {
        (self.device, self.inode, &self.name) == (other.device, other.inode, &other.name)
    }

    pub fn is_vvar(&self) -> bool {
        self.name.starts_with(b"[vvar")
    }
}

fn parse_line(line: &[u8]) -> Option<Mapping> {
    let mut rest = line;
    let mut field = || {
        let end = rest.iter().position(|b| *b == b' ').unwrap_or(rest.len());
        let (head, tail) = rest.split_at(end);
        rest = tail.get(1..).unwrap_or(b"");
        std::str::from_utf8(head).ok()
    };
    let hex = |s: &str| u64::from_str_radix(s, 16).ok();
    let (start, end) = field()?.split_once('-')?;
    let flags = field()?.as_bytes();
    let offset = hex(field()?)?;
    let (major, minor) = field()?.split_once(':')?;
    let inode = field()?.parse().ok()?;
    let name = rest.iter().position(|b| *b != b' ').map_or(&b""[..], |at| &rest[at..]);
    let prot = u32::from(flags.first() == Some(&b'r'))
        | u32::from(flags.get(1) == Some(&b'w')) << 1
        | u32::from(flags.get(2) == Some(&b'x')) << 2;
    Some(Mapping {
        start: Addr(hex(start)?),
        end: Addr(hex(end)?),
        prot,
        shared: flags.get(3) == Some(&b's'),
        offset,
        device: (u32::try_from(hex(major)?).ok()?, u32::try_from(hex(minor)?).ok()?),
        inode,
        name: name.to_vec(),
    })
}

/// All mappings of a task, in order of address, without the kernel's own vsyscall page.
///
/// # Errors
/// Where the task is gone.
pub fn read(tid: Tid) -> Result<Vec<Mapping>> {
    let text = proc::read(proc::path(tid, "maps"));
    let text = text.map_err(|source| TraceeError::Os { what: "read the mappings", tid, source })?;
    let lines = text.split(|b| *b == b'\n').filter(|line| !line.is_empty());
    Ok(lines.filter_map(parse_line).filter(|m| m.start.0 < 1 << 63).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_whole() {
        let line =
            b"7f00-8000 r-xs 00001000 fe:0a 325835                     /usr/lib/with space.so (deleted)";
        let m = parse_line(line).unwrap();
        assert_eq!(
            (m.start, m.end, m.prot, m.shared, m.offset),
            (Addr(0x7f00), Addr(0x8000), 5, true, 0x1000)
        );
        assert_eq!((m.device, m.inode), ((0xfe, 0xa), 325_835));
        assert_eq!(m.name, b"/usr/lib/with space.so (deleted)");
    }

    #[test]
    fn our_own_maps_are_in_order_and_have_a_stack() {
        let maps = read(Tid(i32::try_from(std::process::id()).unwrap())).unwrap();
        assert!(maps.windows(2).all(|pair| pair[0].end <= pair[1].start));
        assert!(maps.iter().any(|m| m.name == b"[stack]"));
    }
}
