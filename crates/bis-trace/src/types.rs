//! The words that every room uses: ids, addresses, signals, registers. Plain values; nothing here does IO.

use std::{
    fmt,
    ops::{Add, AddAssign, Range, Sub, SubAssign},
};

/// Bytes of a page on x86-64.
pub const PAGE: u64 = 4096;

/// Bytes of a page, as the length of bytes that we hold.
pub const PAGE_LEN: usize = PAGE as usize;

/// An address in a tracee's address space, of a recorded program or of its replay; never one of our own. A
/// number that a register or a system call's argument holds becomes one where it is understood as one.
///
/// An address and a count of bytes make an address, and two addresses are so many bytes apart; nothing else
/// can be calculated, so that a length does not stand where an address should.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Addr(pub u64);

impl Addr {
    /// No program maps memory here.
    pub const NULL: Addr = Addr(0);
    /// Behind everything that can be mapped.
    pub const MAX: Addr = Addr(u64::MAX);

    /// The addresses of which these are the numbers.
    pub const fn range(numbers: Range<u64>) -> Range<Addr> {
        Addr(numbers.start)..Addr(numbers.end)
    }

    pub fn is_null(self) -> bool {
        self.0 == 0
    }

    /// The beginning of the page that it lies in.
    pub const fn page_floor(self) -> Addr {
        Addr(self.0 / PAGE * PAGE)
    }

    /// The first beginning of a page that is not below it; in the last page, where there is none, the
    /// beginning of that.
    pub const fn page_ceil(self) -> Addr {
        Addr(self.0.saturating_add(PAGE - 1)).page_floor()
    }

    /// As [`Addr::page_ceil`]; none in the last page.
    pub fn checked_page_ceil(self) -> Option<Addr> {
        self.0.checked_next_multiple_of(PAGE).map(Addr)
    }

    /// How far it lies behind the beginning of its page, bytes.
    pub const fn page_offset(self) -> u64 {
        self.0 % PAGE
    }

    /// The number of its page, counted from address 0.
    pub const fn page_number(self) -> u64 {
        self.0 / PAGE
    }

    /// The first multiple of `align` that is not below it.
    pub const fn next_multiple_of(self, align: u64) -> Addr {
        Addr(self.0.next_multiple_of(align))
    }

    pub const fn is_multiple_of(self, align: u64) -> bool {
        self.0.is_multiple_of(align)
    }

    /// The addresses in the range that lie so many bytes apart, from its beginning on.
    pub fn steps(range: Range<Addr>, bytes: usize) -> impl Iterator<Item = Addr> + Clone + use<> {
        (range.start.0..range.end.0).step_by(bytes).map(Addr)
    }

    /// This address, and those behind it that lie so many bytes apart.
    pub fn and_behind(self, bytes: usize) -> impl Iterator<Item = Addr> + Clone + use<> {
        (self.0..).step_by(bytes).map(Addr)
    }

    /// None where the address space ends before it.
    pub fn checked_add(self, bytes: u64) -> Option<Addr> {
        self.0.checked_add(bytes).map(Addr)
    }

    /// None where the address space begins behind it.
    pub fn checked_sub(self, bytes: u64) -> Option<Addr> {
        self.0.checked_sub(bytes).map(Addr)
    }

    pub const fn saturating_add(self, bytes: u64) -> Addr {
        Addr(self.0.saturating_add(bytes))
    }

    pub const fn saturating_sub(self, bytes: u64) -> Addr {
        Addr(self.0.saturating_sub(bytes))
    }

    /// As the processor adds to an address.
    pub const fn wrapping_add(self, bytes: u64) -> Addr {
        Addr(self.0.wrapping_add(bytes))
    }

    /// As the processor subtracts from an address.
    pub const fn wrapping_sub(self, bytes: u64) -> Addr {
        Addr(self.0.wrapping_sub(bytes))
    }

    /// How many bytes it lies behind another one; none where it lies before that.
    pub fn checked_since(self, other: Addr) -> Option<u64> {
        self.0.checked_sub(other.0)
    }

    /// How many bytes it lies behind another one; 0 where it lies before that.
    pub const fn saturating_since(self, other: Addr) -> u64 {
        self.0.saturating_sub(other.0)
    }

    /// How many bytes it lies behind another one; a large number where it lies before that.
    pub const fn wrapping_since(self, other: Addr) -> u64 {
        self.0.wrapping_sub(other.0)
    }

    /// How many bytes lie between the two, whichever comes first.
    pub const fn abs_diff(self, other: Addr) -> u64 {
        self.0.abs_diff(other.0)
    }
}

impl AddAssign<u64> for Addr {
    fn add_assign(&mut self, bytes: u64) {
        self.0 += bytes;
    }
}

impl SubAssign<u64> for Addr {
    fn sub_assign(&mut self, bytes: u64) {
        self.0 -= bytes;
    }
}

/// Values and references alike, as with numbers.
macro_rules! calculate {
    ($($left:ty, $trait:ident $method:ident $right:ty => $output:ident |$a:ident, $b:ident| $value:expr;)*) => {$(
        impl $trait<$right> for $left {
            type Output = $output;
            fn $method(self, other: $right) -> $output { let ($a, $b) = (self, other); $value }
        }
    )*};
}
calculate! {
    Addr, Add add u64 => Addr |addr, bytes| Addr(addr.0 + bytes);
    Addr, Add add &u64 => Addr |addr, bytes| Addr(addr.0 + bytes);
    &Addr, Add add u64 => Addr |addr, bytes| Addr(addr.0 + bytes);
    &Addr, Add add &u64 => Addr |addr, bytes| Addr(addr.0 + bytes);
    Addr, Sub sub u64 => Addr |addr, bytes| Addr(addr.0 - bytes);
    &Addr, Sub sub u64 => Addr |addr, bytes| Addr(addr.0 - bytes);
    Addr, Sub sub Addr => u64 |to, from| to.0 - from.0;
    Addr, Sub sub &Addr => u64 |to, from| to.0 - from.0;
    &Addr, Sub sub Addr => u64 |to, from| to.0 - from.0;
    &Addr, Sub sub &Addr => u64 |to, from| to.0 - from.0;
}

impl fmt::Display for Addr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl fmt::Debug for Addr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl fmt::LowerHex for Addr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::LowerHex::fmt(&self.0, f)
    }
}

/// The number of a descriptor of a process that is recorded or replayed; never one of our own, which is a
/// `RawFd`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Fd(pub i32);

impl Fd {
    /// No descriptor: where the kernel takes one and none is meant.
    pub const NONE: Fd = Fd(-1);
    /// The current folder of a task, where a call takes a folder's descriptor (`AT_FDCWD`).
    pub const CURRENT_FOLDER: Fd = Fd(-100);

    /// The descriptor that the argument of a system call names. The kernel reads an `int`: the low 32 bits,
    /// with their sign.
    #[expect(clippy::cast_possible_truncation, reason = "the kernel's own reading of an int argument")]
    pub const fn of_arg(arg: u64) -> Fd {
        Fd(arg as i32)
    }

    /// The descriptor that a system call with this result has made; none if the call has failed.
    pub fn made(result: i64) -> Option<Fd> {
        i32::try_from(result).ok().filter(|number| *number >= 0).map(Fd)
    }

    /// The descriptor as an argument of a system call that we make.
    pub fn arg(self) -> u64 {
        self.0.cast_unsigned().into()
    }
}

/// Standard output or standard error of the recording: one of the two files that the program was started
/// with, through whatever descriptor it writes there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum StandardStream {
    Output,
    Error,
}

impl StandardStream {
    pub const ALL: [StandardStream; 2] = [StandardStream::Output, StandardStream::Error];

    /// The stream that a program finds at the descriptor of this number when it starts.
    pub const fn of(number: u64) -> Option<StandardStream> {
        match number {
            1 => Some(StandardStream::Output),
            2 => Some(StandardStream::Error),
            _ => None,
        }
    }

    /// The number of the descriptor at which a program finds the stream when it starts.
    pub const fn number(self) -> u8 {
        match self {
            StandardStream::Output => 1,
            StandardStream::Error => 2,
        }
    }
}

impl fmt::Display for StandardStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StandardStream::Output => "standard output",
            StandardStream::Error => "standard error",
        })
    }
}

/// A thread id as the recorded program saw it (kernel `pid_t` of the thread). Always positive.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Tid(pub i32);

/// A domain: one address space from its base (an exec, or a fork of another domain) to its end. Ids are
/// given in the order in which domains begin, from 1; 0 is the trace's own meta stream.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DomainId(pub u32);

impl DomainId {
    /// The stream that belongs to no domain: what the trace says about itself.
    pub const META: DomainId = DomainId(0);
}

/// A position in the one global order of events of a trace, from 1. Two events never share one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EventSeq(pub u64);

/// A mapped file's content, kept once in the trace's `files/` folder.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FileId(pub u32);

/// A piece of memory that several domains may map: a shared anonymous mapping, a file or memfd mapped
/// shared, or a System V segment.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ObjectId(pub u32);

/// A Linux signal number, 1..=64, real-time ones included.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Signal(pub u8);

macro_rules! show {
    ($($t:ty => $f:literal),*) => {$(impl fmt::Display for $t {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { write!(f, $f, self.0) }
    })*};
}
show!(Fd => "{}", Tid => "{}", DomainId => "{}", EventSeq => "{}", FileId => "{}", ObjectId => "{}");

const SIGNAL_NAMES: [&str; 32] = [
    "SIG0",
    "SIGHUP",
    "SIGINT",
    "SIGQUIT",
    "SIGILL",
    "SIGTRAP",
    "SIGABRT",
    "SIGBUS",
    "SIGFPE",
    "SIGKILL",
    "SIGUSR1",
    "SIGSEGV",
    "SIGUSR2",
    "SIGPIPE",
    "SIGALRM",
    "SIGTERM",
    "SIGSTKFLT",
    "SIGCHLD",
    "SIGCONT",
    "SIGSTOP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGXCPU",
    "SIGXFSZ",
    "SIGVTALRM",
    "SIGPROF",
    "SIGWINCH",
    "SIGIO",
    "SIGPWR",
    "SIGSYS",
];

impl Signal {
    pub const HUP: Signal = Signal(1);
    pub const TRAP: Signal = Signal(5);
    pub const BUS: Signal = Signal(7);
    pub const KILL: Signal = Signal(9);
    pub const SEGV: Signal = Signal(11);
    pub const CHLD: Signal = Signal(17);
    pub const CONT: Signal = Signal(18);
    pub const STOP: Signal = Signal(19);
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match SIGNAL_NAMES.get(usize::from(self.0)) {
            Some(name) => f.write_str(name),
            None => write!(f, "SIGRT{}", self.0),
        }
    }
}

/// The general registers of a stopped x86-64 task, in the order of the kernel's `struct user_regs_struct`
/// (`arch/x86/include/asm/user_64.h`).
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Registers {
    pub r15: u64,
    pub r14: u64,
    pub r13: u64,
    pub r12: u64,
    pub rbp: u64,
    pub rbx: u64,
    pub r11: u64,
    pub r10: u64,
    pub r9: u64,
    pub r8: u64,
    pub rax: u64,
    pub rcx: u64,
    pub rdx: u64,
    pub rsi: u64,
    pub rdi: u64,
    pub orig_rax: u64,
    pub rip: u64,
    pub cs: u64,
    pub eflags: u64,
    pub rsp: u64,
    pub ss: u64,
    pub fs_base: u64,
    pub gs_base: u64,
    pub ds: u64,
    pub es: u64,
    pub fs: u64,
    pub gs: u64,
}

/// The number of 64-bit words in [`Registers`].
pub const REGISTER_COUNT: usize = 27;

/// The names of the registers, in the order of [`Registers::words`].
pub const REGISTER_NAMES: [&str; REGISTER_COUNT] = [
    "r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx", "rdx", "rsi", "rdi",
    "orig_rax", "rip", "cs", "eflags", "rsp", "ss", "fs_base", "gs_base", "ds", "es", "fs", "gs",
];

/// Below a stack pointer, functions may use this much without moving it, bytes (the red zone of the x86-64
/// ABI): no signal's frame is written there.
pub const RED_ZONE: u64 = 128;

/// What may be done with memory: `PROT_*` of mmap(2), as a mapping's `prot` has them.
pub mod prot {
    pub const READ: u32 = 1;
    pub const WRITE: u32 = 2;
    pub const EXEC: u32 = 4;
    pub const READ_EXEC: u32 = READ | EXEC;
}

/// The trap flag (TF) in eflags: a debug exception follows each instruction that begins with it set.
pub const TRAP_FLAG: u64 = 0x100;

/// The code segments of the kernel for 64-bit and for 32-bit programs (`arch/x86/include/asm/segment.h`).
const USER_CS: u64 = 0x33;
const USER32_CS: u64 = 0x23;

/// Added to the number of a call that is one of the 32-bit table, where the trace says it.
pub const NARROW_TABLE: u64 = 1 << 32;

/// The number in the 32-bit table, if a trace means that table by this number of a call. (What a program has
/// in the register of the number may be anything, with more bits than this.)
pub fn narrow_number(nr: u64) -> Option<u32> {
    nr.checked_sub(NARROW_TABLE).and_then(|number| u32::try_from(number).ok())
}

impl Registers {
    /// Does the processor take the next instruction for one of a 32-bit program?
    pub fn is_narrow(&self) -> bool {
        self.cs == USER32_CS
    }

    /// With the code segment of 64-bit programs, and without the trap flag: how a task executes the agent's
    /// text, also that of a 32-bit program, or of one that single-steps itself.
    #[must_use]
    pub fn wide(self) -> Registers {
        Registers { cs: USER_CS, eflags: self.eflags & !TRAP_FLAG, ..self }
    }

    /// With the code segment of 32-bit programs.
    #[must_use]
    pub fn narrow(self) -> Registers {
        Registers { cs: USER32_CS, ..self }
    }

    /// Where a thread has what is its own: the C library finds that by one segment register in 64-bit
    /// programs and by another in 32-bit ones.
    pub fn thread_pointer(&self) -> u64 {
        if self.is_narrow() { self.gs_base } else { self.fs_base }
    }

    /// Of a task at the entry of a system call: with its number as the kernel takes it, which does not look
    /// at the upper half of the register (`syscall_get_nr` in arch/x86/include/asm/syscall.h). A number of
    /// -1 is left: it is no call at all.
    #[must_use]
    pub fn with_low_number(self) -> Registers {
        if self.orig_rax == u64::MAX {
            return self;
        }
        Registers { orig_rax: self.orig_rax & u64::from(u32::MAX), ..self }
    }

    /// Of a task at the entry of a system call, or behind it: as it stood in front of the instruction, which
    /// has two bytes for calls of either table.
    #[must_use]
    pub fn before_call(&self) -> Registers {
        Registers { rip: self.rip.wrapping_sub(2), rax: self.orig_rax, orig_rax: u64::MAX, ..*self }
    }

    /// The arguments of the call of this number, of whichever table, that is made with these registers.
    pub fn args_of(&self, nr: u64) -> [u64; 6] {
        if narrow_number(nr).is_none() {
            return self.args();
        }
        [self.rbx, self.rcx, self.rdx, self.rsi, self.rdi, self.rbp].map(|arg| arg & u64::from(u32::MAX))
    }

    /// The result of the call of this number that has returned with these registers: a negated errno where it
    /// has failed.
    pub fn result_of(&self, nr: u64) -> i64 {
        if narrow_number(nr).is_none() {
            return self.result();
        }
        let low = (self.rax & u64::from(u32::MAX)).cast_signed();
        // The last page of 4 GiB is none that an address is in.
        if low > i64::from(u32::MAX) - 4096 { low - (1 << 32) } else { low }
    }

    /// How many bits the instructions have that the processor executes now: 32 or 64.
    pub fn bits(&self) -> u32 {
        if self.is_narrow() { 32 } else { 64 }
    }

    /// The general registers, in the order of the processor's numbers for them: rax, rcx, rdx, rbx, rsp, rbp,
    /// rsi, rdi, r8 to r15.
    pub fn general(&self) -> [u64; 16] {
        let r = self;
        [
            r.rax, r.rcx, r.rdx, r.rbx, r.rsp, r.rbp, r.rsi, r.rdi, r.r8, r.r9, r.r10, r.r11, r.r12, r.r13,
            r.r14, r.r15,
        ]
    }

    /// The general register of this number, of those that [`Registers::general`] has.
    pub fn general_mut(&mut self, number: usize) -> Option<&mut u64> {
        let r = self;
        let all = [
            &mut r.rax, &mut r.rcx, &mut r.rdx, &mut r.rbx, &mut r.rsp, &mut r.rbp, &mut r.rsi, &mut r.rdi,
            &mut r.r8, &mut r.r9, &mut r.r10, &mut r.r11, &mut r.r12, &mut r.r13, &mut r.r14, &mut r.r15,
        ];
        all.into_iter().nth(number)
    }

    /// The instruction that comes next.
    pub fn ip(&self) -> Addr {
        Addr(self.rip)
    }

    /// The end of the stack that is in use.
    pub fn sp(&self) -> Addr {
        Addr(self.rsp)
    }

    /// All registers as words, in the kernel's order.
    pub fn words(&self) -> [u64; REGISTER_COUNT] {
        let r = self;
        [
            r.r15, r.r14, r.r13, r.r12, r.rbp, r.rbx, r.r11, r.r10, r.r9, r.r8, r.rax, r.rcx, r.rdx, r.rsi,
            r.rdi, r.orig_rax, r.rip, r.cs, r.eflags, r.rsp, r.ss, r.fs_base, r.gs_base, r.ds, r.es, r.fs,
            r.gs,
        ]
    }

    /// The reverse of [`Registers::words`].
    pub fn from_words(w: [u64; REGISTER_COUNT]) -> Registers {
        let [
            r15,
            r14,
            r13,
            r12,
            rbp,
            rbx,
            r11,
            r10,
            r9,
            r8,
            rax,
            rcx,
            rdx,
            rsi,
            rdi,
            orig_rax,
            rip,
            cs,
            eflags,
            rsp,
            ss,
            fs_base,
            gs_base,
            ds,
            es,
            fs,
            gs,
        ] = w;
        Registers {
            r15,
            r14,
            r13,
            r12,
            rbp,
            rbx,
            r11,
            r10,
            r9,
            r8,
            rax,
            rcx,
            rdx,
            rsi,
            rdi,
            orig_rax,
            rip,
            cs,
            eflags,
            rsp,
            ss,
            fs_base,
            gs_base,
            ds,
            es,
            fs,
            gs,
        }
    }

    /// The six arguments of a system call at its entry.
    pub fn args(&self) -> [u64; 6] {
        [self.rdi, self.rsi, self.rdx, self.r10, self.r8, self.r9]
    }

    /// A system call's result, or a negated errno in -4095..=-1.
    #[expect(clippy::cast_possible_wrap, reason = "the kernel's own reading of rax")]
    pub fn result(&self) -> i64 {
        self.rax as i64
    }
}

/// What measures a program's progress between two events, so that a place in the middle of a computation has
/// a number. Named in the trace ([`crate::event::Machine::tick_source`]), because its places mean nothing in
/// another's measure.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TickKind {
    /// Nothing: a place is known by its state.
    #[default]
    State,
    /// The counts of the dense text.
    Software,
    /// Conditional branches retired, by the processor's performance counters.
    Hardware,
    /// Conditional branches retired, seen by single steps.
    Stepping,
}

impl TickKind {
    pub const ALL: [TickKind; 4] =
        [TickKind::State, TickKind::Software, TickKind::Hardware, TickKind::Stepping];

    /// The name that traces and people use.
    pub fn name(self) -> &'static str {
        match self {
            TickKind::State => "state",
            TickKind::Software => "software",
            TickKind::Hardware => "hardware",
            TickKind::Stepping => "stepping",
        }
    }

    /// The kind of this name; none if this version does not know it.
    pub fn named(name: &str) -> Option<TickKind> {
        TickKind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl fmt::Display for TickKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_is_an_int_of_its_argument() {
        assert_eq!(Fd::of_arg(0xdead_beef_0000_0003), Fd(3));
        assert_eq!(Fd::of_arg(0xffff_ffff_ffff_ff9c), Fd::CURRENT_FOLDER);
        assert_eq!(Fd::of_arg(0xffff_ff9c), Fd::CURRENT_FOLDER);
        assert_eq!(Fd::of_arg(Fd::CURRENT_FOLDER.arg()), Fd::CURRENT_FOLDER);
        assert_eq!((Fd::made(7), Fd::made(-9)), (Some(Fd(7)), None));
    }

    #[test]
    fn a_standard_stream_is_known_by_its_number() {
        for stream in StandardStream::ALL {
            assert_eq!(StandardStream::of(stream.number().into()), Some(stream));
        }
        assert_eq!([0, 3, 1 << 32 | 1].map(StandardStream::of), [None; 3]);
    }
}
