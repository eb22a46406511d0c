//! `q` packets, but for those of LLDB.

use bis_trace::types::Tid;

use super::{
    super::{
        error::Problem,
        features::Features,
        text::{Parsed, Text, hex_bytes, hex_text, lossy},
        thread_id::ThreadId,
    },
    Command,
    ids::{process, thread},
    lldb, memory, transfer,
};

pub(super) fn parse(mut text: Text) -> Parsed<Command> {
    let whole = text;
    let name = text.until(b":,;");
    let mut arguments = text;
    let separator = arguments.0.first().copied();
    arguments.0 = arguments.0.get(1..).unwrap_or_default();
    match (name, separator) {
        (b"Supported", _) => Ok(Command::Supported(Features::parse(arguments.0))),
        (b"C", None) => Ok(Command::CurrentThread),
        (b"fThreadInfo", None) => Ok(Command::FirstThreads),
        (b"sThreadInfo", None) => Ok(Command::MoreThreads),
        (b"Offsets", None) => Ok(Command::Offsets),
        (b"Attached", None) => Ok(Command::Attached(None)),
        (b"Attached", Some(_)) => Ok(Command::Attached(Some(process(arguments)?))),
        (b"ThreadExtraInfo", _) => Ok(Command::ThreadExtraInfo(thread(arguments)?)),
        (b"GetTLSAddr", _) => tls(arguments),
        (b"Symbol", _) => symbol(arguments),
        (b"Xfer", _) => transfer::parse(arguments),
        (b"Search", _) => memory::search(arguments),
        (b"CRC", _) => memory::checksum(arguments),
        (b"Rcmd", _) => Ok(Command::Monitor(hex_text(arguments.0)?)),
        (b"RRCmd", _) => rr(arguments),
        _ => lldb::query(whole, name, arguments),
    }
}

fn tls(mut text: Text) -> Parsed<Command> {
    let thread = ThreadId::parse(&mut text)?;
    text.expect(",", "the offset is missing")?;
    let (offset, map) =
        text.pair("the offset is not a hexadecimal number", "the link map is not a hexadecimal number")?;
    text.end()?;
    Ok(Command::TlsAddress { thread, offset, map })
}

/// `:` alone, or `VALUE:NAME`, behind the first colon.
fn symbol(mut text: Text) -> Parsed<Command> {
    if text.0 == b":" {
        return Ok(Command::SymbolsReady);
    }
    let is_known = text.0.first() != Some(&b':');
    let value = is_known.then(|| text.hex("the symbol's value is not a hexadecimal number")).transpose()?;
    text.expect(":", "the symbol's name is missing")?;
    Ok(Command::Symbol { name: hex_text(text.rest())?, value })
}

/// `NAME:THREAD:ARGUMENT...`, the thread in decimal and the arguments in hexadecimal digits. Older clients
/// put the name in hexadecimal digits, and no thread.
fn rr(text: Text) -> Parsed<Command> {
    let mut words = text.0.split(|byte| *byte == b':');
    let name =
        words.next().filter(|name| !name.is_empty()).ok_or(Problem("the command's name is missing"))?;
    let old_name = hex_bytes(name).ok().filter(|name| name.iter().all(|byte| (b' '..0x7f).contains(byte)));
    let thread = match (&old_name, words.clone().next()) {
        (None, Some(id)) => {
            words.next();
            let id = lossy(id).parse::<i32>().map_err(|_| Problem("the thread is not a decimal number"))?;
            (id > 0).then_some(Tid(id))
        }
        _ => None,
    };
    let name = lossy(old_name.as_deref().unwrap_or(name));
    Ok(Command::RrCommand { name, thread, arguments: words.map(hex_text).collect::<Parsed<_>>()? })
}
