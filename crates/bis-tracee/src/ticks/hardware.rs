//! The source that counts retired conditional branches with the processor's own counters: nothing is slower
//! for it.
//!
//! *Counting.* One event for each task, pinned to a counter, of user code only. When recording, nothing else
//! is needed: a task is stopped as any task is, and the counter read.
//!
//! *Stopping at a number.* In replay a counter can interrupt after so many branches. The interrupt becomes a
//! signal to the task itself (one to the supervisor would come a wake-up later), and its delivery a stop; the
//! task never gets it. All that comes late, by a bounded number of branches, the *skid*. A replayed program
//! has no mask of signals of its own that matters, so the signal is unblocked there; in a recorded one no
//! such signal is ever asked for.
//!
//! *Trust.* A counter that is wrong by one makes recordings that do not replay. So before it is used, a loop
//! of known length is run in a process of its own, through all of this, some times with and some without
//! interrupts and locked instructions (`check.rs`); and what is known of a processor but cannot be seen in a
//! moment is looked up.

use std::{fs, io, path::Path};

use bis_trace::types::{Signal, Tid};

use super::{
    Stop, TickSource, TicksError, check,
    cpu::{Counter, Model, counter},
    perf::{self, Event},
};
use crate::{
    error::{Result, TraceeError},
    memory::Memory,
    siginfo::SigInfo,
    sys,
    task::{Resume, Status, Stopped},
};

/// Programs hardly use it, and the kernel never (SIGSTKFLT).
const SIGNAL: Signal = Signal(16);

/// What to ask the kernel for.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    counter: Counter,
    /// PERF_TYPE_RAW, or on a processor with two kinds of cores, the kernel's number for the fast ones'
    /// counters.
    pmu: u32,
}

impl Setup {
    /// Finds this machine's counter, and makes sure that it counts right. On a processor with two kinds of
    /// cores, the calling process keeps to the fast ones from now on.
    pub fn begin() -> Result<Setup, TicksError> {
        let model = Model::here();
        let counter = counter(&model).ok_or_else(|| TicksError::UnknownProcessor {
            vendor: model.vendor(),
            family: model.family,
            model: model.model,
        })?;
        let setup = Setup { counter, pmu: if counter.hybrid { fast_cores()? } else { perf::RAW } };
        // A user who cannot open a counter at all should hear of that first.
        Event::open(Tid(0), setup.pmu, counter.event).map_err(|error| refused(&error))?;
        if counter.locks_speculate && speculates(&setup)? {
            return Err(TicksError::Wrong {
                processor: counter.name,
                what: "it counts branches behind locked instructions twice; set bit 54 of MSR 0xC0011020 on all cores, after \
                       each start of the machine"
                    .into(),
            });
        }
        let freezes = |text: String| text.trim() != "0";
        if counter.counts_smi && !fs::read_to_string("/sys/devices/cpu/freeze_on_smi").map_or(true, freezes) {
            return Err(TicksError::Wrong {
                processor: counter.name,
                what: "it counts what the firmware does in between; write 1 to /sys/devices/cpu/freeze_on_smi, after each \
                       start of the machine"
                    .into(),
            });
        }
        check::check(&mut |tid| Ok(Box::new(Hardware::open(setup, tid)?)))
            .map_err(|what| TicksError::Wrong { processor: counter.name, what })?;
        Ok(setup)
    }
}

/// Why the kernel gives no counter, and what to do.
fn refused(error: &io::Error) -> TicksError {
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP | libc::ENOSYS) => TicksError::NoCounters,
        Some(libc::EACCES | libc::EPERM) => TicksError::NotAllowed,
        _ => TicksError::Kernel(error.to_string()),
    }
}

/// Does a locked instruction run ahead? The processor counts those that do (its event 0x25, mask 8).
fn speculates(setup: &Setup) -> Result<bool, TicksError> {
    use std::sync::atomic::{AtomicU64, Ordering};
    let mut event = Event::open(Tid(0), setup.pmu, 0x0825).map_err(|error| refused(&error))?;
    let word = AtomicU64::new(0);
    let mut read = || event.read().map_err(|error| TicksError::Kernel(error.to_string()));
    let before = read()?;
    for _ in 0..100 {
        word.fetch_add(1, Ordering::SeqCst);
    }
    Ok(read()? != before)
}

/// Keeps this process to the fast cores; the kernel's number for their counters.
fn fast_cores() -> Result<u32, TicksError> {
    let folder = Path::new("/sys/bus/event_source/devices/cpu_core");
    let read = |name: &str| {
        fs::read_to_string(folder.join(name)).map_err(|error| TicksError::Kernel(error.to_string()))
    };
    let number = read("type")?.trim().parse();
    let number = number.map_err(|_| TicksError::Kernel("the fast cores' counters have no number".into()))?;
    let cores = cores(&read("cpus")?);
    let allowed = sys::get_affinity(Tid(0)).map_err(|error| TicksError::Kernel(error.to_string()))?;
    let mut mask = vec![0u8; allowed.len()];
    for core in cores {
        if let (Some(byte), Some(allowed)) = (mask.get_mut(core / 8), allowed.get(core / 8)) {
            *byte |= allowed & 1 << (core % 8);
        }
    }
    sys::set_affinity(Tid(0), &mask).map_err(|error| TicksError::Kernel(error.to_string()))?;
    Ok(number)
}

/// The numbers of a list like `0-3,8`.
fn cores(list: &str) -> Vec<usize> {
    let range = |part: &str| -> Option<std::ops::RangeInclusive<usize>> {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    list.trim().split(',').filter_map(range).flatten().collect()
}

/// One task's counter.
#[derive(Debug)]
pub struct Hardware {
    setup: Setup,
    tid: Tid,
    event: Event,
    /// What it had when counting began.
    base: u64,
    stop_at: Option<u64>,
    /// Interrupts are signals to the task.
    signals: bool,
}

impl Hardware {
    pub fn open(setup: Setup, tid: Tid) -> Result<Hardware> {
        let event = Event::open(tid, setup.pmu, setup.counter.event).map_err(|source| TraceeError::Os {
            what: "open a performance counter",
            tid,
            source,
        })?;
        Ok(Hardware { setup, tid, event, base: 0, stop_at: None, signals: false })
    }

    fn failed(&self, what: &'static str) -> impl FnOnce(io::Error) -> TraceeError + use<> {
        let tid = self.tid;
        move |source| TraceeError::Os { what, tid, source }
    }

    fn read(&mut self) -> Result<u64> {
        let failed = self.failed("read a performance counter (somebody else may have taken it)");
        self.event.read().map_err(failed)
    }

    fn interrupt_after(&self, more: Option<u64>) -> Result<()> {
        self.event.interrupt_after(more).map_err(self.failed("set a performance counter"))
    }

    fn forget_stop(&mut self) -> Result<()> {
        if self.stop_at.take().is_some() { self.interrupt_after(None) } else { Ok(()) }
    }
}

impl TickSource for Hardware {
    fn skid(&self) -> u64 {
        self.setup.counter.skid_max
    }

    fn begin(&mut self, _memory: &Memory) -> Result<()> {
        self.forget_stop()?;
        self.base = self.read()?;
        Ok(())
    }

    fn count(&mut self, _memory: &Memory) -> Result<u64> {
        Ok(self.read()?.saturating_sub(self.base))
    }

    fn stop_at(&mut self, stopped: &Stopped, memory: &Memory, count: Option<u64>) -> Result<()> {
        let Some(count) = count else { return self.forget_stop() };
        if !self.signals {
            self.event
                .signal(self.tid, SIGNAL)
                .map_err(self.failed("have a performance counter interrupt"))?;
            self.signals = true;
        }
        let bit = 1 << (SIGNAL.0 - 1);
        let mask = stopped.sigmask()?;
        if mask & bit != 0 {
            sys::set_sigmask(stopped.tid(), mask & !bit)?;
        }
        let more = count.saturating_sub(self.count(memory)?);
        self.stop_at = Some(count);
        self.interrupt_after(Some(more))
    }

    fn stop_soon(&mut self, _stopped: &Stopped, _memory: &Memory) -> Result<Option<u64>> {
        Ok(None)
    }

    fn duplicate(&self) -> Option<Box<dyn TickSource>> {
        // The processor's counter of another task begins at zero.
        None
    }

    fn resume(&mut self, _stopped: &Stopped, _memory: &Memory) -> Result<Resume> {
        Ok(Resume::Cont)
    }

    fn stopped(&mut self, stopped: &mut Stopped, memory: &Memory, status: Status) -> Result<Stop> {
        if status != Status::Signal(SIGNAL) {
            return Ok(Stop::Foreign);
        }
        let info = SigInfo(stopped.siginfo()?);
        if info.code() <= 0 || !self.event.is(info.descriptor()) {
            return Ok(Stop::Foreign);
        }
        // One that was asked for before may come late.
        let Some(at) = self.stop_at else { return Ok(Stop::Inside) };
        let count = self.count(memory)?;
        if count < at {
            self.interrupt_after(Some(at - count))?;
            return Ok(Stop::Inside);
        }
        self.stop_at = None;
        self.interrupt_after(None)?;
        Ok(Stop::Tick)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cores() {
        assert_eq!(cores("0-3,8\n"), [0, 1, 2, 3, 8]);
        assert_eq!(cores("5"), [5]);
        assert!(cores("").is_empty());
    }

    #[test]
    fn refusals_say_what_to_do() {
        let text = |errno| refused(&io::Error::from_raw_os_error(errno)).to_string();
        assert!(text(libc::ENOENT).contains("no performance counters"), "{}", text(libc::ENOENT));
        assert!(text(libc::EACCES).contains("perf_event_paranoid"));
        assert!(text(libc::EMFILE).contains("failed to"));
    }

    /// Where there are counters, the check of them has run and succeeded, or says why not; where there are
    /// none, that is what it says.
    #[test]
    fn the_counter_is_used_only_where_it_is_right() {
        let there = Path::new("/sys/bus/event_source/devices/cpu").exists()
            || Path::new("/sys/bus/event_source/devices/cpu_core").exists();
        match Setup::begin() {
            Ok(setup) => assert!(there, "{setup:?}"),
            Err(TicksError::NoCounters) => assert!(!there),
            Err(error) => println!("not usable here: {error}"),
        }
    }
}
