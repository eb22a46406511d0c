//! Programs of the recording that trace others of it (`ptrace`): strace, gdb, LeakSanitizer, crash reporters.
//!
//! A task has one tracer, and that is its supervisor. So the program's own tracers are served by us. A tracee
//! *holds* where its tracer has to hear of it: it stays in the kernel's stop that it is in, is not ready to
//! go on, and what can be asked of it lies in the session's books ([`Books`]), where the tracer's supervisor
//! finds it. What the tracer asks (`requests.rs`) and waits for (`waits.rs`) are results of its own calls,
//! and recorded as such.
//!
//! What it changes in the tracee is written down when the tracee goes on (`changes.rs`), by the tracee's own
//! supervisor and in the tracee's own stream: as an event at the place where the tracee holds. A tracee that
//! holds in the middle of computation has no such place, and needs none, where nothing is changed and nobody
//! else of its domain could run; else it gets a pause first. Until the tracee goes on, its memory is as it
//! was, and the tracer's own questions are answered with what it has put there.
//!
//! Where a tracee holds, and what its tracer hears of there, is in `hold.rs` and `told.rs`; what is told
//! behind an event in `due.rs`; how it goes on in `going.rs`. What is decided about that without looking at a
//! process is in `tells.rs`, `shown.rs`, `behind.rs` and `wait.rs`. Tracer and tracee may be in one domain
//! (LeakSanitizer's tracer shares its memory with those whom it traces); nothing here depends on that.
//!
//! What the program can tell from the real thing is in `docs/syscalls.md`.

mod behind;
mod books;
mod changes;
mod due;
mod ends;
mod going;
mod heard;
mod held;
mod hold;
mod layouts;
mod requests;
mod shown;
mod tells;
mod told;
mod wait;
mod waits;
mod wanted;
mod watched;

pub use books::Books;
pub use held::Held;
pub use tells::Asked;
pub use told::Told;
