//! Clients that are not a person at gdb's prompt: an editor that speaks gdb/MI, Midas (VS Code), which starts
//! everything by rr's name, and Delve, which debugs Go programs.
//!
//! Delve is looked for as `dlv` on the path; where it is missing, its trial is ignored.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::{Duration, Instant},
};

use crate::{
    common::{self, Folder},
    trial,
};
use libtest_mimic::{Failed, Trial};

const LIMIT: Duration = Duration::from_secs(60);

type Case = fn() -> Result<(), Failed>;

pub fn trials() -> Vec<Trial> {
    let trials: [(&str, &[&str], Case); 7] = [
        ("an_editor_by_mi", &["gcc", "gdb"], an_editor_by_mi),
        ("an_editor_by_dap", &["gcc", "gdb", "python3"], an_editor_by_dap),
        ("an_old_gdb_is_no_adapter", &["gcc"], an_old_gdb_is_no_adapter),
        ("midas_by_its_command_lines", &["gcc", "gdb"], midas_by_its_command_lines),
        ("an_interrupt_is_kept_for_the_next_resume", &["gcc"], an_interrupt_is_kept_for_the_next_resume),
        ("a_gdb_that_is_not_ready_says_so", &["gcc", "gdb"], a_gdb_that_is_not_ready_says_so),
        ("delve_replays_a_go_program", &["go", "dlv"], delve_replays_a_go_program),
    ];
    let trials = trials.into_iter().map(|(name, needs, run)| {
        let missing = needs.iter().find(|program| find(program).is_none());
        let missing = missing.map(|program| format!("{program} is not installed"));
        let missing = missing.or_else(|| {
            (needs.contains(&"dlv") && !may_mount())
                .then(|| format!("Delve reads {SETTING}, which needs unshare -m"))
        });
        let missing = missing.or_else(|| {
            (name == "an_editor_by_dap" && !is_adapter()).then(|| "this gdb is older than 14".to_owned())
        });
        if let Some(why) = &missing {
            println!("ignored: {name}: {why}");
        }
        trial(module_path!(), name, move || common::repeated(run)).with_ignored_flag(missing.is_some())
    });
    trials.collect()
}

/// Where a program is, by the path of whoever runs the tests.
fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// Can the gdb that the trials have speak the Debug Adapter Protocol?
fn is_adapter() -> bool {
    let mut gdb = common::command("gdb", Path::new("/"));
    gdb.args(["-nx", "-batch", "-ex", "python print(int(gdb.VERSION.split('.')[0]) >= 14)"]);
    gdb.stdin(Stdio::null()).output().is_ok_and(|output| output.stdout.starts_with(b"True"))
}

/// A recording of a program of the transcripts.
fn record(folder: &Folder, compiler: &[&str], source: &str) -> Result<(PathBuf, PathBuf), Failed> {
    let program = folder.path().join("program");
    let source = common::tree().join("tests/debug/programs").join(source);
    let compiler_path = find(compiler[0]).ok_or("the compiler is gone")?;
    let mut command = Command::new(compiler_path);
    command.args(&compiler[1..]).arg(&program).arg(&source).current_dir(folder.path());
    command.env("GO111MODULE", "off").env("GOCACHE", Path::new(env!("CARGO_TARGET_TMPDIR")).join("debug/go"));
    let output = command.output()?;
    if !output.status.success() {
        return Err(format!("{compiler:?}: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    let trace = folder.path().join("trace");
    let record = common::record_command(&trace, &[], &[program.as_os_str()], folder.path());
    common::run(record, "record", folder.path(), None, LIMIT)?;
    Ok((program, trace))
}

/// What Delve looks at before it begins.
const SETTING: &str = "/proc/sys/kernel/perf_event_paranoid";

/// May a filesystem be mounted, where nobody else sees it?
fn may_mount() -> bool {
    let mut unshare = Command::new("unshare");
    let status = unshare.args(["-m", "true"]).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success()) && Path::new(SETTING).exists()
}

const C: [&str; 5] = ["gcc", "-g", "-O0", "-pthread", "-o"];

/// A client that is spoken to line by line. It is killed when it is dropped.
struct Client {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    seen: String,
}

impl Client {
    fn start(mut command: Command) -> Result<Client, Failed> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let (tell, lines) = mpsc::channel();
        let outputs: [Option<Box<dyn std::io::Read + Send>>; 2] = [
            child.stdout.take().map(|out| Box::new(out) as _),
            child.stderr.take().map(|err| Box::new(err) as _),
        ];
        for output in outputs.into_iter().flatten() {
            let tell = tell.clone();
            thread::spawn(move || {
                for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
                    if tell.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                        break;
                    }
                }
            });
        }
        Ok(Client { input: child.stdin.take(), child, lines, seen: String::new() })
    }

    fn say(&mut self, text: &str) -> Result<(), Failed> {
        self.seen += &format!("> {text}\n");
        let input = self.input.as_mut().ok_or("the input is closed")?;
        Ok(writeln!(input, "{text}")?)
    }

    /// Waits for a line that has this in it: the line.
    fn wait(&mut self, wanted: &str) -> Result<String, Failed> {
        let deadline = Instant::now() + LIMIT;
        loop {
            let Ok(line) = self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) else {
                return Err(format!("`{wanted}` is not shown\n{}", self.seen).into());
            };
            self.seen += &format!("{line}\n");
            if line.contains(wanted) {
                return Ok(line);
            }
        }
    }

    /// Says a line, and waits for lines that have these in them, in this order.
    fn ask(&mut self, text: &str, wanted: &[&str]) -> Result<(), Failed> {
        self.say(text)?;
        wanted.iter().try_for_each(|wanted| self.wait(wanted).map(drop))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What editors send: breakpoints, both directions, frames, variables, threads.
/// (The end of the recording has a reason of its own from gdb 14 on only; all of them say something of
/// history.)
fn an_editor_by_mi() -> Result<(), Failed> {
    let folder = Folder::new("clients")?;
    let (_, trace) = record(&folder, &C, "basics.c")?;
    let mut command = common::command(common::bis(), folder.path());
    command.arg("replay").arg(&trace).args([
        "-q",
        "-i=mi",
        "-o",
        "-nx",
        "-o",
        "-iex",
        "-o",
        "set debuginfod enabled off",
    ]);
    let mut editor = Client::start(command)?;
    editor.wait("(gdb)")?;
    editor.ask("1-gdb-set breakpoint pending on", &["1^done"])?;
    editor.ask("2-break-insert add", &["2^done,bkpt={number=\"1\""])?;
    editor.ask("3-exec-run", &["3^running", "*stopped"])?;
    editor.ask("4-exec-continue", &["4^running", "reason=\"breakpoint-hit\""])?;
    editor.ask("5-stack-list-frames", &["5^done,stack=[frame={level=\"0\""])?;
    editor
        .ask("6-stack-list-variables --simple-values", &["name=\"a\",arg=\"1\",type=\"int\",value=\"0\""])?;
    editor.ask("7-var-create total @ total", &["7^done,name=\"total\",numchild=\"0\",value=\"0\""])?;
    editor.ask("8-thread-info", &["8^done,threads=[{id=\"1\""])?;
    editor.ask("9-exec-continue", &["reason=\"breakpoint-hit\""])?;
    editor.ask("10-exec-continue", &["reason=\"breakpoint-hit\""])?;
    editor.ask("11-var-update --all-values total", &["11^done,changelist=[{name=\"total\",value=\"1\""])?;
    editor.ask("12-exec-finish", &["reason=\"function-finished\""])?;
    editor.ask("13-exec-next --reverse", &["reason=\"breakpoint-hit\""])?;
    editor.ask("14-exec-continue --reverse", &["reason=\"breakpoint-hit\""])?;
    editor.ask("15-var-update --all-values total", &["15^done"])?;
    editor.ask("16-break-delete 1", &["16^done"])?;
    editor.ask("17-exec-continue --reverse", &[" history", "*stopped"])?;
    editor.ask("18-exec-continue", &[" history", "*stopped"])?;
    editor.ask("19-data-evaluate-expression total", &["19^done,value=\"9\""])?;
    editor.ask("20-gdb-exit", &["20^exit"])?;
    folder.done();
    Ok(())
}

/// Midas lists the traces and their processes, starts a server, and connects a gdb of its own to it.
fn midas_by_its_command_lines() -> Result<(), Failed> {
    let folder = Folder::new("clients")?;
    let (program, trace) = record(&folder, &C, "basics.c")?;
    let rr = folder.path().join("rr");
    symlink(common::bis(), &rr)?;
    let mut ps = common::command(&rr, folder.path());
    ps.arg("ps").arg(&trace);
    let listed = common::run(ps, "ps", folder.path(), None, LIMIT)?;
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    let pid = text
        .lines()
        .nth(1)
        .and_then(|line| line.split('\t').next())
        .ok_or_else(|| format!("rr ps: {text}"))?
        .trim()
        .to_owned();
    let mut server = common::command(&rr, folder.path());
    server.args(["replay", "-h", "127.0.0.1", "-s", "0", "-p", &pid, "-k"]).arg(&trace);
    let mut server = Client::start(server)?;
    server.wait("Launch gdb with")?;
    let line = server.wait("target extended-remote ")?;
    let address = line
        .split("target extended-remote ")
        .nth(1)
        .and_then(|rest| rest.split('\'').next())
        .ok_or("the line has no address")?
        .to_owned();
    // With -k, another session follows the first one.
    for _ in 0..2 {
        let mut gdb = common::command("gdb", folder.path());
        gdb.args(["-nx", "-q", "-i=mi3", "-iex", "set debuginfod enabled off", "-l", "10000"]);
        gdb.args(["-iex", "set mi-async on", "-iex", "set sysroot /"]).arg(&program);
        let mut gdb = Client::start(gdb)?;
        gdb.wait("(gdb)")?;
        gdb.ask(&format!("1-target-select extended-remote {address}"), &["1^connected"])?;
        gdb.ask("2-break-insert twice", &["2^done"])?;
        gdb.ask("3-exec-continue", &["reason=\"breakpoint-hit\""])?;
        gdb.ask("4-interpreter-exec console \"monitor when\"", &["Completed event: ", "4^done"])?;
        gdb.ask("5-exec-step --reverse", &["*stopped"])?;
        gdb.ask("6-gdb-exit", &["6^exit"])?;
    }
    folder.done();
    Ok(())
}

/// VS Code, Neovim, Helix and others, as `tests/gdb/dap.py` is one.
fn an_editor_by_dap() -> Result<(), Failed> {
    let folder = Folder::new("clients")?;
    let other = Folder::new("clients")?;
    let (_, data) = record(&folder, &C, "data.c")?;
    let (_, calls) = record(&other, &C, "calls.c")?;
    let mut client = common::command("python3", folder.path());
    client.arg(common::tree().join("tests/gdb/dap.py")).arg(common::bis()).args([&data, &calls]);
    common::run(client, "dap.py", folder.path(), None, 5 * LIMIT)?;
    other.done();
    folder.done();
    Ok(())
}

/// A gdb that knows no such interpreter would end with a usage message of its own.
fn an_old_gdb_is_no_adapter() -> Result<(), Failed> {
    let folder = Folder::new("clients")?;
    let (_, trace) = record(&folder, &C, "data.c")?;
    let gdb = folder.path().join("gdb-old");
    fs::write(&gdb, "#!/bin/sh\necho 'GNU gdb (Debian 13.1-3) 13.1'\n[ \"$1\" = --version ]\n")?;
    fs::set_permissions(&gdb, fs::Permissions::from_mode(0o755))?;
    let mut replay = common::command(common::bis(), folder.path());
    let output = replay.args(["replay", "-i=dap", "-d"]).arg(&gdb).arg(&trace).output()?;
    let told = String::from_utf8_lossy(&output.stderr);
    let is_one_line = told.lines().count() == 1;
    if output.status.success()
        || !is_one_line
        || !told.contains("gdb 14 or newer")
        || !output.stdout.is_empty()
    {
        return Err(format!("{}: {told}", output.status).into());
    }
    folder.done();
    Ok(())
}

/// A client's packets, one after the other.
struct Packets {
    stream: TcpStream,
    input: BufReader<TcpStream>,
}

impl Packets {
    /// The answer to a packet, without what the program writes.
    fn ask(&mut self, payload: &str) -> Result<String, Failed> {
        let sum = payload.bytes().fold(0_u8, |sum, byte| sum.wrapping_add(byte));
        write!(self.stream, "${payload}#{sum:02x}")?;
        loop {
            self.input.read_until(b'$', &mut Vec::new())?;
            let mut text = Vec::new();
            self.input.read_until(b'#', &mut text)?;
            self.input.read_exact(&mut [0; 2])?;
            self.stream.write_all(b"+")?;
            text.pop();
            let is_output = text.first() == Some(&b'O') && text != b"OK";
            if !is_output {
                return Ok(String::from_utf8_lossy(&text).into_owned());
            }
        }
    }

    fn check(&mut self, payload: &str, begin: &str) -> Result<(), Failed> {
        let answer = self.ask(payload)?;
        let is_right = answer.starts_with(begin);
        is_right.then_some(()).ok_or_else(|| format!("{payload} is answered {answer}, not {begin}").into())
    }
}

/// An interrupt that comes when the program has just stopped for something else, which the client passes
/// over, is the answer to its next resume; once, and not where it has been answered, or its user has a
/// prompt.
fn an_interrupt_is_kept_for_the_next_resume() -> Result<(), Failed> {
    let folder = Folder::new("clients")?;
    let (_, trace) = record(&folder, &C, "basics.c")?;
    let mut server = common::command(common::bis(), folder.path());
    server.args(["replay", "-q", "-s", "0"]).arg(&trace);
    let mut server = Client::start(server)?;
    let line = server.wait("target extended-remote ")?;
    let address = line.split("target extended-remote ").nth(1).and_then(|rest| rest.split('\'').next());
    let stream = TcpStream::connect(address.ok_or("the line has no address")?)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(LIMIT))?;
    let mut client = Packets { input: BufReader::new(stream.try_clone()?), stream };
    client.check("qSupported:swbreak+;hwbreak+;xmlRegisters=i386", "PacketSize")?;
    // At each call.
    client.check("QCatchSyscalls:1", "OK")?;
    let (call, interrupt) = ("T05", "T02");
    // Nothing runs yet.
    client.stream.write_all(b"\x03")?;
    client.check("vCont;c", call)?;
    for resume in ["vCont;c", "c", "vCont;s", "bc", "bs"] {
        client.stream.write_all(b"\x03")?;
        let before = client.ask("g")?;
        client.check("m0,1", "E")?;
        client.check("QPassSignals:", "OK")?;
        client.check(resume, interrupt)?;
        if client.ask("g")? != before {
            return Err(format!("{resume}: the program has moved").into());
        }
        // One more is about the same.
        client.stream.write_all(b"\x03")?;
        client.check("vCont;c", call)?;
    }
    // The request `prompt shown`.
    client.stream.write_all(b"\x03")?;
    client.check("qRcmd,70726f6d70742073686f776e", "")?;
    client.check("vCont;c", call)?;
    client.check("D", "OK")?;
    folder.done();
    Ok(())
}

/// ^C while gdb begins leaves out whatever it was at. Here that is the script with bis's commands, or the
/// connection.
fn a_gdb_that_is_not_ready_says_so() -> Result<(), Failed> {
    let folder = Folder::new("clients")?;
    let (_, trace) = record(&folder, &C, "data.c")?;
    for (left_out, instead) in [("", ""), ("/proc/*/fd/*", "/dev/null"), ("target*", "echo")] {
        let gdb = folder.path().join("gdb-interrupted");
        let text = format!(
            "#!/bin/sh\nn=$#\nwhile [ $n -gt 0 ]; do\n  case \"$1\" in\n  {}) set -- \"$@\" {instead};;\n  \
             *) set -- \"$@\" \"$1\";;\n  esac\n  shift; n=$((n - 1))\ndone\nexec gdb \"$@\"\n",
            if left_out.is_empty() { "''" } else { left_out }
        );
        fs::write(&gdb, text)?;
        fs::set_permissions(&gdb, fs::Permissions::from_mode(0o755))?;
        let mut replay = common::command(common::bis(), folder.path());
        replay.args(["replay", "-q", "-o", "-nx", "-o", "-batch", "-d"]).arg(&gdb).arg(&trace);
        let output = replay.stdin(Stdio::null()).output()?;
        let told = String::from_utf8_lossy(&output.stderr);
        if told.contains("gdb was interrupted before it was ready") == left_out.is_empty() {
            return Err(format!("without {left_out:?}: {told}").into());
        }
    }
    folder.done();
    Ok(())
}

/// `dlv replay`, which starts `rr` by name.
fn delve_replays_a_go_program() -> Result<(), Failed> {
    let folder = Folder::new("clients")?;
    let (_, trace) = record(&folder, &["go", "build", "-gcflags=all=-N -l", "-o"], "goroutines.go")?;
    let bin = folder.sub("bin")?;
    symlink(common::bis(), bin.join("rr"))?;
    fs::write(folder.path().join("1"), "1\n")?;
    // Delve refuses to begin where rr would not work. That is so in its own view of the filesystem only.
    let lie = format!("mount --bind {} {SETTING} && exec \"$@\"", folder.path().join("1").display());
    let mut command = common::command(find("unshare").ok_or("unshare is gone")?, folder.path());
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = [bin].into_iter().chain(std::env::split_paths(&path));
    command.env("PATH", std::env::join_paths(folders)?).args(["-m", "sh", "-c", &lie, "sh"]);
    command.arg(find("dlv").ok_or("dlv is gone")?).arg("replay").arg(&trace);
    command.args(["--allow-non-terminal-interactive=true", "--check-go-version=false"]);
    let mut delve = Client::start(command)?;
    let delve_asks = [
        ("break main.main", "Breakpoint 1 set"),
        ("continue", "> [Breakpoint 1] main.main()"),
        ("next", "goroutines.go:19"),
        ("checkpoint here", "Checkpoint c1 created"),
        ("break worker main.square", "Breakpoint worker set"),
        ("condition worker n == 2", ""),
        ("continue", "> [worker] main.square()"),
        ("print n", "(dlv) 2"),
        ("goroutines -with user", "* Goroutine "),
        ("stack", "(dlv) 0  0x"),
        ("clear worker", "Breakpoint worker cleared"),
        ("break report main.report", "Breakpoint report set"),
        ("continue", "> [report] main.report()"),
        ("args", "(dlv) sum = 14"),
        ("print answered", "(dlv) 0"),
        ("rev stepout", "goroutines.go:26"),
        ("step", "> [report] main.report()"),
        ("next", "goroutines.go:13"),
        ("next", "goroutines.go:14"),
        ("print answered", "(dlv) 14"),
        ("rev next", "goroutines.go:13"),
        ("rev step", "goroutines.go:12"),
        ("print answered", "(dlv) 0"),
        ("clear report", "Breakpoint report cleared"),
        ("restart c1", "goroutines.go:19"),
        ("rev next", "goroutines.go:18"),
        ("checkpoints", "here"),
        ("clear-checkpoint c1", ""),
        ("rewind", "> [Breakpoint 1] main.main()"),
        ("restart", "_rt0_amd64_linux()"),
        ("continue", "> [Breakpoint 1] main.main()"),
        // Both ends are stops, where it could go on for ever.
        ("rev continue", "_rt0_amd64_linux()"),
        ("continue", "> [Breakpoint 1] main.main()"),
        ("continue", "has exited with status 0"),
        ("rev continue", "> [Breakpoint 1] main.main()"),
    ];
    for (asked, wanted) in delve_asks {
        // Some say nothing.
        let wanted = [wanted];
        delve.ask(asked, if wanted == [""] { &[] } else { &wanted })?;
    }
    delve.ask("exit", &[])?;
    folder.done();
    Ok(())
}
