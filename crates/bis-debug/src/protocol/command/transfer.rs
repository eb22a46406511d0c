//! `qXfer`: objects that are read and written in pieces.

use super::{
    super::{
        error::Problem,
        text::{Parsed, Text, lossy},
    },
    Command,
    parts::{Access, Object, Transfer},
};

/// Behind `qXfer:`.
pub(super) fn parse(mut text: Text) -> Parsed<Command> {
    const OFFSET: &str = "the offset is not a hexadecimal number";
    let object = match text.field(b':').ok_or(Problem("the object is missing"))? {
        b"features" => Object::Features,
        b"auxv" => Object::Auxv,
        b"threads" => Object::Threads,
        b"libraries" => Object::Libraries,
        b"libraries-svr4" => Object::LibrariesSvr4,
        b"exec-file" => Object::ExecFile,
        b"memory-map" => Object::MemoryMap,
        b"siginfo" => Object::Siginfo,
        b"osdata" => Object::OsData,
        other => Object::Other(lossy(other)),
    };
    let operation = text.field(b':').ok_or(Problem("the operation is missing"))?;
    let annex = lossy(text.field(b':').ok_or(Problem("the annex is missing"))?);
    let access = match operation {
        b"read" => {
            let (offset, len) = text.pair(OFFSET, "the length is not a hexadecimal number")?;
            text.end()?;
            Access::Read { offset, len }
        }
        b"write" => {
            let offset = text.hex(OFFSET)?;
            text.expect(":", "the data is missing")?;
            Access::Write { offset, data: text.rest().to_vec() }
        }
        _ => return Ok(Command::Unknown),
    };
    Ok(Command::Transfer(Transfer { object, annex, access }))
}
