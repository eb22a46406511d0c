//! `bis replay --on-error`: whether what goes to a debugger conflicts with `-a` depends on it, which cannot
//! be derived.

use clap::{Arg, ArgMatches, Args, FromArgMatches, error::ErrorKind, parser::ValueSource};

/// What `--on-error` says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OnError {
    pub debugs: bool,
}

impl OnError {
    const ID: &str = "on_error";
    /// What is said to a debugger, which -a starts only if it is told to.
    const TO_DEBUGGER: [(&str, &str); 10] = [
        ("port", "--port"),
        ("host", "--host"),
        ("debugger", "--debugger"),
        ("debugger_options", "--debugger-option"),
        ("commands", "--commands"),
        ("interpreter", "--interpreter"),
        ("fullname", "--fullname"),
        ("serve_files", "--serve-files"),
        ("checkpoint_memory", "--checkpoint-memory"),
        ("debugger_args", "arguments for the debugger"),
    ];
}

impl FromArgMatches for OnError {
    fn from_arg_matches(matches: &ArgMatches) -> Result<OnError, clap::Error> {
        let debugs = matches.contains_id(OnError::ID);
        let is_given = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
        let idle = OnError::TO_DEBUGGER.iter().find(|(id, _)| is_given(id));
        match idle {
            Some((_, name)) if is_given("autopilot") && !debugs => Err(clap::Error::raw(
                ErrorKind::ArgumentConflict,
                format!(
                    "with -a there is no debugger, and so no {name} (but with --on-error=debug, after a divergence)"
                ),
            )),
            _ => Ok(OnError { debugs }),
        }
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = OnError::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for OnError {
    fn augment_args(command: clap::Command) -> clap::Command {
        let arg = Arg::new(OnError::ID)
            .long("on-error")
            .value_name("WHAT")
            .value_parser(["debug"])
            .requires("autopilot")
            .help(
                "With -a: `debug` starts the debugger where the replay did something else than the recording",
            );
        command.arg(arg)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        OnError::augment_args(command)
    }
}
