//! What `cpuid` offers to programs: which instructions a recorded program could have used, which of them the
//! processor of a replay lacks, and how a recording offers no more than a level of x86-64 (psABI: v2, v3,
//! v4). Pure, but for [`offered`], which asks the processor.
//!
//! Bits of `cpuid` are of three kinds. Those that tell of instructions that programs execute have a name here
//! and the level that they belong to. Those that tell of what only a kernel uses, of speed or of faults mean
//! nothing to a replay. All others are not known to this version: they may tell of an instruction, so a
//! replay asks for them, too, and a level does not have them.

use std::fmt::Write as _;

use crate::{cpu, sys};

/// The most that programs are told of the processor.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Level {
    /// What each 64-bit processor has.
    V1,
    V2,
    V3,
    V4,
    /// All that this processor has and bis can record.
    #[default]
    Native,
}

impl Level {
    /// As compilers call it.
    pub fn name(self) -> &'static str {
        match self {
            Level::V1 => "x86-64",
            Level::V2 => "x86-64-v2",
            Level::V3 => "x86-64-v3",
            Level::V4 => "x86-64-v4",
            Level::Native => "native",
        }
    }

    /// An answer of `cpuid` without what is beyond this level. What it says of the sizes of states (leaf 13)
    /// stays: `xgetbv` tells of all states whatever is done, and programs make room by these sizes for what
    /// `xsave` writes.
    pub fn masked(self, leaf: u32, subleaf: u32, mut answer: [u32; 4]) -> [u32; 4] {
        if self == Level::Native {
            return answer;
        }
        match (leaf, subleaf) {
            // Newer features; key locker; tiles; AVX10.
            (7, 2..) | (0x19 | 0x1d | 0x1e | 0x24, _) => return [0; 4],
            _ => {}
        }
        for (index, word) in WORDS.iter().enumerate() {
            if word.leaf == leaf && (word.subleaf == subleaf || leaf != 7 && leaf != 0xd) {
                answer[word.register] &= allowed(index, self);
            }
        }
        answer
    }
}

/// One register of one answer.
struct Word {
    leaf: u32,
    subleaf: u32,
    /// 0 to 3: eax, ebx, ecx, edx.
    register: usize,
    /// Bits that tell of no instruction of programs.
    of_no_matter: u32,
}

const fn bits(list: &[u32]) -> u32 {
    let (mut all, mut at) = (0, 0);
    while at < list.len() {
        all |= 1 << list[at];
        at += 1;
    }
    all
}

const EAX: usize = 0;
const EBX: usize = 1;
const ECX: usize = 2;
const EDX: usize = 3;

/// The registers that a trace has, in this order. New ones come at the end.
const WORDS: [Word; 11] = [
    Word {
        leaf: 1,
        subleaf: 0,
        register: ECX,
        of_no_matter: bits(&[2, 3, 4, 5, 6, 7, 8, 10, 11, 14, 15, 17, 18, 21, 24, 31]),
    },
    // Of this one, all bits have had their meaning for twenty years.
    Word { leaf: 1, subleaf: 0, register: EDX, of_no_matter: !bits(&[0, 4, 8, 15, 19, 23, 24, 25, 26]) },
    Word { leaf: 7, subleaf: 0, register: EBX, of_no_matter: bits(&[1, 2, 6, 7, 9, 10, 12, 13, 15, 20, 25]) },
    Word {
        leaf: 7,
        subleaf: 0,
        register: ECX,
        of_no_matter: bits(&[2, 13, 16, 17, 18, 19, 20, 21, 24, 30, 31]),
    },
    Word {
        leaf: 7,
        subleaf: 0,
        register: EDX,
        of_no_matter: bits(&[1, 4, 9, 10, 11, 13, 15, 18, 19, 20, 26, 27, 28, 29, 30, 31]),
    },
    Word {
        leaf: 7,
        subleaf: 1,
        register: EAX,
        of_no_matter: bits(&[6, 8, 10, 11, 12, 17, 18, 19, 20, 21, 22, 26, 27, 30]),
    },
    Word { leaf: 7, subleaf: 1, register: EDX, of_no_matter: bits(&[8, 13, 14, 17, 18]) },
    Word { leaf: 0xd, subleaf: 1, register: EAX, of_no_matter: bits(&[3, 4]) },
    Word {
        leaf: 0x8000_0001,
        subleaf: 0,
        register: ECX,
        of_no_matter: bits(&[1, 2, 3, 4, 8, 9, 10, 12, 13, 17, 19, 22, 23, 24, 26, 27, 28, 30]),
    },
    Word { leaf: 0x8000_0001, subleaf: 0, register: EDX, of_no_matter: !bits(&[27, 30, 31]) },
    // Where AMD tells of speculation, with new bits every year.
    Word { leaf: 0x8000_0008, subleaf: 0, register: EBX, of_no_matter: !bits(&[0, 4]) },
];

/// Word, bit, name as /proc/cpuinfo has it, level.
const NAMED: &[(usize, u32, &str, Level)] = &[
    (1, 0, "fpu", Level::V1),
    (1, 4, "tsc", Level::V1),
    (1, 8, "cx8", Level::V1),
    (1, 15, "cmov", Level::V1),
    (1, 19, "clflush", Level::V1),
    (1, 23, "mmx", Level::V1),
    (1, 24, "fxsr", Level::V1),
    (1, 25, "sse", Level::V1),
    (1, 26, "sse2", Level::V1),
    (0, 0, "sse3", Level::V2),
    (0, 9, "ssse3", Level::V2),
    (0, 13, "cx16", Level::V2),
    (0, 19, "sse4_1", Level::V2),
    (0, 20, "sse4_2", Level::V2),
    (0, 23, "popcnt", Level::V2),
    (8, 0, "lahf_lm", Level::V2),
    (0, 12, "fma", Level::V3),
    (0, 22, "movbe", Level::V3),
    (0, 26, "xsave", Level::V3),
    (0, 27, "osxsave", Level::V3),
    (0, 28, "avx", Level::V3),
    (0, 29, "f16c", Level::V3),
    (2, 3, "bmi1", Level::V3),
    (2, 5, "avx2", Level::V3),
    (2, 8, "bmi2", Level::V3),
    (8, 5, "abm", Level::V3),
    (2, 16, "avx512f", Level::V4),
    (2, 17, "avx512dq", Level::V4),
    (2, 28, "avx512cd", Level::V4),
    (2, 30, "avx512bw", Level::V4),
    (2, 31, "avx512vl", Level::V4),
    (0, 1, "pclmulqdq", Level::Native),
    (0, 25, "aes", Level::Native),
    (2, 0, "fsgsbase", Level::Native),
    (2, 14, "mpx", Level::Native),
    (2, 19, "adx", Level::Native),
    (2, 21, "avx512ifma", Level::Native),
    (2, 22, "pcommit", Level::Native),
    (2, 23, "clflushopt", Level::Native),
    (2, 24, "clwb", Level::Native),
    (2, 26, "avx512pf", Level::Native),
    (2, 27, "avx512er", Level::Native),
    (2, 29, "sha_ni", Level::Native),
    (3, 0, "prefetchwt1", Level::Native),
    (3, 1, "avx512vbmi", Level::Native),
    (3, 6, "avx512_vbmi2", Level::Native),
    (3, 8, "gfni", Level::Native),
    (3, 9, "vaes", Level::Native),
    (3, 10, "vpclmulqdq", Level::Native),
    (3, 11, "avx512_vnni", Level::Native),
    (3, 12, "avx512_bitalg", Level::Native),
    (3, 14, "avx512_vpopcntdq", Level::Native),
    (3, 23, "key_locker", Level::Native),
    (3, 25, "cldemote", Level::Native),
    (3, 27, "movdiri", Level::Native),
    (3, 28, "movdir64b", Level::Native),
    (3, 29, "enqcmd", Level::Native),
    (4, 2, "avx512_4vnniw", Level::Native),
    (4, 3, "avx512_4fmaps", Level::Native),
    (4, 5, "uintr", Level::Native),
    (4, 8, "avx512_vp2intersect", Level::Native),
    (4, 14, "serialize", Level::Native),
    (4, 23, "avx512_fp16", Level::Native),
    (5, 0, "sha512", Level::Native),
    (5, 1, "sm3", Level::Native),
    (5, 2, "sm4", Level::Native),
    (5, 3, "rao_int", Level::Native),
    (5, 4, "avx_vnni", Level::Native),
    (5, 5, "avx512_bf16", Level::Native),
    (5, 7, "cmpccxadd", Level::Native),
    (5, 23, "avx_ifma", Level::Native),
    (5, 31, "movrs", Level::Native),
    (6, 4, "avx_vnni_int8", Level::Native),
    (6, 5, "avx_ne_convert", Level::Native),
    (6, 10, "avx_vnni_int16", Level::Native),
    (6, 15, "user_msr", Level::Native),
    (6, 19, "avx10", Level::Native),
    (6, 21, "apx", Level::Native),
    (7, 0, "xsaveopt", Level::Native),
    (7, 1, "xsavec", Level::Native),
    (7, 2, "xgetbv1", Level::Native),
    (8, 6, "sse4a", Level::Native),
    (8, 7, "misalignsse", Level::Native),
    (8, 11, "xop", Level::Native),
    (8, 15, "lwp", Level::Native),
    (8, 16, "fma4", Level::Native),
    (8, 21, "tbm", Level::Native),
    (8, 29, "mwaitx", Level::Native),
    (9, 27, "rdtscp", Level::Native),
    (9, 30, "3dnowext", Level::Native),
    (9, 31, "3dnow", Level::Native),
    (10, 0, "clzero", Level::Native),
    (10, 4, "rdpru", Level::Native),
];

/// What only AMD's processors have, and hardly a program uses: a processor that lacks nothing else replays
/// nearly all of what was recorded on one that has it. Where a program did use it, the replay faults at that
/// instruction, and the recording did not: that is a divergence, never a wrong replay.
const SELDOM_USED: &[&str] = &["sse4a", "misalignsse", "mwaitx", "clzero", "rdpru"];

/// The bits of a word that a program may be told at this level.
fn allowed(word: usize, level: Level) -> u32 {
    let named = NAMED.iter().filter(|(at, _, _, of)| *at == word && *of <= level);
    named.fold(WORDS[word].of_no_matter, |all, (_, bit, ..)| all | 1 << bit)
}

/// What programs are told here, at this level: the words of [`WORDS`].
pub fn offered(level: Level) -> Vec<u32> {
    let last = |first: u32| sys::cpuid(first, 0)[0];
    let (basic, extended) = (last(0), last(0x8000_0000));
    let mut asked: Vec<(u32, u32, [u32; 4])> = Vec::new();
    let mut ask = |leaf: u32, subleaf: u32| {
        if let Some((.., answer)) = asked.iter().find(|it| (it.0, it.1) == (leaf, subleaf)) {
            return *answer;
        }
        let has = leaf <= if leaf >= 0x8000_0000 { extended } else { basic };
        let answer = if has { cpu::told(level, leaf, subleaf) } else { [0; 4] };
        asked.push((leaf, subleaf, answer));
        answer
    };
    let has_more = ask(7, 0)[EAX] >= 1;
    WORDS
        .iter()
        .map(|word| {
            if word.leaf == 7 && word.subleaf == 1 && !has_more {
                0
            } else {
                ask(word.leaf, word.subleaf)[word.register]
            }
        })
        .collect()
}

/// A bit's name, with its word and its number.
fn name_of(word: usize, bit: u32) -> String {
    if let Some((_, _, name, _)) = NAMED.iter().find(|it| (it.0, it.1) == (word, bit)) {
        return (*name).to_owned();
    }
    match WORDS.get(word) {
        Some(Word { leaf, subleaf, register, .. }) => {
            let register = ["eax", "ebx", "ecx", "edx"][*register];
            format!("bit {bit} of {register} of cpuid leaf {leaf:#x}.{subleaf}")
        }
        None => format!("bit {bit} of word {word}"),
    }
}

/// The names of all bits that matter and are in `words`, but not in `without`.
fn names(words: &[u32], without: impl Fn(usize) -> u32) -> Vec<String> {
    let mut names = Vec::new();
    for (index, word) in words.iter().enumerate() {
        let of_no_matter = WORDS.get(index).map_or(0, |word| word.of_no_matter);
        let left = word & !of_no_matter & !without(index);
        names.extend((0..32).filter(|bit| left >> bit & 1 != 0).map(|bit| name_of(index, bit)));
    }
    names
}

/// What a recording's programs were told that they may use, and that a processor does not have.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Lacking {
    /// Programs choose their code by these: without them a replay hardly comes to its end.
    pub needed: Vec<String>,
    pub seldom_used: Vec<String>,
}

impl Lacking {
    /// All names, for people; none if nothing is lacking.
    pub fn listed(&self) -> Option<String> {
        let all = [&self.needed[..], &self.seldom_used].concat();
        (!all.is_empty()).then(|| all.join(", "))
    }
}

/// What a processor with `here` lacks of what was `recorded`. A trace of a version that did not say asks for
/// nothing.
pub fn lacking(recorded: &[u32], here: &[u32]) -> Lacking {
    let names = names(recorded, |index| here.get(index).copied().unwrap_or(0));
    let (seldom_used, needed) = names.into_iter().partition(|name| SELDOM_USED.contains(&name.as_str()));
    Lacking { needed, seldom_used }
}

/// For people: the highest level of which all was offered, and what is beyond it.
pub fn described(words: &[u32]) -> String {
    let has = |level: Level| {
        let mut of_it = NAMED.iter().filter(|(.., of)| *of <= level);
        of_it.all(|(word, bit, ..)| words.get(*word).is_some_and(|it| it >> bit & 1 != 0))
    };
    let whole = [Level::V4, Level::V3, Level::V2, Level::V1].into_iter().find(|level| has(*level));
    let beyond = names(words, |index| match whole {
        Some(level) if index < WORDS.len() => allowed(index, level),
        _ => 0,
    });
    let mut text = whole.map_or("", Level::name).to_owned();
    for name in beyond {
        let _ = write!(text, "{}{name}", if text.is_empty() { "" } else { " " });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [u32; 4] = [u32::MAX; 4];

    #[test]
    fn a_bit_has_one_meaning() {
        for (at, (word, bit, name, _)) in NAMED.iter().enumerate() {
            assert_eq!(WORDS[*word].of_no_matter >> bit & 1, 0, "{name} is said not to matter");
            let again = NAMED[at + 1..].iter().find(|it| (it.0, it.1) == (*word, *bit) || it.2 == *name);
            assert!(again.is_none(), "{name} is there twice");
        }
    }

    #[test]
    fn a_level_has_what_the_psabi_says() {
        let [_, _, ecx, edx] = Level::V2.masked(1, 0, ALL);
        assert_eq!(ecx & bits(&[0, 9, 13, 19, 20, 23]), bits(&[0, 9, 13, 19, 20, 23]));
        assert_eq!(ecx & bits(&[1, 12, 22, 25, 26, 27, 28, 29, 30]), 0, "no AVX, AES, XSAVE");
        assert_eq!(edx, u32::MAX);
        let [_, v3, ..] = Level::V3.masked(7, 0, ALL);
        assert_eq!((v3 & bits(&[3, 5, 8]), v3 & bits(&[0, 16, 19, 29, 31])), (bits(&[3, 5, 8]), 0));
        assert_eq!(Level::V3.masked(1, 0, ALL)[ECX] >> 26 & 7, 7, "AVX and what tells that it is usable");
        assert_eq!(Level::V4.masked(7, 0, ALL)[EBX] >> 16 & 3, 3);
        assert_eq!(Level::V3.masked(0x8000_0001, 0, ALL)[ECX] >> 5 & 1, 1);
        assert_eq!(Level::V2.masked(0x8000_0001, 0, ALL)[ECX] >> 5 & 1, 0);
    }

    #[test]
    fn what_is_not_known_is_no_part_of_a_level() {
        let [eax, ebx, ..] = Level::V4.masked(7, 1, ALL);
        assert_eq!((eax & 1 << 13, ebx), (0, u32::MAX));
        assert_eq!(Level::V4.masked(0x24, 0, ALL), [0; 4]);
        assert_eq!(Level::V2.masked(7, 2, ALL), [0; 4]);
        // Brand, caches, and the sizes of states.
        for (leaf, subleaf) in [(0, 0), (4, 1), (0xd, 0), (0xd, 2), (0x8000_0002, 0)] {
            assert_eq!(Level::V2.masked(leaf, subleaf, ALL), ALL, "{leaf:#x}.{subleaf}");
        }
        assert_eq!(Level::V2.masked(0xd, 1, ALL)[EAX] & 7, 0);
        assert_eq!(Level::Native.masked(7, 1, ALL), ALL);
    }

    #[test]
    fn levels_grow() {
        for word in 0..WORDS.len() {
            for pair in [Level::V1, Level::V2, Level::V3, Level::V4, Level::Native].windows(2) {
                assert_eq!(allowed(word, pair[0]) & !allowed(word, pair[1]), 0);
            }
        }
    }

    #[test]
    fn what_is_seldom_used_has_a_bit() {
        for name in SELDOM_USED {
            assert!(NAMED.iter().any(|(_, _, it, level)| it == name && *level == Level::Native), "{name}");
        }
    }

    #[test]
    fn what_is_lacking_is_named() {
        let mut here = vec![0; WORDS.len()];
        here[2] = bits(&[5]);
        let mut recorded = here.clone();
        assert_eq!(lacking(&recorded, &here), Lacking::default());
        recorded[2] |= bits(&[7, 16]); // SMEP, which is the kernel's; AVX-512
        assert_eq!(lacking(&recorded, &here).needed, ["avx512f"]);
        recorded[5] = bits(&[13]);
        recorded.push(1);
        recorded[8] |= bits(&[6, 16]);
        let lacking_here = lacking(&recorded, &here);
        assert_eq!(
            lacking_here.needed,
            ["avx512f", "bit 13 of eax of cpuid leaf 0x7.1", "fma4", "bit 0 of word 11"]
        );
        assert_eq!(lacking_here.seldom_used, ["sse4a"]);
        assert!(lacking_here.listed().is_some_and(|names| names.ends_with("bit 0 of word 11, sse4a")));
        assert_eq!(lacking(&[], &here), Lacking::default(), "an older trace");
    }

    #[test]
    fn a_processor_is_described_by_its_level_and_what_is_beyond() {
        let of = |level| (0..WORDS.len()).map(|word| allowed(word, level)).collect::<Vec<_>>();
        assert_eq!(described(&of(Level::V3)), "x86-64-v3");
        let mut more = of(Level::V2);
        more[0] |= bits(&[25, 28]);
        assert_eq!(described(&more), "x86-64-v2 aes avx");
        assert_eq!(described(&[]), "");
    }

    #[test]
    fn this_processor_lacks_nothing_of_what_it_offers() {
        let here = offered(Level::Native);
        assert_eq!(here.len(), WORDS.len());
        assert!(described(&here).starts_with("x86-64"), "{}", described(&here));
        for level in [Level::V1, Level::V2, Level::V3, Level::V4] {
            let less = offered(level);
            assert_eq!(lacking(&less, &here), Lacking::default());
            for (word, told) in less.iter().enumerate() {
                assert_eq!(told & !allowed(word, level), 0, "{level:?}, word {word}");
            }
        }
    }
}
