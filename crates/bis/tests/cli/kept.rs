//! What is listed, kept and removed.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    process::Command,
};

use crate::desk::Desk;

#[test]
fn the_cache_is_shown_and_emptied() {
    let desk = Desk::new();
    let home = desk.folder.path().join("home");
    let cache = home.join("bis/dense");
    fs::create_dir_all(&cache).unwrap();
    fs::write(cache.join(format!("{}.text", "0".repeat(64))), vec![1; 64 << 10]).unwrap();
    // What is beside it is not ours.
    fs::write(home.join("bis/other"), "x").unwrap();
    let run = |args: &[&str], size: &str| {
        let output =
            desk.command(args).env("XDG_CACHE_HOME", &home).env("BIS_CACHE_SIZE", size).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap(), String::from_utf8(text).unwrap())
    };
    let (status, shown) = run(&["info", "--cache"], "512M");
    assert_eq!(status, 0, "{shown}");
    for line in [
        &*format!("folder       {}/bis/", home.display()),
        "dense        1 file, 64.0 KiB: ",
        "sites        0 files, 0 B: ",
        "all          1 file, 64.0 KiB",
        "bound        512 MiB for dense (BIS_CACHE_SIZE)",
    ] {
        assert!(shown.lines().any(|shown| shown.starts_with(line)), "no {line:?} in\n{shown}");
    }
    let (status, shown) = run(&["info", "--cache"], "much");
    assert!(status == 2 && shown.contains("BIS_CACHE_SIZE=much"), "{shown}");
    let (status, shown) = run(&["rm", "--cache"], "");
    assert_eq!((status, &*shown), (0, &*format!("removed 1 file from {}/bis/ (64.0 KiB)\n", home.display())));
    assert_eq!(fs::read_dir(&cache).unwrap().count(), 0);
    assert!(home.join("bis/other").exists());
    // A program records whatever there is to be read, but not with a bound that nobody can know.
    let (status, shown) = run(&["record", "-o", "t", "true"], "much");
    assert!(status == 125 && shown.contains("BIS_CACHE_SIZE=much"), "{shown}");
    let (status, shown) = run(&["record", "-o", "u", "true"], "1G");
    assert_eq!((status, &*shown), (0, ""));
    let wrong = desk.command(&["record", "-o", "v", "true"]).env("BIS_TEXTS", "never").output().unwrap();
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("BIS_TEXTS=never"));
    assert!(!desk.folder.path().join("v").exists());
}

#[test]
fn ls_and_rm() {
    let desk = Desk::new();
    let empty = desk.run(&["ls"]);
    assert_eq!((empty.status, empty.stdout.as_str()), (0, ""));
    assert!(empty.stderr.starts_with("no traces in "));
    desk.trace("new-0", 4_000_000_000, true);
    desk.trace("old-0", 1_000_000_000, false);
    let read_only = desk.trace("old-1", 1_000_000_001, true);
    let keep = desk.traces().join("keep");
    fs::create_dir(&keep).unwrap();
    fs::write(keep.join("log"), "a log of something else").unwrap();
    symlink("new-0", desk.traces().join("latest")).unwrap();

    let list = desk.shows(&["ls"]);
    let rows: Vec<Vec<&str>> = list.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["NAME", "DATE", "SIZE", "STATE", "COMMAND"]);
    assert_eq!(rows.iter().skip(1).map(|row| row[0]).collect::<Vec<_>>(), ["old-0", "old-1", "new-0"]);
    assert!(rows[1].contains(&"cut") && list.lines().nth(2).unwrap().contains("killed by SIGTERM"), "{list}");
    let json = desk.shows(&["ls", "--json"]);
    assert!(json.contains("\"latest\":true") && json.contains("\"state\":\"killed by SIGTERM\""), "{json}");

    // Files that cannot be written, in folders that cannot be changed, are still ours to remove.
    let files = read_only.join("files");
    fs::create_dir_all(&files).unwrap();
    fs::write(files.join("a"), "x").unwrap();
    fs::hard_link(files.join("a"), keep.join("linked")).unwrap();
    fs::set_permissions(files.join("a"), fs::Permissions::from_mode(0o400)).unwrap();
    fs::set_permissions(&files, fs::Permissions::from_mode(0o500)).unwrap();

    assert!(desk.refuses(&["rm", "keep"], 2).contains("not a trace"));
    assert!(desk.refuses(&["rm", desk.folder.path().to_str().unwrap()], 2).contains("not a trace"));
    // An empty folder is what a recorder leaves that was killed at once, wherever its trace was to be.
    for folder in [desk.traces().join("unborn-0"), desk.folder.path().join("elsewhere")] {
        fs::create_dir(&folder).unwrap();
        assert_eq!(desk.shows(&["rm", folder.to_str().unwrap()]).lines().count(), 1);
        assert!(!folder.exists());
    }
    assert_eq!(desk.shows(&["rm", "--older-than", "30"]).lines().count(), 2);
    assert!(!read_only.exists() && keep.join("linked").exists());
    // By the link: the trace that it names goes, and the link with it.
    assert!(desk.shows(&["rm", "latest"]).contains("new-0"));
    assert!(desk.traces().join("latest").symlink_metadata().is_err());
    desk.trace("a-0", 1, true);
    desk.trace("a-1", 1, true);
    // What can be removed is, whatever the others are.
    let ran = desk.run(&["rm", "a-0", "nothing", "keep"]);
    assert_eq!((ran.status, ran.stdout.lines().count(), ran.stderr.lines().count()), (2, 1, 2));
    assert_eq!(desk.shows(&["rm", "--all"]).lines().count(), 1);
    assert!(keep.join("log").exists());
}

#[test]
fn a_trace_that_is_being_recorded_is_left_alone() {
    let desk = Desk::new();
    let path = desk.trace("sh-0", 1, true);
    let held = fs::File::open(&path).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    assert!(desk.shows(&["ls"]).contains("recording"));
    assert!(desk.refuses(&["rm", "sh-0"], 2).contains("being recorded"));
    // Not by closing it: a process that another test is just starting may have the descriptor still.
    rustix::fs::flock(&held, rustix::fs::FlockOperation::Unlock).unwrap();
    assert_eq!(desk.shows(&["rm", "--all"]).lines().count(), 1);
}

/// What there is of a recording that goes on is neither whole nor all that there will be.
#[test]
fn a_recording_that_goes_on_is_not_cut_short() {
    let desk = Desk::new();
    desk.recording("sh-0");
    let path = desk.traces().join("sh-0");
    let _ = fs::remove_file(path.join("index"));
    let log = fs::OpenOptions::new().write(true).open(path.join("log")).unwrap();
    log.set_len(log.metadata().unwrap().len() - 1).unwrap();
    let said = |command: &[&str]| {
        let ran = desk.run(command);
        assert_eq!(ran.status, 3, "{command:?}: {}", ran.stderr);
        ran.stderr
    };
    let commands = [&["replay", "-a", "sh-0"][..], &["output", "sh-0"]];
    let held = fs::File::open(&path).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    for command in commands {
        let said = said(command);
        assert!(said.contains("it is still being recorded") && !said.contains("cut short"), "{said}");
    }
    assert!(desk.shows(&["info", "sh-0"]).contains("still being recorded"));
    rustix::fs::flock(&held, rustix::fs::FlockOperation::Unlock).unwrap();
    for command in commands {
        assert!(said(command).contains("it was cut short: "), "{command:?}");
    }
    fs::write(path.join("log"), "").unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    assert!(desk.refuses(&["replay", "-a", "sh-0"], 2).contains("there is no event yet"));
}

/// Many recordings are made within a second: the newest is the one that `latest` means.
#[test]
fn the_newest_is_first_within_a_second() {
    let desk = Desk::new();
    for name in ["b", "c", "a"] {
        desk.trace(name, 1_000_000_000, true);
        // The clock of files goes on in steps of some milliseconds.
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(desk.shows(&["ls", "-t", "--rr"]), "a\nc\nb\n");
    // A recording does not become newer by what is done with it.
    fs::write(desk.traces().join("b/learnt"), "").unwrap();
    assert_eq!(desk.shows(&["ls", "--rr"]), "b\nc\na\n");
}

#[test]
fn a_changing_file_is_not_kept_for_each_part_that_is_mapped() {
    if Command::new("python3").arg("--version").output().is_err() {
        println!("ignored: not installed (apt-get install python3)");
        return;
    }
    let desk = Desk::new();
    let mapper = "
import mmap, os
for fd in os.memfd_create('m'), os.open('f', os.O_RDWR | os.O_CREAT):
    os.write(fd, os.urandom(4 << 20))
    for at in range(0, 40 * 4096, 4096):
        os.pwrite(fd, str(at).encode(), at)
        with mmap.mmap(fd, 4096, mmap.MAP_PRIVATE, offset=at) as part:
            assert part[:].startswith(str(at).encode())
";
    let ran = desk.run(&["record", "-o", "t", "python3", "-c", mapper]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert_eq!(desk.run(&["replay", "-a", "t"]).status, 0);
    let files = fs::read_dir(desk.folder.path().join("t/files")).unwrap();
    let large = files.filter(|file| file.as_ref().unwrap().metadata().unwrap().len() == 4 << 20).count();
    assert_eq!(large, 0, "copies of the whole file");
}
