//! Handing a task from one supervisor thread to another.
//!
//! A tracer is a thread, and only the tracer itself can let a task go. In between nobody traces the task, so
//! it must do nothing: it sleeps in pause() inside the agent, with every signal blocked, so that none is
//! delivered while nobody looks (SIGKILL alone gets through, as it must).

use bis_agent::PARK;
use bis_trace::types::{Registers, Signal, Tid};

pub use crate::guardian::kill_parked;
use crate::{
    error::{Result, TraceeError},
    guardian, remote, sys,
    task::{self, Resume, Running, Status, Stopped},
};

/// A task that no thread traces. Send it to its next supervisor, who calls [`Parked::seize`]. If nobody does,
/// because something has failed before, it is killed: it would sleep for ever.
#[derive(Debug)]
pub struct Parked {
    tid: Tid,
    regs: Registers,
    sigmask: u64,
    /// Somebody has it, or it is known to be dead.
    is_settled: bool,
}

impl Drop for Parked {
    fn drop(&mut self) {
        guardian::let_go(self.tid);
        if !self.is_settled
            && let Err(error) = sys::kill(self.tid, Signal::KILL)
        {
            tracing::debug!(tid = %self.tid, %error, "a parked task is gone");
        }
    }
}

impl Parked {
    pub fn tid(&self) -> Tid {
        self.tid
    }

    /// The registers that the task will go on with.
    pub fn regs(&self) -> &Registers {
        &self.regs
    }

    /// Parks a task that is stopped outside of any system call (a new task's first stop, a call's exit).
    ///
    /// # Errors
    /// [`TraceeError::Died`] where it was killed meanwhile.
    pub fn park(mut stopped: Stopped) -> Result<Parked> {
        let regs = Registers { orig_rax: u64::MAX, ..stopped.regs()? };
        let sigmask = stopped.sigmask()?;
        stopped.set_sigmask(u64::MAX)?;
        stopped.set_regs(&Registers { rip: PARK, ..regs }.wide())?;
        let parked = Parked { tid: stopped.tid(), regs, sigmask, is_settled: false };
        guardian::guard(parked.tid);
        if remote::take_stop(parked.tid).is_some() {
            remote::stop_again(parked.tid)?;
        }
        stopped.detach()?;
        Ok(parked)
    }

    /// Leaves it to its process, which nobody has to be told of it: it ends when that ends.
    pub fn leave(mut self) {
        self.is_settled = true;
    }

    /// Takes the task over: the calling thread is its supervisor from now on, and its registers and signal
    /// mask are as they were. True beside it: its process has been stopped meanwhile (SIGSTOP), and a caller
    /// that lets it go on must ask it first ([`Stopped::ask`]).
    ///
    /// # Errors
    /// [`TraceeError::Died`] where it was killed while it was parked; its end is then reported to its parent
    /// only.
    pub fn seize(mut self) -> Result<(Stopped, bool)> {
        let seized = self.take();
        self.is_settled = matches!(seized, Ok(_) | Err(TraceeError::Died(_)));
        seized
    }

    fn take(&self) -> Result<(Stopped, bool)> {
        let tid = self.tid;
        match sys::seize(tid) {
            // What the kernel says of a task that was killed and is not reaped yet.
            Err(TraceeError::Os { .. }) if !task::is_alive(tid) => return Err(TraceeError::Died(tid)),
            seized => seized?,
        }
        sys::interrupt(tid)?;
        let mut running = Running::new(tid);
        let is_halted = loop {
            let status = task::wait_for(tid)?;
            match status {
                Status::Exited(_) | Status::Killed(_) | Status::Exit(_) => {
                    task::put_back(tid, status);
                    return Err(TraceeError::Died(tid));
                }
                Status::Trap => break false,
                Status::GroupStop(_) => break true,
                // SIGSTOP: all others are blocked. The kernel stops the process, if no SIGCONT has come
                // since.
                Status::Signal(signal) => {
                    running = running.stopped().resume(Resume::Cont, Some(signal))?;
                }
                _ => running = running.stopped().resume(Resume::Cont, None)?,
            }
        };
        let mut stopped = running.stopped();
        stopped.set_regs(&self.regs)?;
        stopped.set_sigmask(self.sigmask)?;
        Ok((stopped, is_halted))
    }
}

#[cfg(test)]
mod tests {
    use std::{
        env,
        ffi::CString,
        io::{BufRead, BufReader},
        process::{Command, Stdio},
        thread,
        time::{Duration, Instant},
    };

    use super::*;
    use crate::{
        filter::Mode,
        image,
        memory::Memory,
        spawn::{Spawn, spawn},
    };

    fn parked() -> Parked {
        let spec = Spawn::alone(CString::new("/bin/true").unwrap(), Mode::Record);
        let stopped = spawn(spec).unwrap();
        let memory = Memory::open(stopped.tid()).unwrap();
        let mut slot = Some(stopped);
        image::prepare_recorded(&mut slot, &memory).unwrap();
        Parked::park(slot.unwrap()).unwrap()
    }

    #[test]
    fn a_parked_task_sleeps_until_it_is_taken_and_is_killed_if_it_is_not() {
        let parked = parked();
        let (tid, regs) = (parked.tid(), *parked.regs());
        assert!(task::is_alive(tid));
        let (stopped, is_halted) = parked.seize().unwrap();
        assert!(!is_halted);
        assert_eq!(stopped.regs().unwrap(), regs);
        sys::kill(tid, Signal::KILL).unwrap();
        let mut status = task::wait_for(tid).unwrap();
        if matches!(status, Status::Exit(_)) {
            stopped.resume(Resume::Cont, None).unwrap();
            status = task::wait_for(tid).unwrap();
        }
        assert_eq!(status, Status::Killed(Signal::KILL));

        // Nobody takes this one.
        let other = self::parked();
        let tid = other.tid();
        drop(other);
        await_end_of(tid);
        // Nor this one, because all is over. (It kills those of other threads, too: so this is one test.)
        let last = self::parked();
        kill_parked();
        await_end_of(last.tid());
    }

    /// Nobody traces the task, and it is another thread's child.
    fn await_end_of(tid: Tid) {
        let begun = Instant::now();
        while task::is_alive(tid) {
            assert!(begun.elapsed() < Duration::from_secs(20), "the parked task {tid} is still there");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Set in the process that is killed.
    const KILLED: &str = "BIS_TEST_PARKS";

    #[test]
    fn a_parked_task_ends_when_its_recorder_is_killed() {
        if env::var_os(KILLED).is_some() {
            let parked = self::parked();
            println!("\nparked {}", parked.tid());
            loop {
                thread::park();
            }
        }
        let name = "handover::tests::a_parked_task_ends_when_its_recorder_is_killed";
        let mut recorder = Command::new(env::current_exe().unwrap());
        recorder.args(["--exact", "--nocapture", name]).env(KILLED, "1").stdout(Stdio::piped());
        let mut recorder = recorder.spawn().unwrap();
        let lines = BufReader::new(recorder.stdout.take().unwrap()).lines();
        let mut ids = lines
            .map_while(|line| line.ok()?.strip_prefix("parked ").map(str::to_owned).or(Some(String::new())));
        let tid: i32 = ids.find(|id| !id.is_empty()).unwrap().parse().unwrap();
        assert!(task::is_alive(Tid(tid)));
        recorder.kill().unwrap();
        recorder.wait().unwrap();
        await_end_of(Tid(tid));
    }
}
