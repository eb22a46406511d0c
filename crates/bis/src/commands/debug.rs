//! `bis replay` with a debugger: serves one that somebody else starts (`--port`, `--host`), or starts gdb or
//! LLDB itself and is over when that is. The server is `bis-debug`; here are the debugger's command line, and
//! the lines that say how to connect.
//!
//! Those lines are read by programs: Delve takes the address and the executable from them. It looks for a
//! line that begins with `  gdb `, in it for `-ex` and `target extended-remote ADDRESS` in single quotes, and
//! takes the last word for the executable.

use std::{
    env,
    ffi::{OsStr, OsString},
    fs::{File, OpenOptions},
    io::{self, IsTerminal, Write},
    net::SocketAddr,
    os::{
        fd::{AsFd, OwnedFd},
        unix::process::ExitStatusExt,
    },
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError, Sender},
    thread,
    time::Duration,
};

use bis_debug::{Begin, DebugError, Executable, Listener, Options, Server, Standing, Which, pack::Found};
use bis_record::Fault;
use bis_trace::{
    Trace,
    types::{Addr, DomainId, Registers, Tid},
};
use bis_tracee::proc;
use clap::CommandFactory;
use rustix::fs::{MemfdFlags, memfd_create};

use crate::{
    args::{Cli, GotoArg, ProcessArg, Replay},
    commands::{guided, replay},
    failure::{Failure, Result, status},
    folder, output, program,
};

const LOOPBACK: &str = "127.0.0.1";
const GDB: &str = "gdb";
/// The interpreter of gdb that speaks the Debug Adapter Protocol, and the first version that has it.
const DAP: &str = "dap";
const DAP_SINCE: u32 = 14;
/// How long a server may take to end when its debugger has ended.
const SERVER_END: Duration = Duration::from_secs(2);
/// A user who waits longer than this for a session to begin is told so.
const SHORT: Duration = Duration::from_secs(1);
/// How long gdb waits for an answer, in seconds. A replay from the begin of a long trace takes its time.
const ANSWER_S: &str = "10000";
/// In a recording all threads go on as they did. A user's gdb may be set to let them go on alone, and would
/// refuse to connect then.
const ALL_STOP: &str = "set non-stop off";

pub fn run(args: &Replay) -> Result<u8> {
    // `-h` alone: a user who writes that wants help.
    if args.host.as_deref() == Some("") {
        return help();
    }
    let trace = Trace::open(&folder::find(&args.trace.name)?)?;
    let options = options(args, None)?;
    with_debugger(args, trace, options)
}

/// Debugs a process of which the replay has failed, where it did.
pub(super) fn at_divergence(args: &Replay, trace: Trace, domain: DomainId) -> Result<u8> {
    let options = Options { which: Which::Domain(domain), begin: Begin::Divergence, ..options(args, None)? };
    with_debugger(args, trace, options)
}

/// Starts the debugger that was asked for, or waits for one.
fn with_debugger(args: &Replay, trace: Trace, mut options: Options) -> Result<u8> {
    let debugger = args.debugger.clone().unwrap_or_else(|| GDB.into());
    if is_adapter(args) && Kind::of(&debugger) == Kind::Gdb {
        check_adapter(&debugger)?;
    }
    let executable = executable(&trace, &mut options)?;
    let host = args.host.as_deref().unwrap_or(LOOPBACK);
    let port = args.port.unwrap_or(0);
    // What is known of a trace that grows is not known of all of it.
    if options.program.is_none() {
        replay::prove(&trace);
    }
    let server = listen(host, port)?;
    let script = Script::new(bis_debug::gdb_script())?;
    let words = Words::new(args, &server, &script, &executable, &options, trace.dir());
    let kind = Kind::of(&debugger);
    if args.port.is_some() || args.host.is_some() {
        output::note(&how_to_connect(&debugger, &words.all(kind)));
        return server.serve(&trace, &options, || {}).map(|()| 0).map_err(|error| failure(&error));
    }
    start(server, trace, options, &debugger, &words.started(kind), Stdio::inherit())
}

/// Is the debugger an editor's adapter? Its standard output is the protocol's alone then.
fn is_adapter(args: &Replay) -> bool {
    args.interpreter.as_deref() == Some(OsStr::new(DAP))
}

/// Fails where this gdb is too old to be a debug adapter: asked for that, it says nothing which helps.
fn check_adapter(debugger: &OsStr) -> Result<()> {
    let Ok(output) = Command::new(debugger).arg("--version").stdin(Stdio::null()).output() else {
        // The code that starts it says why it cannot be started.
        return Ok(());
    };
    let text = String::from_utf8_lossy(&output.stdout);
    match version(&text) {
        Some(version) if version < DAP_SINCE => Err(Failure::usage(format!(
            "the debugger {} is gdb {version}, which cannot be a debug adapter (-i=dap): gdb {DAP_SINCE} or newer can; \
             name another one with -d",
            debugger.to_string_lossy()
        ))),
        _ => Ok(()),
    }
}

/// The first number of the version in what `gdb --version` shows: of the last word of its first line.
fn version(shown: &str) -> Option<u32> {
    let word = shown.lines().next()?.split_whitespace().last()?;
    let digits = word.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(word.len());
    word[..digits].parse().ok()
}

fn listen(host: &str, port: u16) -> Result<Server> {
    Server::bind(host, port)
        .map_err(|error| Failure::of(format!("listen for a debugger at {host}:{port}"), error))
}

/// Lets a debugger look at a process with which a recording fails, as it stands there: gdb, or whoever comes
/// to this port.
pub(super) fn at_fault(fault: &Fault<'_>, port: Option<u16>) -> Result<()> {
    output::note(&format!("bis: the recording fails: {}", fault.error()));
    let server = listen(LOOPBACK, port.unwrap_or(0))?;
    let mut words: Vec<OsString> =
        ["-l", ANSWER_S, "-ex", "set sysroot /", "-ex", ALL_STOP, "-ex"].map(OsString::from).into();
    words.push(format!("target remote {}", server.addr()).into());
    words.extend(fault.executable().map(PathBuf::into_os_string));
    let what = |error| Failure::of("speak to a debugger".to_owned(), error);
    if port.is_some() {
        output::note(&how_to_connect(OsStr::new(GDB), &words));
        return server.show(&Shown(fault), || false).map_err(what);
    }
    bis_tracee::ours::outlive_interrupts();
    let debugger = OsStr::new(GDB);
    let mut child =
        Command::new(debugger).args(&words).spawn().map_err(|error| cannot_start(debugger, &error))?;
    let shown = server.show(&Shown(fault), || !matches!(child.try_wait(), Ok(None)));
    child.wait().map_err(|error| Failure::of("wait for the debugger", error))?;
    shown.map_err(what)
}

/// What a debugger sees of a fault.
struct Shown<'a, 'd>(&'a Fault<'d>);

impl Standing for Shown<'_, '_> {
    fn tasks(&self) -> Vec<Tid> {
        self.0.tasks().collect()
    }

    fn registers(&self, tid: Tid) -> Option<(Registers, Vec<u8>)> {
        self.0.registers(tid).map(|(registers, extended)| (*registers, extended.to_vec()))
    }

    fn read(&self, addr: Addr, len: usize) -> Vec<u8> {
        self.0.read(addr, len)
    }

    fn auxv(&self) -> Vec<u8> {
        self.0.auxv()
    }

    fn executable(&self) -> Option<PathBuf> {
        self.0.executable()
    }
}

/// Where what a session shows goes.
pub(super) struct Outputs {
    pub listener: Option<Listener>,
    /// gdb's own.
    pub stdout: Stdio,
}

/// Lets gdb execute these commands on the recording, and nothing else.
pub(super) fn with_gdb(args: &Replay, commands: &str, outputs: Outputs) -> Result<u8> {
    let trace = Trace::open(&folder::find(&args.trace.name)?)?;
    let mut options = options(args, outputs.listener)?;
    let executable = executable(&trace, &mut options)?;
    let server = listen(LOOPBACK, 0)?;
    let (script, own) = (Script::new(bis_debug::gdb_script())?, Script::new(commands)?);
    let words = Words::new(args, &server, &script, &executable, &options, trace.dir());
    let mut line: Vec<OsString> = ["-nx", "-batch"].map(OsString::from).into();
    line.extend(["-iex", "set debuginfod enabled off"].map(OsString::from));
    line.extend(words.all(Kind::Gdb));
    // The last word is the executable.
    line.splice(line.len() - 1..line.len() - 1, ["-x".into(), own.path().into_os_string()]);
    start(server, trace, options, OsStr::new(GDB), &line, outputs.stdout)
}

/// Where the debugger finds the program. Where the machine has another dynamic linker by now, no file of the
/// machine's will do: the debugger looks for that one by its name.
fn executable(trace: &Trace, options: &mut Options) -> Result<Executable> {
    let executable = Server::executable(trace, options).map_err(|error| failure(&error))?;
    if let Some(was) = &executable.replaced {
        let was = was.display();
        output::note(&format!(
            "bis: {was} is not what it was when this was recorded: the debugger gets the trace's copy"
        ));
    }
    if executable.has_other_linker && !options.serve_files {
        options.serve_files = true;
        output::note(
            "bis: this machine has another dynamic linker by now: the debugger gets all files from the trace (--serve-files)",
        );
    }
    Ok(executable)
}

fn help() -> Result<u8> {
    let mut cli = Cli::command();
    cli.build();
    let help = cli.find_subcommand_mut("replay").map(|replay| replay.render_help().to_string());
    let mut out = output::page();
    out.write_all(help.unwrap_or_default().as_bytes())?;
    out.flush()?;
    Ok(0)
}

fn failure(error: &DebugError) -> Failure {
    Failure::usage(error.to_string())
}

pub(super) fn options(args: &Replay, listener: Option<Listener>) -> Result<Options> {
    let which = match (&args.pid, args.forked) {
        (None, None) if let Some(domain) = args.domain => Which::Domain(DomainId(domain)),
        (_, Some(pid)) => Which::Forked(pid),
        (Some(ProcessArg::Pid(pid)), None) => Which::Pid(*pid),
        (Some(ProcessArg::Command(name)), None) => Which::Command(name.clone()),
        (None, None) => Which::First,
    };
    let begin = match &args.goto {
        _ if args.end => Begin::End,
        Some(GotoArg::End) => Begin::End,
        Some(GotoArg::Event(event)) => Begin::Event(*event),
        Some(GotoArg::Place(place)) => Begin::Place(place.clone()),
        None => Begin::FirstExec,
    };
    let open = |path: &PathBuf| -> Result<File> {
        let file = OpenOptions::new().append(true).create(true).open(path);
        file.map_err(|error| Failure::of(format!("open {}", path.display()), error))
    };
    Ok(Options {
        which,
        begin,
        keep_listening: args.keep_listening,
        serve_files: args.serve_files,
        quiet: args.quiet,
        checkpoint_memory: args.checkpoint_memory,
        echo_to: match &args.tty {
            Some(path) => Some(open(path)?),
            None if is_adapter(args) => {
                let error = io::stderr().as_fd().try_clone_to_owned();
                Some(error.map_err(|error| Failure::of("use the standard error", error))?.into())
            }
            None => None,
        },
        listener,
        program: args.live_fd.map(guided::program).transpose()?,
    })
}

/// How a debugger is spoken to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Gdb,
    Lldb,
}

impl Kind {
    fn of(debugger: &OsStr) -> Kind {
        let name = Path::new(debugger).file_name().unwrap_or(debugger);
        if name.to_string_lossy().contains("lldb") { Kind::Lldb } else { Kind::Gdb }
    }
}

/// gdb's own commands, as a file that is there as long as this value.
struct Script(OwnedFd);

impl Script {
    fn new(commands: &str) -> Result<Script> {
        let what = |error: io::Error| Failure::of("hand gdb its commands", error);
        let fd = memfd_create("bis-gdb-commands", MemfdFlags::CLOEXEC).map_err(|error| what(error.into()))?;
        let mut file = File::from(fd);
        file.write_all(commands.as_bytes()).map_err(what)?;
        Ok(Script(file.into()))
    }

    /// Its path, for other processes as well.
    fn path(&self) -> PathBuf {
        proc::own_fd(&self.0)
    }
}

/// What a debugger's command line is made of.
struct Words<'a> {
    args: &'a Replay,
    addr: SocketAddr,
    script: PathBuf,
    executable: &'a Path,
    serve_files: bool,
    packed: Found,
}

impl<'a> Words<'a> {
    fn new(
        args: &'a Replay,
        server: &Server,
        script: &Script,
        executable: &'a Executable,
        options: &Options,
        trace: &Path,
    ) -> Words<'a> {
        Words {
            args,
            addr: server.addr(),
            script: script.path(),
            executable: &executable.path,
            serve_files: options.serve_files,
            packed: Found::of(trace),
        }
    }

    /// Those arguments where bis starts the debugger itself. gdb goes on with the next where ^C has ended
    /// one, and says no more than `Quit`: the user would wonder later what has become of the commands.
    fn started(&self, kind: Kind) -> Vec<OsString> {
        let mut words = self.all(kind);
        if kind == Kind::Gdb
            && let Some(target) = words.iter().position(|word| *word == *self.target())
        {
            words.splice(target + 1..target + 1, ["-ex", IS_READY].map(OsString::from));
        }
        words
    }

    /// gdb's command that connects it.
    fn target(&self) -> String {
        format!("target extended-remote {}", self.addr)
    }

    /// The arguments behind the debugger's name.
    fn all(&self, kind: Kind) -> Vec<OsString> {
        let mut words: Vec<OsString> = Vec::new();
        match kind {
            Kind::Gdb => {
                words.extend(["-l", ANSWER_S].map(OsString::from));
                if let Some(folder) = &self.packed.symbols {
                    words.extend(["-iex".into(), symbols_first(folder).into()]);
                }
                for (was, is) in &self.packed.sources {
                    words.push("-iex".into());
                    words
                        .push(format!("set substitute-path {} {}", quoted_path(was), quoted_path(is)).into());
                }
                if !self.serve_files {
                    // gdb would read every library through the connection, which is slow.
                    words.extend(["-ex", "set sysroot /"].map(OsString::from));
                }
                words.extend(["-ex", ALL_STOP].map(OsString::from));
                words.extend(["-x".into(), self.script.clone().into_os_string(), "-ex".into()]);
                words.push(self.target().into());
            }
            Kind::Lldb => {
                if let Some(folder) = &self.packed.symbols {
                    let folder = quoted_path(folder);
                    words.push("-O".into());
                    words.push(format!("settings append target.debug-file-search-paths {folder}").into());
                }
                for (was, is) in &self.packed.sources {
                    words.push("-O".into());
                    let pair = format!("{} {}", quoted_path(was), quoted_path(is));
                    words.push(format!("settings append target.source-map {pair}").into());
                }
                words.extend(["-O", LLDB_MONITOR, "-o"].map(OsString::from));
                words.push(format!("gdb-remote {}", self.addr).into());
            }
        }
        if let Some(interpreter) = &self.args.interpreter {
            words.extend(["-i".into(), interpreter.clone()]);
        }
        if self.args.fullname {
            words.push("--fullname".into());
        }
        for file in &self.args.commands {
            let option = if kind == Kind::Lldb { "-s" } else { "-x" };
            words.extend([option.into(), file.clone()]);
        }
        words.extend_from_slice(&self.args.debugger_options);
        words.extend_from_slice(&self.args.debugger_args);
        words.push(self.executable.into());
        words
    }
}

/// gdb's command that says so where it has not read all of bis's script, which defines this class behind all
/// others of its commands, or is not connected.
const IS_READY: &str = "python if \"BisWritten\" not in globals() or not gdb.selected_inferior().connection: \
    gdb.write(\"bis: gdb was interrupted before it was ready: it lacks bis's commands, or the connection. \
    Quit it, and begin again.\\n\", gdb.STDERR)";

/// LLDB's command that gives it gdb's short one for bis's own commands.
const LLDB_MONITOR: &str = "command regex monitor 's/(.*)/process plugin packet monitor %1/'";

/// gdb's command that lets it look for symbols in this folder before all others.
fn symbols_first(folder: &Path) -> String {
    let folder = folder.to_string_lossy().replace('\\', r"\\").replace('\'', r"\'");
    format!(
        "python gdb.execute('set debug-file-directory ' + '{folder}' + ':' + gdb.parameter('debug-file-directory'))"
    )
}

/// A path as one word of a debugger's command.
fn quoted_path(path: &Path) -> String {
    format!("\"{}\"", path.to_string_lossy().replace('\\', r"\\").replace('"', r#"\""#))
}

/// Two lines, of which the second one is a command line for a shell.
fn how_to_connect(debugger: &OsStr, words: &[OsString]) -> String {
    let line = words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
    // A usual name without quotes: some of the programs that read this line look for it so.
    let name = debugger.to_string_lossy();
    let usual = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./".contains(&byte);
    let name = if name.bytes().all(usual) { name.into_owned() } else { quoted(debugger) };
    let shown = Path::new(debugger).file_name().unwrap_or(debugger).to_string_lossy();
    format!("Launch {shown} with\n  {name} {line}")
}

/// A word in single quotes, as shells read it.
fn quoted(word: &OsStr) -> String {
    format!("'{}'", word.to_string_lossy().replace('\'', r"'\''"))
}

/// Starts the debugger and serves it until it has ended, whose status is then ours.
fn start(
    server: Server,
    trace: Trace,
    options: Options,
    debugger: &OsStr,
    words: &[OsString],
    stdout: Stdio,
) -> Result<u8> {
    // Before the way to where the session begins, which may be long.
    let found = program::find(&[debugger.to_owned()], env::var_os("PATH").as_deref(), None);
    if found.is_err_and(|failure| failure.status == status::NOT_FOUND) {
        return Err(cannot_start(debugger, &io::ErrorKind::NotFound.into()));
    }
    let (tell, told) = mpsc::channel();
    serve(server, trace, options, tell)?;
    if let Served::Refused(code) = wait_for_begin(&told)? {
        return Ok(code);
    }
    // ^C is for the debugger now, and SIGINT comes to all processes at the terminal.
    bis_tracee::ours::outlive_interrupts();
    let child = Command::new(debugger).args(words).stdout(stdout).spawn();
    let mut child = child.map_err(|error| cannot_start(debugger, &error))?;
    let ended = child.wait().map_err(|error| Failure::of("wait for the debugger", error))?;
    // A server that is at work still is over with this process.
    Ok(match told.recv_timeout(SERVER_END) {
        Ok(Served::Refused(code)) => code,
        _ => code_of(ended),
    })
}

/// What is told of a server.
enum Served {
    /// A debugger can come: the session stands where it begins.
    Ready,
    /// The debugger has left.
    Left,
    /// It cannot be served; the status.
    Refused(u8),
}

/// A debugger is started when it can be served: one that waits for an answer gives up after a while, and what
/// it says then hides why.
fn wait_for_begin(told: &Receiver<Served>) -> Result<Served> {
    let told = match told.recv_timeout(SHORT) {
        Err(RecvTimeoutError::Timeout) => {
            if io::stderr().is_terminal() {
                eprintln!("bis: on the way to where the session begins");
            }
            told.recv().map_err(|_| RecvTimeoutError::Disconnected)
        }
        told => told,
    };
    told.map_err(|error| Failure::of("wait for the server", error))
}

/// Serves on a thread of its own. What goes wrong is shown at once, because the debugger only sees that
/// nobody answers any more.
fn serve(server: Server, trace: Trace, options: Options, tell: Sender<Served>) -> Result<()> {
    let work = move || {
        let ready = || drop(tell.send(Served::Ready));
        let told = match server.serve(&trace, &options, ready) {
            Ok(()) => Served::Left,
            Err(error) => {
                let failure = failure(&error);
                failure.print();
                Served::Refused(failure.status)
            }
        };
        let _ = tell.send(told);
    };
    let thread = thread::Builder::new().name("server".into()).spawn(work);
    thread.map(drop).map_err(|error| Failure::of("start a thread", error))
}

fn code_of(ended: ExitStatus) -> u8 {
    let code = ended.code().or_else(|| ended.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(status::USAGE)
}

fn cannot_start(debugger: &OsStr, error: &io::Error) -> Failure {
    let name = debugger.to_string_lossy();
    if error.kind() != io::ErrorKind::NotFound {
        return Failure::of(format!("start the debugger {name}"), error);
    }
    Failure::usage(format!(
        "failed to start the debugger {name}: there is no such program; install gdb, name another one with -d, or \
         serve one that you start yourself with -s PORT (bis replay -a needs none)"
    ))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::Command as Asked;

    fn words(args: &[&str], kind: Kind) -> String {
        let cli = Cli::try_parse_from(["bis", "replay"].iter().chain(args)).unwrap();
        let Asked::Replay(args) = cli.command else { panic!("{args:?}") };
        let addr = ([127, 0, 0, 1], 1234).into();
        let words = Words {
            args: &args,
            addr,
            script: "/script".into(),
            executable: Path::new("/bin/it's"),
            serve_files: args.serve_files,
            packed: Found::default(),
        };
        how_to_connect(
            if kind == Kind::Gdb { OsStr::new("gdb") } else { OsStr::new("lldb") },
            &words.all(kind),
        )
    }

    #[test]
    fn the_debuggers_command_line() {
        assert_eq!(
            words(&[], Kind::Gdb),
            "Launch gdb with\n  gdb '-l' '10000' '-ex' 'set sysroot /' '-ex' 'set non-stop off' '-x' '/script' \
             '-ex' 'target extended-remote 127.0.0.1:1234' '/bin/it'\\''s'"
        );
        assert_eq!(
            words(
                &["--serve-files", "-i=mi3", "--fullname", "-x", "f", "-o", "--batch", "t", "--", "-q"],
                Kind::Gdb
            ),
            "Launch gdb with\n  gdb '-l' '10000' '-ex' 'set non-stop off' '-x' '/script' '-ex' \
             'target extended-remote 127.0.0.1:1234' '-i' 'mi3' '--fullname' '-x' 'f' '--batch' '-q' '/bin/it'\\''s'"
        );
        assert_eq!(
            words(&[], Kind::Lldb),
            r"Launch lldb with
  lldb '-O' 'command regex monitor '\''s/(.*)/process plugin packet monitor %1/'\''' '-o' 'gdb-remote 127.0.0.1:1234' '/bin/it'\''s'"
        );
    }

    #[test]
    fn the_version_of_gdb() {
        for (shown, number) in [
            ("GNU gdb (Debian 13.1-3) 13.1\nCopyright", Some(13)),
            ("GNU gdb (GDB) Fedora Linux 14.1-1.fc39\n", Some(14)),
            ("GNU gdb (Ubuntu 15.0.50.20240403-0ubuntu1) 15.0.50.20240403-git\n", Some(15)),
            ("GNU gdb (GDB) 18\n", Some(18)),
            ("something else\n", None),
            ("", None),
        ] {
            assert_eq!(version(shown), number, "{shown}");
        }
    }

    #[test]
    fn lldb_is_known_by_its_name() {
        for (name, kind) in [
            ("gdb", Kind::Gdb),
            ("/opt/lldb/gdb-15", Kind::Gdb),
            ("lldb-19", Kind::Lldb),
            ("/usr/bin/rust-lldb", Kind::Lldb),
        ] {
            assert_eq!(Kind::of(OsStr::new(name)), kind, "{name}");
        }
    }
}
