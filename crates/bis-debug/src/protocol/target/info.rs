//! What `qRegisterInfo` says of a register, for LLDBs that do not read the target description.

use super::{
    super::reply::lldb::Pairs,
    Place,
    table::{Feature, Format, Register, Width},
};

pub(super) fn info(width: Width, register: &Register) -> Vec<u8> {
    let (encoding, format) = match register.format {
        Format::Extended80 | Format::Vector128 | Format::Upper128 | Format::Upper256 => {
            ("vector", "vector-uint8")
        }
        _ => ("uint", "hex"),
    };
    let is_x87 = register.name.starts_with("st") || matches!(register.place, Place::X87(_));
    let set = match register.feature {
        Feature::Core if is_x87 => "Floating Point Registers",
        Feature::Sse => "Floating Point Registers",
        Feature::Core | Feature::Linux | Feature::Segments | Feature::Pkeys => "General Purpose Registers",
        Feature::Avx | Feature::Avx512 => "Advanced Vector Extensions",
    };
    let mut pairs = Pairs::default()
        .plain("name", &register.name)
        .plain("bitsize", 8 * register.len)
        .plain("offset", register.offset)
        .plain("encoding", encoding)
        .plain("format", format)
        .plain("set", set);
    let number = match width {
        Width::Bits32 => dwarf_narrow(&register.name),
        Width::Bits64 => dwarf(&register.name),
    };
    if let Some(number) = number {
        pairs = pairs.plain("ehframe", number).plain("dwarf", number);
    }
    if let Some(generic) = generic(&register.name) {
        pairs = pairs.plain("generic", generic);
    }
    pairs.payload()
}

/// The number in debug information and unwind tables of 32-bit programs (i386 psABI, the same table).
fn dwarf_narrow(name: &str) -> Option<usize> {
    const GENERAL: [&str; 10] = ["eax", "ecx", "edx", "ebx", "esp", "ebp", "esi", "edi", "eip", "eflags"];
    let numbered = |prefix: &str| name.strip_prefix(prefix)?.parse::<usize>().ok();
    let general = GENERAL.iter().position(|found| *found == name);
    general.or_else(|| numbered("st").map(|n| 11 + n)).or_else(|| numbered("xmm").map(|n| 21 + n))
}

/// The number in debug information and unwind tables of 64-bit programs (x86-64 psABI, "DWARF Register Number
/// Mapping").
fn dwarf(name: &str) -> Option<usize> {
    const GENERAL: [&str; 17] = [
        "rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12", "r13",
        "r14", "r15", "rip",
    ];
    const OTHERS: [(&str, usize); 12] = [
        ("eflags", 49),
        ("es", 50),
        ("cs", 51),
        ("ss", 52),
        ("ds", 53),
        ("fs", 54),
        ("gs", 55),
        ("fs_base", 58),
        ("gs_base", 59),
        ("mxcsr", 64),
        ("fctrl", 65),
        ("fstat", 66),
    ];
    let numbered = |prefix: &str| name.strip_prefix(prefix)?.parse::<usize>().ok();
    let general = GENERAL.iter().position(|found| *found == name);
    let other = || OTHERS.iter().find(|(found, _)| *found == name).map(|(_, number)| *number);
    let xmm = || numbered("xmm").map(|n| if n < 16 { 17 + n } else { 67 + n - 16 });
    general
        .or_else(other)
        .or_else(xmm)
        .or_else(|| numbered("st").map(|n| 33 + n))
        .or_else(|| numbered("k").map(|n| 118 + n))
}

/// What the register is for, on every processor.
fn generic(name: &str) -> Option<&'static str> {
    Some(match name {
        "rip" | "eip" => "pc",
        "rsp" | "esp" => "sp",
        "rbp" | "ebp" => "fp",
        "eflags" => "flags",
        "rdi" => "arg1",
        "rsi" => "arg2",
        "rdx" => "arg3",
        "rcx" => "arg4",
        "r8" => "arg5",
        "r9" => "arg6",
        _ => return None,
    })
}
