//! The reader against logs that were cut, flipped, shuffled and forged: it never panics, never passes off
//! damage as sound, and still gives what is whole.

use std::{
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt, fs::symlink},
};

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::{
    chunk::CHUNK_HEADER_BYTES,
    codec::arbitrary::{event, plain},
    event::{Event, EventKind, Lapse},
    folder::INDEX,
    index::{load, scan},
    log::Writer,
    types::Tid,
};

/// Three domains of three chunks of two events each, and a last one.
fn small_trace() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let writer = Writer::create(dir.path()).unwrap();
    writer.meta(&Meta::Machine(Box::default())).unwrap();
    let mut streams: Vec<_> = (1..=3).map(|domain| writer.stream(DomainId(domain))).collect();
    for _ in 0..3 {
        for stream in &mut streams {
            for _ in 0..2 {
                let seq = writer.next_seq();
                writer.meta(&Meta::Note { seq, text: format!("before {seq}") }).unwrap();
                stream.push(&plain(seq.0, seq.to_string().as_bytes())).unwrap();
            }
            stream.flush().unwrap();
        }
    }
    for stream in &mut streams {
        let seq = writer.next_seq();
        stream
            .push(&Event {
                seq,
                tid: Tid(1),
                kind: EventKind::End,
                ticks: None,
                sums: vec![],
                lapse: Lapse::default(),
            })
            .unwrap();
    }
    drop(streams);
    writer.meta(&Meta::End { exit_code: 0, seq: writer.next_seq() }).unwrap();
    writer.finish().unwrap();
    dir
}

/// All that a trace gives, and whether it says that this is all and well.
#[derive(PartialEq, Debug)]
struct Content {
    metas: Vec<Meta>,
    events: Vec<Vec<Event>>,
    well: bool,
}

fn content(dir: &Path) -> Option<Content> {
    let trace = Trace::open(dir).ok()?;
    let mut well = matches!(trace.ended(), Ending::Complete { .. });
    let mut events = Vec::new();
    for domain in 1..=3 {
        let mut of_domain = Vec::new();
        for event in trace.events(DomainId(domain)) {
            match event {
                Ok(event) => of_domain.push(event),
                Err(_) => well = false,
            }
        }
        events.push(of_domain);
    }
    Some(Content { metas: trace.metas().cloned().collect(), events, well })
}

fn is_part(part: &Content, whole: &Content) -> bool {
    part.events.iter().zip(&whole.events).all(|(part, whole)| whole.starts_with(part))
}

#[test]
fn a_trace_that_grows_is_followed() {
    let dir = tempfile::tempdir().unwrap();
    let writer = Writer::create(dir.path()).unwrap();
    let mut stream = writer.stream(DomainId(1));
    let note = |text: &str| Meta::Note { seq: EventSeq(0), text: text.into() };
    writer.meta(&note("first")).unwrap();
    stream.push(&plain(1, b"one")).unwrap();
    writer.flush().unwrap();
    let trace = Trace::open(dir.path()).unwrap();
    let mut events = trace.events(DomainId(1));
    let mut next = || events.next().map(|event| event.unwrap().seq.0);
    assert_eq!((next(), next(), next()), (Some(1), None, None));
    assert!(!trace.follow().unwrap());
    let first = trace.metas().next().unwrap();
    for round in 0..3 {
        stream.push(&plain(2 + round, b"more")).unwrap();
        stream.push(&plain(12 + round, b"more")).unwrap();
        let mut other = writer.stream(DomainId(10 + u32::try_from(round).unwrap()));
        other.push(&plain(100, b"another")).unwrap();
        writer.meta(&note("more")).unwrap();
        // What is not written yet is not there.
        assert_eq!(next(), None);
        writer.flush().unwrap();
        assert!(trace.follow().unwrap() && !trace.follow().unwrap());
        assert_eq!((next(), next(), next()), (Some(2 + round), Some(12 + round), None));
        assert_eq!(trace.events(DomainId(10 + u32::try_from(round).unwrap())).count(), 1);
    }
    assert_eq!(trace.metas().filter(|meta| matches!(meta, Meta::Note { .. })).count(), 4);
    assert_eq!(first, &note("first"));
    // A chunk of which only a part is there yet.
    stream.push(&plain(50, b"last")).unwrap();
    writer.flush().unwrap();
    let log = dir.path().join(LOG);
    let whole = fs::read(&log).unwrap();
    fs::write(&log, &whole[..whole.len() - 1]).unwrap();
    assert!(!trace.follow().unwrap());
    assert_eq!(next(), None);
    fs::write(&log, &whole).unwrap();
    assert!(trace.follow().unwrap());
    assert_eq!((next(), next()), (Some(50), None));
}

#[test]
fn index_and_scan_agree() {
    let dir = small_trace();
    let log = File::open(dir.path().join(LOG)).unwrap();
    let len = log.metadata().unwrap().len();
    let indexed = load(dir.path(), &log, len).unwrap();
    assert_eq!(indexed, scan(&log, len).unwrap());
    let with_index = content(dir.path()).unwrap();
    assert!(with_index.well);
    fs::remove_file(dir.path().join(INDEX)).unwrap();
    assert_eq!(content(dir.path()).unwrap(), with_index);
    // An index of another length of the log does not count.
    assert!(load(dir.path(), &log, len + 1).is_none());
}

#[test]
fn a_bad_index_is_no_harm() {
    let dir = small_trace();
    let whole = content(dir.path()).unwrap();
    let index = fs::read(dir.path().join(INDEX)).unwrap();
    for place in 0..index.len() {
        let mut bad = index.clone();
        bad[place] ^= 1 << (place % 8);
        fs::write(dir.path().join(INDEX), &bad).unwrap();
        assert_eq!(content(dir.path()).unwrap(), whole, "byte {place}");
        fs::write(dir.path().join(INDEX), &index[..place]).unwrap();
        assert_eq!(content(dir.path()).unwrap(), whole, "cut at {place}");
    }
}

#[test]
fn cut_at_every_byte() {
    let dir = small_trace();
    let whole = content(dir.path()).unwrap();
    let log = fs::read(dir.path().join(LOG)).unwrap();
    for index in [true, false] {
        if !index {
            fs::remove_file(dir.path().join(INDEX)).unwrap();
        }
        let mut event_count = 0;
        for len in 0..log.len() {
            fs::write(dir.path().join(LOG), &log[..len]).unwrap();
            match Trace::open(dir.path()) {
                Ok(trace) => {
                    let Ending::Cut { why } = trace.ended() else { panic!("{len}: {:?}", trace.ended()) };
                    assert!(
                        why.contains("killed") || why.contains("in the middle of a chunk"),
                        "{len}: {why}"
                    );
                    // No domain's iteration fails: what is there is whole.
                    let events = |domain| trace.events(DomainId(domain)).map(Result::unwrap).count();
                    let count: usize = (1..=3).map(events).sum();
                    assert!(count >= event_count, "{len}");
                    event_count = count;
                    assert!(is_part(&content(dir.path()).unwrap(), &whole));
                }
                Err(error) => {
                    assert!(matches!(error, TraceError::Empty { .. }), "{len}: {error}");
                    assert_eq!(event_count, 0);
                }
            }
        }
        assert_eq!(event_count, 21);
    }
}

#[test]
fn every_flipped_byte_is_noticed() {
    let dir = small_trace();
    let whole = content(dir.path()).unwrap();
    let log = fs::read(dir.path().join(LOG)).unwrap();
    for index in [true, false] {
        if !index {
            fs::remove_file(dir.path().join(INDEX)).unwrap();
        }
        for place in 0..log.len() {
            let mut bad = log.clone();
            bad[place] ^= 1 << (place % 8);
            fs::write(dir.path().join(LOG), &bad).unwrap();
            if let Some(content) = content(dir.path()) {
                assert!(!content.well, "byte {place}");
                assert!(is_part(&content, &whole), "byte {place}");
                // Only one chunk is hurt. Without it at most one domain loses anything.
                let hurt = content.events.iter().zip(&whole.events).filter(|(now, then)| now != then).count();
                assert!(hurt <= 1, "byte {place}: {hurt} domains");
            }
        }
    }
}

#[test]
fn a_missing_chunk_is_noticed_where_it_was() {
    let dir = small_trace();
    let log = fs::read(dir.path().join(LOG)).unwrap();
    let table = scan(&File::open(dir.path().join(LOG)).unwrap(), log.len() as u64).unwrap();
    // Cut the second chunk of domain 2 out, cleanly.
    let place = table.streams[&2][1];
    let (from, to) = (place.offset as usize, (place.offset + place.chunk.total_len()) as usize);
    fs::write(dir.path().join(LOG), [&log[..from], &log[to..]].concat()).unwrap();
    let trace = Trace::open(dir.path()).unwrap();
    let events: Vec<_> = trace.events(DomainId(2)).collect();
    assert_eq!(events.len(), 3);
    assert!(events[..2].iter().all(Result::is_ok));
    let missing = events[2].as_ref().unwrap_err();
    assert!(matches!(missing, TraceError::MissingChunk { stream: DomainId(2), ordinal: 1 }), "{missing}");
    assert!(trace.events(DomainId(1)).all(|event| event.is_ok()));
}

#[test]
fn what_is_no_trace() {
    let dir = tempfile::tempdir().unwrap();
    let open = |content: &[u8]| {
        fs::write(dir.path().join(LOG), content).unwrap();
        Trace::open(dir.path()).unwrap_err()
    };
    assert!(matches!(open(b""), TraceError::Empty { .. }));
    assert!(matches!(open(&chunk::log_header(chunk::READER_FORMAT_MIN)), TraceError::Empty { .. }));
    assert!(matches!(open(b"#!/bin/sh"), TraceError::NotATrace(_)));
    assert!(matches!(open(&[0; 4096]), TraceError::NotATrace(_)));
    assert!(matches!(Trace::open(&dir.path().join("none")), Err(TraceError::Read { .. })));
    assert!(matches!(Trace::open(&dir.path().join(LOG)), Err(TraceError::NotATrace(_))));
    let mut newer = chunk::log_header(chunk::READER_FORMAT_MIN);
    newer[8] = 10;
    newer[12] = 9;
    let sum = xxhash_rust::xxh3::xxh3_64(&newer[..16]);
    newer[16..].copy_from_slice(&sum.to_le_bytes());
    let text = open(&newer).to_string();
    assert!(
        text.contains("format 10 and needs a reader of format 9") && text.contains("newer bis"),
        "{text}"
    );
    newer[8] = 1;
    assert!(matches!(open(&newer), TraceError::Damaged { offset: 0, .. }));
    let mut older = chunk::log_header(chunk::READER_FORMAT_MIN);
    (older[8], older[12]) = (1, 1);
    let sum = xxhash_rust::xxh3::xxh3_64(&older[..16]);
    older[16..].copy_from_slice(&sum.to_le_bytes());
    let text = open(&older).to_string();
    assert!(text.contains("another format version, 1") && text.contains("record again"), "{text}");
    let mut bad = chunk::log_header(chunk::READER_FORMAT_MIN).to_vec();
    bad.extend([0; 100]);
    assert!(matches!(open(&bad), TraceError::Damaged { offset: 24, .. }));
    fs::remove_file(dir.path().join(LOG)).unwrap();
    assert!(matches!(Trace::open(dir.path()), Err(TraceError::NotATrace(_))));
    symlink("/etc/passwd", dir.path().join(LOG)).unwrap();
    assert!(Trace::open(dir.path()).is_err());
}

/// A program that changes a stream's name, in the index or in the log, can make the checksums right again:
/// what is missing is noticed all the same.
#[test]
fn a_chunk_of_another_stream_is_missed() {
    let dir = tempfile::tempdir().unwrap();
    let writer = Writer::create(dir.path()).unwrap();
    let domain = DomainId(1);
    let mut stream = writer.stream(domain);
    for _ in 0..3 {
        stream.push(&plain(writer.next_seq().0, b"x")).unwrap();
        stream.flush().unwrap();
    }
    drop(stream);
    writer.meta(&Meta::DomainEnd { domain, seq: writer.next_seq(), event_count: 3 }).unwrap();
    writer.meta(&Meta::End { exit_code: 0, seq: writer.next_seq() }).unwrap();
    writer.finish().unwrap();
    assert_eq!(Trace::open(dir.path()).unwrap().ended(), &Ending::Complete { exit_code: 0 });

    let trace = Trace::open(dir.path()).unwrap();
    let last = *trace.table().streams[&1].last().unwrap();
    let other = Chunk { stream: 7, ordinal: 0, ..last.chunk };
    let (mut log, mut index) =
        (fs::read(dir.path().join(LOG)).unwrap(), fs::read(dir.path().join(INDEX)).unwrap());
    let (at, end) = (last.offset as usize, (last.offset + last.chunk.total_len()) as usize);
    let header = other.to_bytes(&log[at + CHUNK_HEADER_BYTES..end]);
    let entry = index.windows(CHUNK_HEADER_BYTES).position(|part| part == &log[at..at + CHUNK_HEADER_BYTES]);
    let (entry, sum) = (entry.unwrap(), index.len() - 8);
    index[entry..entry + CHUNK_HEADER_BYTES].copy_from_slice(&header);
    let right = xxhash_rust::xxh3::xxh3_64(&index[..sum]);
    index[sum..].copy_from_slice(&right.to_le_bytes());
    fs::write(dir.path().join(INDEX), &index).unwrap();
    let trace = Trace::open(dir.path()).unwrap();
    assert_eq!(trace.ended(), &Ending::Complete { exit_code: 0 });
    assert_eq!(trace.events(domain).count(), 3);

    log[at..at + CHUNK_HEADER_BYTES].copy_from_slice(&header);
    fs::write(dir.path().join(LOG), &log).unwrap();
    let why = "domain 1 has 2 events, and had 3".to_owned();
    assert_eq!(Trace::open(dir.path()).unwrap().ended(), &Ending::Cut { why });
}

/// A thread that has not heard of the recording's failure says what it has to say behind it.
#[test]
fn what_follows_the_cut_does_not_hide_it() {
    let dir = tempfile::tempdir().unwrap();
    let writer = Writer::create(dir.path()).unwrap();
    let why = "the disk was full".to_owned();
    writer.meta(&Meta::Cut { why: why.clone() }).unwrap();
    writer.meta(&Meta::Note { seq: writer.next_seq(), text: "x".into() }).unwrap();
    writer.finish().unwrap();
    assert_eq!(Trace::open(dir.path()).unwrap().ended(), &Ending::Cut { why });
}

#[test]
fn a_recorder_without_memory_behind_the_end_of_its_log_is_told_of() {
    let dir = tempfile::tempdir().unwrap();
    let writer = Writer::create(dir.path()).unwrap();
    writer.meta(&Meta::End { exit_code: 0, seq: writer.next_seq() }).unwrap();
    writer.finish().unwrap();
    assert_eq!(Trace::open(dir.path()).unwrap().last_words_behind_end(), None);
    fs::write(dir.path().join(OsStr::from_bytes(LAST_WORDS.to_bytes())), "failed: no memory\n").unwrap();
    let trace = Trace::open(dir.path()).unwrap();
    assert_eq!(trace.ended(), &Ending::Complete { exit_code: 0 });
    assert_eq!(trace.last_words_behind_end().unwrap(), "failed: no memory");
}

/// A trace of format 2 is read, and does not say what is bis's own.
#[test]
fn older_traces_say_less() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace");
    let writer = Writer::create(&path).unwrap();
    writer.meta(&Meta::End { exit_code: 0, seq: writer.next_seq() }).unwrap();
    writer.finish().unwrap();
    assert!(Trace::open(&path).unwrap().says_ours());
    let mut log = fs::read(path.join(LOG)).unwrap();
    (log[8], log[12]) = (2, 2);
    let sum = xxhash_rust::xxh3::xxh3_64(&log[..16]);
    log[16..24].copy_from_slice(&sum.to_le_bytes());
    fs::write(path.join(LOG), log).unwrap();
    let trace = Trace::open(&path).unwrap();
    assert!(!trace.says_ours());
    assert_eq!(trace.ended(), &Ending::Complete { exit_code: 0 });
}

/// A chunk whose checksum is right and whose content is not what it says.
#[test]
fn a_forged_chunk_is_refused() {
    let mut messages = Vec::new();
    codec::write_event(&plain(1, b"x"), &mut messages).unwrap();
    let good = messages.len() as u32;
    let forge = |raw: &[u8], raw_len: u32, event_count: u32| {
        let payload = zstd::bulk::compress(raw, 1).unwrap();
        let payload_len = payload.len() as u32;
        let chunk = Chunk {
            stream: 1,
            ordinal: 0,
            first_seq: 1,
            last_seq: 1,
            event_count,
            raw_len,
            is_folded: false,
            payload_len,
        };
        let dir = tempfile::tempdir().unwrap();
        let log =
            [&chunk::log_header(chunk::READER_FORMAT_MIN)[..], &chunk.to_bytes(&payload), &payload].concat();
        fs::write(dir.path().join(LOG), log).unwrap();
        let trace = Trace::open(dir.path()).unwrap();
        trace.events(DomainId(1)).last().unwrap().is_ok()
    };
    assert!(forge(&messages, good, 1));
    assert!(!forge(&messages, good, 2));
    assert!(!forge(&messages, good, 0));
    assert!(!forge(&messages, good - 1, 1));
    assert!(!forge(&messages, good + 1, 1));
    assert!(!forge(&messages[..messages.len() - 1], good - 1, 1));
    assert!(!forge(&[0xff; 64], 64, 1));
    assert!(!forge(&[], chunk::RAW_BYTES_MAX, 1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn whatever_happens_to_a_log(
        events in proptest::collection::vec(event(), 1..20),
        flips in proptest::collection::vec(any::<(usize, u8)>(), 1..8),
        len in any::<usize>(),
        keep_index in any::<bool>(),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let writer = Writer::create(dir.path()).unwrap();
        writer.meta(&Meta::Machine(Box::default())).unwrap();
        let mut stream = writer.stream(DomainId(1));
        for (step, event) in events.iter().enumerate() {
            stream.push(event).unwrap();
            if step % 3 == 2 {
                stream.flush().unwrap();
            }
        }
        drop(stream);
        writer.meta(&Meta::End { exit_code: 0, seq: EventSeq(1) }).unwrap();
        writer.finish().unwrap();
        let trace = Trace::open(dir.path()).unwrap();
        prop_assert_eq!(&trace.events(DomainId(1)).collect::<Result<Vec<_>>>().unwrap(), &events);

        let log = fs::read(dir.path().join(LOG)).unwrap();
        let mut bad = log.clone();
        for (place, flip) in flips {
            let place = place % bad.len();
            bad[place] ^= flip;
        }
        bad.truncate(len % bad.len() * 2);
        if !keep_index {
            fs::remove_file(dir.path().join(INDEX)).unwrap();
        }
        fs::write(dir.path().join(LOG), &bad).unwrap();
        if let Ok(trace) = Trace::open(dir.path()) {
            let mut read = Vec::new();
            let mut well = matches!(trace.ended(), Ending::Complete { .. });
            for event in trace.events(DomainId(1)) {
                match event {
                    Ok(event) => read.push(event),
                    Err(_) => well = false,
                }
            }
            prop_assert!(events.starts_with(&read));
            prop_assert_eq!(well, bad == log);
        }
    }
}
