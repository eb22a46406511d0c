//! `bis info --stops`: why the tasks of a recording stopped, counted from its events. A call of the hooks is
//! no stop; a traced call is, and the reason can be told from where it was made: by the program's own
//! instruction (its place in the text was not patched), or in a trampoline, behind the hook that left it.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    io::Write,
};

use bis_agent::hooks::{SAFEPOINT, entries};
use bis_syscalls::{hook, row};
use bis_trace::{
    Trace,
    event::{Backing, Effect, Event, EventKind, Outcome, PausePlace, SignalPoint},
    types::{DomainId, Tid, prot},
};
use serde_json::{Value, json};

use super::dump_text::instruction_name;
use crate::{failure::Result, human, output::Table};

/// Bytes of the memory in which trampolines lie, as the recorder maps it.
const ARENA_LEN: u64 = 0x1_0000;

/// Why calls of one kind were traced, and how many were not.
#[derive(Clone, Copy, Default)]
struct Calls {
    hooked: u64,
    /// There is no hook for it, or hooks were off.
    unhooked: u64,
    /// Its hook found that it would wait, or what only the kernel can say.
    left: u64,
    /// Its hook did not begin: the descriptor or the path is a special one, the results are too many, a stop
    /// was asked for.
    declined: u64,
    /// Its instruction is not patched: it is the first time, it cannot be, or its code is no file's.
    unpatched: u64,
}

impl Calls {
    fn traced(self) -> u64 {
        self.unhooked + self.left + self.declined + self.unpatched
    }
}

/// What a recording's events say about stops.
#[derive(Default)]
pub struct Stops {
    calls: BTreeMap<u64, Calls>,
    /// By where the signal found its task.
    signals: BTreeMap<&'static str, u64>,
    instructions: BTreeMap<&'static str, u64>,
    pauses_by_count: u64,
    pauses_by_state: u64,
    safepoints: u64,
    tokens: u64,
    switches: u64,
    ends: u64,
    /// The domains' logs of hooked calls.
    logs: u64,
    arenas: HashSet<u64>,
}

/// What has to be remembered of a domain between its events.
#[derive(Default)]
struct Last {
    task: Option<Tid>,
    /// The call that a hook has just left, by task.
    left: HashMap<Tid, u16>,
}

impl Stops {
    /// Reads all events. What cannot be read of a damaged trace is an error.
    pub fn of(trace: &Trace) -> Result<Stops> {
        let mut stops = Stops::default();
        let domains: Vec<DomainId> = trace.domains().map(|entry| entry.domain).collect();
        for domain in domains {
            let mut last = Last::default();
            for event in trace.events(domain) {
                stops.count(&event?, &mut last);
            }
        }
        Ok(stops)
    }

    fn learn(&mut self, outcome: &Outcome) {
        for effect in &outcome.effects {
            if let Effect::Map { addr, len: ARENA_LEN, prot: prot::READ_EXEC, backing: Backing::Anonymous } =
                effect
            {
                self.arenas.insert(addr.0);
            }
        }
    }

    fn count(&mut self, event: &Event, last: &mut Last) {
        let is_own = !matches!(event.kind, EventKind::Token { .. } | EventKind::End);
        if is_own && last.task.replace(event.tid).is_some_and(|task| task != event.tid) {
            self.switches += 1;
        }
        match &event.kind {
            EventKind::Start(start) => self.learn(&start.outcome),
            EventKind::Syscall { nr: SAFEPOINT, .. } => self.safepoints += 1,
            EventKind::Syscall { nr, entry, outcome } => {
                self.learn(outcome);
                self.traced(event.tid, *nr, entry.rip, last);
            }
            EventKind::SyscallEnter { nr, entry } => self.traced(event.tid, *nr, entry.rip, last),
            EventKind::SyscallExit { outcome, .. } => self.learn(outcome),
            EventKind::Signal(signal) => {
                let point = match signal.point {
                    SignalPoint::Fault => "fault",
                    SignalPoint::AfterEvent => "after a call or a pause",
                    SignalPoint::BeforeSyscall => "before a call",
                    SignalPoint::Anywhere => "anywhere",
                    SignalPoint::AfterHook => "after a hooked call",
                };
                *self.signals.entry(point).or_default() += 1;
            }
            EventKind::Instruction { insn, .. } => {
                *self.instructions.entry(insn.name()).or_default() += 1;
            }
            EventKind::TaskExit { .. } => self.ends += 1,
            EventKind::Token { acquired, .. } => self.tokens += u64::from(!acquired.is_empty()),
            EventKind::Pause(pause) => match pause.place {
                PausePlace::State => self.pauses_by_state += 1,
                PausePlace::Count(_) => self.pauses_by_count += 1,
            },
            EventKind::Hooked { log, .. } => {
                self.logs += 1;
                last.left.remove(&event.tid);
                for entry in entries(log) {
                    if entry.left {
                        last.left.insert(event.tid, entry.nr);
                    } else {
                        self.calls.entry(entry.nr.into()).or_default().hooked += 1;
                        last.left.remove(&event.tid);
                    }
                }
            }
            EventKind::End => {}
        }
    }

    fn traced(&mut self, tid: Tid, nr: u64, rip: u64, last: &mut Last) {
        let in_trampoline = self.arenas.iter().any(|start| (*start..start + ARENA_LEN).contains(&rip));
        let was_left = last.left.remove(&tid).is_some_and(|left| u64::from(left) == nr);
        let calls = self.calls.entry(nr).or_default();
        let count = match () {
            () if was_left => &mut calls.left,
            () if self.arenas.is_empty() || row(nr).and_then(hook).is_none() => &mut calls.unhooked,
            () if in_trampoline => &mut calls.declined,
            () => &mut calls.unpatched,
        };
        *count += 1;
    }

    /// Pauses whose place is known by a count, and by the task's state.
    pub fn pauses(&self) -> (u64, u64) {
        (self.pauses_by_count, self.pauses_by_state)
    }

    pub fn hooked(&self) -> u64 {
        self.calls.values().map(|calls| calls.hooked).sum()
    }

    pub fn traced_calls(&self) -> u64 {
        self.calls.values().map(|calls| calls.traced()).sum()
    }

    /// The calls, those that stopped most often first.
    fn sorted(&self) -> Vec<(String, Calls)> {
        // The hooks log instructions beside calls.
        let instruction = |nr: u64| u16::try_from(nr).ok().and_then(instruction_name);
        let name = |nr: u64| {
            let known = bis_syscalls::name(nr).or_else(|| instruction(nr));
            known.map_or_else(|| nr.to_string(), str::to_owned)
        };
        let mut calls: Vec<(String, Calls)> =
            self.calls.iter().map(|(nr, calls)| (name(*nr), *calls)).collect();
        calls.sort_by(|(a, x), (b, y)| (y.traced(), y.hooked, a).cmp(&(x.traced(), x.hooked, b)));
        calls
    }

    pub fn write(&self, out: &mut impl Write) -> Result<()> {
        let mut causes = Table::new(["STOPPED BY", "TIMES"], &[1]);
        let mut cause = |name: String, times: u64| {
            if times > 0 {
                causes.push([name, human::count(times)]);
            }
        };
        let sum = |part: fn(&Calls) -> u64| self.calls.values().map(part).sum();
        cause("call without a hook".into(), sum(|calls| calls.unhooked));
        cause("call that its hook left (it would wait)".into(), sum(|calls| calls.left));
        cause("call that its hook declined".into(), sum(|calls| calls.declined));
        cause("call by an instruction that is not patched".into(), sum(|calls| calls.unpatched));
        for (point, times) in &self.signals {
            cause(format!("signal, {point}"), *times);
        }
        for (name, times) in &self.instructions {
            cause(format!("instruction {name}"), *times);
        }
        cause("pause".into(), self.pauses_by_count + self.pauses_by_state);
        cause("end of a hook".into(), self.safepoints);
        cause("token taken".into(), self.tokens);
        cause("end of a task".into(), self.ends);
        causes.write(out)?;
        writeln!(
            out,
            "\n{} without a stop, in {}; the running task changed {} times\n",
            human::counted(self.hooked(), "hooked call"),
            human::counted(self.logs, "log"),
            human::count(self.switches)
        )?;
        let head = ["CALL", "TRACED", "NO HOOK", "LEFT", "DECLINED", "NOT PATCHED", "HOOKED"];
        let mut table = Table::new(head, &[1, 2, 3, 4, 5, 6]);
        for (name, calls) in self.sorted() {
            let Calls { hooked, unhooked, left, declined, unpatched } = calls;
            let [traced, unhooked, left, declined, unpatched, hooked] =
                [calls.traced(), unhooked, left, declined, unpatched, hooked].map(human::count);
            table.push([name, traced, unhooked, left, declined, unpatched, hooked]);
        }
        Ok(table.write(out)?)
    }

    pub fn json(&self) -> Value {
        let call = |(name, calls): (String, Calls)| {
            json!({
                "name": name,
                "traced": calls.traced(),
                "no_hook": calls.unhooked,
                "left": calls.left,
                "declined": calls.declined,
                "not_patched": calls.unpatched,
                "hooked": calls.hooked,
            })
        };
        json!({
            "calls": self.sorted().into_iter().map(call).collect::<Value>(),
            "signals": self.signals,
            "instructions": self.instructions,
            "pauses": self.pauses_by_count + self.pauses_by_state,
            "pauses_by_state": self.pauses_by_state,
            "hook_ends": self.safepoints,
            "tokens": self.tokens,
            "task_ends": self.ends,
            "switches": self.switches,
            "hooked_logs": self.logs,
        })
    }
}

#[cfg(test)]
mod tests {
    use bis_trace::{
        event::{Lapse, Pause},
        types::{EventSeq, Registers},
    };

    use super::*;

    fn event(kind: EventKind) -> Event {
        Event { seq: EventSeq(1), tid: Tid(7), kind, ticks: None, sums: Vec::new(), lapse: Lapse::default() }
    }

    fn call(stops: &mut Stops, last: &mut Last, nr: u64, rip: u64) {
        let entry = Registers { rip, ..Registers::default() };
        stops.count(&event(EventKind::Syscall { nr, entry, outcome: Box::default() }), last);
    }

    #[test]
    fn each_call_has_its_reason() {
        let (mut stops, mut last) = (Stops::default(), Last::default());
        stops.arenas.insert(0x10_0000);
        let mut log = Vec::new();
        for (nr, left) in [(39u32, 0u32), (0, 1)] {
            let eights = 2;
            log.extend((nr | left << 9 | eights << 12).to_le_bytes());
            log.extend([0; 12]);
        }
        let kind = EventKind::Hooked { alone: false, log: log.into() };
        stops.count(&event(kind), &mut last);
        call(&mut stops, &mut last, 0, 0x10_0010); // left by its hook
        call(&mut stops, &mut last, 0, 0x10_0010); // declined
        call(&mut stops, &mut last, 0, 0x5000); // elsewhere
        call(&mut stops, &mut last, 57, 0x5000); // fork
        let read = stops.calls[&0];
        assert_eq!((read.left, read.declined, read.unpatched, read.unhooked, read.hooked), (1, 1, 1, 0, 0));
        assert_eq!((stops.calls[&57].unhooked, stops.calls[&39].hooked), (1, 1));
        assert_eq!((stops.hooked(), stops.traced_calls()), (1, 4));
    }

    #[test]
    fn pauses_are_known_by_a_count_or_by_a_state() {
        let (mut stops, mut last) = (Stops::default(), Last::default());
        for place in [PausePlace::State, PausePlace::Count(5), PausePlace::State] {
            let (regs, extended) = (Registers::default(), Default::default());
            let (held, seen, span) = (Vec::new(), Vec::new(), Vec::new());
            let kind = EventKind::Pause(Box::new(Pause { place, regs, extended, held, seen, span, trap: 0 }));
            stops.count(&event(kind), &mut last);
        }
        assert_eq!(stops.pauses(), (1, 2));
    }
}
