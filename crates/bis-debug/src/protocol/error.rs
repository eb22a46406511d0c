//! What is wrong with a packet that is known and does not parse.

use std::fmt;

/// How much of a packet an error quotes, in bytes.
const QUOTED_MAX: usize = 40;

/// The reason, as a fragment of a sentence: "the address is not a hexadecimal number".
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Problem(pub &'static str);

/// A packet that is known and does not parse. Its text is a sentence for the client's user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Malformed {
    packet: String,
    problem: &'static str,
}

impl Malformed {
    pub(super) fn new(payload: &[u8], Problem(problem): Problem) -> Malformed {
        let quoted = payload.get(..QUOTED_MAX).unwrap_or(payload);
        let mut packet: String = quoted.escape_ascii().to_string();
        if payload.len() > QUOTED_MAX {
            packet.push_str("...");
        }
        Malformed { packet, problem }
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malformed packet `{}`: {}", self.packet, self.problem)
    }
}

impl std::error::Error for Malformed {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_packet_is_quoted_and_cut() {
        let said = |payload: &[u8]| Malformed::new(payload, Problem("it is odd")).to_string();
        assert_eq!(said(b"m1,\x01"), "malformed packet `m1,\\x01`: it is odd");
        assert_eq!(said(&[b'a'; 50]), format!("malformed packet `{}...`: it is odd", "a".repeat(40)));
    }
}
