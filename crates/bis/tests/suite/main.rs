//! What bis does as a command, from outside, but for guests, real programs and sessions of a debugger: each
//! module is about one side of it, and has trials of its own, which are named `module::trial`.
//!
//! They are one program, because each program of tests takes seconds to build, and its last trial runs alone.
//! What cannot run beside others, or needs mounts of its own, is a program by itself.

#[path = "../common/mod.rs"]
mod common;

mod around;
mod attach;
mod bad_input;
mod bindings;
mod clients;
mod containers;
mod desktop;
mod diverged;
mod faults;
mod guesses;
mod hostile;
mod lies;
mod makers;
mod nested;
mod old_traces;
mod on_replay;
mod output;
mod rare;
mod reach;
mod steps;
mod written;

use std::fmt::Display;

use libtest_mimic::{Failed, Trial};

fn main() {
    let trials = [
        around::trials(),
        attach::trials(),
        bad_input::trials(),
        bindings::trials(),
        clients::trials(),
        containers::trials(),
        desktop::trials(),
        diverged::trials(),
        faults::trials(),
        guesses::trials(),
        hostile::trials(),
        lies::trials(),
        makers::trials(),
        nested::trials(),
        old_traces::trials(),
        on_replay::trials(),
        output::trials(),
        rare::trials(),
        reach::trials(),
        steps::trials(),
        written::trials(),
    ];
    libtest_mimic::run(&common::arguments(), trials.into_iter().flatten().collect()).exit();
}

/// A trial of the module with this path.
fn trial(
    module: &str,
    name: impl Display,
    run: impl FnOnce() -> Result<(), Failed> + Send + 'static,
) -> Trial {
    let module = module.rsplit("::").next().unwrap_or(module);
    Trial::test(format!("{module}::{name}"), run)
}
