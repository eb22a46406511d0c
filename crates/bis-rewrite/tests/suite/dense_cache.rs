//! The cache of dense texts: what is stored comes back, for its own name only, whatever happens to the files.

use std::{fs, io::Read as _, os::unix::fs::FileExt as _};

use bis_rewrite::{
    Dense, DenseCache, DenseLayout, DenseMap, DenseName, DenseOptions, DenseOrder, Key, SiteKind, SiteKinds,
    Text,
};

const PAGE: u64 = 4096;

fn layout() -> DenseLayout {
    DenseLayout {
        trampolines: 0x7f00_0000_0000,
        counter: 0x7000_1000,
        save: 0x7000_1008,
        hooks: vec![(SiteKind::Syscall, 0x7000_2000)],
        hook_save: None,
    }
}

const BIAS: u64 = 0x7f00_0000_0000 - 0x1000_0000;

fn options() -> DenseOptions {
    DenseOptions { short_loops: false, hooks: SiteKinds::of(&[SiteKind::Syscall]) }
}

fn library() -> Vec<u8> {
    crate::common::libraries().into_iter().min_by_key(Vec::len).expect("a library")
}

fn make(bytes: &[u8]) -> (DenseName, Dense) {
    let text = Text::parse(bytes).expect("an ELF file");
    let name = DenseName::of(&Key::of_content(blake3::hash(bytes).as_bytes()), options(), BIAS, &layout());
    let dense = text.dense(options()).build(BIAS, &layout()).expect("near enough");
    (name, dense)
}

fn check(cache: &DenseCache, name: &DenseName, dense: &Dense) {
    let entry = cache.load(name).expect("it is there");
    let mut bytes = Vec::new();
    (&entry.text).read_to_end(&mut bytes).expect("readable");
    assert_eq!(entry.map, dense.map);
    assert_eq!(entry.segments.len(), dense.segments.len());
    for (stored, segment) in entry.segments.iter().zip(&dense.segments) {
        assert_eq!((stored.start, stored.offset), (segment.start, segment.offset));
        assert!([stored.start, stored.offset, stored.len, stored.at].iter().all(|number| number % PAGE == 0));
        assert!(bytes[stored.at as usize..][..stored.len as usize] == segment.bytes);
    }
    let trampolines = &bytes[entry.trampolines_at as usize..];
    assert_eq!((entry.trampolines_at % PAGE, trampolines.len() as u64 % PAGE), (0, 0));
    let (code, rest) = trampolines.split_at(entry.trampolines_len as usize);
    assert!(code == dense.trampolines && rest.iter().all(|byte| *byte == 0));
}

#[test]
fn what_is_stored_comes_back() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let cache = DenseCache::open(&dir.path().join("dense"), u64::MAX).expect("ours");
    let (name, dense) = make(&library());
    assert!(cache.load(&name).is_none());
    cache.store(&name, &dense).expect("room");
    check(&cache, &name, &dense);
}

#[test]
fn a_folder_that_is_not_there_is_not_made_where_it_was_to_be_there() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let folder = dir.path().join("dense");
    assert!(DenseCache::open_made(&folder, u64::MAX).expect("nothing is wrong").is_none());
    assert!(!folder.exists());
    DenseCache::open(&folder, u64::MAX).expect("ours");
    assert!(DenseCache::open_made(&folder, u64::MAX).expect("ours").is_some());
    let file = dir.path().join("file");
    fs::write(&file, []).expect("room");
    DenseCache::open_made(&file, u64::MAX).expect_err("it is no folder");
}

/// A caller that has the stored map only, and not its name, gets the same answers; and they agree with one
/// another.
#[test]
fn a_stored_map_answers_by_itself() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let cache = DenseCache::open(&dir.path().join("dense"), u64::MAX).expect("ours");
    let (name, dense) = make(&library());
    let entry = cache.store(&name, &dense).expect("room");
    let mut bytes = fs::read(&entry.map_path).expect("readable");
    assert_eq!(entry.stored_map.metadata().expect("open").len(), bytes.len() as u64);
    let map = DenseMap::load(&bytes).expect("it is whole");
    assert_eq!(map, dense.map);
    assert!(map.copies(BIAS).count() > 10);
    for (address, copy) in map.copies(BIAS) {
        assert_eq!(map.enter(BIAS, address), Some(copy));
        assert_eq!(map.copy_of(BIAS, copy), Some(address));
        assert_eq!(map.copy_of(BIAS, copy + 1).filter(|other| *other == address), None);
    }
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    assert_eq!(DenseMap::load(&bytes), None);
    assert_eq!(DenseMap::load(&bytes[..40]), None);
}

#[test]
fn everything_that_changes_the_bytes_changes_the_name() {
    let bytes = library();
    let key = Key::of_content(blake3::hash(&bytes).as_bytes());
    let mut names = vec![DenseName::of(&key, options(), BIAS, &layout())];
    let changed = |change: fn(&mut DenseLayout)| {
        let mut layout = layout();
        change(&mut layout);
        layout
    };
    for layout in [
        changed(|layout| layout.trampolines += PAGE),
        changed(|layout| layout.counter += 16),
        changed(|layout| layout.save += 16),
        changed(|layout| layout.hooks[0].1 += 16),
        changed(|layout| layout.hook_save = Some(0x7000_1010)),
    ] {
        names.push(DenseName::of(&key, options(), BIAS, &layout));
    }
    names.push(DenseName::of(&key, DenseOptions { short_loops: true, ..options() }, BIAS, &layout()));
    names.push(DenseName::of(
        &key,
        DenseOptions { hooks: SiteKinds::default(), ..options() },
        BIAS,
        &layout(),
    ));
    // One byte in the middle of the code, with the same build-id.
    let at = bytes.len() / 2;
    let mut other = bytes.clone();
    other[at] ^= 1;
    names.push(DenseName::of(&Key::of_content(blake3::hash(&other).as_bytes()), options(), BIAS, &layout()));
    for (index, name) in names.iter().enumerate() {
        assert!(!names[..index].contains(name), "{index}");
    }
    // The same distance elsewhere is the same text.
    let mut moved = layout();
    moved.trampolines += 0x1_0000_0000;
    let same = DenseName::of(&key, options(), BIAS + 0x1_0000_0000, &moved);
    assert_eq!(same, names[0]);
    let (_, dense) = make(&bytes);
    let text = Text::parse(&bytes).expect("an ELF file");
    assert!(text.dense(options()).build(BIAS + 0x1_0000_0000, &moved).expect("near enough") == dense);
}

#[test]
fn damage_is_noticed_and_mended() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let cache = DenseCache::open(dir.path(), u64::MAX).expect("ours");
    let (name, dense) = make(&library());
    let entry = cache.store(&name, &dense).expect("room");
    let map = entry.path.with_extension("map");
    let len = fs::metadata(&map).expect("there").len();
    for at in (0..len).step_by(997).chain([0, len - 1]) {
        let file = fs::File::options().read(true).write(true).open(&map).expect("ours");
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).expect("within");
        file.write_all_at(&[byte[0] ^ 0x10], at).expect("ours");
        assert!(cache.load(&name).is_none(), "{at}");
        file.write_all_at(&byte, at).expect("ours");
    }
    check(&cache, &name, &dense);
    for cut in [0, 1, len / 2, len - 1] {
        let file = fs::File::options().write(true).open(&map).expect("ours");
        file.set_len(cut).expect("ours");
        assert!(cache.load(&name).is_none(), "{cut}");
        cache.store(&name, &dense).expect("room");
        check(&cache, &name, &dense);
    }
    fs::File::options().write(true).open(&entry.path).and_then(|file| file.set_len(PAGE)).expect("ours");
    assert!(cache.load(&name).is_none());
    cache.store(&name, &dense).expect("room");
    // The entry of another name, under this one.
    let mut other = layout();
    other.counter += 64;
    let (_, text) = (0, library());
    let stranger = DenseName::of(&Key::of_content(blake3::hash(&text).as_bytes()), options(), BIAS, &other);
    for kind in ["text", "map"] {
        fs::copy(entry.path.with_extension(kind), dir.path().join(format!("{stranger}.{kind}")))
            .expect("ours");
    }
    assert!(cache.load(&stranger).is_none());
    check(&cache, &name, &dense);
}

#[test]
fn many_store_and_load_at_once() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let (name, dense) = make(&library());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let cache = DenseCache::open(dir.path(), u64::MAX).expect("ours");
                for _ in 0..5 {
                    cache.store(&name, &dense).expect("room");
                    check(&cache, &name, &dense);
                }
            });
        }
    });
    // Nothing under a first name is left.
    assert_eq!(fs::read_dir(dir.path()).expect("ours").count(), 2);
}

#[test]
fn the_oldest_make_room() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let bytes = library();
    let text = Text::parse(&bytes).expect("an ELF file");
    let key = Key::of_content(blake3::hash(&bytes).as_bytes());
    let plan = text.dense(options());
    let mut made = Vec::new();
    for number in 0..4 {
        let mut layout = layout();
        layout.counter += 64 * number;
        let cache = DenseCache::open(dir.path(), 1).expect("ours");
        let name = DenseName::of(&key, options(), BIAS, &layout);
        let dense = plan.build(BIAS, &layout).expect("near enough");
        let entry = cache.store(&name, &dense).expect("room");
        // A process that has an entry keeps it.
        made.push((name, dense, entry));
        let there: Vec<bool> = made.iter().map(|(name, ..)| cache.load(name).is_some()).collect();
        assert_eq!(there.iter().filter(|there| **there).count(), 1, "{there:?}");
        check(&cache, &made[number as usize].0, &made[number as usize].1);
    }
    for (_, dense, entry) in &made {
        let mut first = vec![0; dense.segments[0].bytes.len()];
        entry.text.read_exact_at(&mut first, entry.segments[0].at).expect("still readable");
        assert!(first == dense.segments[0].bytes);
    }
    fs::write(dir.path().join(format!(".{}.text.1.1", made[0].0)), b"left behind").expect("ours");
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(7200);
    let file = fs::File::options().write(true).open(dir.path().join(format!(".{}.text.1.1", made[0].0)));
    file.and_then(|file| file.set_modified(old)).expect("ours");
    let (name, dense, _) = &made[3];
    DenseCache::open(dir.path(), u64::MAX).and_then(|cache| cache.store(name, dense)).expect("room");
    assert_eq!(fs::read_dir(dir.path()).expect("ours").count(), 2);
}

/// Which entries go is a matter of their last use, not of when they were made.
#[test]
fn those_used_longest_ago_make_room() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let bytes = library();
    let text = Text::parse(&bytes).expect("an ELF file");
    let key = Key::of_content(blake3::hash(&bytes).as_bytes());
    let plan = text.dense(options());
    let made = |number: u32| {
        let mut layout = layout();
        layout.counter += 64 * number;
        let name = DenseName::of(&key, options(), BIAS, &layout);
        (name, plan.build(BIAS, &layout).expect("near enough"))
    };
    let all = DenseCache::open(dir.path(), u64::MAX).expect("ours");
    let (a, b, c) = (made(0), made(1), made(2));
    let hours_ago = |name: &DenseName, hours: u64| {
        let then = std::time::SystemTime::now() - std::time::Duration::from_secs(3600 * hours);
        let times = fs::FileTimes::new().set_accessed(then).set_modified(then);
        for kind in ["text", "map"] {
            let file = fs::File::open(dir.path().join(format!("{name}.{kind}")));
            file.and_then(|file| file.set_times(times)).expect("ours");
        }
    };
    for ((name, dense), hours) in [(&a, 9), (&b, 5)] {
        all.store(name, dense).expect("room");
        hours_ago(name, hours);
    }
    // The older one is used.
    assert!(all.load(&a.0).is_some());
    let bound = all.size(&a.0) + all.size(&b.0) + all.size(&b.0) / 2;
    DenseCache::open(dir.path(), bound).and_then(|cache| cache.store(&c.0, &c.1)).expect("room");
    assert_eq!([&a, &b, &c].map(|(name, _)| all.is_made(name)), [true, false, true]);
    assert!(all.size(&a.0) + all.size(&c.0) <= bound);
}

#[test]
fn one_makes_a_text_and_others_know() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let cache = DenseCache::open(dir.path(), u64::MAX).expect("ours");
    let (name, _) = make(&library());
    assert!(!cache.is_being_made(&name));
    let lock = cache.lock(&name).expect("ours").expect("nobody else has it");
    assert!(cache.is_being_made(&name) && cache.lock(&name).expect("ours").is_none());
    drop(lock);
    assert!(!cache.is_being_made(&name));
    assert_eq!(fs::read_dir(dir.path()).expect("ours").count(), 0, "the lock's file goes with it");
    // A process that was killed leaves the file, and nobody has its lock.
    fs::write(dir.path().join(format!(".{name}.lock")), "").expect("ours");
    assert!(!cache.is_being_made(&name) && cache.lock(&name).expect("ours").is_some());
}

#[test]
fn an_order_is_filled_once() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let cache = DenseCache::open(dir.path(), u64::MAX).expect("ours");
    let bytes = library();
    let key = Key::of_content(blake3::hash(&bytes).as_bytes());
    let layout = DenseLayout { trampolines: 0x1000_0000, ..layout() };
    let order = DenseOrder { key, options: options(), layout };
    order.fill(&cache, &bytes).expect("room");
    let entry = cache.load(&order.name()).expect("it is there");
    let own = Text::parse(&bytes).expect("an ELF file");
    assert_eq!(entry.map, own.dense(options()).build(0, &order.layout).expect("near enough").map);
    // What cannot be made is not tried again.
    let far = DenseOrder { layout: DenseLayout { trampolines: 1 << 40, ..order.layout.clone() }, ..order };
    far.fill(&cache, &bytes).expect("it is noted");
    assert!(cache.is_refused(&far.name()) && !cache.is_made(&far.name()));
}

#[test]
fn who_has_mapped_the_file_is_told_what_was_read() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let bytes = library();
    let of_text = AtomicUsize::new(0);
    let text = Text::parse(&bytes).expect("an ELF file").telling(|part| {
        assert!(bytes.as_ptr_range().contains(&part.as_ptr()));
        of_text.fetch_add(part.len(), Ordering::Relaxed);
    });
    assert_eq!(of_text.load(Ordering::Relaxed), 0, "nothing was analysed yet");
    let told = text.dense(options()).build(BIAS, &layout()).expect("near enough");
    assert!(of_text.load(Ordering::Relaxed) > bytes.len() / 4);
    // Nobody's being told changes anything.
    let (name, plain) = make(&bytes);
    let folder = tempfile::tempdir().expect("a folder");
    let cache = DenseCache::open(folder.path(), u64::MAX).expect("a cache");
    cache.store(&name, &told).expect("room");
    check(&cache, &name, &plain);
}
