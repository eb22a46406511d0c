//! Which file it is, for the caches: a name that two files share only if all of their bytes are the same.
//! A caller knows the hash of the content already, because the trace keeps the file by it.
//!
//! A build-id is no such name: builds that fix it to a constant exist, and so do tools that edit a file and
//! leave it as it was; and not every linker makes one.

/// The name of a file's entry in a [`crate::SiteCache`], and of what is made of it in a
/// [`crate::DenseCache`].
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key(pub(crate) [u8; 32]);

impl Key {
    /// The name of the file with this content, of which `digest` is a hash.
    #[must_use]
    pub fn of_content(digest: &[u8; 32]) -> Self {
        Self(*digest)
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Key({self})")
    }
}
