//! Which event of which processor counts retired conditional branches, and what is known to be wrong with it.
//! Facts from the makers' event tables (Intel's perfmon files, AMD's PPRs) and from what users of these
//! events have found; this file asks the processor who it is, and nothing else. The check in `hardware.rs`
//! asks whether it counts right.

use crate::sys::cpuid;

/// How a processor counts conditional branches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counter {
    /// For people.
    pub name: &'static str,
    /// Event number, and unit mask from bit 8 on.
    pub event: u64,
    /// A counter's interrupt comes at most so many branches late.
    pub skid_max: u64,
    /// Locked instructions may run ahead and be counted twice, unless bit 54 of MSR 0xC0011020 is set.
    pub locks_speculate: bool,
    /// Cores of two kinds with counters of their own; the event is that of the fast ones.
    pub hybrid: bool,
    /// Interrupts of the firmware are counted, unless the kernel is told to freeze counters meanwhile.
    pub counts_smi: bool,
}

/// The maker of a processor, and which one it is, as `cpuid` says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Model {
    pub vendor: [u8; 12],
    pub family: u32,
    pub model: u32,
    /// It has cores of two kinds.
    pub hybrid: bool,
}

impl Model {
    /// This machine's.
    pub fn here() -> Model {
        let [last, b, c, d] = cpuid(0, 0);
        let mut vendor = [0; 12];
        for (place, word) in vendor.chunks_exact_mut(4).zip([b, d, c]) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        let version = cpuid(1, 0)[0];
        let (base, extended) = (version >> 8 & 0xf, version >> 20 & 0xff);
        let family = if base == 0xf { base + extended } else { base };
        let model = version >> 4 & 0xf | (version >> 16 & 0xf) << 4;
        let hybrid = last >= 7 && cpuid(7, 0)[3] & 1 << 15 != 0;
        Model { vendor, family, model, hybrid }
    }

    pub fn vendor(&self) -> String {
        String::from_utf8_lossy(&self.vendor).into_owned()
    }
}

/// BR_INST_RETIRED.CONDITIONAL until Comet Lake; since Ice Lake it is called COND, with another mask; Atoms
/// have JCC.
const CONDITIONAL: u64 = 0x01c4;
const COND: u64 = 0x11c4;
const JCC: u64 = 0x7ec4;
/// ex_ret_cond.
const ZEN: u64 = 0x00d1;

const INTEL_SKID: u64 = 100;
const ZEN_SKID: u64 = 10_000;

/// The counter of this processor; none if it is not known.
pub fn counter(model: &Model) -> Option<Counter> {
    match &model.vendor {
        b"GenuineIntel" if model.family == 6 => intel(model),
        b"AuthenticAMD" | b"HygonGenuine" => amd(model),
        _ => None,
    }
}

fn intel(model: &Model) -> Option<Counter> {
    let (name, event, counts_smi) = match model.model {
        0x1a | 0x1e | 0x1f | 0x2e => ("Nehalem", CONDITIONAL, false),
        0x25 | 0x2c | 0x2f => ("Westmere", CONDITIONAL, false),
        0x2a | 0x2d => ("Sandy Bridge", CONDITIONAL, false),
        0x3a | 0x3e => ("Ivy Bridge", CONDITIONAL, false),
        0x3c | 0x3f | 0x45 | 0x46 => ("Haswell", CONDITIONAL, false),
        0x3d | 0x47 | 0x4f | 0x56 => ("Broadwell", CONDITIONAL, false),
        0x4e | 0x55 | 0x5e => ("Skylake", CONDITIONAL, false),
        0x8e | 0x9e => ("Kaby Lake", CONDITIONAL, false),
        0xa5 | 0xa6 => ("Comet Lake", CONDITIONAL, true),
        0x6a | 0x6c | 0x7d | 0x7e => ("Ice Lake", COND, true),
        0x8c | 0x8d => ("Tiger Lake", COND, true),
        0xa7 => ("Rocket Lake", COND, true),
        0x97 | 0x9a => ("Alder Lake", COND, true),
        0xb7 | 0xba | 0xbf => ("Raptor Lake", COND, true),
        0x8f => ("Sapphire Rapids", COND, true),
        0xcf => ("Emerald Rapids", COND, true),
        0xad | 0xae => ("Granite Rapids", COND, true),
        0xaa | 0xac => ("Meteor Lake", COND, true),
        0xbd => ("Lunar Lake", COND, true),
        0xb5 | 0xc5 | 0xc6 => ("Arrow Lake", COND, true),
        0x37 | 0x4a | 0x4c | 0x4d | 0x5a | 0x5d => ("Silvermont", JCC, false),
        0x5c | 0x5f | 0x7a => ("Goldmont", JCC, false),
        0x86 | 0x96 | 0x9c => ("Tremont", JCC, false),
        0xbe => ("Gracemont", JCC, false),
        _ => return None,
    };
    Some(Counter {
        name,
        event,
        skid_max: INTEL_SKID,
        locks_speculate: false,
        hybrid: model.hybrid,
        counts_smi,
    })
}

fn amd(model: &Model) -> Option<Counter> {
    let name = match (model.family, model.model) {
        (0x17, 0x00..=0x2f) | (0x18, _) => "Zen",
        (0x17, _) => "Zen 2",
        (0x19, 0x10..=0x1f | 0x60..=0xaf) => "Zen 4",
        (0x19, _) => "Zen 3",
        (0x1a, _) => "Zen 5",
        _ => return None,
    };
    Some(Counter {
        name,
        event: ZEN,
        skid_max: ZEN_SKID,
        locks_speculate: true,
        hybrid: false,
        counts_smi: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(vendor: &[u8; 12], family: u32, model: u32) -> Option<(&'static str, u64)> {
        counter(&Model { vendor: *vendor, family, model, hybrid: false }).map(|it| (it.name, it.event))
    }

    #[test]
    fn processors_have_the_events_of_their_makers() {
        for (model, name, event) in [
            (0x1a, "Nehalem", 0x01c4),
            (0x3c, "Haswell", 0x01c4),
            (0x55, "Skylake", 0x01c4),
            (0x6a, "Ice Lake", 0x11c4),
            (0x8f, "Sapphire Rapids", 0x11c4),
            (0xc6, "Arrow Lake", 0x11c4),
            (0x37, "Silvermont", 0x7ec4),
        ] {
            assert_eq!(found(b"GenuineIntel", 6, model), Some((name, event)));
        }
        for (family, model, name) in [
            (0x17, 0x01, "Zen"),
            (0x17, 0x71, "Zen 2"),
            (0x19, 0x21, "Zen 3"),
            (0x19, 0x50, "Zen 3"),
            (0x19, 0x61, "Zen 4"),
            (0x1a, 0x24, "Zen 5"),
        ] {
            assert_eq!(found(b"AuthenticAMD", family, model), Some((name, 0xd1)));
        }
    }

    /// To count with a wrong event is worse than not to count.
    #[test]
    fn a_processor_that_is_not_known_is_refused() {
        assert_eq!(found(b"GenuineIntel", 6, 0x0f), None);
        assert_eq!(found(b"GenuineIntel", 6, 0xff), None);
        assert_eq!(found(b"GenuineIntel", 15, 0x55), None);
        assert_eq!(found(b"AuthenticAMD", 0x15, 0x30), None);
        assert_eq!(found(b"CentaurHauls", 6, 0x55), None);
    }

    #[test]
    fn this_machine_says_who_it_is() {
        let model = Model::here();
        assert!(model.family >= 6, "{model:?}");
        assert!(model.vendor.iter().all(u8::is_ascii_alphabetic), "{model:?}");
    }
}
