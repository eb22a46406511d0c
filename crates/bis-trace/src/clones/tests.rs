//! The `clones` file as readers meet it: whole, damaged, short, gone, or something else by its name.

use crate::types::Addr;
use std::os::unix::fs::symlink;

use proptest::prelude::*;

use super::*;

fn cloned(offset: u64, bytes: &[u8]) -> Cloned {
    Cloned { addr: Addr(0x1000), offset, len: bytes.len() as u64, sum: sum(bytes) }
}

fn read(dir: &Path, cloned: &Cloned) -> Result<Vec<u8>> {
    let mut buffer = vec![1; 3];
    Source::default().read(dir, cloned, &mut buffer).map(|()| buffer)
}

/// A writer's side whose blocks are 4 KiB, wherever the tests run.
fn clones(dir: &Path) -> Clones {
    Clones { file: OnceLock::new(), path: dir.join(CLONES), block_len: 4096, next: AtomicU64::new(0) }
}

proptest! {
    #[test]
    fn whole_blocks_are_within(start in 0u64..1 << 40, len in 0u64..1 << 20) {
        let folder = tempfile::tempdir().unwrap();
        let clones = clones(folder.path());
        let blocks = clones.whole_blocks(start..start + len);
        prop_assert!(blocks.start.is_multiple_of(4096) && blocks.end.is_multiple_of(4096));
        if blocks.is_empty() {
            prop_assert!(len < 2 * 4096);
        } else {
            prop_assert!(start <= blocks.start && blocks.end <= start + len);
            prop_assert!(blocks.start - start < 4096 && start + len - blocks.end < 4096);
        }
    }

    #[test]
    fn one_wrong_byte_is_noticed(at in 0usize..9000, flip in 1u8..=255, offset in 0usize..5000) {
        let folder = tempfile::tempdir().unwrap();
        let mut content: Vec<u8> = (0..20_000u32).map(|n| n.to_le_bytes()[n as usize % 2]).collect();
        let event = cloned(offset as u64, &content[offset..offset + 9000]);
        content[offset + at] ^= flip;
        fs::write(folder.path().join(CLONES), &content).unwrap();
        let error = read(folder.path(), &event).unwrap_err().to_string();
        prop_assert!(error.contains("checksum") && error.contains(CLONES), "{}", error);
    }
}

#[test]
fn what_was_cloned_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let content: Vec<u8> = (0..10_000u32).map(|n| (n % 251) as u8).collect();
    fs::write(folder.path().join(CLONES), &content).unwrap();
    assert_eq!(read(folder.path(), &cloned(100, &content[100..9000])).unwrap(), content[100..9000]);
}

#[test]
fn what_is_not_there_is_an_error_that_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let (dir, path) = (folder.path(), folder.path().join(CLONES));
    let event = cloned(4096, &[7; 5000]);
    let error = || read(dir, &event).unwrap_err().to_string();
    assert!(error().contains("missing"), "{}", error());
    fs::write(&path, [7; 5000]).unwrap();
    assert!(error().contains("ends before the 5000 bytes"), "{}", error());
    let far = Cloned { offset: u64::MAX - 10, ..event };
    assert!(read(dir, &far).is_err());
    // A stranger's trace must not lead us to other files, nor to one that never answers.
    fs::rename(&path, dir.join("other")).unwrap();
    symlink("other", &path).unwrap();
    assert!(read(dir, &event).is_err());
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(error().contains("missing"), "{}", error());
}

#[test]
fn the_file_is_made_once_and_when_it_is_needed() {
    let folder = tempfile::tempdir().unwrap();
    let used = clones(folder.path());
    assert_eq!([used.reserve(5000), used.reserve(1), used.reserve(4096)], [0, 8192, 12_288]);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    std::thread::scope(|scope| {
        for offset in 0..4 {
            let used = &used;
            scope.spawn(move || used.file().unwrap().write_all_at(b"x", offset).unwrap());
        }
    });
    assert_eq!(fs::read(folder.path().join(CLONES)).unwrap(), b"xxxx");
}

#[test]
fn what_differs_is_not_held() {
    let folder = tempfile::tempdir().unwrap();
    let clones = clones(folder.path());
    let mut buffer = Vec::new();
    assert!(!clones.holds(0, &[5], &mut buffer), "there is no file yet");
    clones.file().unwrap().write_all_at(&[5; 9000], 0).unwrap();
    assert!(clones.holds(1000, &[5; 8000], &mut buffer));
    assert!(!clones.holds(1000, &[5; 8001], &mut buffer), "beyond its end");
    clones.file().unwrap().write_all_at(&[6], 5000).unwrap();
    assert!(!clones.holds(1000, &[5; 8000], &mut buffer));
    assert!(clones.holds(5001, &[5; 3999], &mut buffer));
}

/// Where the tests' folder is decides which of both it is; in neither case is anything left.
#[test]
fn a_filesystem_clones_or_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let clones = Clones::create(folder.path());
    println!("cloning here: {}", clones.is_some());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}
