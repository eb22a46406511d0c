//! What the program wrote to its standard output and error, line by line, each with the events that wrote it:
//! the way from a line of output to the moment of the recording in which it was written.
//!
//! The trace does not have the bytes of such writes, only their order and lengths: a replay finds them in the
//! program's memory. So this replays all that was selected, as `replay -a` does, and listens.

use std::{
    collections::BTreeMap,
    mem,
    sync::{Arc, Mutex, PoisonError},
};

use bis_trace::{
    Trace,
    types::{DomainId, EventSeq, StandardStream},
};
use memchr::memmem;

use crate::{Options, ReplayError, Summary, echo::Source, replay_to};

/// A line that is longer comes in pieces of this length, bytes.
const LINE_BYTES_MAX: usize = 64 << 10;

/// The event, and its domain, that wrote a byte of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Writer {
    pub event: EventSeq,
    pub domain: DomainId,
}

/// One line, without its newline. The last one of a stream may have had none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    pub stream: StandardStream,
    pub text: Vec<u8>,
    /// Where the bytes of each write begin; the first is 0.
    writers: Vec<(usize, Writer)>,
}

impl Line {
    fn begun(stream: StandardStream) -> Line {
        Line { stream, text: Vec::new(), writers: Vec::new() }
    }

    /// What wrote the byte at this offset. An offset behind the end stands for the last byte.
    ///
    /// # Panics
    /// Never: a line has at least one writer.
    #[must_use]
    pub fn writer(&self, offset: usize) -> Writer {
        let behind = self.writers.partition_point(|(begin, _)| *begin <= offset);
        self.writers[behind.max(1) - 1].1
    }

    /// Where `text` comes first, bytes from the begin of the line.
    #[must_use]
    pub fn find(&self, text: &[u8]) -> Option<usize> {
        memmem::find(&self.text, text)
    }
}

/// Makes lines of what is written, each stream's for itself.
struct Lines<F> {
    begun: BTreeMap<StandardStream, Line>,
    each: F,
}

impl<F: FnMut(Line)> Lines<F> {
    fn hear(&mut self, source: Source, bytes: &[u8]) {
        let Source { event, domain, stream } = source;
        let writer = Writer { event, domain };
        for mut part in bytes.split_inclusive(|byte| *byte == b'\n') {
            while !part.is_empty() {
                let line = self.begun.entry(stream).or_insert_with(|| Line::begun(stream));
                let (piece, rest) = part.split_at(part.len().min(LINE_BYTES_MAX - line.text.len()));
                part = rest;
                if line.writers.last().is_none_or(|(_, last)| *last != writer) {
                    line.writers.push((line.text.len(), writer));
                }
                line.text.extend_from_slice(piece);
                let is_ended = line.text.pop_if(|last| *last == b'\n').is_some();
                if is_ended || line.text.len() == LINE_BYTES_MAX {
                    (self.each)(mem::replace(line, Line::begun(stream)));
                    self.begun.remove(&stream);
                }
            }
        }
    }

    /// Nothing more is written.
    fn end(&mut self) {
        for line in mem::take(&mut self.begun).into_values() {
            (self.each)(line);
        }
    }
}

/// Replays what is selected, and gives each line that the program wrote to `each`, in the recorded order of
/// the lines' ends. Nothing is written to our own output; [`Options::quiet`] does not matter.
///
/// # Errors
/// Those of [`crate::replay`]; the lines before the failure have been given.
pub fn lines(
    trace: &Trace,
    options: &Options,
    each: impl FnMut(Line) + Send + 'static,
) -> Result<Summary, ReplayError> {
    let lines = Arc::new(Mutex::new(Lines { begun: BTreeMap::new(), each }));
    let heard = lines.clone();
    let sink = Box::new(move |source, bytes: &[u8]| {
        heard.lock().unwrap_or_else(PoisonError::into_inner).hear(source, bytes);
        Ok(())
    });
    let outcome = replay_to(trace, options, true, sink);
    lines.lock().unwrap_or_else(PoisonError::into_inner).end();
    outcome
}

#[cfg(test)]
mod tests {
    use bis_trace::types::StandardStream::{Error, Output};

    use super::*;

    fn lines(written: &[(u64, StandardStream, &str)]) -> Vec<Line> {
        let found = Arc::new(Mutex::new(Vec::new()));
        let kept = found.clone();
        let mut lines = Lines { begun: BTreeMap::new(), each: move |line| kept.lock().unwrap().push(line) };
        for (event, stream, text) in written {
            let source = Source { event: EventSeq(*event), domain: DomainId(1), stream: *stream };
            lines.hear(source, text.as_bytes());
        }
        lines.end();
        found.lock().unwrap().clone()
    }

    fn texts(lines: &[Line]) -> Vec<(StandardStream, &str)> {
        lines.iter().map(|line| (line.stream, std::str::from_utf8(&line.text).unwrap())).collect()
    }

    #[test]
    fn lines_are_put_together_for_each_stream() {
        let found = lines(&[
            (1, Output, "one\ntw"),
            (2, Error, "bad"),
            (3, Output, "o\n\n"),
            (4, Error, " thing\n"),
            (5, Output, "rest"),
        ]);
        assert_eq!(
            texts(&found),
            [(Output, "one"), (Output, "two"), (Output, ""), (Error, "bad thing"), (Output, "rest")]
        );
    }

    #[test]
    fn each_byte_has_its_writer() {
        let found = lines(&[(7, Error, "worker: "), (8, Error, "corrupted"), (9, Error, "\n")]);
        let event = |text: &str| found[0].writer(found[0].find(text.as_bytes()).unwrap()).event.0;
        assert_eq!((event("worker"), event("corrupted"), event("upted")), (7, 8, 8));
        assert_eq!(found[0].writer(1000).event.0, 9);
        assert_eq!(found[0].find(b"nothing"), None);
    }

    #[test]
    fn a_long_line_comes_in_pieces() {
        let long = "x".repeat(LINE_BYTES_MAX * 2 + 5) + "\n";
        let found = lines(&[(1, Output, &long[..100]), (2, Output, &long[100..])]);
        let lengths: Vec<usize> = found.iter().map(|line| line.text.len()).collect();
        assert_eq!(lengths, [LINE_BYTES_MAX, LINE_BYTES_MAX, 5]);
    }
}
