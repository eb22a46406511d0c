//! A walk that hangs comes to an end.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use bis_debug::session::Stopper;

/// A move that takes longer hangs.
const MOVE_LIMIT_S: u64 = 60;

/// Stops a session where a move hangs; if that does not help, ends all.
pub struct Watchdog {
    pub moves: Arc<AtomicU64>,
    pub stopper: Arc<Mutex<Option<Stopper>>>,
}

impl Watchdog {
    pub fn new(text: String) -> Watchdog {
        let moves = Arc::new(AtomicU64::new(1));
        let copy = Arc::clone(&moves);
        let stopper = Arc::new(Mutex::new(None::<Stopper>));
        let its_stopper = Arc::clone(&stopper);
        thread::spawn(move || {
            let mut seen = (0, 0);
            loop {
                thread::sleep(Duration::from_secs(1));
                let now = copy.load(Ordering::SeqCst);
                if now == 0 {
                    return;
                }
                seen = if now == seen.0 { (now, seen.1 + 1) } else { (now, 0) };
                if seen.1 == MOVE_LIMIT_S
                    && let Ok(stopper) = its_stopper.lock()
                    && let Some(stopper) = &*stopper
                {
                    stopper.ask();
                }
                if seen.1 >= 2 * MOVE_LIMIT_S {
                    eprintln!("{text}");
                    std::process::abort();
                }
            }
        });
        Watchdog { moves, stopper }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.moves.store(0, Ordering::SeqCst);
    }
}
