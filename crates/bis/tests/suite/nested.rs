//! A bis inside of a recording: what it does there by `--nested`, and that the outer trace replays whatever
//! it was.

use std::{
    ffi::OsStr,
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use crate::{
    common::{self, Folder, Step},
    trial,
};
use libtest_mimic::{Failed, Trial};

const LIMIT: Duration = Duration::from_secs(60);

type Body = fn(&Folder) -> Result<(), Failed>;

pub fn trials() -> Vec<Trial> {
    let trials: [(&str, Body); 24] = [
        ("join::the_program_is_recorded_by_the_outer_one", joined),
        ("join::a_program_that_is_killed_says_by_what", joined_and_killed),
        ("join::a_program_that_is_not_there_is_not_found", joined_and_missing),
        ("join::sigpipe_is_what_it_was", joined_with_sigpipe),
        ("join::bis_run_has_the_checkpoints_of_the_outer_one", joined_run),
        ("join::a_debugger_is_refused", joined_with_gdb),
        ("error::it_is_refused", refused),
        ("ignore::it_is_refused_in_one_line", ignored),
        ("detach::a_command_is_left_out", left_out),
        ("detach::it_has_what_it_would_have", left_out_inherits),
        ("detach::the_recorder_does_not_count_what_it_does", left_out_traces),
        ("detach::its_status", left_out_status),
        ("detach::signals_reach_it", left_out_signals),
        ("detach::signals_reach_it_no_more", left_out_signals_late),
        ("detach::it_stops_and_goes_on", left_out_stops),
        ("detach::its_stand_in_is_killed", left_out_killed),
        ("detach::its_keeper_is_killed", left_out_without_keeper),
        ("detach::it_cannot_be_executed", left_out_fails),
        ("detach::it_outlives_the_recording", left_out_outlives),
        ("detach::the_recorder_is_killed", left_out_recorder_killed),
        ("detach::by_path_and_by_pattern", left_out_by_path),
        ("detach::it_closes_its_pipe", left_out_pipe),
        ("detach::an_inner_recording_is_one_of_its_own", inner_recording),
        ("detach::an_inner_replay", inner_replay),
    ];
    let trials = trials.map(|(name, body)| {
        trial(module_path!(), name, move || {
            let folder = Folder::new(&format!("nested.{}", name.replace("::", ".")))?;
            body(&folder)?;
            folder.done();
            Ok(())
        })
    });
    trials.into()
}

/// Records a shell's script in which `$BIS` is bis, and replays it. The replay must write the same.
fn both(folder: &Folder, options: &[&str], script: &str) -> Result<Step, Failed> {
    let trace = folder.path().join("outer");
    let argv = ["sh", "-c", script].map(OsStr::new);
    let mut command = common::record_command(&trace, options, &argv, folder.path());
    command.env("BIS", common::bis());
    let step = common::run(command, "record", folder.path(), None, LIMIT)?;
    common::replay_and_compare(&trace, &step, folder.path(), LIMIT)?;
    Ok(step)
}

fn expect(step: &Step, status: i32, stdout: &str, stderr: &[&str]) -> Result<(), Failed> {
    let text = step.stderr_text();
    let is_right = step.status == status
        && String::from_utf8_lossy(&step.stdout) == stdout
        && stderr.iter().all(|part| text.contains(part));
    if is_right {
        return Ok(());
    }
    Err(format!("wanted status {status}, {stdout:?}, {stderr:?}; got {}\n{}", step.status, step.shown())
        .into())
}

fn has_no(path: &Path) -> Result<(), Failed> {
    if path.exists() { Err(format!("{} was made", path.display()).into()) } else { Ok(()) }
}

fn joined(folder: &Folder) -> Result<(), Failed> {
    let sub = folder.sub("sub")?;
    let script = "echo \"$$\" && $BIS record -o inner --env WORD=said -C sub -p 1 -- sh -c 'pwd; echo $WORD; read l; echo $l; exit 7' <<E
a line
E
echo gave $?; exec $BIS record sh -c 'echo $$; exit 9'";
    let step = both(folder, &[], script)?;
    let text = String::from_utf8_lossy(&step.stdout).into_owned();
    let pid = text.lines().next().unwrap_or_default();
    let trace = folder.path().join("outer");
    let (trace, sub) = (trace.display(), sub.display());
    let stdout = format!("{pid}\n{trace}\n{sub}\nsaid\na line\ngave 7\n{pid}\n");
    let line = format!("bis: joined the recording that this runs in: the trace is {trace}");
    expect(&step, 9, &stdout, &[&format!("{line}, and none is made in inner\n"), &format!("{line}\n")])?;
    has_no(&folder.path().join("inner"))
}

fn joined_and_killed(folder: &Folder) -> Result<(), Failed> {
    let step = both(folder, &[], "$BIS record sh -c 'kill -TERM $$'; echo gave $?")?;
    expect(&step, 0, "gave 143\n", &["joined"])
}

fn joined_and_missing(folder: &Folder) -> Result<(), Failed> {
    let step =
        both(folder, &[], "$BIS record nothing-of-that-name; echo gave $?; $BIS record /; echo gave $?")?;
    expect(&step, 0, "gave 127\ngave 126\n", &["nothing-of-that-name"])
}

fn joined_with_sigpipe(folder: &Folder) -> Result<(), Failed> {
    let ignored = "grep SigIgn /proc/self/status";
    let script = format!("{ignored}; $BIS record {ignored}; trap '' PIPE; {ignored}; $BIS record {ignored}");
    let step = both(folder, &["--no-hooks"], &script)?;
    let text = String::from_utf8_lossy(&step.stdout).into_owned();
    match text.lines().collect::<Vec<_>>()[..] {
        [a, b, c, d] if a == b && c == d && a != c => Ok(()),
        _ => Err(format!("signals that are ignored:\n{text}").into()),
    }
}

/// The program makes checkpoints and goes back to them: the recording that there is serves these.
fn joined_run(folder: &Folder) -> Result<(), Failed> {
    let program = folder.path().join("program");
    common::compile(&common::tree().join("tests/guests/checkpoints/retry.c"), &program)?;
    let step =
        both(folder, &[], "$BIS run -o inner -- ./program | tail -1; $BIS run sh -c 'exit 7'; echo $?")?;
    let line = format!("joined the recording that this runs in: the trace is {}", folder.path().display());
    expect(&step, 0, "guest ok\n7\n", &[&line])?;
    has_no(&folder.path().join("inner"))?;
    let script = "for how in error ignore; do $BIS run --nested=$how -o inner true; echo $?; done
$BIS run --nested=detach -o own -- ./program >out; echo $?; tail -1 out";
    let trace = folder.path().join("second");
    let argv = ["sh", "-c", script].map(OsStr::new);
    let mut command = common::record_command(&trace, &[], &argv, folder.path());
    command.env("BIS", common::bis());
    let step = common::run(command, "record", folder.path(), None, LIMIT)?;
    expect(&step, 0, "125\n125\n0\nguest ok\n", &["already being recorded", "without --nested=ignore "])?;
    has_no(&folder.path().join("inner"))?;
    common::replay_and_compare(&trace, &step, folder.path(), LIMIT).map(drop)
}

fn joined_with_gdb(folder: &Folder) -> Result<(), Failed> {
    let step = both(folder, &[], "for by in record run; do $BIS $by --gdb -o inner true; echo $?; done")?;
    expect(&step, 0, "125\n125\n", &["failed to start the debugger", "--nested=detach"])?;
    has_no(&folder.path().join("inner"))
}

fn refused(folder: &Folder) -> Result<(), Failed> {
    let step = both(folder, &[], "$BIS record --nested=error -o inner true; echo gave $?")?;
    expect(
        &step,
        0,
        "gave 125\n",
        &["failed to record: this process is already being recorded by bis (into "],
    )?;
    has_no(&folder.path().join("inner"))
}

fn ignored(folder: &Folder) -> Result<(), Failed> {
    let step = both(folder, &[], "$BIS record --nested=ignore -o inner true; echo gave $?")?;
    let why =
        ["failed to record: this process is being recorded by bis (into ", "; without --nested=ignore "];
    expect(&step, 0, "gave 125\n", &why)?;
    let lines = step.stderr_text().lines().filter(|line| line.contains("record")).count();
    if lines != 1 {
        return Err(format!("one line says why, and these are {lines}\n{}", step.shown()).into());
    }
    has_no(&folder.path().join("inner"))
}

/// A program in the folder that is left out by its name: a shell's script.
fn program(folder: &Folder, name: &str, script: &str) -> Result<(), Failed> {
    let path = folder.path().join(name);
    fs::write(&path, format!("#!/bin/sh\n{script}\n"))?;
    Ok(fs::set_permissions(&path, Permissions::from_mode(0o755))?)
}

/// Records a script with the program `left` left out, and replays it: what `left` wrote is not in the replay,
/// all else is.
fn leaving(folder: &Folder, left: &str, script: &str, stdout: &str, replayed: &str) -> Result<Step, Failed> {
    program(folder, "left", left)?;
    for (round, extra) in [&["--detach=left"][..], &["--detach=left", "--no-hooks"]].into_iter().enumerate() {
        let trace = folder.path().join(format!("outer{round}"));
        let argv = ["sh", "-c", script].map(OsStr::new);
        let mut command = common::record_command(&trace, extra, &argv, folder.path());
        command.env("BIS", common::bis());
        let step = common::run(command, "record", folder.path(), Some(b"first\nsecond\n"), LIMIT)?;
        expect(&step, 0, stdout, &[])?;
        let mut replay = common::command(common::bis(), folder.path());
        replay.arg("replay").arg("-a").arg(&trace);
        let step = common::run(replay, "replay", folder.path(), None, LIMIT)?;
        expect(&step, 0, replayed, &[]).map_err(|error| common::explain(&error, &trace))?;
        if round == 1 {
            return Ok(step);
        }
    }
    Err("no round".into())
}

/// A trace replays, and its replay writes this.
fn replays(folder: &Folder, trace: &str, stdout: &str) -> Result<(), Failed> {
    let mut replay = common::command(common::bis(), folder.path());
    replay.args(["replay", "-a", trace]);
    let step = common::run(replay, "replay", folder.path(), None, LIMIT)?;
    expect(&step, 0, stdout, &[]).map_err(|error| common::explain(&error, &folder.path().join(trace)))
}

fn left_out(folder: &Folder) -> Result<(), Failed> {
    let left = "read line; echo \"left $* $line $WORD\"; grep -c TracerPid:.0 /proc/self/status; exit 3";
    let script = "read l; echo $l; WORD=w ./left a 'b c'; echo gave $?; x=$(./left); echo caught ${#x} $?";
    let stdout = "first\nleft a b c second w\n1\ngave 3\ncaught 9 3\n";
    // The stand-in's parent reads what the program outside has written into its pipe.
    leaving(folder, left, script, stdout, "first\ngave 3\ncaught 9 3\n").map(drop)
}

fn left_out_inherits(folder: &Folder) -> Result<(), Failed> {
    let left = "pwd; umask; ulimit -n; ulimit -S -c; cat <&7
grep -E 'Sig(Ign|Blk)' /proc/self/status >mine; grep -E 'Sig(Ign|Blk)' /proc/$PARENT/status | cmp - mine && echo same signals
grep -cE 'Seccomp:.[^0]|TracerPid:.[^0]' /proc/self/status; echo $(($(nice) - NICE))
for fd in 3 4 5 6 8; do [ -e /proc/$$/fd/$fd ] && [ ! -e /proc/$PARENT/fd/$fd ] && echo $fd; done; [ -e /proc/$$/fd/9 ]";
    let script = "echo sevens >s; mkdir -p d; cp left d/; cd d; umask 027; ulimit -n 321; ulimit -S -c 0; trap '' USR1 HUP
export PARENT=$$ NICE=$(nice); exec 7<../s 9</dev/null; nice -n 3 ./left | sed s:.*/d$:d:";
    let stdout = "d\n0027\n321\n0\nsevens\nsame signals\n0\n3\n";
    leaving(folder, left, script, stdout, stdout).map(drop)
}

fn left_out_traces(folder: &Folder) -> Result<(), Failed> {
    let step = leaving(
        folder,
        "$BIS record -o own true && $BIS replay -a own && echo both; rm -rf own",
        "x=$(./left); echo $x",
        "both\n",
        "both\n",
    )?;
    drop(step);
    let mut info = common::command(common::bis(), folder.path());
    info.args(["info", "outer1"]);
    let step = common::run(info, "info", folder.path(), None, LIMIT)?;
    if String::from_utf8_lossy(&step.stdout).contains("/left, which is left out of the recording") {
        return Ok(());
    }
    Err(format!("info does not say it\n{}", step.shown()).into())
}

fn left_out_status(folder: &Folder) -> Result<(), Failed> {
    let left = "case $1 in k) kill -$2 $$;; *) exit $1;; esac";
    let script = "for s in 0 1 255 'k TERM' 'k KILL' 'k SEGV' 'k USR2'; do (exec ./left $s) 2>/dev/null; echo $?; done 2>/dev/null";
    let stdout = "0\n1\n255\n143\n137\n139\n140\n";
    leaving(folder, left, script, stdout, stdout).map(drop)
}

fn left_out_signals(folder: &Folder) -> Result<(), Failed> {
    let left = "trap 'echo term >>said' TERM; trap 'echo int >>said; exit 5' INT; echo ready >ready; while :; do sleep 0.05; done";
    // A shell ignores SIGINT in what it starts in the background without job control.
    let script = "set -m; rm -f ready said; ./left & until [ -e ready ]; do sleep 0.02; done
kill -TERM $!; until [ -e said ]; do sleep 0.02; done; kill -INT $!; wait $!; echo gave $?; cat said";
    let script = format!("exec bash -c '{script}'");
    leaving(folder, left, &script, "gave 5\nterm\nint\n", "gave 5\nterm\nint\n").map(drop)
}

/// Its status comes back although its keeper, which was slow, has never read the last signal for it.
fn left_out_signals_late(folder: &Folder) -> Result<(), Failed> {
    let left = "echo $PPID $$ >both; mv both pids; until [ -e go ]; do sleep 0.02; done; exit 6";
    let script = "rm -f pids go; trap '' USR1 USR2; ./left & until [ -e pids ]; do sleep 0.02; done
read keeper pid <pids; kill -STOP $keeper; until grep -q State:.T /proc/$keeper/status; do sleep 0.02; done
kill -USR1 $!; kill -USR2 $!; while grep -q ShdPnd:.*[1-9a-f] /proc/$!/status; do sleep 0.02; done
: >go; until grep -q State:.Z /proc/$pid/status; do sleep 0.02; done; kill -CONT $keeper; wait $!; echo gave $?";
    leaving(folder, left, script, "gave 6\n", "gave 6\n").map(drop)
}

fn left_out_stops(folder: &Folder) -> Result<(), Failed> {
    let left = "kill -STOP $$; echo on >said; exit 4";
    let script = "set -m; ./left & until jobs -s | grep -q Stopped; do sleep 0.02; done; echo stopped
kill -CONT $!; while wait $!; s=$?; [ $s = 147 ]; do sleep 0.02; done; echo gave $s; cat said";
    let script = format!("exec bash -c '{}'", script.replace('\'', "'\\''"));
    leaving(folder, left, &script, "stopped\ngave 4\non\n", "stopped\ngave 4\non\n").map(drop)
}

fn left_out_killed(folder: &Folder) -> Result<(), Failed> {
    let left = "echo $$ >pid; while :; do sleep 0.05; done";
    let script = "rm -f pid; ./left & until [ -s pid ]; do sleep 0.02; done; kill -KILL $!; wait $! 2>/dev/null; echo gave $?
while kill -0 $(cat pid) 2>/dev/null; do sleep 0.02; done; echo gone";
    leaving(folder, left, script, "gave 137\ngone\n", "gave 137\ngone\n").map(drop)
}

fn left_out_fails(folder: &Folder) -> Result<(), Failed> {
    let script = "chmod -x left; ./left 2>/dev/null; echo $?; chmod +x left; printf '#!/nothing/there\\n' >left; ./left 2>/dev/null; echo $?
rm left; ./left 2>/dev/null; echo $?; printf 'echo text\\n' >left; chmod +x left; ./left; printf '#!/bin/sh\\n' >left";
    leaving(folder, "", script, "126\n127\n127\ntext\n", "126\n127\n127\ntext\n").map(drop)
}

/// Whether a process is there, and not only what is left of it.
fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit(')')
        .next()
        .is_some_and(|rest| !rest.trim_start().is_empty() && !rest.trim_start().starts_with('Z'))
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) -> Result<(), Failed> {
    let begun = Instant::now();
    while !is_so() {
        if begun.elapsed() > LIMIT {
            return Err(format!("waited in vain: {what}").into());
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

fn left_out_outlives(folder: &Folder) -> Result<(), Failed> {
    program(
        folder,
        "left",
        "exec >/dev/null 2>&1; echo $$ >pid; while [ ! -e end ]; do sleep 0.05; done; echo out >>end",
    )?;
    let mut command = common::command(common::bis(), folder.path());
    let script = "./left & until [ -s pid ]; do sleep 0.02; done; echo over";
    command.args(["record", "-o", "outer", "--detach=left", "sh", "-c", script]);
    let step = common::run(command, "record", folder.path(), None, LIMIT)?;
    expect(&step, 0, "over\n", &["left out of the recording, and goes on by itself: left"])?;
    let pid = fs::read_to_string(folder.path().join("pid"))?;
    if !is_alive(&pid) {
        return Err("it has not outlived the recording".into());
    }
    replays(folder, "outer", "over\n")?;
    fs::write(folder.path().join("end"), "")?;
    wait_until("its own end", || !is_alive(&pid))
}

fn left_out_recorder_killed(folder: &Folder) -> Result<(), Failed> {
    program(folder, "left", "echo $$ >pid; while :; do sleep 0.05; done")?;
    let mut command = common::command(common::bis(), folder.path());
    command.args(["record", "-o", "outer", "--detach=left", "sh", "-c", "./left; echo no"]);
    let mut running = common::start(command, "record", folder.path(), None)?;
    let file = folder.path().join("pid");
    wait_until("the program", || fs::read_to_string(&file).is_ok_and(|text| text.ends_with('\n')))?;
    let pid = fs::read_to_string(&file)?;
    running.kill();
    wait_until("the end of what was left out", || !is_alive(&pid))
}

/// Nobody can say how the program ended then: that is no success.
fn left_out_without_keeper(folder: &Folder) -> Result<(), Failed> {
    let said = "gave 125\n";
    leaving(folder, "kill -KILL $PPID; exit 0", "./left; echo gave $?", said, said).map(drop)
}

fn left_out_by_path(folder: &Folder) -> Result<(), Failed> {
    program(folder, "a-1", "grep -c TracerPid:.0 /proc/$$/status")?;
    program(folder, "b", "grep -c TracerPid:.0 /proc/$$/status")?;
    let step = both(
        folder,
        &["--detach=./b", "--detach=?-*"],
        "x=$(./a-1); y=$(./b); here=$PWD; z=$(cd /; $here/b); echo $x $y $z",
    )?;
    expect(&step, 0, "1 1 1\n", &[])
}

fn left_out_pipe(folder: &Folder) -> Result<(), Failed> {
    // The reader sees the end when the program closes its own end: its stand-in has none.
    let left = "echo text; exec >&-; until [ -e read ]; do sleep 0.02; done; exit 6";
    let script = "rm -f read f; mkfifo f; ./left >f & cat f; : >read; wait $!; echo gave $?";
    leaving(folder, left, script, "text\ngave 6\n", "text\ngave 6\n").map(drop)
}

fn inner_recording(folder: &Folder) -> Result<(), Failed> {
    let script = "x=$($BIS record --nested=detach -o inner sh -c 'echo in; exit 8'); echo $x $?; x=$($BIS replay -a inner); echo $x $?";
    let step = both(folder, &[], script)?;
    expect(&step, 0, "in 8\nin 0\n", &[])?;
    replays(folder, "inner", "in\n")
}

fn inner_replay(folder: &Folder) -> Result<(), Failed> {
    let mut command = common::command(common::bis(), folder.path());
    command.args(["record", "-o", "first", "echo", "said"]);
    expect(&common::run(command, "record", folder.path(), None, LIMIT)?, 0, "said\n", &[])?;
    let mut command = common::command(common::bis(), folder.path());
    command.args(["record", "-o", "outer"]).arg(common::bis()).args(["replay", "-a", "first"]);
    expect(&common::run(command, "record", folder.path(), None, LIMIT)?, 0, "said\n", &[])?;
    replays(folder, "outer", "")
}
