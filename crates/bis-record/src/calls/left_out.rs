//! Which commands are left out of a recording, and what a process has that is about to execute the stand-in
//! of one.

mod exec;

use std::{os::unix::ffi::OsStrExt, path::Path};

use bis_trace::types::{Fd, Registers};

/// What a process has that is about to execute the stand-in, and what is left of it then.
#[derive(Clone, Copy, Debug)]
pub struct StandIn {
    /// The descriptor of the stand-in's program.
    image: Fd,
    /// The socket to the program's keeper.
    pub channel: Fd,
    /// The exec that is made again.
    entry: Registers,
    /// The signals that it has blocked until then. From the program's start on, all are: they are for the
    /// stand-in to tell of.
    blocked: u64,
}

/// Which commands are left out: a name for programs in any folder, or, with a slash, an absolute path. `*`
/// stands for any text, `?` for any one byte.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pattern(pub Vec<u8>);

impl Pattern {
    /// `path`: as the program named it, absolute; `found`: where that leads.
    fn matches(&self, path: &Path, found: &Path) -> bool {
        if self.0.contains(&b'/') {
            return [path, found].iter().any(|path| is_like(&self.0, path.as_os_str().as_bytes()));
        }
        path.file_name().is_some_and(|name| is_like(&self.0, name.as_bytes()))
    }
}

fn is_like(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern.split_first(), text.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), _) if is_like(rest, text) => true,
        (Some((b'*', _)), Some((_, text))) => is_like(pattern, text),
        (Some((one, pattern)), Some((byte, text))) => (*one == b'?' || one == byte) && is_like(pattern, text),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_matched_by_name_or_by_path() {
        let matches = |pattern: &str, path: &str, found: &str| {
            Pattern(pattern.into()).matches(Path::new(path), Path::new(found))
        };
        assert!(matches("git", "/usr/bin/git", "/opt/git-2/bin/git"));
        assert!(!matches("git", "/usr/bin/git-shell", "/usr/bin/git"));
        assert!(matches("git*", "/usr/bin/git-shell", "/usr/bin/git-shell"));
        assert!(
            matches("g?t", "/usr/bin/git", "/usr/bin/git") && !matches("g?t", "/usr/bin/gt", "/usr/bin/gt")
        );
        assert!(matches("/opt/*/git", "/usr/bin/git", "/opt/git-2/bin/git"));
        assert!(matches("/usr/bin/git", "/usr/bin/git", "/opt/git-2/bin/git"));
        assert!(!matches("/usr/bin/gi", "/usr/bin/git", "/opt/git"));
    }
}
