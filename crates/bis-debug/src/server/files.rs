//! `vFile`: files that the client reads through the server. They are the trace's own where the machine's have
//! changed or the user wants it so, and the machine's otherwise; nothing is ever written.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs::{self, File, Metadata},
    io,
    os::unix::{
        ffi::OsStrExt,
        fs::{FileExt, MetadataExt},
    },
    path::Path,
};

use crate::{
    protocol::{command::FileRequest, reply},
    session::Session,
};

const EACCES: i32 = 13;
const EBADF: i32 = 9;
const ENOENT: i32 = 2;
const EROFS: i32 = 30;

/// The most that is read of a file by one packet.
const READ_MAX: u64 = 1 << 17;

/// What a client has opened.
pub(super) struct Files {
    open: BTreeMap<i32, Content>,
    next: i32,
    /// Are the trace's own files preferred?
    of_trace: bool,
}

enum Content {
    File(File),
    Bytes(Vec<u8>),
}

impl Files {
    pub(super) fn new(of_trace: bool) -> Files {
        Files { open: BTreeMap::new(), next: 3, of_trace }
    }

    /// Does the client get all files as they were recorded?
    pub(super) fn of_trace(&self) -> bool {
        self.of_trace
    }

    pub(super) fn answer(&mut self, request: FileRequest, session: &Session<'_>) -> Vec<u8> {
        match request {
            FileRequest::Open { path, flags, .. } => {
                if flags.writes() {
                    return reply::file_error(EROFS);
                }
                match self.content(&path, session) {
                    Ok(content) => {
                        let fd = self.next;
                        self.next += 1;
                        self.open.insert(fd, content);
                        reply::file_result(u64::try_from(fd).unwrap_or(0))
                    }
                    Err(error) => reply::file_error(error.raw_os_error().unwrap_or(EACCES)),
                }
            }
            FileRequest::Close { fd } => match self.open.remove(&fd) {
                Some(_) => reply::file_result(0),
                None => reply::file_error(EBADF),
            },
            FileRequest::Read { fd, len, offset } => self.read(fd, len.min(READ_MAX), offset),
            FileRequest::StatFd { fd } => match self.open.get(&fd) {
                Some(Content::File(file)) => stat(file.metadata()),
                Some(Content::Bytes(bytes)) => reply::file_stat(&reply::FileStat {
                    mode: 0o100_444,
                    links: 1,
                    size: bytes.len() as u64,
                    ..reply::FileStat::default()
                }),
                None => reply::file_error(EBADF),
            },
            FileRequest::Stat { path } => stat(fs::metadata(as_path(&path))),
            FileRequest::StatLink { path } => stat(fs::symlink_metadata(as_path(&path))),
            FileRequest::ReadLink { path } if path.starts_with(b"/proc/") => match session.proc_link(&path) {
                Some(target) => reply::file_data(&target),
                None => reply::file_error(ENOENT),
            },
            FileRequest::ReadLink { path } => match fs::read_link(as_path(&path)) {
                Ok(target) => reply::file_data(target.as_os_str().as_bytes()),
                Err(error) => reply::file_error(error.raw_os_error().unwrap_or(ENOENT)),
            },
            FileRequest::SetFilesystem { .. } => reply::file_result(0),
            FileRequest::Exists { path } => {
                reply::text(format_args!("F,{}", u8::from(as_path(&path).exists())))
            }
            FileRequest::Size { path } => match fs::metadata(as_path(&path)) {
                Ok(found) => reply::file_result(found.len()),
                Err(error) => reply::file_error(error.raw_os_error().unwrap_or(ENOENT)),
            },
            FileRequest::Write { .. } | FileRequest::Unlink { .. } => reply::file_error(EROFS),
            FileRequest::Mode { .. } | FileRequest::Md5 { .. } => reply::empty(),
        }
    }

    fn content(&self, path: &[u8], session: &Session<'_>) -> io::Result<Content> {
        if let Some(bytes) = session.proc_file(path) {
            return Ok(Content::Bytes(bytes));
        }
        if path.starts_with(b"/proc/") {
            return Err(io::Error::from_raw_os_error(ENOENT));
        }
        if (self.of_trace || session.is_replaced(path))
            && let Some(file) = session.kept_file(path)
        {
            return Ok(Content::File(file));
        }
        match File::open(as_path(path)) {
            Ok(file) => Ok(Content::File(file)),
            Err(error) => session.kept_file(path).map(Content::File).ok_or(error),
        }
    }

    fn read(&self, fd: i32, len: u64, offset: u64) -> Vec<u8> {
        let len = usize::try_from(len).unwrap_or(0);
        match self.open.get(&fd) {
            Some(Content::Bytes(bytes)) => {
                let rest =
                    usize::try_from(offset).ok().and_then(|from| bytes.get(from..)).unwrap_or_default();
                reply::file_data(&rest[..rest.len().min(len)])
            }
            Some(Content::File(file)) => {
                let mut buffer = vec![0; len];
                match file.read_at(&mut buffer, offset) {
                    Ok(count) => reply::file_data(&buffer[..count]),
                    Err(error) => reply::file_error(error.raw_os_error().unwrap_or(EBADF)),
                }
            }
            None => reply::file_error(EBADF),
        }
    }
}

fn as_path(path: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(path))
}

fn stat(found: io::Result<Metadata>) -> Vec<u8> {
    match found {
        Ok(found) => reply::file_stat(&reply::FileStat {
            device: found.dev(),
            inode: found.ino(),
            mode: found.mode(),
            links: found.nlink(),
            uid: found.uid(),
            gid: found.gid(),
            special_device: found.rdev(),
            size: found.size(),
            block_size: found.blksize(),
            blocks: found.blocks(),
            accessed: found.atime().unsigned_abs(),
            modified: found.mtime().unsigned_abs(),
            changed: found.ctime().unsigned_abs(),
        }),
        Err(error) => reply::file_error(error.raw_os_error().unwrap_or(ENOENT)),
    }
}
