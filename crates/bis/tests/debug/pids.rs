//! The numbers of processes, which each recording has anew.

use std::{path::Path, process::Command};

use libtest_mimic::Failed;

use crate::common;

/// The numbers of the processes of a recording, in the order in which they begin.
pub struct Pids(pub Vec<u64>);

impl Pids {
    const NAMES: [&str; 3] = ["{first}", "{fork}", "{third}"];

    pub fn of(trace: &Path) -> Result<Pids, Failed> {
        let output = Command::new(common::bis()).args(["ps", "--json"]).arg(trace).output();
        let output = output.map_err(|e| format!("failed to start bis ps: {e}"))?;
        let process = |line: &str| {
            let value: serde_json::Value = serde_json::from_str(line).ok()?;
            Some((value["from"].as_u64()?, value["pid"].as_u64()?))
        };
        let shown = String::from_utf8_lossy(&output.stdout);
        let mut processes: Vec<(u64, u64)> = shown.lines().filter_map(process).collect();
        processes.sort_unstable();
        Ok(Pids(processes.into_iter().map(|(_, pid)| pid).collect()))
    }

    /// The text with the numbers in place of their names.
    pub fn fill(&self, text: &str) -> String {
        let pids = Self::NAMES.iter().zip(&self.0);
        pids.fold(text.to_owned(), |text, (name, pid)| text.replace(name, &pid.to_string()))
    }
}
