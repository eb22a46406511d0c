//! What a domain holds of the run tokens of shared memory.

mod held;

use std::time::Instant;

use bis_trace::types::ObjectId;

use crate::linger::Linger;

/// What a domain holds of the tokens of shared memory. A domain that begins holds none.
#[derive(Debug)]
pub struct Tokens {
    /// The objects whose tokens the domain holds.
    held: Vec<ObjectId>,
    since: Option<Instant>,
    /// Objects whose tokens the domain did not hold, but that the call in progress touches; the registry
    /// counts them as mappings.
    borrowed: Vec<ObjectId>,
    /// Mappings that are gone, but whose end is not written yet: one entry for each.
    unmapped: Vec<ObjectId>,
    /// Whether calls wait for an answer before tokens are given away.
    pub linger: Linger,
}

impl Default for Tokens {
    fn default() -> Tokens {
        Tokens {
            held: Vec::new(),
            since: None,
            borrowed: Vec::new(),
            unmapped: Vec::new(),
            linger: Linger::for_tokens(),
        }
    }
}

impl Tokens {
    pub fn holds_any(&self) -> bool {
        !self.held.is_empty()
    }

    pub fn holds(&self, object: ObjectId) -> bool {
        self.held.contains(&object)
    }
}
