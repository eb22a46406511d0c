//! Several calls in a task's name that are made with one stop: the agent goes through a list of them.

use bis_agent::{
    ARGUMENT_AT, SERIES, SERIES_LIST, SERIES_MAKES, SERIES_OUT, SERIES_TAKES_FIFTH, SERIES_TAKES_FIRST,
};
use bis_trace::types::{Addr, Fd, Registers};

use super::{Remote, Way};
use crate::{error::Result, memory::Memory};

/// A call of a series, and what it must return for the next one to be made.
#[derive(Clone, Copy, Debug)]
pub struct Planned {
    pub nr: i64,
    /// The first and the fifth may be [`MADE`].
    pub args: [u64; 6],
    pub returns: Returns,
}

/// What a call of a series must return.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Returns {
    This(u64),
    /// A descriptor, whichever: the calls behind may have it as an argument ([`MADE`]).
    Descriptor,
}

/// As an argument of a call of a series: the descriptor that a call before has made.
pub const MADE: u64 = 1 << 63;

impl Planned {
    /// Its entry in the list of a series.
    fn to_words(self) -> [u64; 8] {
        let Planned { nr, args, returns } = self;
        assert!([1, 2, 3, 5].iter().all(|at| args[*at] != MADE), "only the first and the fifth can be one");
        let mut number = nr.cast_unsigned();
        for (argument, bit) in [(0, SERIES_TAKES_FIRST), (4, SERIES_TAKES_FIFTH)] {
            number |= if args[argument] == MADE { bit } else { 0 };
        }
        let returns = match returns {
            Returns::This(word) => word,
            Returns::Descriptor => {
                number |= SERIES_MAKES;
                0
            }
        };
        let [a, b, c, d, e, f] = args;
        [number, a, b, c, d, e, f, returns]
    }
}

/// How far a series came.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Series {
    /// How many of its calls have returned what they must.
    pub made: usize,
    /// What the last one has returned.
    pub result: i64,
    /// The last descriptor that was made, if one was.
    pub descriptor: Option<Fd>,
}

/// Bytes of an entry in the list of a series; how many have room.
const SERIES_ENTRY: usize = 64;
const SERIES_MAX: usize = (ARGUMENT_AT - SERIES_LIST) as usize / SERIES_ENTRY;

impl Remote<'_> {
    /// Makes these calls, one after the other, in one go: until one does not return what it must. How many
    /// have, and what the last one has returned. `memory` is the task's.
    ///
    /// # Errors
    /// As [`Remote::call`], and where its memory cannot be written.
    pub fn series(&mut self, memory: &Memory, calls: &[Planned]) -> Result<Series> {
        let mut so_far = Series::default();
        for part in calls.chunks(SERIES_MAX) {
            let of_part = self.part_of_series(memory, part, so_far.descriptor)?;
            so_far = Series { made: so_far.made + of_part.made, ..of_part };
            if of_part.made < part.len() {
                break;
            }
        }
        Ok(so_far)
    }

    /// As [`Remote::series`], for calls that must not fail.
    ///
    /// # Errors
    /// As [`Remote::must`].
    pub fn must_all(&mut self, what: &'static str, memory: &Memory, calls: &[Planned]) -> Result<()> {
        let Series { made, result, .. } = self.series(memory, calls)?;
        if made == calls.len() { Ok(()) } else { Err(self.refused(what, result)) }
    }

    fn part_of_series(
        &mut self,
        memory: &Memory,
        calls: &[Planned],
        descriptor: Option<Fd>,
    ) -> Result<Series> {
        if self.way == Way::InRow {
            // The call at whose entry it stands is skipped, by its registers.
            self.way = Way::Row;
        }
        let list: Vec<u8> =
            calls.iter().flat_map(|call| call.to_words()).flat_map(u64::to_le_bytes).collect();
        memory.write(Addr(SERIES_LIST), &list)?;
        let (rbx, r12) = (SERIES_LIST, SERIES_LIST + list.len() as u64);
        let r13 = descriptor.map_or(u64::MAX, Fd::arg);
        let regs = Registers { rip: SERIES, orig_rax: u64::MAX, rbx, r12, r13, ..self.saved }.wide();
        let regs = self.run_to_int3(&regs, Addr(SERIES_OUT))?;
        let made = usize::try_from(regs.rbx.saturating_sub(SERIES_LIST)).unwrap_or(0) / SERIES_ENTRY;
        let is_made = calls.iter().take(made).any(|call| call.returns == Returns::Descriptor);
        let descriptor = if is_made { Some(Fd::of_arg(regs.r13)) } else { descriptor };
        Ok(Series { made, result: regs.result(), descriptor })
    }
}
