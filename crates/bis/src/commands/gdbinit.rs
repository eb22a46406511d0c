//! `bis gdbinit`: the commands that gdb gets from us, for one that is started by somebody else.

use std::io::Write;

use crate::{failure::Result, output};

pub fn run() -> Result<u8> {
    let mut out = output::page();
    out.write_all(bis_debug::gdb_script().as_bytes())?;
    out.flush()?;
    Ok(0)
}
