//! How a task gets to where an event was recorded: to a system call, to an instruction that traps, to a
//! signal, to a place in the middle of its computation; and the check that it has come there and nowhere
//! else (`reach/check.rs`).

mod check;
mod go;
mod pause;
mod rounds;

use std::collections::BTreeSet;

use bis_agent::hooks::SAFEPOINT;
use bis_trace::event::{Event, EventKind, LastWay, PausePlace, SignalPoint};

use self::check::signal_text;
pub(crate) use self::go::Gone;
use crate::{
    divergence::{Leave, call_name},
    error::Halt,
    going::{Going, InVain, Search},
    host::Host,
    replica::{Limit, Replica, Stop, Who},
    space::Source,
    task::{Found, Hooked, Missing, Task, mapped_files},
};

/// What letting a task go on has come to.
pub(crate) enum Reach {
    /// It is at the place of its event.
    There,
    /// It was stopped before.
    Stopped(Stop),
}

impl Replica<'_> {
    /// The task is about to leave for its next event. None: that needs nothing of it.
    pub(crate) fn set_out(
        &mut self,
        task: &mut Task,
        who: Who,
        kind: &EventKind,
        host: &mut dyn Host,
    ) -> Result<Option<Going>, Halt> {
        task.missing = Missing::of(kind);
        let (end_stop, search) = match kind {
            EventKind::Syscall { nr, .. } | EventKind::SyscallEnter { nr, .. } => {
                (*nr == SAFEPOINT, Search::None)
            }
            EventKind::Instruction { .. } => (false, Search::None),
            EventKind::Pause(pause) => (
                false,
                match pause.place {
                    PausePlace::State => Search::State {
                        seek: None,
                        skips: 0,
                        passed: 0,
                        stops: 0,
                        looked_at: None,
                        in_vain: InVain::default(),
                    },
                    PausePlace::Count(_) => Search::Count { is_near: false, is_asked: false, seek: None },
                },
            ),
            EventKind::Signal(event) => match event.point {
                SignalPoint::Fault | SignalPoint::BeforeSyscall => (false, Search::None),
                SignalPoint::AfterHook => (true, Search::None),
                SignalPoint::AfterEvent => {
                    return Ok(Some(Going { hooked: None, search: Search::None }));
                }
                SignalPoint::Anywhere => return Ok(None),
            },
            EventKind::TaskExit { last_way: LastWay::Log, .. } => (true, Search::None),
            EventKind::TaskExit { last_way: LastWay::Call, .. } => (false, Search::None),
            _ => return Ok(None),
        };
        if let (Some(nr), Search::None) = (task.in_call, &search) {
            let what = format!("task {} runs on although {} did not return", who.tid, call_name(nr));
            return Err(self.inconsistent(who.seq, what));
        }
        if let EventKind::TaskExit { last_way: LastWay::Log, .. } = kind
            && task.hooked.is_none()
        {
            let what = format!("task {} ends behind a log of hooked calls that is not there", who.tid);
            return Err(self.inconsistent(who.seq, what));
        }
        let hooked = self.begin_log(task, who, host, end_stop)?;
        Ok(Some(Going { hooked, search }))
    }

    /// Lets the task go on to the event's place.
    pub(crate) fn reach(
        &mut self,
        task: &mut Task,
        who: Who,
        event: &Event,
        going: &mut Going,
        host: &mut dyn Host,
        limit: &Limit<'_>,
    ) -> Result<Reach, Halt> {
        match &event.kind {
            EventKind::Pause(pause) => match pause.place {
                PausePlace::Count(count) => self.reach_count(task, who, (pause, count), going, host, limit),
                PausePlace::State => {
                    let says_times = self.world.trace.says_times();
                    let recorded = says_times.then(|| self.cursor.recorded.to(event));
                    self.reach_pause(task, who, (pause, recorded), going, host, limit)
                }
            },
            EventKind::Signal(signal) if signal.point == SignalPoint::AfterEvent => {
                let (regs, expected) = (task.regs()?, signal_text(signal));
                self.must_equal(task, who, expected, &signal.before, &regs, Leave::OrigRax)?;
                Ok(Reach::There)
            }
            kind => {
                let place = match self.go(task, who, host, limit)? {
                    Gone::Place(place) => place,
                    Gone::Stopped(stop) => return Ok(Reach::Stopped(stop)),
                };
                if place.found != Found::Dead {
                    self.check_log(task, who, going.hooked.as_ref(), &place)?;
                }
                match kind {
                    EventKind::Syscall { nr, entry, .. } | EventKind::SyscallEnter { nr, entry } => {
                        self.must_be_call(task, who, *nr, entry, &place)?;
                    }
                    EventKind::Instruction { insn, before, .. } => {
                        self.must_be_instruction(task, who, *insn, before, &place)?;
                    }
                    EventKind::Signal(signal) => self.must_be_signal(task, who, signal, place)?,
                    EventKind::TaskExit { .. } => self.must_be_at_hook(task, who, &place)?,
                    _ => return Err(self.inconsistent(who.seq, "nothing runs to such an event".into())),
                }
                Ok(Reach::There)
            }
        }
    }

    /// Puts the hooked calls that come before the task's next event where the hooks find them.
    fn begin_log(
        &mut self,
        task: &mut Task,
        who: Who,
        host: &mut dyn Host,
        end_stop: bool,
    ) -> Result<Option<Hooked>, Halt> {
        let hooked = task.hooked.take();
        if let Some(hooked) = &hooked {
            let files: BTreeSet<Source> =
                mapped_files(&hooked.log).map(|(_, file)| Source::File(file)).collect();
            self.open_files(task, who.seq, &files, host)?;
            self.space.put_log(task.ours, hooked, end_stop).map_err(|error| {
                let what = format!("put {:#x} bytes of hooked calls where they belong", hooked.log.len());
                self.effect_failed(who.seq, what, error)
            })?;
            task.begin_log(hooked, |file| self.space.descriptor_of(file));
        }
        Ok(hooked)
    }

    /// Is the log used up?
    pub(crate) fn log_is_used(&self, hooked: Option<&Hooked>) -> Result<bool, Halt> {
        Ok(match hooked {
            None => true,
            Some(hooked) => self.space.log_used()? == hooked.log.len() as u64,
        })
    }
}
