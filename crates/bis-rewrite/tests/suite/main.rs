//! The tests of this crate, a module for each idea: one program, because each would be linked with all that
//! it uses.

mod common;

mod cache;
mod chance;
mod clock;
mod dense_cache;
mod dense_forms;
mod dense_programs;
mod dense_random;
mod dense_sound;
mod executed;
mod moved;
mod random;
mod refusals;
mod stretch;
