//! Finding the program to record, as `execvp` does: a name with a slash is a path; another is looked for in
//! the folders of the program's own `PATH`; a text that names no interpreter behind `#!` is a script for
//! `/bin/sh`.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::{self, Read},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use object::{
    FileKind, LittleEndian, ReadCache,
    elf::{FileHeader32, FileHeader64},
    read::elf::{FileHeader, ProgramHeader},
};
use rustix::{
    fs::{Access, access},
    io::Errno,
};

use crate::failure::{Failure, Result, status};

/// What `execvp` uses when there is no `PATH`.
const DEFAULT_PATH: &str = "/bin:/usr/bin";
const SHELL: &str = "/bin/sh";

/// A program that can be started.
#[derive(Debug, PartialEq, Eq)]
pub struct Found {
    /// Absolute, or relative to the program's working directory.
    pub path: PathBuf,
    pub argv: Vec<OsString>,
}

/// Finds `argv[0]`, seen from the working directory `cwd` (none: ours), with the program's own `PATH`.
///
/// # Errors
/// With status 127 if there is no such file, 126 if it is one that cannot be executed.
pub fn find(argv: &[OsString], search: Option<&OsStr>, cwd: Option<&Path>) -> Result<Found> {
    let name = argv.first().map(OsString::as_os_str).unwrap_or_default();
    let shown = Path::new(name).display();
    if name.is_empty() {
        return Err(Failure::new(status::NOT_FOUND, "failed to record: the program's name is empty"));
    }
    let from = |path: &Path| cwd.map_or_else(|| path.to_owned(), |cwd| cwd.join(path));
    if name.as_bytes().contains(&b'/') {
        let path = PathBuf::from(name);
        return match runnable(&from(&path)) {
            Ok(()) => Ok(with_shell(path, &from, argv)),
            Err(error) => Err(refusal(&shown.to_string(), &error)),
        };
    }
    let search = search.unwrap_or(OsStr::new(DEFAULT_PATH));
    let mut unfit = None;
    for folder in search.as_bytes().split(|byte| *byte == b':') {
        // An empty entry means the working directory.
        let folder = if folder.is_empty() { Path::new(".") } else { Path::new(OsStr::from_bytes(folder)) };
        let path = folder.join(name);
        match runnable(&from(&path)) {
            Ok(()) => return Ok(with_shell(path, &from, argv)),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => unfit = Some((path, error)),
            Err(_) => {}
        }
    }
    Err(match unfit {
        Some((path, error)) => refusal(&path.display().to_string(), &error),
        None => Failure::new(
            status::NOT_FOUND,
            format!("failed to record {shown}: no such program in the folders of PATH"),
        ),
    })
}

fn runnable(path: &Path) -> io::Result<()> {
    let metadata = fs::metadata(path)?;
    if metadata.is_dir() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is a folder"));
    }
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is not a regular file"));
    }
    access(path, Access::EXEC_OK).map_err(|error| match error {
        Errno::ACCESS => io::Error::new(
            io::ErrorKind::PermissionDenied,
            "you may not execute it (chmod +x it, or name its interpreter first)",
        ),
        _ => error.into(),
    })
}

fn refusal(shown: &str, error: &io::Error) -> Failure {
    let (status, why) = match error.kind() {
        io::ErrorKind::NotFound => (status::NOT_FOUND, "no such file".to_owned()),
        _ => (status::NOT_EXECUTABLE, error.to_string()),
    };
    Failure::new(status, format!("failed to record {shown}: {why}"))
}

/// Puts the shell in front of a file that the kernel would refuse and that looks like text.
fn with_shell(path: PathBuf, from: &dyn Fn(&Path) -> PathBuf, argv: &[OsString]) -> Found {
    if !is_bare_script(&from(&path)) {
        return Found { path, argv: argv.to_vec() };
    }
    let mut shell_argv = vec![SHELL.into(), path.into_os_string()];
    shell_argv.extend_from_slice(&argv[1..]);
    Found { path: SHELL.into(), argv: shell_argv }
}

/// Whether the kernel knows no way to execute this file, and its first line is text.
fn is_bare_script(path: &Path) -> bool {
    let mut head = Vec::new();
    // A program that may be executed and not read is no script.
    let Ok(file) = File::open(path) else { return false };
    if file.take(256).read_to_end(&mut head).is_err()
        || head.starts_with(b"\x7fELF")
        || names_interpreter(&head)
    {
        return false;
    }
    let first_line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    !first_line.contains(&0) && !is_registered(path, &head)
}

/// Does it begin with `#!` and the name of an interpreter? (`load_script` in fs/binfmt_script.c takes a line
/// without a name for no script of its own.)
fn names_interpreter(head: &[u8]) -> bool {
    interpreter(head).is_some()
}

fn interpreter(head: &[u8]) -> Option<&Path> {
    let line = head.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let mut words = line.split(|byte| matches!(byte, b' ' | b'\t' | 0));
    words.find(|word| !word.is_empty()).map(|name| Path::new(OsStr::from_bytes(name)))
}

/// The interpreter that a script or a program names and that is not there, seen from the working directory
/// `cwd` (none: ours). The kernel's word for that is the one for a program that is not there.
pub fn missing_interpreter(program: &Path, cwd: Option<&Path>) -> Option<PathBuf> {
    let from = |path: &Path| cwd.map_or_else(|| path.to_owned(), |cwd| cwd.join(path));
    let mut file = File::open(from(program)).ok()?;
    let mut head = Vec::new();
    file.by_ref().take(256).read_to_end(&mut head).ok()?;
    let linked = || linked_interpreter(file);
    let name = interpreter(&head).map(Path::to_owned).or_else(linked)?;
    Some(name).filter(|name| !from(name).exists())
}

/// The dynamic linker that an ELF file names.
fn linked_interpreter(file: File) -> Option<PathBuf> {
    let cache = ReadCache::new(file);
    match FileKind::parse(&cache).ok()? {
        FileKind::Elf64 => named_in::<FileHeader64<LittleEndian>>(&cache),
        FileKind::Elf32 => named_in::<FileHeader32<LittleEndian>>(&cache),
        _ => None,
    }
}

fn named_in<Elf: FileHeader<Endian = LittleEndian>>(elf: &ReadCache<File>) -> Option<PathBuf> {
    let headers = Elf::parse(elf).ok()?.program_headers(LittleEndian, elf).ok()?;
    let name = headers.iter().find_map(|header| header.interpreter(LittleEndian, elf).ok().flatten())?;
    Some(Path::new(OsStr::from_bytes(name)).to_owned())
}

/// Does one of the formats that are registered with the kernel (binfmt_misc) match this file?
fn is_registered(path: &Path, head: &[u8]) -> bool {
    let Ok(entries) = fs::read_dir("/proc/sys/fs/binfmt_misc") else { return false };
    let mut formats = entries.flatten().filter_map(|entry| fs::read_to_string(entry.path()).ok());
    formats.any(|format| format_matches(&format, path, head))
}

/// A format as its file in binfmt_misc describes it (Documentation/admin-guide/binfmt-misc.rst).
fn format_matches(format: &str, path: &Path, head: &[u8]) -> bool {
    let field = |name: &str| format.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    if format.lines().next() != Some("enabled") {
        return false;
    }
    if let Some(extension) = field("extension") {
        return path
            .extension()
            .is_some_and(|own| own.as_bytes() == extension.trim_start_matches('.').as_bytes());
    }
    let Some(magic) = field("magic").and_then(digits) else { return false };
    let mask = field("mask").and_then(digits).unwrap_or_else(|| vec![0xff; magic.len()]);
    let offset: usize = field("offset").and_then(|offset| offset.parse().ok()).unwrap_or(0);
    let Some(there) = head.get(offset..).and_then(|rest| rest.get(..magic.len())) else { return false };
    there.iter().zip(&magic).zip(&mask).all(|((byte, magic), mask)| (byte ^ magic) & mask == 0)
}

/// Bytes that are written as hexadecimal digits.
fn digits(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn argv(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    fn file(folder: &Path, name: &str, content: &str, mode: u32) {
        fs::write(folder.join(name), content).unwrap();
        fs::set_permissions(folder.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn the_search_is_that_of_execvp() {
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir(first.path().join("tool")).unwrap();
        file(second.path(), "tool", "#!/bin/sh\n", 0o755);
        file(second.path(), "plain", "echo hi\n", 0o755);
        file(second.path(), "data", "x", 0o644);
        let search = OsString::from(format!("{}:{}", first.path().display(), second.path().display()));
        let find = |words: &[&str]| find(&argv(words), Some(&search), None);

        // A folder of that name is passed over.
        let tool = find(&["tool", "-x"]).unwrap();
        assert_eq!(tool, Found { path: second.path().join("tool"), argv: argv(&["tool", "-x"]) });
        let plain = find(&["plain", "a"]).unwrap();
        assert_eq!(plain.path, Path::new("/bin/sh"));
        assert_eq!(plain.argv, [OsString::from("/bin/sh"), second.path().join("plain").into(), "a".into()]);
        assert_eq!(find(&["data"]).unwrap_err().status, 126);
        assert_eq!(find(&["nothing"]).unwrap_err().status, 127);
        assert_eq!(find(&[""]).unwrap_err().status, 127);
        assert_eq!(find(&["/tmp"]).unwrap_err().status, 126);
    }

    #[test]
    fn a_text_that_names_no_interpreter_is_for_the_shell() {
        let folder = tempfile::tempdir().unwrap();
        let is_for_shell = |content: &str| {
            file(folder.path(), "script", content, 0o755);
            let found = find(&argv(&["./script"]), None, Some(folder.path())).unwrap();
            found.path == Path::new(SHELL)
        };
        assert!(is_for_shell("#!\necho hi\n"));
        assert!(is_for_shell("#! \t\necho hi\n"));
        assert!(!is_for_shell("#! /bin/sh\necho hi\n"));
    }

    #[test]
    fn a_registered_format_is_left_to_the_kernel() {
        let matches = |format: &str, name: &str| format_matches(format, Path::new(name), b"\x01echo hi");
        let by_magic = "enabled\ninterpreter /usr/bin/tool\nflags: OCF\noffset 1\nmagic 6563\n";
        assert!(matches(by_magic, "any"));
        assert!(!matches(&by_magic.replace("enabled", "disabled"), "any"));
        assert!(!matches(&by_magic.replace("6563", "7f45"), "any"));
        assert!(matches(&format!("{}mask ff00\n", by_magic.replace("6563", "65aa")), "any"));
        assert!(!matches(&by_magic.replace("offset 1", "offset 200"), "any"));
        let by_extension = "enabled\ninterpreter /usr/bin/tool\nflags: \nextension .tool\n";
        assert!(matches(by_extension, "any.tool"));
        assert!(!matches(by_extension, "any.sh"));
    }

    #[test]
    fn a_path_is_seen_from_the_programs_folder() {
        let folder = tempfile::tempdir().unwrap();
        file(folder.path(), "tool", "#!/bin/sh\n", 0o755);
        let words = argv(&["./tool"]);
        assert_eq!(find(&words, None, Some(folder.path())).unwrap().path, Path::new("./tool"));
        assert_eq!(find(&words, None, Some(Path::new("/"))).unwrap_err().status, 127);
        let words = argv(&["tool"]);
        let found = find(&words, Some(OsStr::new("/nowhere:")), Some(folder.path())).unwrap();
        assert_eq!(found.path, Path::new("./tool"));
    }
}
