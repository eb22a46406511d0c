//! The folder of a cache: ours alone, because what is in it is believed.

use std::{
    fs::DirBuilder,
    io::{self, ErrorKind},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _},
    path::Path,
};

/// Makes the folder (and those above it) for this user alone, if it is not there.
///
/// # Errors
/// If it cannot be made, is not a folder, belongs to somebody else, or others may write in it.
pub(crate) fn claim(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    check(dir)
}

/// Checks a folder that is there, and makes none.
///
/// # Errors
/// If it is not there, is not a folder, belongs to somebody else, or others may write in it.
pub(crate) fn check(dir: &Path) -> io::Result<()> {
    let metadata = std::fs::metadata(dir)?;
    if !metadata.is_dir() {
        let what = format!("{} is not a folder; name another one for the cache", dir.display());
        return Err(io::Error::new(ErrorKind::NotADirectory, what));
    }
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        let what = format!("{} belongs to another user; name another folder for the cache", dir.display());
        return Err(io::Error::new(ErrorKind::PermissionDenied, what));
    }
    if metadata.mode() & 0o022 != 0 {
        let what = format!("others may write to {}; `chmod 700` it, or name another folder", dir.display());
        return Err(io::Error::new(ErrorKind::PermissionDenied, what));
    }
    Ok(())
}
