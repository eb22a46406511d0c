//! The answers to LLDB's own questions: lists of `key:value;`, and JSON.

use std::fmt::{Display, Write as _};

use bis_trace::types::{Addr, Signal, Tid};

use super::{
    super::signal::Numbers,
    Payload, hex_string,
    objects::{json_hex, json_string},
    stop::LldbReason,
};

/// A list of pairs, under way.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Pairs(String);

impl Pairs {
    /// A value as it is; it must not hold `:` or `;`.
    #[must_use]
    pub fn plain(mut self, key: &str, value: impl Display) -> Pairs {
        let _ = write!(self.0, "{key}:{value};");
        self
    }

    /// A number in hexadecimal digits.
    #[must_use]
    pub fn number(self, key: &str, value: u64) -> Pairs {
        self.plain(key, format_args!("{value:x}"))
    }

    /// Text in hexadecimal digits.
    #[must_use]
    pub fn encoded(self, key: &str, value: &[u8]) -> Pairs {
        self.plain(key, hex_string(value))
    }

    #[must_use]
    pub fn payload(self) -> Payload {
        self.0.into_bytes()
    }
}

const TRIPLE: &[u8] = b"x86_64-pc-linux-gnu";
/// That of 32-bit programs.
const NARROW_TRIPLE: &[u8] = b"i386-pc-linux-gnu";

/// The answer to `qHostInfo`.
#[must_use]
pub fn host_info(hostname: &str, os_version: &str) -> Payload {
    Pairs::default()
        .encoded("triple", TRIPLE)
        .plain("ptrsize", 8)
        // Behind the access: the processor has no other watchpoints.
        .plain("watchpoint_exceptions_received", "after")
        .plain("endian", "little")
        .plain("os_version", os_version)
        .encoded("hostname", hostname.as_bytes())
        .plain("vm-page-size", 4096)
        .payload()
}

/// A process, for `qProcessInfo`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProcessInfo {
    pub pid: Tid,
    pub parent: Tid,
    pub uid: u32,
    pub gid: u32,
    pub effective_uid: u32,
    pub effective_gid: u32,
    /// It is a 32-bit program.
    pub is_narrow: bool,
}

impl ProcessInfo {
    fn triple(&self) -> &'static [u8] {
        if self.is_narrow { NARROW_TRIPLE } else { TRIPLE }
    }
}

/// The answer to `qProcessInfo`.
#[must_use]
pub fn process_info(process: &ProcessInfo) -> Payload {
    let id = |tid: Tid| u64::from(tid.0.unsigned_abs());
    Pairs::default()
        .number("pid", id(process.pid))
        .number("parent-pid", id(process.parent))
        .number("real-uid", process.uid.into())
        .number("real-gid", process.gid.into())
        .number("effective-uid", process.effective_uid.into())
        .number("effective-gid", process.effective_gid.into())
        .encoded("triple", process.triple())
        .plain("ostype", "linux")
        .plain("endian", "little")
        .plain("ptrsize", if process.is_narrow { 4 } else { 8 })
        .payload()
}

/// A process and the path of what it executes, for `qProcessInfoPID`: in decimal, and with other words.
#[must_use]
pub fn process_info_of(process: &ProcessInfo, executable: &[u8]) -> Payload {
    Pairs::default()
        .plain("pid", process.pid)
        .plain("ppid", process.parent)
        .plain("uid", process.uid)
        .plain("gid", process.gid)
        .plain("euid", process.effective_uid)
        .plain("egid", process.effective_gid)
        .encoded("name", executable)
        .encoded("triple", process.triple())
        .payload()
}

/// A range of memory with the same permissions, for `qMemoryRegionInfo`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Region {
    pub start: Addr,
    /// Behind the last byte.
    pub end: Addr,
    /// None: nothing is mapped there.
    pub mapped: Option<Mapped>,
}

/// What is mapped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mapped {
    pub read: bool,
    pub write: bool,
    pub execute: bool,
    /// The file's path, or a name like `[stack]`.
    pub name: Option<String>,
}

/// The answer to `qMemoryRegionInfo` with an address: the mapping there, or the gap.
#[must_use]
pub fn memory_region(region: &Region) -> Payload {
    let mut pairs = Pairs::default()
        .number("start", region.start.0)
        .number("size", region.end.saturating_since(region.start));
    if let Some(mapped) = &region.mapped {
        let letters = [(mapped.read, 'r'), (mapped.write, 'w'), (mapped.execute, 'x')];
        let permissions: String = letters.iter().filter(|(has, _)| *has).map(|(_, letter)| *letter).collect();
        pairs = pairs.plain("permissions", permissions);
        if let Some(name) = &mapped.name {
            pairs = pairs.encoded("name", name.as_bytes());
        }
    }
    pairs.payload()
}

/// A stopped thread, for `jThreadsInfo`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ThreadInfo {
    pub tid: Tid,
    pub name: Option<String>,
    pub reason: LldbReason,
    pub signal: Option<Signal>,
    pub description: Option<String>,
    /// Registers (gdb's numbers, bytes) that the client is sure to ask for.
    pub registers: Vec<(usize, Vec<u8>)>,
    /// Memory (address, bytes) that it will ask for: the stack's top.
    pub memory: Vec<(u64, Vec<u8>)>,
}

/// The answer to `jThreadsInfo`.
#[must_use]
pub fn threads_info(threads: &[ThreadInfo]) -> Payload {
    let threads: Vec<String> = threads.iter().map(thread_info).collect();
    format!("[{}]", threads.join(",")).into_bytes()
}

fn thread_info(thread: &ThreadInfo) -> String {
    let mut json = format!("{{\"tid\":{},\"reason\":\"{}\"", thread.tid, thread.reason.name());
    if let Some(signal) = thread.signal {
        let _ = write!(json, ",\"signal\":{}", Numbers::Linux.of(signal));
    }
    if let Some(name) = &thread.name {
        let _ = write!(json, ",\"name\":{}", json_string(name));
    }
    if let Some(description) = &thread.description {
        let _ = write!(json, ",\"description\":{}", json_string(description));
    }
    let register = |(number, value): &(usize, Vec<u8>)| format!("\"{number}\":{}", json_hex(value));
    let registers: Vec<String> = thread.registers.iter().map(register).collect();
    let piece =
        |(addr, data): &(u64, Vec<u8>)| format!("{{\"address\":{addr},\"bytes\":{}}}", json_hex(data));
    let memory: Vec<String> = thread.memory.iter().map(piece).collect();
    let _ = write!(json, ",\"registers\":{{{}}},\"memory\":[{}]}}", registers.join(","), memory.join(","));
    json
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(payload: Payload, expected: &str) {
        assert_eq!(String::from_utf8_lossy(&payload), expected);
    }

    #[test]
    fn regions() {
        let mapped = Mapped { read: true, write: false, execute: true, name: Some("/a".to_owned()) };
        let region = Region { start: Addr(0x1000), end: Addr(0x3000), mapped: Some(mapped) };
        check(memory_region(&region), "start:1000;size:2000;permissions:rx;name:2f61;");
        check(memory_region(&Region { mapped: None, ..region }), "start:1000;size:2000;");
    }

    #[test]
    fn threads_in_json() {
        let thread = ThreadInfo {
            tid: Tid(31),
            name: Some("a\"b".to_owned()),
            reason: LldbReason::Signal,
            signal: Some(Signal::CHLD),
            description: None,
            registers: vec![(16, vec![1, 2])],
            memory: vec![(32, vec![255])],
        };
        check(
            threads_info(&[thread]),
            "[{\"tid\":31,\"reason\":\"signal\",\"signal\":17,\"name\":\"a\\\"b\",\
             \"registers\":{\"16\":\"0102\"},\"memory\":[{\"address\":32,\"bytes\":\"ff\"}]}]",
        );
    }

    #[test]
    fn hosts_and_processes() {
        let info = String::from_utf8_lossy(&host_info("h", "6.1.0")).into_owned();
        assert!(info.starts_with("triple:7838365f36342d70632d6c696e75782d676e75;ptrsize:8;"), "{info}");
        assert!(info.contains("os_version:6.1.0;hostname:68;"), "{info}");
        let (pid, parent) = (Tid(31), Tid(1));
        let process = |is_narrow| ProcessInfo {
            pid,
            parent,
            uid: 0,
            gid: 0,
            effective_uid: 0,
            effective_gid: 16,
            is_narrow,
        };
        let info = |is_narrow| String::from_utf8_lossy(&process_info(&process(is_narrow))).into_owned();
        let wide = info(false);
        assert!(wide.starts_with("pid:1f;parent-pid:1;real-uid:0;"), "{wide}");
        assert!(wide.contains("effective-gid:10;") && wide.contains("ptrsize:8;"), "{wide}");
        assert!(info(true).contains("ptrsize:4;"), "{}", info(true));
        let of = String::from_utf8_lossy(&process_info_of(&process(false), b"/a")).into_owned();
        assert!(of.starts_with("pid:31;ppid:1;uid:0;") && of.contains("egid:16;name:2f61;"), "{of}");
    }
}
