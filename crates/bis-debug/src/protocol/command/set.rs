//! `Q` packets: settings.

use bis_trace::types::Signal;

use super::{
    super::{
        error::Problem,
        signal::Numbers,
        text::{Parsed, Text, flag, hex_bytes},
        thread_id::ThreadId,
    },
    Command, lldb,
    parts::{Environment, SyscallCatch},
};

pub(super) fn parse(mut text: Text, numbers: Numbers) -> Parsed<Command> {
    let name = text.until(b":;");
    let arguments = Text(text.0.get(1..).unwrap_or_default());
    Ok(match name {
        b"StartNoAckMode" => Command::StartNoAck,
        b"NonStop" => Command::NonStop(flag(arguments.0)?),
        b"PassSignals" => Command::PassSignals(signals(arguments, numbers)?),
        b"ProgramSignals" => Command::ProgramSignals(signals(arguments, numbers)?),
        b"CatchSyscalls" => Command::CatchSyscalls(syscalls(arguments)?),
        b"ThreadEvents" => Command::ThreadEvents(flag(arguments.0)?),
        b"ThreadOptions" => Command::ThreadOptions(thread_options(arguments)?),
        b"SetWorkingDir" => {
            Command::SetWorkingDir((!arguments.is_empty()).then(|| hex_bytes(arguments.0)).transpose()?)
        }
        b"DisableRandomization" | b"SetDisableASLR" => Command::DisableRandomization(flag(arguments.0)?),
        b"StartupWithShell" => Command::StartupWithShell(flag(arguments.0)?),
        b"EnvironmentHexEncoded" => Command::Environment(Environment::Set(hex_bytes(arguments.0)?)),
        b"Environment" => Command::Environment(Environment::Set(arguments.0.to_vec())),
        b"EnvironmentUnset" => Command::Environment(Environment::Unset(hex_bytes(arguments.0)?)),
        b"EnvironmentReset" => Command::Environment(Environment::Reset),
        b"Agent" => Command::Agent(flag(arguments.0)?),
        _ => return lldb::set(name, arguments),
    })
}

fn parts(text: Text) -> impl Iterator<Item = Text> {
    text.0.split(|byte| *byte == b';').filter(|part| !part.is_empty()).map(Text)
}

fn signals(text: Text, numbers: Numbers) -> Parsed<Vec<Signal>> {
    let number = |mut part: Text| {
        let number = part.hex("a signal is not a hexadecimal number")?;
        part.end().map(|()| numbers.signal(number))
    };
    let signals: Vec<Option<Signal>> = parts(text).map(number).collect::<Parsed<_>>()?;
    Ok(signals.into_iter().flatten().collect())
}

fn syscalls(mut text: Text) -> Parsed<SyscallCatch> {
    let number = |mut part: Text| {
        let number = part.hex("a system call is not a hexadecimal number")?;
        part.end().map(|()| number)
    };
    if text.0 == b"0" {
        return Ok(SyscallCatch::None);
    }
    text.expect("1", "it is neither 0 nor 1")?;
    if !text.is_empty() {
        text.expect(";", "a semicolon is missing")?;
    }
    let numbers: Vec<u64> = parts(text).map(number).collect::<Parsed<_>>()?;
    Ok(if numbers.is_empty() { SyscallCatch::All } else { SyscallCatch::Only(numbers) })
}

fn thread_options(text: Text) -> Parsed<Vec<(u64, Option<ThreadId>)>> {
    let one = |mut part: Text| {
        let options = part.hex("the options are not a hexadecimal number")?;
        let thread = part.skip(":").then(|| ThreadId::parse(&mut part)).transpose()?;
        part.end().map(|()| (options, thread))
    };
    let options: Vec<_> = parts(text).map(one).collect::<Parsed<_>>()?;
    if options.is_empty() { Err(Problem("it has no options")) } else { Ok(options) }
}
