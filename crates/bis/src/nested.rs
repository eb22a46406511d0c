//! A bis that runs inside of a recording: whether it does, and becoming the program that it was to record. A
//! task has one tracer, so a recording cannot start another one inside of itself.

use std::{
    env,
    ffi::{CString, OsString},
    fmt, io,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
};

use bis_trace::types::Tid;
use bis_tracee::{
    nested,
    proc::{self, Fields},
};

use crate::failure::{Failure, status};

/// The recording that this process is a part of.
#[derive(Debug)]
pub struct Outer {
    /// Its trace; not known of one that is made by a bis which cannot be asked.
    pub trace: Option<PathBuf>,
    process: Option<Tid>,
}

impl fmt::Display for Outer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.trace, self.process) {
            (Some(trace), _) => write!(f, " (into {})", trace.display()),
            (None, Some(process)) => write!(f, " (process {process})"),
            (None, None) => Ok(()),
        }
    }
}

/// The recording that records us, if one does.
pub fn outer() -> Option<Outer> {
    if let Some(trace) = nested::outer_trace() {
        return Some(Outer { trace: Some(trace), process: None });
    }
    by_bis().map(|process| Outer { trace: None, process: Some(process) })
}

/// This process becomes the program. Returns only with the reason why not.
pub fn become_program(path: &Path, argv: &[OsString], environment: &[(OsString, OsString)]) -> Failure {
    let text = |bytes: &[u8]| CString::new(bytes).map_err(io::Error::from);
    let shown = path.display();
    let become_it = || -> io::Result<io::Error> {
        let argv = argv.iter().map(|arg| text(arg.as_bytes())).collect::<io::Result<Vec<_>>>()?;
        let variable =
            |(name, value): &(OsString, OsString)| text(&[name.as_bytes(), b"=", value.as_bytes()].concat());
        let environment = environment.iter().map(variable).collect::<io::Result<Vec<_>>>()?;
        Ok(nested::become_program(&text(path.as_os_str().as_bytes())?, &argv, &environment))
    };
    let error = become_it().unwrap_or_else(|error| error);
    let code = match error.kind() {
        io::ErrorKind::NotFound => status::NOT_FOUND,
        _ => status::NOT_EXECUTABLE,
    };
    Failure::new(code, format!("failed to execute {shown}: {error}"))
}

/// This whole command goes on outside of the recording that records it. Returns only with the reason why not.
pub fn leave() -> Failure {
    let leave = || -> io::Result<io::Error> {
        let text = |string: OsString| CString::new(string.into_vec()).map_err(io::Error::from);
        let path = text(env::current_exe()?.into_os_string())?;
        let argv = env::args_os().map(text).collect::<io::Result<Vec<_>>>()?;
        let variable = |(name, value): (OsString, OsString)| {
            let mut whole = name;
            whole.push("=");
            whole.push(value);
            text(whole)
        };
        let environment = env::vars_os().map(variable).collect::<io::Result<Vec<_>>>()?;
        Ok(nested::leave_recording(&path, &argv, &environment))
    };
    let error = leave().unwrap_or_else(|error| error);
    Failure::usage(format!(
        "failed to leave the recording that this runs in: {error} (bis info TRACE says why, of its trace)"
    ))
}

/// The process id of the bis that traces us, if one does.
fn by_bis() -> Option<Tid> {
    let tracer = Fields::of_this_thread()?.tid("TracerPid").filter(|tid| tid.0 != 0)?;
    is_bis(tracer).then(|| {
        // The tracer is a thread; people know the process.
        Fields::of(tracer).and_then(|status| status.tid("Tgid")).unwrap_or(tracer)
    })
}

fn is_bis(process: Tid) -> bool {
    let ours = proc::identity("/proc/self/exe");
    if ours.is_some() && proc::identity(proc::path(process, "exe")) == ours {
        return true;
    }
    // Another build of bis; the link says so also when the file was replaced meanwhile.
    proc::executable(process).is_some_and(|path| {
        let path = path.to_string_lossy().replace(" (deleted)", "");
        Path::new(&path).file_name().is_some_and(|name| name == "bis")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tests_own_process_is_this_very_program() {
        assert!(is_bis(Tid(std::process::id().cast_signed())));
        assert!(!is_bis(Tid(0)));
    }
}
