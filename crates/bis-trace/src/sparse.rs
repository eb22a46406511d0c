//! Files with holes: which parts of a file are there at all.
//!
//! A database may map a file of gigabytes of which it has written a page. The kernel fills its cache when a hole is
//! read; who asks where the holes are does without. A filesystem that does not know says that all is data: so this
//! changes what is cheap, never what is true. It knows nothing of traces.

use std::{
    fs::File,
    io,
    ops::Range,
    os::{fd::AsRawFd as _, unix::fs::FileExt as _},
};

use rustix::fs::SeekFrom;

/// Read and written at once, bytes; a piece of this size that is all zero becomes a hole.
pub(crate) const PIECE_BYTES: usize = 64 << 10;

/// The parts of a file that are not holes.
pub(crate) struct Parts {
    /// None: not known, so that all is data.
    file: Option<File>,
}

impl Parts {
    /// Of this file, whose position stays: it may be shared with the program.
    pub(crate) fn of(file: &File) -> Parts {
        Parts { file: File::open(format!("/proc/self/fd/{}", file.as_raw_fd())).ok() }
    }

    /// The first part at or after `offset`. At the end of the file, and where nothing is known, all that follows.
    pub(crate) fn next(&self, offset: u64) -> Range<u64> {
        let all = offset..u64::MAX;
        let Some(file) = &self.file else { return all };
        let start = match rustix::fs::seek(file, SeekFrom::Data(offset)) {
            Ok(start) => start,
            // A hole up to the end, or beyond it already.
            Err(rustix::io::Errno::NXIO) => {
                return file.metadata().map_or(all, |stat| stat.len().max(offset)..u64::MAX);
            }
            Err(_) => return all,
        };
        rustix::fs::seek(file, SeekFrom::Hole(start)).map_or(all, |end| start..end)
    }
}

/// Writes a piece; zeros are left as a hole.
pub(crate) fn write_piece(to: &File, offset: u64, piece: &[u8]) -> io::Result<()> {
    if piece.iter().all(|byte| *byte == 0) { Ok(()) } else { to.write_all_at(piece, offset) }
}

/// Copies the first `len` bytes of `from`, or all if it is shorter, to the same place in `to`, which is empty. What is a
/// hole or only zeros stays a hole there, and at its end is not there at all: the caller sets the length.
///
/// # Errors
/// Where one of the files cannot be read or written.
pub fn copy_parts(from: &File, to: &File, len: u64) -> io::Result<()> {
    let parts = Parts::of(from);
    let mut piece = vec![0; PIECE_BYTES];
    let mut part = 0..0;
    loop {
        if part.is_empty() {
            part = parts.next(part.end);
        }
        let wanted = part.end.min(len).saturating_sub(part.start).min(PIECE_BYTES as u64);
        let room = &mut piece[..usize::try_from(wanted).unwrap_or(PIECE_BYTES)];
        match from.read_at(room, part.start) {
            Ok(0) => return Ok(()),
            Ok(got) => {
                write_piece(to, part.start, &room[..got])?;
                part.start += got as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    const MIB: u64 = 1 << 20;

    /// A file of this length, in which only the given pieces are written.
    fn file(len: u64, pieces: &[(u64, &[u8])]) -> File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(len).unwrap();
        for (offset, data) in pieces {
            file.write_all_at(data, *offset).unwrap();
        }
        file
    }

    fn content(file: &File) -> Vec<u8> {
        let mut all = vec![0xff; usize::try_from(file.metadata().unwrap().len()).unwrap()];
        file.read_exact_at(&mut all, 0).unwrap();
        all
    }

    fn check(len: u64, pieces: &[(u64, &[u8])], copied_len: u64) {
        let (from, to) = (file(len, pieces), tempfile::tempfile().unwrap());
        copy_parts(&from, &to, copied_len).unwrap();
        to.set_len(len.min(copied_len)).unwrap();
        let mut expected = content(&from);
        expected.truncate(usize::try_from(copied_len).unwrap());
        assert!(content(&to) == expected, "{len} {copied_len}");
    }

    #[test]
    fn a_copy_has_the_content() {
        let some = [7; 5000];
        for copied_len in [0, 1, 4096, MIB + 100, 3 * MIB, 10 * MIB] {
            check(0, &[], copied_len);
            check(3 * MIB, &[], copied_len);
            check(3 * MIB, &[(0, &some)], copied_len);
            check(3 * MIB, &[(MIB - 7, &some), (3 * MIB - 5000, &some)], copied_len);
            check(100_000, &[(4096, &some), (90_000, &some)], copied_len);
        }
    }

    #[test]
    fn what_is_a_hole_is_not_read() {
        let len = 1 << 40;
        let (from, to) = (file(len, &[(len / 2, b"in the middle")]), tempfile::tempfile().unwrap());
        if Parts::of(&from).next(0).start == 0 {
            eprintln!("skipped: the filesystem for temporary files does not tell its holes");
            return;
        }
        copy_parts(&from, &to, u64::MAX).unwrap();
        let mut copied = [0; 13];
        to.read_exact_at(&mut copied, len / 2).unwrap();
        assert_eq!(&copied, b"in the middle");
        assert!(to.metadata().unwrap().blocks() * 512 < MIB);
    }

    #[test]
    fn the_position_stays() {
        use std::io::{Seek as _, SeekFrom};
        let mut from = file(MIB, &[(5000, b"data")]);
        from.seek(SeekFrom::Start(17)).unwrap();
        copy_parts(&from, &tempfile::tempfile().unwrap(), MIB).unwrap();
        assert_eq!(from.stream_position().unwrap(), 17);
    }
}
