//! The machine: what it can do, what it has of a program beside the recording, and what of the kernel is
//! known.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use crate::desk::Desk;

/// A file that somebody outside of the recording has mapped, too, and changes: the trace says so, and the
/// divergence names it.
#[test]
fn memory_that_somebody_outside_changes() {
    changed_outside("");
}

/// The same of a file that the program has mapped privately and has not written to.
#[test]
fn a_private_mapping_that_somebody_outside_changes() {
    changed_outside(", mmap.MAP_PRIVATE");
}

/// `how` the program maps the file that somebody else changes.
fn changed_outside(how: &str) {
    let desk = Desk::new();
    if Command::new("python3").arg("--version").output().is_err() {
        println!("ignored: not installed (apt-get install python3)");
        return;
    }
    let write = |name: &str, text: &str| fs::write(desk.folder.path().join(name), text).unwrap();
    let map = |how: &str| {
        format!(
            "import mmap, time\nfile = open('shared', 'r+b')\nmemory = mmap.mmap(file.fileno(), 4096{how})\n"
        )
    };
    write("shared", &"\0".repeat(4096));
    write(
        "writer.py",
        &format!(
            "{}print('ready', flush=True)\nfor _ in range(60000):\n  memory[0] = (memory[0] + 1) % 256\n  time.sleep(0.001)\n",
            map("")
        ),
    );
    write(
        "reader.py",
        &format!(
            "{}first = memory[0]\nwhile memory[0] == first: time.sleep(0.0001)\nprint('changed')\n",
            map(how)
        ),
    );
    let mut writer = Command::new("python3")
        .arg("writer.py")
        .current_dir(desk.folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = [0; 6];
    std::io::Read::read_exact(writer.stdout.as_mut().unwrap(), &mut ready).unwrap();
    let recorded = desk.run(&["record", "-o", "read", "python3", "reader.py"]);
    let info = desk.run(&["info", "read"]);
    let replayed = desk.run(&["replay", "-a", "read"]);
    writer.kill().unwrap();
    writer.wait().unwrap();
    assert_eq!((recorded.status, recorded.stdout.as_str()), (0, "changed\n"), "{}", recorded.stderr);
    let who = format!("python3 (process {}) has it mapped, too", writer.id());
    let said =
        info.stdout.lines().find(|line| line.contains("shared with somebody outside of the recording"));
    assert!(said.is_some_and(|line| line.contains(&who) && line.contains("/shared, ")), "{}", info.stdout);
    assert_eq!(replayed.status, 1, "{}", replayed.stderr);
    let cause = "memory that was changed from outside of the recording, which is not recorded: ";
    assert!(replayed.stderr.contains(cause) && replayed.stderr.contains(&who), "{}", replayed.stderr);
    assert!(!replayed.stderr.contains("report it"), "{}", replayed.stderr);
}

/// The C library lets nobody catch signal 32; a program may send it to its parent all the same. (Who starts
/// bis here has it ignored, as `posix_spawn` does.)
#[test]
fn a_signal_that_the_c_library_keeps_does_not_end_the_recorder() {
    let desk = Desk::new();
    if Command::new("python3").arg("--version").output().is_err() {
        println!("ignored: not installed (apt-get install python3)");
        return;
    }
    let action = "import ctypes, os, sys\nlibc = ctypes.CDLL(None)\n\
        def action(handler): assert libc.syscall(13, 32, handler.to_bytes(32, 'little'), None, 8) == 0\n";
    let write = |name: &str, text: String| fs::write(desk.folder.path().join(name), text).unwrap();
    write("starts.py", format!("{action}action(0)\nos.execv(sys.argv[1], sys.argv[1:])\n"));
    write("sends.py", format!("{action}action(1)\nos.kill(os.getppid(), 32)\nprint('sent')\n"));
    let recording = desk.command(&["record", "-o", "sent", "python3", "sends.py"]);
    let mut starter = Command::new("python3");
    starter.arg("starts.py").arg(recording.get_program()).args(recording.get_args());
    let ran = starter.current_dir(desk.folder.path()).output().unwrap();
    assert_eq!((ran.status.code(), ran.stdout.as_slice()), (Some(0), &b"sent\n"[..]), "{ran:?}");
}

/// A program that leaves a daemon: the recording ends with the program, unless it is to wait, and says what
/// it has left.
#[test]
fn what_a_program_has_left_running() {
    let desk = Desk::new();
    let ran = desk.run(&["record", "-o", "left", "sh", "-c", "setsid sleep 600 & echo $! > pid; exit 3"]);
    let pid = fs::read_to_string(desk.folder.path().join("pid")).unwrap();
    let pid = pid.trim();
    assert_eq!((ran.status, ran.stdout.as_str()), (3, ""), "{}", ran.stderr);
    let told = format!(
        "bis: the program has left sleep (process {pid}) running; it was killed at the end of the recording"
    );
    assert!(ran.stderr.starts_with(&told), "{}", ran.stderr);
    assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    let is_alive = || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
    };
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while is_alive() {
        assert!(std::time::Instant::now() < deadline, "process {pid} has outlived the recording");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    // Its end is recorded like any other: the trace is whole.
    let told = desk.shows(&["info", "left"]);
    assert!(told.contains("complete; exit status 3"), "{told}");
    assert!(told.contains("what it had left running was killed: sleep"), "{told}");
    let replayed = desk.run(&["replay", "-a", "left"]);
    assert_eq!((replayed.status, replayed.stdout.as_str()), (0, ""), "{}", replayed.stderr);
    // What ends by itself in a moment, or is waited for, is recorded to its end.
    let wait = ["record", "--wait", "-o", "waited", "sh", "-c", "(sleep 3; echo late) & echo early"];
    assert_eq!(desk.shows(&wait), "early\nlate\n");
    assert_eq!(desk.shows(&["replay", "-a", "waited"]), "early\nlate\n");
}

#[test]
fn the_table_of_system_calls() {
    let desk = Desk::new();
    let all = desk.shows(&["syscalls"]);
    assert!(all.lines().count() > 350);
    assert!(all.lines().any(|line| line.trim_start().starts_with("0  read ")));
    assert!(
        desk.shows(&["syscalls", "io_uring"]).lines().skip(1).all(|line| line.contains("refused ENOSYS"))
    );
    let json = desk.shows(&["syscalls", "openat", "--json"]);
    assert!(json.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()));
    assert!(desk.shows(&["syscalls", "--markdown"]).starts_with("# System calls\n"));
    desk.refuses(&["syscalls", "no_such_call"], 2);
}

#[test]
fn doctor_tries_everything_and_says_so() {
    let desk = Desk::new();
    let ran = desk.run(&["doctor"]);
    let fit = ran.stdout.contains("bis can record on this machine.");
    assert_eq!(ran.status, i32::from(!fit), "{}", ran.stdout);
    for name in [
        "ptrace",
        "kernel",
        "yama",
        "seccomp",
        "performance counters",
        "traces",
        "disk space",
        "limits",
        "debugger",
    ] {
        assert!(ran.stdout.contains(name), "doctor lacks {name}:\n{}", ran.stdout);
    }
    let unwritable = desk.command(&["doctor"]).env("BIS_TRACES", "/proc/bis").output().unwrap();
    let text = String::from_utf8(unwritable.stdout).unwrap();
    assert!(text.contains("cannot write to /proc") && text.contains("BIS_TRACES"), "{text}");
}

/// Where `/proc` is another namespace's, what is found by it says nothing: neither of the kernel nor of bis.
#[test]
fn doctor_without_the_right_proc() {
    let desk = Desk::new();
    let bis = env!("CARGO_BIN_EXE_bis");
    let unshare = |arguments: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--pid", "--mount", "--fork"]).args(arguments);
        command.stdin(Stdio::null()).env("BIS_TRACES", desk.traces()).current_dir(desk.folder.path());
        command.output()
    };
    if !unshare(&["true"]).is_ok_and(|output| output.status.success()) {
        println!("ignored: no namespaces for processes here");
        return;
    }
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let none = "mount -t tmpfs none /proc && exec \"$0\" doctor";
    for arguments in [&[bis, "doctor"][..], &["sh", "-c", none, bis]] {
        let ran = unshare(arguments).unwrap();
        let text = String::from_utf8_lossy(&ran.stdout);
        assert_eq!(ran.status.code(), Some(1), "{text}");
        assert!(text.starts_with("FAIL  processes"), "{text}");
        assert!(text.contains(&format!("Linux {}", release.trim())), "{text}");
        for wrong in ["a bug in bis", "CONFIG_SECCOMP_FILTER", "Linux 5.15 or newer", "docker"] {
            assert!(!text.contains(wrong), "{wrong}: {text}");
        }
        assert!(text.contains("not known without the right /proc"), "{text}");
    }
}

#[test]
fn doctor_looks_at_a_text() {
    let desk = Desk::new();
    let own = env!("CARGO_BIN_EXE_bis");
    let ran = desk.run(&["doctor", "--text", own]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    for row in
        ["backward branches", "jumps between functions", "direct calls", "computed jumps", "left, by reason"]
    {
        assert!(ran.stdout.contains(row), "no {row} in\n{}", ran.stdout);
    }
    let ran = desk.run(&["doctor", "--json", "--text", own]);
    let page: serde_json::Value = serde_json::from_str(&ran.stdout).expect("one object");
    let branches = |kind: &str| page[kind]["backward_branches"].clone();
    let number = |kind: &str, of: &str| branches(kind)[of].as_u64().expect("a number");
    assert!(number("usual", "counted") > 1000 && number("usual", "short") > 100, "{page}");
    assert!(number("with_short_loops", "counted") > number("usual", "counted"), "{page}");
    assert_eq!(number("with_short_loops", "short"), 0);
    let ran = desk.run(&["doctor", "--text", "/etc/passwd"]);
    assert_eq!(ran.status, 2);
    assert!(ran.stderr.contains("failed to look at /etc/passwd"), "{}", ran.stderr);
}

/// Whatever the machine: a recording by the processor's counters is one that replays, or is refused with what
/// to do.
#[test]
fn counting_by_the_processor_works_or_says_why_not() {
    let desk = Desk::new();
    let ran = desk.run(&["record", "--ticks=hardware", "-o", "counted", "/bin/true"]);
    if ran.status == 0 {
        assert!(desk.shows(&["info", "counted"]).contains("tick source: hardware"));
        desk.shows(&["replay", "-a", "counted"]);
        return;
    }
    assert_eq!((ran.status, ran.stderr.lines().count()), (125, 1), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("failed to record /bin/true: failed to ") && ran.stderr.contains("--ticks=auto")
    );
    let counts = |pmu: &str| Path::new("/sys/bus/event_source/devices").join(pmu).exists();
    if !counts("cpu") && !counts("cpu_core") {
        assert!(ran.stderr.contains("no performance counters"), "{}", ran.stderr);
    }
    assert!(!desk.folder.path().join("counted").exists(), "a trace of nothing is left");
    let both = desk.run(&["record", "--chaos", "--ticks=stepping", "/bin/true"]);
    assert!(both.status == 125 && both.stderr.contains("give one of them"), "{}", both.stderr);
}

/// As the first process of a container it has orphans for children.
#[test]
fn it_records_as_process_1() {
    let desk = Desk::new();
    let in_container = |arguments: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]).args(arguments);
        command.stdin(Stdio::null()).env("BIS_TRACES", desk.traces()).current_dir(desk.folder.path());
        command.output()
    };
    if !in_container(&["true"]).is_ok_and(|output| output.status.success()) {
        println!("ignored: no namespaces for processes here");
        return;
    }
    let bis = env!("CARGO_BIN_EXE_bis");
    let script = "echo $$; (sleep 0.2; echo orphan) & exit 3";
    let recorded = in_container(&[bis, "record", "--wait", "-o", "t", "sh", "-c", script]).unwrap();
    assert_eq!(recorded.status.code(), Some(3), "{recorded:?}");
    let replayed = in_container(&[bis, "replay", "-a", "t"]).unwrap();
    assert_eq!(replayed.status.code(), Some(0), "{replayed:?}");
    assert!(recorded.stdout.ends_with(b"orphan\n"), "{recorded:?}");
    assert_eq!(replayed.stdout, recorded.stdout);
}

/// A limit of the stack that is too low for bis itself: the program has it, and is recorded.
#[test]
fn a_small_stack() {
    let desk = Desk::new();
    let lines = "ulimit -S -s 100 && \"$1\" record -o small sh -c 'ulimit -s' && \"$1\" replay -a small";
    let mut shell = Command::new("sh");
    shell.args(["-c", lines, "sh", env!("CARGO_BIN_EXE_bis")]).current_dir(desk.folder.path());
    let output = shell.env("BIS_TRACES", desk.traces()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "100\n100\n");
}
