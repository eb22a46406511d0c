//! The XML of objects that `qXfer` reads: threads and libraries.

use std::fmt::Write as _;

use super::{super::thread_id::ThreadId, hex_string};

/// A thread, as `qXfer:threads` lists it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ThreadEntry {
    pub id: ThreadId,
    pub core: Option<u32>,
    /// The program's name of it.
    pub name: Option<String>,
    /// What the server has to say of it; `info threads` shows it in parentheses.
    pub note: String,
}

/// A library in the dynamic linker's list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Library {
    pub path: String,
    /// The address of its `struct link_map`.
    pub link_map: u64,
    /// What is added to the addresses that its file says.
    pub bias: u64,
    /// The address of its dynamic section.
    pub dynamic: u64,
    /// The namespace: the address of its `struct r_debug`, where known.
    pub namespace: Option<u64>,
}

/// The object `threads`.
#[must_use]
pub fn threads_xml(threads: &[ThreadEntry]) -> String {
    let mut xml = "<?xml version=\"1.0\"?>\n<threads>\n".to_owned();
    for thread in threads {
        let _ = write!(xml, "<thread id=\"{}\"", thread.id);
        if let Some(core) = thread.core {
            let _ = write!(xml, " core=\"{core}\"");
        }
        if let Some(name) = &thread.name {
            let _ = write!(xml, " name=\"{}\"", escape(name));
        }
        let _ = writeln!(xml, ">{}</thread>", escape(&thread.note));
    }
    xml + "</threads>\n"
}

/// A table of `info os`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OsTable {
    pub kind: &'static str,
    pub columns: &'static [&'static str],
    pub rows: Vec<Vec<String>>,
}

/// The object `osdata`.
#[must_use]
pub fn os_data_xml(table: &OsTable) -> String {
    let mut xml = format!("<?xml version=\"1.0\"?>\n<osdata type=\"{}\">\n", table.kind);
    for row in &table.rows {
        xml.push_str("<item>");
        for (name, value) in table.columns.iter().zip(row) {
            let _ = write!(xml, "<column name=\"{name}\">{}</column>", escape(value));
        }
        xml.push_str("</item>\n");
    }
    xml + "</osdata>\n"
}

/// The object `libraries-svr4`. `main_map` is the link map of the program itself, which the list leaves out.
#[must_use]
pub fn libraries_svr4_xml(main_map: Option<u64>, libraries: &[Library]) -> String {
    let mut xml = "<library-list-svr4 version=\"1.0\"".to_owned();
    if let Some(main_map) = main_map {
        let _ = write!(xml, " main-lm=\"{main_map:#x}\"");
    }
    xml.push_str(">\n");
    for library in libraries {
        let Library { path, link_map, bias, dynamic, namespace } = library;
        let path = escape(path);
        let _ = write!(
            xml,
            "<library name=\"{path}\" lm=\"{link_map:#x}\" l_addr=\"{bias:#x}\" l_ld=\"{dynamic:#x}\""
        );
        if let Some(namespace) = namespace {
            let _ = write!(xml, " lmid=\"{namespace:#x}\"");
        }
        xml.push_str("/>\n");
    }
    xml + "</library-list-svr4>\n"
}

/// Text in XML. Characters that XML cannot have are replaced.
pub(in super::super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&apos;"),
            '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{1_0000}'.. => {
                escaped.push(c)
            }
            _ => escaped.push('\u{fffd}'),
        }
    }
    escaped
}

/// Text in JSON, with its quotation marks.
pub(super) fn json_string(text: &str) -> String {
    let mut json = "\"".to_owned();
    for c in text.chars() {
        match c {
            '"' | '\\' => json.extend(['\\', c]),
            '\0'..' ' => {
                let _ = write!(json, "\\u{:04x}", u32::from(c));
            }
            _ => json.push(c),
        }
    }
    json + "\""
}

/// Bytes in JSON, as hexadecimal digits.
pub(super) fn json_hex(bytes: &[u8]) -> String {
    format!("\"{}\"", hex_string(bytes))
}

#[cfg(test)]
mod tests {
    use bis_trace::types::Tid;

    use super::*;

    #[test]
    fn names_are_escaped() {
        let id = ThreadId::full(Tid(1), Tid(2));
        let entry =
            ThreadEntry { id, core: Some(0), name: Some("<a&\"\x01>".to_owned()), note: "x".to_owned() };
        let expected = "<thread id=\"p1.2\" core=\"0\" name=\"&lt;a&amp;&quot;\u{fffd}&gt;\">x</thread>";
        assert!(threads_xml(&[entry]).contains(expected));
        assert_eq!(json_string("a\"\\\n"), r#""a\"\\\u000a""#);
    }

    #[test]
    fn libraries() {
        let library =
            Library { path: "/a".to_owned(), link_map: 16, bias: 32, dynamic: 48, namespace: Some(64) };
        let xml = libraries_svr4_xml(Some(5), &[library]);
        assert!(xml.starts_with("<library-list-svr4 version=\"1.0\" main-lm=\"0x5\">\n"));
        assert!(
            xml.contains("<library name=\"/a\" lm=\"0x10\" l_addr=\"0x20\" l_ld=\"0x30\" lmid=\"0x40\"/>")
        );
    }
}
