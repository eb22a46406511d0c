//! The image of the hooks that every address space gets.

use std::sync::OnceLock;

use bis_agent::hooks::{self, Cpuid, Row};
use bis_trace::types::FileId;
use bis_tracee::{cpu, features::Level};

/// What is behind the hooks' text in every address space.
#[derive(Debug)]
pub struct HookImage {
    rows: Box<[Row; hooks::CALLS]>,
    /// What the processor says of itself.
    pub cpuid: Vec<Cpuid>,
    /// As a process has it while it is recorded, and in replay.
    pub recorded: Vec<u8>,
    pub replayed: Vec<u8>,
    /// `replayed`, where the trace has it.
    pub kept: OnceLock<FileId>,
}

impl HookImage {
    /// Without the calls of `traced`; `cpuid` tells of no more than `level`.
    pub fn new(traced: &[u64], level: Level) -> HookImage {
        let cpuid = cpu::cpuid_answers(level);
        let mut rows = Box::new(hooks::table());
        for row in traced.iter().filter_map(|nr| usize::try_from(*nr).ok()) {
            if let Some(row) = rows.get_mut(row) {
                *row = Row::default();
            }
        }
        let (recorded, replayed) = (hooks::image(false, &cpuid, &rows), hooks::image(true, &cpuid, &rows));
        HookImage { rows, cpuid, recorded, replayed, kept: OnceLock::new() }
    }

    /// May the hooks make this call?
    pub fn is_hooked(&self, nr: u64) -> bool {
        let row = usize::try_from(nr).ok().and_then(|nr| self.rows.get(nr));
        row.is_some_and(|row| row.flags & hooks::flag::HOOKED != 0)
    }
}
