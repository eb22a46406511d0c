//! Errors: as a number, or as a sentence to those clients that show it.

use super::{Payload, hex_string, text};

/// How errors are told to this client.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Errors {
    /// `E16`: a number. Every client knows it.
    #[default]
    Numbers,
    /// `E.sentence`, to a client with [`super::super::Features::error_message`].
    Sentences,
    /// `E16;sentence in hexadecimal digits`, to LLDB behind `QEnableErrorStrings`.
    NumbersAndSentences,
}

impl Errors {
    /// What the number of an error is where there is none that says more.
    const NUMBER: u8 = 1;

    /// An error with a sentence.
    #[must_use]
    pub fn sentence(self, sentence: &str) -> Payload {
        self.error(Errors::NUMBER, sentence)
    }

    /// An error with a number, for which clients use those of `errno`, and a sentence.
    #[must_use]
    pub fn error(self, number: u8, sentence: &str) -> Payload {
        match self {
            Errors::Sentences if !sentence.is_empty() => text(format_args!("E.{sentence}")),
            Errors::NumbersAndSentences => {
                text(format_args!("E{number:02x};{}", hex_string(sentence.as_bytes())))
            }
            _ => text(format_args!("E{number:02x}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_client_gets_its_form() {
        let check = |errors: Errors, expected: &str| assert_eq!(errors.error(22, "no"), expected.as_bytes());
        check(Errors::Numbers, "E16");
        check(Errors::Sentences, "E.no");
        check(Errors::NumbersAndSentences, "E16;6e6f");
        assert_eq!(Errors::Sentences.sentence(""), b"E01");
    }
}
