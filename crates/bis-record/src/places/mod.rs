//! The places at which a task that makes no call is stopped: which instruction, how replay finds it again,
//! and why the task was stopped at all.

mod ambush;
mod counts;
mod last;
mod nearby;
mod pause;
mod reasons;
pub mod rounds;
pub mod spin;
mod steps;
pub mod surroundings;
mod ticks;
mod turn;
pub mod written;

pub use steps::Step;
