//! What `/proc/PID/maps` and its relatives say, without the memory that is bis's. Pure: text in, text out.
//!
//! The kernel's lines stay as they are, byte for byte, but for those that begin a mapping of ours, which go
//! with all that is said of it. One that the kernel has merged with a neighbour of the program's is cut.

use std::{collections::BTreeSet, ops::Range};

use bis_trace::types::{Addr, PAGE, Tid};
use bis_tracee::address_limit::Limit;

use crate::space::without;

/// The kernel's padding before a name (fs/proc/task_mmu.c: show_map_vma).
const NAME_COLUMN: usize = 73;

/// What stands before the name of a file in numa_maps.
const FILE: &[u8] = b" file=";

/// Bytes that say how a mapping is protected.
const PROT_LEN: usize = 4;

/// `start-end`, and what follows, of a line that begins a mapping.
fn header(line: &[u8]) -> Option<(Range<Addr>, &[u8])> {
    let space = line.iter().position(|byte| *byte == b' ')?;
    let (start, end) = std::str::from_utf8(&line[..space]).ok()?.split_once('-')?;
    let hex = |word: &str| u64::from_str_radix(word, 16).ok();
    Some((Addr(hex(start)?)..Addr(hex(end)?), &line[space + 1..]))
}

/// How long the beginning of a text of maps or smaps is that what follows cannot change: up to the last
/// mapping that touches none before it. `text` may end anywhere.
pub fn settled(text: &[u8]) -> usize {
    let (mut settled, mut at, mut end) = (0, 0, None);
    for line in text.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n")) {
        if let Some((range, _)) = header(line) {
            if end != Some(range.start) {
                settled = at;
            }
            end = Some(range.end);
        }
        at += line.len();
    }
    settled
}

/// How long the first record is: a mapping's line, and what is said of it.
pub fn first_mapping_len(text: &[u8]) -> usize {
    let mut lines = text.split_inclusive(|byte| *byte == b'\n');
    let first = lines.next().map_or(0, <[u8]>::len);
    first + lines.take_while(|line| header(line).is_none()).map(<[u8]>::len).sum::<usize>()
}

/// The line of a part of a mapping: with its own addresses and, where a file is mapped, its own offset.
fn part_line(whole: &Range<Addr>, part: &Range<Addr>, rest: &[u8]) -> Option<Vec<u8>> {
    let rest = std::str::from_utf8(rest).ok()?;
    let mut fields = rest.splitn(5, ' ');
    let (prot, offset, device, inode) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
    let name = fields.next().unwrap_or("").trim_start();
    let offset = u64::from_str_radix(offset, 16).ok()?;
    let offset = if inode == "0" { offset } else { offset + (part.start - whole.start) };
    let mut line = format!("{:08x}-{:08x} {prot} {offset:08x} {device} {inode} ", part.start, part.end);
    if !name.trim_end().is_empty() {
        line.extend(std::iter::repeat_n(' ', NAME_COLUMN.saturating_sub(line.len())));
        line.push_str(name);
    } else if rest.ends_with('\n') {
        line.push('\n');
    }
    Some(line.into_bytes())
}

/// Where something else is mapped than the program knows of: the range, and what the kernel's line would say
/// behind the addresses.
pub type Instead = (Range<Addr>, Vec<u8>);

/// What is to be `instead` in this text of maps, smaps or numa_maps, where `of` knows what the line would say
/// that has a file of this name, mapped from this offset on.
pub fn instead_of_files(text: &[u8], of: impl Fn(&[u8], u64) -> Option<Vec<u8>>) -> Vec<Instead> {
    let find = |line: &[u8]| {
        if let Some((range, rest)) = header(line) {
            let offset = rest.split(|byte| *byte == b' ').nth(1)?;
            let offset = u64::from_str_radix(std::str::from_utf8(offset).ok()?, 16).ok()?;
            return Some((range, of(name_of(rest)?, offset)?));
        }
        let at = line.windows(FILE.len()).position(|part| part == FILE)? + FILE.len();
        let name = line[at..].split(u8::is_ascii_whitespace).next()?;
        let start = start_of(line)?;
        Some((start..start + 1, of(name, 0)?))
    };
    text.split_inclusive(|byte| *byte == b'\n').filter_map(find).collect()
}

/// The text of maps or smaps without what it says of `ours`, and with what is `instead`.
pub fn mappings(text: &[u8], ours: &[Range<Addr>], instead: &[Instead]) -> Vec<u8> {
    let mut kept = Vec::with_capacity(text.len());
    let mut shown = true;
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let Some((range, rest)) = header(line) else {
            if shown {
                kept.extend_from_slice(line);
            }
            continue;
        };
        let other = instead.iter().find(|(other, _)| other.start <= range.start && range.end <= other.end);
        if let Some((other, known)) = other {
            shown = true;
            // The program may have changed the protection since.
            let known = [rest.get(..PROT_LEN).unwrap_or_default(), known.get(PROT_LEN..).unwrap_or_default()];
            let known = part_line(other, &range, &known.concat());
            kept.extend_from_slice(known.as_deref().unwrap_or(line));
            continue;
        }
        let parts = without(range.clone(), ours);
        shown = !parts.is_empty();
        for part in &parts {
            let cut = (*part != range).then(|| part_line(&range, part, rest)).flatten();
            kept.extend_from_slice(cut.as_deref().unwrap_or(line));
        }
    }
    kept
}

/// The text of maps or smaps, in which these pages of text are executable as the text around them. Where
/// nothing stands between them (in maps), lines of one mapping become one.
pub fn unguarded(text: &[u8], guards: &BTreeSet<Addr>) -> Vec<u8> {
    let mut kept: Vec<u8> = Vec::with_capacity(text.len());
    // Where the last line begins in `kept`, if it may grow: with its range, and whether it is a guard's.
    let mut last: Option<(usize, Range<Addr>, bool)> = None;
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let Some((range, rest)) = header(line) else {
            last = None;
            kept.extend_from_slice(line);
            continue;
        };
        // Executable already, if it stands in for something else (`mappings`).
        let guarded = guards.contains(&range.start) && (rest.starts_with(b"r--") || rest.starts_with(b"r-x"));
        let line = if guarded {
            [&line[..line.len() - rest.len()], b"r-x", &rest[3..]].concat()
        } else {
            line.to_vec()
        };
        let grown =
            last.take().filter(|(_, before, of_guard)| before.end == range.start && (*of_guard || guarded));
        let whole = grown.and_then(|(at, before, _)| {
            let (_, first) = header(&kept[at..])?;
            let (first, rest) = (first.to_vec(), header(&line)?.1.to_vec());
            let whole = before.start..range.end;
            // The same file, at the offset that follows.
            let next = part_line(&before, &(range.start..range.end), &first)?;
            let same = next == part_line(&range, &range, &rest)?;
            same.then(|| part_line(&before, &whole, &first).map(|line| (at, whole, line))).flatten()
        });
        match whole {
            Some((at, whole, line)) => {
                kept.truncate(at);
                kept.extend_from_slice(&line);
                last = Some((at, whole, true));
            }
            None => {
                last = Some((kept.len(), range, guarded));
                kept.extend_from_slice(&line);
            }
        }
    }
    kept
}

/// The text of numa_maps, whose lines begin with a mapping's first address.
pub fn numa(text: &[u8], ours: &[Range<Addr>], instead: &[Instead]) -> Vec<u8> {
    let mut kept = Vec::with_capacity(text.len());
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let start = start_of(line);
        let is_in = |range: &Range<Addr>| start.is_some_and(|start| range.contains(&start));
        if ours.iter().any(is_in) {
            continue;
        }
        let name = instead.iter().find(|(range, _)| is_in(range)).and_then(|(_, known)| name_of(known));
        let named = name.and_then(|name| with_file(line, name));
        kept.extend_from_slice(named.as_deref().unwrap_or(line));
    }
    kept
}

/// What a line of numa_maps begins with.
fn start_of(line: &[u8]) -> Option<Addr> {
    let word = line.split(|byte| *byte == b' ').next().unwrap_or_default();
    std::str::from_utf8(word).ok().and_then(|word| u64::from_str_radix(word, 16).ok()).map(Addr)
}

/// The name in what the kernel's line would say behind the addresses.
fn name_of(rest: &[u8]) -> Option<&[u8]> {
    let name = rest.splitn(5, |byte| *byte == b' ').nth(4)?.trim_ascii();
    (!name.is_empty()).then_some(name)
}

/// A line of numa_maps with the name of another file.
fn with_file(line: &[u8], name: &[u8]) -> Option<Vec<u8>> {
    let at = line.windows(FILE.len()).position(|part| part == FILE)? + FILE.len();
    let len = line[at..].iter().position(u8::is_ascii_whitespace)?;
    // fs/proc/task_mmu.c: show_numa_map.
    let escaped = name.iter().flat_map(|byte| match byte {
        b'\n' | b'\t' | b'=' | b' ' => format!("\\{byte:03o}").into_bytes(),
        _ => vec![*byte],
    });
    Some([&line[..at], &escaped.collect::<Vec<u8>>(), &line[at + len..]].concat())
}

/// A line `Name:   123 kB`.
fn amount(line: &str) -> Option<(&str, u64)> {
    let (name, rest) = line.split_once(':')?;
    Some((name, rest.trim().strip_suffix(" kB")?.trim().parse().ok()?))
}

/// The text of smaps_rollup, with the sums of this text of smaps; both are of the same mappings.
pub fn rollup(text: &[u8], smaps: &[u8]) -> Vec<u8> {
    let (text, smaps) = (String::from_utf8_lossy(text), String::from_utf8_lossy(smaps));
    let mut sums = std::collections::HashMap::new();
    for (name, kb) in smaps.lines().filter_map(amount) {
        *sums.entry(name).or_insert(0) += kb;
    }
    let first = smaps.lines().find_map(|line| header(line.as_bytes())).map(|(range, _)| range.start);
    let mut out = String::new();
    for line in text.lines() {
        if let Some((name, _)) = amount(line)
            && let Some(kb) = sums.get(name)
        {
            out += &format!("{:<16}{kb:8} kB\n", format!("{name}:"));
        } else if let (Some((range, rest)), Some(first)) = (header(line.as_bytes()), first) {
            let line = part_line(&range, &(first..range.end), rest);
            out += &String::from_utf8_lossy(&line.unwrap_or_default());
            out.push('\n');
        } else {
            out += line;
            out.push('\n');
        }
    }
    out.into_bytes()
}

/// The number behind a name in a text of status.
fn number(status: &str, name: &[u8]) -> Option<u64> {
    let mut lines = status.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(found, _)| found.as_bytes() == name)?.1.trim().parse().ok()
}

/// What a task has of seccomp by itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct OwnSeccomp {
    /// 0; strict mode is 1, filters are 2.
    pub mode: u32,
    pub filters: usize,
    pub no_new_privs: bool,
}

/// Bytes of an address space.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Weight {
    pub mapped: u64,
    /// Mapped privately, to be written.
    pub data: u64,
    /// To be executed, not written.
    pub exec: u64,
    /// In memory: of the process alone, and of files and what is shared.
    pub own: u64,
    pub shared: u64,
}

/// The pages of 4 KiB that so many bytes are.
fn pages(bytes: u64) -> u64 {
    bytes / PAGE
}

/// The words of a line, where each is less by what belongs to it.
fn lessened<'a>(words: impl Iterator<Item = &'a str>, less: &[(usize, u64)]) -> Vec<String> {
    let word = |(at, word): (usize, &str)| match less.iter().find(|(place, _)| *place == at) {
        Some((_, less)) => {
            word.parse::<u64>().map_or_else(|_| word.into(), |n| n.saturating_sub(*less).to_string())
        }
        None => word.into(),
    };
    words.enumerate().map(word).collect()
}

/// The text of statm without `ours`: pages that are mapped, in memory, in memory and of files; code; 0; data;
/// 0.
pub fn statm(text: &[u8], ours: &Weight) -> Vec<u8> {
    let less = [(0, ours.mapped), (1, ours.own + ours.shared), (2, ours.shared), (5, ours.data)];
    let less = less.map(|(place, bytes)| (place, pages(bytes)));
    let text = String::from_utf8_lossy(text);
    format!("{}\n", lessened(text.split_whitespace(), &less).join(" ")).into_bytes()
}

/// The text of limits, with the program's own limit of its address space.
pub fn limits(text: &[u8], own: Option<Limit>) -> Vec<u8> {
    const NAME: &str = "Max address space";
    let Some(own) = own else { return text.to_vec() };
    let word = |limit: u64| match limit {
        libc::RLIM_INFINITY => "unlimited".to_owned(),
        limit => limit.to_string(),
    };
    // As the kernel has it (fs/proc/base.c: proc_pid_limits).
    let line = format!("{NAME:<25} {:<20} {:<20} {:<10}\n", word(own.soft), word(own.hard), "bytes");
    let lines = text.split_inclusive(|byte| *byte == b'\n');
    lines
        .map(|it| if it.starts_with(NAME.as_bytes()) { line.as_bytes() } else { it })
        .collect::<Vec<_>>()
        .concat()
}

/// What a task does, where that is not what the kernel says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    Runs,
    Stopped,
    /// By a tracer of the program's.
    Traced,
}

impl State {
    fn letter(self) -> char {
        match self {
            State::Runs => 'R',
            State::Stopped => 'T',
            State::Traced => 't',
        }
    }

    fn name(self) -> &'static str {
        match self {
            State::Runs => "running",
            State::Stopped => "stopped",
            State::Traced => "tracing stop",
        }
    }
}

/// What the kernel says in this text of stat or status of the task's state, as a letter.
pub fn kernels_state(text: &[u8]) -> Option<u8> {
    if let Some(line) = text.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"State:\t")) {
        return line.first().copied();
    }
    let behind = text.iter().rposition(|byte| *byte == b')').map(|end| &text[end + 1..]);
    behind?.strip_prefix(b" ")?.first().copied()
}

/// The text of stat without `ours`, and with this state. A task's name may hold anything; what follows the
/// last parenthesis are words: the state is the first, then with 20 the bytes that are mapped and with 21 the
/// pages in memory.
pub fn stat(text: &[u8], state: Option<State>, ours: &Weight) -> Vec<u8> {
    let Some(end) = text.iter().rposition(|byte| *byte == b')') else { return text.to_vec() };
    let (name, rest) = text.split_at(end + 1);
    let less = [(20, ours.mapped), (21, pages(ours.own + ours.shared))];
    let rest = String::from_utf8_lossy(rest);
    let mut words = lessened(rest.split_whitespace(), &less);
    if let (Some(word), Some(state)) = (words.first_mut(), state) {
        *word = state.letter().to_string();
    }
    [name, b" ", words.join(" ").as_bytes(), b"\n"].concat()
}

/// What a line of status, in kB, has too much by `ours`; none for lines that have nothing of it.
fn of_status(name: &[u8], ours: &Weight) -> Option<u64> {
    let bytes = match name {
        b"VmPeak" | b"VmSize" => ours.mapped,
        b"VmHWM" | b"VmRSS" => ours.own + ours.shared,
        b"RssAnon" => ours.own,
        b"RssShmem" => ours.shared,
        b"VmData" => ours.data,
        b"VmLib" => ours.exec,
        _ => return None,
    };
    Some(bytes / 1024)
}

/// What status says of a task by itself, beside its memory.
#[derive(Clone, Copy, Debug)]
pub struct OwnStatus<'a> {
    /// None: what the kernel says.
    pub state: Option<State>,
    /// The task that traces it, as the reader calls that task; 0: none.
    pub tracer: Tid,
    /// None: that is not known.
    pub seccomp: Option<OwnSeccomp>,
    /// The cores that it may run on, a bit each, as far as the program knows.
    pub cores: &'a [u8],
}

/// A mask of cores as the kernel writes it (`%*pb`): the same number of digits as in `like`.
fn mask(cores: &[u8], like: &str) -> String {
    const WORD: usize = 8;
    let count = like.chars().filter(|digit| *digit != ',').count();
    let digit = |at: usize| cores.get(at / 2).map_or(0, |byte| byte >> (4 * (at % 2)) & 15);
    let mut text = String::new();
    for at in (0..count).rev() {
        text.push(char::from_digit(digit(at).into(), 16).unwrap_or('0'));
        if at > 0 && at % WORD == 0 {
            text.push(',');
        }
    }
    text
}

/// Such a mask as a list of ranges (`%*pbl`).
fn list(cores: &[u8]) -> String {
    let is_set = |core: usize| cores.get(core / 8).is_some_and(|byte| byte >> (core % 8) & 1 != 0);
    let ends = |core: &usize| is_set(*core) && !is_set(core + 1);
    let all = 0..8 * cores.len();
    let starts = all.clone().filter(|core| is_set(*core) && (*core == 0 || !is_set(core - 1)));
    let ranges: Vec<String> = starts
        .zip(all.filter(ends))
        .map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") })
        .collect();
    ranges.join(",")
}

/// The text of status as it would be without a tracer and its filter: `recorder` is that of the recorder.
/// `ours` is memory that is not the program's.
pub fn status(text: &[u8], recorder: &[u8], it: OwnStatus<'_>, ours: &Weight) -> Vec<u8> {
    let OwnStatus { state, tracer, seccomp, cores } = it;
    let own = String::from_utf8_lossy(recorder);
    let mut out = Vec::with_capacity(text.len());
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
        let replaced = match name {
            b"TracerPid" => Some(format!("TracerPid:\t{tracer}\n")),
            b"State" => state.map(|it| format!("State:\t{} ({})\n", it.letter(), it.name())),
            b"Seccomp" | b"Seccomp_filters" => {
                let own = number(&own, name);
                let added = seccomp.unwrap_or_default();
                let is_mode = name == b"Seccomp";
                let value =
                    |own: u64| if is_mode { own.max(added.mode.into()) } else { own + added.filters as u64 };
                own.map(|own| format!("{}:\t{}\n", String::from_utf8_lossy(name), value(own)))
            }
            b"Cpus_allowed" => std::str::from_utf8(line).ok().and_then(|line| {
                let (_, like) = line.split_once(':')?;
                Some(format!("Cpus_allowed:\t{}\n", mask(cores, like.trim())))
            }),
            b"Cpus_allowed_list" => Some(format!("Cpus_allowed_list:\t{}\n", list(cores))),
            b"NoNewPrivs" => seccomp.map(|it| format!("NoNewPrivs:\t{}\n", u8::from(it.no_new_privs))),
            _ => of_status(name, ours).and_then(|less| {
                let (name, kb) = amount(std::str::from_utf8(line).ok()?)?;
                Some(format!("{name}:\t{:8} kB\n", kb.saturating_sub(less)))
            }),
        };
        out.extend_from_slice(replaced.as_ref().map_or(line, |line| line.as_bytes()));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"70000000-70008000 r-xp 00000000 00:00 0 \n\
70008000-70100000 rw-s 00000000 00:01 648595                             /memfd:bis (deleted)\n\
555555554000-555555558000 r--p 00001000 fe:00 77                         /bin/x y\n\
7ffff8000000-7ffff8020000 r-xp 00000000 00:00 0 \n";

    #[test]
    fn mappings_of_ours_are_not_there() {
        let found = mappings(
            TEXT,
            &[Addr(0x7000_0000)..Addr(0x7010_0000), Addr(0x7fff_f800_0000)..Addr(0x7fff_f802_0000)],
            &[],
        );
        assert_eq!(
            String::from_utf8(found).unwrap(),
            "555555554000-555555558000 r--p 00001000 fe:00 77                         /bin/x y\n"
        );
        assert_eq!(mappings(TEXT, &[], &[]), TEXT);
    }

    #[test]
    fn what_was_merged_is_cut() {
        let found = mappings(
            TEXT,
            &[
                Addr(0x7000_0000)..Addr(0x7010_0000),
                Addr(0x5555_5555_5000)..Addr(0x5555_5555_6000),
                Addr(0x7fff_f800_0000)..Addr(0x7fff_f801_0000),
            ],
            &[],
        );
        assert_eq!(
            String::from_utf8(found).unwrap(),
            "555555554000-555555555000 r--p 00001000 fe:00 77                         /bin/x y\n\
             555555556000-555555558000 r--p 00003000 fe:00 77                         /bin/x y\n\
             7ffff8010000-7ffff8020000 r-xp 00000000 00:00 0 \n"
        );
    }

    #[test]
    fn another_processs_text_is_its_own() {
        let maps = b"1000-2000 r--p 00003000 fe:00 9                          /t/files/abc\n\
            3000-4000 r-xp 00000000 fe:00 9                          /t/files/abcd\n";
        let of = |name: &[u8], offset: u64| {
            let line = format!("r-xp {:08x} fe:00 12 /bin/x y\n", 0x7000 + offset);
            (name == b"/t/files/abc").then(|| line.into_bytes())
        };
        let instead = instead_of_files(maps, of);
        assert_eq!(
            String::from_utf8(mappings(maps, &[], &instead)).unwrap(),
            "00001000-00002000 r--p 0000a000 fe:00 12                                 /bin/x y\n\
             3000-4000 r-xp 00000000 fe:00 9                          /t/files/abcd\n"
        );
        let numa_maps =
            b"1000 default file=/t/files/abc mapped=3 N0=3\n3000 default file=/t/files/abcd\n5000 default\n";
        assert_eq!(
            String::from_utf8(numa(
                numa_maps,
                &[Addr(0x3000)..Addr(0x4000)],
                &instead_of_files(numa_maps, of)
            ))
            .unwrap(),
            "1000 default file=/bin/x\\040y mapped=3 N0=3\n5000 default\n"
        );
    }

    #[test]
    fn text_is_the_programs_own() {
        let text = b"1000-2000 r-xp 00003000 fe:00 9                          /cache/x\nSize: 4 kB\n2000-3000 r--p 00000000 00:00 0 \n";
        let instead = [(
            Addr::range(0x1000..0x2000),
            b"r-xp 00007000 fe:00 12                         /bin/x\n".to_vec(),
        )];
        assert_eq!(
            String::from_utf8(mappings(text, &[], &instead)).unwrap(),
            "00001000-00002000 r-xp 00007000 fe:00 12                                 /bin/x\nSize: 4 kB\n2000-3000 r--p 00000000 00:00 0 \n"
        );
    }

    #[test]
    fn details_go_with_their_mapping() {
        let smaps = b"1000-2000 rw-p 00000000 00:00 0 \nSize: 4 kB\nVmFlags: rd\n3000-4000 r--p 00000000 00:00 0 \nSize: 8 kB\n";
        let kept = mappings(smaps, &[Range { start: Addr(0x1000), end: Addr(0x2000) }], &[]);
        assert_eq!(kept, b"3000-4000 r--p 00000000 00:00 0 \nSize: 8 kB\n");
        let text = b"00001000-00004000 ---p 00000000 00:00 0                                  [rollup]\nSize:                 12 kB\nOther: x\n";
        let rolled = String::from_utf8(rollup(text, &kept)).unwrap();
        assert_eq!(
            rolled,
            "00003000-00004000 ---p 00000000 00:00 0                                  [rollup]\nSize:                  8 kB\nOther: x\n"
        );
    }

    #[test]
    fn guards_are_not_seen() {
        const NAME: &str = "fe:00 77                         /lib/x\n";
        let text = format!(
            "7000-8000 r--p 00000000 {NAME}8000-a000 r-xp 00001000 {NAME}a000-b000 r--p 00003000 {NAME}\
             b000-c000 r--p 00004000 {NAME}c000-e000 r-xp 00005000 {NAME}e000-f000 r--p 00007000 {NAME}"
        )
        .into_bytes();
        let found = unguarded(&text, &[0xa000, 0xb000].map(Addr).into());
        let line = |range: &str, prot: &str, offset: &str| {
            let start = format!("{range} {prot} {offset} fe:00 77 ");
            format!("{start}{}/lib/x\n", " ".repeat(NAME_COLUMN.saturating_sub(start.len())))
        };
        let lines = String::from_utf8(found).unwrap();
        let middle = line("00008000-0000e000", "r-xp", "00001000");
        assert!(lines.contains(&middle), "{lines}");
        assert_eq!(lines.lines().count(), 3);
        assert_eq!(unguarded(&text, &BTreeSet::new()), text);
        // The text where the guards have been shown as what they stand for.
        let shown = String::from_utf8(text).unwrap().replace("a000-b000 r--p", "a000-b000 r-xp");
        assert!(
            String::from_utf8(unguarded(shown.as_bytes(), &[0xa000, 0xb000].map(Addr).into()))
                .unwrap()
                .contains(&middle)
        );
    }

    #[test]
    fn a_status_has_no_tracer() {
        let text = b"Name:\tx\nState:\tt (tracing stop)\nTracerPid:\t77\nSeccomp:\t2\nSeccomp_filters:\t1\n";
        let own = b"Seccomp:\t0\nSeccomp_filters:\t0\n";
        let it = OwnStatus { state: Some(State::Runs), tracer: Tid(0), seccomp: None, cores: &[] };
        let found = status(text, own, it, &Weight::default());
        assert_eq!(
            found,
            b"Name:\tx\nState:\tR (running)\nTracerPid:\t0\nSeccomp:\t0\nSeccomp_filters:\t0\n"
        );
        assert_eq!((kernels_state(text), kernels_state(&found)), (Some(b't'), Some(b'R')));
        let it = OwnStatus { state: Some(State::Stopped), tracer: Tid(5), ..it };
        let found = status(text, own, it, &Weight::default());
        assert!(found.starts_with(b"Name:\tx\nState:\tT (stopped)\nTracerPid:\t5\n"));
        let text = b"NoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t1\n";
        let added = OwnSeccomp { mode: 2, filters: 3, no_new_privs: false };
        let it = OwnStatus { seccomp: Some(added), ..it };
        let found = status(text, b"Seccomp:\t2\nSeccomp_filters:\t1\n", it, &Weight::default());
        assert_eq!(found, b"NoNewPrivs:\t0\nSeccomp:\t2\nSeccomp_filters:\t4\n");
    }

    #[test]
    fn a_status_tells_of_the_programs_own_cores() {
        let told = |like: &str, cores: &[u8]| {
            let text = format!("Cpus_allowed:\t{like}\nCpus_allowed_list:\t1\nMems_allowed:\t1\n");
            let it = OwnStatus { state: None, tracer: Tid(0), seccomp: None, cores };
            String::from_utf8(status(text.as_bytes(), b"", it, &Weight::default())).unwrap()
        };
        let said =
            |mask, list| format!("Cpus_allowed:\t{mask}\nCpus_allowed_list:\t{list}\nMems_allowed:\t1\n");
        assert_eq!(told("2", &[3, 0, 0, 0, 0, 0, 0, 0]), said("3", "0-1"));
        assert_eq!(told("000,00000002", &[0x81, 0, 0, 0x80, 7, 0]), said("007,80000081", "0,7,31-34"));
        assert_eq!(told("00000000,00000001", &[0xff; 8]), said("ffffffff,ffffffff", "0-63"));
        assert_eq!(told("1", &[]), said("0", ""));
    }

    #[test]
    fn the_limit_of_the_address_space_is_the_programs() {
        let text = |soft: &str, hard: &str| {
            let line = format!("Max address space         {soft:<20} {hard:<20} bytes     \n");
            format!("Limit\n{line}Max file locks            unlimited\n").into_bytes()
        };
        let kernel = text("5242880", "140737493598208");
        let own = |soft, hard| limits(&kernel, Some(Limit { soft, hard }));
        assert_eq!(own(4096, 8192), text("4096", "8192"));
        assert_eq!(own(4096, libc::RLIM_INFINITY), text("4096", "unlimited"));
        assert_eq!(limits(&kernel, None), kernel);
    }

    #[test]
    fn sizes_are_without_what_is_ours() {
        let ours = Weight { mapped: 0x10_0000, data: 0x3000, exec: 0x4000, own: 0x5000, shared: 0x2000 };
        assert_eq!(statm(b"1000 300 200 5 0 90 0\n", &ours), b"744 293 198 5 0 87 0\n");
        let text =
            b"7 (a) b 1 2) t 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 99 5242880 300 18446744073709551615 1\n";
        let found = stat(text, Some(State::Runs), &ours);
        assert_eq!(
            String::from_utf8(found).unwrap(),
            "7 (a) b 1 2) R 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 99 4194304 293 18446744073709551615 1\n"
        );
        let text = b"VmSize:\t    5120 kB\nVmRSS:\t    1200 kB\nRssShmem:\t       4 kB\nThreads:\t1\n";
        let as_it_is = OwnStatus { state: None, tracer: Tid(0), seccomp: None, cores: &[] };
        assert_eq!(
            String::from_utf8(status(text, b"", as_it_is, &ours)).unwrap(),
            "VmSize:\t    4096 kB\nVmRSS:\t    1172 kB\nRssShmem:\t       0 kB\nThreads:\t1\n"
        );
    }
}
