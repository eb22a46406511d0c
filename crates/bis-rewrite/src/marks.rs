//! Where instructions begin in a long stretch of text of which nothing is known, found by decoding it once. Whoever asks for each of
//! many addresses would decode all of it each time otherwise, and some files have 200 MB of it.

use std::sync::{Mutex, PoisonError};

use iced_x86::{Decoder, DecoderOptions};

use crate::{functions::Region, text::Text};

/// One mark for so many bytes.
const BLOCK: u64 = 4096;

/// The marks of the stretch that was asked for last: its start, and the first instruction that begins in each block.
#[derive(Default)]
pub(crate) struct Marks(Mutex<Option<(u64, Vec<u64>)>>);

impl Marks {
    /// Does an instruction begin at `address`, where all that the region has are decoded one after the other?
    pub fn begins(&self, text: &Text<'_>, region: &Region, address: u64) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if last.as_ref().is_none_or(|(start, _)| *start != region.start) {
            *last = Some((region.start, mark(text, region)));
        }
        let Some((_, marks)) = &*last else { return false };
        let before = marks.partition_point(|mark| *mark <= address);
        let Some(from) = before.checked_sub(1).map(|at| marks[at]) else { return false };
        instructions(text, from, region.end).find(|ip| *ip >= address) == Some(address)
    }
}

/// Where the instructions from here to `end` begin.
fn instructions(text: &Text<'_>, from: u64, end: u64) -> impl Iterator<Item = u64> {
    let bytes = text.bytes_from(from).unwrap_or_default();
    let len = usize::try_from(end - from).unwrap_or(usize::MAX).min(bytes.len());
    let mut decoder = Decoder::with_ip(64, &bytes[..len], from, DecoderOptions::NONE);
    std::iter::from_fn(move || decoder.can_decode().then(|| decoder.decode().ip()))
}

fn mark(text: &Text<'_>, region: &Region) -> Vec<u64> {
    let mut marks: Vec<u64> = Vec::new();
    for ip in instructions(text, region.start, region.end) {
        if marks.last().is_none_or(|last| last / BLOCK != ip / BLOCK) {
            marks.push(ip);
        }
    }
    marks
}
