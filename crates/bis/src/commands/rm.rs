//! `bis rm`: removes traces, and nothing that is not one, and what they shared as soon as no other trace
//! needs it. It asks nothing and says what it removed.

use std::{
    fs,
    io::{self, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use bis_trace::{ContentStore, Spare, Trace};

use crate::{
    args::Rm,
    commands::info::size_on_disk,
    failure::{Failure, Result, status},
    folder, human, output,
};

const DAY_S: i64 = 86_400;

pub fn run(args: &Rm) -> Result<u8> {
    let traces = folder::traces();
    let chosen: Vec<Result<PathBuf>> = if args.all || args.older_than.is_some() {
        let all = folder::list(traces.as_ref().map_err(|failure| Failure::usage(failure.message.clone()))?)?;
        // One that is being recorded is passed over; when it is named, it is refused.
        let ended = all.into_iter().filter(|path| !folder::is_recording(path));
        match args.older_than {
            Some(days) => ended.filter(|path| age_s(path) > i64::from(days) * DAY_S).map(Ok).collect(),
            None => ended.map(Ok).collect(),
        }
    } else {
        args.traces.iter().map(|name| folder::find(name)).collect()
    };
    let mut out = output::page();
    let mut code = 0;
    for path in chosen {
        match path.and_then(|path| remove(&path)) {
            Ok((path, freed)) => writeln!(out, "removed {} ({})", human::path(&path), human::bytes(freed))?,
            Err(failure) => {
                // The others can still be removed.
                failure.print();
                code = status::USAGE;
            }
        }
    }
    for store in folder::stores().iter().filter_map(|dir| ContentStore::existing(dir)) {
        let swept = store.sweep(if args.all { Spare::Nothing } else { Spare::Again });
        if swept.files > 0 {
            let (files, bytes) = (human::counted(swept.files, "file"), human::bytes(swept.bytes));
            writeln!(out, "removed {files} that no trace needs from {} ({bytes})", human::path(store.dir()))?;
        }
        if let (files @ 1.., bytes) = swept.spared {
            let (files, bytes) = (human::counted(files, "file"), human::bytes(bytes));
            writeln!(
                out,
                "left {files} that no trace needs, but are recorded again and again, for an hour ({bytes}; bis rm --all removes them)"
            )?;
        }
    }
    if let Ok(traces) = traces
        && !traces.join(folder::LATEST).exists()
        && folder::latest(&traces).is_some()
    {
        folder::set_latest(&traces, None).map_err(|error| {
            Failure::of(format!("remove the link {}/latest", human::path(&traces)), error)
        })?;
    }
    out.flush()?;
    Ok(code)
}

/// Seconds since the recording began; for a trace that cannot be read, since its folder last changed.
fn age_s(path: &Path) -> i64 {
    let now =
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| i64::try_from(d.as_secs()).unwrap_or(0));
    let started = Trace::open(path).ok().and_then(|trace| trace.machine().map(|machine| machine.started_s));
    let changed = || {
        let modified = fs::metadata(path).and_then(|metadata| metadata.modified()).ok()?;
        i64::try_from(modified.duration_since(UNIX_EPOCH).ok()?.as_secs()).ok()
    };
    now - started.or_else(changed).unwrap_or(now)
}

fn remove(named: &Path) -> Result<(PathBuf, u64)> {
    let what = || format!("remove {}", human::path(named));
    // A link (latest) stands for the trace that it names.
    let path = fs::canonicalize(named).map_err(|error| Failure::of(what(), error))?;
    if !folder::is_trace(&path) && !folder::is_unborn(&path) {
        return Err(Failure::of(what(), "it is not a trace"));
    }
    if folder::is_recording(&path) {
        return Err(Failure::of(what(), "it is being recorded; end the program first"));
    }
    let freed = size_on_disk(&path);
    fs::remove_dir_all(&path)
        .or_else(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => {
                open_folders(&path);
                fs::remove_dir_all(&path)
            }
            _ => Err(error),
        })
        .map_err(|error| Failure::of(what(), error))?;
    Ok((path, freed))
}

/// Gives the folders of a trace back the rights that removing needs.
fn open_folders(path: &Path) {
    let _ = fs::set_permissions(path, fs::Permissions::from_mode(0o700));
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_folders(&entry.path());
        }
    }
}
