//! Random walks through recordings, forwards and backwards: the same place must always show the same program.
//!
//! Each program of `tests/walks/` is recorded, in the modes that its first lines name, and a session walks
//! through it: steps, steps back, runs to breakpoints and watchpoints in both directions, jumps to events and
//! to places where it was before, and interrupts. At each stop the registers of all tasks and sums of all
//! memory that the program may write are compared with what was found under the same name before, in any walk
//! through the same recording. Some moves are tried together with their inverse.
//!
//! `BIS_WALKS=N` makes N walks of each program in each mode, with the seeds 1 to N (default: 6). A failure
//! names its trace, which is kept, and its seed: `BIS_WALK_TRACE=DIR BIS_WALK_SEED=N` walks there again, with
//! `BIS_WALK_PID=N` in another of its processes. `BIS_WALK_LOG=1` prints the moves, and `BIS_LOG` what the
//! session does.
//!
//! The lines `modes:`, `which: forked` (walk through the first child that was forked) and `short` (few moves:
//! each is slow) are looked for in the comments of a program.

mod common;

use std::{
    collections::{BTreeMap, HashMap},
    ffi::OsStr,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use bis_debug::{
    Which,
    protocol::command::{Point, PointKind},
    session::{Report, Session, Stopper, Why, place::Position},
};
use bis_replay::World;
use bis_trace::{
    Trace,
    event::Base,
    types::{Addr, DomainId, EventSeq, Registers, Tid},
};
use bis_tracee::{checksum, maps::Mapping, place, xsave};
use common::Folder;
use libtest_mimic::{Failed, Trial};

const RECORD_LIMIT: Duration = Duration::from_secs(60);

/// A move that takes longer hangs.
const MOVE_LIMIT_S: u64 = 60;

/// Moves in a walk; and in one where each is slow.
const MOVES: usize = 14;
const MOVES_SHORT: usize = 5;

/// The most bytes of a mapping that are kept for their differences: its last ones.
const SHOWN_MAX: u64 = 1 << 15;

/// Walks of each recording where nothing else is asked for.
const WALKS: u64 = 6;

/// A mode in which the dynamic linker binds functions when they are called first. It saves the vector
/// registers on the stack then, by an `xsavec`, and what that writes is not the same each time: the processor
/// says which registers are in use, and whether zeros are may change when the kernel switches tasks. What it
/// leaves, and what lies below the lowest stack pointer, is left out of the sums of this mode. In all others
/// functions are bound when a program begins, and all of memory is compared.
const LAZY: &str = "lazy";

fn main() {
    if let Ok(filter) = std::env::var("BIS_LOG") {
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    }
    let mut trials = Vec::new();
    for source in sources() {
        let text = fs::read_to_string(&source).unwrap_or_default();
        let name = source.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let modes = word_after(&text, "modes:").unwrap_or("default").to_owned();
        for mode in modes.split_whitespace() {
            let (source, mode) = (source.clone(), mode.to_owned());
            trials.push(Trial::test(format!("{name}::{mode}"), move || trial(&source, &mode)));
        }
    }
    libtest_mimic::run(&common::arguments(), trials).exit();
}

fn sources() -> Vec<PathBuf> {
    let folder = common::tree().join("tests/walks");
    let mut sources: Vec<PathBuf> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    sources.sort();
    sources
}

/// What follows these words in a comment at the begin of a program.
fn word_after<'a>(text: &'a str, words: &str) -> Option<&'a str> {
    text.lines().take(6).find_map(|line| Some(line.split_once(words)?.1.trim()))
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn trial(source: &Path, mode: &str) -> Result<(), Failed> {
    let text = fs::read_to_string(source)?;
    let name = format!("walks-{}-{mode}", source.file_stem().unwrap_or_default().to_string_lossy());
    let folder = Folder::new(&name)?;
    let (argv, addresses) = match build(source, folder.path())? {
        Ok(built) => built,
        Err(missing) => {
            println!("{name}: not walked: there is no {missing} ({})", common::package_of(missing));
            folder.done();
            return Ok(());
        }
    };
    let kept = std::env::var_os("BIS_WALK_TRACE").map(PathBuf::from);
    let trace = kept.clone().unwrap_or_else(|| folder.path().join("trace"));
    if kept.is_none() {
        let extra: &[&str] = match mode {
            "no-hooks" => &["--no-hooks"],
            "software" => &["--ticks=software"],
            _ => &[],
        };
        let words: Vec<&OsStr> = argv.iter().map(AsRef::as_ref).collect();
        let mut record = common::record_command(&trace, extra, &words, folder.path());
        if mode != LAZY {
            record.env("LD_BIND_NOW", "1");
        }
        let step = common::run(record, "record", folder.path(), None, RECORD_LIMIT)?;
        if step.status != 0 {
            return Err(format!("the recording ends with status {}\n{}", step.status, step.shown()).into());
        }
    }
    let seeds = match number("BIS_WALK_SEED") {
        Some(seed) => seed..seed + 1,
        None => 1..1 + number("BIS_WALKS").unwrap_or(WALKS),
    };
    let moves = if text.lines().take(6).any(|line| line.ends_with("short")) { MOVES_SHORT } else { MOVES };
    let is_forked = word_after(&text, "which:") == Some("forked");
    let plan = Plan { trace: &trace, is_forked, is_exact: mode != LAZY, addresses: &addresses, moves };
    // Walks go on after one that has failed, where many were asked for.
    let mut failures = Vec::new();
    let count = seeds.end - seeds.start;
    let (began, mut done) = (Instant::now(), 0);
    let mut facts = Facts::default();
    if mode == "no-hooks" {
        // Without hooks, `cpuid` is the processor's own where it cannot be trapped: it says which processor
        // it is.
        let mut one = rustix::thread::CpuSet::new();
        one.set(rustix::thread::sched_getcpu());
        let _ = rustix::thread::sched_setaffinity(None, &one);
    }
    for seed in seeds {
        let watch = Watchdog::new(format!("{name}: seed {seed} hangs; the trace: {}", trace.display()));
        let mut log = String::new();
        let walked = walk(&plan, seed, &mut facts, &mut log, &watch);
        drop(watch);
        done += 1;
        if let Err(error) = walked {
            let again = format!("BIS_WALK_TRACE={} BIS_WALK_SEED={seed}", trace.display());
            failures.push(format!("{error}\nthe moves:\n{log}again: {again}, trial {name}"));
            if failures.len() as u64 >= number("BIS_WALK_FAILURES").unwrap_or(1) {
                break;
            }
        }
    }
    if count > WALKS {
        let (longest, what) = &facts.longest;
        println!(
            "{name}: {done} walks, {} failures, {} s; the longest move took {longest:.1?}: {what}",
            failures.len(),
            began.elapsed().as_secs()
        );
    }
    if failures.is_empty() {
        folder.done();
        return Ok(());
    }
    Err(failures.join("\n\n").into())
}

/// What is walked through, and how.
struct Plan<'a> {
    trace: &'a Path,
    is_forked: bool,
    /// All of memory is the same each time ([`LAZY`]).
    is_exact: bool,
    addresses: &'a Addresses,
    moves: usize,
}

/// How a program is started, and addresses of it that are worth a stop: those of functions and of data.
#[derive(Default)]
struct Addresses {
    code: Vec<u64>,
    data: Vec<u64>,
}

/// The inner error is a program that is not there.
fn build(
    source: &Path,
    folder: &Path,
) -> Result<Result<(Vec<std::ffi::OsString>, Addresses), &'static str>, Failed> {
    let with = |program: &'static str| {
        if !common::installed(program) {
            return Ok(Err(program));
        }
        Ok(Ok((vec![program.into(), source.into()], Addresses::default())))
    };
    match source.extension().and_then(OsStr::to_str) {
        Some("c") => {
            let program = folder.join("program");
            let mut gcc = Command::new("gcc");
            gcc.args(["-O1", "-g", "-pthread", "-no-pie", "-o"]).arg(&program).arg(source);
            let output = gcc.output().map_err(|e| format!("failed to start gcc: {e}"))?;
            if !output.status.success() {
                return Err(format!("failed to compile: {}", String::from_utf8_lossy(&output.stderr)).into());
            }
            let addresses = symbols(&program);
            Ok(Ok((vec![program.into()], addresses)))
        }
        Some("sh") => with("sh"),
        Some("py") => with("python3"),
        Some("js") => with("node"),
        _ => Err(format!("{} is no program", source.display()).into()),
    }
}

fn symbols(program: &Path) -> Addresses {
    let mut addresses = Addresses::default();
    let Ok(output) = Command::new("nm").arg(program).output() else { return addresses };
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let mut words = line.split_whitespace();
        let (Some(addr), Some(kind), Some(name)) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        let Ok(addr) = u64::from_str_radix(addr, 16) else { continue };
        if name.starts_with('_') || name.contains('.') || name.ends_with("tm_clones") {
            continue;
        }
        match kind {
            "T" | "t" => addresses.code.push(addr),
            "B" | "b" | "D" | "d" => addresses.data.push(addr & !7),
            _ => {}
        }
    }
    addresses
}

/// Stops a session where a move hangs; if that does not help, ends all.
struct Watchdog {
    moves: Arc<AtomicU64>,
    stopper: Arc<Mutex<Option<Stopper>>>,
}

impl Watchdog {
    fn new(text: String) -> Watchdog {
        let moves = Arc::new(AtomicU64::new(1));
        let copy = Arc::clone(&moves);
        let stopper = Arc::new(Mutex::new(None::<Stopper>));
        let its_stopper = Arc::clone(&stopper);
        thread::spawn(move || {
            let mut seen = (0, 0);
            loop {
                thread::sleep(Duration::from_secs(1));
                let now = copy.load(Ordering::SeqCst);
                if now == 0 {
                    return;
                }
                seen = if now == seen.0 { (now, seen.1 + 1) } else { (now, 0) };
                if seen.1 == MOVE_LIMIT_S
                    && let Ok(stopper) = its_stopper.lock()
                    && let Some(stopper) = &*stopper
                {
                    stopper.ask();
                }
                if seen.1 >= 2 * MOVE_LIMIT_S {
                    eprintln!("{text}");
                    std::process::abort();
                }
            }
        });
        Watchdog { moves, stopper }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.moves.store(0, Ordering::SeqCst);
    }
}

/// Numbers that only look random (splitmix64).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end.max(1) as u64).unwrap_or(0)
    }

    fn one_of<T: Clone>(&mut self, things: &[T]) -> Option<T> {
        let at = self.below(things.len());
        things.get(at).cloned()
    }
}

/// What the program is at some place.
#[derive(Clone, PartialEq, Debug)]
struct State {
    /// With a sum of the vector registers.
    tasks: BTreeMap<Tid, (Registers, u64)>,
    /// Start, end, and sum of what is in between.
    memory: Vec<(Addr, Addr, u64)>,
    /// With `BIS_WALK_LOG`, some of the bytes, for their differences.
    bytes: BTreeMap<Addr, Vec<u8>>,
}

/// What memory holds from here on that is the same each time where functions are bound [lazily](LAZY), if it
/// is not too much. None: all of it is, or nobody has looked. `used`: where a stack that is in this memory
/// begins.
fn what_repeats(session: &Session<'_>, start: Addr, end: Addr, used: Option<Addr>) -> Option<Vec<u8>> {
    const LEN_MAX: u64 = 16 << 20;
    if end - start > LEN_MAX {
        return None;
    }
    let len = usize::try_from(end - start).ok()?;
    let areas = xsave::areas(session.replica().memory(), start, len);
    if areas.is_empty() && used.is_none() {
        return None;
    }
    let mut bytes = session.read_memory(start, end - start);
    let at = |addr: Addr| usize::try_from(addr.clamp(start, end) - start).unwrap_or(0).min(len);
    bytes.resize(len, 0);
    areas.iter().for_each(|area| bytes[at(area.start)..at(area.end)].fill(0));
    Some(bytes)
}

fn is_loud() -> bool {
    std::env::var_os("BIS_WALK_LOG").is_some()
}

impl State {
    fn of(session: &mut Session<'_>, is_exact: bool) -> Result<State, String> {
        session.rest().map_err(|trouble| trouble.text())?;
        let replica = session.replica();
        let mut tasks = BTreeMap::new();
        for tid in session.threads() {
            let (registers, extended) = session.registers(tid).ok_or("a task has no registers")?;
            tasks.insert(tid, (registers, xxhash_rust::xxh3::xxh3_64(&place::extended(&extended))));
        }
        let mut ranges: Vec<Mapping> = Vec::new();
        for mapping in session.maps() {
            if mapping.prot & 2 == 0 {
                continue;
            }
            // The kernel merges neighbours or does not.
            match ranges.last_mut() {
                Some(last) if last.end == mapping.start && last.inode == 0 && mapping.inode == 0 => {
                    last.end = mapping.end;
                }
                _ => ranges.push(mapping),
            }
        }
        let first = session.threads().first().copied().ok_or("there are no tasks")?;
        let ours = replica.our_task(first).ok_or("a task has no number")?;
        let (mut memory, mut bytes) = (Vec::new(), BTreeMap::new());
        for range in &ranges {
            let within = tasks.values().map(|(registers, _): &(Registers, u64)| registers.sp());
            let used = within.filter(|rsp| !is_exact && (range.start..range.end).contains(rsp)).min();
            let start = used.unwrap_or(range.start);
            let is_all = is_exact || range.inode != 0;
            let repeats = if !is_all { what_repeats(session, start, range.end, used) } else { None };
            let sum = match &repeats {
                Some(bytes) => xxhash_rust::xxh3::xxh3_64(bytes),
                None => {
                    let (one, start) = (std::slice::from_ref(range), start.page_ceil());
                    let sum = checksum::sum_mapped(ours, replica.memory(), one, start, range.end - start);
                    sum.map_err(|error| error.to_string())?.sum
                }
            };
            memory.push((range.start, range.end, sum));
            if is_loud() {
                let shown = start.max(range.end.saturating_sub(SHOWN_MAX));
                let kept = repeats.map(|bytes| bytes[usize::try_from(shown - start).unwrap_or(0)..].to_vec());
                bytes.insert(shown, kept.unwrap_or_else(|| session.read_memory(shown, range.end - shown)));
            }
        }
        Ok(State { tasks, memory, bytes })
    }

    /// What is different, for people. None: nothing.
    fn difference(&self, other: &State) -> Option<String> {
        let mut text = String::new();
        for (tid, (registers, extended)) in &self.tasks {
            let Some((others, other_extended)) = other.tasks.get(tid) else {
                let _ = writeln!(text, "  task {tid} is not there any more");
                continue;
            };
            for ((name, one), (_, two)) in named(registers).into_iter().zip(named(others)) {
                if one != two {
                    let _ = writeln!(text, "  task {tid}: {name} was {one:#x}, is {two:#x}");
                }
            }
            if extended != other_extended {
                let _ = writeln!(text, "  task {tid}: the vector registers are others");
            }
        }
        for tid in other.tasks.keys().filter(|tid| !self.tasks.contains_key(tid)) {
            let _ = writeln!(text, "  task {tid} was not there");
        }
        for range in self.memory.iter().filter(|range| !other.memory.contains(range)) {
            let _ = writeln!(text, "  memory was {:#x}-{:#x} {:016x}", range.0, range.1, range.2);
        }
        for range in other.memory.iter().filter(|range| !self.memory.contains(range)) {
            let _ = writeln!(text, "  memory is  {:#x}-{:#x} {:016x}", range.0, range.1, range.2);
        }
        for (addr, bytes) in &self.bytes {
            let others = other.bytes.get(addr).into_iter().flatten();
            let differ = bytes.iter().zip(others).enumerate().filter(|(_, (one, two))| one != two);
            for (at, (one, two)) in differ.take(16) {
                let _ = writeln!(text, "  {:#x}: was {one:02x}, is {two:02x}", addr + at as u64);
            }
        }
        (!text.is_empty()).then_some(text)
    }
}

fn named(r: &Registers) -> [(&'static str, u64); 27] {
    [
        ("rip", r.rip),
        ("rax", r.rax),
        ("rbx", r.rbx),
        ("rcx", r.rcx),
        ("rdx", r.rdx),
        ("rsi", r.rsi),
        ("rdi", r.rdi),
        ("rbp", r.rbp),
        ("rsp", r.rsp),
        ("r8", r.r8),
        ("r9", r.r9),
        ("r10", r.r10),
        ("r11", r.r11),
        ("r12", r.r12),
        ("r13", r.r13),
        ("r14", r.r14),
        ("r15", r.r15),
        ("eflags", r.eflags),
        ("orig_rax", r.orig_rax),
        ("cs", r.cs),
        ("ss", r.ss),
        ("ds", r.ds),
        ("es", r.es),
        ("fs", r.fs),
        ("gs", r.gs),
        ("fs_base", r.fs_base),
        ("gs_base", r.gs_base),
    ]
}

/// What is known of a recording.
#[derive(Default)]
struct Facts {
    states: HashMap<String, State>,
    places: Vec<String>,
    /// In which program, because in another one it may be the middle of an instruction.
    code: Vec<(DomainId, u64)>,
    data: Vec<u64>,
    /// Which move has taken longest, with the looks at memory.
    longest: (Duration, String),
}

/// A session on its way.
struct Walk<'a, 't> {
    session: Session<'t>,
    facts: &'a mut Facts,
    dice: Dice,
    log: &'a mut String,
    watch: &'a Watchdog,
    points: Vec<Point>,
    state: State,
    /// Its present program.
    image: DomainId,
    is_exact: bool,
    is_loud: bool,
    /// The move that is underway.
    began: Instant,
    last: (u64, u64),
}

fn walk(
    plan: &Plan<'_>,
    seed: u64,
    facts: &mut Facts,
    log: &mut String,
    watch: &Watchdog,
) -> Result<(), String> {
    bis_replay::allow_many_files();
    let Plan { is_exact, addresses, .. } = *plan;
    let trace = Trace::open(plan.trace).map_err(|error| error.to_string())?;
    let world = World::new(&trace).map_err(|error| error.to_string())?;
    let which = match number("BIS_WALK_PID").and_then(|pid| i32::try_from(pid).ok()) {
        Some(pid) => Which::Pid(pid),
        None if plan.is_forked => forked(&trace),
        None => Which::First,
    };
    let mut session = Session::open(&world, &which, None, None).map_err(|error| error.to_string())?;
    if let Ok(mut stopper) = watch.stopper.lock() {
        *stopper = Some(session.stopper());
    }
    // The same seed is to make the same moves, whatever other walks have seen.
    facts.places.clear();
    facts.data.clone_from(&addresses.data);
    let last = trace.domains().map(|entry| entry.seq.0).max().unwrap_or(0);
    let image = session.image_domain(session.position().event);
    facts.code = addresses.code.iter().map(|addr| (image, *addr)).collect();
    let first = session.first_event().0;
    let end = session.end_event().map_or(last.max(first) + 1000, |event| event.0);
    let state = State::of(&mut session, is_exact)?;
    let mut walk = Walk {
        session,
        facts,
        dice: Dice(seed.wrapping_mul(0x1234_5678_9abc_def1)),
        log,
        watch,
        points: Vec::new(),
        state,
        image,
        is_exact,
        is_loud: is_loud(),
        began: Instant::now(),
        last: (first, end),
    };
    walk.look("the begin")?;
    for _ in 0..plan.moves {
        walk.one_move()?;
    }
    Ok(())
}

/// The first process that was forked and has not executed anything.
fn forked(trace: &Trace) -> Which {
    let forked = trace.domains().filter(|entry| matches!(entry.base, Base::Fork { .. }));
    forked.min_by_key(|entry| entry.seq).map_or(Which::First, |entry| Which::Forked(entry.pid.0))
}

impl Walk<'_, '_> {
    fn note(&mut self, text: &str) {
        self.watch.moves.fetch_add(1, Ordering::SeqCst);
        let took = self.began.elapsed();
        self.began = Instant::now();
        if self.is_loud {
            eprintln!("{text} ({took:.1?})");
        }
        if took > self.facts.longest.0 {
            self.facts.longest = (took, text.into());
        }
        let _ = writeln!(self.log, "  {text}");
    }

    /// Compares what is seen with what was seen under this name.
    fn look(&mut self, what: &str) -> Result<(), String> {
        let name = self.session.position().to_string();
        let tid = self.session.tid();
        let rip = self.session.registers(tid).map_or(0, |(registers, _)| registers.rip);
        self.note(&format!("{what}: {name} (task {tid} at {rip:#x})"));
        let state = State::of(&mut self.session, self.is_exact)?;
        if let Some(known) = self.facts.states.get(&name) {
            if let Some(difference) = known.difference(&state) {
                return Err(format!("{name} is not what it was:\n{difference}"));
            }
        } else {
            self.facts.states.insert(name.clone(), state.clone());
        }
        self.facts.places.push(name);
        let image = self.session.image_domain(self.session.position().event);
        if image != self.image {
            self.image = image;
            self.clear_points();
        }
        if let Some((registers, _)) = state.tasks.get(&tid) {
            if rip != 0 && self.facts.code.len() < 400 {
                self.facts.code.push((self.image, rip));
            }
            if self.facts.data.len() < 100 {
                self.facts.data.push(registers.rsp & !7);
            }
        }
        self.state = state;
        Ok(())
    }

    fn told(&mut self, what: &str, report: &Report) -> Result<(), String> {
        let what = format!("{what} -> {:?}", report.why);
        if let Why::Broken(text) = &report.why {
            self.note(&what);
            return Err(format!("the session is broken at {}: {text}", self.session.position()));
        }
        if report.why == Why::Interrupted && !what.starts_with("interrupt") {
            self.note(&what);
            return Err(format!("the session hangs on its way from {}", self.session.position()));
        }
        self.look(&what)
    }

    fn a_task(&mut self) -> Tid {
        let threads = self.session.threads();
        if self.dice.below(4) == 0 {
            self.dice.one_of(&threads).unwrap_or(self.session.tid())
        } else if threads.contains(&self.session.tid()) {
            self.session.tid()
        } else {
            threads.first().copied().unwrap_or(self.session.tid())
        }
    }

    fn step(&mut self, tid: Tid) -> Result<Why, String> {
        let report = self.session.step(tid, None);
        self.told(&format!("step {tid}"), &report)?;
        Ok(report.why)
    }

    fn back(&mut self, tid: Tid) -> Result<Why, String> {
        let report = self.session.reverse_step(tid);
        self.told(&format!("step back {tid}"), &report)?;
        Ok(report.why)
    }

    fn go(&mut self) -> Result<Why, String> {
        let report = self.session.go();
        self.told("go", &report)?;
        Ok(report.why)
    }

    fn reverse(&mut self) -> Result<Why, String> {
        let report = self.session.reverse();
        self.told("go back", &report)?;
        Ok(report.why)
    }

    fn seek(&mut self, text: &str) -> Result<(), String> {
        let position: Position = text.parse().map_err(|error| format!("{text}: {error}"))?;
        self.watch.moves.fetch_add(1, Ordering::SeqCst);
        if self.is_loud {
            eprintln!("seek {text}");
        }
        match self.session.seek(&position) {
            Ok(_) => {}
            Err(trouble) => return Err(format!("{text} cannot be gone to: {}", trouble.text())),
        }
        self.look(&format!("seek {text}"))?;
        // The place may have got another name.
        if let Some(known) = self.facts.states.get(text)
            && let Some(difference) = known.difference(&self.state)
        {
            return Err(format!("{text} is not what it was when it was gone to:\n{difference}"));
        }
        Ok(())
    }

    fn set_points(&mut self) -> Result<(), String> {
        self.clear_points();
        let mut points = Vec::new();
        let (codes, watches) = match self.dice.below(6) {
            0 => (1, 1),
            1 => (0, 1),
            2 => (1, 0),
            3 => (3, 0),
            4 => (2, 2),
            _ => (2, 0),
        };
        for _ in 0..codes {
            let code = self.facts.code.iter().filter(|(image, _)| *image == self.image);
            let code: Vec<u64> = code.map(|(_, addr)| *addr).collect();
            if let Some(addr) = self.dice.one_of(&code) {
                points.push((PointKind::Software, addr, 1));
            }
        }
        for _ in 0..watches {
            let data = self.facts.data.clone();
            if let Some(addr) = self.dice.one_of(&data) {
                let kind = self.dice.one_of(&[PointKind::Write, PointKind::Access, PointKind::Write]);
                points.push((kind.unwrap_or(PointKind::Write), addr, 8));
            }
        }
        for (kind, addr, size) in points {
            let point =
                Point { kind, addr: Addr(addr), size, conditions: vec![], commands: vec![], persist: false };
            self.session.points.insert(point.clone());
            self.note(&format!("{kind:?} point at {addr:#x}"));
            self.points.push(point);
        }
        Ok(())
    }

    fn clear_points(&mut self) {
        if !self.points.is_empty() {
            self.note("no points");
        }
        for point in std::mem::take(&mut self.points) {
            self.session.points.remove(point.kind, point.addr, point.size);
        }
    }

    fn one_move(&mut self) -> Result<(), String> {
        match self.dice.below(13) {
            0 => {
                let tid = self.a_task();
                self.step(tid).map(drop)
            }
            1 => {
                let tid = self.a_task();
                self.back(tid).map(drop)
            }
            2 => {
                self.set_points()?;
                self.go().map(drop)
            }
            3 => {
                self.set_points()?;
                self.reverse().map(drop)
            }
            4 => self.go().map(drop),
            5 => self.reverse().map(drop),
            6 => {
                let places = self.facts.places.clone();
                match self.dice.one_of(&places) {
                    Some(place) => self.seek(&place),
                    None => Ok(()),
                }
            }
            7 => {
                let (first, end) = self.last;
                let event = EventSeq(first + self.dice.next() % (end - first).max(1));
                self.seek(&event.to_string())
            }
            8 => self.interrupted(),
            9 => self.back_and_step(),
            10 => self.steps_and_back(),
            11 => self.go_and_return(),
            _ => {
                // Down into a stretch of instructions, there and back.
                let tid = self.a_task();
                let forward = self.dice.below(4);
                for _ in 0..forward {
                    self.step(tid)?;
                }
                for _ in 0..self.dice.below(5) {
                    // It may have ended on the way.
                    if self.session.threads().contains(&tid) {
                        self.back(tid)?;
                    }
                }
                Ok(())
            }
        }
    }

    fn interrupted(&mut self) -> Result<(), String> {
        self.clear_points();
        let stopper = self.session.stopper();
        let its_stopper = stopper.clone();
        let after = Duration::from_micros(self.dice.next() % 30_000);
        let asker = thread::spawn(move || {
            thread::sleep(after);
            its_stopper.ask();
        });
        let report = self.session.go();
        let _ = asker.join();
        // It may have come behind the end.
        stopper.forget();
        self.told("interrupt", &report)
    }

    /// The state now must be as before: as far as this task is concerned, and if it is the only one, in all.
    fn must_be(&self, tid: Tid, before: &State, what: &str) -> Result<(), String> {
        // A signal in the place of a call comes when the processor has put the two registers away that a call
        // loses.
        let lost = |state: &State| {
            let mut state = state.clone();
            state.tasks.values_mut().for_each(|(regs, _)| (regs.rcx, regs.r11) = (0, 0));
            state
        };
        // Other tasks may have run in between, and other processes that share memory.
        let is_shared = |mapping: &Mapping| mapping.shared && mapping.prot & 2 != 0;
        let has_others = before.tasks.len() > 1 || self.session.maps().iter().any(is_shared);
        let only = |state: &State| match lost(state).tasks.get(&tid) {
            Some(task) if has_others => {
                State { tasks: BTreeMap::from([(tid, *task)]), memory: Vec::new(), bytes: BTreeMap::new() }
            }
            _ => lost(state),
        };
        match only(before).difference(&only(&self.state)) {
            None => Ok(()),
            Some(difference) => Err(format!("{what} does not lead to where it began:\n{difference}")),
        }
    }

    /// Is the task within a call? Then it is not where a step would leave it.
    fn is_in_call(&self, tid: Tid) -> bool {
        self.session.replica().in_call(tid).is_some()
    }

    fn back_and_step(&mut self) -> Result<(), String> {
        self.clear_points();
        let tid = self.a_task();
        if self.is_in_call(tid) {
            return Ok(());
        }
        if self.session.replica().is_within(tid) {
            return self.steps_and_back();
        }
        let (before, begin) = (self.state.clone(), self.session.position().clone());
        let image = self.session.image_domain(self.session.position().event);
        if self.back(tid)? == Why::Step
            && self.session.image_domain(self.session.position().event) == image
            && self.until_step(tid, Some(&begin))?
        {
            self.must_be(tid, &before, "a step back and a step")?;
        }
        Ok(())
    }

    fn rip(&self, tid: Tid) -> Option<u64> {
        self.state.tasks.get(&tid).map(|(registers, _)| registers.rip)
    }

    /// One step; signals that it comes by do not count, but one at this position, which is the end. False: it
    /// was no step.
    fn until_step(&mut self, tid: Tid, end: Option<&Position>) -> Result<bool, String> {
        for _ in 0..10 {
            let before = self.rip(tid);
            match self.step(tid)? {
                Why::Step => return Ok(true),
                Why::Signal(_) if end == Some(self.session.position()) => return Ok(true),
                // A call that a hook has made, and the signal comes behind that: the call is an instruction
                // that is done.
                Why::Signal(_) if self.rip(tid) != before => return Ok(true),
                Why::Signal(_) => {}
                _ => return Ok(false),
            }
        }
        Ok(false)
    }

    fn steps_and_back(&mut self) -> Result<(), String> {
        self.clear_points();
        let tid = self.a_task();
        if self.is_in_call(tid) {
            return Ok(());
        }
        // Within what is executed in place of an instruction, steps back lead to the begin of that: a step
        // from there leads where the first one has led.
        let is_within = self.session.replica().is_within(tid);
        let mut before = self.state.clone();
        let count = 1 + self.dice.below(12);
        for made in 0..count {
            if !self.until_step(tid, None)? {
                return Ok(());
            }
            if made == 0 && is_within {
                before = self.state.clone();
            }
        }
        for _ in 0..count {
            if self.back(tid)? != Why::Step {
                return Err("a step back over what was stepped forward is none".into());
            }
        }
        if is_within && !self.until_step(tid, None)? {
            return Err(
                "what was stepped forward from within an instruction is no step from its begin".into()
            );
        }
        self.must_be(tid, &before, &format!("{count} steps and as many back"))
    }

    fn go_and_return(&mut self) -> Result<(), String> {
        if self.points.is_empty() {
            self.set_points()?;
        }
        let is_stop =
            |why: &Why| matches!(why, Why::Breakpoint { .. } | Why::Watchpoint { .. } | Why::Signal(_));
        let why = self.go()?;
        if !is_stop(&why) {
            return Ok(());
        }
        let there = self.state.clone();
        let name = self.session.position().to_string();
        let back = self.reverse()?;
        if !is_stop(&back) && back != Why::Begin {
            return Ok(());
        }
        for _ in 0..3 {
            let why = self.go()?;
            if self.state == there {
                return Ok(());
            }
            if !is_stop(&why) {
                break;
            }
        }
        let difference = there.difference(&self.state).unwrap_or_default();
        Err(format!("going back from {name} and forward again does not lead there:\n{difference}"))
    }
}
