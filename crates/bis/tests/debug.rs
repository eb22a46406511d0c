//! Runs every transcript of `tests/debug/` and every hunt of `examples/` with gdb on a recording, in every
//! mode of recording.
//!
//! A transcript is a file `tests/debug/NAME.gdb` or `examples/NAME/hunt.gdb`; whatever lies there is found,
//! there is no list. It holds gdb's commands, one a line. Behind a command, lines that begin with `#>` say
//! what gdb must show before the next command, in this order: `#> TEXT` (a line has it somewhere), `#> ~
//! REGEX` (the same for an expression), `#> ! TEXT` (not before what the next `#>` line of that command
//! wants, nor at all if it is the last one). What the program writes counts as shown.
//!
//! The comments of the first lines say what is recorded, and how: `program:` a file of
//! `tests/debug/programs/`, or one beside the hunt (.c, .cc, .rs, .go, and .sh or .py, which are not
//! compiled); `cflags:` for its compiler, instead of -O0, and `cflags library:` the same for the library, in
//! which `{python}` stands for what Python's modules need; `args:` for the program; `other:` a second
//! program, and `library:` a shared library, whose paths `args:` may have as `{other}` and `{library}`;
//! `command:` what is recorded instead of the program, which may be in it as `{program}`; `until: fails`:
//! record again and again, until the program fails; `stdin:` one line of input; `record:` and `replay:` more
//! options, in which, as in commands, `{first}`, `{fork}` and `{third}` are the numbers of the first, second
//! and third process of the recording; `needs:` programs without which it cannot run; `modes:` of `hooks`,
//! `no-hooks` and `software` (default: the first two, and all three where the program has threads), and
//! `live`, where gdb is on the program while it is recorded (`bis run --gdb`), and ends with `status:`;
//! `broken:` why it is known to fail: it is run, and then counted as ignored, or as a failure if it passes;
//! `broken no-hooks:` the same for one mode; `flaky:` as `broken:`, for what sometimes passes.
//!
//! A file `NAME.lldb` is the same for LLDB, whose trials are named `NAME.lldb::mode`.
//!
//! gdb reads the commands as if they were typed, so an error does not end the transcript.
//! Trials are named `NAME::mode`; `BIS_TEST_REPEAT=N` runs each N times.

mod common;

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use common::Folder;
use libtest_mimic::{Completion, Failed, Trial};
use regex_automata::dfa::regex::Regex;

/// No transcript takes more than a few seconds; one that takes this long hangs.
const LIMIT: Duration = Duration::from_secs(60);

/// The same for one that is known to fail.
const LIMIT_BROKEN: Duration = Duration::from_secs(15);

/// In how many recordings a failure is looked for. Missing it in all of them is as good as impossible
/// (`tests/rare.rs` says the same).
const RUNS_MAX: u32 = 400;

/// What stands in gdb's output in front of what command number N shows.
const MARK: &str = "@@bis-transcript-";

/// The same as LLDB shows it.
const LLDB_MARK: &str = "(lldb) # @@bis-transcript-";

/// What gdb must show.
enum Wanted {
    Text(String),
    Expression(String, Box<Regex>),
    /// Must not be shown before the next.
    Absent(String),
}

/// A command, with the lines that belong to it, and what it must show.
struct Asked {
    line: usize,
    text: String,
    wanted: Vec<Wanted>,
}

/// How a program is recorded.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Hooks,
    NoHooks,
    Software,
    /// While gdb is on it.
    Live,
}

impl Mode {
    const ALL: [Mode; 4] = [Mode::Hooks, Mode::NoHooks, Mode::Software, Mode::Live];

    fn name(self) -> &'static str {
        match self {
            Self::Hooks => "hooks",
            Self::NoHooks => "no-hooks",
            Self::Software => "software",
            Self::Live => "live",
        }
    }

    fn options(self) -> &'static [&'static str] {
        match self {
            Self::Hooks | Self::Live => &[],
            Self::NoHooks => &["--no-hooks"],
            Self::Software => &["--ticks=software"],
        }
    }
}

/// Who reads the commands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Debugger {
    Gdb,
    Lldb,
}

/// One file, and what its first lines say.
struct Transcript {
    name: String,
    debugger: Debugger,
    /// Where its programs are.
    programs: PathBuf,
    heads: Vec<(String, String)>,
    commands: Vec<Asked>,
}

fn main() {
    let no_gdb = no_gdb();
    let no_lldb = (!common::installed("lldb")).then(|| "not installed (apt-get install lldb)".to_owned());
    let mut trials = Vec::new();
    let transcripts = find(&common::tree().join("tests/debug"));
    let hunts = find_hunts(&common::tree().join("examples"));
    assert!(hunts.len() >= 6, "examples was not found or is nearly empty: {} hunts", hunts.len());
    for transcript in transcripts.into_iter().chain(hunts) {
        let no_debugger = match transcript.debugger {
            Debugger::Gdb => no_gdb.clone(),
            Debugger::Lldb => no_lldb.clone(),
        };
        let missing = no_debugger.or_else(|| transcript.missing());
        let transcript = Arc::new(transcript);
        for mode in transcript.modes() {
            let name = format!("{}::{}", transcript.name, mode.name());
            if let Some(why) = &missing {
                println!("ignored: {name}: {why}");
            }
            let transcript = Arc::clone(&transcript);
            let trial = Trial::ignorable_test(name, move || transcript.run(mode));
            trials.push(trial.with_ignored_flag(missing.is_some()));
        }
    }
    assert!(trials.len() > 100, "tests/debug was not found or is nearly empty: {} trials", trials.len());
    libtest_mimic::run(&common::arguments(), trials).exit();
}

/// Why nothing can be run here.
fn no_gdb() -> Option<String> {
    if !common::installed("gdb") {
        return Some("not installed (apt-get install gdb)".into());
    }
    let mut gdb = Command::new("gdb");
    let output = gdb.args(["-nx", "-batch", "-ex", "python print(6 * 7)"]).stdin(Stdio::null()).output();
    let has_python = output.is_ok_and(|output| output.stdout.starts_with(b"42"));
    (!has_python).then(|| "this gdb has no Python".into())
}

/// Every transcript in a folder, sorted by name.
fn find(folder: &Path) -> Vec<Transcript> {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("failed to read {}: {e}", folder.display()));
    let mut transcripts: Vec<Transcript> = entries
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "gdb" || extension == "lldb"))
        .map(|path| Transcript::read(&path, &common::tree().join("tests/debug/programs")))
        .collect();
    transcripts.sort_by(|a, b| a.name.cmp(&b.name));
    transcripts
}

/// The transcripts of the examples, each of which has a folder of its own, with its program.
fn find_hunts(folder: &Path) -> Vec<Transcript> {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("failed to read {}: {e}", folder.display()));
    let folders = entries.filter_map(Result::ok).map(|entry| entry.path()).filter(|path| path.is_dir());
    let mut hunts: Vec<Transcript> = folders
        .map(|folder| {
            let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let hunt = Transcript::read(&folder.join("hunt.gdb"), &folder);
            Transcript { name: format!("example_{name}"), ..hunt }
        })
        .collect();
    hunts.sort_by(|a, b| a.name.cmp(&b.name));
    hunts
}

/// Programs are looked for where these tests' own compilers are.
fn has_compiler(name: &str) -> bool {
    common::installed(name)
        || std::env::var_os("PATH")
            .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(name).is_file()))
}

/// A command that opens a block, which `end` closes.
fn opens_block(command: &str, is_in_python: bool) -> bool {
    let mut words = command.split_whitespace();
    match words.next() {
        _ if is_in_python => false,
        Some("python") => words.next().is_none(),
        Some("commands" | "define" | "document" | "if" | "while") => true,
        _ => false,
    }
}

impl Wanted {
    fn read(text: &str) -> Wanted {
        if let Some(expression) = text.strip_prefix("~ ") {
            let regex = Regex::new(expression).unwrap_or_else(|e| panic!("{expression}: {e}"));
            return Wanted::Expression(expression.into(), Box::new(regex));
        }
        match text.strip_prefix("! ") {
            Some(text) => Wanted::Absent(text.into()),
            None => Wanted::Text(text.into()),
        }
    }

    fn shown(&self) -> String {
        match self {
            Wanted::Text(text) => text.clone(),
            Wanted::Expression(text, _) => format!("~ {text}"),
            Wanted::Absent(text) => format!("! {text}"),
        }
    }

    /// Where it is in this text.
    fn find(&self, text: &str, pids: &Pids) -> Option<std::ops::Range<usize>> {
        match self {
            Wanted::Text(wanted) | Wanted::Absent(wanted) => {
                let wanted = pids.fill(wanted);
                text.find(wanted.as_str()).map(|at| at..at + wanted.len())
            }
            Wanted::Expression(_, regex) => regex.find(text.as_bytes()).map(|found| found.range()),
        }
    }
}

impl Transcript {
    fn read(path: &Path, programs: &Path) -> Transcript {
        let text =
            fs::read_to_string(path).unwrap_or_else(|e| panic!("failed to read {}: {e}", path.display()));
        let is_lldb = path.extension() == Some(OsStr::new("lldb"));
        let debugger = if is_lldb { Debugger::Lldb } else { Debugger::Gdb };
        let name = if is_lldb { path.file_name() } else { path.file_stem() };
        let name = name.unwrap_or_default().to_string_lossy().into_owned();
        let programs = programs.to_owned();
        let mut transcript = Transcript { name, debugger, programs, heads: Vec::new(), commands: Vec::new() };
        let (mut depth, mut is_in_python) = (0, false);
        for (number, line) in text.lines().enumerate() {
            let words = line.trim();
            if let Some(wanted) = words.strip_prefix("#>") {
                let command = transcript
                    .commands
                    .last_mut()
                    .unwrap_or_else(|| panic!("{}: no command", path.display()));
                command.wanted.push(Wanted::read(wanted.strip_prefix(' ').unwrap_or(wanted)));
                continue;
            }
            if let Some(comment) = words.strip_prefix('#') {
                if transcript.commands.is_empty()
                    && let Some((key, value)) = comment.split_once(':')
                {
                    transcript.heads.push((key.trim().to_owned(), value.trim().to_owned()));
                }
                continue;
            }
            if depth == 0 && words.is_empty() {
                continue;
            }
            if depth > 0 {
                let command = transcript.commands.last_mut().expect("the block has begun");
                command.text.push('\n');
                command.text.push_str(line);
                if words == "end" {
                    depth -= 1;
                    is_in_python = false;
                }
            } else {
                transcript.commands.push(Asked {
                    line: number + 1,
                    text: line.to_owned(),
                    wanted: Vec::new(),
                });
            }
            if opens_block(words, is_in_python) {
                depth += 1;
                is_in_python = words == "python";
            }
        }
        transcript
    }

    fn head(&self, key: &str) -> Option<&str> {
        self.heads.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    }

    fn words(&self, key: &str) -> Vec<&str> {
        self.head(key).unwrap_or_default().split_whitespace().collect()
    }

    /// Why it cannot be run here.
    fn missing(&self) -> Option<String> {
        let compiler = |key| self.head(key).and_then(|file| compiler_of(Path::new(file)));
        let compilers = ["program", "other", "library"].into_iter().filter_map(compiler);
        let missing = compilers.chain(self.words("needs")).find(|program| !has_compiler(program));
        missing.map(|program| format!("not installed (apt-get install {})", common::package_of(program)))
    }

    fn modes(&self) -> Vec<Mode> {
        let asked = self.words("modes");
        let has_threads = || {
            let source = self.head("program").map(|name| self.programs.join(name));
            let text = source.and_then(|source| fs::read_to_string(source).ok()).unwrap_or_default();
            ["pthread_create", "thread::spawn", "std::thread", "go func"]
                .iter()
                .any(|word| text.contains(word))
        };
        let is_asked = |mode: &Mode| match asked.as_slice() {
            [] => *mode != Mode::Live && (*mode != Mode::Software || has_threads()),
            asked => asked.contains(&mode.name()),
        };
        Mode::ALL.into_iter().filter(is_asked).collect()
    }

    /// Why it is known to fail in this mode.
    fn broken(&self, mode: Mode) -> Option<&str> {
        self.head("broken")
            .or_else(|| self.head("flaky"))
            .or_else(|| self.head(&format!("broken {}", mode.name())))
    }

    fn run(&self, mode: Mode) -> Result<Completion, Failed> {
        let Some(why) = self.broken(mode) else {
            let once = || {
                let folder = Folder::new(&format!("debug.{}", self.name))?;
                if mode == Mode::Live {
                    self.live(folder.path())?;
                } else {
                    let trace = self.recording(mode, folder.path())?;
                    self.session(&trace, folder.path(), LIMIT)?;
                }
                folder.done();
                Ok(())
            };
            return common::repeated(once).map(|()| Completion::Completed);
        };
        let folder = Folder::new(&format!("debug.{}", self.name))?;
        // What is broken is the session: that there is none is a failure here, too.
        let trace = self.recording(mode, folder.path())?;
        let failure = self.session(&trace, folder.path(), LIMIT_BROKEN);
        folder.done();
        match failure {
            Err(_) => Ok(Completion::ignored_with(format!("known to fail: {why}"))),
            Ok(()) if self.head("flaky").is_some() => Ok(Completion::Completed),
            Ok(()) => Err("this passes: take its `broken:` away".into()),
        }
    }

    fn record(&self, mode: Mode, folder: &Path) -> Result<(PathBuf, i32), Failed> {
        let trace = folder.join("trace");
        let cwd = folder.join("cwd");
        fs::create_dir_all(&cwd).map_err(|e| format!("failed to make {}: {e}", cwd.display()))?;
        let argv = self.argv(&cwd)?;
        let argv: Vec<&OsStr> = argv.iter().map(OsString::as_os_str).collect();
        let options = [mode.options(), &self.words("record")].concat();
        let record = common::record_command(&trace, &options, &argv, &cwd);
        let stdin = self.head("stdin").map(|line| format!("{line}\n").into_bytes());
        let step = common::run(record, "record", folder, stdin.as_deref(), LIMIT)
            .map_err(|failure| common::explain(&failure, &trace))?;
        if (125..=127).contains(&step.status) {
            return Err(format!("record: exit status {}\n{}", step.status, step.shown()).into());
        }
        Ok((trace, step.status))
    }

    /// The recording that the session is about.
    fn recording(&self, mode: Mode, folder: &Path) -> Result<PathBuf, Failed> {
        if self.head("until").is_none() {
            return self.record(mode, folder).map(|(trace, _)| trace);
        }
        for _ in 0..RUNS_MAX {
            let (trace, status) = self.record(mode, folder)?;
            if status != 0 {
                return Ok(trace);
            }
            fs::remove_dir_all(&trace).map_err(|e| format!("failed to remove {}: {e}", trace.display()))?;
        }
        Err(format!("the program has not failed once in {RUNS_MAX} recordings").into())
    }

    /// What gdb shows of a recording.
    fn session(&self, trace: &Path, folder: &Path, limit: Duration) -> Result<(), Failed> {
        let cwd = folder.join("cwd");
        let input = folder.join("gdb.in");
        let pids = Pids::of(trace)?;
        let commands = pids.fill(&self.input());
        fs::write(&input, &commands).map_err(|e| format!("failed to write {}: {e}", input.display()))?;
        let replay = self.replay(trace, &input, &pids);
        let shown_line = replay.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
        let again = format!(
            "again, by hand: cd {} && {} {shown_line} < {}",
            cwd.display(),
            common::bis().display(),
            input.display()
        );
        let stdin = (self.debugger == Debugger::Gdb).then_some(commands.as_bytes());
        // Both outputs into one file, so that they stay in order.
        let mut shell = common::command("sh", &cwd);
        shell.args(["-c", "exec \"$@\" 2>&1", "sh"]).arg(common::bis()).args(&replay);
        let step = common::run(shell, "gdb", folder, stdin, limit).map_err(|_| {
            let why = format!("no end after {} s", limit.as_secs());
            self.failure(&why, &read(&folder.join("gdb.out")), &again)
        })?;
        let shown = String::from_utf8_lossy(&step.stdout).replace(LLDB_MARK, MARK);
        if shown.contains("internal-error") {
            return Err(self.failure("gdb has failed an assertion of its own", &shown, &again));
        }
        self.check(&shown, &pids).map_err(|why| self.failure(&why, &shown, &again))
    }

    /// What gdb shows of a program that is being recorded; and the trace that is left replays.
    fn live(&self, folder: &Path) -> Result<(), Failed> {
        let (trace, cwd, rc) = (folder.join("trace"), folder.join("cwd"), folder.join("gdb.rc"));
        let write = |path: &Path, text: &str| {
            fs::write(path, text).map_err(|e| format!("failed to write {}: {e}", path.display()))
        };
        fs::create_dir_all(&cwd).map_err(|e| format!("failed to make {}: {e}", cwd.display()))?;
        write(&rc, "set width 0\nset debuginfod enabled off\nset confirm off\n")?;
        let (none, input) = (Pids(Vec::new()), self.input());
        write(&folder.join("gdb.in"), &input)?;
        let argv = self.argv(&cwd)?;
        let mut words: Vec<OsString> = ["run", "--gdb", "-x"].map(OsString::from).into();
        words.push(rc.into_os_string());
        words.extend(self.words("record").into_iter().map(OsString::from));
        words.extend(["-o".into(), trace.clone().into_os_string(), "--".into()]);
        words.extend(argv);
        let line: Vec<String> = words.iter().map(|word| quoted(&word.to_string_lossy())).collect();
        let again = format!(
            "again, by hand: cd {} && {} {} < {}",
            cwd.display(),
            common::bis().display(),
            line.join(" "),
            folder.join("gdb.in").display()
        );
        // Without a terminal, where gdb would read. And the program's output goes into one file with gdb's.
        let mut shell = common::command("setsid", &cwd);
        shell.args(["-w", "sh", "-c", "exec \"$@\" 2>&1", "sh"]).arg(common::bis()).args(&words);
        let step = common::run(shell, "gdb", folder, Some(input.as_bytes()), LIMIT).map_err(|_| {
            let why = format!("no end after {} s", LIMIT.as_secs());
            self.failure(&why, &read(&folder.join("gdb.out")), &again)
        })?;
        let shown = String::from_utf8_lossy(&step.stdout);
        if shown.contains("internal-error") {
            return Err(self.failure("gdb has failed an assertion of its own", &shown, &again));
        }
        self.check(&shown, &none).map_err(|why| self.failure(&why, &shown, &again))?;
        let status = self.head("status").map_or(Ok(0), str::parse);
        if status != Ok(step.status) {
            return Err(self.failure(&format!("bis run: exit status {}", step.status), &shown, &again));
        }
        let mut replay = common::command("sh", &cwd);
        replay.args(["-c", "exec \"$@\" 2>&1", "sh"]).arg(common::bis()).args(["replay", "-a", "--quiet"]);
        replay.arg(&trace);
        let step = common::run(replay, "replay", folder, None, LIMIT)?;
        if step.status != 0 {
            return Err(format!("the trace does not replay: {}\n{again}", step.shown()).into());
        }
        Ok(())
    }

    /// What is recorded.
    fn argv(&self, cwd: &Path) -> Result<Vec<OsString>, Failed> {
        let program = || {
            let name = self.head("program").ok_or("its first lines have neither program: nor command:")?;
            build(&self.programs.join(name), self.head("cflags"), false).map(PathBuf::into_os_string)
        };
        let other = |key: &str, is_library: bool| {
            let source = self.programs.join(self.head(key).unwrap_or_default());
            build(&source, self.head(&format!("cflags {key}")), is_library).map(PathBuf::into_os_string)
        };
        if self.head("command").is_some() {
            let word = |word: &str| if word == "{program}" { program() } else { Ok(word.into()) };
            return self.words("command").into_iter().map(word).collect();
        }
        let mut argv = vec![program()?];
        for word in self.words("args") {
            argv.push(match word {
                "{other}" => other("other", false)?,
                "{library}" => other("library", true)?,
                "{cwd}" => cwd.as_os_str().to_owned(),
                word => word.into(),
            });
        }
        Ok(argv)
    }

    /// bis's arguments for the session.
    fn replay(&self, trace: &Path, input: &Path, pids: &Pids) -> Vec<String> {
        let mut words = vec!["replay".to_owned(), trace.display().to_string()];
        for word in self.words("replay") {
            words.push(pids.fill(word));
        }
        if self.debugger == Debugger::Lldb {
            // An error would end the commands of a file, and of several lines at the standard input it does
            // not wait for each.
            let on = "settings set interpreter.stop-command-source-on-error false";
            words.extend(["-d", "lldb", "-x"].map(String::from));
            words.push(input.display().to_string());
            for option in ["--no-use-colors", "--no-lldbinit", "-O", on] {
                words.extend(["-o".to_owned(), option.to_owned()]);
            }
            return words;
        }
        let quiet = ["set width 0", "set debuginfod enabled off", "set startup-quietly on"];
        for option in ["-nx"].into_iter().chain(quiet.into_iter().flat_map(|command| ["-iex", command])) {
            words.extend(["-o".to_owned(), option.to_owned()]);
        }
        words
    }

    /// What gdb reads: the commands, and a mark in front of each.
    fn input(&self) -> String {
        if self.debugger == Debugger::Lldb {
            // It shows comments as it reads them.
            let mark = |number: usize| format!("# {MARK}{number}\n");
            let commands = self.commands.iter().enumerate();
            let text: String = commands.map(|(number, asked)| mark(number) + &asked.text + "\n").collect();
            return text + &mark(self.commands.len());
        }
        let mut text = "set prompt\n".to_owned();
        for (number, command) in self.commands.iter().enumerate() {
            let _ = writeln!(text, "echo \\n{MARK}{number}\\n\n{}", command.text);
        }
        let _ = writeln!(text, "echo \\n{MARK}{}\\n", self.commands.len());
        text
    }

    /// Each command's output must have what is wanted.
    fn check(&self, shown: &str, pids: &Pids) -> Result<(), String> {
        for (number, command) in self.commands.iter().enumerate() {
            let begin = format!("\n{MARK}{number}\n");
            let end = format!("\n{MARK}{}\n", number + 1);
            let told = |what: String| format!("line {}, `{}`: {what}", command.line, command.text);
            let Some((_, rest)) = shown.split_once(&begin) else {
                return Err(told("the session had ended before this".into()));
            };
            let (mut rest, is_whole) = match rest.split_once(&end) {
                Some((part, _)) => (part, true),
                None => (rest, false),
            };
            let mut absent: Vec<&Wanted> = Vec::new();
            for wanted in &command.wanted {
                if matches!(wanted, Wanted::Absent(_)) {
                    absent.push(wanted);
                    continue;
                }
                let Some(found) = wanted.find(rest, pids) else {
                    return Err(told(format!("does not show\n    {}", wanted.shown())));
                };
                if let Some(bad) = absent.drain(..).find(|bad| bad.find(&rest[..found.start], pids).is_some())
                {
                    return Err(told(format!("shows what it should not:\n    {}", bad.shown())));
                }
                rest = &rest[found.end..];
            }
            if let Some(bad) = absent.iter().find(|bad| bad.find(rest, pids).is_some()) {
                return Err(told(format!("shows what it should not:\n    {}", bad.shown())));
            }
            if !is_whole {
                return Err(told("the session ends here".into()));
            }
        }
        Ok(())
    }

    /// A failure with all that gdb has shown, as if the commands had been typed.
    fn failure(&self, why: &str, shown: &str, again: &str) -> Failed {
        let mut text = String::new();
        for line in shown.lines() {
            let number = line.strip_prefix(MARK).and_then(|number| number.parse::<usize>().ok());
            let _ = match number {
                Some(number) => match self.commands.get(number) {
                    Some(command) => writeln!(text, "(gdb) {}", command.text),
                    None => writeln!(text, "(gdb) (the end)"),
                },
                None => writeln!(text, "{line}"),
            };
        }
        format!("{why}\n--- all that gdb has shown\n{text}---\n{again}").into()
    }
}

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) { word.to_owned() } else { format!("'{word}'") }
}

/// The numbers of the processes of a recording, in the order in which they begin.
struct Pids(Vec<u64>);

impl Pids {
    const NAMES: [&str; 3] = ["{first}", "{fork}", "{third}"];

    fn of(trace: &Path) -> Result<Pids, Failed> {
        let output = Command::new(common::bis()).args(["ps", "--json"]).arg(trace).output();
        let output = output.map_err(|e| format!("failed to start bis ps: {e}"))?;
        let process = |line: &str| {
            let value: serde_json::Value = serde_json::from_str(line).ok()?;
            Some((value["from"].as_u64()?, value["pid"].as_u64()?))
        };
        let shown = String::from_utf8_lossy(&output.stdout);
        let mut processes: Vec<(u64, u64)> = shown.lines().filter_map(process).collect();
        processes.sort_unstable();
        Ok(Pids(processes.into_iter().map(|(_, pid)| pid).collect()))
    }

    /// The text with the numbers in place of their names.
    fn fill(&self, text: &str) -> String {
        let pids = Self::NAMES.iter().zip(&self.0);
        pids.fold(text.to_owned(), |text, (name, pid)| text.replace(name, &pid.to_string()))
    }
}

/// The program that compiles such a file. None: it is run as it is.
fn compiler_of(source: &Path) -> Option<&'static str> {
    match source.extension().and_then(OsStr::to_str) {
        Some("c" | "S") => Some("gcc"),
        Some("cc") => Some("g++"),
        Some("rs") => Some("rustc"),
        Some("go") => Some("go"),
        _ => None,
    }
}

/// What a compiler has to be told for modules of Python.
fn python_flags() -> Result<String, Failed> {
    let output = Command::new("/usr/bin/python3-config").arg("--includes").output();
    let output = output.map_err(|e| format!("failed to start python3-config: {e}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Compiles into the cache unless the result there is newer than the source. The flags are part of the cached
/// name.
fn build(source: &Path, flags: Option<&str>, is_library: bool) -> Result<PathBuf, Failed> {
    // Two trials may want the same, and neither may replace what the other's gdb reads.
    static AT_WORK: Mutex<()> = Mutex::new(());
    let _lock = AT_WORK.lock();
    let Some(compiler) = compiler_of(source) else { return Ok(source.to_owned()) };
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("debug");
    fs::create_dir_all(&cache).map_err(|e| format!("failed to make {}: {e}", cache.display()))?;
    let suffix = if is_library { ".so" } else { "" };
    let stem = source.file_stem().unwrap_or_default().to_string_lossy();
    let flag_name: String = flags.unwrap_or_default().split_whitespace().collect();
    let program = cache.join(format!("{stem}{}{suffix}", flag_name.replace('/', "_")));
    let time = |path: &Path| fs::metadata(path).and_then(|meta| meta.modified()).ok();
    if time(&program).is_some_and(|built| built > time(source).unwrap_or(SystemTime::UNIX_EPOCH)) {
        return Ok(program);
    }
    // Under another name first: two drivers may run at once, and a half-written program must not be run.
    let fresh_folder = Folder::new("build")?;
    let fresh = fresh_folder.path().join("program");
    let python =
        if flags.is_some_and(|flags| flags.contains("{python}")) { python_flags()? } else { String::new() };
    let flags = flags.map(|flags| flags.replace("{python}", &python));
    let flags = flags.as_ref().map(|flags| flags.split_whitespace().collect::<Vec<_>>());
    let mut command = Command::new(compiler);
    match compiler {
        "go" => {
            command.env("GOCACHE", cache.join("go")).env("GOFLAGS", "-mod=mod").env("GO111MODULE", "off");
            let flags = flags.unwrap_or_else(|| vec!["-gcflags=all=-N -l"]);
            command.arg("build").args(flags).arg("-o").arg(&fresh).arg(source);
        }
        "rustc" => {
            command.arg("-g").args(flags.unwrap_or_default()).arg("-o").arg(&fresh).arg(source);
        }
        _ => {
            command.args(["-g", "-gno-column-info", "-pthread"]).args(flags.unwrap_or_else(|| vec!["-O0"]));
            if is_library {
                command.args(["-shared", "-fPIC"]);
            }
            command.arg("-o").arg(&fresh).arg(source).arg("-ldl");
        }
    }
    let output = command.output().map_err(|e| format!("failed to start {compiler}: {e}"))?;
    if !output.status.success() {
        return Err(format!(
            "failed to compile {}: {}",
            source.display(),
            String::from_utf8_lossy(&output.stderr)
        )
        .into());
    }
    fs::rename(&fresh, &program).map_err(|e| format!("failed to place {}: {e}", program.display()))?;
    fresh_folder.done();
    Ok(program)
}
