//! Does a source that counts branches count right? A loop of known length is run in a process of its own,
//! under the source, as a replay runs a program: it must come to the same number each time, and be stopped at
//! numbers no later than the source says. Made for the hardware source at its start; the stepping source goes
//! through it in a test.

use bis_trace::types::{Addr, Registers, Tid};

use super::{Stop, TickSource};
use crate::{
    error::Result,
    image,
    memory::Memory,
    remote::Remote,
    task::{self, Stopped},
};

/// The branches of one loop. A thousand take a microsecond, or when they are stepped, a tenth of a second.
const BRANCHES: u64 = 1000;
const ROUNDS: usize = 6;

/// Where the loop lies, in an address space that has nothing but the agent.
const CODE: u64 = 0x10_0000;

/// mov ecx, BRANCHES; again: (lock inc [rsp-8]); dec ecx; jnz again; int3
fn code(locked: bool) -> Vec<u8> {
    let mut code = vec![0xb9];
    code.extend(u32::try_from(BRANCHES).unwrap_or(0).to_le_bytes());
    let again = code.len();
    if locked {
        code.extend([0xf0, 0x48, 0xff, 0x44, 0x24, 0xf8]);
    }
    code.extend([0xff, 0xc9]);
    let back = again as i64 - (code.len() as i64 + 2);
    code.extend([0x75, back.to_le_bytes()[0], 0xcc]);
    code
}

/// Makes a source for a task.
pub type Open<'a> = &'a mut dyn FnMut(Tid) -> Result<Box<dyn TickSource>>;

/// None of it is wrong, or what is, for people.
pub fn check(open: Open<'_>) -> Result<(), String> {
    let (mut slot, memory) = image::spawn_stub("bis-check").map_err(|error| error.to_string())?;
    let tid = slot.as_ref().map(Stopped::tid).ok_or("the process of the check is gone")?;
    let result = rounds(open, &mut slot, &memory);
    task::end(tid);
    result
}

fn rounds(open: Open<'_>, slot: &mut Option<Stopped>, memory: &Memory) -> Result<(), String> {
    let text = |error: crate::TraceeError| error.to_string();
    let tid = slot.as_ref().map(Stopped::tid).ok_or("the process of the check is gone")?;
    make_room(slot).map_err(text)?;
    let mut source = open(tid).map_err(text)?;
    for round in 0..ROUNDS {
        memory.write(Addr(CODE), &code(round % 2 == 1)).map_err(text)?;
        // Some rounds are interrupted, each somewhere else.
        let stop = (round >= 2).then_some(BRANCHES / 8 * round as u64);
        one(&mut *source, slot, memory, stop)?;
    }
    Ok(())
}

/// Maps the pages of the code and of its stack.
fn make_room(slot: &mut Option<Stopped>) -> Result<()> {
    let mut remote = Remote::new(slot)?;
    let (prot, flags) = (7, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED);
    let args = [CODE, 0x2000, prot, u64::from(flags.cast_unsigned()), u64::MAX, 0];
    remote.must("map a page", libc::SYS_mmap, args)?;
    remote.finish()
}

/// The task is to begin the code.
fn send_to_code(stopped: &mut Stopped) -> Result<()> {
    let regs = stopped.regs()?;
    stopped.set_regs(&Registers { rip: CODE, rsp: CODE + 0x2000, orig_rax: u64::MAX, ..regs })
}

/// One run of the loop.
fn one(
    source: &mut dyn TickSource,
    slot: &mut Option<Stopped>,
    memory: &Memory,
    stop: Option<u64>,
) -> Result<(), String> {
    let text = |error: crate::TraceeError| error.to_string();
    let stopped = slot.as_mut().ok_or("the process of the check is gone")?;
    send_to_code(stopped).map_err(text)?;
    source.begin(memory).map_err(text)?;
    if let Some(at) = stop {
        source.stop_at(stopped, memory, Some(at)).map_err(text)?;
    }
    let mut ticks = Vec::new();
    loop {
        let stopped = slot.take().ok_or("the process of the check is gone")?;
        let (tid, how) = (stopped.tid(), source.resume(&stopped, memory).map_err(text)?);
        let running = stopped.resume(how, None).map_err(text)?;
        let status = task::wait_for(tid).map_err(text)?;
        if matches!(status, task::Status::Exited(_) | task::Status::Killed(_) | task::Status::Exit(_)) {
            return Err("the process of the check was killed".into());
        }
        let stopped = slot.insert(running.stopped());
        match source.stopped(stopped, memory, status).map_err(text)? {
            Stop::Inside | Stop::Interrupted => {}
            Stop::Tick => ticks.push(source.count(memory).map_err(text)?),
            Stop::Foreign => break,
        }
    }
    let count = source.count(memory).map_err(text)?;
    if count != BRANCHES {
        return Err(format!("it counted {count} branches where there were {BRANCHES}"));
    }
    let skid = source.skid();
    match (stop, &ticks[..]) {
        (None, []) => Ok(()),
        (Some(at), [tick]) if (at..=at + skid).contains(tick) => Ok(()),
        // The loop may be over before.
        (Some(at), []) if at + skid >= BRANCHES => Ok(()),
        (at, ticks) => Err(format!(
            "it was asked to interrupt at {at:?}, and did at {ticks:?}, which is not within {skid}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::stepping::{SKID_MAX, Stepping},
        *,
    };

    #[test]
    fn the_stepping_source_counts_right() {
        check(&mut |_| Ok(Box::new(Stepping::default()))).unwrap();
    }

    /// A task is interrupted as it makes a step, and again before the trap of the step is told of, as it
    /// happens on a busy machine.
    #[test]
    fn the_stepping_source_counts_right_where_it_is_interrupted() {
        let (mut slot, memory) = image::spawn_stub("bis-check").unwrap();
        let tid = slot.as_ref().unwrap().tid();
        make_room(&mut slot).unwrap();
        memory.write(Addr(CODE), &code(true)).unwrap();
        let mut source = Stepping::default();
        for _ in 0..ROUNDS {
            send_to_code(slot.as_mut().unwrap()).unwrap();
            source.begin(&memory).unwrap();
            let mut was_interrupted = false;
            for made in 0_u32.. {
                let stopped = slot.take().unwrap();
                let how = source.resume(&stopped, &memory).unwrap();
                let again = was_interrupted && how == task::Resume::Cont;
                if again {
                    stopped.ask().unwrap();
                }
                let running = stopped.resume(how, None).unwrap();
                if !was_interrupted {
                    // It may or may not have made its step by then.
                    (0..made % 64 * 32).for_each(|_| std::hint::spin_loop());
                    crate::sys::interrupt(tid).unwrap();
                }
                let status = task::wait_for(tid).unwrap();
                was_interrupted = status == task::Status::Trap && !again;
                let stop = source.stopped(slot.insert(running.stopped()), &memory, status).unwrap();
                if stop == Stop::Foreign && status != task::Status::Trap {
                    break;
                }
            }
            assert_eq!(source.count(&memory).unwrap(), BRANCHES);
        }
        task::end(tid);
    }

    /// A source that is wrong by one, or too late, is found out.
    #[test]
    fn a_wrong_source_is_refused() {
        #[derive(Debug)]
        struct Wrong {
            inner: Stepping,
            more: u64,
            later: u64,
        }
        impl TickSource for Wrong {
            fn skid(&self) -> u64 {
                self.inner.skid()
            }
            fn begin(&mut self, memory: &Memory) -> Result<()> {
                self.inner.begin(memory)
            }
            fn count(&mut self, memory: &Memory) -> Result<u64> {
                Ok(self.inner.count(memory)? + self.more)
            }
            fn stop_at(&mut self, stopped: &Stopped, memory: &Memory, count: Option<u64>) -> Result<()> {
                self.inner.stop_at(stopped, memory, count.map(|count| count + self.later))
            }
            fn stop_soon(&mut self, stopped: &Stopped, memory: &Memory) -> Result<Option<u64>> {
                self.inner.stop_soon(stopped, memory)
            }
            fn duplicate(&self) -> Option<Box<dyn TickSource>> {
                None
            }

            fn resume(&mut self, stopped: &Stopped, memory: &Memory) -> Result<task::Resume> {
                self.inner.resume(stopped, memory)
            }
            fn stopped(
                &mut self,
                stopped: &mut Stopped,
                memory: &Memory,
                status: task::Status,
            ) -> Result<Stop> {
                self.inner.stopped(stopped, memory, status)
            }
        }
        let try_it = |more, later| {
            check(&mut |_| Ok(Box::new(Wrong { inner: Stepping::default(), more, later }))).unwrap_err()
        };
        assert!(try_it(1, 0).contains("1001"), "{}", try_it(1, 0));
        assert!(try_it(0, SKID_MAX + 1).contains("not within"), "{}", try_it(0, SKID_MAX + 1));
    }
}
