//! A set of addresses in a file's text: one bit for each byte of its executable sections. It is what an
//! analysis that looks at every byte once, and is asked about each many times, can afford.

use crate::image::Image;

/// One bit for each byte of the executable sections.
pub(crate) struct Bits {
    /// Address and length of a section, and where its bits begin.
    sections: Vec<(u64, u64, usize)>,
    words: Vec<u64>,
}

impl Bits {
    pub fn new(image: &Image<'_>) -> Self {
        let mut sections = Vec::new();
        let mut bits = 0;
        for section in image.code() {
            sections.push((section.start, section.data.len() as u64, bits));
            bits += section.data.len();
        }
        Self { sections, words: vec![0; bits.div_ceil(64)] }
    }

    /// Address of the first byte of text.
    pub fn low(&self) -> u64 {
        self.sections.first().map_or(0, |first| first.0)
    }

    /// Address after the last byte of text.
    pub fn high(&self) -> u64 {
        self.sections.last().map_or(0, |last| last.0 + last.1)
    }

    /// Number of the bit of an address; none outside of the text. Addresses of one section have successive
    /// numbers.
    #[inline]
    pub fn index(&self, address: u64) -> Option<usize> {
        self.sections
            .iter()
            .find(|(start, len, _)| address.wrapping_sub(*start) < *len)
            .map(|(start, _, first)| first + (address - start) as usize)
    }

    #[inline]
    pub fn set(&mut self, address: u64) {
        if let Some(index) = self.index(address) {
            self.set_index(index);
        }
    }

    /// Sets the bit of a number that [`Bits::index`] gave.
    #[inline]
    pub fn set_index(&mut self, index: usize) {
        self.words[index / 64] |= 1 << (index % 64);
    }

    #[inline]
    fn has_index(&self, index: usize) -> bool {
        self.words[index / 64] & (1 << (index % 64)) != 0
    }

    pub fn has(&self, address: u64) -> bool {
        self.index(address).is_some_and(|index| self.has_index(index))
    }

    /// Whether one of `from..to` is in the set.
    pub fn any(&self, from: u64, to: u64) -> bool {
        (from..to).filter_map(|address| self.index(address)).any(|index| self.has_index(index))
    }

    /// The members among `from..to`, which lie in one section; none if they do not.
    pub fn members(&self, from: u64, to: u64) -> impl Iterator<Item = u64> + '_ {
        let last = to.checked_sub(1).filter(|last| from <= *last).and_then(|last| self.index(last));
        let range = match (self.index(from), last) {
            (Some(first), Some(last)) if last.wrapping_sub(first) as u64 == to - 1 - from => first..last + 1,
            _ => 0..0,
        };
        let (start, end) = (range.start, range.end);
        (start / 64..end.div_ceil(64)).flat_map(move |word| {
            let bits = self.words[word];
            std::iter::successors(Some(bits), |bits| Some(bits & bits.wrapping_sub(1)))
                .take_while(|bits| *bits != 0)
                .map(move |bits| word * 64 + bits.trailing_zeros() as usize)
                .filter(move |index| (start..end).contains(index))
                .map(move |index| from + (index - start) as u64)
        })
    }
}
