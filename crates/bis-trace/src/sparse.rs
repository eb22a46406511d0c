//! Files with holes: reads what is there, and nothing else.
//!
//! A program may map a file or memory of any size of which it uses a few pages (heaps of runtimes,
//! databases). What bis does with it must cost what is used, not what is mapped. The file system tells where
//! a file has data (SEEK_DATA); one that cannot tell says that it is everywhere, and then zeros are at least
//! not handed on.

use std::{fs::File, io, ops::Range, os::unix::fs::FileExt as _};

use rustix::fs::SeekFrom;

use crate::opening::name_of;

/// Read at once, bytes. Pieces begin at multiples of it.
pub const PIECE_BYTES: usize = 64 << 10;

/// Calls `take` with offset and content of each piece of these bytes of the file that is not all zero, in
/// order. The file's position stays.
///
/// # Errors
/// What reading fails with, and what `take` fails with.
pub fn each_piece(
    file: &File,
    range: Range<u64>,
    mut take: impl FnMut(u64, &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    // A position of its own, where that can be had: it is moved.
    let own = File::open(name_of(file)).ok();
    let mut piece = vec![0; PIECE_BYTES];
    let (mut offset, len) = (range.start, range.end);
    while offset < len {
        let data = own.as_ref().map(|own| rustix::fs::seek(own, SeekFrom::Data(offset)));
        match data {
            Some(Ok(data)) => offset = offset.max(data - data % PIECE_BYTES as u64),
            // No more data.
            Some(Err(rustix::io::Errno::NXIO)) => return Ok(()),
            _ => {}
        }
        let end = match own.as_ref().map(|own| rustix::fs::seek(own, SeekFrom::Hole(offset))) {
            // A hole may begin in the piece's first bytes.
            Some(Ok(hole)) => hole.max(offset + 1).min(len),
            _ => len,
        };
        while offset < end {
            let room = PIECE_BYTES as u64 - offset % PIECE_BYTES as u64;
            let room = usize::try_from(room.min(len - offset)).unwrap_or(PIECE_BYTES);
            let got = read_full(file, &mut piece[..room], offset)?;
            if piece[..got].iter().any(|byte| *byte != 0) {
                take(offset, &piece[..got])?;
            }
            if got < room {
                return Ok(());
            }
            offset += got as u64;
        }
    }
    Ok(())
}

/// Fills `buf` as far as the file goes.
fn read_full(file: &File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buf.len() {
        match file.read_at(&mut buf[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(got) => done += got,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use std::io::Seek as _;

    use super::*;

    fn pieces(file: &File, len: u64) -> Vec<(u64, usize, u8)> {
        let mut found = Vec::new();
        each_piece(file, 0..len, |offset, piece| {
            found.push((offset, piece.len(), *piece.iter().max().unwrap()));
            Ok(())
        })
        .unwrap();
        found
    }

    #[test]
    fn only_what_is_there_is_read() {
        const PIECE: u64 = PIECE_BYTES as u64;
        for mut file in [
            tempfile::tempfile().unwrap(),
            File::from(rustix::fs::memfd_create("m", rustix::fs::MemfdFlags::CLOEXEC).unwrap()),
        ] {
            assert_eq!(pieces(&file, u64::MAX), []);
            file.set_len(1 << 40).unwrap();
            assert_eq!(pieces(&file, 1 << 40), []);
            file.write_all_at(b"a", 5 * PIECE + 100).unwrap();
            file.write_all_at(&[0; 9000], 8 * PIECE).unwrap();
            file.write_all_at(b"bb", (1 << 39) - 1).unwrap();
            file.write_all_at(b"c", (1 << 40) + 2).unwrap();
            file.seek(io::SeekFrom::Start(7)).unwrap();
            let whole = [
                (5 * PIECE, PIECE_BYTES, b'a'),
                ((1 << 39) - PIECE, PIECE_BYTES, b'b'),
                (1 << 39, PIECE_BYTES, b'b'),
                (1 << 40, 3, b'c'),
            ];
            assert_eq!(pieces(&file, u64::MAX), whole);
            assert_eq!(pieces(&file, 1 << 40), whole[..3]);
            assert_eq!(pieces(&file, 5 * PIECE + 101), [(5 * PIECE, 101, b'a')]);
            assert_eq!(pieces(&file, 5 * PIECE + 100), []);
            let mut found = Vec::new();
            each_piece(&file, 5 * PIECE + 100..6 * PIECE, |offset, piece| {
                found.push((offset, piece[0], piece.len()));
                Ok(())
            })
            .unwrap();
            assert_eq!(found, [(5 * PIECE + 100, b'a', PIECE_BYTES - 100)]);
            assert_eq!(file.stream_position().unwrap(), 7);
        }
    }
}
