//! What a task is held to by its own seccomp filters.

use bis_syscalls::sandbox::Sandbox;

/// What a task is held to.
#[derive(Clone, Debug, Default)]
pub struct Held {
    pub sandbox: Sandbox,
    /// One bit for each call that is to be judged each time.
    pub judged: [u64; 8],
}

impl Held {
    pub fn new(sandbox: Sandbox) -> Held {
        let mut judged = [0; 8];
        if sandbox.is_there() {
            for (word, first) in judged.iter_mut().zip((0..).step_by(64)) {
                let is_judged = |bit: &u64| !sandbox.always_allows(first + bit);
                *word = (0..64).filter(is_judged).fold(0, |word, bit| word | 1 << bit);
            }
        }
        Held { sandbox, judged }
    }
}
