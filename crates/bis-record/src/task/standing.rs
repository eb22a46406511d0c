//! How a task stands between its turns: whether it may go on, and whether others may before it does.

/// What the events say of the place where a task is. That stays so while it runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// An event describes it.
    Told,
    /// No event does: until the task's next event nobody else may run, or replay would order the two
    /// otherwise.
    Midway,
    /// In a hook, where no event can be. The task must have left it before anybody else of its domain runs.
    InHook,
}

/// A value that only the transitions here change: a task may be resumed when it is *ready*, and its place
/// says whether it must be resumed before others.
#[derive(PartialEq, Eq, Debug)]
pub struct Standing {
    is_ready: bool,
    place: Place,
}

impl Standing {
    /// As a new task stands: it has been stopped, and its maker's event describes it.
    pub fn new() -> Standing {
        Standing { is_ready: true, place: Place::Told }
    }

    /// Stopped, and may go on in its program whenever it is its turn.
    pub fn is_ready(&self) -> bool {
        self.is_ready
    }

    /// Does no event describe its place?
    pub fn is_midway(&self) -> bool {
        self.place != Place::Told
    }

    pub fn is_in_hook(&self) -> bool {
        self.place == Place::InHook
    }

    /// It must go on before anybody else of its domain does, and before a token is given back.
    pub fn comes_first(&self) -> bool {
        self.is_ready && self.is_midway()
    }

    /// What has stopped it is dealt with: it may go on.
    pub fn go_on(&mut self) {
        self.is_ready = true;
    }

    /// It may go on, from a place that no event describes.
    pub fn go_on_midway(&mut self) {
        self.go_on();
        self.set_midway(true);
    }

    /// It may go on, in the hook that it has stopped in.
    pub fn go_on_in_hook(&mut self) {
        *self = Standing { is_ready: true, place: Place::InHook };
    }

    /// It stands in its program, at a place that no event describes, and no more in the hook where it was.
    pub fn come_out_of_hook(&mut self) {
        if self.is_in_hook() {
            self.place = Place::Midway;
        }
    }

    /// It has stopped, or ended, and that is not dealt with yet.
    pub fn stop(&mut self) {
        self.is_ready = false;
    }

    /// It has stopped with its process, inside of a hook or not.
    pub fn halt(&mut self, is_in_hook: bool) {
        match (is_in_hook, self.place) {
            (true, _) => self.place = Place::InHook,
            (false, Place::InHook) => self.place = Place::Midway,
            (false, Place::Told | Place::Midway) => {}
        }
    }

    /// It is resumed. With `listens` it stays where it is, stopped with its process.
    pub fn resume(&mut self, listens: bool) {
        self.is_ready = false;
        if self.place == Place::InHook && !listens {
            self.place = Place::Midway;
        }
    }

    /// Its place is described, by an event that is written or by a call whose entry can be written at any
    /// time.
    pub fn describe(&mut self) {
        self.set_midway(false);
    }

    /// A stop has shown whether its place is one that an event describes. A task leaves a hook by running,
    /// and not by that.
    pub fn set_midway(&mut self, is_midway: bool) {
        if self.place != Place::InHook {
            self.place = if is_midway { Place::Midway } else { Place::Told };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_that_goes_on_midway_stays_so_until_an_event_describes_it() {
        let mut standing = Standing::new();
        assert!(standing.is_ready() && !standing.is_midway());
        standing.resume(false);
        standing.stop();
        standing.go_on_midway();
        assert!(standing.comes_first());
        standing.resume(false);
        assert!(!standing.is_ready() && standing.is_midway() && !standing.comes_first());
        standing.describe();
        standing.go_on();
        assert_eq!(standing, Standing::new());
    }

    #[test]
    fn a_task_leaves_its_hook_when_it_runs_and_not_when_its_process_is_stopped() {
        let mut standing = Standing::new();
        standing.go_on_in_hook();
        assert!(standing.is_ready() && standing.is_midway() && standing.is_in_hook());
        standing.resume(true);
        assert!(!standing.is_ready() && standing.is_in_hook());
        standing.resume(false);
        assert!(!standing.is_in_hook() && standing.is_midway());
        standing.halt(true);
        assert!(standing.is_in_hook() && !standing.is_ready());
        standing.halt(false);
        assert!(!standing.is_in_hook() && standing.is_midway());
    }

    #[test]
    fn no_event_describes_a_place_in_a_hook() {
        let mut standing = Standing::new();
        standing.go_on_in_hook();
        standing.describe();
        assert!(standing.is_in_hook() && standing.comes_first());
        standing.go_on_midway();
        assert!(standing.is_in_hook());
        standing.resume(false);
        standing.describe();
        assert!(!standing.is_midway());
    }
}
