//! Which file it is, for the cache: a name that two files share only if they are the same in all that the
//! analysis looks at, and that costs little to find.
//!
//! A build-id alone is not enough: builds that fix it to a constant exist, and so do tools that edit a file
//! and leave it as it was. The file's size and its first and last page, where headers are, go into the name
//! too. A file without a build-id is named by all of its code, unless that is too much to hash for every
//! process that starts.

use crate::text::Text;

const PAGE: usize = 4096;

/// The least bytes a build-id has to count as one.
const BUILD_ID_MIN: usize = 8;

/// A file without a build-id that has this many bytes of code is not cached.
const CODE_MAX: usize = 64 << 20;

/// Of what follows the last section in memory (debugging information, symbols, the section headers), the last
/// so many bytes are hashed for an exact name.
const REST_MAX: usize = 64 << 20;

/// Bytes that are read at once.
const PART: usize = 1 << 20;

/// The name of a file's entry in a [`crate::SiteCache`].
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key(pub(crate) [u8; 32]);

impl Key {
    /// The name of a file, of which `elf` is all bytes and `text` the analysis. None if finding it would take
    /// too long.
    #[must_use]
    pub fn of(elf: &[u8], text: &Text<'_>) -> Option<Self> {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&(elf.len() as u64).to_le_bytes());
        hasher.update(&elf[..elf.len().min(PAGE)]);
        hasher.update(&elf[elf.len().saturating_sub(PAGE)..]);
        match text.build_id().filter(|id| id.len() >= BUILD_ID_MIN) {
            Some(id) => {
                hasher.update(b"build-id");
                hasher.update(id);
            }
            None => {
                let code = text.code().map(|section| section.data.len()).sum::<usize>();
                if code >= CODE_MAX {
                    return None;
                }
                hasher.update(b"code");
                for section in text.code() {
                    hasher.update(&section.start.to_le_bytes());
                    hasher.update(&(section.data.len() as u64).to_le_bytes());
                    hasher.update(section.data);
                }
            }
        }
        Some(Self(hasher.finalize().into()))
    }

    /// The name of a file by all that it has in memory, whatever its build-id says. For what is believed
    /// without a look at the memory: a dense text takes the place of the whole of the file's, so it must be
    /// of this very file.
    ///
    /// It reads all of it (about 3 ms for each 10 MiB); remember the answer for as long as the file surely
    /// stays the same. `seen` is told each part that has been read: who has mapped the file may let go of it.
    #[must_use]
    pub fn exact(elf: &[u8], text: &Text<'_>, seen: impl Fn(&[u8])) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"exact");
        hasher.update(&(elf.len() as u64).to_le_bytes());
        hasher.update(&elf[..elf.len().min(PAGE)]);
        for section in &text.sections {
            for number in [section.start, section.offset, section.data.len() as u64] {
                hasher.update(&number.to_le_bytes());
            }
            for part in section.data.chunks(PART) {
                hasher.update(part);
                seen(part);
            }
        }
        // Headers and symbols count too, and lie at the end.
        let last = text.sections.iter().map(|section| section.offset as usize + section.data.len()).max();
        let rest = elf.get(last.unwrap_or(0)..).unwrap_or_default();
        for part in rest[rest.len().saturating_sub(REST_MAX)..].chunks(PART) {
            hasher.update(part);
            seen(part);
        }
        Self(hasher.finalize().into())
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
