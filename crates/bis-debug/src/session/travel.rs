//! Going to any position: its exact name is found first.

use super::{Session, Trouble, live::Live, place::Position};

impl<'t> Session<'t> {
    /// A replica that stands at this position. What the program writes on the way is not heard.
    pub(super) fn travel(&mut self, position: &Position) -> Result<Live<'t>, Trouble> {
        let position = self.exact(position)?;
        self.travel_exactly(&position)
    }
}
