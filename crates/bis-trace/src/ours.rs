//! What of a recorded address space is bis's, and where the program's own instructions are meanwhile.
//!
//! The recorder changes text: instructions give way to jumps, to others that fault, to whole variants of a
//! file's text that count. Replay needs none of this to run: to it, all of that is bytes and mappings like
//! any others. A debugger needs it to show the program. So an outcome that changes text says what it has
//! changed ([`crate::event::Outcome::ours`]).
//!
//! What is said holds until the memory shows something else: a mapping over the range, its end, its move, an
//! advice that throws its private pages away, another protection for a guarded page. None of these is said
//! again here. Only where the recorder puts the program's bytes back by writing them does [`Ours::own`] say
//! so. Trampolines stay when the text that leads to them is gone, because tasks may stand in them; areas and
//! pools stay until the address space ends.
//!
//! A forked child has what its parent has. Memory that replay does not have (scratch memory for calls that
//! wait) is not mentioned.

use std::sync::Arc;

use crate::{
    event::{Insn, Prot},
    types::{Addr, FileId},
};

/// What an outcome changes, in the order in which it applies; all of it after the outcome's effects and
/// writes.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Ours {
    /// Ranges (address, length in bytes) of text that hold the program's own bytes again. Patches, faults and
    /// dense text in them are no more. A dense text goes on around the range.
    pub own: Vec<(Addr, u64)>,
    /// Memory that the program does not have.
    pub areas: Vec<Area>,
    /// Functions of the vdso that have given way to others.
    pub diverted: Vec<Diverted>,
    /// Trampolines of dense texts.
    pub pools: Vec<Pool>,
    /// Text that counts, mapped over the program's own.
    pub dense: Vec<DenseText>,
    /// Text with all its patches, mapped over the program's own.
    pub patched: Vec<PatchedText>,
    /// Runs of instructions that have given way to jumps. Shared, because processes that map the same files
    /// have the same.
    pub patches: Vec<Arc<Patch>>,
    /// Instructions that have given way to ones that fault.
    pub faults: Vec<Fault>,
    /// Pages of text that cannot be executed, although the program believes so.
    pub guards: Vec<Guard>,
}

impl Ours {
    /// Adds what was changed after this. What became the program's own later is said first all the same, so
    /// nothing before may be about the same range.
    pub fn append(&mut self, later: Ours) {
        let Ours { own, areas, diverted, pools, dense, patched, patches, faults, guards } = later;
        self.own.extend(own);
        self.areas.extend(areas);
        self.diverted.extend(diverted);
        self.pools.extend(pools);
        self.dense.extend(dense);
        self.patched.extend(patched);
        self.patches.extend(patches);
        self.faults.extend(faults);
        self.guards.extend(guards);
    }
}

/// Memory that the program does not have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Area {
    pub addr: Addr,
    /// Bytes.
    pub len: u64,
    pub kind: AreaKind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AreaKind {
    /// The instruction through which the supervisor makes calls.
    Agent,
    /// The hooks' text, and the tables behind it.
    Hooks,
    /// The hooks' state, stack and log.
    HookState,
    /// Trampolines of [`Patch`]es; also the copy of the kernel's clock functions.
    Arena,
}

/// A part of the vdso that holds other bytes than the kernel has put there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diverted {
    pub addr: Addr,
    /// The kernel's own bytes, not empty.
    pub original: Vec<u8>,
    /// A function begins here, and what has taken its place returns to its caller. Else nobody comes here.
    pub is_function: bool,
}

/// The trampolines of a dense text, which lie at a fixed distance from it. They are no memory of the
/// program's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pool {
    pub addr: Addr,
    /// Bytes.
    pub len: u64,
    /// What is added to the file's own addresses where the text is loaded.
    pub bias: u64,
    /// A kept file: what addresses in the trampolines mean (`bis_rewrite::DenseMap`, as that is stored).
    pub map: FileId,
}

/// A range of text that shows a dense text in place of the program's own file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DenseText {
    pub addr: Addr,
    /// Bytes.
    pub len: u64,
    /// The address of its trampolines.
    pub pool: Addr,
    /// The program's own text: this kept file from `offset`. Behind the file's end are zeros.
    pub file: FileId,
    pub offset: u64,
}

/// A range of text that shows a file of bis's own, which has the program's text with all patches in it. So
/// processes that map the same text are patched by one mapping, and what their patches are is kept once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PatchedText {
    pub addr: Addr,
    /// Bytes.
    pub len: u64,
    /// The program's own text: this kept file from `offset`.
    pub file: FileId,
    pub offset: u64,
    /// A kept file. From `at` to its end it says what is patched ([`PatchSet`]).
    pub set: FileId,
    pub at: u64,
}

/// What is patched in a text, by its addresses in memory; kept in a file ([`crate::codec::write_set`]).
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct PatchSet {
    pub patches: Vec<Arc<Patch>>,
    pub faults: Vec<Fault>,
}

/// The longest run of instructions that gives way to a jump, bytes.
pub const RUN_BYTES_MAX: usize = 32;

/// A run of whole instructions that has given way to a jump, with `int3` behind it; and the trampoline to
/// which that leads. The offsets are in bytes: in the run from `start`, in the trampoline from `trampoline`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Patch {
    pub start: Addr,
    /// What was there, 1..=[`RUN_BYTES_MAX`] bytes.
    pub original: Vec<u8>,
    pub trampoline: Addr,
    /// Bytes of the trampoline.
    pub trampoline_len: u8,
    /// Offset in the run: the instruction that the patch is about.
    pub site: u8,
    /// What that is; none: a system call.
    pub insn: Option<Insn>,
    /// For each instruction of the run, and for the run's end, its offset in the run and where its copy
    /// begins in the trampoline. The copy of the site is the way to its hook. The copy of the run's end is a
    /// jump there. In order.
    pub moved: Vec<[u8; 2]>,
    /// For `xbegin`, and only then: where the program goes on. The last copy leads there, not to the run's
    /// end.
    pub abort: Option<Addr>,
}

impl Patch {
    /// Address just after the run.
    pub fn end(&self) -> Addr {
        self.start.saturating_add(self.original.len() as u64)
    }

    /// Address just after the trampoline.
    pub fn trampoline_end(&self) -> Addr {
        self.trampoline.saturating_add(self.trampoline_len.into())
    }

    /// Address of the instruction that the patch is about.
    pub fn site(&self) -> Addr {
        self.start.wrapping_add(self.site.into())
    }

    /// (address of an instruction of the program, address of its copy), in order. The last one is where the
    /// trampoline leads back to, and the jump that does.
    pub fn places(&self) -> impl DoubleEndedIterator<Item = (Addr, Addr)> + '_ {
        let len = self.original.len();
        self.moved.iter().map(move |[from, to]| {
            let abort = self.abort.filter(|_| usize::from(*from) >= len);
            let original = abort.unwrap_or_else(|| self.start.wrapping_add((*from).into()));
            (original, self.trampoline.wrapping_add((*to).into()))
        })
    }

    /// The address of the copy after the site's: where the hook continues the program, and what the hook is
    /// entered with.
    pub fn done(&self) -> Option<Addr> {
        let next = self.moved.iter().find(|[from, _]| *from > self.site)?;
        Some(self.trampoline.wrapping_add(next[1].into()))
    }

    /// The address of the trampoline's own copy of the site's instruction, which ends at [`Patch::done`]; a
    /// system call is traced there. None for `xbegin`, which has no copy.
    pub fn traced(&self) -> Option<Addr> {
        let next = self.moved.iter().find(|[from, _]| *from > self.site)?;
        let done = self.trampoline.wrapping_add(next[1].into());
        (self.insn != Some(Insn::Xbegin)).then(|| done.wrapping_sub((next[0] - self.site).into()))
    }
}

/// An instruction that has given way to one of its length that faults.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    pub site: Addr,
    pub insn: Insn,
    /// What was there, 1..=15 bytes.
    pub original: Vec<u8>,
}

/// A page of text that cannot be executed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Guard {
    /// Address of the page.
    pub page: Addr,
    /// The protection that the program believes it has.
    pub prot: Prot,
}
