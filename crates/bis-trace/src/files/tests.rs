//! Kept files: once by content, the right bytes, and changes are noticed.

use std::{
    fs::{self, OpenOptions},
    io::{Seek as _, SeekFrom, Write as _},
    os::unix::fs::symlink,
};

use super::*;
use crate::{Sharing, Trace, Writer};

struct Set {
    dir: tempfile::TempDir,
    writer: Writer,
}

impl Set {
    fn new() -> Set {
        let dir = tempfile::tempdir().unwrap();
        let writer = Writer::create(&dir.path().join("trace")).unwrap();
        Set { dir, writer }
    }

    fn file(&self, name: &str, content: &[u8]) -> (File, PathBuf) {
        let path = self.dir.path().join(name);
        fs::write(&path, content).unwrap();
        (File::open(&path).unwrap(), path)
    }

    fn keep(&self, file: &File) -> FileEntry {
        self.writer.files().keep(file, b"/some/where").unwrap()
    }

    fn finish(&self) -> Trace {
        self.writer.finish().unwrap();
        Trace::open(&self.dir.path().join("trace")).unwrap()
    }

    fn kept_count(&self) -> usize {
        fs::read_dir(self.dir.path().join("trace").join(FILES)).unwrap().count()
    }
}

#[test]
fn it_is_said_that_the_trace_is_gone() {
    let set = Set::new();
    let (file, _) = set.file("a", b"content");
    fs::remove_dir_all(set.dir.path().join("trace")).unwrap();
    let gone = |kept: Result<FileEntry>| matches!(kept, Err(TraceError::Gone(_)));
    assert!(gone(set.writer.files().keep(&file, b"/some/where")));
    assert!(gone(set.writer.files().keep_bytes(b"memory")));
}

#[test]
fn content_is_kept_once() {
    let set = Set::new();
    let (first, _) = set.file("a", b"same");
    let (second, _) = set.file("b", b"same");
    let (other, _) = set.file("c", b"other");
    let kept = set.keep(&first);
    assert_eq!(set.keep(&first), kept);
    assert_eq!(set.keep(&second), kept);
    assert_eq!(set.writer.files().keep_bytes(b"same").unwrap(), kept);
    assert_ne!(set.keep(&other).file, kept.file);
    assert_eq!(set.kept_count(), 2);
    let trace = set.finish();
    assert_eq!(trace.metas().count(), 2);
    assert_eq!(fs::read(trace.file_path(kept.file).unwrap()).unwrap(), b"same");
    assert_eq!(trace.file(kept.file).unwrap(), &kept);
    assert!(matches!(trace.file(FileId(9)), Err(TraceError::UnknownFile(FileId(9)))));
}

#[test]
fn a_change_between_two_keeps_is_seen() {
    let set = Set::new();
    let (file, path) = set.file("a", b"one");
    let one = set.keep(&file);
    // Same size, and most likely the same time on a coarse clock.
    fs::write(&path, b"two").unwrap();
    let two = set.keep(&file);
    assert_ne!(one.file, two.file);
    let trace = set.finish();
    assert_eq!(fs::read(trace.file_path(one.file).unwrap()).unwrap(), b"one");
    assert_eq!(fs::read(trace.file_path(two.file).unwrap()).unwrap(), b"two");
}

#[test]
fn a_settled_file_is_hashed_once() {
    let set = Set::new();
    let file = File::open("/proc/self/exe").unwrap();
    let entry = set.keep(&file);
    assert_eq!(set.keep(&file), entry);
}

#[test]
fn a_kept_file_is_found_again_by_what_is_known_of_it_until_it_may_have_changed() {
    let set = Set::new();
    let find = |path: &str| set.writer.files().find(&fs::metadata(path).unwrap(), b"/some/where");
    let old = "/usr/bin/env";
    assert_eq!(find(old), None);
    let entry = set.keep(&File::open(old).unwrap());
    assert_eq!(find(old).map(|(file, _)| file), Some(entry.file));
    // Just written: a change would not show in its times.
    let (file, path) = set.file("a", b"content");
    set.keep(&file);
    assert_eq!(find(path.to_str().unwrap()), None);
}

#[test]
fn holes_stay_and_positions_too() {
    let set = Set::new();
    let (_, path) = set.file("sparse", b"");
    let mut file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    file.seek(SeekFrom::Start(8 << 20)).unwrap();
    file.write_all(b"end").unwrap();
    file.set_len((16 << 20) + 5).unwrap();
    file.seek(SeekFrom::Start(77)).unwrap();
    let entry = set.keep(&file);
    assert_eq!(file.stream_position().unwrap(), 77);
    assert_eq!(entry.len, (16 << 20) + 5);
    let trace = set.finish();
    let path = trace.file_path(entry.file).unwrap();
    let content = fs::read(&path).unwrap();
    assert_eq!(*blake3::hash(&content).as_bytes(), entry.digest);
    assert_eq!(&content[8 << 20..(8 << 20) + 3], b"end");
    assert!(fs::metadata(&path).unwrap().blocks() * 512 < 1 << 20);
}

/// What nobody edits is not copied, though it may go away.
#[test]
fn what_stays_is_linked() {
    let set = Set::new();
    let (file, path) = set.file("a", b"ours");
    let entry = set.writer.files().keep_linked(&file, path.as_os_str().as_encoded_bytes()).unwrap();
    assert!([Kept::HardLink, Kept::Reflink].contains(&entry.kept), "{:?}", entry.kept);
    fs::remove_file(&path).unwrap();
    let again = set.writer.files().keep_linked(&file, path.as_os_str().as_encoded_bytes()).unwrap();
    assert_eq!(again.file, entry.file);
    let trace = set.finish();
    assert_eq!(fs::read(trace.file_path(entry.file).unwrap()).unwrap(), b"ours");
}

#[test]
fn memfds_are_files() {
    let set = Set::new();
    let mut file = File::from(rustix::fs::memfd_create("m", rustix::fs::MemfdFlags::CLOEXEC).unwrap());
    file.write_all(b"in memory").unwrap();
    let one = set.keep(&file);
    file.write_all(b" only").unwrap();
    let two = set.keep(&file);
    let trace = set.finish();
    assert_eq!(fs::read(trace.file_path(one.file).unwrap()).unwrap(), b"in memory");
    assert_eq!(fs::read(trace.file_path(two.file).unwrap()).unwrap(), b"in memory only");
}

#[test]
fn what_is_no_file_is_refused() {
    let set = Set::new();
    let failure = set.writer.files().keep(&File::open("/dev/null").unwrap(), b"/dev/null").unwrap_err();
    assert_eq!(failure.to_string(), "failed to keep /dev/null in the trace: it is not a regular file");
    let (_, path) = set.file("a", b"x");
    let unreadable = OpenOptions::new().write(true).open(path).unwrap();
    assert!(set.writer.files().keep(&unreadable, b"a").is_err());
    assert_eq!(set.kept_count(), 0);
}

/// With a store, two traces have one file, and the second does not read what the first has kept.
#[test]
fn traces_share() {
    let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let path = dir.path().join("file");
    fs::write(&path, vec![1; 100_000]).unwrap();
    let write = |name: &str| {
        let writer = Writer::create(&dir.path().join(name)).unwrap();
        let store = ContentStore::open(&dir.path().join("store"), &dir.path().join(name)).unwrap();
        let known = KnownFiles::open(&dir.path().join("known"), |_| true).unwrap();
        writer.files().share(Some(store), Some(known));
        let entry = writer.files().keep(&File::open(&path).unwrap(), b"/some/where").unwrap();
        writer.finish().unwrap();
        let trace = Trace::open(&dir.path().join(name)).unwrap();
        let inode = fs::metadata(trace.file_path(entry.file).unwrap()).unwrap().ino();
        (trace, entry, inode)
    };
    let (first, entry, inode) = write("a");
    assert_eq!(first.sharing(entry.file).unwrap().0, Sharing::Stored);
    assert_eq!(write("b").2, inode);
    // It is known from the next on.
    std::thread::sleep(std::time::Duration::from_millis(2200));
    write("c");
    let (last, known, same) = write("d");
    assert_eq!((&known, same), (&entry, inode));
    assert_eq!(last.sharing(known.file).unwrap().0, Sharing::Shared);
    // A program that damages it damages them all, and each says so.
    let damaged = last.file_path(known.file).unwrap();
    fs::set_permissions(&damaged, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    fs::write(&damaged, vec![2; 100_000]).unwrap();
    assert!(first.check_file(known.file).unwrap_err().to_string().contains("its content"));
    let (fresh, again, other) = write("e");
    fresh.check_file(again.file).unwrap();
    assert_ne!(other, inode);
    // A copy of the folder needs nothing.
    fs::copy(fresh.file_path(again.file).unwrap(), dir.path().join("copy")).unwrap();
    assert!(fs::read(dir.path().join("copy")).unwrap() == vec![1; 100_000]);
    // Nor a trace whose store is gone.
    fs::remove_dir_all(dir.path().join("store")).unwrap();
    fresh.check_file(again.file).unwrap();
    assert_eq!(fresh.sharing(again.file).unwrap().0, Sharing::Own);
}

/// Makes a trace with one entry that says it is a hard link, whatever this filesystem can do.
#[test]
fn a_changed_link_is_named() {
    let set = Set::new();
    let (file, path) = set.file("lib.so", b"v1");
    let stat = file.metadata().unwrap();
    let digest = *blake3::hash(b"v1").as_bytes();
    let link = set.dir.path().join("trace").join(FILES).join(name(&digest));
    fs::hard_link(&path, &link).unwrap();
    let entry = FileEntry {
        file: FileId(0),
        name: name(&digest),
        kept: Kept::HardLink,
        path: b"/usr/lib/lib.so".to_vec(),
        len: 2,
        mtime_ns: nanoseconds(stat.mtime(), stat.mtime_nsec()),
        digest,
    };
    set.writer.meta(&Meta::File(entry)).unwrap();
    let trace = set.finish();
    trace.check_file(FileId(0)).unwrap();
    fs::write(&path, "longer").unwrap();
    let text = trace.check_file(FileId(0)).unwrap_err().to_string();
    assert_eq!(
        text,
        "/usr/lib/lib.so has changed since it was recorded (it had 2 bytes, now 6), and the trace only had a link to it"
    );
    let date = |seconds| {
        let time = std::time::SystemTime::now() + std::time::Duration::from_secs(seconds);
        File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
    };
    // As a copy of the trace would have it.
    fs::write(&path, "v1").unwrap();
    date(9);
    trace.check_file(FileId(0)).unwrap();
    trace.check_file(FileId(0)).unwrap();
    fs::write(&path, "v2").unwrap();
    date(18);
    assert!(trace.check_file(FileId(0)).unwrap_err().to_string().contains("its content is another"));
    fs::remove_file(&link).unwrap();
    assert!(trace.check_file(FileId(0)).unwrap_err().to_string().contains("missing"));
    symlink("/etc/passwd", &link).unwrap();
    assert!(trace.check_file(FileId(0)).is_err());
}
