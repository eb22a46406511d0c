//! Conversions by hand, both ways, with memory that is made up. What the kernel itself does is compared in
//! `tests/narrow`.

mod arrays;
mod properties;
mod structures;
mod table;

use super::*;

const ROOM: u64 = 0x8000_0000;

/// Memory in pieces; nothing elsewhere.
#[derive(Default)]
struct Pieces(Vec<(u64, Vec<u8>)>);

impl Pieces {
    fn with(mut self, at: u64, bytes: &[u8]) -> Pieces {
        self.0.insert(0, (at, bytes.to_vec()));
        self
    }

    fn words(self, at: u64, words: &[u32]) -> Pieces {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.with(at, &bytes)
    }
}

impl Memory for Pieces {
    fn read(&self, addr: u64, buf: &mut [u8]) -> bool {
        let end = addr.saturating_add(buf.len() as u64);
        let holds = |(at, bytes): &&(u64, Vec<u8>)| *at <= addr && end <= *at + bytes.len() as u64;
        let Some((at, bytes)) = self.0.iter().find(holds) else { return false };
        let start = usize::try_from(addr - at).unwrap();
        buf.copy_from_slice(&bytes[start..start + buf.len()]);
        true
    }
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn longs(longs: &[u64]) -> Vec<u8> {
    longs.iter().flat_map(|long| long.to_le_bytes()).collect()
}

/// The call, which must have a thunk.
fn thunk<const N: usize>(nr: u32, given: [u32; N], mem: &Pieces) -> Thunk {
    match translated(nr, given, mem) {
        Translated::Thunk(thunk) => thunk,
        other => panic!("{other:?}"),
    }
}

fn translated<const N: usize>(nr: u32, given: [u32; N], mem: &Pieces) -> Translated {
    let mut args = [0; 6];
    args[..N].copy_from_slice(&given);
    translate(&NarrowCall { nr, args }, ROOM, mem)
}

fn done<const N: usize>(nr: u32, given: [u32; N], mem: &Pieces) -> i64 {
    match translated(nr, given, mem) {
        Translated::Done(result) => result,
        other => panic!("{other:?}"),
    }
}

impl Thunk {
    /// What lies at `addr` of the room.
    fn at(&self, addr: u64, len: usize) -> &[u8] {
        let start = usize::try_from(addr - ROOM).unwrap();
        &self.content[start..start + len]
    }

    /// The room with these bytes at `addr`, as the call left it.
    fn left(&self, addr: u64, bytes: &[u8]) -> Pieces {
        let mut room = self.content.clone();
        let start = usize::try_from(addr - ROOM).unwrap();
        room[start..start + bytes.len()].copy_from_slice(bytes);
        Pieces::default().with(ROOM, &room)
    }
}
