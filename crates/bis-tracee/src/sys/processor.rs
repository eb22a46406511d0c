//! What the processor itself says: `cpuid`, chance, its time stamp counter.

use crate::modes;

/// The processor's own answer to `cpuid`; (eax, ebx, ecx, edx).
pub fn cpuid(leaf: u32, subleaf: u32) -> [u32; 4] {
    #[allow(unused_unsafe, reason = "safe in newer compilers")]
    // SAFETY: every x86-64 processor has cpuid.
    let r = unsafe { core::arch::x86_64::__cpuid_count(leaf, subleaf) };
    [r.eax, r.ebx, r.ecx, r.edx]
}

/// A number from the processor; none if it has none now. It must have the instruction.
pub fn rdrand() -> Option<u64> {
    let (number, given): (u64, u8);
    // SAFETY: writes two registers and the flags, and nothing else.
    unsafe {
        std::arch::asm!("rdrand {0}", "setc {1}", out(reg) number, out(reg_byte) given, options(nomem, nostack));
    }
    (given != 0).then_some(number)
}

/// A number from what the processor makes random numbers of; none if there is none now.
pub fn rdseed() -> Option<u64> {
    let (number, given): (u64, u8);
    // SAFETY: as for `rdrand`.
    unsafe {
        std::arch::asm!("rdseed {0}", "setc {1}", out(reg) number, out(reg_byte) given, options(nomem, nostack));
    }
    (given != 0).then_some(number)
}

/// Does an `fxsave` leave out where the last x87 instruction was, while no exception is pending? AMD's
/// processors do, and so the kernel loses it.
pub fn is_x87_place_lost() -> bool {
    #[repr(C, align(16))]
    struct Area([u8; 512]);
    let mut area = Area([0; 512]);
    // SAFETY: pushes a number on the empty x87 stack and pops it; writes the area, which has the room, and
    // nothing else.
    unsafe {
        std::arch::asm!("fld1", "fstp st(0)", "fxsave64 [{0}]", in(reg) &raw mut area, options(nostack),
            out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
            out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _);
    }
    area.0[8..16] == [0; 8]
}

/// The limit of a segment, by its selector; none where there is no such segment.
pub fn lsl(selector: u16) -> Option<u32> {
    let (limit, found): (u32, u8);
    // SAFETY: writes two registers and the flags, and nothing else.
    unsafe {
        std::arch::asm!("lsl {0:e}, {2:e}", "setz {1}", out(reg) limit, out(reg_byte) found,
            in(reg) u32::from(selector), options(nomem, nostack));
    }
    (found != 0).then_some(limit)
}

/// The processor's time stamp counter.
pub fn rdtsc() -> u64 {
    // SAFETY: every x86-64 processor has rdtsc; where it faults in this thread, `modes.rs` executes it.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// The time stamp counter and CLOCK_MONOTONIC_RAW, read at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BothClocks {
    pub counter: u64,
    /// Nanoseconds.
    pub clock: u64,
    /// Within how much of the counter they were read.
    pub width: u64,
}

/// Both clocks, as close together as some tries have them.
pub fn both_clocks() -> BothClocks {
    /// Something may come between two of them.
    const TRIES: usize = 4;
    let read = || {
        let before = rdtsc();
        let time = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicRaw);
        let width = rdtsc().saturating_sub(before);
        let [seconds, nanoseconds] = [time.tv_sec, time.tv_nsec].map(|part| u64::try_from(part).unwrap_or(0));
        BothClocks { counter: before + width / 2, clock: seconds * 1_000_000_000 + nanoseconds, width }
    };
    let first = read();
    (1..TRIES).map(|_| read()).fold(first, |best, it| if it.width < best.width { it } else { best })
}

/// The time stamp counter and IA32_TSC_AUX.
pub fn rdtscp() -> (u64, u32) {
    let mut aux = 0;
    // SAFETY: only called in answer to a rdtscp that the processor has faulted on, so it has the instruction.
    let tsc = unsafe { core::arch::x86_64::__rdtscp(&raw mut aux) };
    (tsc, aux)
}

/// May this process turn cpuid into a fault? Asks the kernel without changing anything that lasts.
pub fn has_cpuid_faulting() -> bool {
    if modes::is_cpuid_faulting() {
        return true;
    }
    // SAFETY: plain numbers; faulting is turned off again before the next cpuid can be executed here.
    unsafe {
        let off = libc::syscall(libc::SYS_arch_prctl, modes::ARCH_SET_CPUID, 0i64);
        if off != 0 {
            return false;
        }
        libc::syscall(libc::SYS_arch_prctl, modes::ARCH_SET_CPUID, 1i64) == 0
    }
}
