//! Programs that translate the text of other programs, and run only their translation: they read what they
//! have mapped as data, and would translate our jumps, too, and follow them out of it. They run without
//! hooks: what they read is the program's own.
//!
//! Nothing that a process does tells this in time: its first reading of text is an instruction like any
//! other. So they are known by the names of their executables.

use std::path::Path;

/// Executables that are translators, whole names.
const NAMES: [&str; 7] = [
    "qemu-x86_64",
    "qemu-x86_64-static",
    "qemu-i386",
    "qemu-i386-static",
    "pinbin",
    "libdynamorio.so",
    "drrun",
];

/// What this executable is to be called in a note, if it is a translator.
pub fn translator(path: &Path) -> Option<&str> {
    let name = path.file_name()?.to_str()?;
    // Its tools: /usr/libexec/valgrind/memcheck-amd64-linux. `valgrind` itself only executes one of them.
    let is_valgrind = name.ends_with("-amd64-linux")
        && path.parent().and_then(Path::file_name).is_some_and(|folder| folder == "valgrind");
    (is_valgrind || NAMES.contains(&name)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn translators_are_known_by_name() {
        let is = |path: &str| translator(Path::new(path)).is_some();
        assert!(is("/usr/libexec/valgrind/memcheck-amd64-linux"));
        assert!(is("/usr/bin/qemu-x86_64-static"));
        for other in ["/usr/bin/valgrind", "/usr/bin/qemu-system-x86_64", "/tmp/x-amd64-linux", "/"] {
            assert!(!is(other), "{other}");
        }
    }
}
