//! A transcript is run: its program is recorded, and a debugger reads its commands.

use std::{
    ffi::{OsStr, OsString},
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use libtest_mimic::{Completion, Failed};

use crate::{
    common::{self, Folder},
    pids::Pids,
    programs::build,
    shown::{MARK, in_known_words},
    transcript::{Debugger, Mode, Transcript},
};

/// No transcript takes more than a few seconds; one that takes this long hangs.
const LIMIT: Duration = Duration::from_secs(60);

/// The time for a transcript that is known to fail.
const LIMIT_BROKEN: Duration = Duration::from_secs(15);

/// In how many recordings a failure is looked for. Missing it in all of them is as good as impossible
/// (`suite/rare.rs` says the same).
const RUNS_MAX: u32 = 400;

impl Transcript {
    pub fn run(&self, mode: Mode) -> Result<Completion, Failed> {
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
        let shown = in_known_words(&step.stdout);
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
        let shown = in_known_words(&step.stdout);
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
        // Without the debug information of the system's libraries, where that is installed: the sessions are
        // the same on each machine, and none waits until gdb has read it.
        let first = [
            "set width 0",
            "set debuginfod enabled off",
            "set startup-quietly on",
            "set debug-file-directory /nonexistent",
        ];
        for option in ["-nx"].into_iter().chain(first.into_iter().flat_map(|command| ["-iex", command])) {
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
}

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) { word.to_owned() } else { format!("'{word}'") }
}
