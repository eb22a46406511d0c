//! What is remembered between recordings: `bis info --cache` shows it, `bis rm --cache` empties it.

use std::{
    fs::{self, DirEntry, Metadata},
    io::Write,
    os::unix::fs::MetadataExt,
    path::Path,
};

use crate::{
    env,
    failure::{Failure, Result},
    folder, human, output,
};

/// The folders of the cache, and what is in each.
const KINDS: [(&str, &str); 3] = [
    (folder::DENSE, "texts that count, of large programs and those with threads"),
    (folder::SITES, "where programs make system calls and read the time"),
    (folder::KNOWN, "which content files have"),
];

/// The regular files of a folder; none where it is not there.
fn files(dir: &Path) -> impl Iterator<Item = (DirEntry, Metadata)> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| Some((entry.metadata().ok()?, entry)))
        .filter_map(|(metadata, entry)| metadata.is_file().then_some((entry, metadata)))
}

fn no_home() -> Failure {
    Failure::usage(format!(
        "failed to find the cache: neither {} nor {} is set",
        env::XDG_CACHE_HOME.name,
        env::HOME.name
    ))
}

pub fn show() -> Result<u8> {
    let limit = folder::cache_size()?;
    let home = folder::cache("").ok_or_else(no_home)?;
    let mut out = output::page();
    writeln!(out, "folder       {}", home.join("").display())?;
    let (mut all_files, mut all_bytes) = (0, 0);
    for (kind, what) in KINDS {
        let (mut count, mut bytes) = (0, 0);
        for (_, metadata) in files(&home.join(kind)) {
            count += 1;
            bytes += metadata.blocks() * 512;
        }
        writeln!(out, "{kind:<12} {}, {}: {what}", human::counted(count, "file"), human::bytes(bytes))?;
        (all_files, all_bytes) = (all_files + count, all_bytes + bytes);
    }
    writeln!(out, "all          {}, {}", human::counted(all_files, "file"), human::bytes(all_bytes))?;
    writeln!(
        out,
        "bound        {} for {} ({})",
        human::bytes(limit),
        folder::DENSE,
        env::BIS_CACHE_SIZE.name
    )?;
    out.flush()?;
    Ok(0)
}

pub fn empty() -> Result<u8> {
    let home = folder::cache("").ok_or_else(no_home)?;
    let (mut count, mut bytes) = (0, 0);
    for (kind, _) in KINDS {
        for (entry, metadata) in files(&home.join(kind)) {
            match fs::remove_file(entry.path()) {
                Ok(()) => (count, bytes) = (count + 1, bytes + metadata.blocks() * 512),
                // Another one has removed it.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(Failure::of(format!("remove {}", entry.path().display()), error)),
            }
        }
    }
    let mut out = output::page();
    let (files, bytes) = (human::counted(count, "file"), human::bytes(bytes));
    writeln!(out, "removed {files} from {} ({bytes})", home.join("").display())?;
    out.flush()?;
    Ok(0)
}
