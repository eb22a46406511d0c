//! The calls that the table of all calls leaves to the recorder. What is done at their entry and at their
//! exit are columns of `table.rs`; the functions in them are here by family.

pub mod args;
mod cloned;
mod compilers;
mod desktop;
mod entry;
mod failed;
pub mod finish;
pub mod fork;
mod identity;
pub mod left_out;
mod letters;
mod limits;
mod mapped;
mod memory;
mod narrow;
mod nested;
mod not_made;
mod objects;
mod ours;
mod output;
mod outside;
mod remote_memory;
pub mod rest;
mod results;
mod sandbox;
mod shortened;
mod shown;
mod table;
mod unheard;
mod unreadable;
mod views;
mod vsyscall;

pub use cloned::{CLONE_BYTES_MIN, Cloning};
pub use entry::{Entry, Exit, Reader};
pub use fork::Fork;
pub use narrow::{as_wide, not_made_yet};
pub use outside::{Look, Looks, is_mapped_outside};
pub use results::reads_much_of_a_file;
pub use sandbox::held::Held;
pub use shown::{ShownText, is_shown};
pub use table::steps;
pub use vsyscall::is_vsyscall;
