//! Where the recorded run spent its time: a replay that is stopped a thousand times a second, and asked where
//! it is.
//!
//! The replicas are driven one process after the other. At each sample the task that computes is stopped, its
//! stack is unwound ([`stacks`]) and counts with the processor time that the task has used since its last
//! sample; what the replay itself needs is not in it. Time in the kernel is not either, because no recorded
//! call is made.

mod stacks;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use bis_replay::{Interrupt, Limit, Replica, Solo, Stop, World};
use bis_trace::{
    Trace, shown,
    types::{DomainId, EventSeq, Tid},
};
use bis_tracee::{balance, task};

use self::stacks::Stacks;
use crate::{
    options::{DebugError, Which, check_format, executable_of},
    session::alarm::Alarm,
};

/// When a task is asked next: after half a millisecond to one and a half, in steps of the golden ratio. What
/// a program does in circles would else be met in the same place again and again.
fn interval(sample: u64) -> Duration {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    const SPREAD_NS: u64 = 1_000_000;
    let part = sample.wrapping_mul(GOLDEN) >> 32;
    Duration::from_nanos(SPREAD_NS / 2 + ((part * SPREAD_NS) >> 32))
}

/// A task that has computed for less than this between two samples was hardly let run.
const COMPUTED_MIN: Duration = Duration::from_micros(100);

/// How often the interval is doubled, at most: to a fifteenth of a second.
const DOUBLED_MAX: u32 = 6;

/// How often the interval to the next sample is doubled, where the one before was doubled so often and the
/// task has used this much processor time since. On a busy machine an interval may be over before the task
/// comes to its turn: if all were as short, it would be stopped again and again, and get nowhere.
fn doubled(before: u32, took: Duration) -> u32 {
    if took < COMPUTED_MIN { DOUBLED_MAX.min(before + 1) } else { 0 }
}

/// What was found: stacks, the outermost frame first, and how long each was there, in microseconds.
#[derive(Debug, Default)]
pub struct Profile {
    pub stacks: BTreeMap<Vec<String>, u64>,
    pub samples: u64,
}

impl Profile {
    /// A line for each stack: frames with semicolons between, a space, and microseconds; as flame graphs are
    /// made of.
    pub fn folded(&self) -> Vec<String> {
        // What ends a frame or a line has to be the format's own.
        let frame = |name: &String| shown::text(name.as_bytes()).replace(';', r"\x3b");
        let line = |(stack, micros): (&Vec<String>, &u64)| {
            let frames: Vec<_> = stack.iter().map(frame).collect();
            format!("{} {micros}", frames.join(";"))
        };
        self.stacks.iter().filter(|(_, micros)| **micros > 0).map(line).collect()
    }

    fn add(&mut self, stack: Vec<String>, took: Duration) {
        self.samples += 1;
        *self.stacks.entry(stack).or_default() += u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
    }
}

/// Replays one process, or all of them, and says where they spent their time; with `from`, of one domain, and
/// only what came behind this event.
///
/// # Errors
/// Where the trace has no such process, or cannot be replayed.
pub fn profile(trace: &Trace, which: Option<&Which>, from: Option<EventSeq>) -> Result<Profile, DebugError> {
    check_format(trace)?;
    bis_replay::allow_many_files();
    let world = World::new(trace)?;
    let chosen = which.map(|which| which.entry(trace)).transpose()?;
    let is_meant = |pid: Tid, seq| chosen.is_none_or(|entry| entry.pid == pid && entry.seq <= seq);
    let mut domains: Vec<_> = world.domains().filter(|entry| is_meant(entry.pid, entry.seq)).collect();
    if let (Some(chosen), Some(_)) = (chosen, from) {
        domains.retain(|entry| entry.domain == chosen.domain);
    }
    domains.sort_by_key(|entry| entry.seq);
    let domains: Vec<DomainId> = domains.iter().map(|entry| entry.domain).collect();
    // Together with its tasks, as a session.
    balance::pin(Tid(0), bis_tracee::sys::current_core());
    let interrupt = Arc::<Interrupt>::default();
    let alarm = Alarm::new(Arc::clone(&interrupt))
        .map_err(|source| DebugError::Io { what: "start a thread", source })?;
    let mut profile = Profile::default();
    let mut stacks = Stacks::new(&world);
    for domain in domains {
        let mut host = Solo::new(&world, None);
        let mut replica = host.begin(domain)?;
        if let Some(from) = from {
            let limit = Limit { event: Some(from), ..Limit::default() };
            while replica.done().0 < from
                && !matches!(host.advance(&mut replica, &limit, &mut |_, _| {})?, Stop::End | Stop::Cut)
            {
            }
        }
        Sampled { replica, known: HashMap::new(), program: program_of(trace, &world, domain), doubled: 0 }
            .run(&mut host, (&alarm, &interrupt), &mut stacks, &mut profile)?;
    }
    Ok(profile)
}

/// The name of the program that a domain runs: the outermost frame.
fn program_of(trace: &Trace, world: &World<'_>, domain: DomainId) -> String {
    let path =
        world.domains().find(|entry| entry.domain == domain).and_then(|entry| executable_of(trace, entry));
    let path = path.map(|path| path.to_string_lossy().into_owned()).unwrap_or_default();
    path.rsplit('/').next().unwrap_or_default().to_owned()
}

/// A domain that is asked.
struct Sampled<'t> {
    replica: Replica<'t>,
    /// The processor time of each task at its last sample, by its number here.
    known: HashMap<Tid, Duration>,
    program: String,
    /// See [`doubled`].
    doubled: u32,
}

impl<'t> Sampled<'t> {
    fn run(
        mut self,
        host: &mut Solo<'t>,
        (alarm, interrupt): (&Alarm, &Interrupt),
        stacks: &mut Stacks<'_>,
        profile: &mut Profile,
    ) -> Result<(), DebugError> {
        self.replica.attend();
        loop {
            alarm.set(interval(profile.samples) * (1 << self.doubled));
            let limit = Limit { interrupt: Some(interrupt), ..Limit::default() };
            let stop = host.advance(&mut self.replica, &limit, &mut |_, _| {})?;
            alarm.clear();
            match stop {
                Stop::Interrupted => {
                    interrupt.take();
                    self.sample(stacks, profile)?;
                }
                Stop::End | Stop::Cut => return Ok(()),
                _ => {}
            }
        }
    }

    /// The task that computes, where it is. One that has not computed since the last sample was in nobody's
    /// way.
    fn sample(&mut self, stacks: &mut Stacks<'_>, profile: &mut Profile) -> Result<(), DebugError> {
        let Some((tid, ours)) = self.replica.next_task()? else { return Ok(()) };
        let now = task::cpu_time(ours).unwrap_or_default();
        let before = self.known.insert(ours, now).unwrap_or_default();
        let took = now.saturating_sub(before);
        self.doubled = doubled(self.doubled, took);
        if took.is_zero() {
            return Ok(());
        }
        let mut stack = vec![self.program.clone()];
        stack.extend(stacks.of(&self.replica, tid));
        profile.add(stack, took);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_do_not_come_in_a_row() {
        let times: Vec<u64> = (0..1000).map(|n| u64::try_from(interval(n).as_micros()).unwrap()).collect();
        assert!(times.iter().all(|micros| (500..1500).contains(micros)));
        for tenth in 0..10 {
            let from = 500 + 100 * tenth;
            let within = times.iter().filter(|micros| (from..from + 100).contains(*micros)).count();
            assert!((90..=110).contains(&within), "{within} in {from}");
        }
    }

    #[test]
    fn a_task_that_is_hardly_let_run_is_asked_less_often() {
        let (long, none) = (Duration::from_micros(900), Duration::ZERO);
        assert_eq!(doubled(0, long), 0);
        assert_eq!(doubled(0, none), 1);
        assert_eq!(doubled(DOUBLED_MAX, Duration::from_micros(20)), DOUBLED_MAX);
        assert_eq!(doubled(DOUBLED_MAX, long), 0);
    }

    #[test]
    fn folded_stacks_have_their_time_behind_them() {
        let mut profile = Profile::default();
        let stack = || vec!["program".to_owned(), "main".to_owned(), "work".to_owned()];
        profile.add(stack(), Duration::from_micros(700));
        profile.add(stack(), Duration::from_micros(400));
        assert_eq!(profile.folded(), ["program;main;work 1100"]);
        assert_eq!(profile.samples, 2);
    }

    #[test]
    fn names_do_not_break_the_lines_of_folded_stacks() {
        let mut profile = Profile::default();
        profile.add(vec!["a\nb;c".to_owned(), "main".to_owned()], Duration::from_micros(1));
        assert_eq!(profile.folded(), [r"a\nb\x3bc;main 1"]);
    }
}
