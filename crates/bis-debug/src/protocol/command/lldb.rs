//! What only LLDB sends, as its document `lldb-gdb-remote` has it.

use bis_trace::types::{Addr, Tid};

use super::{
    super::{
        error::Problem,
        text::{Parsed, Text, lossy},
        thread_id::ThreadId,
    },
    Command,
    ids::thread,
    parts::LldbCommand,
    registers,
};

/// `_` and `j` packets.
pub(super) fn parse(letter: u8, mut text: Text) -> Parsed<Command> {
    let command = if letter == b'_' {
        if text.skip("M") {
            let size = text.hex("the size is not a hexadecimal number")?;
            text.expect(",", "the permissions are missing")?;
            LldbCommand::Allocate { size, permissions: lossy(text.rest()) }
        } else if text.skip("m") {
            let addr = text.hex("the address is not a hexadecimal number")?;
            text.end()?;
            LldbCommand::Free { addr: Addr(addr) }
        } else {
            return Ok(Command::Unknown);
        }
    } else {
        let name = text.until(b":");
        let argument = lossy(text.0.get(1..).unwrap_or_default());
        match name {
            b"ThreadsInfo" => LldbCommand::ThreadsInfo,
            b"ThreadExtendedInfo" => LldbCommand::ThreadExtendedInfo(argument),
            b"GetLoadedDynamicLibrariesInfos" => LldbCommand::LoadedLibraries(argument),
            _ => return Ok(Command::Unknown),
        }
    };
    Ok(Command::Lldb(command))
}

/// `q` packets: all that is behind the letter, and the name and arguments in it.
pub(super) fn query(mut whole: Text, name: &[u8], mut arguments: Text) -> Parsed<Command> {
    let command = match name {
        b"HostInfo" => LldbCommand::HostInfo,
        b"ProcessInfo" => LldbCommand::ProcessInfo,
        b"ProcessInfoPID" => {
            const PROBLEM: &str = "the process id is not a decimal number";
            let id = i32::try_from(arguments.decimal(PROBLEM)?).map_err(|_| Problem(PROBLEM))?;
            arguments.end()?;
            LldbCommand::ProcessInfoOf(Tid(id))
        }
        b"MemoryRegionInfo" if arguments.is_empty() => LldbCommand::MemoryRegion(None),
        b"MemoryRegionInfo" => {
            let addr = arguments.hex("the address is not a hexadecimal number")?;
            arguments.end()?;
            LldbCommand::MemoryRegion(Some(addr))
        }
        b"ShlibInfoAddr" => LldbCommand::SharedLibraryInfo,
        b"GetWorkingDir" => LldbCommand::WorkingDirectory,
        b"VAttachOrWaitSupported" => LldbCommand::AttachOrWait,
        b"SupportsDetachAndStayStopped" => LldbCommand::DetachAndStayStopped,
        b"WatchpointSupportInfo" => LldbCommand::WatchpointSupport,
        b"StructuredDataPlugins" => LldbCommand::StructuredDataPlugins,
        b"Echo" => LldbCommand::Echo(arguments.rest().to_vec()),
        b"LaunchSuccess" => LldbCommand::LaunchSuccess,
        _ if whole.skip("RegisterInfo") => {
            let number = whole.hex("the register's number is not hexadecimal")?;
            whole.end()?;
            LldbCommand::RegisterInfo(number)
        }
        _ if whole.skip("ThreadStopInfo") => LldbCommand::ThreadStopInfo(thread(whole)?),
        _ => return Ok(Command::Unknown),
    };
    Ok(Command::Lldb(command))
}

/// `Q` packets.
pub(super) fn set(name: &[u8], mut arguments: Text) -> Parsed<Command> {
    let command = match name {
        b"ThreadSuffixSupported" => LldbCommand::ThreadSuffix,
        b"ListThreadsInStopReply" => LldbCommand::ListThreadsInStops,
        b"EnableErrorStrings" => LldbCommand::ErrorStrings,
        // The separator that was taken for one before arguments is the suffix's own.
        b"SaveRegisterState" => LldbCommand::SaveRegisters { thread: bare_suffix(arguments)? },
        b"RestoreRegisterState" => {
            let number = arguments.decimal("the number is not decimal")?;
            LldbCommand::RestoreRegisters { number, thread: registers::suffix(arguments)? }
        }
        _ => return Ok(Command::Unknown),
    };
    Ok(Command::Lldb(command))
}

/// `thread:THREAD;`, or nothing.
fn bare_suffix(mut text: Text) -> Parsed<Option<ThreadId>> {
    if text.is_empty() {
        return Ok(None);
    }
    text.expect("thread:", "what follows is not a thread")?;
    let thread = ThreadId::parse(&mut text)?;
    let _ = text.skip(";");
    text.end().map(|()| Some(thread))
}
