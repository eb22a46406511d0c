//! Scratch memory: where the kernel writes the results of a call that may block, so that it does not write
//! behind the back of another task that runs meanwhile (the rr paper, 2.3.1). What it wrote is copied to its
//! place when the call has returned and nobody else runs.
//!
//! Each task has one block, below the agent, which grows when a call needs more. Replay knows nothing of it.

use std::{collections::HashMap, mem, ops::Range};

use bis_agent::{SCRATCH_BASE, SCRATCH_END};
use bis_syscalls::{Dir, Piece, Plan, Slot};
use bis_trace::types::{Addr, PAGE, Registers, Tid};
use bis_tracee::{Memory, Stopped, Usable, address_limit, remote::Remote};

use crate::error::Result;

const BLOCK_LEN_MIN: u64 = 64 * 1024;
/// A call that needs more than this keeps its own buffers.
const BLOCK_LEN_MAX: u64 = 16 * 1024 * 1024;
const ALIGN: u64 = 64;
/// The blocks of one address space.
#[derive(Clone, Debug)]
pub struct Scratch {
    blocks: HashMap<Tid, (Addr, u64)>,
    /// Where the calls of 32-bit programs are laid out anew.
    rooms: HashMap<Tid, (Addr, u64)>,
    /// Blocks of tasks that have ended.
    free: Vec<(Addr, u64)>,
    next: Addr,
}

impl Default for Scratch {
    fn default() -> Scratch {
        Scratch { blocks: HashMap::new(), rooms: HashMap::new(), free: Vec::new(), next: Addr(SCRATCH_BASE) }
    }
}

impl Scratch {
    /// Where the blocks are.
    pub fn ranges(&self) -> impl Iterator<Item = Range<Addr>> {
        self.blocks
            .values()
            .chain(self.rooms.values())
            .chain(&self.free)
            .map(|(start, len)| *start..*start + *len)
    }
}

/// What must be done before a call can be relocated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Room {
    /// The task's block is large enough, and begins here.
    At(Addr),
    /// A block of this many bytes has to be mapped at this address first.
    Map(Addr, u64),
    /// The call cannot be relocated.
    None,
}

/// Reads that bypass the page cache (O_DIRECT) want memory that is aligned to a sector or a page, and at
/// least a sector long.
const SECTOR: u64 = 512;

/// A piece from `home` lies where in a page it was, if that can matter.
fn place_at(at: Addr, home: Addr, len: u64) -> Addr {
    if len < SECTOR { at } else { at + (home.wrapping_since(at) & (PAGE - 1)) }
}

fn needed(plan: &Plan) -> u64 {
    let room = |len: u64| len.saturating_add(if len < SECTOR { ALIGN } else { ALIGN + PAGE });
    plan.pieces.iter().filter(|p| !p.fixed).map(|p| room(p.len)).fold(0, u64::saturating_add)
}

/// Can the pieces of a plan lie in scratch memory at all?
pub fn is_too_large(plan: &Plan) -> bool {
    needed(plan) > BLOCK_LEN_MAX
}

impl Scratch {
    /// Where the pieces of a plan could lie.
    pub fn room(&mut self, tid: Tid, plan: &Plan) -> Room {
        if is_too_large(plan) {
            return Room::None;
        }
        self.block(tid, needed(plan))
    }

    /// Where so many bytes could lie, not more than a block can have.
    pub fn block(&mut self, tid: Tid, needed: u64) -> Room {
        if let Some((base, len)) = self.blocks.get(&tid)
            && *len >= needed
        {
            return Room::At(*base);
        }
        let fits = self.free.iter().position(|(_, len)| *len >= needed);
        if let Some(index) = fits {
            let block = self.free.swap_remove(index);
            self.blocks.insert(tid, block);
            return Room::At(block.0);
        }
        let len = needed.max(BLOCK_LEN_MIN).next_multiple_of(PAGE);
        if self.next + len > Addr(SCRATCH_END) { Room::None } else { Room::Map(self.next, len) }
    }

    /// The task's block, if it has one.
    pub fn block_of(&self, tid: Tid) -> Option<Range<Addr>> {
        self.blocks.get(&tid).map(|(base, len)| *base..*base + *len)
    }

    /// Where the room for a 32-bit call of the task is, or will be.
    pub fn narrow_base(&self, tid: Tid) -> Addr {
        self.rooms.get(&tid).map_or(self.next, |(base, _)| *base)
    }

    /// Where the room for a 32-bit call of so many bytes is, or could be.
    pub fn narrow_room(&self, tid: Tid, len: u64) -> Room {
        match self.rooms.get(&tid) {
            Some((base, _)) => Room::At(*base),
            None if self.next + len > Addr(SCRATCH_END) => Room::None,
            None => Room::Map(self.next, len),
        }
    }

    /// Maps it.
    pub fn map_narrow(&mut self, slot: &mut Option<Stopped>, tid: Tid, base: Addr, len: u64) -> Result<()> {
        if self.map_at(slot, base, len)? {
            self.rooms.insert(tid, (base, len));
        }
        Ok(())
    }

    /// Maps a block, at a stop where a remote call can be made.
    pub fn map(&mut self, slot: &mut Option<Stopped>, tid: Tid, base: Addr, len: u64) -> Result<()> {
        if self.map_at(slot, base, len)?
            && let Some(old) = self.blocks.insert(tid, (base, len))
        {
            self.free.push(old);
        }
        Ok(())
    }

    /// False: the range is taken by the program's own image, and the next one is tried elsewhere.
    fn map_at(&mut self, slot: &mut Option<Stopped>, base: Addr, len: u64) -> Result<bool> {
        let prot = (libc::PROT_READ | libc::PROT_WRITE).cast_unsigned().into();
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        let mut remote = Remote::new(slot)?;
        let args = [base.0, len, prot, flags.cast_unsigned().into(), u64::MAX, 0];
        let mapped = address_limit::beside(&mut remote, |remote| remote.call(libc::SYS_mmap, args))?;
        remote.finish()?;
        // Behind a block is nothing.
        self.next = base + len + PAGE;
        Ok(mapped == base.0.cast_signed())
    }

    pub fn forget(&mut self, tid: Tid) {
        self.free.extend(self.blocks.remove(&tid));
        self.free.extend(self.rooms.remove(&tid));
    }

    /// No task has a block (in a forked child, whose one task has another id).
    pub fn free_all(&mut self) {
        self.free.extend(self.blocks.drain().chain(self.rooms.drain()).map(|(_, block)| block));
    }
}

/// A piece of a plan during the call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    pub addr: Addr,
    /// What was copied in, of a piece that the kernel reads and writes.
    pub before: Option<Vec<u8>>,
}

impl Place {
    /// The parts of `data`, which stands `offset` bytes into the piece, that are not what was copied in: only
    /// they go back, because another task may have changed the others at home meanwhile.
    pub fn changes(&self, offset: u64, data: Vec<u8>) -> Vec<(u64, Vec<u8>)> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let Some(before) = self.before.as_ref().and_then(|b| b.get(start..start + data.len())) else {
            return vec![(offset, data)];
        };
        let mut parts: Vec<(u64, Vec<u8>)> = Vec::new();
        let mut fresh = true;
        for ((at, new), old) in (offset..).zip(data).zip(before) {
            if new == *old {
                fresh = true;
            } else if fresh {
                parts.push((at, vec![new]));
                fresh = false;
            } else if let Some((_, part)) = parts.last_mut() {
                part.push(new);
            }
        }
        parts
    }
}

/// What of a piece the kernel could use where the program has it.
struct Part {
    /// Bytes from its start.
    len: u64,
    /// What is there, where the kernel reads it, or where only that told how much is there.
    content: Option<Vec<u8>>,
}

impl Part {
    /// None: the kernel could read more of it than write, and only the piece itself will do.
    fn of(piece: &Piece, tid: Tid, memory: &Memory) -> Option<Part> {
        let home = Addr(piece.home)..Addr(piece.home).saturating_add(piece.len);
        let read = |len: u64| {
            let content = memory.read_upto(home.start, usize::try_from(len).unwrap_or(0));
            Part { len: content.len() as u64, content: Some(content) }
        };
        let most = |usable: Usable| match usable {
            Usable::Surely(len) | Usable::Perhaps(len) => len,
        };
        match piece.dir {
            Dir::In => Some(read(most(memory.readable(tid, home.clone())))),
            Dir::Out => match memory.writable(tid, home.clone()) {
                Usable::Surely(len) => Some(Part { len, content: None }),
                // Nothing else tells whether it is there.
                Usable::Perhaps(len) => Some(read(len)),
            },
            Dir::InOut => {
                let part = read(most(memory.readable(tid, home.clone())));
                (part.len <= most(memory.writable(tid, home.clone()))).then_some(part)
            }
        }
    }
}

/// Puts the pieces of a plan into a block: copies what the kernel reads, and patches the pointers. Returns
/// the pieces' places and the registers to make the call with.
///
/// Of one that the kernel could use in part only, or not at all (behind it is nothing, or what the program
/// may not write), the part lies at the end of the block, behind which is nothing either: the call does, and
/// fails, as it would have. None where that is so of more than one, or of one that can be read and not
/// written.
pub fn relocate(
    plan: &Plan,
    block: &Range<Addr>,
    tid: Tid,
    memory: &Memory,
    entry: &Registers,
) -> Option<(Vec<Place>, Registers)> {
    let mut next = block.start;
    let mut has_edge = false;
    let mut places = Vec::with_capacity(plan.pieces.len());
    for piece in &plan.pieces {
        let home = Addr(piece.home);
        if piece.fixed {
            places.push(Place { addr: home, before: None });
            continue;
        }
        let Part { len, content } = Part::of(piece, tid, memory)?;
        let is_part = len < piece.len;
        if is_part && mem::replace(&mut has_edge, true) {
            return None;
        }
        let at = if is_part { block.end - len } else { place_at(next, home, len) };
        // What a call that fails has written of a part is told from what was there.
        let before = if piece.dir == Dir::Out && !is_part {
            None
        } else {
            let content = match content {
                Some(content) => content,
                None => memory.read_vec(home, usize::try_from(len).ok()?).ok()?,
            };
            memory.write(at, &content).ok()?;
            (piece.dir != Dir::In).then_some(content)
        };
        places.push(Place { addr: at, before });
        if !is_part {
            next = (at + len).next_multiple_of(ALIGN);
        }
    }
    let mut args = entry.args();
    for (piece, place) in plan.pieces.iter().zip(&places) {
        match piece.slot {
            Slot::Arg(index) => args[usize::from(index)] = place.addr.0,
            Slot::In { piece: holder, offset } => {
                memory.write(places[holder].addr + offset, &place.addr.0.to_le_bytes()).ok()?;
            }
        }
    }
    let [rdi, rsi, rdx, r10, r8, r9] = args;
    Some((places, Registers { rdi, rsi, rdx, r10, r8, r9, ..*entry }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changed_bytes_go_back() {
        let place = Place { addr: Addr(0), before: Some(b"abcdef".to_vec()) };
        assert_eq!(place.changes(1, b"bXYef".to_vec()), [(2, b"XY".to_vec())]);
        assert_eq!(place.changes(0, b"abcdef".to_vec()), []);
        let out = Place { addr: Addr(0), before: None };
        assert_eq!(out.changes(3, b"ab".to_vec()), [(3, b"ab".to_vec())]);
    }
}
