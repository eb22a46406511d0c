//! What is to be made, as a line of text: so that another process can make it.

use std::{fmt, io, str::FromStr};

use super::{DenseCache, DenseLayout, DenseName, DenseOptions, SiteKinds};
use crate::{key::Key, run::SiteKind, text::Text};

/// All that a dense text depends on, but for the bytes of its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DenseOrder {
    /// The file with the text.
    pub key: Key,
    /// What is counted in it, and hooked.
    pub options: DenseOptions,
    /// Where things lie, for a text that lies at the file's own addresses.
    pub layout: DenseLayout,
}

impl DenseOrder {
    /// The name of what is to be made.
    #[must_use]
    pub fn name(&self) -> DenseName {
        DenseName::of(&self.key, self.options, 0, &self.layout)
    }

    /// Makes it of the file's bytes, and stores it; or notes that it cannot be made, so that nobody tries
    /// again. Does nothing where either has been done.
    ///
    /// # Errors
    /// If what was made cannot be stored.
    pub fn fill(&self, cache: &DenseCache, elf: &[u8]) -> io::Result<()> {
        let name = self.name();
        if cache.is_made(&name) || cache.is_refused(&name) {
            return Ok(());
        }
        let text = Text::parse(elf).ok();
        let made = text.and_then(|text| text.dense(self.options).build(0, &self.layout).ok());
        match made {
            Some(made) => cache.store(&name, &made).map(drop),
            None => cache.refuse(&name),
        }
    }
}

impl fmt::Display for DenseOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DenseLayout { trampolines, counter, save, hooks, hook_save } = &self.layout;
        let DenseOptions { short_loops, hooks: kinds } = self.options;
        write!(f, "{},{},{:x}", self.key, u8::from(short_loops), kinds.0)?;
        write!(f, ",{trampolines:x},{counter:x},{save:x},")?;
        hook_save.map_or(Ok(()), |save| write!(f, "{save:x}"))?;
        hooks.iter().try_for_each(|(kind, address)| write!(f, ",{}:{address:x}", *kind as u8))
    }
}

/// A line that is no order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoOrder;

impl fmt::Display for NoOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it does not say which text is to be made")
    }
}

impl std::error::Error for NoOrder {}

impl FromStr for DenseOrder {
    type Err = NoOrder;

    fn from_str(line: &str) -> Result<Self, NoOrder> {
        read(line).ok_or(NoOrder)
    }
}

fn read(line: &str) -> Option<DenseOrder> {
    let mut words = line.split(',');
    let key = words.next().filter(|word| word.len() == 64 && word.is_ascii())?;
    let mut digest = [0; 32];
    for (at, byte) in digest.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&key[2 * at..2 * at + 2], 16).ok()?;
    }
    let short_loops = match words.next()? {
        "0" => false,
        "1" => true,
        _ => return None,
    };
    let kinds = SiteKinds(u16::from_str_radix(words.next()?, 16).ok()?);
    let trampolines = u64::from_str_radix(words.next()?, 16).ok()?;
    let mut word = || u32::from_str_radix(words.next()?, 16).ok();
    let (counter, save) = (word()?, word()?);
    let hook_save = match words.next()? {
        "" => None,
        save => Some(u32::from_str_radix(save, 16).ok()?),
    };
    let hook = |word: &str| {
        let (kind, address) = word.split_once(':')?;
        let kind = kind.parse::<u8>().ok()?;
        let kind = SiteKind::ALL.into_iter().find(|one| *one as u8 == kind)?;
        Some((kind, u64::from_str_radix(address, 16).ok()?))
    };
    let hooks = words.map(hook).collect::<Option<Vec<_>>>()?;
    let options = DenseOptions { short_loops, hooks: kinds };
    let layout = DenseLayout { trampolines, counter, save, hooks, hook_save };
    Some(DenseOrder { key: Key::of_content(&digest), options, layout })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn orders() -> impl Strategy<Value = DenseOrder> {
        let hooks = proptest::collection::vec((0..SiteKind::ALL.len(), any::<u64>()), 0..5);
        let words = (any::<u64>(), any::<u32>(), any::<u32>(), any::<Option<u32>>());
        (any::<[u8; 32]>(), any::<bool>(), any::<u16>(), words, hooks).prop_map(
            |(digest, short_loops, kinds, (trampolines, counter, save, hook_save), hooks)| {
                let hooks = hooks.into_iter().map(|(kind, address)| (SiteKind::ALL[kind], address)).collect();
                DenseOrder {
                    key: Key::of_content(&digest),
                    options: DenseOptions { short_loops, hooks: SiteKinds(kinds) },
                    layout: DenseLayout { trampolines, counter, save, hooks, hook_save },
                }
            },
        )
    }

    proptest! {
        #[test]
        fn an_order_is_read_as_it_was_written(order in orders()) {
            prop_assert_eq!(order.to_string().parse::<DenseOrder>(), Ok(order));
        }

        #[test]
        fn other_lines_are_refused(line in ".{0,200}") {
            prop_assert!(line.parse::<DenseOrder>().is_err());
        }
    }
}
