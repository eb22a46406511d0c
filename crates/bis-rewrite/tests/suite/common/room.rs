//! Room in a real file for one more segment: a program header that it can do without, and addresses behind
//! all that it maps.

const PT_LOAD: u64 = 1;
const PT_NOTE: u64 = 4;
const PT_GNU_PROPERTY: u64 = 0x6474_e553;

pub fn number<const N: usize>(elf: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes[..N].copy_from_slice(&elf[at..at + N]);
    u64::from_le_bytes(bytes)
}

/// Offsets of the program headers of a type.
fn headers(elf: &[u8], kind: u64) -> Vec<usize> {
    let first = number::<8>(elf, 32) as usize;
    (0..number::<2>(elf, 56) as usize)
        .map(|index| first + index * 56)
        .filter(|at| number::<4>(elf, *at) == kind)
        .collect()
}

/// See the module's text.
pub struct Room {
    loads: Vec<usize>,
    spare: usize,
    /// Where the segment lies.
    pub addr: u64,
}

impl Room {
    /// None: there is no header to spare.
    pub fn of(elf: &[u8]) -> Option<Room> {
        let loads = headers(elf, PT_LOAD);
        let spare = [PT_NOTE, PT_GNU_PROPERTY]
            .into_iter()
            .flat_map(|kind| headers(elf, kind))
            .find(|at| Some(at) > loads.iter().max())?;
        let end = loads.iter().map(|at| number::<8>(elf, at + 16) + number::<8>(elf, at + 40)).max()?;
        Some(Room { loads, spare, addr: end.next_multiple_of(0x1000) + 0x10_0000 })
    }

    /// Where the file has what it maps at this address.
    pub fn offset_of(&self, elf: &[u8], address: u64) -> Option<usize> {
        self.loads.iter().find_map(|at| {
            let (offset, start, len) =
                (number::<8>(elf, at + 8), number::<8>(elf, at + 16), number::<8>(elf, at + 32));
            (start..start + len).contains(&address).then(|| (address - start + offset) as usize)
        })
    }

    /// Adds the segment, readable and executable.
    pub fn fill(&self, elf: &mut Vec<u8>, segment: Vec<u8>) {
        elf.resize(elf.len().next_multiple_of(0x1000), 0);
        let (offset, len) = (elf.len() as u64, segment.len() as u64);
        let header = [PT_LOAD | 5 << 32, offset, self.addr, self.addr, len, len, 0x1000];
        elf.extend(segment);
        elf[self.spare..self.spare + 56].copy_from_slice(&header.map(u64::to_le_bytes).concat());
    }
}
