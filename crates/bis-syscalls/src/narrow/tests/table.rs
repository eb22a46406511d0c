//! The i386 table as a whole.

use super::*;
use crate::narrow::table::{How, rows};

/// Numbers that the table leaves out.
const UNUSED: [u32; 11] = [222, 223, 251, 285, 387, 388, 389, 390, 391, 392, 415];

#[test]
fn each_number_is_there_once() {
    let numbers: Vec<u32> = rows().map(|row| row.nr).collect();
    let expected: Vec<u32> = (0..=469).filter(|nr| !UNUSED.contains(nr)).collect();
    assert_eq!(numbers, expected);
    for row in rows() {
        assert_eq!(name(row.nr), Some(row.name));
    }
    let mut names: Vec<&str> = rows().map(|row| row.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), numbers.len());
}

#[test]
fn numbers_that_the_table_leaves_out_fail() {
    let mem = Pieces::default();
    for nr in UNUSED.into_iter().chain([470, 500, u32::MAX, 0x4000_0000]) {
        assert_eq!(name(nr), None);
        assert_eq!(done(nr, [], &mem), -38);
    }
}

/// Where the machine has the kernel's header, the names are its names.
#[test]
fn names_are_the_headers_names() {
    let paths = ["/usr/include/x86_64-linux-gnu/asm/unistd_32.h", "/usr/include/asm/unistd_32.h"];
    let Some(text) = paths.iter().find_map(|path| std::fs::read_to_string(path).ok()) else { return };
    let mut count = 0;
    for line in text.lines() {
        let Some((given, nr)) = line.strip_prefix("#define __NR_").and_then(|rest| rest.split_once(' '))
        else {
            continue;
        };
        assert_eq!(name(nr.trim().parse().unwrap()), Some(given));
        count += 1;
    }
    assert!(count > 400);
}

/// A plain row has the number of the x86-64 call of the same name, or of one that differs as said.
#[test]
fn plain_rows_are_the_calls_of_the_same_name() {
    for row in rows() {
        let How::Plain(nr) = row.how else { continue };
        let wide = crate::row(nr).expect("a row of the x86-64 table").name;
        let stem = row.name.strip_suffix("_time64").or(row.name.strip_suffix("64"));
        let stem = stem.or(row.name.strip_suffix("32")).unwrap_or(row.name);
        assert!(wide == row.name || wide == stem, "{} is {wide}", row.name);
    }
}

#[test]
fn a_call_that_nothing_says_much_about_is_the_same() {
    let thunk = thunk(4, [1, 0x9000, 0xffff_ffff], &Pieces::default());
    assert_eq!(thunk.call, Call { nr: 1, args: [1, 0x9000, 0xffff_ffff, 0, 0, 0] });
    assert_eq!(thunk.finish(-514, &Pieces::default()), (-514, vec![]));
    assert_eq!(thunk.finish(7, &Pieces::default()), (7, vec![]));
}

#[test]
fn refusals_say_why() {
    for row in rows() {
        if let How::Refused(errno, why) = row.how {
            assert!(crate::errno_name(errno).is_some() && !why.is_empty(), "{}", row.name);
        }
    }
}
