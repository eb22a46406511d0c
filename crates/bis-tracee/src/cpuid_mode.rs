//! Supervisor threads let `cpuid` fault for themselves, as it does for their tasks.
//!
//! Why: supervisor and task take turns on one core, and whether `cpuid` faults is a bit of a model specific
//! register, which the kernel writes whenever two threads that differ in it take turns. In a virtual machine
//! that write goes to the host: it was measured at 7 µs, 14 µs for a stop that costs 3 µs without it. Where
//! both have the same mode, nothing is written.
//!
//! The price is that a `cpuid` of our own faults too (feature detection of libraries; our answer to a
//! task's): the handler here makes it with the fault turned off. A fault of any other kind goes where it went
//! before.

use std::{mem, ptr, sync::OnceLock};

const ARCH_GET_CPUID: i64 = 0x1011;
const ARCH_SET_CPUID: i64 = 0x1012;

/// The handler of SIGSEGV before ours: the standard library's, which knows stack overflows.
static BEFORE: OnceLock<Option<libc::sigaction>> = OnceLock::new();

/// Async-signal-safe. Fails where the processor cannot do it.
fn set_faulting(faulting: bool) -> bool {
    // SAFETY: plain numbers; changes the calling thread only. The handler below stands before the first
    // fault.
    unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_SET_CPUID, i64::from(!faulting)) == 0 }
}

/// Does `cpuid` fault in the calling thread?
pub fn is_faulting() -> bool {
    // SAFETY: plain numbers.
    unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_GET_CPUID, 0i64) == 0 }
}

fn register(context: &mut libc::ucontext_t, index: libc::c_int) -> &mut i64 {
    &mut context.uc_mcontext.gregs[usize::try_from(index).unwrap_or(0)]
}

extern "C" fn on_fault(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel gives valid pointers to a handler with SA_SIGINFO. An instruction that has raised a
    // general protection fault by being executed can be read, two bytes of it (no faulting instruction is
    // shorter; a page may end after the first byte only where the code itself would go on into the next). The
    // old handler gets what it would have got.
    unsafe {
        let errno = *libc::__errno_location();
        let ours = &mut *context.cast::<libc::ucontext_t>();
        let at = *register(ours, libc::REG_RIP);
        let is_cpuid = (*info).si_code == libc::SI_KERNEL
            && is_faulting()
            && ptr::read_unaligned(at as *const [u8; 2]) == [0x0f, 0xa2];
        if is_cpuid && set_faulting(false) {
            let low = |value: i64| (value & 0xffff_ffff) as u32;
            let (leaf, subleaf) = (low(*register(ours, libc::REG_RAX)), low(*register(ours, libc::REG_RCX)));
            let [eax, ebx, ecx, edx] = crate::sys::cpuid(leaf, subleaf);
            set_faulting(true);
            let results =
                [(libc::REG_RAX, eax), (libc::REG_RBX, ebx), (libc::REG_RCX, ecx), (libc::REG_RDX, edx)];
            for (index, value) in results {
                *register(ours, index) = value.into();
            }
            *register(ours, libc::REG_RIP) = at + 2;
        } else if let Some(Some(before)) = BEFORE.get() {
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

/// The calling thread is a supervisor of tasks for which `cpuid` faults: from now on it does for the thread
/// (and for threads that it starts) too. Where that cannot be, nothing changes.
pub fn as_tasks() {
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
    if before.is_some() {
        set_faulting(true);
    }
}

#[cfg(test)]
mod tests {
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
            as_tasks();
            assert!(is_faulting());
            assert_eq!(ask(), expected);
            assert!(sys::has_cpuid_faulting());
            assert!(is_faulting(), "asking must not change it");
            std::thread::spawn(move || (is_faulting(), ask())).join().unwrap()
        });
        assert_eq!(thread.join().unwrap(), (true, expected));
        assert!(!is_faulting(), "only the thread that asked for it");
    }
}
