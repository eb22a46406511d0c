//! An address space's mappings, as `/proc/PID/maps` tells them.

use std::{fs::File, io, ops::Range};

use bis_trace::types::{Addr, Tid, prot};

use crate::{
    error::{Result, TraceeError},
    proc,
    sys::{self, Mapped},
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

    /// The whole of it.
    pub fn extent(&self) -> Extent {
        Extent { range: self.start..self.end, prot: self.prot, shared: self.shared }
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

/// A part of a mapping.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Extent {
    pub range: Range<Addr>,
    /// PROT_READ 1, PROT_WRITE 2, PROT_EXEC 4.
    pub prot: u32,
    pub shared: bool,
}

impl Extent {
    pub fn is_writable(&self) -> bool {
        self.prot & prot::WRITE != 0
    }
}

/// What is mapped in these ranges, range by range, in order of address. A process may have tens of thousands
/// of mappings, of which few are in question: where the kernel tells single ones (Linux 6.11), not all are
/// read.
///
/// # Errors
/// Where the task is gone.
pub fn extents(tid: Tid, ranges: &[Range<Addr>]) -> Result<Vec<Extent>> {
    let found = ask(tid, ranges, sys::mapping_from)?;
    found.map_or_else(|| Ok(parts_of(&read(tid)?, ranges)), Ok)
}

/// All that a task can write to, in order of address: asked for so, not picked from all that is mapped,
/// where the kernel tells single mappings.
///
/// # Errors
/// Where the task is gone.
pub fn writable(tid: Tid) -> Result<Vec<Extent>> {
    let all = Addr(0)..Addr(1 << 63);
    let found = ask(tid, std::slice::from_ref(&all), sys::writable_mapping_from)?;
    found.map_or_else(|| Ok(read(tid)?.iter().map(Mapping::extent).filter(Extent::is_writable).collect()), Ok)
}

/// What the question finds in these ranges, asked again and again from the end of what was found last. None:
/// the kernel does not know the question.
fn ask(
    tid: Tid,
    ranges: &[Range<Addr>],
    question: impl Fn(&File, Addr) -> io::Result<Mapped>,
) -> Result<Option<Vec<Extent>>> {
    let failed = |source| TraceeError::Os { what: "look at the mappings", tid, source };
    let maps = File::open(proc::path(tid, "maps")).map_err(failed)?;
    let mut extents = Vec::new();
    for range in ranges {
        let mut at = range.start;
        while at < range.end {
            let mapped = match question(&maps, at) {
                Ok(mapped) => mapped,
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => break,
                Err(error) if error.raw_os_error() == Some(libc::ENOTTY) => return Ok(None),
                Err(error) => return Err(failed(error)),
            };
            let part = mapped.start.max(range.start)..mapped.end.min(range.end);
            if part.start < part.end {
                extents.push(Extent { range: part, prot: mapped.prot, shared: mapped.shared });
            }
            at = mapped.end;
        }
    }
    Ok(Some(extents))
}

fn parts_of(mappings: &[Mapping], ranges: &[Range<Addr>]) -> Vec<Extent> {
    let part = |mapping: &Mapping, range: &Range<Addr>| {
        let part = mapping.start.max(range.start)..mapping.end.min(range.end);
        let extent = Extent { range: part, prot: mapping.prot, shared: mapping.shared };
        (extent.range.start < extent.range.end).then_some(extent)
    };
    let of = |range| mappings.iter().filter_map(move |mapping| part(mapping, range));
    ranges.iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

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

    #[test]
    fn what_can_be_written_to_is_the_same_whichever_way_it_is_asked_for() {
        // A process that stands still: other tests map and unmap in this one.
        let piped = std::process::Stdio::piped;
        let mut child = std::process::Command::new("cat").stdin(piped()).stdout(piped()).spawn().unwrap();
        let tid = Tid(i32::try_from(child.id()).unwrap());
        child.stdin.as_mut().unwrap().write_all(b"x").unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let found = writable(tid).unwrap();
        let all = read(tid).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let picked: Vec<Extent> = all.iter().map(Mapping::extent).filter(|e| e.prot & 2 != 0).collect();
        assert_eq!(found, picked);
        assert!(found.len() > 2 && found.len() < all.len());
    }

    #[test]
    fn parts_of_mappings_are_the_same_whichever_way_they_are_asked_for() {
        let tid = Tid(i32::try_from(std::process::id()).unwrap());
        let all = read(tid).unwrap();
        // Other tests map and unmap meanwhile, but not what this test's text and stack are in.
        let here = Addr(parts_of as *const () as u64);
        let on_stack = Addr((&raw const all).addr() as u64);
        let around = |addr: Addr| addr.page_floor()..addr.page_floor() + 4096;
        let ranges = [around(here), around(on_stack), Addr(0)..Addr(4096)];
        let extents = extents(tid, &ranges).unwrap();
        assert_eq!(extents, parts_of(&all, &ranges));
        assert_eq!(extents.iter().map(|extent| extent.prot).collect::<Vec<_>>(), [5, 3]);
        let whole: Vec<Range<Addr>> = all.iter().take(3).map(|m| m.start..m.end).collect();
        assert_eq!(parts_of(&all, &whole).len(), 3);
        assert!(parts_of(&all, &[Addr(0)..Addr(1)]).is_empty());
    }
}
