//! The scene of a divergence: what a stopped process can still tell about itself. Reads only; whatever cannot
//! be read is left out of the report rather than spoiling it.

use bis_trace::{
    TraceError,
    event::{FileEntry, Machine},
    types::{Addr, FileId, Registers, Signal, Tid},
};
use bis_tracee::{
    Memory, cpu,
    features::{self, Level},
    maps::{self, Mapping},
    siginfo::SigInfo,
};
use iced_x86::{Decoder, DecoderOptions, Formatter, Instruction, IntelFormatter, Mnemonic};

use crate::{divergence::RegisterDifference, objects, world::World};

/// Instructions shown before and after the one at the program counter.
const BEFORE: usize = 2;
const AFTER: usize = 3;
/// How many instructions before the program counter are searched for one that answers by chance.
const CHANCE_BEFORE: usize = 12;
/// The longest that an x86-64 instruction can be, bytes.
const INSN_LEN_MAX: usize = 15;

pub(crate) struct Scene<'a> {
    world: &'a World<'a>,
    memory: &'a Memory,
    maps: Vec<Mapping>,
    /// Of the program's instructions: 32 or 64.
    bits: u32,
}

/// What is known of a mismatch when the cause is guessed.
pub(crate) struct Clues<'a> {
    pub registers: &'a [RegisterDifference],
    /// The fault that the replayed task raised, if that is what was found.
    pub fault: Option<(Signal, SigInfo)>,
    /// Memory was found to differ, at these addresses.
    pub memory: Option<(Addr, Addr)>,
    /// The process was killed from outside.
    pub killed: bool,
}

impl<'a> Scene<'a> {
    /// `ours` is any task of the replayed process, whose program has instructions of so many bits.
    pub(crate) fn new(world: &'a World<'a>, memory: &'a Memory, (ours, bits): (Tid, u32)) -> Scene<'a> {
        Scene { world, memory, maps: maps::read(ours).unwrap_or_default(), bits }
    }

    fn mapping(&self, addr: Addr) -> Option<&Mapping> {
        self.maps.iter().find(|m| (m.start..m.end).contains(&addr))
    }

    /// The kept file that a mapping shows: its name in the maps ends in the file's name in the trace.
    fn kept(&self, mapping: &Mapping) -> Option<&'a FileEntry> {
        let name = &mapping.name;
        let shown = name.rsplit(|byte| *byte == b'/').next()?;
        if let Some(id) = name.strip_prefix(b"/memfd:bis-file-") {
            let digits = id.split(|byte| *byte == b' ').next()?;
            let id = std::str::from_utf8(digits).ok()?.parse().ok()?;
            return self.world.trace.file(FileId(id)).ok();
        }
        self.world.files().find(|entry| !shown.is_empty() && entry.name.as_bytes() == shown)
    }

    /// An address in words: the file or kind of memory, and the offset in it.
    pub(crate) fn place(&self, addr: Addr) -> String {
        let Some(mapping) = self.mapping(addr) else { return format!("{addr:#x}, where nothing is mapped") };
        let offset = addr - mapping.start + mapping.offset;
        if let Some(entry) = self.kept(mapping) {
            return format!("{addr:#x} = {} + {offset:#x}", String::from_utf8_lossy(&entry.path));
        }
        let name = String::from_utf8_lossy(&mapping.name);
        if let Some(rest) = name.strip_prefix("/memfd:") {
            let rest = rest.trim_end_matches(" (deleted)");
            return format!(
                "{addr:#x} = {} + {offset:#x}",
                rest.replace(objects::OBJECT_PREFIX, "shared object ")
            );
        }
        let from = addr - mapping.start;
        format!("{addr:#x} = anonymous memory at {:#x} + {from:#x}", mapping.start)
    }

    /// See [`before`].
    fn before(&self, rip: Addr, count: usize) -> Vec<Instruction> {
        before(|addr, len| self.memory.read_upto(addr, len), self.bits, rip, count)
    }

    fn from(&self, rip: Addr) -> Vec<Instruction> {
        let bytes = self.memory.read_upto(rip, INSN_LEN_MAX * (AFTER + 1));
        Decoder::with_ip(self.bits, &bytes, rip.0, DecoderOptions::NONE).into_iter().take(AFTER + 1).collect()
    }

    /// The code around `rip`, one instruction a line.
    pub(crate) fn code(&self, rip: Addr) -> Vec<String> {
        let mut formatter = IntelFormatter::new();
        let mut line = |insn: &Instruction| {
            let mut text = String::new();
            formatter.format(insn, &mut text);
            let mark = if insn.ip() == rip.0 { "=>" } else { "  " };
            let bytes = self.memory.read_upto(Addr(insn.ip()), insn.len());
            let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{mark} {:#x}  {:<30} {text}", insn.ip(), hex.join(" "))
        };
        self.before(rip, BEFORE).iter().chain(&self.from(rip)).map(&mut line).collect()
    }

    /// Which of the known causes fits.
    pub(crate) fn cause(&self, regs: &Registers, clues: &Clues<'_>) -> String {
        if clues.killed {
            return "somebody killed the replayed process from outside, or the kernel did because memory ran out"
                .into();
        }
        if let Some(changed) = self.changed_file() {
            return changed;
        }
        if let Some((signal, info)) = clues.fault
            && let Some(cause) = self.cause_of_fault(signal, info)
        {
            return cause;
        }
        let overlaps = |m: &Mapping| clues.memory.is_some_and(|(start, end)| m.start < end && start < m.end);
        if self.maps.iter().any(|m| m.shared && overlaps(m)) {
            return self.outside().unwrap_or_else(|| {
                "memory that is shared with something that bis does not record (a device, or a process \
                    outside of the recording) changed"
                    .into()
            });
        }
        if let Some(cause) = self.cause_in_code(regs.ip(), clues.registers) {
            return cause;
        }
        // Also of a file that is mapped privately.
        if let Some(cause) = self.outside() {
            return cause;
        }
        if self.maps.iter().any(|m| m.shared) {
            return "memory that the process shares with others had other content than in the recording: either a \
                    process outside of the recording has written to it, which is not recorded; or, if there is \
                    no such process, the order of a change was not recorded, and then please report it"
                .into();
        }
        if let Some(cause) = other_processor(&self.world.machine) {
            return cause;
        }
        "an input that bis does not record; please report it, with this text".into()
    }

    /// Memory that somebody outside of the recording could change, where there was any.
    fn outside(&self) -> Option<String> {
        let outside = &self.world.facts.outside;
        let more = match outside.len() {
            0 | 1 => String::new(),
            n => format!(", or one of {} others (bis info lists them)", n - 1),
        };
        let first = outside.first()?;
        Some(format!(
            "memory that was changed from outside of the recording, which is not recorded: {first}{more}"
        ))
    }

    /// A kept file that was changed: what the process has mapped comes first, but what another one has read
    /// may have come to it as well.
    fn changed_file(&self) -> Option<String> {
        let mapped = self.maps.iter().filter_map(|mapping| self.kept(mapping));
        mapped.chain(self.world.files()).find_map(|entry| {
            Some(match self.world.trace.find_damage(entry.file)? {
                TraceError::Damaged { path, .. } => format!(
                    "the trace is damaged: its file {}, the content of {}, is not what it was when it was recorded",
                    path.display(),
                    entry.original()
                ),
                error => format!("the program's file is not what it was when it was recorded: {error}"),
            })
        })
    }

    fn cause_of_fault(&self, signal: Signal, info: SigInfo) -> Option<String> {
        let addr = info.addr();
        match signal.0 {
            4 => other_processor(&self.world.machine),
            11 if info.code() == 0x80 => None,
            11 | 7 if self.mapping(addr).is_none() => Some(format!(
                "nothing is mapped at {addr:#x} in the replay: the recording missed a mapping, or the address was \
                 computed from an input that bis does not record"
            )),
            7 => Some(format!(
                "{addr:#x} lies beyond the end of its file: the file is shorter than it was when it was recorded"
            )),
            _ => None,
        }
    }

    /// An instruction just before that answers differently each time.
    fn cause_in_code(&self, rip: Addr, registers: &[RegisterDifference]) -> Option<String> {
        // Only those that hold such an answer differ.
        let answers = ["rax", "rbx", "rcx", "rdx", "eflags"];
        let few = !registers.is_empty() && registers.iter().all(|r| answers.contains(&r.name));
        let near = self.before(rip, CHANCE_BEFORE);
        let chancy = near.iter().rev().find(|insn| {
            matches!(
                insn.mnemonic(),
                Mnemonic::Rdrand | Mnemonic::Rdseed | Mnemonic::Rdpid | Mnemonic::Lsl | Mnemonic::Xbegin
            ) || (few
                && matches!(
                    insn.mnemonic(),
                    Mnemonic::Rdtsc | Mnemonic::Rdtscp | Mnemonic::Cpuid | Mnemonic::Xgetbv
                ))
        })?;
        Some(
            format!(
                "the {:?} instruction at {:#x}, whose result was not recorded",
                chancy.mnemonic(),
                chancy.ip()
            )
            .to_lowercase(),
        )
    }
}

/// Was the trace recorded on another kind of processor, with programs free to see it?
fn other_processor(machine: &Machine) -> Option<String> {
    let here = cpu::brand();
    if let Some(names) = features::lacking(&machine.features, &features::offered(Level::Native)).listed() {
        return Some(format!(
            "this processor ({here}) lacks {names}, which the recording's programs were told that they may use; the trace was \
             recorded on another one ({}): replay it on one of that kind",
            machine.cpu
        ));
    }
    let lacking = machine.xcr0 & !cpu::xcr0();
    (machine.cpu != here && (lacking != 0 || !machine.cpuid_faulting)).then(|| {
        format!(
            "the trace was recorded on another processor ({}), this one is {here}: replay it on one of that kind",
            machine.cpu
        )
    })
}

/// Instructions that end where `rip` begins, as far as they can be told: the start is sought from which the
/// most instructions lead exactly there.
fn before(read: impl Fn(Addr, usize) -> Vec<u8>, bits: u32, rip: Addr, count: usize) -> Vec<Instruction> {
    let reach = INSN_LEN_MAX * (count + 1);
    let mut best = Vec::new();
    for back in (1..=reach).rev() {
        let Some(from) = rip.checked_sub(back as u64) else { continue };
        let bytes = read(from, back);
        if bytes.len() < back {
            continue;
        }
        let found: Vec<Instruction> =
            Decoder::with_ip(bits, &bytes, from.0, DecoderOptions::NONE).into_iter().collect();
        let whole = found.iter().all(|insn| !insn.is_invalid());
        if whole && found.len() > best.len() && found.last().is_some_and(|last| last.next_ip() == rip.0) {
            best = found;
        }
    }
    let surplus = best.len().saturating_sub(count);
    best.split_off(surplus)
}
