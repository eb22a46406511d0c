//! The table of registers.

use bis_trace::types::REGISTER_NAMES;

use super::{EXTENDED_MAX, Offsets, Place, x87::Field};

/// A part of the target description.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Feature {
    Core,
    Sse,
    Linux,
    Segments,
    Avx,
    Avx512,
    Pkeys,
}

/// How clients show a register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// A number.
    Integer,
    DataPointer,
    CodePointer,
    /// The bits of eflags.
    Eflags,
    /// The bits of mxcsr.
    Mxcsr,
    /// An 80-bit number of the x87.
    Extended80,
    /// 128 bits as a vector of whatever the user likes.
    Vector128,
    /// The upper half of a ymm register.
    Upper128,
    /// The upper half of a zmm register.
    Upper256,
}

/// A register.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Register {
    pub number: usize,
    pub name: String,
    /// In bytes.
    pub len: usize,
    /// In the block of `g`.
    pub offset: usize,
    pub feature: Feature,
    pub format: Format,
    pub(super) place: Place,
}

/// Components of the extended state, by their bits in XCR0.
pub(super) mod component {
    pub const X87: u8 = 0;
    pub const SSE: u8 = 1;
    pub const YMM_HIGH: u8 = 2;
    pub const OPMASK: u8 = 5;
    pub const ZMM_HIGH: u8 = 6;
    pub const ZMM_16_31: u8 = 7;
    pub const PKRU: u8 = 9;
}
use component::{OPMASK, PKRU, SSE, X87, YMM_HIGH, ZMM_16_31, ZMM_HIGH};

/// The general registers in gdb's order.
const GENERAL: [&str; 16] = [
    "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12", "r13", "r14",
    "r15",
];
/// The general registers of a 32-bit program: gdb's name, and the word in whose lower half it is.
const GENERAL_NARROW: [(&str, &str); 8] = [
    ("eax", "rax"),
    ("ecx", "rcx"),
    ("edx", "rdx"),
    ("ebx", "rbx"),
    ("esp", "rsp"),
    ("ebp", "rbp"),
    ("esi", "rsi"),
    ("edi", "rdi"),
];
const SELECTORS: [&str; 6] = ["cs", "ss", "ds", "es", "fs", "gs"];

/// How many bits the registers of a program have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Width {
    Bits32,
    Bits64,
}

impl Width {
    /// How many there are of xmm0 and the next.
    fn vectors(self) -> usize {
        match self {
            Width::Bits32 => 8,
            Width::Bits64 => 16,
        }
    }
}

/// Offsets in the legacy area (Intel SDM volume 1, table 10-2).
const ST: usize = 32;
const XMM: usize = 160;
const MXCSR: usize = 24;

pub(super) fn table(width: Width, xcr0: u64, offsets: &Offsets) -> Vec<Register> {
    let has = |components: &[(u8, usize)]| {
        components.iter().all(|(component, offset)| xcr0 >> component & 1 != 0 && *offset < EXTENDED_MAX)
    };
    let mut table = Table(Vec::new());
    match width {
        Width::Bits32 => table.core_narrow(),
        Width::Bits64 => table.core(),
    }
    table.x87();
    table.sse(width);
    match width {
        Width::Bits32 => table.half(Feature::Linux, ("orig_eax", "orig_rax"), Format::Integer),
        Width::Bits64 => {
            table.word(Feature::Linux, "orig_rax", 8, Format::Integer);
            table.word(Feature::Segments, "fs_base", 8, Format::Integer);
            table.word(Feature::Segments, "gs_base", 8, Format::Integer);
        }
    }
    let has_avx = has(&[(YMM_HIGH, offsets.ymm_high)]);
    if has_avx {
        let place = |i| Place::Extended { offset: offsets.ymm_high + 16 * i, component: YMM_HIGH };
        table.group(Feature::Avx, 0..width.vectors(), |i| format!("ymm{i}h"), 16, Format::Upper128, place);
    }
    let upper = [(OPMASK, offsets.opmask), (ZMM_HIGH, offsets.zmm_high), (ZMM_16_31, offsets.zmm_16_31)];
    if has_avx && has(&upper) {
        table.avx512(width, offsets);
    }
    if has(&[(PKRU, offsets.pkru)]) {
        let place = Place::Extended { offset: offsets.pkru, component: PKRU };
        table.add(Feature::Pkeys, "pkru", 4, Format::Integer, place);
    }
    table.0
}

fn word(name: &str) -> Place {
    let index = REGISTER_NAMES.iter().position(|found| *found == name);
    Place::Word(index.expect("the table names registers that there are"))
}

struct Table(Vec<Register>);

impl Table {
    fn add(&mut self, feature: Feature, name: &str, len: usize, format: Format, place: Place) {
        let offset = self.0.last().map_or(0, |last| last.offset + last.len);
        self.0.push(Register {
            number: self.0.len(),
            name: name.to_owned(),
            len,
            offset,
            feature,
            format,
            place,
        });
    }

    /// A register that is a word of [`bis_trace::types::Registers`].
    fn word(&mut self, feature: Feature, name: &str, len: usize, format: Format) {
        self.add(feature, name, len, format, word(name));
    }

    /// A register of 32 bits, and the word in whose lower half it is.
    fn half(&mut self, feature: Feature, (name, whole): (&str, &str), format: Format) {
        self.add(feature, name, 4, format, word(whole));
    }

    /// Registers with numbers in their names.
    fn group(
        &mut self,
        feature: Feature,
        numbers: std::ops::Range<usize>,
        name: impl Fn(usize) -> String,
        len: usize,
        format: Format,
        place: impl Fn(usize) -> Place,
    ) {
        for number in numbers {
            self.add(feature, &name(number), len, format, place(number));
        }
    }

    fn core(&mut self) {
        for name in GENERAL {
            let is_pointer = matches!(name, "rbp" | "rsp");
            let format = if is_pointer { Format::DataPointer } else { Format::Integer };
            self.word(Feature::Core, name, 8, format);
        }
        self.word(Feature::Core, "rip", 8, Format::CodePointer);
    }

    fn core_narrow(&mut self) {
        for (name, whole) in GENERAL_NARROW {
            let is_pointer = matches!(name, "ebp" | "esp");
            let format = if is_pointer { Format::DataPointer } else { Format::Integer };
            self.half(Feature::Core, (name, whole), format);
        }
        self.half(Feature::Core, ("eip", "rip"), Format::CodePointer);
    }

    /// What is the same in both: flags, selectors, and the x87.
    fn x87(&mut self) {
        self.word(Feature::Core, "eflags", 4, Format::Eflags);
        for name in SELECTORS {
            self.word(Feature::Core, name, 4, Format::Integer);
        }
        let place = |i| Place::Extended { offset: ST + 16 * i, component: X87 };
        self.group(Feature::Core, 0..8, |i| format!("st{i}"), 10, Format::Extended80, place);
        for field in Field::ALL {
            self.add(Feature::Core, field.name(), 4, Format::Integer, Place::X87(field));
        }
    }

    fn sse(&mut self, width: Width) {
        let place = |i| Place::Extended { offset: XMM + 16 * i, component: SSE };
        self.group(Feature::Sse, 0..width.vectors(), |i| format!("xmm{i}"), 16, Format::Vector128, place);
        let place = Place::Extended { offset: MXCSR, component: SSE };
        self.add(Feature::Sse, "mxcsr", 4, Format::Mxcsr, place);
    }

    /// The registers 16 to 31 are whole in one component, of the lower ones only the upper half.
    fn avx512(&mut self, width: Width, offsets: &Offsets) {
        let upper = |i: usize, at: usize| Place::Extended {
            offset: offsets.zmm_16_31 + 64 * i.saturating_sub(16) + at,
            component: ZMM_16_31,
        };
        let mask = |i| Place::Extended { offset: offsets.opmask + 8 * i, component: OPMASK };
        let zmm = |i| match i {
            0..16 => Place::Extended { offset: offsets.zmm_high + 32 * i, component: ZMM_HIGH },
            _ => upper(i, 32),
        };
        let feature = Feature::Avx512;
        if width == Width::Bits64 {
            self.group(feature, 16..32, |i| format!("xmm{i}"), 16, Format::Vector128, |i| upper(i, 0));
            self.group(feature, 16..32, |i| format!("ymm{i}h"), 16, Format::Upper128, |i| upper(i, 16));
        }
        self.group(feature, 0..8, |i| format!("k{i}"), 8, Format::Integer, mask);
        let count = if width == Width::Bits64 { 32 } else { width.vectors() };
        self.group(feature, 0..count, |i| format!("zmm{i}h"), 32, Format::Upper256, zmm);
    }
}
