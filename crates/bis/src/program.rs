//! Finding the program to record, as `execvp` does: a name with a slash is a path; another is looked for in
//! the folders of the program's own `PATH`; a text without `#!` is a script for `/bin/sh`.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::{self, Read},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
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

/// Whether the kernel knows no way to execute this file, and its first line is text. Where other formats are
/// registered with the kernel (binfmt_misc), one of them may match, and the kernel is asked.
fn is_bare_script(path: &Path) -> bool {
    let mut head = Vec::new();
    // A program that may be executed and not read is no script.
    let Ok(file) = File::open(path) else { return false };
    if file.take(256).read_to_end(&mut head).is_err()
        || head.starts_with(b"\x7fELF")
        || head.starts_with(b"#!")
    {
        return false;
    }
    let registered = fs::read_dir("/proc/sys/fs/binfmt_misc").is_ok_and(|entries| {
        entries.flatten().any(|entry| entry.file_name() != "register" && entry.file_name() != "status")
    });
    let first_line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    !registered && !first_line.contains(&0)
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
