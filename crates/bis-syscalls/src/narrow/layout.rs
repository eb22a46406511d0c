//! Reading and making the bytes of structures. All numbers are little-endian; a field beyond the end of the
//! bytes reads as zero.

/// The bytes of a structure, to be read by offset.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl Fields<'_> {
    fn array<const N: usize>(self, at: usize) -> [u8; N] {
        let mut found = [0; N];
        if let Some(from) = at.checked_add(N).and_then(|end| self.0.get(at..end)) {
            found.copy_from_slice(from);
        }
        found
    }

    pub(super) fn u16(self, at: usize) -> u16 {
        u16::from_le_bytes(self.array(at))
    }

    pub(super) fn u32(self, at: usize) -> u32 {
        u32::from_le_bytes(self.array(at))
    }

    pub(super) fn i32(self, at: usize) -> i32 {
        i32::from_le_bytes(self.array(at))
    }

    pub(super) fn u64(self, at: usize) -> u64 {
        u64::from_le_bytes(self.array(at))
    }
}

/// The bytes of a structure, to be written by offset.
pub(super) struct Fresh(pub(super) Vec<u8>);

impl Fresh {
    /// A structure of so many zeros.
    pub(super) fn new(len: usize) -> Fresh {
        Fresh(vec![0; len])
    }

    /// Puts bytes at an offset; they must fit.
    pub(super) fn put(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    pub(super) fn u16(&mut self, at: usize, value: u16) {
        self.put(at, &value.to_le_bytes());
    }

    pub(super) fn u32(&mut self, at: usize, value: u32) {
        self.put(at, &value.to_le_bytes());
    }

    pub(super) fn u64(&mut self, at: usize, value: u64) {
        self.put(at, &value.to_le_bytes());
    }
}

/// The low 32 bits.
#[expect(
    clippy::cast_possible_truncation,
    reason = "this is what the kernel keeps of a long in 32-bit structures"
)]
pub(super) fn low(value: u64) -> u32 {
    value as u32
}

/// The low 16 bits.
#[expect(clippy::cast_possible_truncation, reason = "the kernel's own reading of a short")]
pub(super) fn low16(value: u32) -> u16 {
    value as u16
}

/// A signed 32-bit number as the 64 bits of a `long`.
pub(super) fn signed(value: u32) -> u64 {
    i64::from(value.cast_signed()).cast_unsigned()
}

/// Two 32-bit halves as one number.
pub(super) fn joined(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// A number of bytes or elements as an index.
pub(super) fn size(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

/// A structure of signed 32-bit numbers as one of 64-bit numbers.
pub(super) fn widened(bytes: &[u8]) -> Vec<u8> {
    bytes.chunks_exact(4).flat_map(|word| signed(Fields(word).u32(0)).to_le_bytes()).collect()
}

/// A structure of 64-bit numbers as one of 32-bit numbers.
pub(super) fn narrowed(bytes: &[u8]) -> Vec<u8> {
    bytes.chunks_exact(8).flat_map(|word| low(Fields(word).u64(0)).to_le_bytes()).collect()
}
