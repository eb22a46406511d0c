//! What an analysis of a file's text rests on: its instructions, what points among them, and what little is
//! known of text that nobody tells of. Each is worked out when first needed, once.

use std::{ops::Deref, sync::OnceLock};

use crate::{image::Image, listing::Listing, stretch::Stretches, targets::Targets};

/// A file's text with all that is known of it.
pub(crate) struct Analysis<'a> {
    pub listing: Listing<'a>,
    targets: OnceLock<Targets>,
    pub stretches: Stretches,
}

impl<'a> Deref for Analysis<'a> {
    type Target = Listing<'a>;

    fn deref(&self) -> &Listing<'a> {
        &self.listing
    }
}

impl<'a> Analysis<'a> {
    pub fn new(image: Image<'a>) -> Self {
        Self { listing: Listing::new(image), targets: OnceLock::new(), stretches: Stretches::default() }
    }

    pub fn targets(&self) -> &Targets {
        self.targets.get_or_init(|| Targets::of(&self.listing))
    }
}
