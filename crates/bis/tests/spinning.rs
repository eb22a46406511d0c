//! Threads that spin for each other give their turns away early: a handoff takes a small part of what it
//! takes between threads that work meanwhile, which keep their whole time slice. Both are measured in one
//! recording, in time of the processor.

mod common;

use std::time::Duration;

use common::Folder;
use libtest_mimic::{Failed, Trial};

const LIMIT: Duration = Duration::from_secs(120);

/// How many times as long a handoff between threads that work takes at least. (It is about 8, and 2.4 where
/// only one of the four places is known.)
const TIMES_MIN: u64 = 3;

fn main() {
    let missing = (!common::installed("gcc")).then_some("gcc");
    if let Some(program) = missing {
        println!("ignored: everything: not installed (apt-get install {})", common::package_of(program));
    }
    // Without hooks, a place by its state costs as much as a busy machine's time slice.
    let modes = [("auto", "--ticks=auto"), ("dense", "--ticks=software")];
    let trial = |(mode, flag)| {
        let trial = Trial::test(format!("handoffs::{mode}"), move || common::repeated(|| handoffs(flag)));
        trial.with_ignored_flag(missing.is_some())
    };
    // Two at the same time would measure each other.
    let arguments = libtest_mimic::Arguments { test_threads: Some(1), ..common::arguments() };
    libtest_mimic::run(&arguments, modes.into_iter().map(trial).collect()).exit();
}

fn handoffs(flag: &str) -> Result<(), Failed> {
    let folder = Folder::new("spinning/handoffs")?;
    let (program, trace) = (folder.path().join("handoffs"), folder.path().join("trace"));
    common::compile(&common::tree().join("tests/spinning/handoffs.c"), &program)?;
    let command = common::record_command(&trace, &[flag], &[program.as_os_str()], folder.path());
    let recorded = common::run(command, "record", folder.path(), None, LIMIT)?;
    let text = String::from_utf8_lossy(&recorded.stdout).into_owned();
    let mut numbers = text.split(' ').filter_map(|word| word.trim().parse::<u64>().ok());
    let (Some(work), Some(spin)) = (numbers.next(), numbers.next()) else {
        return Err(format!("two numbers were expected\n{}", recorded.shown()).into());
    };
    if spin * TIMES_MIN > work {
        return Err(format!("a handoff takes {spin} µs, and {work} µs where threads work").into());
    }
    common::replay_and_compare(&trace, &recorded, folder.path(), LIMIT)?;
    folder.done();
    Ok(())
}
