//! Finding a place that only its state tells: a breakpoint where the task was, and a look at the task each time it
//! comes there.
//!
//! A stop takes microseconds, and a loop may pass the place a million times. So where the recorder found instructions
//! there that may give way to a jump, the task itself compares its registers with those that are wanted
//! ([`bis_rewrite::conditional`]), and stops only where they are the same. Elsewhere a debug register has to do.
//! Meanwhile no other task of the domain runs, so nobody sees that the text is another.

use bis_rewrite::{Condition, Conditional, Span, conditional};
use bis_trace::{
    event::Pause,
    types::{Registers, Tid},
};
use bis_tracee::{Memory, Resume, TraceeError, maps, place, remote::Remote};

use crate::task::{Breakpoint, Found, Place, Task};

const PAGE: u64 = 4096;

/// How far code may be from its span: less than a displacement of 32 bits can say.
const REACH: u64 = 0x4000_0000;

/// The flag that keeps a debug register from stopping the task where it stands (Intel SDM volume 3, 18.3.1.1).
const RESUME: u64 = 0x1_0000;

/// A breakpoint at the place that is looked for.
pub(crate) enum Seek {
    Register,
    Patched(Box<Patched>),
}

/// A breakpoint in the program's text.
pub(crate) struct Patched {
    span: Span,
    made: Conditional,
    condition: Condition,
    code: u64,
    data: u64,
}

/// What is between the mappings of the task, near `addr`: two pages.
fn room_near(tid: Tid, addr: u64) -> Result<Option<u64>, TraceeError> {
    let mappings = maps::read(tid)?;
    let is_free = |at: u64| mappings.iter().all(|m| at + 2 * PAGE <= m.start || m.end <= at);
    let ends = mappings.iter().flat_map(|m| [m.end, m.start.saturating_sub(2 * PAGE)]);
    // Not the lowest pages, which nobody may map, and not a stack's neighbour, which may have to grow.
    let near = ends.filter(|at| *at >= 0x1_0000 && at.abs_diff(addr) < REACH && is_free(*at));
    Ok(near.min_by_key(|at| at.abs_diff(addr)))
}

fn registers(regs: &Registers) -> [u64; 16] {
    let [rdi, rsi, rdx, r10, r8, r9] = regs.args();
    let (rax, rcx, rbx, rsp, rbp) = (regs.rax, regs.rcx, regs.rbx, regs.rsp, regs.rbp);
    [rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8, r9, r10, regs.r11, regs.r12, regs.r13, regs.r14, regs.r15]
}

impl Seek {
    /// Sets the breakpoint. `task` is stopped anywhere in its program.
    pub(crate) fn begin(task: &mut Task, memory: &Memory, pause: &Pause) -> Result<Seek, TraceeError> {
        if let Some(seek) = Self::patch(task, memory, pause)? {
            return Ok(seek);
        }
        let regs = task.regs()?;
        if regs.rip == pause.regs.rip {
            task.set_regs(&Registers { eflags: regs.eflags | RESUME, ..regs })?;
        }
        place::set_breakpoint(task.stopped()?, pause.regs.rip)?;
        task.breakpoint = Some(Breakpoint::Register(pause.regs.rip));
        Ok(Seek::Register)
    }

    fn patch(task: &mut Task, memory: &Memory, pause: &Pause) -> Result<Option<Seek>, TraceeError> {
        let start = pause.regs.rip;
        let Some(span) = Span::new(start, &pause.span) else { return Ok(None) };
        if memory.read_upto(start, span.bytes().len()) != span.bytes() {
            return Ok(None);
        }
        let Some(code) = room_near(task.ours, start)? else { return Ok(None) };
        let data = code + PAGE;
        let condition = Condition { registers: registers(&pause.regs), ..Condition::default() };
        let Ok(made) = conditional(&span, code, data, &condition) else { return Ok(None) };
        // The jump takes the place of all of the span: whoever stands behind its first instruction leaves it first.
        while (start + 1..span.end()).contains(&task.regs()?.rip) {
            if !task.step()? {
                return Ok(None);
            }
        }
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        let (executable, writable) = (libc::PROT_READ | libc::PROT_EXEC, libc::PROT_READ | libc::PROT_WRITE);
        let number = |value: i32| u64::from(value.cast_unsigned());
        let mut remote = Remote::new(&mut task.stopped)?;
        for (at, prot) in [(code, executable), (data, writable)] {
            let args = [at, PAGE, number(prot), number(flags), u64::MAX, 0];
            remote.must("map a page for a breakpoint", libc::SYS_mmap, args)?;
        }
        remote.finish()?;
        memory.write(code, &made.code)?;
        memory.write(data, &made.data)?;
        memory.write(start, &made.patch)?;
        task.breakpoint = Some(Breakpoint::Int3(made.hit));
        Ok(Some(Seek::Patched(Box::new(Patched { span, made, condition, code, data }))))
    }

    /// The registers that the task has at the breakpoint, for those that it was found with.
    pub(crate) fn true_registers(&self, memory: &Memory, regs: Registers) -> Result<Registers, TraceeError> {
        match self {
            Seek::Register => Ok(regs),
            Seek::Patched(it) => {
                let eflags = Conditional::flags(regs.eflags, memory.read_u64(it.data + 8)?);
                Ok(Registers { rip: it.span.start(), eflags, ..regs })
            }
        }
    }

    /// The task stands at the breakpoint, and it is not the place: lets it go on past it. What was different becomes a part
    /// of the condition, so that it will not be stopped for that again.
    pub(crate) fn pass(
        &mut self,
        task: &mut Task,
        memory: &Memory,
        pause: &Pause,
    ) -> Result<(), TraceeError> {
        let Seek::Patched(it) = self else { return Ok(()) };
        let Patched { span, made, condition, code, data } = &mut **it;
        let regs = task.regs()?;
        let checks = condition.vectors.len() + condition.words.len();
        if checks < Conditional::CHECKS_MAX / 2 {
            let found = place::lower_halves(&task.stopped()?.xstate()?);
            let vector =
                (0..).zip(found.iter().zip(&pause.lower)).find(|(_, (found, wanted))| found != wanted);
            if let Some(word) = place::first_difference(memory, &pause.held) {
                condition.words.push(word);
            } else if let Some((register, (_, wanted))) = vector {
                condition.vectors.push((register, *wanted));
            }
            if let Ok(new) = conditional(span, *code, *data, condition) {
                // The first two words are the program's.
                memory.write(*data + 16, new.data.get(16..).unwrap_or_default())?;
                memory.write(*code, &new.code)?;
                task.breakpoint = Some(Breakpoint::Int3(new.hit));
                *made = new;
            }
        }
        task.set_regs(&Registers { rip: made.miss, ..regs })
    }

    /// Has the condition itself faulted, because it read what is not mapped yet? Then the task goes on, which is not
    /// where it is looked for.
    pub(crate) fn passes_fault(&self, task: &mut Task, regs: &Registers) -> Result<bool, TraceeError> {
        let Seek::Patched(it) = self else { return Ok(false) };
        if !(it.made.checks..it.made.hit).contains(&regs.rip) {
            return Ok(false);
        }
        task.set_regs(&Registers { rip: it.made.miss, ..*regs })?;
        Ok(true)
    }

    /// Takes the breakpoint away. A task that stands at it has its `true_registers` set before.
    pub(crate) fn end(self, task: &mut Task, memory: &Memory, place: &Place) -> Result<(), TraceeError> {
        task.breakpoint = None;
        if place.found == Found::Dead {
            return Ok(());
        }
        match self {
            Seek::Register => place::clear_breakpoint(task.ours),
            Seek::Patched(it) => {
                memory.write(it.span.start(), it.span.bytes())?;
                let mut remote = Remote::new(&mut task.stopped)?;
                let args = [it.code, 2 * PAGE, 0, 0, 0, 0];
                remote.must("unmap the pages of a breakpoint", libc::SYS_munmap, args)?;
                remote.finish()
            }
        }
    }
}

impl Task {
    /// Lets the task execute one instruction. False: it did something else than that.
    pub(crate) fn step(&mut self) -> Result<bool, TraceeError> {
        let place = self.go(Resume::Step)?;
        Ok(place.found == Found::Stepped)
    }
}
