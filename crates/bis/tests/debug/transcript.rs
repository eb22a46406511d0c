//! A transcript: what its file says.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
};

use regex_automata::dfa::regex::Regex;

use crate::{
    common,
    pids::Pids,
    programs::{compiler_of, has_compiler},
};

/// What gdb must show.
pub enum Wanted {
    Text(String),
    Expression(String, Box<Regex>),
    /// Must not be shown before the next.
    Absent(String),
}

/// A command, with the lines that belong to it, and what it must show.
pub struct Asked {
    pub line: usize,
    pub text: String,
    pub wanted: Vec<Wanted>,
}

/// How a program is recorded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Hooks,
    NoHooks,
    Software,
    /// While gdb is on it.
    Live,
}

impl Mode {
    pub const ALL: [Mode; 4] = [Mode::Hooks, Mode::NoHooks, Mode::Software, Mode::Live];

    pub fn name(self) -> &'static str {
        match self {
            Self::Hooks => "hooks",
            Self::NoHooks => "no-hooks",
            Self::Software => "software",
            Self::Live => "live",
        }
    }

    pub fn options(self) -> &'static [&'static str] {
        match self {
            Self::Hooks | Self::Live => &[],
            Self::NoHooks => &["--no-hooks"],
            Self::Software => &["--ticks=software"],
        }
    }
}

/// The debugger that reads the commands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Debugger {
    Gdb,
    Lldb,
}

/// One file, and what its first lines say.
pub struct Transcript {
    pub name: String,
    pub debugger: Debugger,
    /// Where its programs are.
    pub programs: PathBuf,
    pub heads: Vec<(String, String)>,
    pub commands: Vec<Asked>,
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

    pub fn shown(&self) -> String {
        match self {
            Wanted::Text(text) => text.clone(),
            Wanted::Expression(text, _) => format!("~ {text}"),
            Wanted::Absent(text) => format!("! {text}"),
        }
    }

    /// Where it is in this text.
    pub fn find(&self, text: &str, pids: &Pids) -> Option<std::ops::Range<usize>> {
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
    pub fn read(path: &Path, programs: &Path) -> Transcript {
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

    pub fn head(&self, key: &str) -> Option<&str> {
        self.heads.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    }

    pub fn words(&self, key: &str) -> Vec<&str> {
        self.head(key).unwrap_or_default().split_whitespace().collect()
    }

    /// Why it cannot be run here.
    pub fn missing(&self) -> Option<String> {
        let compiler = |key| self.head(key).and_then(|file| compiler_of(Path::new(file)));
        let compilers = ["program", "other", "library"].into_iter().filter_map(compiler);
        let missing = compilers.chain(self.words("needs")).find(|program| !has_compiler(program));
        missing.map(|program| format!("not installed (apt-get install {})", common::package_of(program)))
    }

    pub fn modes(&self) -> Vec<Mode> {
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
    pub fn broken(&self, mode: Mode) -> Option<&str> {
        self.head("broken")
            .or_else(|| self.head("flaky"))
            .or_else(|| self.head(&format!("broken {}", mode.name())))
    }
}
