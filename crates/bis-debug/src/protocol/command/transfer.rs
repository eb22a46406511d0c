//! `qXfer`: objects that are read and written in pieces.

use super::{
    super::{
        error::Problem,
        text::{Parsed, Text, lossy},
    },
    Command,
};

/// What is read or written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Object {
    /// The target description; the annex is a file's name, at first `target.xml`.
    Features,
    Auxv,
    Threads,
    Libraries,
    /// The dynamic linker's list; the annex may say where to start.
    LibrariesSvr4,
    /// The path of the program; the annex is a process id in hexadecimal, or empty.
    ExecFile,
    MemoryMap,
    Siginfo,
    /// A table for `info os`; the annex is its name.
    OsData,
    /// Any other, by its name.
    Other(String),
}

/// Reading or writing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Access {
    Read { offset: u64, len: u64 },
    Write { offset: u64, data: Vec<u8> },
}

/// A piece of an object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transfer {
    pub object: Object,
    pub annex: String,
    pub access: Access,
}

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
