//! `printf` of agent expressions: the format as the user has typed it, with C's escapes and conversions.
//!
//! An argument is a 64-bit word; how many bits of it count, the conversion's length says. A number for `%f`
//! and its like is the bits of a double. `%n`, `%a` and widths that are arguments are not supported.

use super::{Fault, Look};
use bis_trace::types::Addr;

/// The largest width and precision.
const SIZE_MAX: usize = 4096;

/// How much of a string is read at a time, in bytes; it divides a page.
const PIECE: u64 = 64;

/// What is between the `%` and the conversion's letter.
#[derive(Default)]
struct Spec {
    left: bool,
    zero: bool,
    plus: bool,
    space: bool,
    alternate: bool,
    width: usize,
    precision: Option<usize>,
    bits: u32,
}

pub(super) fn print(
    format: &[u8],
    arguments: &[u64],
    look: &mut dyn Look,
    output: &mut Vec<u8>,
    output_max: usize,
) -> Result<(), Fault> {
    let mut rest = format;
    let mut arguments = arguments.iter().copied();
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        match first {
            b'\\' => output.push(escape(&mut rest)),
            b'%' if rest.first() == Some(&b'%') => {
                rest = &rest[1..];
                output.push(b'%');
            }
            b'%' => {
                let (spec, letter) = spec(&mut rest).ok_or(Fault::Format)?;
                let argument = arguments.next().ok_or(Fault::Format)?;
                let room = output_max.saturating_sub(output.len());
                convert(&spec, letter, argument, look, room, output)?;
            }
            other => output.push(*other),
        }
        if output.len() > output_max {
            return Err(Fault::Output);
        }
    }
    Ok(())
}

/// The character behind a backslash, or up to three octal digits of it.
fn escape(rest: &mut &[u8]) -> u8 {
    let len = rest.iter().take(3).take_while(|byte| (b'0'..b'8').contains(*byte)).count();
    if len > 0 {
        let (digits, behind) = rest.split_at(len);
        *rest = behind;
        return digits.iter().fold(0u8, |value, digit| value.wrapping_mul(8).wrapping_add(digit - b'0'));
    }
    let Some((first, behind)) = rest.split_first() else { return b'\\' };
    *rest = behind;
    match first {
        b'a' => 7,
        b'b' => 8,
        b't' => b'\t',
        b'n' => b'\n',
        b'v' => 11,
        b'f' => 12,
        b'r' => b'\r',
        b'e' => 27,
        other => *other,
    }
}

fn spec(rest: &mut &[u8]) -> Option<(Spec, u8)> {
    let mut spec = Spec { bits: 32, ..Spec::default() };
    let mut next = || {
        let (first, behind) = rest.split_first()?;
        *rest = behind;
        Some(*first)
    };
    let mut byte = next()?;
    loop {
        match byte {
            b'-' => spec.left = true,
            b'0' => spec.zero = true,
            b'+' => spec.plus = true,
            b' ' => spec.space = true,
            b'#' => spec.alternate = true,
            b'\'' => {}
            _ => break,
        }
        byte = next()?;
    }
    let mut size = |byte: &mut u8| {
        let mut value = 0;
        while byte.is_ascii_digit() {
            value = (10 * value + usize::from(*byte - b'0')).min(SIZE_MAX + 1);
            *byte = next()?;
        }
        (value <= SIZE_MAX).then_some(value)
    };
    spec.width = size(&mut byte)?;
    if byte == b'.' {
        byte = b'0';
        spec.precision = Some(size(&mut byte)?);
    }
    loop {
        match byte {
            b'h' => spec.bits /= 2,
            b'l' | b'j' | b'z' | b't' | b'q' | b'L' => spec.bits = 64,
            _ => return (spec.bits >= 8).then_some((spec, byte)),
        }
        byte = next()?;
    }
}

fn convert(
    spec: &Spec,
    letter: u8,
    argument: u64,
    look: &mut dyn Look,
    room: usize,
    output: &mut Vec<u8>,
) -> Result<(), Fault> {
    let low = argument << (64 - spec.bits) >> (64 - spec.bits);
    match letter {
        b'd' | b'i' => {
            let value = (argument << (64 - spec.bits)).cast_signed() >> (64 - spec.bits);
            integer(spec, sign(spec, value < 0), &value.unsigned_abs().to_string(), output);
        }
        b'u' => integer(spec, "", &low.to_string(), output),
        b'o' => integer(spec, if spec.alternate { "0" } else { "" }, &format!("{low:o}"), output),
        b'x' => {
            integer(spec, if spec.alternate && low != 0 { "0x" } else { "" }, &format!("{low:x}"), output)
        }
        b'X' => {
            integer(spec, if spec.alternate && low != 0 { "0X" } else { "" }, &format!("{low:X}"), output)
        }
        b'p' => integer(spec, "0x", &format!("{argument:x}"), output),
        b'c' if spec.bits == 64 => {
            let wide =
                u32::try_from(argument).ok().and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER);
            pad(spec, wide.to_string().as_bytes(), output);
        }
        b'c' => pad(spec, &argument.to_le_bytes()[..1], output),
        b's' => pad(spec, &string(Addr(argument), spec.precision, look, room)?, output),
        b'f' | b'F' | b'e' | b'E' | b'g' | b'G' => float(spec, letter, f64::from_bits(argument), output),
        _ => return Err(Fault::Format),
    }
    Ok(())
}

fn sign(spec: &Spec, is_negative: bool) -> &'static str {
    match (is_negative, spec.plus, spec.space) {
        (true, ..) => "-",
        (false, true, _) => "+",
        (false, false, true) => " ",
        (false, false, false) => "",
    }
}

/// A number: zeros go between its prefix and its digits.
fn integer(spec: &Spec, prefix: &str, digits: &str, output: &mut Vec<u8>) {
    let is_padded = spec.zero && !spec.left && spec.precision.is_none();
    let len = if is_padded { spec.width.saturating_sub(prefix.len()) } else { spec.precision.unwrap_or(1) };
    pad(spec, format!("{prefix}{digits:0>len$}").as_bytes(), output);
}

fn pad(spec: &Spec, text: &[u8], output: &mut Vec<u8>) {
    let blanks = vec![b' '; spec.width.saturating_sub(text.len())];
    let (before, behind) = if spec.left { (text, blanks.as_slice()) } else { (blanks.as_slice(), text) };
    output.extend_from_slice(before);
    output.extend_from_slice(behind);
}

/// A string of the program, up to its zero, or to the precision if there is one.
fn string(
    mut addr: Addr,
    precision: Option<usize>,
    look: &mut dyn Look,
    room: usize,
) -> Result<Vec<u8>, Fault> {
    let mut found = Vec::new();
    let len_max = precision.unwrap_or(usize::MAX);
    while found.len() < len_max {
        if found.len() > room {
            return Err(Fault::Output);
        }
        // A piece never crosses into the next page, which may not be there.
        let len = usize::try_from(PIECE - addr.0 % PIECE).unwrap_or(1).min(len_max - found.len());
        let start = found.len();
        found.resize(start + len, 0);
        look.memory(addr, &mut found[start..]).map_err(|_| Fault::Memory(addr.0))?;
        if let Some(end) = found[start..].iter().position(|byte| *byte == 0) {
            found.truncate(start + end);
            break;
        }
        addr = addr.wrapping_add(len as u64);
    }
    Ok(found)
}

fn float(spec: &Spec, letter: u8, value: f64, output: &mut Vec<u8>) {
    let precision = spec.precision.unwrap_or(6);
    let magnitude = value.abs();
    let digits = match letter {
        _ if !value.is_finite() => (if value.is_nan() { "nan" } else { "inf" }).to_owned(),
        b'f' | b'F' => format!("{magnitude:.precision$}"),
        b'e' | b'E' => scientific(magnitude, precision),
        _ => general(magnitude, precision.max(1), spec.alternate),
    };
    let digits = if letter.is_ascii_uppercase() { digits.to_uppercase() } else { digits };
    let spec = Spec { precision: None, zero: spec.zero && value.is_finite(), ..*spec };
    integer(&spec, sign(&spec, value.is_sign_negative()), &digits, output);
}

/// With an exponent of at least two digits.
fn scientific(magnitude: f64, precision: usize) -> String {
    let text = format!("{magnitude:.precision$e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
    format!("{digits}e{sign}{exponent:0>2}")
}

/// The shorter of both forms, without zeros at the end.
fn general(magnitude: f64, precision: usize, keeps_zeros: bool) -> String {
    let text = format!("{magnitude:.*e}", precision - 1);
    let exponent: i64 = text.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0);
    let trim = |digits: &str| {
        let is_cut = !keeps_zeros && digits.contains('.');
        (if is_cut { digits.trim_end_matches('0').trim_end_matches('.') } else { digits }).to_owned()
    };
    let is_plain = exponent >= -4 && i64::try_from(precision).is_ok_and(|precision| exponent < precision);
    if is_plain {
        let decimals = usize::try_from(precision as i64 - 1 - exponent).unwrap_or(0);
        return trim(&format!("{magnitude:.decimals$}"));
    }
    let text = scientific(magnitude, precision - 1);
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "+00"));
    format!("{}e{exponent}", trim(digits))
}
