//! Which functions a Go program has by its own table. Its runtime walks stacks with that, so it is there in
//! programs without symbols too, as most are that are given to others.
//!
//! Read in the form of Go 1.18 and later (`debug/gosym` of Go's library reads it as well): a header of eight
//! words, and at an offset that it names, a pair of numbers for each function, in order: where it begins,
//! from the begin of all Go text on, and where more is said of it.

use object::{Object as _, ObjectSection as _};

use crate::image::{Image, Section};

/// How the table begins: its version, two zeros, the unit of addresses in instructions, bytes of a pointer.
const HEADS: [[u8; 8]; 2] = [[0xf0, 0xff, 0xff, 0xff, 0, 0, 1, 8], [0xf1, 0xff, 0xff, 0xff, 0, 0, 1, 8]];
const HEAD: usize = 8;
/// Words of the header, behind its head.
const COUNT: usize = 0;
const TEXT_START: usize = 2;
const FUNCTIONS: usize = 7;
/// Bytes of a function's pair.
const PAIR: usize = 8;

/// What Go's linker puts between functions.
const PADDING: u8 = 0xcc;
/// Functions are aligned to this at least.
const ALIGNMENT: usize = 16;
/// So many functions decide at first whether all are where they seem to be.
const SAMPLE: usize = 64;

/// Begin and end of each function, in order. None for what is no Go program.
pub(crate) fn functions(image: &Image<'_>) -> Vec<(u64, u64)> {
    let names = [".gopclntab", ".data.rel.ro.gopclntab"];
    let table = names.iter().find_map(|name| image.file.section_by_name(name)?.data().ok());
    let begin = image.file.section_by_name(".text").map(|section| section.address());
    let section = begin.and_then(|begin| image.code_at(begin));
    let (Some(table), Some(section)) = (table, section) else { return Vec::new() };
    read(table, section).unwrap_or_default()
}

fn read(table: &[u8], section: &Section<'_>) -> Option<Vec<(u64, u64)>> {
    if !HEADS.contains(table.first_chunk()?) {
        return None;
    }
    let word = |index: usize| Some(u64::from_le_bytes(*table.get(HEAD + 8 * index..)?.first_chunk()?));
    let count = usize::try_from(word(COUNT)?).ok()?;
    let pairs = table.get(usize::try_from(word(FUNCTIONS)?).ok()?..)?;
    // One more ends the last function.
    let pairs = pairs.get(..count.checked_mul(PAIR)?.checked_add(PAIR / 2)?)?;
    let begin_of = |pair: &[u8]| Some(u32::from_le_bytes(*pair.first_chunk()?) as usize);
    let begins: Vec<usize> = pairs.chunks(PAIR).map(begin_of).collect::<Option<_>>()?;
    if !begins.is_sorted() {
        return None;
    }
    let base = base(&begins, word(TEXT_START)?, section)?;
    let at = |begin: usize| section.start + (base + begin) as u64;
    let function = |pair: &[usize]| {
        let code = section.data.get(base + pair[0]..base + pair[1])?;
        let len = code.iter().rposition(|byte| *byte != PADDING)? + 1;
        Some((at(pair[0]), at(pair[0]) + len as u64))
    };
    Some(begins.windows(2).filter_map(function).collect())
}

/// Where in the section Go's text begins. Since Go 1.26 the table does not say so, nor in programs that can
/// be loaded anywhere; and a linker may have put C code in front. So it is where functions have padding
/// before them.
fn base(begins: &[usize], said: u64, section: &Section<'_>) -> Option<usize> {
    let (last, functions) = begins.split_last()?;
    let inner = functions.get(1..).filter(|inner| !inner.is_empty())?;
    let room = section.data.len().checked_sub(*last)?;
    let fits = |base: usize, some: &[usize]| {
        let padded = some.iter().filter(|begin| {
            (base + **begin).checked_sub(1).and_then(|before| section.data.get(before)) == Some(&PADDING)
        });
        padded.count() * 4 >= some.len() * 3
    };
    let said = said.checked_sub(section.start).and_then(|said| usize::try_from(said).ok());
    let places = said.into_iter().chain((0..=room).step_by(ALIGNMENT));
    // From all over: the first ones may have zeros before them.
    let sample: Vec<usize> = inner.iter().step_by(inner.len().div_ceil(SAMPLE)).copied().collect();
    places.filter(|base| *base <= room).find(|base| fits(*base, &sample) && fits(*base, inner))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Functions of some lengths, with padding, behind `before` bytes of something else; and their table.
    fn program(before: usize, said: u64) -> (Vec<u8>, Vec<u8>, Vec<usize>) {
        let mut code = vec![0x90; before];
        let (mut begins, mut lens) = (Vec::new(), Vec::new());
        for number in 0..200 {
            begins.push(u32::try_from(code.len() - before).expect("short"));
            lens.push(1 + number * 37 % 400);
            code.extend(vec![0x90; lens[number]]);
            code.resize(code.len().next_multiple_of(32), PADDING);
        }
        let mut table = HEADS[1].to_vec();
        for word in [begins.len() as u64, 0, said, 0, 0, 0, 0, 72] {
            table.extend(word.to_le_bytes());
        }
        for begin in &begins {
            table.extend(begin.to_le_bytes());
            table.extend(0_u32.to_le_bytes());
        }
        table.extend(u32::try_from(code.len() - before).expect("short").to_le_bytes());
        (code, table, lens)
    }

    #[test]
    fn functions_are_found_wherever_their_text_begins() {
        const START: u64 = 0x40_1000;
        // At the begin of the text; behind C code, as the table says, and where it does not say so.
        for (before, said) in [(0, 0), (0x140, START + 0x140), (0x140, 0)] {
            let (code, table, lens) = program(before, said);
            let section = Section { start: START, data: &code, executable: true, offset: 0, plt: false };
            let found = read(&table, &section).expect("a table");
            assert_eq!(found.len(), lens.len());
            assert_eq!(found[0].0, START + before as u64);
            for ((begin, end), len) in found.iter().zip(&lens) {
                assert_eq!((end - begin, begin % 32), (*len as u64, 0));
            }
        }
    }

    #[test]
    fn what_cannot_be_read_is_no_table() {
        let (code, table, _) = program(0, 0);
        let section = Section { start: 0x1000, data: &code, executable: true, offset: 0, plt: false };
        for len in 0..table.len() {
            assert_eq!(read(&table[..len], &section), None, "{len} bytes");
        }
        let short = Section { data: &code[..code.len() - 64], ..section };
        assert_eq!(read(&table, &short), None);
        let bare = vec![0x90; code.len()];
        assert_eq!(read(&table, &Section { data: &bare, ..section }), None);
        for huge in [u64::MAX, 1 << 60] {
            let mut damaged = table.clone();
            damaged[8..16].copy_from_slice(&huge.to_le_bytes());
            assert_eq!(read(&damaged, &section), None);
        }
    }
}
