//! The store: content once, whoever adds, removes, damages or is killed.

use std::{io::Write as _, os::unix::fs::FileExt as _, thread};

use super::*;

struct Set {
    dir: tempfile::TempDir,
    store: ContentStore,
}

impl Set {
    fn new() -> Set {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("trace")).unwrap();
        let store = ContentStore::open(&dir.path().join("a/store"), &dir.path().join("trace")).unwrap();
        Set { dir, store }
    }

    fn source(&self, content: &[u8]) -> File {
        let mut file = tempfile::tempfile_in(self.dir.path()).unwrap();
        file.write_all(content).unwrap();
        file
    }

    fn to(&self, name: &str) -> PathBuf {
        self.dir.path().join("trace").join(name)
    }

    fn add(&self, content: &[u8], name: &str) -> [u8; 32] {
        self.store.add(&self.source(content), &self.to(name), false).unwrap().digest
    }

    fn inode(&self, name: &str) -> (u64, u64) {
        let stat = fs::metadata(self.to(name)).unwrap();
        (stat.ino(), stat.nlink())
    }

    fn entry(&self, digest: &[u8; 32]) -> PathBuf {
        self.store.dir.join(name(digest))
    }

    fn count(&self) -> usize {
        fs::read_dir(&self.store.dir).unwrap().count()
    }
}

#[test]
fn content_is_there_once_and_goes_with_the_last_that_needs_it() {
    let set = Set::new();
    assert_eq!(set.count(), 0, "the probe is gone");
    let digest = set.add(b"same", "one");
    assert_eq!(digest, *blake3::hash(b"same").as_bytes());
    assert_eq!(set.add(b"same", "two"), digest);
    assert!(set.store.link(&digest, 4, &set.to("three")).unwrap());
    assert_eq!(set.inode("one"), set.inode("two"));
    assert_eq!(set.inode("one"), (set.inode("three").0, 4));
    assert_eq!(fs::read(set.to("two")).unwrap(), b"same");
    assert!(!set.store.link(&[7; 32], 4, &set.to("four")).unwrap());
    assert!(!set.to("four").exists());
    assert_eq!(set.store.sweep(Spare::Nothing), Swept::default());
    for name in ["one", "two", "three"] {
        fs::remove_file(set.to(name)).unwrap();
    }
    assert_eq!(set.store.sweep(Spare::For(Duration::from_secs(60))).files, 0, "not yet");
    assert_eq!(set.store.sweep(Spare::Nothing).files, 1);
    assert_eq!(set.count(), 0);
    assert!(!set.store.link(&digest, 4, &set.to("five")).unwrap());
}

#[test]
fn what_is_needed_again_and_again_stays_for_a_while() {
    let set = Set::new();
    let once = set.add(b"once", "one");
    let again = set.store.add(&set.source(b"again"), &set.to("two"), true).unwrap().digest;
    assert_eq!(set.store.sweep(Spare::Again), Swept::default());
    // It is known also when it is on the disk.
    sync(&File::open(set.to("two")).unwrap()).unwrap();
    fs::remove_file(set.to("one")).unwrap();
    fs::remove_file(set.to("two")).unwrap();
    let swept = set.store.sweep(Spare::Again);
    assert_eq!((swept.files, swept.spared.0), (1, 1));
    assert!(!set.store.link(&once, 4, &set.to("one")).unwrap());
    assert!(set.store.link(&again, 5, &set.to("two")).unwrap());
    fs::remove_file(set.to("two")).unwrap();
    assert_eq!(set.store.sweep(Spare::Nothing).files, 1);
    assert_eq!(set.count(), 0);
}

fn write_anyway(path: &Path, content: &[u8]) {
    fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
    let file = OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(content, 0).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o400)).unwrap();
}

#[test]
fn a_changed_entry_is_replaced() {
    let set = Set::new();
    let digest = set.add(b"same", "one");
    write_anyway(&set.entry(&digest), b"SAME");
    assert!(!is_marked(&fs::metadata(set.to("one")).unwrap(), &digest), "whose trace it is, sees it");
    assert!(!set.store.link(&digest, 4, &set.to("two")).unwrap());
    assert!(!set.to("two").exists());
    assert_eq!(set.add(b"same", "two"), digest);
    assert_eq!(fs::read(set.to("two")).unwrap(), b"same");
    assert_eq!(set.inode("two").1, 2);
    // Another length shows at once; another time, with the same content, is mended.
    write_anyway(&set.entry(&digest), b"same and more");
    assert!(!set.store.link(&digest, 4, &set.to("three")).unwrap());
    set.add(b"same", "three");
    write_anyway(&set.entry(&digest), b"same");
    assert!(set.store.link(&digest, 4, &set.to("four")).unwrap());
    let stat = fs::metadata(set.to("four")).unwrap();
    assert!(is_marked(&stat, &digest));
    assert_eq!((stat.mode() & 0o777, stat.ino()), (SYNCED, set.inode("three").0));
    // What is no file at all.
    fs::remove_file(set.entry(&digest)).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", set.entry(&digest)).unwrap();
    assert!(!matches!(set.store.link(&digest, 4, &set.to("five")), Ok(true)));
    set.add(b"same", "five");
    assert_eq!(set.inode("five").1, 2);
}

/// The power failed before the content was on the disk: length and time are as they should be.
#[test]
fn an_entry_of_an_earlier_boot_is_read_once() {
    let set = Set::new();
    let digest = set.add(b"same", "one");
    let entry = set.entry(&digest);
    write_anyway(&entry, &[0; 4]);
    set_modified(&File::open(&entry).unwrap(), mark(&digest)).unwrap();
    // Of this boot, it is believed; nobody can tell here.
    assert!(is_sound(&entry, &digest, 4, since_boot()).unwrap());
    assert!(!is_sound(&entry, &digest, 4, Duration::ZERO).unwrap());
    // What was read is not read again.
    let digest = set.add(b"other", "two");
    let entry = set.entry(&digest);
    assert!(is_sound(&entry, &digest, 5, Duration::ZERO).unwrap());
    assert_eq!(fs::metadata(&entry).unwrap().mode() & 0o777, SYNCED);
}

/// ext4 counts to 65,000 links; others far more.
#[test]
fn an_entry_with_too_many_links_gives_way() {
    let set = Set::new();
    let digest = set.add(b"same", "one");
    let ends = (0..70_000).any(|number| {
        let linked = fs::hard_link(set.entry(&digest), set.to(&format!("many-{number}")));
        linked.is_err_and(|error| error.kind() == ErrorKind::TooManyLinks)
    });
    set.add(b"same", "two");
    assert_eq!(set.inode("two").0 == set.inode("one").0, !ends);
    assert_eq!(fs::read(set.to("two")).unwrap(), b"same");
    assert!(set.inode("two").1 > 1);
}

#[test]
fn what_the_killed_have_left_goes_and_what_is_being_written_stays() {
    let set = Set::new();
    let written = set.store.first().unwrap();
    let left = set.store.dir.join("new-1-2-3");
    fs::write(&left, "half").unwrap();
    fs::write(set.store.dir.join("notes"), "of somebody's").unwrap();
    assert_eq!(set.store.sweep(Spare::Nothing).files, 0, "it may be about to be locked");
    thread::sleep(LOCKED_AFTER + Duration::from_millis(1100));
    assert_eq!(set.store.sweep(Spare::Nothing).files, 1);
    assert!(written.path.exists() && !left.exists());
    drop(written);
    assert_eq!(set.count(), 1);
}

#[test]
fn many_add_while_many_remove() {
    let set = Set::new();
    let contents: Vec<Vec<u8>> = (0..3_u8).map(|n| vec![n; 200_000]).collect();
    thread::scope(|scope| {
        for thread in 0..4 {
            let (set, contents) = (&set, &contents);
            scope.spawn(move || {
                for round in 0..60 {
                    let content = &contents[round % 3];
                    let name = format!("{thread}-{round}");
                    set.add(content, &name);
                    assert!(fs::read(set.to(&name)).unwrap() == *content);
                    fs::remove_file(set.to(&name)).unwrap();
                }
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                (0..400).for_each(|_| {
                    set.store.sweep(Spare::Nothing);
                })
            });
        }
    });
    set.store.sweep(Spare::Nothing);
    assert_eq!(set.count(), 0);
}

#[test]
fn a_folder_of_others_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    fs::create_dir(&store).unwrap();
    fs::set_permissions(&store, Permissions::from_mode(0o777)).unwrap();
    assert!(ContentStore::open(&store, dir.path()).is_err());
    // Nothing in it can be linked to from there.
    assert!(ContentStore::open(&dir.path().join("mine"), Path::new("/dev/shm")).is_err());
    assert_eq!(fs::read_dir(dir.path().join("mine")).unwrap().count(), 0);
}
