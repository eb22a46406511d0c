//! Folding and unfolding, and the `blocks` file as readers meet it: whole, damaged, short, gone, or something
//! else by its name.

use std::{fs, os::unix::fs::symlink};

use proptest::prelude::*;

use super::*;

/// Bytes that hardly compress, and are not taken for bytes at random; another kind for each seed.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    random(seed, len).into_iter().map(|byte| byte % 100).collect()
}

/// Bytes at random, another kind for each seed.
fn random(seed: u64, len: usize) -> Vec<u8> {
    let mut word = seed.wrapping_mul(2).wrapping_add(1);
    let next = || {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (word >> 56) as u8
    };
    std::iter::repeat_with(next).take(len).collect()
}

/// What the messages of a chunk are made of: content of some kind, or other bytes.
#[derive(Clone, Debug)]
enum Part {
    Content { seed: u64, len: usize },
    Other(Vec<u8>),
}

fn messages(parts: &[Part]) -> (Vec<u8>, Vec<(u32, u32)>) {
    let (mut bytes, mut content) = (Vec::new(), Vec::new());
    for part in parts {
        match part {
            Part::Content { seed, len } => {
                content.push((bytes.len() as u32, *len as u32));
                // One kind compresses, so that there are blocks of both.
                bytes.extend(if *seed == 0 { vec![7; *len] } else { noise(*seed, *len) });
            }
            Part::Other(other) => bytes.extend(other),
        }
    }
    (bytes, content)
}

fn parts() -> impl Strategy<Value = Vec<Part>> {
    let len = prop_oneof![Just(512usize), Just(4096), 1usize..600, 4000usize..14_000];
    let content = (0u64..4, len).prop_map(|(seed, len)| Part::Content { seed, len });
    let other = proptest::collection::vec(any::<u8>(), 0..50).prop_map(Part::Other);
    proptest::collection::vec(prop_oneof![3 => content, 1 => other], 0..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_was_folded_is_as_it_was(chunks in proptest::collection::vec(parts(), 1..8)) {
        let dir = tempfile::tempdir().unwrap();
        let mut folder = Folder::new(dir.path());
        let source = Source::default();
        for parts in &chunks {
            let (bytes, content) = messages(parts);
            if let Some(folded) = folder.fold(&bytes, &content) {
                prop_assert!(folded.len() <= folded_len_max(bytes.len()));
                let folded = folded.to_vec();
                let mut unfolded = b"before".to_vec();
                prop_assert!(source.unfold(dir.path(), &folded, bytes.len(), &mut unfolded).is_ok());
                prop_assert!(unfolded[6..] == bytes);
                // Another length is another chunk's.
                prop_assert!(source.unfold(dir.path(), &folded, bytes.len() + 1, &mut Vec::new()).is_err());
            }
        }
    }

    #[test]
    fn whatever_is_unfolded_is_an_error_at_most(
        folded in proptest::collection::vec(any::<u8>(), 0..200),
        count in 0u32..5,
        raw_len in 0usize..10_000,
    ) {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(BLOCKS), noise(1, 9000)).unwrap();
        let mut messages = Vec::new();
        let _ = Source::default().unfold(dir.path(), &folded, raw_len, &mut messages);
        let folded = [&count.to_le_bytes()[..], &folded].concat();
        let _ = Source::default().unfold(dir.path(), &folded, raw_len, &mut messages);
    }

    #[test]
    fn one_wrong_byte_of_a_block_is_noticed(at in any::<prop::sample::Index>(), flip in 1u8..=255) {
        let (dir, folded, bytes) = one_folded(&[1, 0]);
        let path = dir.path().join(BLOCKS);
        let mut blocks = fs::read(&path).unwrap();
        let at = at.index(blocks.len());
        blocks[at] ^= flip;
        fs::write(&path, &blocks).unwrap();
        let mut messages = Vec::new();
        // A byte of a zstd frame may mean nothing.
        match Source::default().unfold(dir.path(), &folded, bytes.len(), &mut messages) {
            Ok(()) => prop_assert!(messages == bytes),
            Err(Unfolded::Failed(error)) => prop_assert!(error.to_string().contains(BLOCKS), "{}", error),
            Err(Unfolded::Damaged) => prop_assert!(false, "the references are sound"),
        }
    }
}

/// A chunk with references to a block of each of these kinds, and its messages.
fn one_folded(seeds: &[u64]) -> (tempfile::TempDir, Vec<u8>, Vec<u8>) {
    let dir = tempfile::tempdir().unwrap();
    let mut folder = Folder::new(dir.path());
    let parts: Vec<Part> = seeds.iter().map(|seed| Part::Content { seed: *seed, len: 4096 }).collect();
    let (bytes, content) = messages(&parts);
    assert!(folder.fold(&bytes, &content).is_none(), "it comes for the first time");
    assert!(!dir.path().join(BLOCKS).exists());
    let folded = folder.fold(&bytes, &content).expect("it comes again").to_vec();
    (dir, folded, bytes)
}

#[test]
fn what_repeats_is_there_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut folder = Folder::new(dir.path());
    let pages: Vec<Part> = (1..20).map(|seed| Part::Content { seed, len: 4096 }).collect();
    for round in 0..10 {
        let (bytes, content) = messages(&pages);
        let folded = folder.fold(&bytes, &content).map(<[u8]>::len);
        assert_eq!(folded, (round > 0).then_some(COUNT + 19 * REFERENCE));
    }
    assert_eq!(fs::metadata(dir.path().join(BLOCKS)).unwrap().len(), 19 * 4096);
    // What is short, or is no content, stays where it is.
    let (bytes, _) = messages(&pages);
    assert!(folder.fold(&bytes, &[]).is_none());
    let short: Vec<(u32, u32)> = (0..19).map(|page| (page * 4096, 511)).collect();
    assert!((0..3).all(|_| folder.fold(&bytes, &short).is_none()));
}

#[test]
fn what_does_not_compress_is_there_once_from_its_first_time_on() {
    let dir = tempfile::tempdir().unwrap();
    let (mut folder, source) = (Folder::new(dir.path()), Source::default());
    // Three whole pages, and one that is too short to be judged by its samples.
    let bytes: Vec<u8> = (1..=3).flat_map(|seed| random(seed, 4096)).chain(random(4, 2000)).collect();
    let content = [(0, 8192), (8192, 4096 + 2000)];
    let blocks = || fs::metadata(dir.path().join(BLOCKS)).map(|blocks| blocks.len()).ok();
    for (count, expected) in [(3, 3 * 4096), (4, 3 * 4096 + 2000), (4, 3 * 4096 + 2000)] {
        let folded = folder.fold(&bytes, &content).expect("there are references").to_vec();
        assert_eq!(folded[..COUNT], u32::to_le_bytes(count));
        assert_eq!(blocks(), Some(expected), "it is there before anybody can refer to it");
        let mut unfolded = Vec::new();
        assert!(source.unfold(dir.path(), &folded, bytes.len(), &mut unfolded).is_ok());
        assert!(unfolded == bytes);
    }
    // What compresses is not: text, numbers, zeroes.
    let text = b"fn what_does_not_compress_is_there_once_from_its_first_time_on() { assert!(1 + 1 == 2); }\n";
    let text: Vec<u8> = text.iter().copied().cycle().take(4096).collect();
    let numbers: Vec<u8> = (0..1024u32).flat_map(|n| (n * 3).to_le_bytes()).collect();
    for page in [text, numbers, vec![0; 4096]] {
        assert!(folder.fold(&page, &[(0, 4096)]).is_none() && folder.fold(&page, &[(0, 4096)]).is_some());
    }
}

#[test]
fn without_room_the_log_has_all() {
    let dir = tempfile::tempdir().unwrap();
    // There is one of another recording, or no folder, or no room.
    fs::write(dir.path().join(BLOCKS), "another's").unwrap();
    let mut folder = Folder::new(dir.path());
    let (bytes, content) = messages(&[Part::Content { seed: 1, len: 4096 }]);
    assert!((0..4).all(|_| folder.fold(&bytes, &content).is_none()));
    assert_eq!(fs::read(dir.path().join(BLOCKS)).unwrap(), b"another's");
}

#[test]
fn what_is_not_there_is_an_error_that_says_so() {
    let (dir, folded, bytes) = one_folded(&[1]);
    let (dir, path) = (dir.path(), dir.path().join(BLOCKS));
    let error = || match Source::default().unfold(dir, &folded, bytes.len(), &mut Vec::new()) {
        Err(Unfolded::Failed(error)) => error.to_string(),
        other => panic!("{other:?}"),
    };
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..100]).unwrap();
    assert!(error().contains("ends before the 4096 bytes"), "{}", error());
    // A stranger's trace must not lead us to other files, nor to one that never answers.
    fs::rename(&path, dir.join("other")).unwrap();
    assert!(error().contains(BLOCKS), "{}", error());
    symlink("other", &path).unwrap();
    assert!(error().contains(BLOCKS), "{}", error());
    fs::remove_file(&path).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    assert!(error().contains("it is no file"), "{}", error());
}

/// A database of some ten thousand pages is read again and again.
#[test]
fn blocks_that_fit_into_the_cache_hardly_ever_push_one_another_out() {
    let mut cache = Cache::default();
    let offsets = || (0..CACHED as u64 * 5 / 8).map(|number| number * 517);
    for _ in 0..3 {
        for offset in offsets() {
            if cache.get(offset, 8).is_none() {
                cache.keep(offset, &offset.to_le_bytes());
            }
        }
    }
    let kept = offsets().filter(|offset| cache.get(*offset, 8) == Some(&offset.to_le_bytes())).count();
    assert!(kept * 100 > offsets().count() * 99, "{kept}");
    assert_eq!(cache.get(517, 7), None, "a block of another length");
    cache.keep(517, &[1; 7]);
    assert_eq!((cache.get(517, 7), cache.get(517, 8)), (Some(&[1; 7][..]), None));
}

#[test]
fn references_that_make_no_sense_are_refused() {
    let (dir, folded, bytes) = one_folded(&[1, 2]);
    let unfold = |folded: &[u8]| {
        let mut messages = Vec::new();
        Source::default().unfold(dir.path(), folded, bytes.len(), &mut messages).map(|()| messages)
    };
    assert!(unfold(&folded).is_ok_and(|messages| messages == bytes));
    let with = |at: usize, word: u32| {
        let mut other = folded.clone();
        other[at..at + 4].copy_from_slice(&word.to_le_bytes());
        assert!(unfold(&other).is_err(), "{at} {word}");
    };
    for count in [0, 1, 3, u32::MAX] {
        with(0, count);
    }
    for word in [0, 1, 4095, 4097, u32::MAX] {
        // Where the second is, and how long the first is.
        with(COUNT + REFERENCE, word);
        with(COUNT + 4, word);
    }
    for stored in [0, 4095, 4097, u32::MAX] {
        with(COUNT + 16, stored);
    }
    assert!(unfold(&[]).is_err() && unfold(&folded[..COUNT + 7]).is_err());
}
