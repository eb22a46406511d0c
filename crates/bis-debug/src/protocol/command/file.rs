//! `vFile`: the client reads files through the server. Flags and modes are the protocol's own, not those of
//! Linux.

use super::{
    super::text::{Parsed, Text, hex_bytes},
    Command,
    ids::process,
    parts::{FileRequest, OpenFlags},
};

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
