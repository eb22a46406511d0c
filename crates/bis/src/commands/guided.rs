//! `bis run --gdb`: gdb on a program that is being recorded.
//!
//! Two processes: this one records, and lets the program go on only as far as it is told to; a `bis replay`
//! beside it has gdb and a replica of the trace so far, and asks for more where that ends. They speak over a
//! socket, in lines ([`Onward`] as a line, one way; how the program stands, the other).
//!
//! gdb has the terminal. The program writes to where bis does. It reads what bis has for its standard input,
//! unless gdb reads there.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, BufRead, BufReader, IsTerminal, Write},
    os::fd::{AsFd, AsRawFd, OwnedFd},
    os::unix::net::UnixStream,
    process::{Command, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use bis_debug::{Advance, LiveProgram, Onward, Source};
use bis_record::{Guide, Guiding, Points, Stand, Watched, Wish};
use bis_trace::{
    event::MemWrite,
    types::{Addr, Tid},
};
use bis_tracee::companion::{self, Terminal};

use crate::{
    failure::{Failure, Result},
    output,
};

/// How often it is looked whether somebody wants the program to stop, or whether it is still there.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How long a program runs at most where it cannot be stopped at what is looked for.
const ROUGH: Duration = Duration::from_millis(50);

/// What the recorder tells.
const FURTHER: &str = "further";
const ENDED: &str = "ended";

/// What it is told beside how the program goes on.
const INTERRUPT: &str = "interrupt";
const FREE: &str = "free";
const WRITE: &str = "write";

/// An onward as a line.
fn line_of(onward: &Onward) -> String {
    let mut words = vec!["run".to_owned()];
    words.extend(onward.step.map(|tid| format!("s{tid}")));
    words.extend(onward.breakpoints.iter().map(|addr| format!("b{addr:x}")));
    let watch = |(addr, len, reads): &(Addr, u8, bool)| format!("w{addr:x}:{len}:{}", u8::from(*reads));
    words.extend(onward.watches.iter().map(watch));
    words.extend(onward.each_event.then(|| "e".to_owned()));
    words.extend(onward.is_rough.then(|| "r".to_owned()));
    words.join(" ")
}

/// The wish in a line, and whether the program is to stop after some time. None: there is none in it.
fn wish_of(line: &str) -> Option<(Wish, bool)> {
    let mut words = line.split_whitespace();
    match words.next()? {
        FREE => return Some((Wish::Free, false)),
        WRITE => {
            let tid = Tid(words.next()?.parse().ok()?);
            let addr = Addr(u64::from_str_radix(words.next()?, 16).ok()?);
            let digits = words.next()?.as_bytes();
            let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
            let data = digits.chunks(2).map(byte).collect::<Option<Vec<u8>>>()?;
            return Some((Wish::Write(tid, MemWrite { addr, data }), false));
        }
        "run" => {}
        _ => return None,
    }
    let (mut points, mut step, mut is_rough) = (Points::default(), None, false);
    for word in words {
        let (kind, rest) = word.split_at_checked(1)?;
        match kind {
            "s" => step = Some(Tid(rest.parse().ok()?)),
            "b" => points.breakpoints.push(Addr(u64::from_str_radix(rest, 16).ok()?)),
            "w" => {
                let mut parts = rest.split(':');
                let addr = Addr(u64::from_str_radix(parts.next()?, 16).ok()?);
                let (len, reads) = (parts.next()?.parse().ok()?, parts.next()? == "1");
                points.watches.push(Watched { addr, len, reads });
            }
            "e" => points.each_event = true,
            "r" => is_rough = true,
            _ => return None,
        }
    }
    Some((step.map_or(Wish::Run(points.clone()), |tid| Wish::Step(tid, points)), is_rough))
}

/// The recorder's side: gdb is at the other end.
pub(super) struct Guided(Arc<Link>);

struct Link {
    commands: Vec<OsString>,
    /// How much memory checkpoints may take, bytes.
    memory: Option<u64>,
    /// What gdb reads where there is no terminal: our standard input, as it was.
    input: Mutex<Option<OwnedFd>>,
    terminal: Mutex<Option<Terminal>>,
    to: Mutex<UnixStream>,
    wishes: Mutex<Receiver<Wish>>,
    asked: Arc<Asked>,
    /// The other end, until its process has started.
    other: Mutex<Option<UnixStream>>,
    companion: Mutex<Option<JoinHandle<()>>>,
}

/// Whether the program is to stop.
#[derive(Debug, Default)]
struct Asked {
    now: AtomicBool,
    at: Mutex<Option<Instant>>,
}

impl Asked {
    fn set(&self, now: bool, at: Option<Instant>) {
        *self.at.lock().unwrap_or_else(PoisonError::into_inner) = at;
        self.now.store(now, Ordering::Release);
    }

    fn get(&self) -> bool {
        let is_over = |at: &Instant| Instant::now() >= *at;
        let at = self.at.lock().unwrap_or_else(PoisonError::into_inner);
        self.now.load(Ordering::Acquire) || at.as_ref().is_some_and(is_over)
    }
}

impl Guided {
    /// gdb is started when the program stands at its begin, and executes these files. Its checkpoints may
    /// take so much memory, bytes.
    pub(super) fn new(commands: Vec<OsString>, memory: Option<u64>) -> Result<Guided> {
        let what = |error| Failure::of("speak to a debugger".to_owned(), error);
        let (own, other) = UnixStream::pair().map_err(what)?;
        let terminal = Terminal::own();
        let input = io::stdin().as_fd().try_clone_to_owned().map_err(what)?;
        if terminal.is_none() || io::stdin().is_terminal() {
            // What is typed is for gdb: the program reads nothing.
            let nothing = File::open("/dev/null").map_err(what)?;
            rustix::stdio::dup2_stdin(&nothing).map_err(|error| what(error.into()))?;
        }
        let asked = Arc::<Asked>::default();
        let (tell, wishes) = mpsc::channel();
        let reading = BufReader::new(own.try_clone().map_err(what)?);
        let told = Arc::clone(&asked);
        let thread = thread::Builder::new().name("guide".into());
        thread.spawn(move || listen(reading, &tell, &told)).map_err(what)?;
        Ok(Guided(Arc::new(Link {
            commands,
            memory,
            input: Mutex::new(Some(input)),
            terminal: Mutex::new(terminal),
            to: Mutex::new(own),
            wishes: Mutex::new(wishes),
            asked,
            other: Mutex::new(Some(other)),
            companion: Mutex::default(),
        })))
    }

    pub(super) fn guide(&self) -> Guide {
        Guide::new(Arc::clone(&self.0) as Arc<dyn Guiding>)
    }

    /// Waits until gdb has ended.
    pub(super) fn wait(self) {
        // Where the recording has failed, nobody has said so.
        self.0.ended();
        let companion = self.0.companion.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(companion) = companion {
            let _ = companion.join();
        }
    }
}

/// Hears what the session wants, until it is gone.
fn listen(from: impl BufRead, tell: &Sender<Wish>, asked: &Asked) {
    for line in from.lines().map_while(io::Result::ok) {
        if line == INTERRUPT {
            asked.set(true, None);
        } else if let Some((wish, is_rough)) = wish_of(&line) {
            asked.set(false, is_rough.then(|| Instant::now() + ROUGH));
            if tell.send(wish).is_err() {
                return;
            }
        }
    }
    // The program stops, and hears that there is nobody ([`Link::next`]).
    asked.set(true, None);
}

impl Link {
    fn say(&self, word: &str) -> io::Result<()> {
        let mut to = self.to.lock().unwrap_or_else(PoisonError::into_inner);
        to.write_all(format!("{word}\n").as_bytes())
    }

    /// Starts gdb with a session on the trace so far, on a thread of its own.
    fn start(&self, other: UnixStream, stand: &Stand) -> io::Result<()> {
        let terminal = self.terminal.lock().unwrap_or_else(PoisonError::into_inner).take();
        let input = self.input.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["replay", "--quiet", "--live-fd"]).arg(other.as_raw_fd().to_string());
        command.args(["--domain".into(), stand.domain.0.to_string()]);
        if let Some(memory) = self.memory {
            command.args(["--checkpoint-memory".into(), memory.to_string()]);
        }
        for file in &self.commands {
            command.arg("-x").arg(file);
        }
        command.arg(&stand.trace_dir);
        match &terminal {
            Some(terminal) => {
                command.stdin(terminal.file()?).stdout(terminal.file()?).stderr(terminal.file()?);
            }
            None => drop(command.stdin(input.map_or(Stdio::null(), Stdio::from))),
        }
        let run = move || {
            let run = companion::run(command, terminal.as_ref(), Some(other.as_fd()), &|| true);
            if let Err(error) = run {
                output::note(&format!("bis: failed to start a debugger: {error}"));
            }
        };
        let thread = thread::Builder::new().name("debugger".into()).spawn(run)?;
        *self.companion.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        Ok(())
    }
}

impl Guiding for Link {
    fn next(&self, stand: &Stand, is_there: &dyn Fn() -> bool) -> Wish {
        let other = self.other.lock().unwrap_or_else(PoisonError::into_inner).take();
        let told = match other {
            Some(other) => self.start(other, stand),
            None => self.say(FURTHER),
        };
        if let Err(error) = told {
            output::note(&format!("bis: the debugger is gone: {error}"));
            return Wish::Kill;
        }
        let wishes = self.wishes.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match wishes.recv_timeout(LOOK_EVERY) {
                Ok(wish) => return wish,
                Err(RecvTimeoutError::Timeout) if is_there() => {}
                Err(RecvTimeoutError::Timeout) => return Wish::Free,
                Err(RecvTimeoutError::Disconnected) => return Wish::Kill,
            }
        }
    }

    fn is_asking(&self) -> bool {
        self.asked.get()
    }

    fn ended(&self) {
        let _ = self.say(ENDED);
    }
}

/// The session's side: the recorder is at the other end of this descriptor.
pub(super) fn program(fd: i32) -> Result<LiveProgram> {
    let what = |error| Failure::of("speak to the recorder".to_owned(), error);
    let stream = UnixStream::from(OwnedFd::from(bis_tracee::sys::adopt_fd(fd).map_err(what)?));
    stream.set_read_timeout(Some(LOOK_EVERY)).map_err(what)?;
    Ok(LiveProgram::new(Box::new(Recorder { from: BufReader::new(stream), line: String::new() })))
}

/// See [`program`].
struct Recorder {
    from: BufReader<UnixStream>,
    /// What has been read of a line.
    line: String,
}

impl Recorder {
    fn say(&mut self, line: &str) -> io::Result<()> {
        self.from.get_mut().write_all(format!("{line}\n").as_bytes())
    }
}

impl Recorder {
    /// Waits for word of the program.
    fn hear(&mut self, is_asked: &dyn Fn() -> bool) -> io::Result<Advance> {
        let mut has_asked = false;
        loop {
            match self.from.read_line(&mut self.line) {
                Ok(0) => return Ok(Advance::Ended),
                Ok(_) => {
                    let line = std::mem::take(&mut self.line);
                    return Ok(if line.trim_end() == ENDED { Advance::Ended } else { Advance::Further });
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if !has_asked && is_asked() {
                has_asked = true;
                self.say(INTERRUPT)?;
            }
        }
    }
}

impl Source for Recorder {
    fn go_on(&mut self, onward: &Onward, is_asked: &dyn Fn() -> bool) -> io::Result<Advance> {
        self.say(&line_of(onward))?;
        self.hear(is_asked)
    }

    fn write(&mut self, tid: Tid, addr: Addr, bytes: &[u8]) -> io::Result<Advance> {
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        self.say(&format!("{WRITE} {tid} {addr:x} {digits}"))?;
        self.hear(&|| false)
    }

    fn let_go(&mut self) -> io::Result<()> {
        self.say(FREE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_is_what_is_heard() {
        let onward = Onward {
            breakpoints: vec![Addr(0x1234), Addr(0xffff_ffff_ff60_0000)],
            watches: vec![(Addr(0x10), 8, true), (Addr(0x7fff_0001), 1, false)],
            step: Some(Tid(812)),
            each_event: true,
            is_rough: true,
        };
        let points = Points {
            breakpoints: onward.breakpoints.clone(),
            watches: vec![
                Watched { addr: Addr(0x10), len: 8, reads: true },
                Watched { addr: Addr(0x7fff_0001), len: 1, reads: false },
            ],
            each_event: true,
        };
        assert_eq!(wish_of(&line_of(&onward)), Some((Wish::Step(Tid(812), points), true)));
        let nothing = Onward {
            breakpoints: Vec::new(),
            watches: Vec::new(),
            step: None,
            each_event: false,
            is_rough: false,
        };
        assert_eq!(wish_of(&line_of(&nothing)), Some((Wish::Run(Points::default()), false)));
        assert_eq!(wish_of("free"), Some((Wish::Free, false)));
        let write = Wish::Write(Tid(3), MemWrite { addr: Addr(0x4000), data: vec![0, 0xff] });
        assert_eq!(wish_of("write 3 4000 00ff"), Some((write, false)));
        for line in ["", "walk", "run x", "run b", "run w1:2", "run é"] {
            assert_eq!(wish_of(line), None, "{line}");
        }
    }
}
