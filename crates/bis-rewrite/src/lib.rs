//! Rewriting of program text: which instructions can give way to a jump, and what the jump leads to.
//!
//! The problem. A `syscall` instruction has two bytes, a jump to anywhere useful has five. To put a hook
//! where a program calls the kernel (or reads the time, or asks for chance), instructions around it must move
//! elsewhere. That is right only when each of them does the same in its new place, and when nothing in the
//! program ever jumps into the middle of the bytes that the jump now takes.
//!
//! The policy: **sure or untouched**. [`Text`] reads one ELF file, and [`Text::run_at`] finds the shortest
//! *run* of whole instructions around a site, at least five bytes long, that may move ([`Run`]); whatever is
//! uncertain is refused with a [`Reason`], and the site stays as it is (slower, and right). [`trampoline`]
//! makes the new place of a run. [`SiteCache`] remembers runs on disk, by the file's identity.
//!
//! The modules, from the ground up: `image` reads the file's headers; `functions` says which bytes are one
//! function, `listing` decodes them; `targets` collects everything in the file that names an address in the
//! text, `scan` the fast half of that; `tables` judges computed jumps; `stretch` keeps what little is known
//! of text that nobody tells of. All that is one `analysis`. On it stand the questions, which [`Text`]
//! (`text`) takes: `choose` picks the run, by what is `movable`; `clock` and `chance` tell what reads the
//! time stamp counter, and what asks for chance; `dense` makes a text that counts. `trampoline` builds;
//! `span`, `conditional` and `countdown` are for looking at a program at one place for a while; `touch` says
//! which memory an instruction touches; `cache` remembers, by the name that `key` gives a file, in the form
//! that `record` fixes.
//!
//! This crate is pure: bytes in, bytes out (the cache alone touches files). It knows nothing of processes;
//! when the bytes of a run are really in memory ([`Run::matches`]), whether a task stands in the middle of
//! them, and how the patch gets there, is for others to care about.
#![forbid(unsafe_code)]

mod analysis;
mod bits;
mod cache;
mod chance;
mod choose;
mod clock;
mod conditional;
mod countdown;
mod dense;
mod folder;
mod functions;
mod go;
mod image;
mod key;
mod listing;
mod movable;
mod predicate;
mod record;
mod run;
mod scan;
mod scans;
mod span;
mod stretch;
mod tables;
mod targets;
mod text;
mod touch;
mod trampoline;

pub use cache::SiteCache;
pub use chance::{CHANCE_PREFIXES_MAX, chance_bytes, cpuid_bytes};
pub use clock::{FALLBACK, clock_bytes, moved};
pub use conditional::{Condition, Conditional, conditional};

pub use countdown::{Countdown, countdown};
pub use dense::{
    COUNTS_MAX, Coverage, Dense, DenseCache, DenseEntry, DenseLayout, DenseLock, DenseMap, DenseName,
    DenseOptions, DenseOrder, DensePlan, DenseSite, NoOrder, Place, SHORT, STATUS_FLAGS, Segment, SiteKinds,
    StoredSegment, Tally, count_word, counts_left,
};
pub use key::Key;
pub use predicate::{Predicate, Test};
pub use record::Learned;
pub use run::{Entry, Error, Operand, Reason, Run, SiteKind, clock_fault, is_chance};
pub use scans::Scan;
pub use span::Span;
pub use text::Text;
pub use touch::{Pointers, Touch, touches};
pub use trampoline::{Hook, Trampoline, trampoline};
