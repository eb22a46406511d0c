//! The vdso's functions read the clock without a system call, so nothing would record them: in a recorded
//! process each is overwritten with the system call that it stands for.

use object::{Object, ObjectSymbol};

use crate::{error::Result, maps::Mapping, memory::Memory};

/// Exported function and system call number. `__vdso_getrandom` has a contract of its own; it answers ENOSYS,
/// at which callers go to the system call.
const FUNCTIONS: [(&str, Option<u32>); 6] = [
    ("__vdso_clock_gettime", Some(228)),
    ("__vdso_gettimeofday", Some(96)),
    ("__vdso_time", Some(201)),
    ("__vdso_getcpu", Some(309)),
    ("__vdso_clock_getres", Some(229)),
    ("__vdso_getrandom", None),
];

fn code(nr: Option<u32>) -> Vec<u8> {
    match nr {
        // mov $nr, %eax; syscall; ret
        Some(nr) => [&[0xb8][..], &nr.to_le_bytes(), &[0x0f, 0x05, 0xc3]].concat(),
        // mov $-ENOSYS, %rax; ret
        None => [&[0x48, 0xc7, 0xc0][..], &(-libc::ENOSYS).to_le_bytes(), &[0xc3]].concat(),
    }
}

/// Where in a diverted function its `syscall` instruction is.
const SYSCALL_AT: u64 = 5;

/// Overwrites the functions of the vdso among `mappings`, if there is one. Returns the addresses of the `syscall`
/// instructions that are there now; each is followed by a `ret`, and by at least two bytes of the old function that
/// nobody executes.
///
/// # Errors
/// Where its memory cannot be read or written.
pub fn divert(mappings: &[Mapping], memory: &Memory) -> Result<Vec<u64>> {
    let mut sites = Vec::new();
    let Some(vdso) = mappings.iter().find(|m| m.name == b"[vdso]") else { return Ok(sites) };
    let image = memory.read_vec(vdso.start, usize::try_from(vdso.len()).unwrap_or(0))?;
    let Ok(file) = object::File::parse(&*image) else { return Ok(sites) };
    for symbol in file.dynamic_symbols() {
        let known = FUNCTIONS.iter().find(|(name, _)| symbol.name() == Ok(name));
        if let Some((_, nr)) = known {
            // The image is linked at 0.
            let start = vdso.start + symbol.address();
            memory.write(start, &code(*nr))?;
            if nr.is_some() && symbol.size() >= SYSCALL_AT + 5 && !sites.contains(&(start + SYSCALL_AT)) {
                sites.push(start + SYSCALL_AT);
            }
        }
    }
    Ok(sites)
}
