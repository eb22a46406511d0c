//! The cache of sites: what was added is there again, whatever happened to the files meanwhile that can
//! happen.

use std::{
    collections::HashSet, fs, io::Write as _, os::unix::fs::PermissionsExt as _, path::PathBuf, thread,
};

use crate::common::elf::{CODE, Elf};
use bis_rewrite::{Key, Learned, Reason, Scan, SiteCache, Text};
use proptest::prelude::*;

/// A file with some sites, and what is to be known of them.
fn sample() -> (Key, Vec<Learned>) {
    // syscall; cmp rax, -4095; ret, and one that is refused
    let call = [0x0f, 0x05, 0x48, 0x3d, 0x01, 0xf0, 0xff, 0xff, 0xc3];
    let elf = (0..20).fold(Elf::default(), |elf, _| elf.with(&call)).with(&[0xc3, 0x0f, 0x05, 0xc3]).bytes();
    let text = Text::parse(&elf).expect("an ELF file");
    let learned: Vec<Learned> = text
        .sites()
        .map(|(site, _)| match text.run_at(site) {
            Ok(run) => Learned::Run(run),
            Err(reason) => Learned::Refused { site, reason },
        })
        .collect();
    assert_eq!(learned.len(), 21);
    assert_eq!(learned[20], Learned::Refused { site: CODE + 181, reason: Reason::TooShort });
    (Key::of_content(blake3::hash(&elf).as_bytes()), learned)
}

struct Folder {
    _dir: tempfile::TempDir,
    path: PathBuf,
    cache: SiteCache,
}

fn folder() -> Folder {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("bis/sites");
    let cache = SiteCache::open(&path).expect("a new folder");
    Folder { _dir: dir, path, cache }
}

impl Folder {
    fn file(&self, key: &Key) -> PathBuf {
        self.path.join(key.to_string())
    }
}

fn set(learned: Vec<Learned>) -> HashSet<Learned> {
    let count = learned.len();
    let set: HashSet<Learned> = learned.into_iter().collect();
    assert_eq!(set.len(), count, "a site is there twice");
    set
}

#[test]
fn what_was_added_is_there() {
    let (folder, (key, learned)) = (folder(), sample());
    assert!(folder.cache.load(&key).is_empty());
    folder.cache.add(&key, &[]).expect("nothing to add");
    assert!(!folder.file(&key).exists());
    folder.cache.add(&key, &learned[..3]).expect("room");
    assert_eq!(folder.cache.load(&key), learned[..3]);
    // Again, and more: each once.
    folder.cache.add(&key, &learned).expect("room");
    folder.cache.add(&key, &learned).expect("room");
    let again = SiteCache::open(&folder.path).expect("the same folder");
    assert_eq!(again.load(&key), learned);
    assert_eq!(fs::metadata(folder.file(&key)).expect("its file").len(), 64 * 22);
}

#[test]
fn it_is_for_one_user() {
    let (folder, (key, learned)) = (folder(), sample());
    folder.cache.add(&key, &learned).expect("room");
    let mode = |path: &PathBuf| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!((mode(&folder.path), mode(&folder.file(&key))), (0o700, 0o600));
    fs::set_permissions(&folder.path, fs::Permissions::from_mode(0o770)).expect("ours");
    assert!(SiteCache::open(&folder.path).is_err());
    assert!(SiteCache::open(&folder.file(&key)).is_err());
}

#[test]
fn recorders_add_at_the_same_time() {
    let (folder, (key, learned)) = (folder(), sample());
    thread::scope(|scope| {
        for worker in 0..4 {
            let (learned, path) = (&learned, &folder.path);
            scope.spawn(move || {
                let cache = SiteCache::open(path).expect("the same folder");
                for index in 0..learned.len() {
                    // Each in another order; all overlap.
                    let index = (index * (worker * 2 + 1) + worker) % learned.len();
                    cache.add(&key, &learned[index..=index]).expect("room");
                    assert!(cache.load(&key).contains(&learned[index]));
                }
            });
        }
    });
    let expected: HashSet<Learned> = learned.into_iter().collect();
    assert_eq!(set(folder.cache.load(&key)), expected);
}

#[test]
fn a_write_that_was_cut_short() {
    let (folder, (key, learned)) = (folder(), sample());
    folder.cache.add(&key, &learned[..10]).expect("room");
    let whole = fs::read(folder.file(&key)).expect("its file");
    for len in 0..whole.len() {
        fs::write(folder.file(&key), &whole[..len]).expect("ours");
        let left = (len / 64).saturating_sub(1);
        assert_eq!(folder.cache.load(&key), learned[..left]);
        folder.cache.add(&key, &learned[9..12]).expect("room");
        let expected: HashSet<Learned> = learned[..left].iter().chain(&learned[9..12]).cloned().collect();
        assert_eq!(set(folder.cache.load(&key)), expected);
        // Whole again.
        assert_eq!(
            fs::metadata(folder.file(&key)).expect("its file").len(),
            64 * (1 + expected.len() as u64)
        );
    }
}

#[test]
fn files_of_others() {
    let (folder, (key, learned)) = (folder(), sample());
    folder.cache.add(&key, &learned[..5]).expect("room");
    let whole = fs::read(folder.file(&key)).expect("its file");

    // Another version
    let mut newer = whole.clone();
    newer[8] += 1;
    // Another file's entry, under this name
    let mut bytes = Elf::function(&[0x0f, 0x05, 0x90, 0x90, 0x90]).bytes();
    let other = Key::of_content(blake3::hash(&bytes).as_bytes());
    folder.cache.add(&other, &learned).expect("room");
    let moved = fs::read(folder.file(&other)).expect("its file");
    let text = b"#!/bin/sh\nThis is something else altogether, and it is longer than a header is.".to_vec();
    for foreign in [newer, moved.clone(), text] {
        fs::write(folder.file(&key), foreign).expect("ours");
        assert!(folder.cache.load(&key).is_empty());
        folder.cache.add(&key, &learned[5..7]).expect("room");
        assert_eq!(folder.cache.load(&key), learned[5..7]);
    }
    // Another file's records, under this header
    fs::write(folder.file(&key), [&whole[..64], &moved[64..]].concat()).expect("ours");
    assert!(folder.cache.load(&key).is_empty());

    // A changed file has another name.
    let code = bytes.windows(2).position(|two| two == [0x0f, 0x05]).expect("its code");
    bytes[code + 2] = 0x50;
    assert_ne!(Key::of_content(blake3::hash(&bytes).as_bytes()), other);

    // Not a file at all
    fs::remove_file(folder.file(&key)).expect("ours");
    std::os::unix::fs::symlink(folder.file(&other), folder.file(&key)).expect("a link");
    assert!(folder.cache.load(&key).is_empty() && folder.cache.add(&key, &learned).is_err());
    fs::remove_file(folder.file(&key)).expect("ours");
    fs::create_dir(folder.file(&key)).expect("a folder");
    assert!(folder.cache.load(&key).is_empty() && folder.cache.add(&key, &learned).is_err());
}

#[test]
fn what_was_looked_through_is_known() {
    let (folder, (key, _)) = (folder(), sample());
    assert!(folder.cache.scans(&key).is_empty());
    let first = Scan { part: (0x1000, 0x2000), has_cpuid: true, clocks: vec![1, 2], chances: vec![3] };
    let scans = [first, Scan { part: (0x3000, 8), ..Scan::default() }];
    folder.cache.set_scans(&key, &scans[..1]).expect("room");
    assert_eq!(folder.cache.scans(&key), scans[..1]);
    folder.cache.set_scans(&key, &scans).expect("room");
    assert_eq!(folder.cache.scans(&key), scans);
    assert_eq!(fs::read_dir(folder.file(&key).parent().expect("the folder")).expect("ours").count(), 1);
    // Whatever bit flips, wherever it ends, or of another file: it is not known.
    let path = folder.file(&key).with_extension("scan");
    let whole = fs::read(&path).expect("its file");
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        fs::write(&path, bytes).expect("ours");
        assert!(folder.cache.scans(&key).is_empty(), "{at}");
        fs::write(&path, &whole[..at]).expect("ours");
        assert!(folder.cache.scans(&key).is_empty(), "{at}");
    }
    let other = Key::of_content(&[7; 32]);
    fs::write(folder.file(&other).with_extension("scan"), whole).expect("ours");
    assert!(folder.cache.scans(&other).is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    /// Whatever bytes change, what is read was written; and adding makes the file whole.
    #[test]
    fn bits_that_flip(flips in prop::collection::vec((any::<prop::sample::Index>(), 0_u8..8), 1..6), more in ".{0,80}") {
        let (folder, (key, learned)) = (folder(), sample());
        folder.cache.add(&key, &learned[..18]).expect("room");
        let mut bytes = fs::read(folder.file(&key)).expect("its file");
        for (at, bit) in flips {
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
        }
        let mut file = fs::File::create(folder.file(&key)).expect("ours");
        file.write_all(&[&bytes, more.as_bytes()].concat()).expect("ours");
        let all: HashSet<Learned> = learned.iter().cloned().collect();
        prop_assert!(set(folder.cache.load(&key)).is_subset(&all));
        folder.cache.add(&key, &learned).expect("room");
        prop_assert_eq!(set(folder.cache.load(&key)), all);
    }
}
