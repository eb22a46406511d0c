//! `cp -a` of a tree of files, half of them text and half not compressible, from 300 bytes to 120 KB.

use std::fs;
use std::io;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::content::Numbers;
use crate::workload::{Job, Site};

const FILES_PER_FOLDER: u64 = 100;

pub fn prepare(site: &Site) -> Result<Job> {
    let files = site.size(10_000, 200);
    let from = site.folder.join("from");
    let bytes = make(&from, files).context("failed to make the files")?;
    let to = site.folder.join("to");
    let copy = to.clone();
    let reset = move || match fs::remove_dir_all(&to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).context("failed to remove the copy")
        }
        _ => Ok(()),
    };
    Ok(Job::new(["cp", "-a", "from", "to"]).reset(reset).check(move |_| {
        let copied = sizes(&copy).context("failed to look at the copy")?;
        ensure!(
            copied == (files, bytes),
            "copied were {} files with {} bytes, not {files} with {bytes}",
            copied.0,
            copied.1
        );
        Ok(())
    }))
}

/// Makes the tree; how many bytes are in it.
fn make(root: &Path, files: u64) -> io::Result<u64> {
    let mut bytes = 0;
    for number in 0..files {
        let folder = root.join(format!("folder-{:03}", number / FILES_PER_FOLDER));
        if number % FILES_PER_FOLDER == 0 {
            fs::create_dir_all(&folder)?;
        }
        let mut numbers = Numbers::new(number);
        // The square makes small files frequent; the mean is 30,300 bytes.
        let part = numbers.below(1000);
        let size = (300 + part * part * 90 / 1000) as usize;
        let content = if number % 2 == 0 { numbers.text(size) } else { numbers.noise(size) };
        fs::write(folder.join(format!("file-{number}")), content)?;
        bytes += size as u64;
    }
    Ok(bytes)
}

/// How many files are below the folder, and how many bytes in them.
fn sizes(root: &Path) -> io::Result<(u64, u64)> {
    let mut sum = (0, 0);
    for entry in fs::read_dir(root)? {
        let entry = entry?;
        let meta = entry.metadata()?;
        let (files, bytes) = if meta.is_dir() { sizes(&entry.path())? } else { (1, meta.len()) };
        sum = (sum.0 + files, sum.1 + bytes);
    }
    Ok(sum)
}
