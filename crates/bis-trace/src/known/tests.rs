//! What is known of files: believed only while nothing has changed.

use std::{io::Write as _, thread, time::Duration};

use super::*;

fn name_of(number: u64) -> Name {
    let identity = Identity { dev: 1, ino: number, len: 3, mtime_ns: 4, ctime_ns: -5 };
    Name { identity, mount: [6; 16], edges: [7; 16] }
}

fn known() -> (tempfile::TempDir, KnownFiles) {
    let dir = tempfile::tempdir().unwrap();
    let known = KnownFiles::open(&dir.path().join("a/known"), |_| true).unwrap();
    (dir, known)
}

#[test]
fn what_was_said_of_a_name_is_known_and_of_any_other_nothing() {
    let (_dir, known) = known();
    let name = name_of(2);
    assert_eq!(known.find(&name), None);
    known.add(&name, &[8; 32]);
    assert_eq!(known.find(&name), Some([8; 32]));
    let id = name.identity;
    for identity in [
        Identity { dev: 0, ..id },
        Identity { ino: 3, ..id },
        Identity { len: 4, ..id },
        Identity { mtime_ns: 5, ..id },
        Identity { ctime_ns: -4, ..id },
    ] {
        assert_eq!(known.find(&Name { identity, ..name }), None);
    }
    assert_eq!(known.find(&Name { mount: [0; 16], ..name }), None);
    assert_eq!(known.find(&Name { edges: [0; 16], ..name }), None);
    // What the file was is forgotten.
    let later = Name { identity: Identity { mtime_ns: 9, ..id }, ..name };
    known.add(&later, &[9; 32]);
    assert_eq!((known.find(&name), known.find(&later)), (None, Some([9; 32])));
}

#[test]
fn the_table_does_not_grow_and_the_oldest_gives_way() {
    let (_dir, known) = known();
    let place = |number| bucket(&name_of(number).identity).0;
    let near: Vec<u64> = (0..200_000).filter(|number| place(*number) == place(0)).take(SLOTS + 1).collect();
    assert_eq!(near.len(), SLOTS + 1);
    for number in &near[..SLOTS] {
        known.add(&name_of(*number), &[1; 32]);
    }
    assert!(near[..SLOTS].iter().all(|number| known.find(&name_of(*number)).is_some()));
    known.add(&name_of(near[SLOTS]), &[2; 32]);
    assert_eq!(known.find(&name_of(near[SLOTS])), Some([2; 32]));
    let left = near.iter().filter(|number| known.find(&name_of(**number)).is_some());
    assert_eq!(left.count(), SLOTS);
    assert!(known.table.metadata().unwrap().len() <= BUCKETS * (SLOTS * RECORD) as u64);
}

#[test]
fn damage_is_not_believed() {
    let (_dir, known) = known();
    let name = name_of(2);
    known.add(&name, &[8; 32]);
    let len = usize::try_from(known.table.metadata().unwrap().len()).unwrap();
    let mut whole = vec![0; len];
    known.table.read_exact_at(&mut whole, 0).unwrap();
    let start = whole.iter().position(|byte| *byte != 0).unwrap();
    for at in start..start + RECORD {
        known.table.write_all_at(&[whole[at] ^ 0x10], at as u64).unwrap();
        assert_eq!(known.find(&name), None, "{at}");
        known.table.write_all_at(&whole[at..=at], at as u64).unwrap();
    }
    assert_eq!(known.find(&name), Some([8; 32]));
}

#[test]
fn a_file_is_known_by_its_identity_only_at_rest() {
    let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let path = dir.path().join("file");
    fs::write(&path, b"content").unwrap();
    let file = File::open(&path).unwrap();
    if Times::of(&file) != Times::Tell {
        println!("ignored: this filesystem's times tell nothing");
        return;
    }
    let known = KnownFiles::open(&dir.path().join("known"), |_| true).unwrap();
    let name = |known: &KnownFiles| known.name(&file, &file.metadata().unwrap(), b"/home/file");
    assert_eq!(name(&known), None, "it may change within the tick");
    thread::sleep(Duration::from_nanos(SETTLED_NS.cast_unsigned() + 200_000_000));
    let before = name(&known).unwrap();
    assert_eq!(name(&known), Some(before));
    let restless = KnownFiles::open(&dir.path().join("known"), |_| false).unwrap();
    assert_eq!(name(&restless), None);
    // The same length, and the time of modification set back: the time of the status tells.
    let modified = file.metadata().unwrap().modified().unwrap();
    let mut writer = OpenOptions::new().write(true).open(&path).unwrap();
    writer.write_all(b"CONTENT").unwrap();
    writer.set_modified(modified).unwrap();
    thread::sleep(Duration::from_nanos(SETTLED_NS.cast_unsigned() + 200_000_000));
    assert_ne!(name(&known).unwrap().identity, before.identity);
}

#[test]
fn filesystems_in_memory_and_proc_tell_nothing() {
    for path in ["/dev/shm", "/proc/self/status"] {
        assert_eq!(File::open(path).map(|file| Times::of(&file)).ok(), Some(Times::Nothing), "{path}");
    }
}

#[test]
fn only_system_files_are_replaced_and_not_edited() {
    let dir = tempfile::tempdir().unwrap();
    let mine = dir.path().join("mine");
    fs::write(&mine, "").unwrap();
    let stat = fs::metadata("/usr/bin/env").unwrap();
    assert!(is_system_file(&stat, b"/usr/bin/env"));
    assert!(!is_system_file(&stat, b"/usrlocal/env"));
    assert!(!is_system_file(&stat, b"/home/me/env"));
    assert!(!is_system_file(&stat, b"usr/bin/env"));
    fs::set_permissions(&mine, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
    assert!(!is_system_file(&fs::metadata(&mine).unwrap(), b"/usr/mine"));
}
