//! The target description: which registers there are, for gdb, LLDB and Delve (gdb manual, "Target
//! Descriptions").
//!
//! Names of features, of registers, and of the types that users see (`$xmm0.v4_float`) are gdb's. Types that
//! came late to gdb (`bfloat16`) are left out: a gdb that does not know one refuses the whole description.
//!
//! Delve decides the form. It finds registers only in files of their own, whose includes have the prefix `xi`
//! without a declaration (gdb has that from the DTD, LLDB takes the name as it is); it takes an opening brace
//! for an escape, and an asterisk for a run length. So `target.xml` includes a file for each feature, and
//! none has such a character.

use std::fmt::Write as _;

use super::{
    Place,
    table::{Feature, Format, Register, Width},
};

impl Feature {
    const ALL: [Feature; 7] = [
        Feature::Core,
        Feature::Sse,
        Feature::Linux,
        Feature::Segments,
        Feature::Avx,
        Feature::Avx512,
        Feature::Pkeys,
    ];

    fn name(self) -> &'static str {
        match self {
            Feature::Core => "core",
            Feature::Sse => "sse",
            Feature::Linux => "linux",
            Feature::Segments => "segments",
            Feature::Avx => "avx",
            Feature::Avx512 => "avx512",
            Feature::Pkeys => "pkeys",
        }
    }
}

/// The bits of a register: name, lowest, highest.
type Flags = [(&'static str, u8)];
const EFLAGS: &Flags = &[
    ("CF", 0),
    ("", 1),
    ("PF", 2),
    ("AF", 4),
    ("ZF", 6),
    ("SF", 7),
    ("TF", 8),
    ("IF", 9),
    ("DF", 10),
    ("OF", 11),
    ("NT", 14),
    ("RF", 16),
    ("VM", 17),
    ("AC", 18),
    ("VIF", 19),
    ("VIP", 20),
    ("ID", 21),
];
const MXCSR: &Flags = &[
    ("IE", 0),
    ("DE", 1),
    ("ZE", 2),
    ("OE", 3),
    ("UE", 4),
    ("PE", 5),
    ("DAZ", 6),
    ("IM", 7),
    ("DM", 8),
    ("ZM", 9),
    ("OM", 10),
    ("UM", 11),
    ("PM", 12),
    ("FZ", 15),
];

/// The views of 128 bits: the vector's id, its field's name, its element and how many.
const VIEWS: [(&str, &str, &str, usize); 6] = [
    ("v4f", "v4_float", "ieee_single", 4),
    ("v2d", "v2_double", "ieee_double", 2),
    ("v16i8", "v16_int8", "int8", 16),
    ("v8i16", "v8_int16", "int16", 8),
    ("v4i32", "v4_int32", "int32", 4),
    ("v2i64", "v2_int64", "int64", 2),
];

/// The files of a description with their names, first that which clients ask for first.
pub(super) fn files(width: Width, registers: &[Register]) -> Vec<(String, String)> {
    let architecture = match width {
        Width::Bits32 => "i386",
        Width::Bits64 => "i386:x86-64",
    };
    let mut target = format!(
        "<?xml version=\"1.0\"?>\n<!DOCTYPE target SYSTEM \"gdb-target.dtd\">\n<target>\n\
         <architecture>{architecture}</architecture>\n<osabi>GNU/Linux</osabi>\n"
    );
    let mut files = Vec::new();
    for feature in Feature::ALL {
        let its: Vec<&Register> = registers.iter().filter(|register| register.feature == feature).collect();
        if !its.is_empty() {
            let name = format!("{}.xml", feature.name());
            let _ = writeln!(target, "<xi:include href=\"{name}\"/>");
            files.push((name, feature_file(feature, &its)));
        }
    }
    target.push_str("</target>\n");
    files.insert(0, ("target.xml".to_owned(), target));
    files
}

fn feature_file(feature: Feature, registers: &[&Register]) -> String {
    let mut xml = "<?xml version=\"1.0\"?>\n<!DOCTYPE feature SYSTEM \"gdb-target.dtd\">\n".to_owned();
    let _ = writeln!(xml, "<feature name=\"org.gnu.gdb.i386.{}\">", feature.name());
    types(&mut xml, feature);
    for register in registers {
        element(&mut xml, register);
    }
    xml + "</feature>\n"
}

/// The types that the registers of a feature need.
fn types(xml: &mut String, feature: Feature) {
    match feature {
        Feature::Core => flags(xml, "i386_eflags", EFLAGS),
        Feature::Sse => {
            views(xml);
            flags(xml, "i386_mxcsr", MXCSR);
        }
        Feature::Avx512 => {
            views(xml);
            xml.push_str("<vector id=\"v2ui128\" type=\"uint128\" count=\"2\"/>\n");
        }
        Feature::Linux | Feature::Segments | Feature::Avx | Feature::Pkeys => {}
    }
}

fn flags(xml: &mut String, id: &str, flags: &Flags) {
    let _ = writeln!(xml, "<flags id=\"{id}\" size=\"4\">");
    for (name, bit) in flags {
        let _ = writeln!(xml, "<field name=\"{name}\" start=\"{bit}\" end=\"{bit}\"/>");
    }
    xml.push_str("</flags>\n");
}

fn views(xml: &mut String) {
    for (id, _, element, count) in VIEWS {
        let _ = writeln!(xml, "<vector id=\"{id}\" type=\"{element}\" count=\"{count}\"/>");
    }
    xml.push_str("<union id=\"vec128\">\n");
    for (id, name, ..) in VIEWS {
        let _ = writeln!(xml, "<field name=\"{name}\" type=\"{id}\"/>");
    }
    xml.push_str("<field name=\"uint128\" type=\"uint128\"/>\n</union>\n");
}

fn element(xml: &mut String, register: &Register) {
    let Register { number, name, len, .. } = register;
    let is_of_x87 = register.feature == Feature::Core && matches!(register.place, Place::X87(_));
    let type_name = match register.format {
        Format::Integer => match (register.feature, len) {
            (Feature::Avx512, _) => "uint64",
            (Feature::Core, 8) => "int64",
            // gdb's type for the selectors, and the x87's words, which go with the floating-point registers.
            (Feature::Core, _) if !is_of_x87 => "int32",
            _ => "int",
        },
        Format::DataPointer => "data_ptr",
        Format::CodePointer => "code_ptr",
        Format::Eflags => "i386_eflags",
        Format::Mxcsr => "i386_mxcsr",
        Format::Extended80 => "i387_ext",
        Format::Vector128 => "vec128",
        Format::Upper128 => "uint128",
        Format::Upper256 => "v2ui128",
    };
    let group = match (register.feature, register.format) {
        (Feature::Core, Format::Integer) if is_of_x87 => " group=\"float\"",
        (_, Format::Mxcsr) => " group=\"vector\"",
        (Feature::Linux, _) => " group=\"system\"",
        _ => "",
    };
    let bits = 8 * len;
    let _ = writeln!(
        xml,
        "<reg name=\"{name}\" bitsize=\"{bits}\" type=\"{type_name}\" regnum=\"{number}\"{group}/>"
    );
}
