//! A way back to a checkpoint leaves files as they are. Which of them were written to since, by calls or
//! through memory in which they are mapped, is said: `bis info` of the trace shows it.

use std::{fs, path::Path, time::Duration};

use crate::{
    common::{self, Folder},
    trial,
};
use libtest_mimic::{Failed, Trial};

const LIMIT: Duration = Duration::from_secs(30);

/// How often it is said, by whether the program has seen the file with another time.
type Said = fn(bool) -> usize;

/// What the program does, before and behind its checkpoint, and how often it is said to have written: once
/// for what is mapped, and at each of two ways back for what is open. What is both is told of at the first;
/// at the second if the file has another time, for which the kernel must have written the page back in
/// between.
const CASES: [(&str, &str, Said); 9] = [
    ("nothing", "map close first last - read", |_| 0),
    ("only_read", "map close - read", |_| 0),
    ("a_page_again", "map close first - first", |_| 1),
    ("a_page_for_the_first_time", "map close first - last", |_| 1),
    ("a_page_that_was_read", "map close read - last", |_| 1),
    ("and_open", "map first - first", |is_dated| 1 + usize::from(is_dated)),
    ("and_open_when_it_is_written_back", "map first flush - first", |is_dated| 1 + usize::from(is_dated)),
    ("by_a_call_beside", "map first - call", |_| 2),
    ("by_a_call", "- call", |_| 2),
];

pub fn trials() -> Vec<Trial> {
    // On a disk, or what is like one, and in memory.
    let places = [("file", None), ("memory", Some("/dev/shm"))];
    let of_place = |(place, folder): (&'static str, Option<&'static str>)| {
        let is_missing = folder.is_some_and(|folder| !Path::new(folder).is_dir());
        let trials = CASES.map(|(name, actions, said)| {
            let run = move || common::repeated(|| run(name, folder.map(Path::new), (actions, said)));
            trial(module_path!(), format!("{place}::{name}"), run).with_ignored_flag(is_missing)
        });
        trials.into_iter()
    };
    places.into_iter().flat_map(of_place).collect()
}

fn run(name: &str, place: Option<&Path>, (actions, said): (&str, Said)) -> Result<(), Failed> {
    let folder = Folder::new(&format!("written.{name}"))?;
    let program = folder.path().join("written");
    common::compile(&common::tree().join("tests/written/written.c"), &program)?;
    let name = format!("bis-written-{}-{name}", std::process::id());
    let file = place.map_or_else(|| folder.path().join(&name), |place| place.join(&name));
    let (trace, cwd) = (folder.path().join("trace"), folder.sub("cwd")?);
    let words: Vec<&str> = actions.split(' ').collect();
    let mut argv = vec![program.as_os_str(), file.as_os_str()];
    argv.extend(words.iter().map(|word| std::ffi::OsStr::new(*word)));
    let record = common::record_command(&trace, &[], &argv, &cwd);
    let recorded = common::run(record, "record", folder.path(), None, LIMIT);
    // It may be outside of the folder.
    let _ = fs::remove_file(&file);
    let recorded = recorded?;
    let is_dated = recorded.stdout == b"dated\n2\n";
    let said = said(is_dated);
    if recorded.status != 0 || !(recorded.stdout == b"2\n" || is_dated) {
        return Err(format!("record: status {}\n{}", recorded.status, recorded.shown()).into());
    }
    common::replay_and_compare(&trace, &recorded, folder.path(), LIMIT)?;
    let mut info = common::command(common::bis(), &cwd);
    info.arg("info").arg(&trace);
    let info = common::run(info, "info", folder.path(), None, LIMIT)?;
    let text = String::from_utf8_lossy(&info.stdout).into_owned();
    let is_about = |line: &&str| line.contains(&name) && line.contains("was written to since");
    let found = text.lines().filter(is_about).count();
    if info.status != 0 || found != said {
        return Err(format!("said {found} times, and not {said}, that it was written to:\n{text}").into());
    }
    folder.done();
    Ok(())
}
