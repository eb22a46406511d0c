//! How files and folders are opened: what is open already, what may be a stranger's, and what is to be this
//! user's alone.

use std::{
    fs::{self, DirBuilder, File},
    io::{self, ErrorKind},
    os::{
        fd::AsRawFd as _,
        unix::fs::{DirBuilderExt as _, MetadataExt as _},
    },
    path::Path,
};

/// O_NOFOLLOW | O_NONBLOCK: a stranger's trace may have links to files of ours, or pipes, in place of files.
pub(crate) const NO_LINKS: i32 =
    (rustix::fs::OFlags::NOFOLLOW.bits() | rustix::fs::OFlags::NONBLOCK.bits()).cast_signed();

/// A name for a file that is open, as long as it is: to open it is to open the file anew, with a position and
/// rights of its own.
pub(crate) fn name_of(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// Makes a folder (and those above it) for this user alone, if it is not there. What is in it is believed.
///
/// # Errors
/// If it cannot be made, belongs to somebody else, or others may write in it.
pub(crate) fn claim(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let stat = fs::metadata(dir)?;
    if stat.uid() != rustix::process::geteuid().as_raw() || stat.mode() & 0o022 != 0 {
        let what = format!("{} is another user's, or others may write to it", dir.display());
        return Err(io::Error::new(ErrorKind::PermissionDenied, what));
    }
    Ok(())
}
