//! What the program wrote to its standard output and error, written again in the recorded order.
//!
//! Domains replay in parallel, so their output comes in any order. The trace's meta stream has the one order
//! of all echoes; what comes before its turn waits in memory and, beyond [`HELD_BYTES_MAX`], in a temporary
//! file that has no name.
//!
//! What is written is a beginning of what the program wrote, whatever a cut or damaged trace lacks. So the
//! order ends with the first turn that does not become whole: nothing after it is shown, although domains
//! that go on may hand it in. Bytes of events that the order does not have (its entries were lost, and who
//! knows which others) are not shown either.
//!
//! This is not a stream library: there is one writer, and a reader that went away ends the replay quietly.

use std::{
    collections::HashMap,
    fs::File,
    io,
    os::{fd::AsFd, unix::fs::FileExt},
    sync::{Mutex, PoisonError},
};

use bis_trace::types::{DomainId, EventSeq, StandardStream};

/// Bytes that wait in memory for their turn; more go to a file.
const HELD_BYTES_MAX: u64 = 32 << 20;

/// One turn of the order.
struct Turn {
    seq: u64,
    domain: DomainId,
    done: bool,
}

enum Part {
    Memory(Vec<u8>),
    Spilled { offset: u64, len: usize },
}

/// What became of bytes that were handed in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reader {
    There,
    /// The pipe that we write to is closed.
    Gone,
}

/// Whose bytes those are that are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Source {
    pub event: EventSeq,
    pub domain: DomainId,
    pub stream: StandardStream,
}

/// Where the bytes go: our own standard output and error, somebody who listens, or a test's buffer.
pub(crate) type Sink = Box<dyn FnMut(Source, &[u8]) -> io::Result<()> + Send>;

struct State {
    /// The turns by their numbers, as far as all of them may still come.
    order: Vec<Turn>,
    next: usize,
    /// By event: stream and bytes, of turns that are not first.
    early: HashMap<u64, Vec<(StandardStream, Part)>>,
    held_bytes: u64,
    spill: Option<(File, u64)>,
    sink: Sink,
}

pub(crate) struct Echo {
    state: Mutex<State>,
}

/// The turns to come, as (event, domain) in any order.
fn turns(order: impl Iterator<Item = (u64, DomainId)>) -> Vec<Turn> {
    let mut order: Vec<Turn> = order.map(|(seq, domain)| Turn { seq, domain, done: false }).collect();
    order.sort_by_key(|turn| turn.seq);
    order.dedup_by_key(|turn| turn.seq);
    order
}

/// Writes to our own standard output or error, past the buffers of the standard library.
pub(crate) fn to_our_own() -> Sink {
    Box::new(|Source { stream, .. }, mut bytes| {
        let (out, err) = (io::stdout(), io::stderr());
        let target = match stream {
            StandardStream::Output => out.as_fd(),
            StandardStream::Error => err.as_fd(),
        };
        while !bytes.is_empty() {
            match rustix::io::write(target, bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(rustix::io::Errno::INTR) => {}
                // Somebody left the descriptor in non-blocking mode.
                Err(rustix::io::Errno::AGAIN) => {
                    let mut wanted = [rustix::event::PollFd::new(&target, rustix::event::PollFlags::OUT)];
                    rustix::event::poll(&mut wanted, None)?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    })
}

impl State {
    /// Writes bytes of the turn that is next.
    fn write(&mut self, stream: StandardStream, bytes: &[u8]) -> io::Result<Reader> {
        let Turn { seq, domain, .. } = self.order[self.next];
        match (self.sink)(Source { event: EventSeq(seq), domain, stream }, bytes) {
            Ok(()) => Ok(Reader::There),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Reader::Gone),
            Err(error) => Err(error),
        }
    }

    fn hold(&mut self, bytes: &[u8]) -> io::Result<Part> {
        if self.held_bytes + bytes.len() as u64 <= HELD_BYTES_MAX {
            self.held_bytes += bytes.len() as u64;
            return Ok(Part::Memory(bytes.to_vec()));
        }
        if self.spill.is_none() {
            self.spill = Some((tempfile::tempfile()?, 0));
        }
        let (file, end) = self.spill.as_mut().expect("was just made");
        let offset = *end;
        file.write_all_at(bytes, offset)?;
        *end += bytes.len() as u64;
        Ok(Part::Spilled { offset, len: bytes.len() })
    }

    fn write_held(&mut self, seq: u64) -> io::Result<Reader> {
        for (stream, part) in self.early.remove(&seq).unwrap_or_default() {
            let bytes = match part {
                Part::Memory(bytes) => {
                    self.held_bytes -= bytes.len() as u64;
                    bytes
                }
                Part::Spilled { offset, len } => {
                    let mut bytes = vec![0; len];
                    let (file, _) = self.spill.as_ref().expect("a spilled part has its file");
                    file.read_exact_at(&mut bytes, offset)?;
                    bytes
                }
            };
            if self.write(stream, &bytes)? == Reader::Gone {
                return Ok(Reader::Gone);
            }
        }
        Ok(Reader::There)
    }

    /// Writes what is there for the turns that are next, up to the first that is not done.
    fn go_on(&mut self) -> io::Result<Reader> {
        while let Some(turn) = self.order.get(self.next) {
            let (seq, done) = (turn.seq, turn.done);
            if self.write_held(seq)? == Reader::Gone {
                return Ok(Reader::Gone);
            }
            if !done {
                break;
            }
            self.next += 1;
        }
        if self.early.is_empty() {
            // Nothing of the file is needed any more: it shrinks to nothing.
            self.spill = None;
        }
        Ok(Reader::There)
    }

    fn place(&self, seq: u64) -> Option<usize> {
        self.order.binary_search_by_key(&seq, |turn| turn.seq).ok()
    }

    /// Nothing after this turn will be written.
    fn end_with(&mut self, at: usize) {
        for turn in self.order.drain(at + 1..) {
            for (_, part) in self.early.remove(&turn.seq).unwrap_or_default() {
                if let Part::Memory(bytes) = part {
                    self.held_bytes -= bytes.len() as u64;
                }
            }
        }
    }
}

impl Echo {
    pub(crate) fn new(order: impl Iterator<Item = (u64, DomainId)>, sink: Sink) -> Echo {
        let order = turns(order);
        let state = State { order, next: 0, early: HashMap::new(), held_bytes: 0, spill: None, sink };
        Echo { state: Mutex::new(state) }
    }

    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Some bytes of the echo of event `seq`; call [`Echo::done`] after its last.
    ///
    /// # Errors
    /// What writing to our output, or to the temporary file, fails with.
    pub(crate) fn put(&self, seq: u64, stream: StandardStream, bytes: &[u8]) -> io::Result<Reader> {
        self.with(|state| {
            let Some(at) = state.place(seq) else { return Ok(Reader::There) };
            if at == state.next {
                if state.write_held(seq)? == Reader::Gone {
                    return Ok(Reader::Gone);
                }
                return state.write(stream, bytes);
            }
            let part = state.hold(bytes)?;
            state.early.entry(seq).or_default().push((stream, part));
            Ok(Reader::There)
        })
    }

    /// The echo of event `seq` is whole.
    pub(crate) fn done(&self, seq: u64) -> io::Result<Reader> {
        self.with(|state| {
            let Some(at) = state.place(seq) else { return Ok(Reader::There) };
            state.order[at].done = true;
            state.go_on()
        })
    }

    /// The domain will hand in nothing any more. If it has a turn left, that is where the output ends.
    pub(crate) fn leave(&self, domain: DomainId) {
        self.with(|state| {
            let left = |turn: &Turn| turn.domain == domain && !turn.done;
            if let Some(at) = state.order[state.next..].iter().position(left) {
                state.end_with(state.next + at);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const A: DomainId = DomainId(1);
    const B: DomainId = DomainId(2);

    type Out = Arc<Mutex<Vec<u8>>>;

    fn echo(order: &[(u64, DomainId)]) -> (Echo, Out) {
        let out = Out::default();
        let copy = out.clone();
        let sink: Sink = Box::new(move |_, bytes| {
            copy.lock().unwrap().extend_from_slice(bytes);
            Ok(())
        });
        (Echo::new(order.iter().copied(), sink), out)
    }

    fn say(echo: &Echo, seq: u64, text: &str) {
        for half in [&text[..1], &text[1..]] {
            assert_eq!(echo.put(seq, StandardStream::Output, half.as_bytes()).unwrap(), Reader::There);
        }
        assert_eq!(echo.done(seq).unwrap(), Reader::There);
    }

    fn check(out: &Out, expected: &str) {
        assert_eq!(String::from_utf8(out.lock().unwrap().clone()).unwrap(), expected);
    }

    #[test]
    fn early_output_waits_for_its_turn() {
        let (echo, out) = echo(&[(3, A), (1, B), (7, A)]);
        say(&echo, 7, "seven ");
        say(&echo, 3, "three ");
        check(&out, "");
        say(&echo, 1, "one ");
        check(&out, "one three seven ");
    }

    #[test]
    fn a_part_that_came_early_stays_before_the_rest() {
        let (echo, out) = echo(&[(1, A), (2, B)]);
        echo.put(2, StandardStream::Output, b"x").unwrap();
        say(&echo, 1, "first ");
        echo.put(2, StandardStream::Output, b"y").unwrap();
        echo.done(2).unwrap();
        check(&out, "first xy");
    }

    #[test]
    fn the_output_ends_where_one_of_a_domain_is_missing() {
        let (echo, out) = echo(&[(1, A), (2, B), (3, A), (4, B)]);
        say(&echo, 2, "two ");
        say(&echo, 4, "four ");
        say(&echo, 1, "one ");
        check(&out, "one two ");
        echo.put(3, StandardStream::Output, b"thr").unwrap();
        echo.leave(A);
        echo.leave(B);
        check(&out, "one two thr");
        let state = echo.state.lock().unwrap();
        assert!(state.early.is_empty() && state.held_bytes == 0);
    }

    #[test]
    fn a_part_of_a_turn_is_shown_when_its_time_comes() {
        let (echo, out) = echo(&[(1, A), (2, B), (3, A)]);
        echo.put(2, StandardStream::Output, b"tw").unwrap();
        say(&echo, 3, "three ");
        echo.leave(B);
        say(&echo, 1, "one ");
        check(&out, "one tw");
    }

    #[test]
    fn what_has_no_place_in_the_order_is_not_shown() {
        let (echo, out) = echo(&[(1, A), (9, A)]);
        say(&echo, 5, "five ");
        say(&echo, 9, "nine ");
        say(&echo, 1, "one ");
        say(&echo, 10, "ten ");
        check(&out, "one nine ");
    }

    #[test]
    fn much_early_output_goes_through_a_file() {
        let (echo, out) = echo(&[(1, A), (2, B)]);
        let part = vec![b'x'; 1 << 20];
        for _ in 0..40 {
            echo.put(2, StandardStream::Output, &part).unwrap();
        }
        assert!(echo.state.lock().unwrap().spill.is_some());
        echo.done(2).unwrap();
        say(&echo, 1, "ab");
        let out = out.lock().unwrap();
        assert_eq!((out.len(), &out[..3]), (2 + (40 << 20), &b"abx"[..]));
        let state = echo.state.lock().unwrap();
        assert!(state.spill.is_none() && state.held_bytes == 0);
    }

    #[test]
    fn a_closed_pipe_is_not_an_error() {
        let sink: Sink = Box::new(|_, _| Err(io::ErrorKind::BrokenPipe.into()));
        let echo = Echo::new([(1, A)].into_iter(), sink);
        assert_eq!(echo.put(1, StandardStream::Output, b"x").unwrap(), Reader::Gone);
    }
}
