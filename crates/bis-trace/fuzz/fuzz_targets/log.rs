//! Any bytes as a log (after a header that is good): it is opened and read to its end, or refused.
//!
//! Checksums keep most inputs from the inside of a chunk; that is the matter of the other target.
#![no_main]

use std::fs;

use bis_trace::{Trace, Writer, types::DomainId};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let dir = tempfile::tempdir().expect("a temporary folder");
    Writer::create(dir.path()).and_then(|writer| writer.finish()).expect("an empty trace");
    let log = dir.path().join("log");
    let mut content = fs::read(&log).expect("the log");
    content.extend(bytes);
    fs::write(&log, content).expect("the log");
    let Ok(trace) = Trace::open(dir.path()) else { return };
    let streams: Vec<DomainId> = trace.chunk_stats().iter().map(|stats| stats.stream).collect();
    for stream in streams {
        let events = trace.events(stream).filter(Result::is_ok).count() as u64;
        assert!(events <= trace.event_count(stream));
    }
});
