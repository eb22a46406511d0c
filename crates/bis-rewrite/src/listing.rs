//! A file's text as instructions: which bytes are one function, worked out when first needed, once, and each
//! function's instructions.

use std::{
    ops::Deref,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use iced_x86::{Decoder, DecoderOptions, Instruction};

use crate::{
    functions::{Functions, Region},
    image::Image,
};

/// A file with its functions.
pub(crate) struct Listing<'a> {
    pub image: Image<'a>,
    functions: OnceLock<Functions>,
    /// The function that was decoded last: a caller that asks about places asks in their order.
    decoded: Mutex<Option<(Region, Arc<[Instruction]>)>>,
}

impl<'a> Deref for Listing<'a> {
    type Target = Image<'a>;

    fn deref(&self) -> &Image<'a> {
        &self.image
    }
}

impl<'a> Listing<'a> {
    pub fn new(image: Image<'a>) -> Self {
        Self { image, functions: OnceLock::new(), decoded: Mutex::default() }
    }

    pub fn functions(&self) -> &Functions {
        self.functions.get_or_init(|| {
            let functions = Functions::of(&self.image);
            self.sections.iter().for_each(|section| self.note_seen(section));
            functions
        })
    }

    /// All instructions of a region, one after the other; invalid ones as such.
    pub fn decode(&self, region: &Region) -> Arc<[Instruction]> {
        let mut last = self.decoded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, instructions)) = &*last
            && known == region
        {
            // The caller will look at each.
            self.looked(region.len());
            return instructions.clone();
        }
        let instructions: Arc<[Instruction]> =
            self.instructions(region.start, region).collect::<Vec<_>>().into();
        self.worked(region.len());
        *last = Some((*region, instructions.clone()));
        instructions
    }

    /// The instructions of a region from here on, one after the other; invalid ones as such.
    pub fn instructions(&self, from: u64, region: &Region) -> impl Iterator<Item = Instruction> + '_ {
        let bytes = self.bytes_from(from).unwrap_or_default();
        let len = usize::try_from(region.end - from).unwrap_or(usize::MAX).min(bytes.len());
        let mut decoder = Decoder::with_ip(64, &bytes[..len], from, DecoderOptions::NONE);
        std::iter::from_fn(move || decoder.can_decode().then(|| decoder.decode()))
    }
}
