//! `bis replay --trace-at`: which expressions belong to which place is lost in what can be derived.

use clap::{Arg, ArgAction, ArgMatches, Args, FromArgMatches};

/// The places to print at, each with its expressions: `--trace-at LOCATION EXPR...`, again and again.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TraceAt {
    pub points: Vec<Vec<String>>,
}

impl TraceAt {
    const ID: &str = "trace_at";
}

impl FromArgMatches for TraceAt {
    fn from_arg_matches(matches: &ArgMatches) -> Result<TraceAt, clap::Error> {
        let all = matches.get_occurrences::<String>(TraceAt::ID);
        let points = all.map(|all| all.map(|words| words.cloned().collect()).collect());
        Ok(TraceAt { points: points.unwrap_or_default() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = TraceAt::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for TraceAt {
    fn augment_args(command: clap::Command) -> clap::Command {
        let others =
            ["autopilot", "port", "host", "debugger", "commands", "interpreter", "fullname", "debugger_args"];
        let arg = Arg::new(TraceAt::ID)
            .long("trace-at")
            .num_args(1..)
            .action(ArgAction::Append)
            .value_names(["LOCATION", "EXPR"])
            .conflicts_with_all(others)
            .help("Start no debugger: print what the expressions are at each arrival at LOCATION; can be given several times")
            .long_help(
                "Start no debugger: print what the expressions are at each arrival at LOCATION, which is FILE:LINE, FUNCTION \
                 or *ADDRESS; can be given several times.\n\n\
                 Each line begins with the thread and the last event. The trace's name comes before this option. \
                 It needs gdb.",
            );
        command.arg(arg)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        TraceAt::augment_args(command)
    }
}
