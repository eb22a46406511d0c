//! Every environment variable that bis reads, each with its meaning: the only place where one is named. The
//! help text and docs/using.md come from here.

use std::{env, ffi::OsString};

/// One environment variable.
#[derive(Clone, Copy, Debug)]
pub struct Variable {
    pub name: &'static str,
    /// One line for the help.
    pub meaning: &'static str,
}

impl Variable {
    /// Its value; an empty one counts as unset.
    pub fn get(&self) -> Option<OsString> {
        env::var_os(self.name).filter(|value| !value.is_empty())
    }
}

pub const BIS_TRACES: Variable =
    Variable { name: "BIS_TRACES", meaning: "the folder of the traces (default: $XDG_DATA_HOME/bis)" };
/// rr's name of the same, for the scripts of its users.
pub const RR_TRACE_DIR: Variable =
    Variable { name: "_RR_TRACE_DIR", meaning: "the folder of the traces, if BIS_TRACES is not set" };
pub const XDG_DATA_HOME: Variable =
    Variable { name: "XDG_DATA_HOME", meaning: "where programs keep data (default: $HOME/.local/share)" };
pub const XDG_CACHE_HOME: Variable = Variable {
    name: "XDG_CACHE_HOME",
    meaning: "where what bis learned of programs is kept, in bis (default: $HOME/.cache)",
};
pub const BIS_CACHE_SIZE: Variable = Variable {
    name: "BIS_CACHE_SIZE",
    meaning: "how much of the disk the texts that count may take in the cache, like 512M (default: 2G)",
};
pub const BIS_TEXTS: Variable = Variable {
    name: "BIS_TEXTS",
    meaning: "how the texts that count of large programs are made: in the background (default), or wait for them",
};
pub const HOME: Variable = Variable { name: "HOME", meaning: "your home folder" };
pub const BIS_LOG: Variable = Variable {
    name: "BIS_LOG",
    meaning: "what to log to standard error: error, warn, info, debug, trace, or by part: bis_record=debug",
};
pub const RUST_BACKTRACE: Variable =
    Variable { name: "RUST_BACKTRACE", meaning: "1: add a backtrace to the report of a bug in bis" };

/// All of them, in the order of the help.
pub const ALL: [Variable; 9] = [
    BIS_TRACES,
    RR_TRACE_DIR,
    BIS_LOG,
    BIS_CACHE_SIZE,
    BIS_TEXTS,
    XDG_DATA_HOME,
    XDG_CACHE_HOME,
    HOME,
    RUST_BACKTRACE,
];

/// The section of `--help`.
pub fn help() -> String {
    let width = ALL.iter().map(|variable| variable.name.len()).max().unwrap_or(0);
    let lines: Vec<String> = ALL.iter().map(|v| format!("  {:width$}  {}", v.name, v.meaning)).collect();
    format!("Environment:\n{}", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_manual_names_every_variable() {
        let manual = include_str!("../../../docs/using.md");
        for variable in super::ALL {
            assert!(
                manual.contains(&format!("`{}`", variable.name)),
                "docs/using.md lacks {}",
                variable.name
            );
        }
    }
}
