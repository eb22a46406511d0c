//! The dynamic linker's own list of what it has loaded, walked here: a debugger would ask for each entry in
//! turn, and for the whole list again at each `dlopen`.
//!
//! Where the list is, the program's dynamic section says (`DT_DEBUG`); the C library's `link.h` has the two
//! structures.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path};

use bis_trace::types::{Addr, Tid};
use object::elf::{DT_DEBUG, PT_DYNAMIC, PT_PHDR, PT_TLS};

use super::{Session, look::number};
use crate::{options::file_for_debugger, protocol::reply::Library};

/// A list with more entries than this is none.
const LIBRARIES_MAX: usize = 1 << 16;
const PATH_MAX: u64 = 4096;

const HEADERS_MAX: u64 = 1 << 10;
const DYNAMIC_MAX: u64 = 1 << 10;
/// Bytes of the longer of the two headers that a file begins with.
const ELF_HEADER_LEN: u64 = 64;
/// From this version on, `struct r_debug` has the address of the next namespace's behind it.
const VERSION_WITH_NAMESPACES: u32 = 2;

/// Which part of the list is asked for; all, by default.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Part {
    /// From this entry on, whose predecessor is `before`.
    pub from: Option<u64>,
    pub before: u64,
    /// In this namespace only: the address of its `struct r_debug`.
    pub namespace: Option<u64>,
}

/// What the dynamic linker has loaded.
#[derive(PartialEq, Eq, Debug, Default)]
pub struct Libraries {
    /// The entry of the program itself, which is not among the libraries.
    pub main: Option<u64>,
    pub libraries: Vec<Library>,
}

/// A `struct link_map`.
struct Entry {
    bias: u64,
    name: u64,
    dynamic: u64,
    next: u64,
    before: u64,
}

/// What the headers of a program or library say.
struct Headers {
    dynamic: Option<u64>,
    has_tls: bool,
}

/// A library's name as the linker has it, if that says by itself where the file is. Else it is told from the
/// folder on in which the program was, and not the debugger. `kept` is the name under which the trace has a
/// file with the same content: most often it is in the same folder.
fn from_folder_of(kept: &Path, name: String) -> String {
    if name.starts_with('/') || !kept.is_absolute() {
        return name;
    }
    let beside = Path::new(&name).file_name().map(|name| kept.with_file_name(name));
    beside.filter(|path| path.exists()).as_deref().unwrap_or(kept).to_string_lossy().into_owned()
}

impl Session<'_> {
    /// None: the program has no dynamic linker that tells of itself. Before that has begun, the list is
    /// empty.
    pub fn libraries(&self, part: Part, serves_files: bool) -> Option<Libraries> {
        let mut found = Libraries::default();
        if let Some(from) = part.from {
            self.walk((from, part.before), part.namespace, serves_files, &mut found.libraries);
            return Some(found);
        }
        let first = self.linker_data()?;
        let mut at = part.namespace.unwrap_or(first);
        let mut seen = Vec::new();
        while at != 0 && !seen.contains(&at) {
            seen.push(at);
            let version = u32::from_le_bytes(self.read_memory(Addr(at), 4).try_into().ok()?);
            let word = self.word_len() as u64;
            let list = self.read_word(Addr(at.checked_add(word)?))?;
            let before = found.libraries.len();
            self.walk((list, 0), Some(at), serves_files, &mut found.libraries);
            // The first namespace begins with the program.
            if at == first && found.libraries.get(before).is_some_and(|library| library.link_map == list) {
                found.main = Some(found.libraries.remove(before).link_map);
            }
            at = match version {
                VERSION_WITH_NAMESPACES.. if part.namespace.is_none() => {
                    self.read_word(Addr(at.checked_add(5 * word)?))?
                }
                _ => 0,
            };
        }
        found.libraries.retain(|library| !library.path.is_empty());
        Some(found)
    }

    /// The entries from one on, as long as each names the one before it: the linker may be at work on them.
    fn walk(
        &self,
        (mut at, mut before): (u64, u64),
        namespace: Option<u64>,
        serves_files: bool,
        into: &mut Vec<Library>,
    ) {
        let maps = self.maps();
        for _ in 0..LIBRARIES_MAX {
            let Some(entry) = self.link_map(at).filter(|entry| entry.before == before) else { return };
            let mut path = String::from_utf8_lossy(&self.text_at(Addr(entry.name))).into_owned();
            let mapping =
                maps.iter().find(|mapping| (mapping.start..mapping.end).contains(&Addr(entry.dynamic)));
            let kept = mapping.and_then(|mapping| self.kept(mapping));
            if let Some(file) = kept.filter(|_| !path.is_empty()) {
                path = from_folder_of(Path::new(OsStr::from_bytes(&file.path)), path);
            }
            // What the client reads through the server, it gets by the old name.
            let replaced = kept.and_then(|file| file_for_debugger(self.world.trace(), file));
            if let Some(replaced) = replaced.filter(|_| !serves_files && !path.is_empty()) {
                path = replaced.to_string_lossy().into_owned();
            }
            into.push(Library { path, link_map: at, bias: entry.bias, dynamic: entry.dynamic, namespace });
            (before, at) = (at, entry.next);
        }
    }

    fn link_map(&self, at: u64) -> Option<Entry> {
        let len = self.word_len();
        let bytes = self.read_memory(Addr(at), 5 * len as u64);
        let word = |index: usize| bytes.get(index * len..(index + 1) * len).map(number);
        Some(Entry { bias: word(0)?, name: word(1)?, dynamic: word(2)?, next: word(3)?, before: word(4)? })
    }

    /// The bytes up to a null.
    fn text_at(&self, addr: Addr) -> Vec<u8> {
        let mut bytes = self.read_memory(addr, PATH_MAX);
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(0);
        bytes.truncate(end);
        bytes
    }

    /// The address of the linker's `struct r_debug`; 0 before it has begun.
    fn linker_data(&self) -> Option<u64> {
        self.read_word(Addr(self.linker_data_pointer()?))
    }

    /// Where the program's dynamic section has that address. None: it has no place for it.
    pub fn linker_data_pointer(&self) -> Option<u64> {
        let dynamic = self.program_headers()?.dynamic?;
        let len = self.word_len();
        let tag_len = 2 * len as u64;
        let bytes = self.read_memory(Addr(dynamic), DYNAMIC_MAX * tag_len);
        let mut tags = bytes.chunks_exact(2 * len).map(|tag| number(&tag[..len])).take_while(|tag| *tag != 0);
        let place = tags.position(|tag| tag == DT_DEBUG.cast_unsigned())?;
        dynamic.checked_add(tag_len * u64::try_from(place).ok()? + len as u64)
    }

    fn program_headers(&self) -> Option<Headers> {
        self.headers(self.auxiliary(libc::AT_PHDR)?, self.auxiliary(libc::AT_PHNUM)?, None)
    }

    /// `bias`: where it is known, because the headers do not tell of themselves.
    fn headers(&self, at: u64, count: u64, bias: Option<u64>) -> Option<Headers> {
        // The type comes first; behind it, in a 64-bit file, the flags; then the place in the file and in
        // memory.
        let len = self.word_len();
        let (header_len, addr) = if len == 4 { (32, 8..12) } else { (56, 16..24) };
        let bytes = self.read_memory(Addr(at), count.min(HEADERS_MAX) * header_len);
        let all: Vec<(u32, u64)> = bytes
            .chunks_exact(usize::try_from(header_len).ok()?)
            .map(|header| {
                (u32::from_le_bytes(std::array::from_fn(|i| header[i])), number(&header[addr.clone()]))
            })
            .collect();
        let of = |kind: u32| all.iter().find(|(found, _)| *found == kind).map(|(_, addr)| *addr);
        // Where the file does not say where its headers come to be, it is one that is not moved.
        let bias = bias.unwrap_or_else(|| of(PT_PHDR).map_or(0, |addr| at.wrapping_sub(addr)));
        let dynamic = of(PT_DYNAMIC).map(|addr| bias.wrapping_add(addr));
        Some(Headers { dynamic, has_tls: of(PT_TLS).is_some() })
    }

    /// Has a library thread-local variables?
    fn has_tls(&self, library: &Library) -> bool {
        let header = self.read_memory(Addr(library.bias), ELF_HEADER_LEN);
        let (at, count) = if self.word_len() == 4 { (28..32, 44..46) } else { (32..40, 56..58) };
        let (Some(at), Some(count)) = (header.get(at), header.get(count)) else { return false };
        let (at, count) = (number(at), number(count));
        let headers = self.headers(library.bias.wrapping_add(at), count, Some(library.bias));
        header.starts_with(b"\x7fELF") && headers.is_some_and(|headers| headers.has_tls)
    }

    /// Where musl has a thread's copy of the variables of the library that `map` describes (0: of a program
    /// without libraries). None: the C library is not musl, or there are no such variables.
    ///
    /// musl's description of a thread begins with its own address, that of a table, and those of the thread
    /// before and the one behind it. The table begins with the number of its words; they are the addresses
    /// for the libraries that have such variables, in the order in which they were loaded. No library is ever
    /// unloaded.
    pub fn musl_tls(&self, tid: Tid, map: u64) -> Option<u64> {
        let thread = self.shown().registers(tid).ok()?.thread_pointer();
        let len = self.word_len() as u64;
        let word = |addr: Addr, index: u64| self.read_word(addr.checked_add(index.checked_mul(len)?)?);
        let (third, fourth) = (word(Addr(thread), 2)?, word(Addr(thread), 3)?);
        // glibc's begins with its address as well, and has it once more in the third word, where musl has the
        // thread before: that is the thread itself where there is no other, and nothing yet where the thread
        // is new.
        let is_glibc = third == thread && fourth != thread;
        if word(Addr(thread), 0)? != thread || is_glibc {
            return None;
        }
        let loaded = self.libraries(Part::default(), true).unwrap_or_default();
        let of_program = u64::from(self.program_headers()?.has_tls);
        let number = if map == 0 || loaded.main == Some(map) {
            of_program
        } else {
            let at = loaded.libraries.iter().position(|library| library.link_map == map)?;
            let having = loaded.libraries[..=at].iter().filter(|library| self.has_tls(library)).count();
            of_program + u64::try_from(having).ok()?
        };
        let table = word(Addr(thread), 1)?;
        if number == 0 || number > word(Addr(table), 0)? {
            return None;
        }
        word(Addr(table), number).filter(|addr| *addr != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_a_folder_is_looked_for_where_the_content_is() {
        let folder = tempfile::tempdir().unwrap();
        let [kept, other] = ["a.so", "b.so"].map(|name| folder.path().join(name));
        std::fs::write(&other, "").unwrap();
        let found = |name: &str| from_folder_of(&kept, name.into());
        assert_eq!(found("/lib/c.so"), "/lib/c.so");
        assert_eq!(Path::new(&found("./b.so")), other);
        assert_eq!(Path::new(&found("../lib/gone.so")), kept);
        assert_eq!(from_folder_of(Path::new("a.so"), "./b.so".into()), "./b.so");
    }
}
