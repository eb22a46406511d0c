//! Spans: whole instructions from one address on that may give way to a jump, whatever they are.
//!
//! A [`crate::Run`] is chosen around a special instruction, for good. A span begins exactly where somebody wants to look at
//! a program each time it comes there, for a while ([`crate::conditional`]).

use iced_x86::{Decoder, DecoderOptions, Instruction};

use crate::{
    choose::{falls_through, movable},
    run::{JUMP, Run},
};

/// Whole instructions that may move together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Span {
    start: u64,
    bytes: Vec<u8>,
}

impl Span {
    /// A span of these bytes at `start`; none if they are not 5 to [`Run::MAX`] bytes of whole instructions, each of
    /// which may move. Whether anything leads into the middle of them, only an analysis of the file can say
    /// ([`crate::Text::span_at`]).
    #[must_use]
    pub fn new(start: u64, bytes: &[u8]) -> Option<Self> {
        start.checked_add(bytes.len() as u64)?;
        let span = Self { start, bytes: bytes.to_vec() };
        let instructions = span.instructions();
        let (_, before) = instructions.split_last()?;
        let sound = (JUMP..=Run::MAX).contains(&bytes.len())
            && instructions.iter().all(movable)
            && before.iter().all(falls_through);
        sound.then_some(span)
    }

    /// Address of the first byte.
    #[must_use]
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Address just after the last byte.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// What is there.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn instructions(&self) -> Vec<Instruction> {
        Decoder::with_ip(64, &self.bytes, self.start, DecoderOptions::NONE).into_iter().collect()
    }
}
