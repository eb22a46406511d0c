//! The words of this crate: kinds of sites, runs, and why a site is refused. No analysis is here.

use iced_x86::{Code, Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};

/// Bytes of the jump that takes a run's place, and so the fewest bytes that a run has.
pub(crate) const JUMP: usize = 5;

/// Why a file cannot be analysed, or a trampoline not be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file is not what this crate reads: ELF, 64 bits, x86-64, little-endian, with section headers.
    #[error("failed to read the ELF file: {0}")]
    Elf(String),
    /// Two addresses that a displacement of 32 bits must connect are too far apart, or wrap around the
    /// address space.
    #[error("{from:#x} and {to:#x} are more than 2 GiB apart; place the trampoline nearer to its run")]
    TooFar {
        /// Where the displacement counts from.
        from: u64,
        /// What it should reach.
        to: u64,
    },
    /// The run is not one that [`crate::Text::run_at`] gives: it was made by hand, or read from somewhere
    /// untrusted.
    #[error(
        "the run at {0:#x} holds instructions that cannot be moved; it was not made by this version's analysis"
    )]
    BadRun(u64),
    /// A site of this kind saves a register to memory, and the caller named no place below 2 GiB for it.
    #[error("a {0:?} site needs a place below 2 GiB to save rcx at; pass Hook::save")]
    NoSave(SiteKind),
    /// Sites of this kind are to be hooked, and the caller named no hook for them.
    #[error("there is no hook for {0:?}; name its address, or do not ask for such sites")]
    NoHook(SiteKind),
    /// A word that trampolines use is not at a multiple of 8 below 2 GiB.
    #[error("the word at {0:#x} must be at a multiple of 8 below 2 GiB")]
    BadWord(u32),
    /// The dense text of this file would be too large for displacements of 32 bits.
    #[error("the text spans {0} bytes, which is too much for a dense variant")]
    TooLarge(u64),
}

/// The instructions that a recorder cares about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum SiteKind {
    /// `syscall`
    Syscall = 1,
    /// `rdtsc`
    Rdtsc = 2,
    /// `rdtscp`
    Rdtscp = 3,
    /// `cpuid`
    Cpuid = 4,
    /// `rdrand`
    Rdrand = 5,
    /// `rdseed`
    Rdseed = 6,
    /// `rdpid`
    Rdpid = 7,
    /// `xbegin`
    Xbegin = 8,
    /// `xsavec`, also with 64 bits
    Xsavec = 9,
    /// `lsl` with a selector in a register
    Lsl = 10,
    /// `fnstenv` and `fnsave`, with 32 bits a word
    Fnstenv = 11,
}

/// How a trampoline hands over to the hook: which register holds [`crate::Trampoline::done`] when the hook is
/// entered. Every other register, the flags, and the stack are as the program left them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Entry {
    /// In rcx, whose value the instruction destroys anyway (`syscall`; r11 is free for the hook too).
    Rcx,
    /// In rdx, whose value the instruction destroys anyway without reading it (`rdtsc`, `rdtscp`, `cpuid`).
    Rdx,
    /// In rcx, after rcx was stored at [`crate::Hook::save`]; the hook restores it from there (the rest).
    ///
    /// Two threads that run at once would overwrite one another's; a signal between the store and the hook's
    /// load too. The caller must exclude both, or leave such sites alone.
    SavedRcx,
}

/// The destination register of `rdrand`, `rdseed`, `rdpid` and `lsl`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Operand {
    /// Its number as the processor counts: 0 rax, 1 rcx, 2 rdx, 3 rbx, 4 rsp, 5 rbp, 6 rsi, 7 rdi, 8 to 15 r8
    /// to r15.
    pub register: u8,
    /// Bytes written: 2 (the rest of the register stays), 4 (the upper half becomes zero) or 8.
    pub width: u8,
}

impl SiteKind {
    /// Every kind.
    pub const ALL: [Self; 11] = [
        Self::Syscall,
        Self::Rdtsc,
        Self::Rdtscp,
        Self::Cpuid,
        Self::Rdrand,
        Self::Rdseed,
        Self::Rdpid,
        Self::Xbegin,
        Self::Xsavec,
        Self::Lsl,
        Self::Fnstenv,
    ];

    /// How the hook for such a site is entered.
    #[must_use]
    pub fn entry(self) -> Entry {
        match self {
            Self::Syscall => Entry::Rcx,
            Self::Rdtsc | Self::Rdtscp | Self::Cpuid => Entry::Rdx,
            Self::Rdrand
            | Self::Rdseed
            | Self::Rdpid
            | Self::Xbegin
            | Self::Xsavec
            | Self::Lsl
            | Self::Fnstenv => Entry::SavedRcx,
        }
    }

    /// Does the hook come behind the instruction, to change what this has written to memory?
    pub(crate) fn is_hooked_behind(self) -> bool {
        matches!(self, Self::Xsavec | Self::Fnstenv)
    }

    pub(crate) fn of(instruction: &Instruction) -> Option<Self> {
        Some(match instruction.mnemonic() {
            Mnemonic::Syscall => Self::Syscall,
            Mnemonic::Rdtsc => Self::Rdtsc,
            Mnemonic::Rdtscp => Self::Rdtscp,
            Mnemonic::Cpuid => Self::Cpuid,
            Mnemonic::Rdrand => Self::Rdrand,
            Mnemonic::Rdseed => Self::Rdseed,
            Mnemonic::Rdpid => Self::Rdpid,
            Mnemonic::Xbegin => Self::Xbegin,
            Mnemonic::Xsavec | Mnemonic::Xsavec64 => Self::Xsavec,
            Mnemonic::Fnstenv | Mnemonic::Fnsave if is_wide(instruction) => Self::Fnstenv,
            Mnemonic::Lsl if instruction.op1_kind() == OpKind::Register => Self::Lsl,
            _ => return None,
        })
    }
}

/// Does it store the x87 environment in 28 bytes (not in the 14 of real mode)?
fn is_wide(it: &Instruction) -> bool {
    matches!(it.code(), Code::Fnstenv_m28byte | Code::Fnsave_m108byte)
}

/// Does it ask the processor for what no recording can know, and what nothing can make a fault?
#[must_use]
pub fn is_chance(kind: SiteKind) -> bool {
    use SiteKind::{Fnstenv, Lsl, Rdpid, Rdrand, Rdseed, Xbegin, Xsavec};
    matches!(kind, Rdrand | Rdseed | Rdpid | Xbegin | Xsavec | Lsl | Fnstenv)
}

/// Is it one that can be told for sure by [`crate::Text::chance_at`]?
pub(crate) fn is_sought(kind: SiteKind) -> bool {
    is_chance(kind) || kind == SiteKind::Cpuid
}

/// `hlt`, and `nop`s up to the length of the instruction whose place it takes: a general protection fault for
/// a program, as `rdtsc` is where it is not allowed. None for other instructions.
#[must_use]
pub fn clock_fault(kind: SiteKind) -> Option<&'static [u8]> {
    match kind {
        SiteKind::Rdtsc => Some(&[0xf4, 0x90]),
        SiteKind::Rdtscp => Some(&[0xf4, 0x90, 0x90]),
        _ => None,
    }
}

/// Why a site is left alone. The discriminants are stored in the cache: never reuse one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, thiserror::Error)]
#[repr(u8)]
pub enum Reason {
    /// Nothing executable in the file at that address, or another instruction.
    #[error("no such instruction at this address of the file")]
    NotASite = 1,
    /// The instructions of the function around it cannot be told: some bytes decode to nothing, decoding does
    /// not arrive at the site, or two functions claim it.
    #[error("the instructions around it cannot be told with certainty")]
    Undecoded = 2,
    /// A jump or call enters the bytes that the patch would take.
    #[error("a branch leads between the instructions that would move")]
    Branch = 3,
    /// A symbol, relocation, pointer, table or landing pad names an address among those bytes.
    #[error("a pointer leads between the instructions that would move")]
    Pointer = 4,
    /// The function jumps to addresses that it computes, in a way that is not understood.
    #[error("the function jumps to addresses that cannot be told")]
    JumpTable = 5,
    /// An instruction beside the site cannot be moved: a call, `loop`, `endbr64`, another site, x87, ...
    #[error("an instruction beside it cannot be moved")]
    Unmovable = 6,
    /// The function ends before there are enough bytes.
    #[error("too few bytes around it")]
    TooShort = 7,
    /// It returns from a signal handler; unwinders recognise such code by its bytes.
    #[error("it returns from a signal handler, which others recognise by its bytes")]
    Sigreturn = 8,
    /// The `syscall` has prefixes, and the kernel would restart it in its middle.
    #[error("the instruction has prefixes")]
    Prefixed = 9,
    /// Of the dense text only: another patch has the bytes that this one would need.
    #[error("another patch takes the bytes that it would need")]
    Taken = 10,
}

impl Reason {
    /// Every reason.
    pub const ALL: [Self; 10] = [
        Self::NotASite,
        Self::Undecoded,
        Self::Branch,
        Self::Pointer,
        Self::JumpTable,
        Self::Unmovable,
        Self::TooShort,
        Self::Sigreturn,
        Self::Prefixed,
        Self::Taken,
    ];
}

/// Whole instructions that may move together, with a site among them. Addresses are the file's own (add the
/// bias).
///
/// Runs of one file may overlap one another. [`Run::matches`] keeps that harmless: once one is patched, the
/// other's bytes are no longer there.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Run {
    pub(crate) start: u64,
    pub(crate) site: u64,
    pub(crate) kind: SiteKind,
    pub(crate) bytes: Bytes,
}

/// Up to [`Run::MAX`] bytes, in place.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Bytes {
    len: u8,
    bytes: [u8; Run::MAX],
}

impl Run {
    /// The most bytes a run has. Room for the worst: an instruction of 15 bytes before the site, one of 15
    /// after it.
    pub const MAX: usize = 32;

    /// Checks shape alone: lengths, and that the instructions are whole with the site among them.
    pub(crate) fn new(start: u64, site: u64, kind: SiteKind, bytes: &[u8]) -> Option<Self> {
        let len = u8::try_from(bytes.len()).ok()?;
        if !(JUMP..=Self::MAX).contains(&bytes.len()) {
            return None;
        }
        start.checked_add(u64::from(len))?;
        let mut kept = [0; Self::MAX];
        kept[..bytes.len()].copy_from_slice(bytes);
        let run = Self { start, site, kind, bytes: Bytes { len, bytes: kept } };
        let instructions = run.instructions();
        let whole = instructions.iter().all(|it| !it.is_invalid());
        let placed = instructions.iter().any(|it| it.ip() == site && SiteKind::of(it) == Some(kind));
        (whole && placed).then_some(run)
    }

    /// Address of the first byte.
    #[must_use]
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Number of bytes, 5 to [`Run::MAX`].
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "a run is never empty")]
    pub fn len(&self) -> u8 {
        self.bytes.len
    }

    /// Address just after the last byte.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.start + u64::from(self.bytes.len)
    }

    /// Address of the instruction that the run is about.
    #[must_use]
    pub fn site(&self) -> u64 {
        self.site
    }

    /// What that instruction is.
    #[must_use]
    pub fn kind(&self) -> SiteKind {
        self.kind
    }

    /// The bytes in the file.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes.bytes[..usize::from(self.bytes.len)]
    }

    /// Whether `memory` (read at the run's start) begins with the bytes that the analysis saw. Patch only
    /// then.
    #[must_use]
    pub fn matches(&self, memory: &[u8]) -> bool {
        memory.starts_with(self.bytes())
    }

    /// The destination of the site's instruction; none for kinds without a choice of it.
    #[must_use]
    pub fn operand(&self) -> Option<Operand> {
        use SiteKind::{Lsl, Rdpid, Rdrand, Rdseed};
        if !matches!(self.kind, Rdrand | Rdseed | Rdpid | Lsl) {
            return None;
        }
        let site = self.instructions().into_iter().find(|it| it.ip() == self.site)?;
        let register: Register = (site.op0_kind() == OpKind::Register).then(|| site.op0_register())?;
        Some(Operand { register: register.full_register().number() as u8, width: register.size() as u8 })
    }

    /// The run's instructions, with the file's addresses.
    pub(crate) fn instructions(&self) -> Vec<Instruction> {
        Decoder::with_ip(64, self.bytes(), self.start, DecoderOptions::NONE).into_iter().collect()
    }
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} {:#x} in run {:#x}:", self.kind, self.site, self.start)?;
        self.bytes().iter().try_for_each(|byte| write!(f, " {byte:02x}"))
    }
}
