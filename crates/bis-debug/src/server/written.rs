//! What the program wrote, for people who have a line of output and look for its moment. The answer is a
//! replay of the whole recording beside the session, which does not move.

use std::{
    collections::VecDeque,
    fmt::Write as _,
    sync::{Arc, Mutex, PoisonError},
};

use bis_replay::{
    Options,
    output::{Line, lines},
};
use bis_trace::Ending;

use super::served::Served;

/// How many lines are shown: the last ones.
const SHOWN_MAX: usize = 50;

/// How much of a line is shown, bytes.
const WIDTH_MAX: usize = 200;

/// The lines that have a text, as far as they are shown.
#[derive(Default)]
struct Found {
    lines: VecDeque<Line>,
    count: usize,
}

impl Found {
    fn take(&mut self, line: Line, text: &[u8]) {
        if line.find(text).is_none() {
            return;
        }
        self.count += 1;
        self.lines.push_back(line);
        if self.lines.len() > SHOWN_MAX {
            self.lines.pop_front();
        }
    }
}

impl Served<'_> {
    /// The lines with this text that the program wrote, the last fifty of them, with events and processes.
    pub(super) fn written(&self, text: &[u8]) -> String {
        let world = self.session.world();
        let found = Arc::new(Mutex::new(Found::default()));
        let (taken, sought) = (found.clone(), text.to_vec());
        let each = move |line| taken.lock().unwrap_or_else(PoisonError::into_inner).take(line, &sought);
        let replayed = lines(world.trace(), &Options::default(), each);
        let mut answer = String::new();
        let Found { lines, count } = &*found.lock().unwrap_or_else(PoisonError::into_inner);
        if *count > 0 {
            let _ = writeln!(answer, "{:>8} {:>8}  LINE", "EVENT", "PROCESS");
        } else {
            answer.push_str("The program wrote no such line.\n");
        }
        if let before @ 1.. = count - lines.len() {
            let _ = writeln!(answer, "({before} more before these)");
        }
        for line in lines {
            let writer = line.writer(line.find(text).unwrap_or(0));
            let pid = world.entry(writer.domain).map_or(0, |entry| entry.pid.0);
            let shown = &line.text[..line.text.len().min(WIDTH_MAX)];
            let shown = String::from_utf8_lossy(shown).replace(|c: char| c.is_control(), "?");
            let _ = writeln!(answer, "{:>8} {pid:>8}  {shown}", writer.event.0);
        }
        match replayed {
            Ok(summary) => {
                let _ = match (summary.incomplete, world.trace().ended()) {
                    (None, _) => Ok(()),
                    (Some(_), Ending::Recording) => writeln!(answer, "The recording still goes on."),
                    (Some(why), _) => writeln!(answer, "The recording was cut short: {why}"),
                };
            }
            Err(error) => {
                let _ = writeln!(answer, "The replay went no further: {error}");
            }
        }
        answer
    }
}
