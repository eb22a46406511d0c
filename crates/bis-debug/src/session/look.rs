//! Looking at the program where the session stands. Nothing here moves it, or changes anything.

use std::{fs::File, ops::Range};

use bis_replay::ours::Believed;
use bis_syscalls::narrow::siginfo_narrowed;
use bis_trace::{
    event::{Base, Event, EventKind, FileEntry, Meta},
    types::{Addr, DomainId, EventSeq, Registers, Signal, Tid},
};
use bis_tracee::maps::Mapping;

use super::{Session, lent::are_apart, processes};

/// Where the strings and numbers end that the kernel has put on a new program's stack.
const STACK_MAX: usize = 1 << 20;

/// The kernel keeps so much of a program's name.
const NAME_MAX: usize = 15;

/// The number that these bytes are, at most eight of them.
pub(super) fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|at| bytes.get(at).copied().unwrap_or(0)))
}

/// An event at which a process was not there.
#[derive(Debug)]
pub struct Outside {
    event: EventSeq,
    first: EventSeq,
    last: Option<EventSeq>,
    /// The process whose event it is, if it is another's.
    owner: Option<Tid>,
}

impl Outside {
    /// This, with how one goes to the process whose event it is.
    pub fn with_way(&self, way: impl Fn(Tid) -> String) -> String {
        let Outside { event, first, last, owner } = self;
        let last = last.map_or("its end".into(), |last| format!("event {last}"));
        let whose = owner.map_or(String::new(), |owner| {
            format!("; event {event} is one of process {owner} ({})", way(owner))
        });
        format!("this process is recorded from event {first} to {last}{whose}")
    }
}

impl Session<'_> {
    /// The threads, by their recorded numbers.
    pub fn threads(&self) -> Vec<Tid> {
        self.shown().tasks().collect()
    }

    /// The registers of a thread, with its extended state. None: there is no such thread.
    pub fn registers(&self, tid: Tid) -> Option<(Registers, Vec<u8>)> {
        let replica = self.shown();
        Some((replica.registers(tid).ok()?, replica.extended(tid).ok()?))
    }

    /// As much of these bytes as is mapped without a gap.
    pub fn read_memory(&self, addr: Addr, len: u64) -> Vec<u8> {
        // A copy has it itself.
        if self.aside.diverted.is_none()
            && let Some(bytes) = self.aside.lent.read(addr, len)
            && !self.has_program_at(&(addr..addr + bytes.len() as u64))
        {
            return bytes;
        }
        self.shown().read_program(addr, usize::try_from(len).unwrap_or(usize::MAX))
    }

    /// Has the program something in this range, where it stands in the recording?
    pub(super) fn has_program_at(&self, range: &Range<Addr>) -> bool {
        let maps = self.live.replica.maps();
        maps.is_ok_and(|maps| maps.iter().any(|mapping| !are_apart(&(mapping.start..mapping.end), range)))
    }

    /// Where a pattern is found first.
    pub fn find(&self, addr: Addr, len: u64, pattern: &[u8]) -> Option<Addr> {
        const PIECE: u64 = 1 << 20;
        let end = addr.checked_add(len)?;
        let mut at = addr;
        while at < end && !pattern.is_empty() {
            let bytes = self.read_memory(at, (PIECE + pattern.len() as u64).min(end - at));
            if let Some(found) = bytes.windows(pattern.len()).position(|bytes| bytes == pattern) {
                return Some(at + found as u64);
            }
            if bytes.len() < pattern.len() {
                return None;
            }
            at += PIECE;
        }
        None
    }

    /// What a thread is doing, for people.
    pub fn note(&self, tid: Tid) -> String {
        match self.shown().in_call(tid) {
            Some(nr) => match bis_syscalls::name(nr) {
                Some(name) => format!("in {name}"),
                None => format!("in system call {nr}"),
            },
            None => String::new(),
        }
    }

    /// A thread's name: the one that it has given to itself, or that of its program.
    pub fn name(&self, tid: Tid) -> Option<String> {
        if let Some(name) = self.live.replica.name(tid) {
            return Some(String::from_utf8_lossy(name).into_owned());
        }
        let path = crate::options::executable_of(self.world.trace(), self.entry())?;
        let name = path.file_name()?.as_encoded_bytes();
        Some(String::from_utf8_lossy(&name[..name.len().min(NAME_MAX)]).into_owned())
    }

    /// Is this task, which has the session's memory, a process of its own? (It is a child by vfork.)
    pub fn is_other_process(&self, task: Tid) -> bool {
        let domain = self.entry().domain;
        let is_it = |meta: &Meta| matches!(meta, Meta::Task { domain: of, tid, pid, .. } if *of == domain && *tid == task && *pid != self.pid());
        self.world.trace().metas().any(is_it)
    }

    /// The path of the executable, for a debugger: in the trace, where the machine has it no more.
    pub fn executable(&self) -> Option<Vec<u8>> {
        self.executable_of(self.entry().domain)
    }

    /// The domain that has executed the present program: the session's, or the ancestor that it is a copy of.
    fn executed(&self) -> Option<DomainId> {
        let mut entry = self.entry();
        loop {
            match entry.base.copied_from() {
                None => return Some(entry.domain),
                Some((parent, _)) => entry = self.world.entry(parent).ok()?,
            }
        }
    }

    /// What the kernel has told the program of itself and the machine (getauxval). At an exec it lies on the
    /// stack, behind the arguments and the environment.
    pub fn auxv(&self) -> Option<Vec<u8>> {
        let domain = self.executed()?;
        if let Base::Image { auxv, .. } = &self.world.entry(domain).ok()?.base {
            return Some(auxv.clone());
        }
        let first = self.world.trace().events(domain).next()?.ok()?;
        let EventKind::Start(start) = first.kind else { return None };
        let stack = self.read_memory(start.outcome.regs.sp(), STACK_MAX as u64);
        let len = self.word_len();
        let words: Vec<u64> = stack.chunks_exact(len).map(number).collect();
        let arguments = usize::try_from(*words.first()?).ok()?;
        // The count, the arguments and a null; then the environment up to a null.
        let environment = arguments.checked_add(2)?;
        let end = words.get(environment..)?.iter().position(|word| *word == 0)?;
        let auxv = words.get(environment + end + 1..)?;
        let pairs = auxv.chunks_exact(2).position(|pair| pair[0] == 0)? + 1;
        Some(auxv[..2 * pairs].iter().flat_map(|word| word.to_le_bytes()[..len].to_vec()).collect())
    }

    /// One of the program's auxiliary values.
    pub(super) fn auxiliary(&self, key: u64) -> Option<u64> {
        let (auxv, len) = (self.auxv()?, self.word_len());
        let pair = auxv.chunks_exact(2 * len).find(|pair| number(&pair[..len]) == key)?;
        Some(number(&pair[len..]))
    }

    /// Whose the program is, by its auxiliary values: user, effective user, group, effective group.
    pub fn ids(&self) -> [u32; 4] {
        const IDS: [u64; 4] = [11, 12, 13, 14];
        IDS.map(|id| self.auxiliary(id).and_then(|value| u32::try_from(value).ok()).unwrap_or(0))
    }

    /// Where the program began.
    pub fn working_directory(&self) -> Option<Vec<u8>> {
        self.world.entry(self.executed()?).ok()?.base.program().map(|program| program.cwd.to_vec())
    }

    /// Bytes of a word of the program that is debugged.
    pub(super) fn word_len(&self) -> usize {
        self.target().word_len()
    }

    pub(super) fn read_word(&self, addr: Addr) -> Option<u64> {
        let len = self.word_len();
        let bytes = self.read_memory(addr, len as u64);
        (bytes.len() == len).then(|| number(&bytes))
    }

    /// The number that glibc has given to a loaded library's thread-local variables. `map` is the library's
    /// description (its link map); `descriptor` says where in it the number is: three words of 32 bits, the
    /// last of which is the offset.
    pub fn tls_module(&self, map: u64, descriptor: u64) -> Option<u64> {
        let bytes = self.read_memory(Addr(descriptor), 12);
        let offset = u32::from_le_bytes(bytes.get(8..12)?.try_into().ok()?);
        self.read_word(Addr(map.checked_add(offset.into())?)).filter(|module| *module > 0)
    }

    /// Where a thread's copy of a library's thread-local variables is. None: the thread has none yet.
    pub fn tls(&self, tid: Tid, module: u64) -> Option<u64> {
        // The word behind the thread's own address is that of a table: two words for each library, the first
        // of which is the address.
        let registers = self.shown().registers(tid).ok()?;
        let word = self.word_len() as u64;
        let table = self.read_word(Addr(registers.thread_pointer().checked_add(word)?))?;
        let addr = self.read_word(Addr(table.checked_add(module.checked_mul(2 * word)?)?))?;
        let not_yet = u64::MAX >> (64 - 8 * word);
        (addr != not_yet && addr != 0).then_some(addr)
    }

    /// What the kernel says of the signal that a thread is about to get, or that has ended it; else, what it
    /// says of a trap. As the program's own kind of programs has it.
    pub fn siginfo(&self, tid: Tid) -> Vec<u8> {
        // A trace may have less of it.
        let mut info = self.wide_siginfo(tid);
        info.resize(size_of::<libc::siginfo_t>(), 0);
        if self.word_len() == 4 { siginfo_narrowed(&info) } else { info }
    }

    fn wide_siginfo(&self, tid: Tid) -> Vec<u8> {
        if let Some(info) = self.aside.signal().filter(|_| self.is_diverted()) {
            return info.0.to_vec();
        }
        if let Some((event, true)) = self.live.replica.underway()
            && let EventKind::Signal(signal) = &event.kind
            && event.tid == tid
            && !self.is_diverted()
        {
            return signal.siginfo.clone();
        }
        if let Some(Event { tid: of, kind: EventKind::Signal(signal), .. }) = self.live.replica.fatal()
            && *of == tid
            && !self.is_diverted()
        {
            return signal.siginfo.clone();
        }
        // Of an int3 (SI_KERNEL).
        let mut info = vec![0; 128];
        (info[0], info[8]) = (Signal::TRAP.0, 0x80);
        info
    }

    /// What is mapped, without what is bis's own.
    pub fn maps(&self) -> Vec<Mapping> {
        let ours: Vec<_> = self.shown().text().map(|text| text.ours().collect()).unwrap_or_default();
        let is_own = |mapping: &Mapping| {
            let all = Addr::range(bis_agent::OURS);
            let is_in =
                |range: &std::ops::Range<Addr>| range.start <= mapping.start && mapping.end <= range.end;
            !is_in(&all) && !ours.iter().any(is_in)
        };
        self.shown().maps().unwrap_or_default().into_iter().filter(is_own).collect()
    }

    /// What the program believes is there, where something else is mapped for it.
    fn believed(&self, mapping: &Mapping) -> Option<Believed> {
        let is_there =
            |believed: &Believed| believed.range.start < mapping.end && mapping.start < believed.range.end;
        self.shown().text().and_then(|text| text.believed().find(is_there))
    }

    /// From where on a mapping shows its file, for the program.
    fn offset(&self, mapping: &Mapping) -> u64 {
        let believed = self.believed(mapping).filter(|believed| believed.range.start <= mapping.start);
        believed.map_or(mapping.offset, |believed| {
            believed.offset.saturating_add(mapping.start - believed.range.start)
        })
    }

    /// The kept file that a mapping shows.
    pub(super) fn kept(&self, mapping: &Mapping) -> Option<&FileEntry> {
        if let Some(believed) = self.believed(mapping) {
            return self.world.trace().file(believed.file).ok();
        }
        let shown = mapping.name.rsplit(|byte| *byte == b'/').next()?;
        self.world.files().find(|entry| !shown.is_empty() && entry.name.as_bytes() == shown)
    }

    /// Where a link of /proc/PID leads: its program, and the folder in which it began (where it went since,
    /// nobody has noted).
    pub fn proc_link(&self, path: &[u8]) -> Option<Vec<u8>> {
        let (pid, link) = std::str::from_utf8(path).ok()?.strip_prefix("/proc/")?.split_once('/')?;
        if Tid(pid.parse().ok()?) != self.pid() {
            return None;
        }
        match link {
            "exe" => {
                let path = crate::options::executable_of(self.world.trace(), self.entry())?;
                Some(path.as_os_str().as_encoded_bytes().to_vec())
            }
            "cwd" => self.working_directory(),
            _ => None,
        }
    }

    /// A file of /proc/PID as the program would have found it: those that debuggers read.
    pub fn proc_file(&self, path: &[u8]) -> Option<Vec<u8>> {
        let path = std::str::from_utf8(path).ok()?.strip_prefix("/proc/")?;
        let (pid, file) = path.split_once('/')?;
        let pid = Tid(pid.parse().ok()?);
        if pid != self.pid() && !self.threads().contains(&pid) {
            return None;
        }
        let file = match file.strip_prefix("task/") {
            Some(rest) => rest.split_once('/')?.1,
            None => file,
        };
        let command = crate::options::executable_of(self.world.trace(), self.entry())?;
        let name = command.file_name()?.to_string_lossy().into_owned();
        Some(match file {
            "maps" => self.maps().iter().flat_map(|mapping| self.line(mapping)).collect(),
            "smaps" => self.maps().iter().flat_map(|mapping| self.lines(mapping)).collect(),
            "cmdline" => self.command_line(),
            "comm" => format!("{name}\n").into_bytes(),
            "coredump_filter" => b"00000033\n".to_vec(),
            "stat" => format!(
                "{pid} ({name}) t 0 {0} {0} 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 {1} 0 0 0 0 18446744073709551615\n",
                self.pid(),
                self.threads().len()
            )
            .into_bytes(),
            "status" => format!(
                "Name:\t{name}\nState:\tt (tracing stop)\nTgid:\t{}\nPid:\t{pid}\nPPid:\t{}\nThreads:\t{}\n",
                self.pid(),
                self.entry().ppid,
                self.threads().len()
            )
            .into_bytes(),
            "auxv" => self.auxv()?,
            _ => return None,
        })
    }

    /// What is mapped there: a file's path, or a name like `[stack]`.
    pub fn mapped_name<'a>(&'a self, mapping: &'a Mapping) -> &'a [u8] {
        if mapping.name.starts_with(b"[") {
            return &mapping.name;
        }
        self.kept(mapping).map_or(&b""[..], |entry| &entry.path[..])
    }

    /// A mapping as /proc/PID/maps has it.
    fn line(&self, mapping: &Mapping) -> Vec<u8> {
        let bit = |bit: u32, letter: char| if mapping.prot & bit != 0 { letter } else { '-' };
        let shared = if mapping.shared { 's' } else { 'p' };
        let name = self.mapped_name(mapping);
        let inode = u64::from(self.kept(mapping).is_some());
        let head = format!(
            "{:x}-{:x} {}{}{}{shared} {:08x} 00:00 {inode} ",
            mapping.start,
            mapping.end,
            bit(1, 'r'),
            bit(2, 'w'),
            bit(4, 'x'),
            self.offset(mapping)
        );
        [format!("{head:<73}").as_bytes(), name, b"\n"].concat()
    }

    /// The mapping's lines with what /proc/PID/smaps adds: for whoever makes core files, all of private
    /// memory is the program's own.
    fn lines(&self, mapping: &Mapping) -> Vec<u8> {
        let size = mapping.len() / 1024;
        let shared = if mapping.shared { " sh" } else { "" };
        let text = format!(
            "Size: {size:>18} kB\nRss: {size:>19} kB\nPrivate_Dirty: {size:>9} kB\nAnonymous: {size:>13} kB\nVmFlags: rd wr mr mw \
             me ac{shared}\n"
        );
        [self.line(mapping), text.into_bytes()].concat()
    }

    fn command_line(&self) -> Vec<u8> {
        let entry = self.executed().and_then(|domain| self.world.entry(domain).ok());
        let program = entry.and_then(|entry| entry.base.program());
        let words = program.map_or(&[][..], |program| program.argv);
        words.iter().flat_map(|word| [&word[..], b"\0"].concat()).collect()
    }

    /// The first event of the session's process.
    pub fn first_event(&self) -> EventSeq {
        let first = self.images.first().and_then(|domain| self.world.entry(*domain).ok());
        first.map_or(EventSeq(0), |entry| entry.seq)
    }

    /// The event with which the process ends, if the recording says so.
    pub fn end_event(&self) -> Option<EventSeq> {
        let last = self.images.last()?;
        self.world.trace().metas().find_map(|meta| match meta {
            Meta::DomainEnd { domain, seq, .. } if domain == last => Some(*seq),
            _ => None,
        })
    }

    /// None: the process has been there at this event.
    pub fn outside(&self, event: EventSeq) -> Option<Outside> {
        let (first, last) = (self.first_event(), self.end_event());
        if first <= event && last.is_none_or(|last| event <= last) {
            return None;
        }
        let pid = self.entry().pid;
        let owner = processes::owner(self.world, event).filter(|owner| *owner != pid);
        Some(Outside { event, first, last, owner })
    }

    /// The domain of the process's program that runs at an event.
    pub fn image_domain(&self, event: EventSeq) -> DomainId {
        self.images.get(self.image_of(event)).copied().unwrap_or(self.entry().domain)
    }

    /// The path of a domain's executable, from which symbols are read.
    pub fn executable_of(&self, domain: DomainId) -> Option<Vec<u8>> {
        let entry = self.world.entry(domain).ok()?;
        Some(crate::options::symbols_of(self.world.trace(), entry)?.into_os_string().into_encoded_bytes())
    }

    /// The trace's own copy of a file of this name: of the one that is mapped, where it has kept several.
    pub fn kept_file(&self, path: &[u8]) -> Option<File> {
        let maps = self.maps();
        let mapped = maps.iter().filter_map(|mapping| self.kept(mapping)).find(|entry| entry.path == path);
        let entry = mapped.or_else(|| self.world.files().find(|entry| entry.path == path))?;
        self.world.trace().open_file(entry.file).ok()
    }

    /// Has the trace kept a file of this name, and the machine has another one by now, or none?
    pub fn is_replaced(&self, path: &[u8]) -> bool {
        let trace = self.world.trace();
        self.world.files().any(|entry| entry.path == path && !trace.is_still_there(entry.file))
    }
}
