//! The writer: what comes back is what was pushed, by many threads, over a disk that fills, and fast.

use std::{fs, os::unix::fs::PermissionsExt as _, time::Instant};

use super::*;
use crate::{
    codec::arbitrary::plain,
    event::{Event, EventKind, Lapse, Machine},
    ours::PatchedText,
    reader::{Ending, Trace},
    types::{Addr, DomainId, FileId, Registers, StandardStream, Tid},
};

fn machine() -> Meta {
    Meta::Machine(Box::new(Machine { bis_version: "1".into(), ..Machine::default() }))
}

fn end(writer: &Writer) -> Event {
    Event {
        seq: writer.next_seq(),
        tid: Tid(1),
        kind: EventKind::End,
        ticks: None,
        sums: vec![],
        lapse: Lapse::default(),
    }
}

fn read_all(trace: &Trace, domain: u32) -> Vec<Event> {
    trace.events(DomainId(domain)).collect::<Result<_>>().unwrap()
}

#[test]
fn many_streams_at_once() {
    const STREAMS: u32 = 5;
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("trace");
    let writer = Writer::create(&dir).unwrap();
    writer.meta(&machine()).unwrap();
    let push = |domain: u32| {
        let mut stream = writer.stream(DomainId(domain));
        let mut pushed = Vec::new();
        for step in 0..4000usize {
            let event = plain(writer.next_seq().0, &vec![domain as u8; step % 700]);
            if step % 1000 == 0 {
                let domain = DomainId(domain);
                writer
                    .meta(&Meta::Echo {
                        seq: event.seq,
                        domain,
                        stream: StandardStream::Output,
                        len: step as u64,
                    })
                    .unwrap();
            }
            stream.push(&event).unwrap();
            pushed.push(event);
        }
        pushed.push(end(&writer));
        stream.push(&pushed[4000]).unwrap();
        pushed
    };
    let pushed: Vec<Vec<Event>> = thread::scope(|scope| {
        let threads: Vec<_> = (1..=STREAMS).map(|domain| scope.spawn(move || push(domain))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    writer.meta(&Meta::End { exit_code: 3, seq: writer.next_seq() }).unwrap();
    writer.finish().unwrap();
    assert!(matches!(writer.meta(&machine()), Err(TraceError::Finished)));
    writer.finish().unwrap();

    let trace = Trace::open(&dir).unwrap();
    assert_eq!(trace.ended(), &Ending::Complete { exit_code: 3 });
    // Reading works from several threads, too.
    thread::scope(|scope| {
        for (domain, pushed) in (1..).zip(&pushed) {
            let trace = &trace;
            scope.spawn(move || {
                assert_eq!(&read_all(trace, domain), pushed);
                assert_eq!(trace.event_count(DomainId(domain)), 4001);
            });
        }
    });
    assert_eq!(trace.echoes().len(), 4 * STREAMS as usize);
    assert!(trace.echoes().is_sorted_by_key(|echo| echo.seq));
    let stats = trace.chunk_stats();
    assert_eq!(stats.len(), 1 + STREAMS as usize);
    assert!(stats[1].chunk_count > 4 && stats[1].compressed_len < stats[1].raw_len / 4, "{:?}", stats[1]);
    assert_eq!(trace.events(DomainId(77)).count(), 0);
}

#[test]
fn only_the_owner_may_look() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("trace");
    let writer = Writer::create(&dir).unwrap();
    writer.meta(&machine()).unwrap();
    writer.files().keep_bytes(b"x").unwrap();
    writer.finish().unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&dir), 0o700);
    assert_eq!(mode(&dir.join(FILES)), 0o700);
    assert_eq!(mode(&dir.join(LOG)), 0o600);
    assert_eq!(mode(&dir.join(INDEX)), 0o600);
    assert!(!dir.join(RESERVE).exists());
    for file in fs::read_dir(dir.join(FILES)).unwrap() {
        assert_eq!(mode(&file.unwrap().path()), 0o600);
    }
}

#[test]
fn a_used_folder_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let writer = Writer::create(dir.path()).unwrap();
    drop(writer);
    assert!(matches!(Writer::create(dir.path()), Err(TraceError::NotEmpty(_))));
    fs::write(dir.path().join("file"), "").unwrap();
    assert!(matches!(Writer::create(&dir.path().join("file")), Err(TraceError::NotEmpty(_))));
    assert!(matches!(Writer::create(&dir.path().join("not/there")), Err(TraceError::Create { .. })));
}

/// A writer that is never finished: all that was handed over is there.
#[test]
fn dropped_is_like_killed() {
    let dir = tempfile::tempdir().unwrap();
    let writer = Writer::create(dir.path()).unwrap();
    writer.meta(&machine()).unwrap();
    let mut stream = writer.stream(DomainId(1));
    for _ in 0..10 {
        stream.push(&plain(writer.next_seq().0, b"abc")).unwrap();
    }
    drop(writer);
    drop(stream);
    assert!(!dir.path().join(INDEX).exists());
    let trace = Trace::open(dir.path()).unwrap();
    assert_eq!(trace.ended(), &Ending::Cut { why: "the recorder was killed".into() });
    assert_eq!(read_all(&trace, 1).len(), 10);
}

/// What an event may need of the meta stream is in the log before it, wherever the log is cut.
#[test]
fn meta_comes_before_what_needs_it() {
    let dir = tempfile::tempdir().unwrap();
    let writer = Writer::create(dir.path()).unwrap();
    writer.meta(&machine()).unwrap();
    let mut stream = writer.stream(DomainId(1));
    for round in 0..8u8 {
        writer.files().keep_bytes(&[round]).unwrap();
        stream.push(&plain(writer.next_seq().0, &[round])).unwrap();
        stream.flush().unwrap();
    }
    drop((stream, writer));
    let log = fs::read(dir.path().join(LOG)).unwrap();
    for len in 0..log.len() {
        fs::write(dir.path().join(LOG), &log[..len]).unwrap();
        let Ok(trace) = Trace::open(dir.path()) else { continue };
        let (files, events) = (trace.metas().count() - 1, read_all(&trace, 1).len());
        assert!(files >= events, "{files} files for {events} events in {len} bytes");
    }
}

/// A disk with so many bytes left, and so many more once there is room.
struct SmallDisk {
    log: File,
    left: usize,
    reserve: usize,
}

impl Sink for SmallDisk {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let part = bytes.len().min(self.left);
        self.log.write_all(&bytes[..part])?;
        self.left -= part;
        if part < bytes.len() { Err(io::Error::from(io::ErrorKind::StorageFull)) } else { Ok(()) }
    }

    fn require_reader(&mut self, _: u32) -> io::Result<()> {
        Ok(())
    }

    fn cut(&mut self, len: u64) -> io::Result<()> {
        use std::io::Seek as _;
        self.log.set_len(len)?;
        self.log.seek(io::SeekFrom::Start(len)).map(drop)
    }

    fn make_room(&mut self) {
        self.left += self.reserve;
    }

    fn finish(&mut self, whole: bool) {
        assert!(!whole);
    }
}

#[test]
fn a_full_disk_ends_the_trace_and_says_so() {
    for reserve in [0, 4096] {
        let dir = tempfile::tempdir().unwrap();
        let mut log = new_file(&dir.path().join(LOG)).unwrap();
        log.write_all(&chunk::log_header(chunk::READER_FORMAT_MIN)).unwrap();
        let writer =
            Writer::with_sink(dir.path(), Box::new(SmallDisk { log, left: 20_000, reserve })).unwrap();
        writer.meta(&machine()).unwrap();
        let mut stream = writer.stream(DomainId(1));
        // Bytes that do not compress.
        let mut noise = 1u64;
        let mut failure = None;
        for round in 0..1_000_000u64 {
            let data: Vec<u8> = (0..1000)
                .map(|_| {
                    noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    noise.to_be_bytes()[0]
                })
                .collect();
            if let Err(error) = stream.push(&plain(writer.next_seq().0, &data)) {
                failure = Some((round, error));
                break;
            }
            if round % 5 == 4 {
                let _ = stream.flush();
            }
        }
        let (round, error) = failure.unwrap();
        assert!(round >= 15, "{round}");
        assert!(matches!(error, TraceError::Write { .. }), "{error}");
        assert!(matches!(writer.meta(&machine()), Err(TraceError::Write { .. })));
        drop(stream);
        assert!(matches!(writer.finish(), Err(TraceError::Write { .. })));
        let trace = Trace::open(dir.path()).unwrap();
        let why = if reserve > 0 { "the disk was full" } else { "the recorder was killed" };
        assert_eq!(trace.ended(), &Ending::Cut { why: why.into() });
        assert!(read_all(&trace, 1).len() >= 15);
    }
}

/// Takes so many bytes at a time, and has no room for every other write, or from some byte on.
struct Full {
    bytes: Vec<u8>,
    is_full: bool,
    end: usize,
}

impl io::Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.is_full = !self.is_full;
        if self.is_full || self.bytes.len() >= self.end {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let part = bytes.len().min(100);
        self.bytes.extend(&bytes[..part]);
        Ok(part)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_disk_that_is_full_for_a_moment_loses_nothing() {
    let bytes: Vec<u8> = (0..350).map(|n: u32| n.to_le_bytes()[0]).collect();
    let mut disk = Full { bytes: Vec::new(), is_full: false, end: usize::MAX };
    write_patiently(&mut disk, &bytes, Duration::from_secs(60)).unwrap();
    assert_eq!(disk.bytes, bytes);
    let mut disk = Full { bytes: Vec::new(), is_full: false, end: 200 };
    let error = write_patiently(&mut disk, &bytes, Duration::from_millis(50)).unwrap_err();
    assert_eq!((error.kind(), disk.bytes.len()), (io::ErrorKind::StorageFull, 200));
}

/// The queue's bound holds back whoever writes faster than the disk.
#[test]
fn the_queue_is_bounded() {
    struct Slow;
    impl Sink for Slow {
        fn append(&mut self, _: &[u8]) -> io::Result<()> {
            thread::sleep(Duration::from_millis(20));
            Ok(())
        }
        fn require_reader(&mut self, _: u32) -> io::Result<()> {
            Ok(())
        }
        fn cut(&mut self, _: u64) -> io::Result<()> {
            Ok(())
        }
        fn make_room(&mut self) {}
        fn finish(&mut self, _: bool) {}
    }
    let dir = tempfile::tempdir().unwrap();
    let writer = Writer::with_sink(dir.path(), Box::new(Slow)).unwrap();
    let mut stream = writer.stream(DomainId(1));
    let begin = Instant::now();
    // 40 chunks of 1 MiB; 16 fit into the queue.
    for _ in 0..40 {
        stream.push(&plain(writer.next_seq().0, &vec![0; 1 << 20])).unwrap();
    }
    assert!(begin.elapsed() >= Duration::from_millis(20 * 20), "{:?}", begin.elapsed());
    // One that is larger than the whole queue goes through alone.
    stream.push(&plain(writer.next_seq().0, &vec![0; 20 << 20])).unwrap();
    stream.flush().unwrap();
    writer.finish().unwrap();
}

#[test]
fn too_large_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let writer = Writer::create(dir.path()).unwrap();
    let mut stream = writer.stream(DomainId(1));
    let huge = plain(1, &vec![0; usize::try_from(codec::EVENT_BYTES_MAX).unwrap() + 1]);
    assert!(matches!(stream.push(&huge), Err(TraceError::TooLarge { .. })));
    stream.push(&plain(2, b"x")).unwrap();
    drop(stream);
    writer.finish().unwrap();
    assert_eq!(read_all(&Trace::open(dir.path()).unwrap(), 1).len(), 1);
}

/// Prints what a push costs; the bound is loose, for unoptimized builds on busy machines.
#[test]
fn a_push_is_cheap() {
    const COUNT: u32 = 200_000;
    let dir = tempfile::tempdir().unwrap();
    let writer = Writer::create(dir.path()).unwrap();
    let mut stream = writer.stream(DomainId(1));
    let events: Vec<Event> = (1..=64).map(|seq| plain(seq, b"sixteen bytes...")).collect();
    let begin = Instant::now();
    for step in 0..COUNT {
        stream.push(&events[step as usize % 64]).unwrap();
    }
    let each = begin.elapsed() / COUNT;
    drop(stream);
    writer.finish().unwrap();
    println!("a push took {each:?}");
    assert!(each < Duration::from_micros(20), "{each:?}");
}

/// What was pushed into streams that are idle since reaches the log without another push.
#[test]
fn old_buffers_are_flushed() {
    let dir = tempfile::tempdir().unwrap();
    let writer = Writer::create(dir.path()).unwrap();
    writer.meta(&machine()).unwrap();
    let mut streams: Vec<_> = [2, 1, 3].map(|domain| writer.stream(DomainId(domain))).into();
    for stream in &mut streams {
        writer.files().keep_bytes(&[7]).unwrap();
        stream.push(&plain(writer.next_seq().0, b"abc")).unwrap();
    }
    writer.flush_old().unwrap();
    let pushed_by_now =
        |writer: &Writer| lock(&writer.inner.streams).values().all(|b| lock(b).since.is_none());
    assert!(!pushed_by_now(&writer), "nothing is old yet");
    // Instead of waiting: one came earlier than it did.
    let earlier = Instant::now().checked_sub(CHUNK_AGE_MAX).unwrap();
    lock(&lock(&writer.inner.streams)[&2]).since = Some(earlier);
    writer.flush_old().unwrap();
    assert!(pushed_by_now(&writer));
    // An entry of the meta stream alone.
    writer.meta(&Meta::Note { seq: writer.next_seq(), text: "n".into() }).unwrap();
    lock(&writer.inner.meta).since = Some(earlier);
    writer.flush_old().unwrap();
    // The background thread is done when all is in the log; nobody else writes any more.
    writer.inner.close(false);
    let trace = Trace::open(dir.path()).unwrap();
    assert!(trace.metas().any(|meta| matches!(meta, Meta::Note { .. })));
    for domain in 1..=3 {
        assert_eq!(read_all(&trace, domain).len(), 1);
    }
    // The meta stream first, then the domains in the order of their numbers.
    let order: Vec<u32> = chunk_streams(&fs::read(dir.path().join(LOG)).unwrap());
    assert_eq!(order, [0, 0, 1, 2, 3, 0]);
    // A stream that is gone is not looked at again.
    drop(streams);
    assert!(lock(&writer.inner.streams).is_empty());
}

/// Somebody who pushes and somebody who flushes, at once: the stream's order holds.
#[test]
fn flushing_keeps_the_order() {
    let dir = tempfile::tempdir().unwrap();
    let writer = Writer::create(dir.path()).unwrap();
    writer.meta(&machine()).unwrap();
    let mut stream = writer.stream(DomainId(1));
    let pushing = std::sync::atomic::AtomicBool::new(true);
    thread::scope(|scope| {
        scope.spawn(|| {
            while pushing.load(Ordering::Relaxed) {
                // Everything counts as old.
                for buffer in lock(&writer.inner.streams).values() {
                    let mut buffer = lock(buffer);
                    if let Some(since) = &mut buffer.since {
                        *since = since.checked_sub(CHUNK_AGE_MAX).unwrap();
                    }
                }
                writer.flush_old().unwrap();
                thread::yield_now();
            }
        });
        for _ in 0..3000 {
            writer.files().keep_bytes(b"x").unwrap();
            stream.push(&plain(writer.next_seq().0, &[0; 300])).unwrap();
        }
        pushing.store(false, Ordering::Relaxed);
    });
    drop((stream, writer));
    let trace = Trace::open(dir.path()).unwrap();
    let events = read_all(&trace, 1);
    assert_eq!(events.len(), 3000);
    assert!(events.is_sorted_by_key(|event| event.seq));
    assert!(trace.chunk_stats()[1].chunk_count > 4, "the two did not meet");
}

/// The stream of each chunk of a log, in its order.
fn chunk_streams(mut log: &[u8]) -> Vec<u32> {
    log = &log[LOG_HEADER_BYTES..];
    let mut streams = Vec::new();
    while let Some(header) = log.first_chunk() {
        let chunk = chunk::Chunk::from_bytes(header).unwrap();
        streams.push(chunk.stream);
        log = &log[usize::try_from(chunk.total_len()).unwrap()..];
    }
    streams
}

/// What was read again is in the trace once, and events are as they were pushed; only then it asks for newer
/// readers.
#[test]
fn content_that_repeats_is_written_once() {
    let dir = tempfile::tempdir().unwrap();
    let writer = Writer::create(dir.path()).unwrap();
    let mut stream = writer.stream(DomainId(1));
    let mut noise = 1u64;
    let page: Vec<u8> = (0..3 * 4096 + 700)
        .map(|_| {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // Not so random that it would go there at once.
            (noise >> 56) as u8 % 100
        })
        .collect();
    let reader = || {
        let header: [u8; LOG_HEADER_BYTES] =
            std::fs::read(dir.path().join(LOG)).unwrap()[..LOG_HEADER_BYTES].try_into().unwrap();
        assert!(matches!(chunk::check_log_header(&header), chunk::LogHeader::Good { .. }));
        u32::from_le_bytes(header[12..16].try_into().unwrap())
    };
    let mut pushed = Vec::new();
    for round in 0..42 {
        let seq = writer.next_seq();
        let event = if round == 40 {
            let set =
                PatchedText { addr: Addr(1), len: 2, file: FileId(0), offset: 3, set: FileId(1), at: 4 };
            let mut event = plain(seq.0, &page);
            event.outcome_mut().unwrap().ours().patched.push(set);
            event
        } else if round % 2 == 0 {
            plain(seq.0, &page)
        } else {
            // As the hooks' log has it: something before it, and behind it.
            let log = [&[round; 16][..], &page, &[1; 24], &page[..4096]].concat();
            let kind = EventKind::Hooked { alone: true, log: log.into() };
            Event { seq, tid: Tid(7), kind, ticks: None, sums: vec![], lapse: Lapse::default() }
        };
        let start = 16 + page.len() + 24;
        let content = [16..16 + page.len(), start..start + 4096];
        let content = if round % 2 == 0 { vec![] } else { content.to_vec() };
        stream.push_with(event.clone(), content).unwrap();
        stream.flush().unwrap();
        writer.flush().unwrap();
        pushed.push(event);
        let needed = match round {
            0 => chunk::READER_FORMAT_MIN,
            40.. => chunk::FORMAT_PATCHED,
            _ => chunk::FORMAT_FOLDED,
        };
        assert_eq!(reader(), needed);
        // A reader has, while it is written, all that was flushed.
        let trace = Trace::open(dir.path()).unwrap();
        let read: Vec<Event> = trace.events(DomainId(1)).map(Result::unwrap).collect();
        assert_eq!(read, pushed);
    }
    drop(stream);
    writer.finish().unwrap();
    assert_eq!(std::fs::metadata(dir.path().join("blocks")).unwrap().len(), page.len() as u64);
    assert!(std::fs::metadata(dir.path().join(LOG)).unwrap().len() < 2 * page.len() as u64);
    std::fs::remove_file(dir.path().join("blocks")).unwrap();
    let trace = Trace::open(dir.path()).unwrap();
    let read: Vec<_> = trace.events(DomainId(1)).collect();
    assert!(read.len() == 2 && read[0].is_ok(), "the first time, it is in the log");
    let error = read[1].as_ref().unwrap_err().to_string();
    assert!(error.contains("blocks"), "{error}");
}

#[test]
fn a_long_log_of_hooked_calls_keeps_its_place_and_what_repeats_in_it_is_written_once() {
    let dir = tempfile::tempdir().unwrap();
    let writer = Writer::create(dir.path()).unwrap();
    let mut stream = writer.stream(DomainId(1));
    let page: Vec<u8> = (0..4096u32).map(|n| ((n * n) >> 5) as u8).collect();
    let mut pushed = Vec::new();
    for round in 0..12u8 {
        let seq = writer.next_seq();
        let kind = match round % 3 {
            0 => EventKind::SyscallEnter { nr: 0, entry: Registers::default() },
            1 => EventKind::Hooked { alone: true, log: vec![round; 64].into() },
            _ => {
                let log = [&[round; 16][..], &page.repeat(CHUNK_RAW_BYTES / page.len() + 1)].concat();
                EventKind::Hooked { alone: true, log: log.into() }
            }
        };
        let content = match &kind {
            EventKind::Hooked { log, .. } if log.len() >= CHUNK_RAW_BYTES => {
                std::iter::once(16..log.len()).collect()
            }
            _ => vec![],
        };
        let event = Event { seq, tid: Tid(7), kind, ticks: None, sums: vec![], lapse: Lapse::default() };
        stream.push_with(event.clone(), content).unwrap();
        pushed.push(event);
    }
    drop(stream);
    writer.finish().unwrap();
    let trace = Trace::open(dir.path()).unwrap();
    let read: Vec<Event> = trace.events(DomainId(1)).map(Result::unwrap).collect();
    assert_eq!(read, pushed);
    assert!(std::fs::metadata(dir.path().join(LOG)).unwrap().len() < CHUNK_RAW_BYTES as u64 / 8);
}

#[test]
fn a_long_event_that_breaks_a_rule_ends_the_log_with_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let writer = Writer::create(dir.path()).unwrap();
    let mut stream = writer.stream(DomainId(1));
    let kind = EventKind::Hooked { alone: true, log: vec![1; CHUNK_RAW_BYTES].into() };
    let event =
        Event { seq: EventSeq(0), tid: Tid(7), kind, ticks: None, sums: vec![], lapse: Lapse::default() };
    stream.push_with(event, vec![]).unwrap();
    drop(stream);
    let error = writer.finish().unwrap_err().to_string();
    assert!(error.contains("numbered from 1"), "{error}");
}
