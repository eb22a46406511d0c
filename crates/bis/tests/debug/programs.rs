//! The programs that are recorded, and their compilers.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Mutex,
    time::SystemTime,
};

use libtest_mimic::Failed;

use crate::common::{self, Folder};

/// Programs are looked for where these tests' own compilers are.
pub fn has_compiler(name: &str) -> bool {
    common::installed(name)
        || std::env::var_os("PATH")
            .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(name).is_file()))
}

/// The program that compiles such a file. None: it is run as it is.
pub fn compiler_of(source: &Path) -> Option<&'static str> {
    match source.extension().and_then(OsStr::to_str) {
        Some("c" | "S") => Some("gcc"),
        Some("cc") => Some("g++"),
        Some("rs") => Some("rustc"),
        Some("go") => Some("go"),
        _ => None,
    }
}

/// What a compiler has to be told for modules of Python.
fn python_flags() -> Result<String, Failed> {
    let output = Command::new("/usr/bin/python3-config").arg("--includes").output();
    let output = output.map_err(|e| format!("failed to start python3-config: {e}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Compiles into the cache unless the result there is newer than the source. The flags are part of the cached
/// name.
pub fn build(source: &Path, flags: Option<&str>, is_library: bool) -> Result<PathBuf, Failed> {
    // Two trials may want the same, and neither may replace what the other's gdb reads.
    static AT_WORK: Mutex<()> = Mutex::new(());
    let _lock = AT_WORK.lock();
    let Some(compiler) = compiler_of(source) else { return Ok(source.to_owned()) };
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("debug");
    fs::create_dir_all(&cache).map_err(|e| format!("failed to make {}: {e}", cache.display()))?;
    let suffix = if is_library { ".so" } else { "" };
    let stem = source.file_stem().unwrap_or_default().to_string_lossy();
    let flag_name: String = flags.unwrap_or_default().split_whitespace().collect();
    let program = cache.join(format!("{stem}{}{suffix}", flag_name.replace('/', "_")));
    let time = |path: &Path| fs::metadata(path).and_then(|meta| meta.modified()).ok();
    if time(&program).is_some_and(|built| built > time(source).unwrap_or(SystemTime::UNIX_EPOCH)) {
        return Ok(program);
    }
    // Under another name first: two drivers may run at once, and a half-written program must not be run.
    let fresh_folder = Folder::new("build")?;
    let fresh = fresh_folder.path().join("program");
    let python =
        if flags.is_some_and(|flags| flags.contains("{python}")) { python_flags()? } else { String::new() };
    let flags = flags.map(|flags| flags.replace("{python}", &python));
    let flags = flags.as_ref().map(|flags| flags.split_whitespace().collect::<Vec<_>>());
    let mut command = Command::new(compiler);
    match compiler {
        "go" => {
            command.env("GOCACHE", cache.join("go")).env("GOFLAGS", "-mod=mod").env("GO111MODULE", "off");
            let flags = flags.unwrap_or_else(|| vec!["-gcflags=all=-N -l"]);
            command.arg("build").args(flags).arg("-o").arg(&fresh).arg(source);
        }
        "rustc" => {
            command.arg("-g").args(flags.unwrap_or_default()).arg("-o").arg(&fresh).arg(source);
        }
        _ => {
            command.args(["-g", "-gno-column-info", "-pthread"]).args(flags.unwrap_or_else(|| vec!["-O0"]));
            if is_library {
                command.args(["-shared", "-fPIC"]);
            }
            command.arg("-o").arg(&fresh).arg(source).arg("-ldl");
        }
    }
    let output = command.output().map_err(|e| format!("failed to start {compiler}: {e}"))?;
    if !output.status.success() {
        return Err(format!(
            "failed to compile {}: {}",
            source.display(),
            String::from_utf8_lossy(&output.stderr)
        )
        .into());
    }
    fs::rename(&fresh, &program).map_err(|e| format!("failed to place {}: {e}", program.display()))?;
    fresh_folder.done();
    Ok(program)
}
