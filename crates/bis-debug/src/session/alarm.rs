//! An alarm: interrupts a replica that has run for a while. One thread, which sleeps until somebody sets it;
//! for the shortest times it spins, because sleeping takes longer.

use std::{
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use bis_replay::Interrupt;

/// Shorter than this, sleeping would be late.
const SPIN_MAX: Duration = Duration::from_micros(200);

#[derive(Debug, Default)]
struct State {
    at: Option<Instant>,
    is_over: bool,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

/// See the module's text. Dropping it ends its thread.
#[derive(Debug)]
pub struct Alarm {
    shared: Arc<Shared>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Alarm {
    /// An alarm that asks this.
    ///
    /// # Errors
    /// Where there can be no more threads.
    pub fn new(interrupt: Arc<Interrupt>) -> std::io::Result<Alarm> {
        let shared = Arc::<Shared>::default();
        let copy = Arc::clone(&shared);
        let thread = thread::Builder::new().name("alarm".into()).spawn(move || wait(&copy, &interrupt))?;
        Ok(Alarm { shared, thread: Some(thread) })
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.shared.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.shared.changed.notify_one();
    }

    /// Rings after this time, once.
    pub fn set(&self, after: Duration) {
        self.change(|state| state.at = Some(Instant::now() + after));
    }

    /// Does not ring any more. It may have just rung.
    pub fn clear(&self) {
        self.change(|state| state.at = None);
    }
}

fn wait(shared: &Shared, interrupt: &Interrupt) {
    let mut state = shared.state.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        if state.is_over {
            return;
        }
        let Some(at) = state.at else {
            state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        let left = at.saturating_duration_since(Instant::now());
        if left > SPIN_MAX {
            let waited = shared.changed.wait_timeout(state, left - SPIN_MAX);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
            continue;
        }
        drop(state);
        while Instant::now() < at {
            std::hint::spin_loop();
        }
        state = shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        // It may have been set anew meanwhile.
        if state.at == Some(at) {
            state.at = None;
            interrupt.ask();
        }
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        self.change(|state| state.is_over = true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
