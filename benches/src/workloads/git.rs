//! `git status` and `git log --stat` in a repository of 20,000 files and 500 commits, made by `git
//! fast-import`; and a clone of it, by git's own protocol.

use std::fs::File;
use std::io::{BufWriter, Write};

use anyhow::{Context, Result, ensure};

use super::content::Numbers;
use crate::step::{self, Step};
use crate::workload::{Job, Site};

const FILES_PER_FOLDER: u64 = 50;
/// Files that each commit after the first changes.
const CHANGES: u64 = 20;

/// The repository `tree`: how many commits it has.
fn repository(site: &Site) -> Result<u64> {
    let (files, commits) = (site.size(20_000, 200), site.size(500, 5));
    let stream = site.folder.join("stream");
    history(BufWriter::new(File::create(&stream)?), files, commits).context("failed to write the history")?;
    for argv in [
        // In a folder of its own, so that the history's stream is not a file that status shows.
        ["git", "init", "--quiet", "tree"].as_slice(),
        &["git", "-C", "tree", "fast-import", "--quiet", "--done"],
        &["git", "-C", "tree", "reset", "--quiet", "--hard", "main"],
        &["git", "-C", "tree", "symbolic-ref", "HEAD", "refs/heads/main"],
    ] {
        let stdin = argv.contains(&"fast-import").then(|| File::open(&stream)).transpose()?;
        step::prepare(site.folder, argv, stdin)?;
    }
    std::fs::remove_file(&stream)?;
    Ok(commits)
}

pub fn clone(site: &Site) -> Result<Job> {
    let commits = repository(site)?;
    let (folder, copy) = (site.folder.to_owned(), site.folder.join("copy"));
    let reset = move || if copy.exists() { Ok(std::fs::remove_dir_all(&copy)?) } else { Ok(()) };
    let job = Job::new(["git", "clone", "--quiet", "--no-local", "tree", "copy"]).reset(reset);
    Ok(job.check(move |_| {
        let count = step::prepare(&folder, &["git", "-C", "copy", "rev-list", "--count", "HEAD"], None)?;
        ensure!(count == format!("{commits}\n").as_bytes(), "the clone has {count:?} commits");
        Ok(())
    }))
}

pub fn prepare(site: &Site) -> Result<Job> {
    let commits = repository(site)?;
    std::fs::write(site.folder.join("tree/new"), "not committed\n")?;
    let script = "git status --porcelain && git log --stat --format='commit %h %an %s'";
    Ok(Job::new(["sh", "-c", &format!("cd tree && {script}")]).check(move |step: &Step| {
        let text = String::from_utf8_lossy(&step.stdout);
        ensure!(text.starts_with("?? new\n"), "status shows {:?}", text.lines().next());
        let shown = text.lines().filter(|line| line.starts_with("commit ")).count() as u64;
        ensure!(shown == commits, "log shows {shown} commits, not {commits}");
        Ok(())
    }))
}

/// A stream for fast-import: one commit with all files, then such that change some.
fn history(mut stream: impl Write, files: u64, commits: u64) -> std::io::Result<()> {
    let mut numbers = Numbers::new(5);
    for commit in 0..commits {
        let message = format!("Change {commit}");
        writeln!(stream, "commit refs/heads/main")?;
        writeln!(
            stream,
            "committer Somebody <somebody@example.org> {} +0000",
            1_700_000_000 + commit * 3600
        )?;
        writeln!(stream, "data {}\n{message}", message.len())?;
        let changed: Vec<u64> = match commit {
            0 => (0..files).collect(),
            _ => (0..CHANGES).map(|_| numbers.below(files)).collect(),
        };
        for file in changed {
            let size = 200 + numbers.below(1800) as usize;
            let content = numbers.text(size);
            writeln!(stream, "M 100644 inline folder-{}/file-{file}.txt", file / FILES_PER_FOLDER)?;
            writeln!(stream, "data {size}")?;
            stream.write_all(&content)?;
            writeln!(stream)?;
        }
    }
    writeln!(stream, "done")?;
    stream.flush()
}
