//! Preparing a fresh address space: what the recorder does after every exec, and how the replayer gets an
//! empty one.

use bis_trace::types::{Addr, Signal};
use std::{
    ffi::CString,
    fs::File,
    io,
    os::unix::fs::FileExt,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use bis_agent::{
    AGENT_BASE, AGENT_LEN, STUB_ELF, TEXT,
    hooks::{AREA_BASE, TEXT_BASE},
};

use crate::{
    address_limit,
    area::Area,
    balance::Seat,
    error::{Result, TraceeError},
    filter::{HookedChanges, Mode, Refused},
    lent::Lent,
    maps,
    memory::Memory,
    modes,
    remote::{Planned, Remote, Returns},
    spawn::{Program, Spawn, SpawnError, spawn_in},
    sys,
    task::{self, Stopped},
    vdso,
};

/// Where the addresses end that programs have, but for those that ask for more where page tables have five
/// levels.
pub const USER_END: u64 = 0x7fff_ffff_f000;

/// What the recorder did to a fresh image.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Prepared {
    /// `cpuid` faults in it from now on.
    pub cpuid_faults: bool,
    /// The vdso, which is diverted.
    pub vdso: Option<vdso::Vdso>,
    /// What was mapped before the agent was.
    pub mappings: Vec<maps::Mapping>,
    /// Where the heap begins.
    pub brk: Addr,
}

/// Maps the agent into an address space that has none. `slot` holds a task stopped outside of any system
/// call.
pub(crate) fn inject_agent(
    slot: &mut Option<Stopped>,
    memory: &Memory,
    mappings: &[maps::Mapping],
) -> Result<()> {
    let mut remote = Remote::new(slot)?;
    map_agent(&mut remote, memory, mappings)?;
    remote.finish()
}

/// Maps the agent, by the first of a series of calls.
fn map_agent(remote: &mut Remote<'_>, memory: &Memory, mappings: &[maps::Mapping]) -> Result<()> {
    const BOOT: [u8; 3] = [0x0f, 0x05, 0xcc]; // syscall; int3
    const MAP_FLAGS: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    // The first call has to be made from somewhere: for a moment, from the vdso, or where there is none, from
    // the program's own first instructions. (Those need not be there: then it dies of its first one, and that
    // is recorded.)
    let place = vdso::find(mappings).map_or(remote.saved().rip, |vdso| vdso.start.0);
    let boot = Lent::with(memory, Addr(place), &BOOT)?;
    let prot = (libc::PROT_READ | libc::PROT_EXEC).cast_unsigned().into();
    let args = [AGENT_BASE, AGENT_LEN, prot, MAP_FLAGS.cast_unsigned().into(), u64::MAX, 0];
    let at = Addr(place);
    let map = |remote: &mut Remote<'_>| remote.call_at(at, at + 2, libc::SYS_mmap, args);
    let mapped = address_limit::beside_at(remote, memory, at, map)?;
    boot.give_back()?;
    if mapped == i64::from(-libc::ENOMEM) {
        // Its limit of the address space leaves it not even these pages. Without bis it would end at its next
        // mapping; there is no program that does something useful here.
        let tid = remote.tid();
        let _ = sys::tgkill(tid, tid, Signal::KILL);
        return Err(TraceeError::Died(tid));
    }
    if mapped != AGENT_BASE.cast_signed() {
        return Err(TraceeError::Unexpected {
            tid: remote.tid(),
            doing: "mapping the agent",
            found: format!("result {mapped} at {AGENT_BASE:#x}: the program's own image lies there"),
        });
    }
    memory.write(Addr(AGENT_BASE), TEXT)
}

/// Maps the hooks' text and table, behind the agent, and an area for them.
///
/// # Errors
/// [`TraceeError::Died`] when the task was killed meanwhile; else where the kernel refuses.
pub fn map_hooks(slot: &mut Option<Stopped>, memory: &Memory, image: &[u8]) -> Result<Area> {
    const FLAGS: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    let len = AREA_BASE - TEXT_BASE;
    let prot = (libc::PROT_READ | libc::PROT_EXEC).cast_unsigned().into();
    let args = [TEXT_BASE, len, prot, FLAGS.cast_unsigned().into(), u64::MAX, 0];
    let text = Planned { nr: libc::SYS_mmap, args, returns: Returns::This(TEXT_BASE) };
    // What may fail is done first.
    let area = Area::make_with(slot, memory, text)?;
    memory.write(Addr(TEXT_BASE), image)?;
    Ok(area)
}

/// After an exec, at its exit: maps the agent, finds the heap, makes (where the processor can) `cpuid` fault,
/// and turns the vdso's functions into real system calls. Whether `rdtsc` faults is as it was before
/// ([`set_tsc`]).
///
/// # Errors
/// [`TraceeError::Died`] when the task was killed meanwhile; else a bug.
pub fn prepare_recorded(slot: &mut Option<Stopped>, memory: &Memory) -> Result<Prepared> {
    static CAN_FAULT: OnceLock<bool> = OnceLock::new();
    let tid = slot.as_ref().map(Stopped::tid).expect("a stopped task");
    let mappings = maps::read(tid)?;
    let mut remote = Remote::new(slot)?;
    map_agent(&mut remote, memory, &mappings)?;
    let brk = Addr(remote.must("find the heap", libc::SYS_brk, [0; 6])?);
    // Where the processor cannot, nobody is asked: that is a call in each process.
    let mut cpuid_faults = *CAN_FAULT.get_or_init(sys::has_cpuid_faulting);
    if cpuid_faults {
        cpuid_faults = remote.call(libc::SYS_arch_prctl, [modes::ARCH_SET_CPUID, 0, 0, 0, 0, 0])? == 0;
    }
    remote.finish()?;
    let vdso = vdso::divert(&mappings, memory)?;
    Ok(Prepared { cpuid_faults, vdso, mappings, brk })
}

/// Makes `rdtsc` and `rdtscp` fault in a task, or not. What it starts later has the same.
///
/// # Errors
/// [`TraceeError::Died`] when the task was killed meanwhile; else a bug.
pub fn set_tsc(slot: &mut Option<Stopped>, faults: bool) -> Result<()> {
    let mode = if faults { libc::PR_TSC_SIGSEGV } else { libc::PR_TSC_ENABLE };
    let [set_tsc, mode] = [libc::PR_SET_TSC, mode].map(|n| n.cast_unsigned().into());
    let mut remote = Remote::new(slot)?;
    remote.must("say whether rdtsc faults", libc::SYS_prctl, [set_tsc, mode, 0, 0, 0, 0])?;
    remote.finish().map(drop)
}

/// As [`spawn_stub_in`], for a supervisor that nobody sends to another core.
///
/// # Errors
/// As [`spawn_in`].
pub fn spawn_stub(name: &str) -> Result<(Option<Stopped>, Memory), SpawnError> {
    spawn_stub_in(name, &Seat::default(), Stub::default())
}

/// What a stub is to be.
#[derive(Default)]
pub struct Stub {
    /// Calls that it is refused.
    pub refused: Refused,
    pub changes: HookedChanges,
    /// What it has open, under the numbers that these have here.
    pub files: Vec<Arc<File>>,
    /// `rdtsc` and `rdtscp` fault in it.
    pub rdtsc_faults: bool,
}

/// What a stub executes. All have the same: nobody can write to it through what they map.
fn stub_program() -> io::Result<Arc<File>> {
    static PROGRAM: Mutex<Option<Arc<File>>> = Mutex::new(None);
    let mut program = PROGRAM.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(program) = &*program {
        return Ok(Arc::clone(program));
    }
    let file = File::from(sys::memfd(c"bis-stub")?);
    file.write_all_at(STUB_ELF, 0)?;
    Ok(Arc::clone(program.insert(Arc::new(file))))
}

/// Starts the replayer's stub: a process whose address space holds the agent only, which may make no system
/// call but the supervisor's. It is the seat's runner at once.
///
/// # Errors
/// As [`spawn_in`].
pub fn spawn_stub_in(
    name: &str,
    seat: &Seat,
    Stub { refused, changes, files, rdtsc_faults }: Stub,
) -> Result<(Option<Stopped>, Memory), SpawnError> {
    let program = stub_program().map_err(SpawnError::Fork)?;
    let argv = vec![CString::new(name.replace('\0', "")).unwrap_or_default()];
    let stub = Spawn {
        program: Program::File(program),
        argv,
        envp: vec![],
        cwd: None,
        file_limit: None,
        mode: Mode::Replay(changes),
        refused,
        files,
        rdtsc_faults,
    };
    if !stub.refused.now.is_empty() {
        task::see_trapped_calls();
    }
    let stopped = spawn_in(stub, seat)?;
    let tid = stopped.tid();
    let memory = Memory::open(tid)?;
    let mut slot = Some(stopped);
    let mut remote = Remote::in_a_row(&mut slot)?;
    // The stack, the vdso, and whatever else the kernel has put there.
    for part in [0..AGENT_BASE, AGENT_BASE + AGENT_LEN..USER_END] {
        let args = [part.start, part.end - part.start, 0, 0, 0, 0];
        remote.must("unmap the stub", libc::SYS_munmap, args)?;
    }
    remote.finish()?;
    Ok((slot, memory))
}

/// Tells the kernel where a 32-bit program that is to be replayed has its vdso. Calls that the program makes
/// by `syscall` or `sysenter` come back there, and so does a `syscall` without a stack, which is no call
/// (`do_fast_syscall_32` of the kernel's `arch/x86/entry/`). Nothing is mapped behind this. How far behind
/// the vdso's begin they come back is this kernel's matter.
///
/// # Errors
/// [`TraceeError::Died`] when the task was killed meanwhile; else a bug.
pub fn place_narrow_vdso(slot: &mut Option<Stopped>, vdso: Addr) -> Result<()> {
    /// `arch/x86/include/uapi/asm/prctl.h`.
    const ARCH_MAP_VDSO_32: u64 = 0x2002;
    const HOW: i32 = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    let mut remote = Remote::in_a_row(slot)?;
    // A kernel without CONFIG_CHECKPOINT_RESTORE refuses. Nearly no program makes such calls itself.
    if remote.call(libc::SYS_arch_prctl, [ARCH_MAP_VDSO_32, vdso.0, 0, 0, 0, 0])? >= 0 {
        let mappings = maps::read(remote.tid())?;
        for vvar in mappings.iter().filter(|mapping| mapping.is_vvar()) {
            remote.must("unmap the vvar", libc::SYS_munmap, [vvar.start.0, vvar.len(), 0, 0, 0, 0])?;
        }
        if let Some(mapped) = vdso::find(&mappings) {
            let len = mapped.len();
            if mapped.start != vdso {
                let args = [mapped.start.0, len, len, HOW.cast_unsigned().into(), vdso.0, 0];
                remote.must("move the vdso", libc::SYS_mremap, args)?;
            }
            remote.must("unmap the vdso", libc::SYS_munmap, [vdso.0, len, 0, 0, 0, 0])?;
        }
    }
    remote.finish().map(drop)
}

/// Makes `cpuid` fault in a replayed task, as it did when it was recorded.
///
/// # Errors
/// Where this processor cannot do it although the recorded one could.
pub fn make_cpuid_fault(slot: &mut Option<Stopped>) -> Result<()> {
    let mut remote = Remote::in_a_row(slot)?;
    remote.must("make cpuid fault", libc::SYS_arch_prctl, [modes::ARCH_SET_CPUID, 0, 0, 0, 0, 0])?;
    remote.finish().map(drop)
}
