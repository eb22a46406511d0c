//! The source in software: the counts of a dense text (`bis-rewrite`), which take down one word of the
//! address space and trap when it is used up. Nothing interrupts late: a task that is to stop at a count
//! traps right behind it, so there is no skid and nothing to search.
//!
//! As long as no stop is asked for, the word says how many counts were made in this address space, from the
//! day on that it had [`Software::FULL`]; so whoever looks at it can count, with nothing else to know. For a
//! stop it is set to the counts that are left until then, and once that has come, or is not wanted any more,
//! to what it would be without. What a count leaves in the flags does not depend on the word
//! (`bis_rewrite::count_word`): a program that was stopped so cannot be told from one that was not.
//!
//! What a trap means to the program (where it goes on, which registers are its own) is not known here, but to
//! the recorder, who has put the text there, and from the event to the replayer.

use std::sync::Arc;

use bis_agent::hooks::COUNTDOWN;
use bis_rewrite::{COUNTS_MAX, count_word, counts_left};
use bis_trace::types::{Addr, Signal};

use super::{Stop, TickSource};
use crate::{
    area::Area,
    error::Result,
    memory::Memory,
    siginfo::SigInfo,
    task::{Resume, Status, Stopped},
};

/// How the word is reached.
#[derive(Debug)]
enum Word {
    /// By the hooks' area, which the supervisor maps too.
    Mapped(Arc<Area>),
    /// By a system call for each look; what it said last, as long as nobody has run since.
    Remote(Option<i64>),
}

/// The word was set for a stop.
#[derive(Clone, Copy, Debug)]
struct Asked {
    /// The counts that had been made, and that were left.
    made: u64,
    left: u64,
}

/// Counts for the tasks of one address space, of which one runs at a time.
#[derive(Debug)]
pub struct Software {
    word: Word,
    /// The counts that had been made when counting began.
    base: u64,
    asked: Option<Asked>,
}

impl Software {
    /// The word in an address space that has made no count.
    pub const FULL: u64 = count_word(COUNTS_MAX);

    /// For tasks whose hooks have this area. They have made no count.
    pub fn mapped(area: Arc<Area>) -> Software {
        area.set_countdown(Software::FULL);
        Software { word: Word::Mapped(area), base: 0, asked: None }
    }

    /// For tasks in whose memory the word is, if their text counts. Without one, they have no counts.
    pub(super) fn remote() -> Software {
        Software { word: Word::Remote(None), base: 0, asked: None }
    }

    /// The counts that are left; -1 after a trap.
    fn left(&mut self, memory: &Memory) -> i64 {
        match &mut self.word {
            Word::Mapped(area) => counts_left(area.countdown()),
            Word::Remote(seen) => {
                let look = || memory.read_u64(Addr(COUNTDOWN)).map_or(COUNTS_MAX.cast_signed(), counts_left);
                *seen.get_or_insert_with(look)
            }
        }
    }

    fn set(&mut self, memory: &Memory, left: u64) -> Result<()> {
        let word = count_word(left.min(COUNTS_MAX));
        match &mut self.word {
            Word::Mapped(area) => area.set_countdown(word),
            Word::Remote(seen) => {
                memory.write(Addr(COUNTDOWN), &word.to_le_bytes())?;
                *seen = Some(counts_left(word));
            }
        }
        Ok(())
    }

    /// Somebody may have run since the last look.
    fn look_again(&mut self) {
        if let Word::Remote(seen) = &mut self.word {
            *seen = None;
        }
    }

    /// All counts so far.
    fn made(&mut self, memory: &Memory) -> u64 {
        let left = self.left(memory).cast_unsigned();
        match self.asked {
            None => COUNTS_MAX.wrapping_sub(left),
            Some(asked) => asked.made.wrapping_add(asked.left).wrapping_sub(left),
        }
    }

    /// The word is what it would be if no stop had been asked for.
    fn forget_stop(&mut self, memory: &Memory) -> Result<()> {
        if self.asked.is_none() {
            return Ok(());
        }
        let made = self.made(memory);
        self.asked = None;
        self.set(memory, COUNTS_MAX.saturating_sub(made))
    }
}

impl TickSource for Software {
    fn skid(&self) -> u64 {
        0
    }

    fn begin(&mut self, memory: &Memory) -> Result<()> {
        self.look_again();
        self.forget_stop(memory)?;
        self.base = self.made(memory);
        Ok(())
    }

    fn count(&mut self, memory: &Memory) -> Result<u64> {
        Ok(self.made(memory).wrapping_sub(self.base))
    }

    fn stop_at(&mut self, _stopped: &Stopped, memory: &Memory, count: Option<u64>) -> Result<()> {
        let Some(count) = count else { return self.forget_stop(memory) };
        let made = self.made(memory);
        // It traps at the count behind those that are left.
        let more = count.saturating_sub(made.wrapping_sub(self.base));
        let left = more.saturating_sub(1).min(COUNTS_MAX.saturating_sub(made));
        self.asked = Some(Asked { made, left });
        self.set(memory, left)
    }

    /// Only behind a count does a place have a number.
    fn stop_soon(&mut self, stopped: &Stopped, memory: &Memory) -> Result<Option<u64>> {
        let next = self.count(memory)? + 1;
        self.stop_at(stopped, memory, Some(next))?;
        Ok(Some(next))
    }

    fn duplicate(&self) -> Option<Box<dyn TickSource>> {
        // The word of a copy is in the copy's memory.
        let Word::Remote(_) = self.word else { return None };
        Some(Box::new(Software { word: Word::Remote(None), base: self.base, asked: self.asked }))
    }

    fn resume(&mut self, _stopped: &Stopped, _memory: &Memory) -> Result<Resume> {
        self.look_again();
        Ok(Resume::Cont)
    }

    fn stopped(&mut self, stopped: &mut Stopped, memory: &Memory, status: Status) -> Result<Stop> {
        if self.asked.is_none() || status != Status::Signal(Signal::TRAP) || self.left(memory) >= 0 {
            return Ok(Stop::Foreign);
        }
        if !SigInfo(stopped.siginfo()?).is_breakpoint() {
            return Ok(Stop::Foreign);
        }
        self.forget_stop(memory)?;
        Ok(Stop::Tick)
    }
}

#[cfg(test)]
mod tests {
    use bis_trace::types::Registers;

    use super::*;
    use crate::{image, remote::Remote, sys, task};

    const CODE: u64 = 0x10_0000;
    const ROUNDS: u32 = 1000;
    const UNIT: u32 = (count_word(1) - count_word(0)) as u32;

    /// mov ecx, ROUNDS; again: sub qword [COUNTDOWN], UNIT; jns on; int3; on: dec ecx; jnz again; ud2
    fn code() -> Vec<u8> {
        let mut code = [&[0xb9][..], &ROUNDS.to_le_bytes(), &[0x48, 0x81, 0x2c, 0x25]].concat();
        code.extend(u32::try_from(COUNTDOWN).unwrap().to_le_bytes());
        code.extend(UNIT.to_le_bytes());
        code.extend([0x79, 1, 0xcc, 0xff, 0xc9, 0x75]);
        let back = 5 - (code.len() as i64 + 1);
        code.extend([back.to_le_bytes()[0], 0x0f, 0x0b]);
        code
    }

    /// A process that executes [`code`].
    struct Guest {
        slot: Option<Stopped>,
        memory: Memory,
    }

    impl Guest {
        fn new() -> Guest {
            let (mut slot, memory) = image::spawn_stub("bis-count").unwrap();
            let mut remote = Remote::new(&mut slot).unwrap();
            let (prot, flags) = (7, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED);
            for page in [CODE, COUNTDOWN & !0xfff] {
                let args = [page, 0x1000, prot, u64::from(flags.cast_unsigned()), u64::MAX, 0];
                remote.must("map a page", libc::SYS_mmap, args).unwrap();
            }
            remote.finish().unwrap();
            memory.write(Addr(CODE), &code()).unwrap();
            memory.write(Addr(COUNTDOWN), &Software::FULL.to_le_bytes()).unwrap();
            let regs = slot.as_ref().unwrap().regs().unwrap();
            let regs = Registers { rip: CODE, orig_rax: u64::MAX, ..regs };
            slot.as_mut().unwrap().set_regs(&regs).unwrap();
            Guest { slot, memory }
        }

        /// Runs until the source says that it was no matter of its own alone.
        fn run(&mut self, source: &mut Software) -> Stop {
            let stopped = self.slot.take().unwrap();
            let how = source.resume(&stopped, &self.memory).unwrap();
            let tid = stopped.tid();
            let running = stopped.resume(how, None).unwrap();
            let status = task::wait_for(tid).unwrap();
            let stopped = self.slot.insert(running.stopped());
            source.stopped(stopped, &self.memory, status).unwrap()
        }

        fn stopped(&self) -> &Stopped {
            self.slot.as_ref().unwrap()
        }
    }

    impl Drop for Guest {
        fn drop(&mut self) {
            if let Some(stopped) = self.slot.take() {
                let tid = stopped.tid();
                let _ = sys::tgkill(tid, tid, Signal::KILL);
                while let Ok(status) = task::wait_for(tid) {
                    if matches!(status, Status::Exited(_) | Status::Killed(_)) {
                        break;
                    }
                    drop(Stopped::adopt(tid).resume(Resume::Cont, None));
                }
            }
        }
    }

    /// It stops at each number that it is asked for and nowhere else, and what it counts does not depend on
    /// that.
    #[test]
    fn it_stops_at_the_count_itself() {
        let mut guest = Guest::new();
        let mut source = Software::remote();
        source.begin(&guest.memory).unwrap();
        for wanted in [1, 2, 3, 500] {
            source.stop_at(guest.slot.as_ref().unwrap(), &guest.memory, Some(wanted)).unwrap();
            assert_eq!(guest.run(&mut source), Stop::Tick);
            assert_eq!(source.count(&guest.memory).unwrap(), wanted);
            // The count was made before it trapped, its round not ended.
            let rounds = u64::from(ROUNDS) - guest.stopped().regs().unwrap().rcx;
            assert_eq!(rounds, wanted - 1);
        }
        assert_eq!(guest.run(&mut source), Stop::Foreign);
        assert_eq!(source.count(&guest.memory).unwrap(), u64::from(ROUNDS));
    }

    #[test]
    fn it_stops_soon_and_begins_anew() {
        let mut guest = Guest::new();
        let mut source = Software::remote();
        source.begin(&guest.memory).unwrap();
        source.stop_at(guest.slot.as_ref().unwrap(), &guest.memory, Some(100)).unwrap();
        assert_eq!(guest.run(&mut source), Stop::Tick);
        let next = source.stop_soon(guest.slot.as_ref().unwrap(), &guest.memory).unwrap();
        assert_eq!(next, Some(101));
        assert_eq!(guest.run(&mut source), Stop::Tick);
        source.begin(&guest.memory).unwrap();
        assert_eq!(source.count(&guest.memory).unwrap(), 0);
        // A stop that is not wanted any more does not come, nor one that counting has begun anew behind.
        source.stop_at(guest.slot.as_ref().unwrap(), &guest.memory, Some(10)).unwrap();
        source.stop_at(guest.slot.as_ref().unwrap(), &guest.memory, None).unwrap();
        source.stop_at(guest.slot.as_ref().unwrap(), &guest.memory, Some(20)).unwrap();
        source.begin(&guest.memory).unwrap();
        assert_eq!(guest.run(&mut source), Stop::Foreign);
        assert_eq!(source.count(&guest.memory).unwrap(), u64::from(ROUNDS) - 101);
        // Another source of the same address space sees all counts.
        let memory = &guest.memory;
        assert_eq!(Software::remote().count(memory).unwrap(), u64::from(ROUNDS));
    }

    /// In an address space without the word there are no counts.
    #[test]
    fn without_a_word_there_are_no_counts() {
        let guest = Guest::new();
        let mut slot = guest.slot.as_ref().map(|stopped| Stopped::adopt(stopped.tid()));
        let mut remote = Remote::new(&mut slot).unwrap();
        let args = [COUNTDOWN & !0xfff, 0x1000, 0, 0, 0, 0];
        remote.must("unmap a page", libc::SYS_munmap, args).unwrap();
        remote.finish().unwrap();
        let mut source = Software::remote();
        source.begin(&guest.memory).unwrap();
        assert_eq!(source.count(&guest.memory).unwrap(), 0);
        assert!(source.stop_soon(guest.stopped(), &guest.memory).is_err());
    }
}
