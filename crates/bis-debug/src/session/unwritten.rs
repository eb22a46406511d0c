//! What a called function has written to a stream of the C library, and that has not: a library keeps it
//! until its buffer is full, and the copy in which the function ran is thrown away. So when the function has
//! returned, the library is made to write all that it holds (`fflush(NULL)`). What it held before, of the
//! program itself, comes out with it and is left out: it is what the same call writes in a copy in which
//! nothing was called.

use std::{collections::BTreeSet, time::Duration};

use bis_replay::{Diversion, Going, Halt, Heard, Interrupt, Paused};
use bis_trace::types::{Addr, RED_ZONE, Registers, Tid};
use object::{Object as _, ObjectSymbol as _, ReadCache};

use super::{Session, alarm::Alarm, aside::Held, libraries::Part};
use crate::protocol::reply::Library;

/// How long the library may take.
const TIME_MAX: Duration = Duration::from_millis(200);

/// Makes the library write what it holds. `at` is an address at which nothing can be executed.
pub(super) fn flush(
    diversion: &mut Diversion<'_>,
    (tid, fflush, at): (Tid, Addr, Addr),
    (alarm, interrupt): (&Alarm, &Interrupt),
) -> Result<Held, Halt> {
    let mut held = Held::new();
    let (before, extended) = (diversion.replica().registers(tid)?, diversion.replica().extended(tid)?);
    let mut hear = |news| {
        if let Heard::Output(stream, bytes) = news {
            held.entry(stream).or_default().extend(bytes);
        }
    };
    // As after a call: what is above the return address is at a multiple of 16.
    let top = before.rsp.wrapping_sub(RED_ZONE) & !15;
    // Of a 32-bit program, the upper half of this is the argument, a null pointer.
    let rsp = top.wrapping_sub(if before.is_narrow() { 4 } else { 8 });
    diversion.write(Addr(rsp), &at.0.to_le_bytes())?;
    let replica = diversion.replica_mut();
    replica.set_points(&BTreeSet::from([at]))?;
    replica.set_watches(&[])?;
    diversion.set_registers(tid, &Registers { rip: fflush.0, rsp, rdi: 0, rax: 0, ..before }, None)?;
    alarm.set(TIME_MAX);
    let going = Going { tid, step: false, past: false, interrupt };
    let paused = diversion.run(&going, &mut hear);
    alarm.clear();
    interrupt.take();
    let paused = paused?;
    if paused != Paused::Point(at) {
        tracing::debug!(?paused, "the C library has not written all that it holds");
    }
    diversion.set_registers(tid, &before, Some(&extended))?;
    Ok(held)
}

impl Session<'_> {
    /// The C library's function that writes what its streams hold.
    pub fn set_fflush(&mut self, addr: Option<Addr>) {
        self.fflush = addr;
    }

    /// As [`Session::set_fflush`], for a client that does not say where it is: in the first library that has
    /// it, where the program stands now.
    pub(super) fn look_for_fflush(&mut self) {
        let libraries = self.libraries(Part::default(), true).unwrap_or_default().libraries;
        let found = |library: Library| {
            let cache = ReadCache::new(self.kept_file(library.path.as_bytes())?);
            let file = object::File::parse(&cache).ok()?;
            let mut symbols = file.dynamic_symbols().filter(|symbol| !symbol.is_undefined());
            let own = symbols.find(|symbol| symbol.name() == Ok("fflush"))?.address();
            Some(Addr(own.wrapping_add(library.bias)))
        };
        self.fflush = libraries.into_iter().find_map(found);
    }
}
