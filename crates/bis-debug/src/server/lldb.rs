//! What only LLDB asks, and what is told to it in other words. Delve probes for some of these packets too,
//! and cannot go backwards where they are answered: so they are answered to LLDB alone.

use bis_trace::types::{Addr, Signal, Tid, prot};

use super::{served::Served, stops};
use crate::{
    protocol::{
        Client,
        command::LldbCommand,
        reply::{
            self, LldbReason, LldbStop,
            lldb::{Mapped, ProcessInfo, Region, ThreadInfo},
        },
    },
    session::{Report, Why},
};

/// What the server can do for LLDB. Without processes in the ids of threads, and without forks: it has one
/// process.
///
/// With `qXfer:libraries-svr4`: by itself LLDB 14 compares the lists from before and after a `dlopen`, and a
/// C library from 2.35 on tells of the first when the new entry is already in it. A server that says so must
/// answer `qShlibInfoAddr`, too: LLDB would take the program's entry in the list for what leads to the list.
pub(super) const FEATURES: [&str; 11] = [
    "QStartNoAckMode+",
    "QThreadSuffixSupported+",
    "QListThreadsInStopReply+",
    "QEnableErrorStrings+",
    "qEcho+",
    "vContSupported+",
    "ReverseContinue+",
    "ReverseStep+",
    "qXfer:features:read+",
    "qXfer:auxv:read+",
    "qXfer:libraries-svr4:read+",
];

/// How much of a stack goes along with each thread: the frame's link and return address.
const STACK_TOP: u64 = 16;

impl Served<'_> {
    pub(super) fn lldb(&mut self, command: LldbCommand) -> Vec<u8> {
        if !self.is_lldb() {
            return reply::empty();
        }
        match command {
            LldbCommand::ErrorStrings => {
                self.errors = reply::Errors::NumbersAndSentences;
                reply::ok()
            }
            LldbCommand::Echo(text) => text,
            LldbCommand::ThreadSuffix | LldbCommand::LaunchSuccess => reply::ok(),
            LldbCommand::ListThreadsInStops => {
                self.lists_threads = true;
                reply::ok()
            }
            LldbCommand::RegisterInfo(number) => {
                let info = self.session.target().info(number);
                info.unwrap_or_else(|| self.errors.error(69, "there are no more registers"))
            }
            LldbCommand::HostInfo => {
                let machine = self.session.world().trace().machine().cloned().unwrap_or_default();
                let version = machine.kernel.split(['-', '+', ' ']).next().unwrap_or_default();
                reply::lldb::host_info("bis", version)
            }
            LldbCommand::ProcessInfo => reply::lldb::process_info(&self.process_info()),
            LldbCommand::ProcessInfoOf(pid) if pid == self.pid() => {
                let executable = self.session.executable().unwrap_or_default();
                reply::lldb::process_info_of(&self.process_info(), &executable)
            }
            LldbCommand::MemoryRegion(None) => reply::ok(),
            LldbCommand::MemoryRegion(Some(addr)) => reply::lldb::memory_region(&self.region(Addr(addr))),
            LldbCommand::ThreadsInfo => {
                let threads: Vec<ThreadInfo> =
                    self.session.threads().into_iter().map(|tid| self.thread_info(tid)).collect();
                reply::lldb::threads_info(&threads)
            }
            LldbCommand::ThreadStopInfo(thread) => match self.known(thread) {
                Some(tid) => {
                    let why = if tid == self.last.tid { self.last.why.clone() } else { Why::Arrived };
                    stops::reply(self, &Report { tid, why })
                }
                None => self.errors.sentence("there is no such thread here"),
            },
            LldbCommand::SharedLibraryInfo => match self.session.linker_data_pointer() {
                Some(addr) => reply::text(format!("{addr:x}")),
                None => self.errors.sentence("the program has no dynamic linker that tells of itself"),
            },
            LldbCommand::WorkingDirectory => match self.session.working_directory() {
                Some(cwd) => reply::hex(&cwd),
                None => self.errors.sentence("the recording does not say where the program began"),
            },
            LldbCommand::WatchpointSupport => reply::text("num:3;"),
            LldbCommand::SaveRegisters { thread } => {
                let Some(tid) = self.whose(thread) else {
                    return self.errors.sentence("there is no such thread here");
                };
                match self.session.keep_registers(tid) {
                    Ok(number) => reply::text(number.to_string()),
                    Err(refusal) => self.errors.sentence(&refusal.text()),
                }
            }
            LldbCommand::RestoreRegisters { number, .. } => match self.session.put_registers_back(number) {
                Ok(Some(())) => reply::ok(),
                Ok(None) => self.errors.sentence("no registers are kept by this number"),
                Err(refusal) => self.errors.sentence(&refusal.text()),
            },
            LldbCommand::Allocate { size, .. } => match self.session.lend(size) {
                Some(addr) => reply::text(format!("{addr:x}")),
                // To an error it gives no heed: it takes the address that it has not got for one that it has.
                // Where the packet is not known, it evaluates expressions by itself.
                None => reply::empty(),
            },
            LldbCommand::Free { addr } => match self.session.take_back(addr) {
                true => reply::ok(),
                false => self.errors.sentence("there is no such memory of the debugger's"),
            },
            LldbCommand::ProcessInfoOf(_)
            | LldbCommand::ThreadExtendedInfo(_)
            | LldbCommand::AttachOrWait
            | LldbCommand::DetachAndStayStopped
            | LldbCommand::StructuredDataPlugins
            | LldbCommand::LoadedLibraries(_) => reply::empty(),
        }
    }

    fn process_info(&self) -> ProcessInfo {
        let [uid, effective_uid, gid, effective_gid] = self.session.ids();
        ProcessInfo {
            pid: self.pid(),
            parent: self.session.entry().ppid,
            uid,
            gid,
            effective_uid,
            effective_gid,
            is_narrow: self.session.is_narrow(),
        }
    }

    /// The mapping at an address, or the gap.
    fn region(&self, addr: Addr) -> Region {
        let lent = self.session.lent();
        if let Some(lent) = lent.iter().find(|lent| lent.contains(&addr)) {
            let mapped = Mapped { read: true, write: true, execute: true, name: None };
            return Region { start: lent.start, end: lent.end, mapped: Some(mapped) };
        }
        let maps = self.session.maps();
        if let Some(mapping) = maps.iter().find(|mapping| (mapping.start..mapping.end).contains(&addr)) {
            let name = self.session.mapped_name(mapping);
            let mapped = Mapped {
                read: mapping.prot & prot::READ != 0,
                write: mapping.prot & prot::WRITE != 0,
                execute: mapping.prot & prot::EXEC != 0,
                name: (!name.is_empty()).then(|| String::from_utf8_lossy(name).into_owned()),
            };
            return Region { start: mapping.start, end: mapping.end, mapped: Some(mapped) };
        }
        let taken = || maps.iter().map(|mapping| mapping.start..mapping.end).chain(lent.iter().cloned());
        let start = taken().map(|range| range.end).filter(|end| *end <= addr).max();
        let end = taken().map(|range| range.start).filter(|start| *start > addr).min();
        Region { start: start.unwrap_or(Addr::NULL), end: end.unwrap_or(Addr::MAX), mapped: None }
    }

    fn thread_info(&self, tid: Tid) -> ThreadInfo {
        let is_last = tid == self.last.tid;
        let (reason, description) =
            if is_last { words(&self.last.why) } else { (Some(LldbReason::None), None) };
        let signal = match &self.last.why {
            Why::Signal(signal) if is_last => Some(*signal),
            _ => is_last.then_some(Signal::TRAP),
        };
        let registers = self.session.registers(tid);
        let stack = registers.as_ref().map(|(registers, _)| registers.rbp);
        let memory = stack
            .map(|addr| (addr, self.session.read_memory(Addr(addr), STACK_TOP)))
            .filter(|(_, m)| !m.is_empty());
        ThreadInfo {
            tid,
            name: self.session.name(tid),
            reason: reason.unwrap_or(LldbReason::Signal),
            signal,
            description,
            registers: self.frequent(tid),
            memory: memory.into_iter().collect(),
        }
    }

    /// The registers that are sure to be asked for.
    fn frequent(&self, tid: Tid) -> Vec<(usize, Vec<u8>)> {
        self.registers_of(tid, &self.session.target().frequent())
    }

    /// The registers that a client is told with a stop.
    pub(super) fn with_stop(&self, tid: Tid) -> Vec<(usize, Vec<u8>)> {
        // Delve reads no stop that is that long.
        if self.features.client() != Client::Gdb || !self.lets_one_go {
            return self.frequent(tid);
        }
        let all = 0..self.session.target().registers().len() as u64;
        self.registers_of(tid, &all.collect::<Vec<_>>())
    }

    fn registers_of(&self, tid: Tid, numbers: &[u64]) -> Vec<(usize, Vec<u8>)> {
        let Some((registers, extended)) = self.session.registers(tid) else { return Vec::new() };
        let one = |number: &u64| {
            let value = self.session.target().read(*number, &registers, &extended)?;
            Some((usize::try_from(*number).ok()?, value))
        };
        numbers.iter().filter_map(one).collect()
    }

    /// What LLDB is told with a stop.
    pub(super) fn lldb_stop(&self, report: &Report) -> LldbStop {
        if !self.is_lldb() {
            return LldbStop::default();
        }
        let (reason, description) = match report.why {
            // Of other threads it is said that there is nothing of them.
            Why::Arrived if report.tid != self.last.tid => (None, None),
            _ => words(&report.why),
        };
        let pc = |tid| Some((tid, self.session.registers(tid)?.0.rip));
        let threads = if self.lists_threads {
            self.session.threads().into_iter().filter_map(pc).collect()
        } else {
            Vec::new()
        };
        LldbStop { name: self.session.name(report.tid), reason, description, threads }
    }
}

/// A stop in LLDB's words. It finds out by itself about breakpoints and watchpoints.
fn words(why: &Why) -> (Option<LldbReason>, Option<String>) {
    let said = |text: &str| (Some(LldbReason::Exception), Some(text.to_owned()));
    match why {
        Why::Step => (Some(LldbReason::Trace), None),
        Why::Signal(_) => (Some(LldbReason::Signal), None),
        Why::Exec(_) => (Some(LldbReason::Exec), None),
        Why::Begin => said("the recording begins here"),
        Why::End(_) => said("the recording of the process ends here"),
        Why::Broken(_) => said("the replay cannot go on"),
        Why::Arrived => said("the recording stands at the place that was asked for"),
        Why::Interrupted => (Some(LldbReason::Signal), None),
        _ => (None, None),
    }
}
