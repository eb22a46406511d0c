//! The frame that the kernel writes to the stack when it calls a signal's handler: which part of memory it
//! is, and what of the interrupted program is in it (`arch/x86/include/asm/sigframe.h`).

use bis_trace::types::{Addr, Registers};

use crate::{error::Result, memory::Memory, ticks::TRAP_FLAG};

/// Bytes of what FXSAVE saves.
const FXSAVE_LEN: u64 = 512;

/// The last 48 bytes of that are software's: a magic word, then the length of all that was saved (`struct
/// _fpx_sw_bytes`), with what lies in front of it in a 32-bit frame.
const SW_AT: u64 = 464;
const FP_XSTATE_MAGIC1: u32 = 0x4650_5853;

/// More than any processor saves, bytes.
const STATE_LEN_MAX: u64 = 64 * 1024;

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

/// Of a 32-bit program whose handler takes no siginfo: the way back, the signal, sigcontext 88, room for a
/// state that is not used (`struct _fpstate_32`), the rest of the mask 4, code 8.
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
            let least = legacy_len + FXSAVE_LEN;
            let len = if magic == FP_XSTATE_MAGIC1 {
                let len = self.memory.read_u32(saved + SW_AT + 4).unwrap_or(0);
                u64::from(len).clamp(least, STATE_LEN_MAX)
            } else {
                least
            };
            ranges.push((state, len));
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
        if kept ^ eflags == TRAP_FLAG {
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

#[cfg(test)]
mod tests {
    use std::{
        arch::asm,
        mem::{offset_of, size_of},
        ptr,
        sync::atomic::{AtomicU64, Ordering},
    };

    use super::*;

    /// `struct sigcontext_32` (`asm/sigcontext.h`).
    #[repr(C)]
    struct NarrowContext {
        segments: [u32; 4],
        registers: [u32; 11],
        cs: u32,
        flags: u32,
        sp_at_signal: u32,
        ss: u32,
        state: u32,
        oldmask: u32,
        cr2: u32,
    }

    /// `struct ucontext_ia32` (`asm/sigframe.h`, `asm/ia32.h`).
    #[repr(C)]
    struct NarrowUcontext {
        flags: u32,
        link: u32,
        stack: [u32; 3],
        context: NarrowContext,
        mask: [u32; 2],
    }

    /// `struct rt_sigframe_ia32`.
    #[repr(C)]
    struct NarrowFrame {
        way_back: u32,
        signal: u32,
        info_at: u32,
        ucontext_at: u32,
        info: [u8; 128],
        ucontext: NarrowUcontext,
        code: [u8; 8],
    }

    /// `struct _fpstate_32`.
    #[repr(C)]
    struct NarrowState {
        environment: [u32; 7],
        stack: [[u16; 5]; 8],
        status_and_magic: [u16; 2],
        fxsave: [u32; 128],
    }

    /// `struct sigframe_ia32`.
    #[repr(C)]
    struct NarrowPlainFrame {
        way_back: u32,
        signal: u32,
        context: NarrowContext,
        unused: NarrowState,
        mask: u32,
        code: [u8; 8],
    }

    /// What ends the state, where more is saved than FXSAVE does (`FP_XSTATE_MAGIC2`).
    const FP_XSTATE_MAGIC2: u32 = 0x4650_5845;

    const PAGES: usize = 16 * 4096;

    #[test]
    fn layouts_are_those_of_the_kernels_structures() {
        let bytes = |offset: usize| offset as u64;
        let context = offset_of!(libc::ucontext_t, uc_mcontext);
        let flags = usize::try_from(libc::REG_EFL).unwrap() * 8;
        // The C library's mask is longer than the kernel's 8 bytes; it is the last.
        let ucontext_len = offset_of!(libc::ucontext_t, uc_sigmask) + 8;
        let expected = Layout {
            len: bytes(8 + ucontext_len + size_of::<libc::siginfo_t>()),
            state_at: bytes(8 + context + offset_of!(libc::mcontext_t, fpregs)),
            legacy_len: 0,
            flags_at: bytes(8 + context + offset_of!(libc::mcontext_t, gregs) + flags),
            stack_at: Some(bytes(8 + offset_of!(libc::ucontext_t, uc_stack))),
            word: 8,
        };
        assert_eq!(WIDE, expected);

        let context = offset_of!(NarrowFrame, ucontext) + offset_of!(NarrowUcontext, context);
        let legacy_len = bytes(offset_of!(NarrowState, fxsave));
        let expected = Layout {
            len: bytes(size_of::<NarrowFrame>()),
            state_at: bytes(context + offset_of!(NarrowContext, state)),
            legacy_len,
            flags_at: bytes(context + offset_of!(NarrowContext, flags)),
            stack_at: Some(bytes(offset_of!(NarrowFrame, ucontext) + offset_of!(NarrowUcontext, stack))),
            word: 4,
        };
        assert_eq!(NARROW, expected);

        let context = offset_of!(NarrowPlainFrame, context);
        let expected = Layout {
            len: bytes(size_of::<NarrowPlainFrame>()),
            state_at: bytes(context + offset_of!(NarrowContext, state)),
            legacy_len,
            flags_at: bytes(context + offset_of!(NarrowContext, flags)),
            stack_at: None,
            word: 4,
        };
        assert_eq!(NARROW_PLAIN, expected);
    }

    /// Memory below 4 GiB, for good, which children share.
    fn low_memory() -> Addr {
        let prot = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_32BIT;
        // SAFETY: new memory, where the kernel has room.
        let mapped = unsafe { libc::mmap(ptr::null_mut(), PAGES, prot, flags, -1, 0) };
        assert_ne!(mapped, libc::MAP_FAILED);
        Addr(mapped.addr() as u64)
    }

    fn own_memory() -> Memory {
        Memory::open(crate::ours::thread_id()).unwrap()
    }

    fn narrow(sp: Addr) -> Registers {
        Registers { rsp: sp.0, ..Registers::default() }.narrow()
    }

    fn wide(sp: Addr) -> Registers {
        Registers { rsp: sp.0, ..Registers::default() }.wide()
    }

    fn put(memory: &Memory, at: Addr, word: u64) {
        memory.write(at, &u32::try_from(word).unwrap().to_le_bytes()).unwrap();
    }

    /// Makes the frame at `at` one whose handler takes a siginfo.
    fn point_to_what_follows(memory: &Memory, at: Addr) {
        put(memory, at + 8, at.0 + 16);
        put(memory, at + 12, at.0 + 144);
    }

    #[test]
    fn a_32_bit_frame_with_a_siginfo_points_to_it_and_to_the_context() {
        let (memory, at) = (own_memory(), low_memory());
        let layout = |regs: &Registers| Frame::new(&memory, regs).layout;
        assert_eq!(layout(&narrow(at)), NARROW_PLAIN);
        point_to_what_follows(&memory, at);
        assert_eq!(layout(&narrow(at)), NARROW);
        assert_eq!(layout(&wide(at)), WIDE, "whatever lies there");
        // In a plain frame there are registers, of which one may look right.
        put(&memory, at + 12, at.0 + 140);
        assert_eq!(layout(&narrow(at)), NARROW_PLAIN);
        assert_eq!(layout(&narrow(Addr(0x10))), NARROW_PLAIN, "nothing can be read there");
    }

    #[test]
    fn the_state_is_as_long_as_it_says_within_reason() {
        let (memory, at) = (own_memory(), low_memory());
        let state = at + 4096;
        for (regs, layout) in [(wide(at), WIDE), (narrow(at), NARROW), (narrow(at), NARROW_PLAIN)] {
            memory.write(at, &[0; PAGES]).unwrap();
            if layout == NARROW {
                point_to_what_follows(&memory, at);
            }
            let frame = Frame::new(&memory, &regs);
            assert_eq!(frame.layout, layout);
            let whole = (at, layout.len);
            assert_eq!(frame.ranges(), [whole], "no state");
            put(&memory, at + layout.state_at, state.0);
            let legacy_len = layout.legacy_len;
            assert_eq!(frame.ranges(), [whole, (state, legacy_len + 512)], "it says nothing of more");
            let words_at = state + legacy_len + SW_AT;
            put(&memory, words_at, FP_XSTATE_MAGIC1.into());
            // What is said begins where the frame says that the state does, in front of what FSAVE saves.
            for (said, len) in [(legacy_len + 2700, legacy_len + 2700), (0, legacy_len + 512)] {
                put(&memory, words_at + 4, said);
                assert_eq!(frame.ranges(), [whole, (state, len)], "it says {said}");
            }
            put(&memory, words_at + 4, u32::MAX.into());
            assert_eq!(frame.ranges(), [whole, (state, STATE_LEN_MAX)]);
        }
    }

    #[test]
    fn flags_become_what_they_were_if_a_step_is_all_that_is_different() {
        let (memory, at) = (own_memory(), low_memory());
        for (regs, layout) in [(wide(at), WIDE), (narrow(at), NARROW), (narrow(at), NARROW_PLAIN)] {
            memory.write(at, &[0; PAGES]).unwrap();
            if layout == NARROW {
                point_to_what_follows(&memory, at);
            }
            let frame = Frame::new(&memory, &regs);
            assert_eq!(frame.layout, layout);
            // What lies behind a word of 4 bytes is another one.
            let flags_at = at + layout.flags_at;
            let high = if layout.word == 8 { 0 } else { 0x1234_5678 << 32 };
            for (kept, eflags, then) in [
                (0x346, 0x246, 0x246),
                (0x246, 0x346, 0x346),
                (0x246, 0x246, 0x246),
                // The program's own are others: nobody's step.
                (0x346, 0x247, 0x346),
            ] {
                memory.write(flags_at, &u64::to_le_bytes(high | kept)).unwrap();
                frame.restore_flags(eflags).unwrap();
                assert_eq!(memory.read_u64(flags_at).unwrap(), high | then, "{kept:#x}, {eflags:#x}");
            }
        }
        assert!(Frame::new(&memory, &wide(Addr(0x10))).restore_flags(0).is_err());
    }

    #[test]
    fn a_frame_lies_on_the_alternate_stack_that_it_names() {
        let (memory, begin) = (own_memory(), low_memory());
        let at = begin + 0x1000;
        for (regs, layout) in [(wide(at), WIDE), (narrow(at), NARROW)] {
            memory.write(begin, &[0; PAGES]).unwrap();
            if layout == NARROW {
                point_to_what_follows(&memory, at);
            }
            let frame = Frame::new(&memory, &regs);
            let stack_at = at + layout.stack_at.unwrap();
            assert!(!frame.is_on_alternate_stack(), "there is none");
            for (start, len, is_on_it) in [
                (at.0, 1, true),
                (at.0 - 0x800, 0x801, true),
                (at.0 - 0x800, 0x800, false),
                (at.0 + 1, 0x1000, false),
            ] {
                put(&memory, stack_at, start);
                put(&memory, stack_at + 2 * layout.word, len);
                assert_eq!(frame.is_on_alternate_stack(), is_on_it, "{start:#x}, {len:#x}");
            }
        }
        // A plain one does not say.
        assert!(!Frame::new(&memory, &narrow(begin)).is_on_alternate_stack());
    }

    /// What holds for a frame that the kernel has written to an alternate stack which ends at `top`.
    fn check_of_kernel(memory: &Memory, frame: &Frame<'_>, top: Addr) {
        let Layout { len, legacy_len, flags_at, stack_at, .. } = frame.layout;
        let ranges = frame.ranges();
        assert_eq!(ranges[0], (frame.at, len));
        let (state, state_len) = ranges[1];
        assert!(frame.at + len <= state && state + state_len <= top, "{ranges:?}, the stack ends at {top}");
        let magic = memory.read_u32(state + legacy_len + SW_AT).unwrap();
        if magic == FP_XSTATE_MAGIC1 {
            assert_eq!(memory.read_u32(state + state_len - 4).unwrap(), FP_XSTATE_MAGIC2, "{ranges:?}");
        } else {
            assert_eq!(state_len, legacy_len + FXSAVE_LEN);
        }
        assert_eq!(frame.is_on_alternate_stack(), stack_at.is_some());
        // Bit 1 is always set, interrupts are on, nobody steps.
        let flags = frame.word(flags_at).unwrap();
        assert_eq!(flags & (2 | 0x200 | TRAP_FLAG), 2 | 0x200, "{flags:#x}");
        frame.restore_flags(flags ^ TRAP_FLAG).unwrap();
        assert_eq!(frame.word(flags_at).unwrap(), flags ^ TRAP_FLAG);
    }

    #[test]
    fn the_kernel_writes_such_a_frame() {
        static UCONTEXT: AtomicU64 = AtomicU64::new(0);
        extern "C" fn handler(_: libc::c_int, _: *mut libc::siginfo_t, ucontext: *mut libc::c_void) {
            UCONTEXT.store(ucontext.addr() as u64, Ordering::Relaxed);
        }
        let (memory, stack) = (own_memory(), low_memory());
        let action = libc::sigaction {
            sa_sigaction: handler as *const () as usize,
            // SAFETY: no signals.
            sa_mask: unsafe { std::mem::zeroed() },
            sa_flags: libc::SA_SIGINFO | libc::SA_ONSTACK,
            sa_restorer: None,
        };
        let ss_sp = ptr::with_exposed_provenance_mut(usize::try_from(stack.0).unwrap());
        let alternate = libc::stack_t { ss_sp, ss_flags: 0, ss_size: PAGES };
        // SAFETY: all three are values of ours; the handler only stores a number. Nobody else in these tests
        // uses this signal, and the thread's alternate stack is put back.
        unsafe {
            let (mut old_action, mut old_stack) = (std::mem::zeroed(), std::mem::zeroed());
            assert_eq!(libc::sigaction(libc::SIGXFSZ, &raw const action, &raw mut old_action), 0);
            assert_eq!(libc::sigaltstack(&raw const alternate, &raw mut old_stack), 0);
            assert_eq!(libc::raise(libc::SIGXFSZ), 0);
            assert_eq!(libc::sigaltstack(&raw const old_stack, ptr::null_mut()), 0);
            assert_eq!(libc::sigaction(libc::SIGXFSZ, &raw const old_action, ptr::null_mut()), 0);
        }
        // What the handler left there is below the frame.
        let at = Addr(UCONTEXT.load(Ordering::Relaxed)) - 8;
        let frame = Frame::new(&memory, &wide(at));
        check_of_kernel(&memory, &frame, stack + PAGES as u64);
    }

    /// A child sets a handler as 32-bit programs do, and sends itself the signal. The handler writes where
    /// its frame is, and ends the child. None where the kernel has no such calls.
    fn narrow_frame(memory: &Memory, flags: u32) -> Option<(Addr, Addr)> {
        const STACK_AT: u64 = 4096;
        let low = low_memory();
        let (said_at, action_at, code_at) = (low, low + 0x100, low + 0x200);
        let low_word = |addr: Addr| u32::try_from(addr.0).unwrap().to_le_bytes();
        // mov [said_at], esp; xor ebx, ebx; mov eax, 1 (exit); int 0x80
        let code = [&[0x89, 0x25][..], &low_word(said_at), &[0x31, 0xdb, 0xb8, 1, 0, 0, 0, 0xcd, 0x80]];
        memory.write(code_at, &code.concat()).unwrap();
        let flags = flags | libc::SA_ONSTACK.cast_unsigned();
        let action = [&low_word(code_at)[..], &flags.to_le_bytes(), &[0; 12]].concat();
        memory.write(action_at, &action).unwrap();
        let ss_sp = ptr::with_exposed_provenance_mut(usize::try_from((low + STACK_AT).0).unwrap());
        let ss_size = PAGES - usize::try_from(STACK_AT).unwrap();
        let alternate = libc::stack_t { ss_sp, ss_flags: 0, ss_size };
        // SAFETY: the child makes system calls and nothing else.
        let status = unsafe {
            let child = libc::fork();
            assert!(child >= 0);
            if child == 0 {
                let mut result: u64 = 174; // rt_sigaction
                asm!(
                    "xchg rbx, {signal}", "int 0x80", "xchg rbx, {signal}",
                    signal = inout(reg) u64::from(libc::SIGUSR1.cast_unsigned()) => _,
                    inout("rax") result, in("rcx") action_at.0, in("rdx") 0, in("rsi") 8,
                    out("r8") _, out("r9") _, out("r10") _, out("r11") _,
                );
                if result == 0 && libc::sigaltstack(&raw const alternate, ptr::null_mut()) == 0 {
                    libc::raise(libc::SIGUSR1);
                }
                libc::_exit(1);
            }
            let mut status = 0;
            assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
            status
        };
        let at = Addr(memory.read_u32(said_at).unwrap().into());
        (status == 0 && !at.is_null()).then_some((at, low + PAGES as u64))
    }

    #[test]
    fn the_kernel_writes_such_frames_to_32_bit_programs() {
        let memory = own_memory();
        for (flags, layout) in [(libc::SA_SIGINFO.cast_unsigned(), NARROW), (0, NARROW_PLAIN)] {
            let Some((at, top)) = narrow_frame(&memory, flags) else {
                eprintln!("not tested: this kernel runs no 32-bit programs");
                return;
            };
            let frame = Frame::new(&memory, &narrow(at));
            assert_eq!(frame.layout, layout);
            assert_eq!(memory.read_u32(at + 4).unwrap(), libc::SIGUSR1.cast_unsigned());
            check_of_kernel(&memory, &frame, top);
        }
    }
}
