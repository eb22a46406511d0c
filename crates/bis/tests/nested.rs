//! A bis inside of a recording: what it does there by `--nested`, and that the outer trace replays whatever it was.

mod common;

use std::{ffi::OsStr, path::Path, time::Duration};

use common::{Folder, Step};
use libtest_mimic::{Failed, Trial};

const LIMIT: Duration = Duration::from_secs(60);

type Body = fn(&Folder) -> Result<(), Failed>;

fn main() {
    let trials: [(&str, Body); 6] = [
        ("join::the_program_is_recorded_by_the_outer_one", joined),
        ("join::a_program_that_is_killed_says_by_what", joined_and_killed),
        ("join::a_program_that_is_not_there_is_not_found", joined_and_missing),
        ("join::sigpipe_is_what_it_was", joined_with_sigpipe),
        ("error::it_is_refused", refused),
        ("ignore::the_kernel_refuses_it", ignored),
    ];
    let trials = trials.map(|(name, body)| {
        Trial::test(name, move || {
            let folder = Folder::new(&format!("nested.{}", name.replace("::", ".")))?;
            body(&folder)?;
            folder.done();
            Ok(())
        })
    });
    libtest_mimic::run(&common::arguments(), trials.into()).exit();
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
    expect(&step, 0, "gave 125\n", &["failed to record true: failed to seize"])?;
    has_no(&folder.path().join("inner"))
}
