//! Replies: what a server answers, as the payload of a packet ([`super::packet::encode`] frames it).
//!
//! `stop` has the replies to what makes the program run, `file` those of `vFile`, `objects` the XML that
//! `qXfer` reads, `lldb` the answers to LLDB's own questions. This file has what they share, and the short
//! ones.

mod errors;
mod file;
pub mod lldb;
mod objects;
mod stop;

use std::fmt::{Display, Write as _};

use bis_trace::types::{Addr, Tid};

use super::{packet::encoded_len, thread_id::ThreadId};

pub use errors::Errors;
pub use file::{FileStat, file_data, file_error, file_result, file_stat};
pub use objects::{Library, OsTable, ThreadEntry, libraries_svr4_xml, os_data_xml, threads_xml};
pub use stop::{LldbReason, LldbStop, Reason, Stop, exited, killed, no_resumed, thread_exited};

/// The payload of a packet, without escapes.
pub type Payload = Vec<u8>;

/// `OK`
#[must_use]
pub fn ok() -> Payload {
    b"OK".to_vec()
}

/// The empty packet: what was asked for is not supported.
#[must_use]
pub fn empty() -> Payload {
    Payload::new()
}

/// Text as it is.
#[must_use]
pub fn text(text: impl Display) -> Payload {
    text.to_string().into_bytes()
}

/// A number in hexadecimal digits: an address of `qGetTLSAddr`, for example.
#[must_use]
pub fn number(number: u64) -> Payload {
    text(format_args!("{number:x}"))
}

/// Bytes in hexadecimal digits: memory for `m`, registers for `g` and `p`, output at the end of `qRcmd`.
#[must_use]
pub fn hex(bytes: &[u8]) -> Payload {
    hex_string(bytes).into_bytes()
}

pub(super) fn hex_string(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// A register of this many bytes whose value nobody knows.
#[must_use]
pub fn unavailable(len: usize) -> Payload {
    vec![b'x'; 2 * len]
}

/// The answer to `x`. gdb 16 and LLDB 21 want a mark (`b`) before the data, and ask only a server that has
/// said `binary-upload+`. Older LLDBs want the data alone; they ask for 0 bytes at 0 first, and where the
/// answer is not `OK` they use `m`.
#[must_use]
pub fn memory_binary(data: &[u8], has_mark: bool) -> Payload {
    if has_mark { [b"b", data].concat() } else { data.to_vec() }
}

/// A piece of an object that `qXfer` reads: at most `len` bytes from `offset` on, and no more than fit a
/// packet of `len` bytes with the escapes that they need.
#[must_use]
pub fn chunk(object: &[u8], offset: u64, len: u64) -> Payload {
    let rest = usize::try_from(offset).ok().and_then(|offset| object.get(offset..)).unwrap_or_default();
    // What is asked for counts without escapes, and the packet must have room for them.
    let len = usize::try_from(len).unwrap_or(usize::MAX);
    let room = len.max(2);
    let fits = rest.iter().take(len.max(1)).scan(0usize, |used, byte| {
        *used += encoded_len(*byte);
        (*used <= room).then_some(())
    });
    let (now, later) = rest.split_at(fits.count());
    let mark = if later.is_empty() { b'l' } else { b'm' };
    [&[mark], now].concat()
}

/// How many bytes `qXfer:...:write` has taken.
#[must_use]
pub fn written(len: usize) -> Payload {
    text(format_args!("{len:x}"))
}

/// Output for the client's user, between a command that runs (or `qRcmd`) and its answer.
#[must_use]
pub fn console(output: &[u8]) -> Payload {
    text(format_args!("O{}", hex_string(output)))
}

/// The answer to `qSupported`: the largest packet that the server takes, and features as the protocol writes
/// them (`multiprocess+`, `qXfer:auxv:read+`).
#[must_use]
pub fn supported(packet_size: usize, features: &[&str]) -> Payload {
    text(format_args!("PacketSize={packet_size:x};{}", features.join(";")))
}

/// The answer to `vCont?`; `t` matters in non-stop mode only, but gdb wants all of c, C, s and S.
#[must_use]
pub fn resume_actions() -> Payload {
    text("vCont;c;C;s;S;t;r")
}

/// The answer to `qC`.
#[must_use]
pub fn current_thread(thread: ThreadId) -> Payload {
    text(format_args!("QC{thread}"))
}

/// The answer to `qfThreadInfo` and `qsThreadInfo`; without threads it is the end of the list.
#[must_use]
pub fn threads(threads: &[ThreadId]) -> Payload {
    if threads.is_empty() {
        return text("l");
    }
    let threads: Vec<String> = threads.iter().map(ToString::to_string).collect();
    text(format_args!("m{}", threads.join(",")))
}

/// The answer to `qAttached`: whether the client should leave the program alone when it goes.
#[must_use]
pub fn attached(attached: bool) -> Payload {
    text(u8::from(attached))
}

/// The answer to `qSearch`.
#[must_use]
pub fn found(addr: Option<Addr>) -> Payload {
    addr.map_or_else(|| text("0"), |addr| text(format_args!("1,{addr:x}")))
}

/// The answer to `qCRC`.
#[must_use]
pub fn checksum(crc: super::Crc) -> Payload {
    text(format_args!("C{:x}", crc.value()))
}

/// A question to the client: where is this symbol? In answer to `qSymbol`; `OK` ends the questions.
#[must_use]
pub fn symbol(name: &str) -> Payload {
    text(format_args!("qSymbol:{}", hex_string(name.as_bytes())))
}

/// `;process:PID`, for a client that knows of several processes.
fn of_process(process: Option<Tid>) -> String {
    process.map(|process| format!(";process:{:x}", process.0)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_replies() {
        let check = |payload: Payload, expected: &str| assert_eq!(payload, expected.as_bytes());
        check(ok(), "OK");
        check(empty(), "");
        check(number(0x7fff), "7fff");
        check(hex(&[0, 0xff]), "00ff");
        check(unavailable(2), "xxxx");
        check(memory_binary(b"}#", true), "b}#");
        check(memory_binary(b"}#", false), "}#");
        check(console(b"a\n"), "O610a");
        check(
            supported(0x1000, &["multiprocess+", "vContSupported+"]),
            "PacketSize=1000;multiprocess+;vContSupported+",
        );
        check(current_thread(ThreadId::full(Tid(1), Tid(0x1f))), "QCp1.1f");
        check(threads(&[ThreadId::plain(Tid(1)), ThreadId::plain(Tid(10))]), "m1,a");
        check(threads(&[]), "l");
        check(attached(true), "1");
        check(found(None), "0");
        check(found(Some(Addr(16))), "1,10");
        check(symbol("ma"), "qSymbol:6d61");
        check(written(16), "10");
    }

    #[test]
    fn objects_come_in_pieces() {
        let check =
            |object: &[u8], offset, len, expected: &[u8]| assert_eq!(chunk(object, offset, len), expected);
        check(b"abcdef", 0, 4, b"mabcd");
        check(b"abcdef", 4, 4, b"lef");
        check(b"abcd", 0, 4, b"labcd");
        check(b"abcd", 4, 4, b"l");
        check(b"abcd", u64::MAX, u64::MAX, b"l");
        check(b"a}}}", 0, 4, b"ma}");
        check(b"}}}}", 0, 0, b"m}");
        check(b"abc", 0, 1, b"ma");
    }
}
