//! The checksum of `qCRC`, by which a client compares memory with a file's sections: CRC-32 with the most
//! significant bit first, beginning with ones, without a final inversion.

/// A checksum under way. Memory may come in pieces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Crc(u32);

impl Default for Crc {
    fn default() -> Crc {
        Crc(u32::MAX)
    }
}

impl Crc {
    const POLYNOMIAL: u32 = 0x04c1_1db7;

    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut index = 0;
        while index < table.len() {
            let mut value = (index as u32) << 24;
            let mut bit = 0;
            while bit < 8 {
                let carry = value >> 31 != 0;
                value = value << 1 ^ if carry { Crc::POLYNOMIAL } else { 0 };
                bit += 1;
            }
            table[index] = value;
            index += 1;
        }
        table
    };

    pub fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            let [top, ..] = self.0.to_be_bytes();
            self.0 = self.0 << 8 ^ Crc::TABLE[usize::from(top ^ byte)];
        }
    }

    #[must_use]
    pub fn value(self) -> u32 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_of_this_crc() {
        let mut crc = Crc::default();
        crc.add(b"1234");
        crc.add(b"56789");
        // CRC-32/MPEG-2 in the catalogue of parametrised CRC algorithms.
        assert_eq!(crc.value(), 0x0376_e6e7);
    }
}
