//! How much one read of a file of /proc gives. The kernel makes such a text record by record into a buffer of
//! a page (fs/seq_file.c: seq_read_iter): a read gives what is left in it, and then as many whole records as
//! fit, so it is often shorter than it was asked for. Pure.

use std::ops::Range;

use super::text;

/// What the kernel makes at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Records {
    /// A mapping and all lines about it.
    Mappings,
    Lines,
    /// The whole text.
    One,
}

impl Records {
    fn first_len(self, text: &[u8]) -> usize {
        match self {
            Self::Mappings => text::first_mapping_len(text),
            Self::Lines => text.iter().position(|byte| *byte == b'\n').map_or(text.len(), |at| at + 1),
            Self::One => text.len(),
        }
    }
}

/// The kernel's buffer, in places of the text.
#[derive(Debug)]
pub struct Window {
    /// Where the next read begins, if it goes on where the last one has ended.
    at: usize,
    /// Up to where the buffer is filled.
    end: usize,
    /// How long the buffer is. It grows to the first record that does not fit, and stays so.
    size: usize,
}

impl Default for Window {
    fn default() -> Self {
        Self { at: 0, end: 0, size: 4096 }
    }
}

impl Window {
    /// How much of the text a read from `at` can need: what is left, what fills the buffer, and a record
    /// behind it.
    pub fn reach(&self, at: usize) -> usize {
        at.max(self.end).saturating_add(self.size.saturating_mul(3))
    }

    /// The part of the text that a read of `len` bytes from `at` gives.
    pub fn read(&mut self, text: &[u8], records: Records, at: usize, len: usize) -> Range<usize> {
        let at = at.min(text.len());
        if at != self.at {
            // As after a seek: the record in which it begins is made, and the buffer has the rest of it.
            self.end = 0;
            while self.end < at {
                self.end += records.first_len(&text[self.end..]);
            }
        }
        let left = (self.end - at).min(len);
        let mut given = left;
        if at + left == self.end && left < len {
            let room = len - left;
            let first = records.first_len(&text[self.end..]);
            while first >= self.size {
                self.size *= 2;
            }
            let mut filled = first;
            while filled > 0 && filled < room {
                let next = records.first_len(&text[self.end + filled..]);
                if next == 0 || filled + next >= self.size {
                    break;
                }
                filled += next;
            }
            self.end += filled;
            given += filled.min(room);
        }
        self.at = at + given;
        at..self.at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(count: usize, len: usize) -> Vec<u8> {
        let line = [vec![b'x'; len - 1], vec![b'\n']].concat();
        line.repeat(count)
    }

    fn all(text: &[u8], records: Records, len: usize) -> Vec<usize> {
        let mut window = Window::default();
        let mut at = 0;
        let mut lens = Vec::new();
        loop {
            let part = window.read(text, records, at, len);
            assert_eq!(part.start, at);
            lens.push(part.len());
            if part.is_empty() {
                return lens;
            }
            at = part.end;
        }
    }

    #[test]
    fn whole_records_fill_a_page() {
        // A full buffer has overflowed: 40 times 100 bytes fit, 64 times 64 do not.
        assert_eq!(all(&lines(50, 100), Records::Lines, 1 << 16), [4000, 1000, 0]);
        assert_eq!(all(&lines(64, 64), Records::Lines, 1 << 16), [4032, 64, 0]);
        assert_eq!(all(&lines(50, 100), Records::Lines, 4096), [4000, 1000, 0]);
    }

    #[test]
    fn what_is_left_comes_first() {
        // 10 lines are made for 1000 bytes, and 11 for 1050: the rest of the last one is given with the next.
        assert_eq!(all(&lines(25, 100), Records::Lines, 1000), [1000, 1000, 500, 0]);
        assert_eq!(all(&lines(25, 100), Records::Lines, 1050), [1050, 1050, 400, 0]);
        assert_eq!(all(&lines(2, 100), Records::Lines, 150), [150, 50, 0]);
        assert_eq!(all(&lines(2, 3), Records::Lines, 1), [1, 1, 1, 1, 1, 1, 0]);
    }

    #[test]
    fn a_large_record_makes_the_buffer_large() {
        assert_eq!(all(&lines(3, 5000), Records::Lines, 1 << 16), [5000, 5000, 5000, 0]);
        assert_eq!(all(&lines(1, 5000), Records::One, 1 << 16), [5000, 0]);
        assert_eq!(all(&[lines(1, 5000), lines(80, 100)].concat(), Records::Lines, 1 << 16), [8100, 4900, 0]);
    }

    #[test]
    fn a_seek_begins_in_its_record() {
        let text = lines(50, 100);
        let mut window = Window::default();
        assert_eq!(window.read(&text, Records::Lines, 150, 1 << 16), 150..4200);
        assert_eq!(window.read(&text, Records::Lines, 0, 10), 0..10);
        assert_eq!(window.read(&text, Records::Lines, 9000, 10), 5000..5000);
    }

    #[test]
    fn mappings_go_with_what_is_said_of_them() {
        let record = b"1000-2000 rw-p 00000000 00:00 0 \nSize: 4 kB\nVmFlags: rd\n";
        let text = record.repeat(3);
        let len = record.len();
        assert_eq!(all(&text, Records::Mappings, len + 1), [len + 1, len + 1, len - 2, 0]);
        assert_eq!(all(&text, Records::Mappings, 1 << 16), [3 * len, 0]);
    }
}
