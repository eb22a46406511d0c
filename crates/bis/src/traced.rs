//! Whether this process is itself being recorded by bis. A task has one tracer, so a recording cannot start
//! another inside it; this notices before anything is done, and says so.

use std::{fs, os::unix::fs::MetadataExt, path::Path};

fn status_field(status: &str, field: &str) -> Option<u32> {
    status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')?.trim().parse().ok())
}

/// The process id of the bis that records us, if one does.
pub fn by_bis() -> Option<u32> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let tracer = status_field(&status, "TracerPid").filter(|pid| *pid != 0)?;
    is_bis(&format!("/proc/{tracer}")).then(|| {
        // The tracer is a thread; people know the process.
        let status = fs::read_to_string(format!("/proc/{tracer}/status")).unwrap_or_default();
        status_field(&status, "Tgid").unwrap_or(tracer)
    })
}

fn is_bis(process: &str) -> bool {
    let identity = |path: String| fs::metadata(path).ok().map(|m| (m.dev(), m.ino()));
    let ours = identity("/proc/self/exe".into());
    if ours.is_some() && identity(format!("{process}/exe")) == ours {
        return true;
    }
    // Another build of bis; the link says so also when the file was replaced meanwhile.
    fs::read_link(format!("{process}/exe")).is_ok_and(|path| {
        let path = path.to_string_lossy().replace(" (deleted)", "");
        Path::new(&path).file_name().is_some_and(|name| name == "bis")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_status_is_read() {
        let status = "Name:\tx\nTgid:\t41\nTracerPid:\t7\n";
        assert_eq!(status_field(status, "TracerPid"), Some(7));
        assert_eq!(status_field(status, "Tgid"), Some(41));
        assert_eq!(status_field(status, "Tg"), None);
        // The test's own process is this very program.
        assert!(is_bis("/proc/self"));
        assert!(!is_bis("/proc/0"));
    }
}
