//! The x87's control registers. gdb sees them as `fstenv` has them, 32 bits each and a tag word of two bits
//! for each register; the extended state has them shorter, and one bit of tag for each register (Intel SDM
//! volume 1, 10.5.1).

/// A control register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Field {
    Control,
    Status,
    Tag,
    InstructionSegment,
    InstructionOffset,
    OperandSegment,
    OperandOffset,
    Opcode,
}

/// Offsets in the legacy area.
const STATUS: usize = 2;
const TAG: usize = 4;
const ST: usize = 32;

/// What the control word is at first: every exception masked, 64 bits of precision.
pub(super) const CONTROL_INITIAL: u16 = 0x37f;

impl Field {
    /// In gdb's order.
    pub const ALL: [Field; 8] = [
        Field::Control,
        Field::Status,
        Field::Tag,
        Field::InstructionSegment,
        Field::InstructionOffset,
        Field::OperandSegment,
        Field::OperandOffset,
        Field::Opcode,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Field::Control => "fctrl",
            Field::Status => "fstat",
            Field::Tag => "ftag",
            Field::InstructionSegment => "fiseg",
            Field::InstructionOffset => "fioff",
            Field::OperandSegment => "foseg",
            Field::OperandOffset => "fooff",
            Field::Opcode => "fop",
        }
    }

    /// Offset and length in the legacy area, and the bits that count.
    fn bytes(self) -> (usize, usize, u32) {
        match self {
            Field::Control => (0, 2, 0xffff),
            Field::Status => (STATUS, 2, 0xffff),
            Field::Tag => (TAG, 1, 0xff),
            Field::Opcode => (6, 2, 0x7ff),
            Field::InstructionOffset => (8, 4, u32::MAX),
            Field::InstructionSegment => (12, 2, 0xffff),
            Field::OperandOffset => (16, 4, u32::MAX),
            Field::OperandSegment => (20, 2, 0xffff),
        }
    }

    /// The field's value for clients; `legacy` has the whole x87 part.
    pub fn read(self, legacy: &[u8; 160]) -> u32 {
        let (offset, len, mask) = self.bytes();
        let value = (0..len).fold(0, |value, at| value | u32::from(legacy[offset + at]) << (8 * at)) & mask;
        if self == Field::Tag { u32::from(full_tag(legacy)) } else { value }
    }

    pub fn write(self, value: u32, legacy: &mut [u8; 160]) {
        let (offset, len, mask) = self.bytes();
        let value = if self == Field::Tag { u32::from(short_tag(value)) } else { value & mask };
        legacy[offset..offset + len].copy_from_slice(&value.to_le_bytes()[..len]);
    }
}

const EMPTY: u16 = 3;

/// Two bits for each physical register: valid 0, zero 1, special 2, empty 3.
fn full_tag(legacy: &[u8; 160]) -> u16 {
    let status = u16::from_le_bytes([legacy[STATUS], legacy[STATUS + 1]]);
    let top = usize::from(status >> 11 & 7);
    let tag = |physical: usize| {
        if legacy[TAG] >> physical & 1 == 0 {
            return EMPTY;
        }
        let at = ST + 16 * ((physical + 8 - top) % 8);
        let mantissa = u64::from_le_bytes(std::array::from_fn(|i| legacy[at + i]));
        let exponent = u16::from_le_bytes([legacy[at + 8], legacy[at + 9]]) & 0x7fff;
        match (exponent, mantissa) {
            (0, 0) => 1,
            (1..0x7fff, 0x8000_0000_0000_0000..) => 0,
            _ => 2,
        }
    };
    (0..8).fold(0, |tags, physical| tags | tag(physical) << (2 * physical))
}

/// One bit for each physical register: not empty.
fn short_tag(full: u32) -> u8 {
    (0..8)
        .filter(|physical| full >> (2 * physical) & 3 != u32::from(EMPTY))
        .fold(0, |tags, bit| tags | 1 << bit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_come_from_what_registers_hold() {
        let mut legacy = [0; 160];
        assert_eq!(Field::Tag.read(&legacy), 0xffff);
        // The top of the stack is physical register 6: st0 is 6, st1 is 7, st2 is 0.
        Field::Status.write(6 << 11, &mut legacy);
        legacy[TAG] = 0b1100_0011;
        let mut put = |st: usize, exponent: u16, mantissa: u64| {
            legacy[ST + 16 * st..][..8].copy_from_slice(&mantissa.to_le_bytes());
            legacy[ST + 16 * st + 8..][..2].copy_from_slice(&exponent.to_le_bytes());
        };
        put(0, 0xbfff, 1 << 63);
        put(1, 0, 0);
        put(2, 0x7fff, 1 << 63);
        put(3, 0, 1);
        let (valid, zero, special) = (0, 1, 2);
        let expected = special | special << 2 | 0xff << 4 | 3 << 10 | valid << 12 | zero << 14;
        assert_eq!(Field::Tag.read(&legacy), expected);
        Field::Tag.write(expected, &mut legacy);
        assert_eq!(legacy[TAG], 0b1100_0011);
    }

    #[test]
    fn fields_are_apart() {
        let mut legacy = [0xff; 160];
        for field in Field::ALL.into_iter().filter(|field| *field != Field::Tag) {
            field.write(0, &mut legacy);
            assert_eq!(field.read(&legacy), 0, "{}", field.name());
        }
        let left: Vec<usize> = (0..32).filter(|at| legacy[*at] != 0).collect();
        assert_eq!(left, [4, 5, 14, 15, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31]);
        Field::Opcode.write(u32::MAX, &mut legacy);
        assert_eq!(Field::Opcode.read(&legacy), 0x7ff);
    }
}
