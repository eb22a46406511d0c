//! Numbers, dates and command lines as people read them. Pure.

use std::{fmt::Write as _, os::unix::ffi::OsStrExt as _, path::Path};

pub use bis_trace::shown::text;

/// Bytes with three digits and a binary unit: `0 B`, `1.50 KiB`, `23.4 MiB`.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if count < 1024 {
        return format!("{count} B");
    }
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    let mut value = count as f64 / 1024.0;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{value:.digits$} {}", UNITS[unit])
}

/// A count with thin groups: `1 234 567`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// A count with its noun: `1 thread`, `2 threads`, `1 234 copies`.
pub fn counted(number: u64, noun: &str) -> String {
    let plural = match noun.strip_suffix('y') {
        _ if number == 1 => noun.to_owned(),
        Some(stem) => format!("{stem}ies"),
        None => format!("{noun}s"),
    };
    format!("{} {plural}", count(number))
}

/// Unix time in seconds as `2026-11-21 02:16:05 UTC`.
pub fn date(unix_s: i64) -> String {
    let (days, second) = (unix_s.div_euclid(86_400), unix_s.rem_euclid(86_400));
    // Days are counted from 1 March of year 0 in eras of 400 years, so that the leap day is a year's last.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02} UTC",
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

/// A path as [`text`].
pub fn path(path: &Path) -> String {
    text(path.as_os_str().as_bytes())
}

/// One argument as a POSIX shell (with `$'...'` for control characters) would take it.
fn quoted(raw: &[u8]) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-+=./,:@%^".contains(byte) || *byte >= 0x80;
    let valid = std::str::from_utf8(raw).is_ok_and(|text| !text.chars().any(char::is_control));
    if valid && !raw.is_empty() && raw.iter().all(plain) {
        return text(raw);
    }
    if valid {
        return format!("'{}'", text(raw).replace('\'', r"'\''"));
    }
    let mut shown = String::from("$'");
    for chunk in raw.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\'' | '\\' => shown.extend(['\\', character]),
                '\n' => shown.push_str("\\n"),
                '\t' => shown.push_str("\\t"),
                _ if character.is_control() => {
                    let mut units = [0; 4];
                    for byte in character.encode_utf8(&mut units).bytes() {
                        let _ = write!(shown, "\\x{byte:02x}");
                    }
                }
                _ => shown.push(character),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(shown, "\\x{byte:02x}");
        }
    }
    shown.push('\'');
    shown
}

/// A command line that can be pasted into a shell.
pub fn command_line<T: AsRef<[u8]>>(argv: &[T]) -> String {
    argv.iter().map(|arg| quoted(arg.as_ref())).collect::<Vec<_>>().join(" ")
}

/// At most `width` characters; what is cut ends with an ellipsis.
pub fn shortened(line: &str, width: usize) -> String {
    if line.chars().count() <= width {
        return line.to_owned();
    }
    line.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// How many characters the last column of a table may have: on a terminal what is left of its width, else
/// everything.
pub fn room(taken: usize) -> usize {
    use rustix::termios::{isatty, tcgetwinsize};
    let out = std::io::stdout();
    if !isatty(&out) {
        return usize::MAX;
    }
    tcgetwinsize(&out).map_or(usize::MAX, |size| match usize::from(size.ws_col) {
        0 => usize::MAX,
        columns => columns.saturating_sub(taken).max(20),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        let cases = [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (951_868_799, "2000-02-29 23:59:59 UTC"),
            (1_795_227_512, "2026-11-21 02:18:32 UTC"),
            (-1, "1969-12-31 23:59:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ];
        for (unix_s, expected) in cases {
            assert_eq!(date(unix_s), expected);
        }
    }

    #[test]
    fn sizes() {
        let cases = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1536, "1.50 KiB"),
            (10 << 20, "10.0 MiB"),
            (u64::MAX, "16.0 EiB"),
        ];
        for (value, expected) in cases {
            assert_eq!(bytes(value), expected);
        }
        assert_eq!(bytes(1023 * 1024), "1.00 MiB");
        assert_eq!(
            (count(0).as_str(), count(999).as_str(), count(1_234_567).as_str()),
            ("0", "999", "1 234 567")
        );
    }

    #[test]
    fn nouns() {
        assert_eq!((counted(1, "copy").as_str(), counted(0, "thread").as_str()), ("1 copy", "0 threads"));
        assert_eq!(counted(1_000, "copy"), "1 000 copies");
    }

    #[test]
    fn command_lines_can_be_pasted() {
        let line = command_line(&[&b"sh"[..], b"-c", b"echo it's $1", b"", b"a\nb", b"\xff", "ü".as_bytes()]);
        assert_eq!(line, r"sh -c 'echo it'\''s $1' '' $'a\nb' $'\xff' ü");
    }

    #[test]
    fn long_lines_are_cut() {
        assert_eq!(shortened("abcdef", 6), "abcdef");
        assert_eq!(shortened("abcdefg", 6), "abcde…");
    }
}
