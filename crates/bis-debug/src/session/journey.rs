//! Going to a position that has its exact name: from the best checkpoint before it. Where that takes long,
//! the way gets marks, for the next time.

use std::time::Duration;

use super::{Session, Trouble, live::Live, place::Position, report::no_way, run::Allowance};

/// What takes longer to get to is far, and gets marks on the way.
const LONG_WAY: Duration = Duration::from_millis(800);

impl<'t> Session<'t> {
    /// A replica that stands at this position, which says how it is reached by going forward alone. What the
    /// program writes on the way is not heard.
    pub(super) fn travel_exactly(&mut self, position: &Position) -> Result<Live<'t>, Trouble> {
        // What is known of the user's own place is known of the way there.
        if self.position == *position {
            self.inner.note_place(&self.live, position);
        }
        let image = self.image_of(position.event);
        self.have_image(image)?;
        let name = self.name_of(position);
        let Some(mark) = self.history.best(image, &name) else { return Err(no_way(position)) };
        let mut live = mark.resume()?;
        self.alarm.set(LONG_WAY);
        let is_there = self.run_from(&mut live, &mark.position, &name, Allowance::UntilAlarm);
        self.alarm.clear();
        if is_there? {
            self.stopper.interrupt.take();
            return Ok(live);
        }
        // A user who goes there comes again.
        drop(live);
        for (mark, known) in self.strides(&mark, &name)? {
            self.mark_on_way(&mark, position, &known);
        }
        let name = self.name_of(position);
        let Some(mark) = self.history.best(image, &name) else { return Err(no_way(position)) };
        let mut live = mark.resume()?;
        self.run_from(&mut live, &mark.position, &name, Allowance::Endless)?;
        Ok(live)
    }
}
