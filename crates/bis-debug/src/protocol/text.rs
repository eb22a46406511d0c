//! A cursor over a packet's payload: numbers, hexadecimal bytes, separators. Every parser of a command is
//! made of it.

use super::error::Problem;

pub(super) type Parsed<T> = Result<T, Problem>;

/// What is left of a payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Text<'a>(pub &'a [u8]);

impl<'a> Text<'a> {
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The rest, which is then used up.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    /// Is this what comes next? Then it is skipped.
    pub fn skip(&mut self, prefix: &str) -> bool {
        let rest = self.0.strip_prefix(prefix.as_bytes());
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    /// Skips this, which has to come next.
    pub fn expect(&mut self, prefix: &str, problem: &'static str) -> Parsed<()> {
        if self.skip(prefix) { Ok(()) } else { Err(Problem(problem)) }
    }

    /// Nothing may be left.
    pub fn end(self) -> Parsed<()> {
        if self.is_empty() { Ok(()) } else { Err(Problem("there is something behind its end")) }
    }

    /// What comes before the first of these bytes, or all; the byte itself stays.
    pub fn until(&mut self, stops: &[u8]) -> &'a [u8] {
        let len = self.0.iter().position(|byte| stops.contains(byte)).unwrap_or(self.0.len());
        let (before, rest) = self.0.split_at(len);
        self.0 = rest;
        before
    }

    /// What comes before the first of this byte, which is skipped; none if it does not come.
    pub fn field(&mut self, stop: u8) -> Option<&'a [u8]> {
        let len = self.0.iter().position(|byte| *byte == stop)?;
        let (before, rest) = (self.0.get(..len)?, self.0.get(len + 1..)?);
        self.0 = rest;
        Some(before)
    }

    /// A hexadecimal number without sign. `problem` says what is missing, or does not fit 64 bits.
    pub fn hex(&mut self, problem: &'static str) -> Parsed<u64> {
        self.number(16, problem)
    }

    /// A decimal number without sign.
    pub fn decimal(&mut self, problem: &'static str) -> Parsed<u64> {
        self.number(10, problem)
    }

    fn number(&mut self, radix: u32, problem: &'static str) -> Parsed<u64> {
        let len = self.0.iter().take_while(|byte| char::from(**byte).is_digit(radix)).count();
        let (digits, rest) = self.0.split_at(len);
        let number = std::str::from_utf8(digits).ok().and_then(|text| u64::from_str_radix(text, radix).ok());
        self.0 = rest;
        number.ok_or(Problem(problem))
    }

    /// A hexadecimal number that fits a kernel's positive id or descriptor.
    pub fn hex_id(&mut self, problem: &'static str) -> Parsed<i32> {
        i32::try_from(self.hex(problem)?).map_err(|_| Problem(problem))
    }

    /// Two hexadecimal numbers with a comma between them: an address and a length, for the most part.
    pub fn pair(&mut self, first: &'static str, second: &'static str) -> Parsed<(u64, u64)> {
        let one = self.hex(first)?;
        self.expect(",", "a comma is missing")?;
        Ok((one, self.hex(second)?))
    }
}

/// Bytes, two hexadecimal digits each.
pub(super) fn hex_bytes(text: &[u8]) -> Parsed<Vec<u8>> {
    let (pairs, odd) = text.as_chunks::<2>();
    if !odd.is_empty() {
        return Err(Problem("its bytes have an odd number of hexadecimal digits"));
    }
    let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
    let byte = |[high, low]: &[u8; 2]| Some(digit(*high)? << 4 | digit(*low)?);
    pairs.iter().map(byte).collect::<Option<_>>().ok_or(Problem("its bytes are not hexadecimal digits"))
}

/// Text in hexadecimal digits; what is not UTF-8 is replaced.
pub(super) fn hex_text(text: &[u8]) -> Parsed<String> {
    Ok(lossy(&hex_bytes(text)?))
}

pub(super) fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A flag that is `0` or `1`.
pub(super) fn flag(text: &[u8]) -> Parsed<bool> {
    match text {
        b"0" => Ok(false),
        b"1" => Ok(true),
        _ => Err(Problem("it is neither 0 nor 1")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_end_where_digits_end() {
        let mut text = Text(b"1f,20;rest");
        assert_eq!(text.pair("one", "two"), Ok((0x1f, 0x20)));
        assert_eq!(text.rest(), b";rest");
        assert_eq!(Text(b"+1").hex("no"), Err(Problem("no")), "a sign is no digit");
        assert_eq!(Text(b"10000000000000000").hex("no"), Err(Problem("no")));
        assert_eq!(Text(b"ffffffffffffffff").hex("no"), Ok(u64::MAX));
        assert_eq!(Text(b"ffffffff").hex_id("no"), Err(Problem("no")));
    }

    #[test]
    fn bytes_are_pairs_of_digits() {
        assert_eq!(hex_bytes(b"00fF7a"), Ok(vec![0, 0xff, 0x7a]));
        assert!(hex_bytes(b"0").is_err() && hex_bytes(b"0x").is_err() && hex_bytes(b"+1").is_err());
    }
}
