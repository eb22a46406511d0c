//! What the program is at some place: the registers of its tasks, and sums of its memory.

use std::{collections::BTreeMap, fmt::Write as _};

use bis_debug::session::Session;
use bis_trace::types::{Addr, Registers, Tid};
use bis_tracee::{checksum, maps::Mapping, place};

/// The most bytes of a mapping that are kept for their differences: its last ones.
const SHOWN_MAX: u64 = 1 << 15;

/// What the program is at some place.
#[derive(Clone, PartialEq, Debug)]
pub struct State {
    /// With a sum of the vector registers.
    pub tasks: BTreeMap<Tid, (Registers, u64)>,
    /// Start, end, and sum of what is in between.
    pub memory: Vec<(Addr, Addr, u64)>,
    /// With `BIS_WALK_LOG`, some of the bytes, for their differences.
    pub bytes: BTreeMap<Addr, Vec<u8>>,
}

pub fn is_loud() -> bool {
    std::env::var_os("BIS_WALK_LOG").is_some()
}

impl State {
    pub fn of(session: &mut Session<'_>) -> Result<State, String> {
        session.rest().map_err(|trouble| trouble.text())?;
        let replica = session.replica();
        let mut tasks = BTreeMap::new();
        for tid in session.threads() {
            let (registers, extended) = session.registers(tid).ok_or("a task has no registers")?;
            tasks.insert(tid, (registers, xxhash_rust::xxh3::xxh3_64(&place::extended(&extended))));
        }
        let mut ranges: Vec<Mapping> = Vec::new();
        for mapping in session.maps() {
            if mapping.prot & 2 == 0 {
                continue;
            }
            // The kernel merges neighbours or does not.
            match ranges.last_mut() {
                Some(last) if last.end == mapping.start && last.inode == 0 && mapping.inode == 0 => {
                    last.end = mapping.end;
                }
                _ => ranges.push(mapping),
            }
        }
        let first = session.threads().first().copied().ok_or("there are no tasks")?;
        let ours = replica.our_task(first).ok_or("a task has no number")?;
        let (mut memory, mut bytes) = (Vec::new(), BTreeMap::new());
        for range in &ranges {
            let (one, start, len) = (std::slice::from_ref(range), range.start, range.end - range.start);
            let sum = checksum::sum_mapped(ours, replica.memory(), one, start, len);
            memory.push((start, range.end, sum.map_err(|error| error.to_string())?.sum));
            if is_loud() {
                let shown = start.max(range.end.saturating_sub(SHOWN_MAX));
                bytes.insert(shown, session.read_memory(shown, range.end - shown));
            }
        }
        Ok(State { tasks, memory, bytes })
    }

    /// What is different, for people. None: nothing.
    pub fn difference(&self, other: &State) -> Option<String> {
        let mut text = String::new();
        for (tid, (registers, extended)) in &self.tasks {
            let Some((others, other_extended)) = other.tasks.get(tid) else {
                let _ = writeln!(text, "  task {tid} is not there any more");
                continue;
            };
            for ((name, one), (_, two)) in named(registers).into_iter().zip(named(others)) {
                if one != two {
                    let _ = writeln!(text, "  task {tid}: {name} was {one:#x}, is {two:#x}");
                }
            }
            if extended != other_extended {
                let _ = writeln!(text, "  task {tid}: the vector registers are others");
            }
        }
        for tid in other.tasks.keys().filter(|tid| !self.tasks.contains_key(tid)) {
            let _ = writeln!(text, "  task {tid} was not there");
        }
        for range in self.memory.iter().filter(|range| !other.memory.contains(range)) {
            let _ = writeln!(text, "  memory was {:#x}-{:#x} {:016x}", range.0, range.1, range.2);
        }
        for range in other.memory.iter().filter(|range| !self.memory.contains(range)) {
            let _ = writeln!(text, "  memory is  {:#x}-{:#x} {:016x}", range.0, range.1, range.2);
        }
        for (addr, bytes) in &self.bytes {
            let others = other.bytes.get(addr).into_iter().flatten();
            let differ = bytes.iter().zip(others).enumerate().filter(|(_, (one, two))| one != two);
            for (at, (one, two)) in differ.take(16) {
                let _ = writeln!(text, "  {:#x}: was {one:02x}, is {two:02x}", addr + at as u64);
            }
        }
        (!text.is_empty()).then_some(text)
    }
}

fn named(r: &Registers) -> [(&'static str, u64); 27] {
    [
        ("rip", r.rip),
        ("rax", r.rax),
        ("rbx", r.rbx),
        ("rcx", r.rcx),
        ("rdx", r.rdx),
        ("rsi", r.rsi),
        ("rdi", r.rdi),
        ("rbp", r.rbp),
        ("rsp", r.rsp),
        ("r8", r.r8),
        ("r9", r.r9),
        ("r10", r.r10),
        ("r11", r.r11),
        ("r12", r.r12),
        ("r13", r.r13),
        ("r14", r.r14),
        ("r15", r.r15),
        ("eflags", r.eflags),
        ("orig_rax", r.orig_rax),
        ("cs", r.cs),
        ("ss", r.ss),
        ("ds", r.ds),
        ("es", r.es),
        ("fs", r.fs),
        ("gs", r.gs),
        ("fs_base", r.fs_base),
        ("gs_base", r.gs_base),
    ]
}
