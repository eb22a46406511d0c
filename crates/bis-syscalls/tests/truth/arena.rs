//! A run of memory full of poison, in which a case lays out what a call reads and writes.

const LEN: usize = 1 << 17;
/// Poison between two things, so that a write past the end of one is seen.
const GAP: usize = 72;

pub struct Arena {
    memory: Vec<u8>,
    used: usize,
}

impl Arena {
    pub fn new(poison: u8) -> Arena {
        Arena { memory: vec![poison; LEN], used: GAP }
    }

    pub fn base(&self) -> u64 {
        self.memory.as_ptr().expose_provenance() as u64
    }

    /// The address of `len` poisoned bytes, aligned to 8.
    pub fn room(&mut self, len: usize) -> u64 {
        let at = self.used;
        self.used = (at + len + GAP).next_multiple_of(8);
        assert!(self.used <= LEN, "the arena is too small");
        self.base() + at as u64
    }

    /// The address of a copy of `bytes`.
    pub fn put(&mut self, bytes: &[u8]) -> u64 {
        let at = self.room(bytes.len());
        self.set(at, bytes);
        at
    }

    /// The address of these words.
    pub fn words(&mut self, words: &[u64]) -> u64 {
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        self.put(&bytes)
    }

    /// The address of a string with its NUL.
    pub fn text(&mut self, text: &str) -> u64 {
        self.put(&[text.as_bytes(), &[0]].concat())
    }

    pub fn set(&mut self, addr: u64, bytes: &[u8]) {
        let at = usize::try_from(addr - self.base()).unwrap();
        self.memory[at..at + bytes.len()].copy_from_slice(bytes);
    }

    pub fn get(&self, addr: u64, len: usize) -> &[u8] {
        let at = usize::try_from(addr - self.base()).unwrap();
        &self.memory[at..at + len]
    }

    pub fn copy(&self) -> Vec<u8> {
        self.memory.clone()
    }

    /// The addresses of the bytes that are not as in `before`.
    pub fn changed(&self, before: &[u8]) -> Vec<u64> {
        // The kernel wrote behind the compiler's back.
        let now = std::hint::black_box(&self.memory);
        (self.base()..)
            .zip(now.iter().zip(before))
            .filter(|(_, (a, b))| a != b)
            .map(|(addr, _)| addr)
            .collect()
    }
}
