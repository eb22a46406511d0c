//! How far something has come, shown on a terminal to whoever waits.

use std::{
    io::{self, IsTerminal},
    sync::OnceLock,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};

/// Is told how much of how much is done.
pub type Progress = Box<dyn Fn(u64, u64) + Send + Sync>;

/// Nothing is shown of what takes less.
const AFTER: Duration = Duration::from_secs(1);

/// A bar on standard error, from the second second on. None where nobody looks at it.
pub fn bar(of_what: &'static str) -> Option<Progress> {
    if !io::stderr().is_terminal() {
        return None;
    }
    let began = Instant::now();
    let shown: OnceLock<Bar> = OnceLock::new();
    Some(Box::new(move |done, of| {
        if began.elapsed() < AFTER {
            return;
        }
        let bar = &shown.get_or_init(|| Bar::new(of, of_what)).0;
        bar.set_length(of);
        bar.set_position(done);
    }))
}

/// Leaves the terminal clean, also after a failure.
struct Bar(ProgressBar);

impl Bar {
    fn new(of: u64, of_what: &str) -> Bar {
        let bar = ProgressBar::new(of);
        let style = format!("{{wide_bar}} {{human_pos}}/{{human_len}} {of_what}, {{eta}} left");
        if let Ok(style) = ProgressStyle::with_template(&style) {
            bar.set_style(style);
        }
        Bar(bar)
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
