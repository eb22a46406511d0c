//! `v` packets.

use super::{
    super::{
        signal::Numbers,
        text::{Parsed, Text, hex_bytes},
    },
    Command, file,
    ids::process,
    resume,
};

pub(super) fn parse(mut text: Text, numbers: Numbers) -> Parsed<Command> {
    let name = text.until(b";:");
    match name {
        b"MustReplyEmpty" => Ok(Command::MustReplyEmpty),
        b"Cont?" => Ok(Command::ResumeActions),
        b"Cont" => resume::actions(text, numbers),
        b"CtrlC" => Ok(Command::Interrupt),
        b"Stopped" => Ok(Command::NextStop),
        b"Kill" => Ok(Command::Kill(Some(process(argument(text)?)?))),
        b"Attach" => Ok(Command::Attach(process(argument(text)?)?)),
        b"Run" => run(argument(text)?),
        b"File" => file::parse(text),
        _ => Ok(Command::Unknown),
    }
}

/// What is behind the semicolon.
fn argument(mut text: Text) -> Parsed<Text> {
    text.expect(";", "a semicolon is missing")?;
    Ok(text)
}

fn run(text: Text) -> Parsed<Command> {
    let mut words = text.0.split(|byte| *byte == b';').map(hex_bytes);
    let program = words.next().unwrap_or(Ok(Vec::new()))?;
    Ok(Command::Run { program, arguments: words.collect::<Parsed<_>>()? })
}
