//! For a bis that is itself a recorded program: asking its recorder ([`bis_syscalls::own`]), and becoming the
//! program that it was to record.

use std::{
    ffi::{CStr, CString, OsStr, c_char},
    io,
    os::unix::ffi::OsStrExt,
    path::PathBuf,
    ptr,
};

use bis_syscalls::own;

use crate::ours;

/// More than a path may have.
const PATH_ROOM: usize = 8192;

/// The trace into which this process is being recorded. None: it is not, as far as a recorder would say.
pub fn outer_trace() -> Option<PathBuf> {
    let mut path = vec![0u8; PATH_ROOM];
    // SAFETY: no kernel has a call of this number; a recorder writes no more than the room.
    let result =
        unsafe { libc::syscall(own::NUMBER.cast_signed(), own::WHERE, path.as_mut_ptr(), path.len()) };
    if u64::try_from(result) != Ok(own::YES) {
        return None;
    }
    let end = path.iter().position(|byte| *byte == 0)?;
    path.truncate(end);
    Some(PathBuf::from(OsStr::from_bytes(&path)))
}

/// This process becomes the program, which gets SIGPIPE as we did. Returns only with the reason why not.
pub fn become_program(path: &CStr, argv: &[CString], envp: &[CString]) -> io::Error {
    executed(argv, envp, |argv, envp| {
        // SAFETY: as `executed` says.
        unsafe { libc::execve(path.as_ptr(), argv, envp) };
    })
}

/// As [`become_program`], but the program runs outside of the recording, and this process stands for it.
pub fn leave_recording(path: &CStr, argv: &[CString], envp: &[CString]) -> io::Error {
    executed(argv, envp, |argv, envp| {
        // SAFETY: as `executed` says; a recorder takes the arguments as execve does, and no kernel has this
        // call.
        unsafe { libc::syscall(own::NUMBER.cast_signed(), own::LEAVE, path.as_ptr(), argv, envp) };
    })
}

/// Executes with these vectors, which live, and end with null.
fn executed(
    argv: &[CString],
    envp: &[CString],
    execute: impl FnOnce(*const *const c_char, *const *const c_char),
) -> io::Error {
    let pointers = |strings: &[CString]| -> Vec<*const c_char> {
        strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect()
    };
    let (argv, envp) = (pointers(argv), pointers(envp));
    // SAFETY: what SIGPIPE does is set to one of the two actions without a handler.
    unsafe {
        libc::signal(libc::SIGPIPE, ours::inherited_sigpipe());
        execute(argv.as_ptr(), envp.as_ptr());
        let error = io::Error::last_os_error();
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
        error
    }
}
