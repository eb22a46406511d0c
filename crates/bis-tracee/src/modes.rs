//! Supervisor threads let `cpuid`, and `rdtsc` and `rdtscp`, fault for themselves where they do for their
//! tasks.
//!
//! Why: supervisor and task take turns on one core, and whether such an instruction faults is a bit of a
//! register of the processor, which the kernel writes whenever two threads that differ in it take turns: of a
//! model specific register for `cpuid`, of CR4 for the counter. In a virtual machine that write goes to the
//! host: 5 to 7 µs, twice for a stop that costs 3 to 8 µs without it. Where both have the same mode, nothing
//! is written.
//!
//! The price is that such an instruction of our own faults too (feature detection of libraries, our answer to
//! a task's, and every look at the clock, for which the C library reads the counter): the handler here makes
//! it with the fault turned off. So a supervisor should not look at the clock at each stop. A fault of any
//! other kind goes where it went before.

use std::{mem, ptr, sync::OnceLock};

/// `arch_prctl`: does `cpuid` fault (0: it does), and shall it.
pub const ARCH_GET_CPUID: u64 = 0x1011;
pub const ARCH_SET_CPUID: u64 = 0x1012;

/// Bytes of `cpuid`, `rdtsc`, and `rdtscp`.
const CPUID: [u8; 2] = [0x0f, 0xa2];
const RDTSC: [u8; 2] = [0x0f, 0x31];
const RDTSCP: [u8; 3] = [0x0f, 0x01, 0xf9];

/// The handler of SIGSEGV before ours: the standard library's, which knows stack overflows.
static BEFORE: OnceLock<Option<libc::sigaction>> = OnceLock::new();

/// Async-signal-safe. Fails where the processor cannot do it.
fn set_cpuid_faulting(faulting: bool) -> bool {
    // SAFETY: plain numbers; changes the calling thread only. The handler below stands before the first
    // fault.
    unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_SET_CPUID, i64::from(!faulting)) == 0 }
}

/// Does `cpuid` fault in the calling thread?
pub fn is_cpuid_faulting() -> bool {
    // SAFETY: plain numbers.
    unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_GET_CPUID, 0i64) == 0 }
}

/// Async-signal-safe.
fn set_counter_faulting(faulting: bool) {
    let mode = if faulting { libc::PR_TSC_SIGSEGV } else { libc::PR_TSC_ENABLE };
    // SAFETY: plain numbers; as for `set_cpuid_faulting`.
    unsafe { libc::syscall(libc::SYS_prctl, libc::PR_SET_TSC, mode) };
}

/// Does the counter fault in the calling thread? Asks the kernel; async-signal-safe.
fn is_counter_faulting() -> bool {
    let mut mode = 0;
    // SAFETY: the kernel writes an int.
    let asked = unsafe { libc::syscall(libc::SYS_prctl, libc::PR_GET_TSC, &raw mut mode) };
    asked == 0 && mode == libc::PR_TSC_SIGSEGV
}

fn register(context: &mut libc::ucontext_t, index: libc::c_int) -> &mut i64 {
    &mut context.uc_mcontext.gregs[usize::try_from(index).unwrap_or(0)]
}

/// Executes the instruction at which the thread has faulted with the fault turned off, if it is one of those
/// that this file knows. Async-signal-safe.
///
/// # Safety
/// The instruction has raised a general protection fault by being executed: so it can be read, as many bytes
/// of it as it has.
unsafe fn execute(context: &mut libc::ucontext_t) -> bool {
    let at = *register(context, libc::REG_RIP);
    // SAFETY: no instruction that faults so is shorter than two bytes; a page may end after the first byte
    // only where the code itself would go on into the next.
    let begin = unsafe { ptr::read_unaligned(at as *const [u8; 2]) };
    // SAFETY: only instructions that begin as `rdtscp` does are read as far; they have three bytes.
    let is_rdtscp =
        begin == [RDTSCP[0], RDTSCP[1]] && unsafe { ptr::read_unaligned(at as *const [u8; 3]) } == RDTSCP;
    let halves = |value: u64| [value & 0xffff_ffff, value >> 32].map(u64::cast_signed);
    if begin == CPUID && is_cpuid_faulting() && set_cpuid_faulting(false) {
        let low = |value: i64| (value & 0xffff_ffff) as u32;
        let (leaf, subleaf) =
            (low(*register(context, libc::REG_RAX)), low(*register(context, libc::REG_RCX)));
        let [eax, ebx, ecx, edx] = crate::sys::cpuid(leaf, subleaf);
        set_cpuid_faulting(true);
        let results =
            [(libc::REG_RAX, eax), (libc::REG_RBX, ebx), (libc::REG_RCX, ecx), (libc::REG_RDX, edx)];
        for (index, value) in results {
            *register(context, index) = value.into();
        }
    } else if (begin == RDTSC || is_rdtscp) && is_counter_faulting() {
        set_counter_faulting(false);
        let (counter, aux) = if is_rdtscp {
            let (counter, aux) = crate::sys::rdtscp();
            (counter, Some(aux))
        } else {
            (crate::sys::rdtsc(), None)
        };
        set_counter_faulting(true);
        let [low, high] = halves(counter);
        (*register(context, libc::REG_RAX), *register(context, libc::REG_RDX)) = (low, high);
        if let Some(aux) = aux {
            *register(context, libc::REG_RCX) = aux.into();
        }
    } else {
        return false;
    }
    *register(context, libc::REG_RIP) = at + if is_rdtscp { 3 } else { 2 };
    true
}

extern "C" fn on_fault(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel gives valid pointers to a handler with SA_SIGINFO. What is no fault of an
    // instruction is not taken for one. The old handler gets what it would have got.
    unsafe {
        let errno = *libc::__errno_location();
        let is_ours = (*info).si_code == libc::SI_KERNEL && execute(&mut *context.cast());
        if !is_ours && let Some(Some(before)) = BEFORE.get() {
            if before.sa_flags & libc::SA_SIGINFO != 0 {
                let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                    mem::transmute(before.sa_sigaction);
                handler(signal, info, context);
            } else {
                // The default: the fault comes again and ends the process.
                libc::sigaction(signal, before, ptr::null_mut());
            }
        }
        *libc::__errno_location() = errno;
    }
}

/// True: the handler is there.
fn prepare() -> bool {
    let before = BEFORE.get_or_init(|| {
        // What the libraries look at is asked once, and here without a fault for each question.
        let _ = std::is_x86_feature_detected!("avx2");
        // SAFETY: the handler is async-signal-safe, and a sigaction of zeroes is a valid one.
        unsafe {
            let mut action: libc::sigaction = mem::zeroed();
            let mut before: libc::sigaction = mem::zeroed();
            action.sa_sigaction = on_fault as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            let set = libc::sigaction(libc::SIGSEGV, &raw const action, &raw mut before);
            (set == 0).then_some(before)
        }
    });
    before.is_some()
}

/// The calling thread is a supervisor of tasks for which `cpuid` faults: from now on it does for the thread
/// (and for threads that it starts) too. Where that cannot be, nothing changes.
pub fn cpuid_as_tasks() {
    if prepare() {
        set_cpuid_faulting(true);
    }
}

/// The calling thread is a supervisor of tasks for which `rdtsc` faults: from now on it does for the thread
/// (and for threads that it starts, and programs that it executes) too.
pub fn counter_as_tasks() {
    if prepare() {
        set_counter_faulting(true);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::sys;

    #[test]
    fn our_own_cpuid_works_while_it_faults() {
        if !sys::has_cpuid_faulting() {
            eprintln!("ignored: this processor has no cpuid faulting");
            return;
        }
        // Not the leaves that name the core.
        let leaves = [(0, 0), (7, 0), (13, 0), (0x8000_0002, 0)];
        let ask = move || leaves.map(|(leaf, subleaf)| sys::cpuid(leaf, subleaf));
        let expected = ask();
        let thread = std::thread::spawn(move || {
            cpuid_as_tasks();
            assert!(is_cpuid_faulting());
            assert_eq!(ask(), expected);
            assert!(sys::has_cpuid_faulting());
            assert!(is_cpuid_faulting(), "asking must not change it");
            std::thread::spawn(move || (is_cpuid_faulting(), ask())).join().unwrap()
        });
        assert_eq!(thread.join().unwrap(), (true, expected));
        assert!(!is_cpuid_faulting(), "only the thread that asked for it");
    }

    #[test]
    fn our_own_clock_works_while_the_counter_faults() {
        let thread = std::thread::spawn(|| {
            let before = Instant::now();
            counter_as_tasks();
            assert!(is_counter_faulting());
            let (first, counter) = (Instant::now(), sys::rdtsc());
            let (second, (later, _)) = (Instant::now(), sys::rdtscp());
            assert!(before <= first && first <= second && counter < later);
            assert!(is_counter_faulting(), "asking must not change it");
            // A thread that it starts has the mode, and can ask the clock all the same.
            let started = std::thread::spawn(|| (is_counter_faulting(), Instant::now()));
            let (faults, third) = started.join().unwrap();
            assert!(faults && second <= third);
        });
        thread.join().unwrap();
        assert!(!is_counter_faulting(), "only the thread that asked for it");
    }
}
