//! `vFile`: the client reads files through the server. Flags and modes are the protocol's own, not those of
//! Linux.

use bis_trace::types::Tid;

use super::{
    super::text::{Parsed, Text, hex_bytes},
    Command, process,
};

/// A request about a file. A descriptor is the server's number for an open file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FileRequest {
    Open {
        path: Vec<u8>,
        flags: OpenFlags,
        /// Permission bits, which are as on Linux.
        mode: u32,
    },
    Close {
        fd: i32,
    },
    Read {
        fd: i32,
        len: u64,
        offset: u64,
    },
    Write {
        fd: i32,
        offset: u64,
        data: Vec<u8>,
    },
    /// `fstat`
    StatFd {
        fd: i32,
    },
    /// `stat`: symbolic links are followed.
    Stat {
        path: Vec<u8>,
    },
    /// `lstat`
    StatLink {
        path: Vec<u8>,
    },
    Unlink {
        path: Vec<u8>,
    },
    ReadLink {
        path: Vec<u8>,
    },
    /// `setfs`: paths are as this process sees them; none: as the server does.
    SetFilesystem {
        process: Option<Tid>,
    },
    /// LLDB's `size`
    Size {
        path: Vec<u8>,
    },
    /// LLDB's `mode`
    Mode {
        path: Vec<u8>,
    },
    /// LLDB's `exists`
    Exists {
        path: Vec<u8>,
    },
    /// LLDB's `MD5`
    Md5 {
        path: Vec<u8>,
    },
}

/// How a file is to be opened, in the protocol's numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpenFlags(pub u64);

impl OpenFlags {
    const ACCESS: u64 = 3;

    /// Will the file be written, created or cut?
    #[must_use]
    pub fn writes(self) -> bool {
        self.0 & (OpenFlags::ACCESS | 0x8 | 0x200 | 0x400) != 0
    }
}

const FD: &str = "the descriptor is not a hexadecimal number";

/// Behind `vFile`.
pub(super) fn parse(mut text: Text) -> Parsed<Command> {
    text.expect(":", "the operation is missing")?;
    let operation = text.until(b":");
    text.expect(":", "the operation's arguments are missing")?;
    let request = match operation {
        b"open" => open(&mut text)?,
        b"close" => FileRequest::Close { fd: text.hex_id(FD)? },
        b"pread" => {
            let fd = text.hex_id(FD)?;
            text.expect(",", "the length is missing")?;
            let (len, offset) = text
                .pair("the length is not a hexadecimal number", "the offset is not a hexadecimal number")?;
            FileRequest::Read { fd, len, offset }
        }
        b"pwrite" => {
            let fd = text.hex_id(FD)?;
            text.expect(",", "the offset is missing")?;
            let offset = text.hex("the offset is not a hexadecimal number")?;
            text.expect(",", "the data is missing")?;
            FileRequest::Write { fd, offset, data: text.rest().to_vec() }
        }
        b"fstat" => FileRequest::StatFd { fd: text.hex_id(FD)? },
        b"setfs" if text.0 == b"0" => {
            text.rest();
            FileRequest::SetFilesystem { process: None }
        }
        b"setfs" => FileRequest::SetFilesystem { process: Some(process(Text(text.rest()))?) },
        b"stat" => FileRequest::Stat { path: path(&mut text)? },
        b"lstat" => FileRequest::StatLink { path: path(&mut text)? },
        b"unlink" => FileRequest::Unlink { path: path(&mut text)? },
        b"readlink" => FileRequest::ReadLink { path: path(&mut text)? },
        b"size" => FileRequest::Size { path: path(&mut text)? },
        b"mode" => FileRequest::Mode { path: path(&mut text)? },
        b"exists" => FileRequest::Exists { path: path(&mut text)? },
        b"MD5" => FileRequest::Md5 { path: path(&mut text)? },
        _ => return Ok(Command::Unknown),
    };
    text.end()?;
    Ok(Command::File(request))
}

fn path(text: &mut Text) -> Parsed<Vec<u8>> {
    hex_bytes(text.until(b","))
}

fn open(text: &mut Text) -> Parsed<FileRequest> {
    let path = path(text)?;
    text.expect(",", "the flags are missing")?;
    let flags = OpenFlags(text.hex("the flags are not a hexadecimal number")?);
    text.expect(",", "the mode is missing")?;
    const MODE: &str = "the mode is not a hexadecimal number";
    let mode = u32::try_from(text.hex(MODE)?).unwrap_or(u32::MAX);
    Ok(FileRequest::Open { path, flags, mode })
}
