//! `bis syscalls`: the table of system calls of `bis-syscalls`, for people and programs.

use std::io::Write;

use bis_syscalls::{Blocks, How, Row, errno_name, hook, markdown, rows};
use serde_json::json;

use crate::{
    args::Syscalls,
    failure::{Failure, Result},
    human, output,
    output::Table,
};

fn how(row: &Row) -> String {
    match row.how {
        How::Plain => "plain".into(),
        How::Recorder(_) => "special".into(),
        How::Refused(errno) => format!("refused {}", errno_name(errno).unwrap_or("?")),
        How::Slow => "slow".into(),
    }
}

fn waits(row: &Row) -> &'static str {
    match row.blocks {
        Blocks::Never => "",
        Blocks::May => "yes",
        Blocks::ByFd => "by descriptor",
        Blocks::ByFdIf(_) => "by descriptor, arguments",
        Blocks::If(_) => "by arguments",
    }
}

pub fn run(args: &Syscalls) -> Result<u8> {
    let mut out = output::page();
    if args.markdown {
        out.write_all(markdown().as_bytes())?;
        out.flush()?;
        return Ok(0);
    }
    let wanted =
        |row: &&&Row| args.names.is_empty() || args.names.iter().any(|name| row.name.contains(name.as_str()));
    let chosen: Vec<&&Row> = rows().iter().filter(wanted).collect();
    if chosen.is_empty() {
        return Err(Failure::usage(format!("no system call's name contains {}", args.names.join(" or "))));
    }
    if args.json {
        for row in chosen {
            let names: Vec<&str> = row.args.iter().map(|arg| arg.name).collect();
            let value = json!({
                "nr": row.nr, "name": row.name, "args": names, "recorded": how(row),
                "hooked": hook(row).is_some(), "waits": waits(row), "note": row.note,
            });
            writeln!(out, "{value}")?;
        }
    } else {
        let mut table = Table::new(["NR", "CALL", "RECORDED", "HOOKED", "WAITS", "NOTE"], &[0]);
        let room = human::room(80);
        for row in chosen {
            let note = human::shortened(row.note, room);
            let hooked = if hook(row).is_some() { "yes" } else { "" };
            let (number, name) = (row.nr.to_string(), row.name.into());
            table.push([number, name, how(row), hooked.into(), waits(row).into(), note]);
        }
        table.write(&mut out)?;
        if args.names.is_empty() {
            writeln!(
                out,
                "\nplain: made, and the memory that it wrote recorded. special: the recorder does more beside.\n\
                 refused: fails with this error, as on a kernel without it. slow: all memory compared before and after.\n\
                 hooked: made without a stop where its arguments and descriptors allow it."
            )?;
        }
    }
    out.flush()?;
    Ok(0)
}
