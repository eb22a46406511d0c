//! The table as a page for people. The page in the tree is made from it, and a test checks that it is.

use crate::errno::errno_name;
use crate::model::{Arg, Blocks, How, Kind, Row, Size};
use crate::plan::Dir;
use std::fmt::Write;

const INTRO: &str = "# System calls

What bis does with each system call of Linux 6.18 on x86-64. This page is made from the table in
`crates/bis-syscalls`; `bis syscalls --markdown` prints it.

- **plain**: made, and the memory that it wrote recorded.
- **special**: as plain, and the recorder does what the call needs beside (address space, tasks, signals, descriptors).
- **refused**: fails with the error that is named, as on a kernel without the feature; programs fall back.
- **slow**: made, and all memory compared before and after.

\"Hooked\" calls are made without a stop where their arguments and descriptors allow it; else they are traced as all
others.

An argument marked `out` is written by the kernel, `inout` read and written. \"Waits\" says whether the call can wait
for another task: `fd` where it depends on the descriptor, `args` where it depends on the arguments.

";

/// The table of all system calls as a Markdown page.
pub fn markdown() -> String {
    let mut page = String::from(INTRO);
    page.push_str(
        "| nr | call | recorded | hooked | waits | note |\n| ---: | --- | --- | --- | --- | --- |\n",
    );
    for row in crate::rows() {
        // Writing to a string does not fail.
        let _ = writeln!(
            page,
            "| {} | `{}({})` | {} | {} | {} | {} |",
            row.nr,
            row.name,
            row.args.iter().map(arg).collect::<Vec<_>>().join(", "),
            how(row),
            if crate::hook(row).is_some() { "yes" } else { "" },
            waits(row),
            row.note
        );
    }
    let _ = write!(page, "\n## ioctl requests\n\nOthers are slow.\n\n");
    for request in crate::family::IOCTL_REQUESTS {
        let _ = writeln!(page, "- `{:#x}` {}", request.nr, request.name);
    }
    page
}

fn arg(arg: &Arg) -> String {
    let (word, size) = match arg.kind {
        Kind::Out(size) => ("out ", Some(size)),
        Kind::InOut(size) | Kind::Always(size) | Kind::Rem(size) => ("inout ", Some(size)),
        Kind::Via(Dir::Out) => ("out ", None),
        Kind::Via(Dir::InOut) => ("inout ", None),
        _ => ("", None),
    };
    let size = match size {
        Some(Size::Fixed(n)) => format!("[{n}]"),
        _ => String::new(),
    };
    format!("{word}{}{size}", arg.name)
}

fn how(row: &Row) -> String {
    match row.how {
        How::Plain => "plain".into(),
        How::Recorder(_) => "special".into(),
        How::Refused(errno) => format!("refused: {}", errno_name(errno).unwrap_or("?")),
        How::Slow => "slow".into(),
    }
}

fn waits(row: &Row) -> &'static str {
    match row.blocks {
        Blocks::Never => "",
        Blocks::May => "yes",
        Blocks::ByFd => "fd",
        Blocks::ByFdIf(_) => "fd, args",
        Blocks::If(_) => "args",
    }
}
