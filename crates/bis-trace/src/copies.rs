//! Copies of files, which are named by the hash of their content, and are sparse where it is zero.
//!
//! The hash of a file with large holes is of what is there only: reading zeros costs as much as reading
//! anything.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::Path,
    time::{Duration, UNIX_EPOCH},
};

use crate::{
    event::FileEntry,
    sparse::{self, PIECE_BYTES},
};

/// A file of which more than this are holes, bytes, is hashed without them.
pub(crate) const HOLES_MIN: u64 = 64 << 20;

/// What the hash of a file with large holes is derived with (blake3's derive_key): the file's length follows,
/// and offset, length and content of each piece that is not all zero; numbers are 64 bits, least byte first.
const SPARSE_CONTEXT: &str = "bis 2026-11 content of a file with holes";

/// A new file, for its owner alone.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)
}

/// Puts a copy in the place of a kept file that is a hard link; the file's other names go on naming the
/// original. An error where `content` is not what the entry says.
pub(crate) fn replace_by_copy(path: &Path, entry: &FileEntry, content: &File) -> io::Result<()> {
    let temporary = path.with_extension(format!("tmp-{}", std::process::id()));
    let made = create(&temporary).and_then(|file| {
        let (digest, _) = copy(content, &file)?;
        if digest != entry.digest {
            return Err(io::Error::other("it has changed since it was recorded"));
        }
        // The time is how a reader knows that the content is still that.
        file.set_modified(UNIX_EPOCH + Duration::from_nanos(entry.mtime_ns.try_into().unwrap_or(0)))?;
        fs::rename(&temporary, path)
    });
    if made.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    made
}

/// Of all its content, with the length in bytes.
pub(crate) fn hash(file: &File) -> io::Result<([u8; 32], u64)> {
    each_piece(file, |_, _| Ok(()))
}

/// The length of a file with large holes, bytes; none of any other.
pub(crate) fn sparse_len(file: &File) -> io::Result<Option<u64>> {
    let stat = file.metadata()?;
    let holes = stat.len().saturating_sub(stat.blocks().saturating_mul(512));
    Ok((holes > HOLES_MIN).then_some(stat.len()))
}

/// [`each_piece`] for a file with large holes, without them.
fn each_piece_of_sparse(
    file: &File,
    len: u64,
    mut take: impl FnMut(u64, &[u8]) -> io::Result<()>,
) -> io::Result<([u8; 32], u64)> {
    let mut hasher = blake3::Hasher::new_derive_key(SPARSE_CONTEXT);
    hasher.update(&len.to_le_bytes());
    sparse::each_piece(file, 0..len, |offset, piece| {
        hasher.update(&offset.to_le_bytes()).update(&(piece.len() as u64).to_le_bytes()).update(piece);
        take(offset, piece)
    })?;
    Ok((*hasher.finalize().as_bytes(), len))
}

/// Copies by position: the descriptor may be shared with the program, whose file position must stay.
pub(crate) fn copy(source: &File, to: &File) -> io::Result<([u8; 32], u64)> {
    let (digest, len) = each_piece(source, |offset, piece| write_piece(to, offset, piece))?;
    to.set_len(len)?;
    Ok((digest, len))
}

/// Writes all content, but for what is zero.
pub(crate) fn write_sparse(to: &File, content: &[u8]) -> io::Result<()> {
    for (piece, offset) in content.chunks(PIECE_BYTES).zip((0..).step_by(PIECE_BYTES)) {
        write_piece(to, offset, piece)?;
    }
    to.set_len(content.len() as u64)
}

/// Zeros are left as a hole.
fn write_piece(to: &File, offset: u64, piece: &[u8]) -> io::Result<()> {
    if piece.iter().all(|byte| *byte == 0) { Ok(()) } else { to.write_all_at(piece, offset) }
}

/// Calls `take` with offset and content of each piece; returns hash and length, bytes.
fn each_piece(
    file: &File,
    mut take: impl FnMut(u64, &[u8]) -> io::Result<()>,
) -> io::Result<([u8; 32], u64)> {
    if let Some(len) = sparse_len(file)? {
        return each_piece_of_sparse(file, len, take);
    }
    let mut hasher = blake3::Hasher::new();
    let mut piece = vec![0; PIECE_BYTES];
    let mut offset = 0;
    loop {
        match file.read_at(&mut piece, offset) {
            Ok(0) => return Ok((*hasher.finalize().as_bytes(), offset)),
            Ok(len) => {
                hasher.update(&piece[..len]);
                take(offset, &piece[..len])?;
                offset += len as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// The name of a file with this content.
pub(crate) fn name(digest: &[u8; 32]) -> String {
    blake3::Hash::from_bytes(*digest).to_hex().to_string()
}
