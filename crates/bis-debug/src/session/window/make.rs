//! How a window is made: a replica goes step by step from a copy on its way to a position, and each step is
//! remembered.

use super::{
    super::{
        Session, Trouble, climb::Climb, history::Mark, live::Live, passed::Passed, place::Position,
        rung::Rung,
    },
    one_step::Stepped,
    steps::{Name, Part, Window},
};

/// A window with fewer steps is begun as early as the copy before, if that is no more steps in front of the
/// end.
const LONG_ENOUGH: usize = 100;
const NEAR_ENOUGH: usize = 200;

impl<'t> Session<'t> {
    /// The instructions in front of a position, whose name is exact. There are none in it where it begins
    /// behind an event, and only others come then.
    pub(super) fn make_window(&mut self, end: &Position) -> Result<Option<Window<'t>>, Trouble> {
        self.windows(end, |window| {
            window.steps.first().is_some_and(|first| first.name == Name::Event)
                || window.steps.iter().any(|step| step.part != Part::None)
        })
    }

    /// The instructions in front of a position, at least so many.
    pub(super) fn make_window_of(&mut self, end: &Position, n: u64) -> Result<Option<Window<'t>>, Trouble> {
        self.windows(end, |window| window.steps.len() as u64 >= n)
    }

    /// A window that is enough.
    fn windows(
        &mut self,
        own_end: &Position,
        is_enough: impl Fn(&Window<'t>) -> bool,
    ) -> Result<Option<Window<'t>>, Trouble> {
        let mut goal = own_end.clone();
        let mut tried: Option<Mark<'t>> = None;
        while let Some(mut climb) = self.climb(&goal, tried.as_ref())? {
            if goal != *own_end {
                climb.go_on_to(own_end);
            }
            let mut is_in_front = false;
            // From the last copy that is in front of the place, step by step.
            while let Some(rung) = climb.rungs.pop() {
                let is_behind_event = rung.is_behind_event(own_end);
                let window = match climb.steps.take() {
                    Some(steps) => steps.begin_at(rung.copy, rung.image),
                    None => self.window_from(rung, &climb, own_end)?,
                };
                tracing::debug!(steps = window.len(), end = %window.end, "a window");
                if !is_enough(&window) {
                    climb.steps_before = 0;
                    // All that is behind the last event is the rest of an instruction that began before.
                    is_in_front = is_behind_event && goal == *own_end;
                    if is_in_front {
                        break;
                    }
                    continue;
                }
                // A user who has gone one step back goes others; each window takes time.
                let longer = self.longer(&mut climb, &window, own_end)?;
                let is_longer = |longer: &Window<'t>| longer.len() > window.len() && is_enough(longer);
                climb.keep_in(&mut self.passed);
                if !self.history.count_also(self.passed.pids()) {
                    self.passed = Passed::default();
                }
                return Ok(Some(longer.filter(is_longer).unwrap_or(window)));
            }
            if is_in_front {
                // The way to the event is climbed anew: what led to the place was to be near that.
                goal = Position::at(own_end.event);
            } else {
                // The mark may be at the very place, by another name, or within the same instruction.
                tried = Some(climb.from);
            }
        }
        Ok(None)
    }

    /// One that begins some more rounds before this one, or at the copy before, if that is near.
    fn longer(
        &mut self,
        climb: &mut Climb<'t>,
        window: &Window<'t>,
        own_end: &Position,
    ) -> Result<Option<Window<'t>>, Trouble> {
        let Some(mut before) = climb.rungs.pop() else { return Ok(None) };
        match self.farther(&mut before, &climb.end, &window.addresses())? {
            Some(farther) => self.window_from(farther, climb, own_end).map(Some),
            None if window.len() < LONG_ENOUGH && climb.steps_before < NEAR_ENOUGH => {
                self.near_window_from(before, climb, own_end)
            }
            None => Ok(None),
        }
    }

    /// What lies between a rung and a position.
    fn window_from(
        &mut self,
        Rung { mut copy, done, image }: Rung<'t>,
        climb: &Climb<'t>,
        own_end: &Position,
    ) -> Result<Window<'t>, Trouble> {
        let (replica, company) = copy.resume()?;
        let mut live = Live::new(replica, company, image);
        let mut goal = climb.goal(done);
        let mut window = Window::new(climb.from.clone(), own_end.clone()).begin_at(copy, image);
        // The copy may have been made while the program counted, in the middle of that.
        live.replica.end_counts()?;
        live.have_points(goal.position, None)?;
        while self.one_step_to(&mut live, &mut goal, &mut window)? != Stepped::There {}
        Ok(window)
    }

    /// The window from a rung, if that is near.
    fn near_window_from(
        &mut self,
        mut rung: Rung<'t>,
        climb: &Climb<'t>,
        own_end: &Position,
    ) -> Result<Option<Window<'t>>, Trouble> {
        let (mut live, _) = rung.resume_without_counts(&climb.end)?;
        let mut goal = climb.goal(rung.done);
        goal.ask_anew();
        live.have_points(goal.position, None)?;
        let mut window = Window::new(climb.from.clone(), own_end.clone());
        for _ in 0..NEAR_ENOUGH {
            if self.one_step_to(&mut live, &mut goal, &mut window)? == Stepped::There {
                return Ok(Some(window.begin_at(rung.copy, rung.image)));
            }
        }
        Ok(None)
    }
}
