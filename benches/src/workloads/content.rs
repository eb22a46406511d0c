//! Content that looks like something and is the same everywhere: numbers, words, bytes.

/// A sequence of numbers that is fixed by its seed (xorshift; nothing secret hangs on it).
pub struct Numbers(u64);

impl Numbers {
    pub fn new(seed: u64) -> Numbers {
        // The state must not be 0, and near seeds must not begin alike.
        Numbers((seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// Below `limit`, which must not be 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// `size` bytes that do not compress.
    pub fn noise(&mut self, size: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(size + 8);
        while bytes.len() < size {
            bytes.extend_from_slice(&self.next().to_le_bytes());
        }
        bytes.truncate(size);
        bytes
    }

    /// Lines of words, `size` bytes, that compress as text does.
    pub fn text(&mut self, size: usize) -> Vec<u8> {
        const WORDS: [&str; 16] = [
            "the", "of", "record", "and", "a", "replay", "in", "which", "memory", "to", "file", "is",
            "process", "that", "kernel", "time",
        ];
        let mut bytes = Vec::with_capacity(size + 32);
        while bytes.len() < size {
            let number = self.next();
            bytes.extend_from_slice(WORDS[(number % 16) as usize].as_bytes());
            if number >> 8 & 7 == 0 {
                bytes.extend_from_slice(format!("{}", number >> 52).as_bytes());
            }
            bytes.push(if number >> 16 & 15 == 0 { b'\n' } else { b' ' });
        }
        bytes.truncate(size);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_fixed_and_of_its_size() {
        for size in [0, 1, 7, 8, 9, 1000] {
            assert_eq!(Numbers::new(3).noise(size).len(), size);
            assert_eq!(Numbers::new(3).text(size).len(), size);
        }
        assert_eq!(Numbers::new(3).noise(99), Numbers::new(3).noise(99));
        assert_ne!(Numbers::new(3).noise(99), Numbers::new(4).noise(99));
        assert!((0..1000).all(|seed| Numbers::new(seed).below(7) < 7));
    }
}
