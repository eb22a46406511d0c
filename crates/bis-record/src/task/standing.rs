//! How a task stands between its turns: whether it may go on, and whether others may before it does.

/// A value that only the transitions here change. A task may be resumed when it is *ready*. Where it is *midway*, no
/// event describes its place: until its next event nobody else may run, or replay would order the two otherwise. That
/// stays so while it runs. A task that has stopped *in a hook* must have left it before anybody else of its domain runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Standing {
    is_ready: bool,
    is_midway: bool,
    is_in_hook: bool,
}

impl Standing {
    /// As a new task stands: it has been stopped, and its maker's event describes it.
    pub fn new() -> Standing {
        Standing { is_ready: true, is_midway: false, is_in_hook: false }
    }

    /// Stopped, and may go on in its program whenever it is its turn.
    pub fn is_ready(&self) -> bool {
        self.is_ready
    }

    pub fn is_midway(&self) -> bool {
        self.is_midway
    }

    pub fn is_in_hook(&self) -> bool {
        self.is_in_hook
    }

    /// It must go on before anybody else of its domain does, and before a token is given back.
    pub fn comes_first(&self) -> bool {
        self.is_ready && self.is_midway
    }

    /// What has stopped it is dealt with: it may go on.
    pub fn go_on(&mut self) {
        self.is_ready = true;
    }

    /// The same, from a place that no event describes.
    pub fn go_on_midway(&mut self) {
        (self.is_ready, self.is_midway) = (true, true);
    }

    /// The same, in the hook that it has stopped in.
    pub fn go_on_in_hook(&mut self) {
        self.go_on_midway();
        self.is_in_hook = true;
    }

    /// It has stopped, or ended, and that is not dealt with yet.
    pub fn stop(&mut self) {
        self.is_ready = false;
    }

    /// It has stopped with its process, inside of a hook or not.
    pub fn halt(&mut self, is_in_hook: bool) {
        self.is_in_hook = is_in_hook;
    }

    /// It is resumed. With `listens` it stays where it is, stopped with its process.
    pub fn resume(&mut self, listens: bool) {
        self.is_ready = false;
        self.is_in_hook &= listens;
    }

    /// Its place is described, by an event that is written or by a call whose entry can be written at any time.
    pub fn describe(&mut self) {
        self.is_midway = false;
    }

    /// A stop has shown whether its place is one that an event describes.
    pub fn set_midway(&mut self, is_midway: bool) {
        self.is_midway = is_midway;
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
    }
}
