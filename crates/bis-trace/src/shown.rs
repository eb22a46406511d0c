//! Names and words of recorded programs as they are shown to people. Pure.

use std::fmt::Write as _;

/// Bytes of any kind as text that is safe on a terminal: control characters and bytes that are not UTF-8 are
/// escaped.
pub fn text(raw: &[u8]) -> String {
    let mut shown = String::new();
    for chunk in raw.utf8_chunks() {
        for character in chunk.valid().chars() {
            if character.is_control() {
                shown.extend(character.escape_default());
            } else {
                shown.push(character);
            }
        }
        for byte in chunk.invalid() {
            // Writing to a string does not fail.
            let _ = write!(shown, "\\x{byte:02x}");
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_reaches_the_terminal_raw() {
        assert_eq!(text(b"a\x1b[31m\xffb"), r"a\u{1b}[31m\xffb");
    }
}
