//! What is written is read again, whatever is cut off; and nothing that a file says is a panic.

use std::fs;

use proptest::prelude::*;

use super::*;

const DOMAIN: DomainId = DomainId(3);

fn registers() -> impl Strategy<Value = Registers> {
    // Mostly a few words change.
    prop::collection::vec((0..REGISTER_COUNT, any::<u64>()), 0..6).prop_map(|changes| {
        let mut words = Registers::default().words();
        for (index, value) in changes {
            words[index] = value;
        }
        Registers::from_words(words)
    })
}

/// Each stretch leads to an event of its own.
fn written(stretches: &[Vec<Registers>]) -> (Vec<u8>, Vec<usize>) {
    let dir = tempfile::tempdir().unwrap();
    let writer = StepsWriter::create(dir.path(), (EventSeq(7), EventSeq(99))).unwrap();
    let path = dir.path().join(STEPS);
    let mut ends = vec![usize::try_from(fs::metadata(&path).unwrap().len()).unwrap()];
    for (event, states) in (10..).zip(stretches) {
        let mut stretch = Stretch::default();
        states.iter().for_each(|regs| stretch.push(regs));
        writer.push(DOMAIN, Tid(5), EventSeq(event), &stretch).unwrap();
        ends.push(usize::try_from(fs::metadata(&path).unwrap().len()).unwrap());
    }
    (fs::read(&path).unwrap(), ends)
}

/// As they are read: without what cannot be compared, and without repetitions.
fn kept(states: &[Registers]) -> Vec<Registers> {
    let mut states: Vec<Registers> = states.iter().map(comparable).collect();
    states.dedup();
    states
}

fn parse(bytes: &[u8]) -> Result<AllSteps> {
    AllSteps::parse(bytes, PathBuf::from("steps"))
}

#[test]
fn more_states_than_a_frame_has_are_one_stretch() {
    let states: Vec<Registers> = (0..u64::try_from(STATES_MAX).unwrap() + 9)
        .map(|n| Registers { rip: n, rax: n * n, ..Registers::default() })
        .collect();
    let (bytes, _) = written(std::slice::from_ref(&states));
    let steps = parse(&bytes).unwrap();
    assert_eq!(steps.stretch(DOMAIN, EventSeq(10)).unwrap(), Some(Steps { tid: Tid(5), states }));
}

#[test]
fn a_folder_without_steps_has_none() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(AllSteps::open(dir.path()).unwrap(), None);
    fs::write(dir.path().join(STEPS), "something else").unwrap();
    assert!(AllSteps::open(dir.path()).is_err());
    fs::remove_file(dir.path().join(STEPS)).unwrap();
    fs::create_dir(dir.path().join(STEPS)).unwrap();
    assert!(AllSteps::open(dir.path()).is_err());
}

proptest! {
    #[test]
    fn what_is_written_is_read_and_what_is_cut_is_read_over(
        stretches in prop::collection::vec(prop::collection::vec(registers(), 1..20), 0..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let (bytes, ends) = written(&stretches);
        let len = ends[0] + cut.index(bytes.len() - ends[0] + 1);
        let steps = parse(&bytes[..len]).unwrap();
        prop_assert_eq!((steps.from, steps.to), (EventSeq(7), EventSeq(99)));
        let whole = ends.iter().skip(1).filter(|end| **end <= len).count();
        prop_assert_eq!(steps.events(DOMAIN).count(), whole);
        prop_assert_eq!(steps.is_cut, !ends.contains(&len));
        for (event, states) in (10..).zip(&stretches[..whole]) {
            let read = steps.stretch(DOMAIN, EventSeq(event)).unwrap().unwrap();
            prop_assert_eq!(read, Steps { tid: Tid(5), states: kept(states) });
        }
    }

    #[test]
    fn a_changed_byte_of_a_frame_is_damage(
        stretches in prop::collection::vec(prop::collection::vec(registers(), 1..20), 1..4),
        place in any::<prop::sample::Index>(),
    ) {
        let (mut bytes, ends) = written(&stretches);
        let at = ends[0] + place.index(bytes.len() - ends[0]);
        bytes[at] ^= 0x10;
        // A length that is wrong may lead behind the end: then it looks like one that is cut.
        prop_assert!(parse(&bytes).map_or(true, |steps| steps.is_cut));
    }

    #[test]
    fn no_bytes_are_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), content in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = parse(&[MAGIC.as_slice(), &bytes].concat());
        let _ = states(&content);
        // A frame with a right checksum, and anything in it.
        let compressed = zstd::bulk::compress(&content, 1).unwrap();
        let mut file = [MAGIC.as_slice(), &[0; 16]].concat();
        file.extend(u32::try_from(compressed.len()).unwrap().to_le_bytes());
        file.extend(xxh3_64(&compressed).to_le_bytes());
        file.extend(compressed);
        if let Ok(steps) = parse(&file) {
            let events: Vec<(DomainId, EventSeq)> = steps.stretches.keys().copied().collect();
            for (domain, event) in events {
                let _ = steps.stretch(domain, event);
            }
        }
    }
}
