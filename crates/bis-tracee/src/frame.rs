//! The frame that the kernel writes to the stack when it calls a signal's handler: which part of memory it
//! is, and what of the interrupted program is in it (`arch/x86/include/asm/sigframe.h`).

use bis_trace::types::{Addr, Registers};

use crate::{error::Result, memory::Memory};

/// Bytes of what FXSAVE saves.
const FXSAVE_LEN: u64 = 512;

/// The last 48 bytes of that are software's: a magic word, then the length of all that was saved (`struct
/// _fpx_sw_bytes`).
const SW_AT: u64 = 464;
const FP_XSTATE_MAGIC1: u32 = 0x4650_5853;

/// More than any processor saves, bytes.
const STATE_LEN_MAX: u64 = 64 * 1024;

/// The trap flag.
const TRAP: u64 = 0x100;

/// Where things are in a frame, bytes from its begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Layout {
    len: u64,
    /// A pointer to the extended state.
    state_at: u64,
    /// What lies in front of what FXSAVE saves there: the state as older processors had it.
    legacy_len: u64,
    /// The program's flags.
    flags_at: u64,
    /// Its alternate stack (`stack_t`: address, flags, size), where the frame says that.
    stack_at: Option<u64>,
    /// Bytes of a word.
    word: u64,
}

/// Of a 64-bit program: the way back (8 bytes), ucontext (flags 8, link 8, stack 24, sigcontext 256, mask 8),
/// siginfo 128. In sigcontext, 17 words lie in front of the flags and 23 in front of the state's address.
const WIDE: Layout = Layout {
    len: 8 + 304 + 128,
    state_at: 8 + 8 + 8 + 24 + 23 * 8,
    legacy_len: 0,
    flags_at: 8 + 8 + 8 + 24 + 17 * 8,
    stack_at: Some(8 + 8 + 8),
    word: 8,
};

/// Bytes of what FSAVE saves, which a 32-bit program finds in front of the rest (`struct fregs_state`).
const FSAVE_LEN: u64 = 112;

/// Of a 32-bit program whose handler takes a siginfo: the way back, the signal, pointers to what follows (4
/// bytes each), siginfo 128, ucontext (flags 4, link 4, stack 12, sigcontext 88, mask 8), code 8.
const NARROW: Layout = Layout {
    len: 16 + 128 + 116 + 8,
    state_at: 16 + 128 + 20 + 76,
    legacy_len: FSAVE_LEN,
    flags_at: 16 + 128 + 20 + 64,
    stack_at: Some(16 + 128 + 8),
    word: 4,
};

/// The same where it takes none: the way back, the signal, sigcontext 88, room for a state that is not used
/// (`struct _fpstate_32`), the rest of the mask 4, code 8.
const NARROW_PLAIN: Layout = Layout {
    len: 8 + 88 + (FSAVE_LEN + FXSAVE_LEN) + 4 + 8,
    state_at: 8 + 76,
    legacy_len: FSAVE_LEN,
    flags_at: 8 + 64,
    stack_at: None,
    word: 4,
};

/// The frame of a handler that is about to execute its first instruction.
pub struct Frame<'a> {
    memory: &'a Memory,
    at: Addr,
    layout: Layout,
}

impl Frame<'_> {
    /// The frame of the handler that begins with these registers.
    pub fn new<'a>(memory: &'a Memory, regs: &Registers) -> Frame<'a> {
        let at = regs.sp();
        let pointer = |offset| memory.read_u32(at + offset).map_or(0, u64::from);
        let layout = if !regs.is_narrow() {
            WIDE
        } else if pointer(8) == at.0 + 16 && pointer(12) == at.0 + 16 + 128 {
            NARROW
        } else {
            NARROW_PLAIN
        };
        Frame { memory, at, layout }
    }

    fn word(&self, offset: u64) -> Result<u64> {
        let at = self.at + offset;
        if self.layout.word == 8 { self.memory.read_u64(at) } else { self.memory.read_u32(at).map(u64::from) }
    }

    /// The ranges (address, length) that the kernel wrote: the frame, and the extended state that it points
    /// to.
    pub fn ranges(&self) -> Vec<(Addr, u64)> {
        let Layout { len, state_at, legacy_len, .. } = self.layout;
        let mut ranges = vec![(self.at, len)];
        let state = Addr(self.word(state_at).unwrap_or_default());
        if !state.is_null() {
            let saved = state + legacy_len;
            let magic = self.memory.read_u32(saved + SW_AT).unwrap_or(0);
            let len = if magic == FP_XSTATE_MAGIC1 {
                let len = self.memory.read_u32(saved + SW_AT + 4).unwrap_or(0);
                u64::from(len).clamp(FXSAVE_LEN, STATE_LEN_MAX)
            } else {
                FXSAVE_LEN
            };
            ranges.push((state, legacy_len + len));
        }
        ranges
    }

    /// The flags that the frame keeps for the interrupted program: makes them `eflags` again if the trap flag
    /// is all that is different.
    ///
    /// A signal is delivered under a single step. The kernel takes the step's trap flag out again before it
    /// builds the frame, but not where the next instruction looks like one that sets the flags (popf, iret):
    /// it thinks that the program will want it. It looks at the bytes behind the instruction pointer, which
    /// are anything at all where a jump to a trampoline has taken the place of instructions.
    ///
    /// # Errors
    /// Where the frame cannot be written.
    pub fn restore_flags(&self, eflags: u64) -> Result<()> {
        let Layout { flags_at, word, .. } = self.layout;
        let kept = self.word(flags_at)?;
        if kept ^ eflags == TRAP {
            let bytes = eflags.to_le_bytes();
            let len = usize::try_from(word).unwrap_or(bytes.len());
            self.memory.write(self.at + flags_at, &bytes[..len])?;
        }
        Ok(())
    }

    /// Does it lie on an alternate stack (sigaltstack)? The frame says where the task has one.
    pub fn is_on_alternate_stack(&self) -> bool {
        let Layout { stack_at: Some(at), word, .. } = self.layout else { return false };
        let of = |index| self.word(at + index * word).unwrap_or(0);
        self.at.checked_since(Addr(of(0))).is_some_and(|offset| offset < of(2))
    }
}
