//! The vdso of 32-bit programs. Its clock functions become system calls, as in that of 64-bit ones; and the
//! function through which the C library makes all calls makes them by `int $0x80`: a call by `sysenter` or
//! `syscall` comes back elsewhere than behind its instruction.

use bis_trace::types::Addr;
use object::{Object, ObjectSymbol};

use super::Vdso;
use crate::{error::Result, memory::Memory};

/// Exported function, and its number in the 32-bit table.
const FUNCTIONS: [(&str, Option<u32>); 8] = [
    ("__vdso_clock_gettime", Some(265)),
    ("__vdso_clock_gettime64", Some(403)),
    ("__vdso_gettimeofday", Some(78)),
    ("__vdso_time", Some(13)),
    ("__vdso_clock_getres", Some(266)),
    ("__vdso_clock_getres_time64", Some(406)),
    ("__vdso_getcpu", Some(318)),
    ("__vdso_getrandom", None),
];

/// The function that makes calls.
const MAKER: &str = "__kernel_vsyscall";

/// How far into it its instruction can be, bytes.
const MAKER_LEN: usize = 24;

const NOP: u8 = 0x90;

/// What stands in the place of a function whose call has up to two arguments, which are on the stack.
fn code(nr: Option<u32>) -> Vec<u8> {
    let Some(nr) = nr else {
        // mov $-ENOSYS, %eax; ret: at which callers make the call themselves.
        return [&[0xb8][..], &(-libc::ENOSYS).to_le_bytes(), &[0xc3]].concat();
    };
    // push %ebx; mov 8(%esp), %ebx; mov 12(%esp), %ecx; mov $nr, %eax; int $0x80; pop %ebx; ret
    let load = [0x53, 0x8b, 0x5c, 0x24, 0x08, 0x8b, 0x4c, 0x24, 0x0c, 0xb8];
    [&load[..], &nr.to_le_bytes(), &[0xcd, 0x80, 0x5b, 0xc3]].concat()
}

/// Where the fast instruction is in the begin of the function that makes calls, with the move in front of it
/// that goes with it: `mov %esp, %ebp; sysenter` or `mov %ecx, %ebp; syscall`. Behind it is an `int $0x80`.
fn fast_call(text: &[u8]) -> Option<usize> {
    text.windows(4).position(|four| four[0] == 0x89 && four[2] == 0x0f && matches!(four[3], 0x34 | 0x05))
}

/// Overwrites the functions of the vdso at `start`, whose bytes are `image`.
///
/// # Errors
/// Where it cannot be written.
pub(super) fn divert(start: Addr, image: &[u8], file: &object::File<'_>, memory: &Memory) -> Result<Vdso> {
    let mut changed = Vec::new();
    for symbol in file.dynamic_symbols() {
        let (Ok(name), Ok(at)) = (symbol.name(), usize::try_from(symbol.address())) else { continue };
        let Some(text) = image.get(at..) else { continue };
        if name == MAKER {
            if let Some(place) = fast_call(&text[..MAKER_LEN.min(text.len())]) {
                changed.push((start + (at + place) as u64, vec![NOP; 4], false));
            }
            continue;
        }
        let Some((_, nr)) = FUNCTIONS.iter().find(|(known, _)| *known == name) else { continue };
        let size = usize::try_from(symbol.size()).unwrap_or(0);
        let whole = code(*nr);
        let code = if whole.len() <= size { whole } else { code(None) };
        if code.len() <= size.min(text.len()) && !changed.iter().any(|(addr, ..)| *addr == start + at as u64)
        {
            changed.push((start + at as u64, code, true));
        }
    }
    for (addr, code, _) in &changed {
        memory.write(*addr, code)?;
    }
    let changed = changed.into_iter().map(|(addr, code, is_function)| (addr, code.len() as u64, is_function));
    let (image, changed) = (image.to_vec(), changed.collect());
    Ok(Vdso { start, sites: Vec::new(), image, text: (0, 0), clocks: [0; 4], changed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fast_call_is_found_with_its_move() {
        // As processors of Intel's and of AMD's have it: push %ecx; push %edx; push %ebp; ...
        let intel = [0x51, 0x52, 0x55, 0x89, 0xe5, 0x0f, 0x34, 0xcd, 0x80, 0x5d, 0x5a, 0x59, 0xc3];
        let amd = [0x51, 0x52, 0x55, 0x89, 0xcd, 0x0f, 0x05, 0xcd, 0x80, 0x5d, 0x5a, 0x59, 0xc3];
        let old = [0xcd, 0x80, 0xc3];
        assert_eq!([&intel[..], &amd, &old].map(fast_call), [Some(3), Some(3), None]);
    }

    #[test]
    fn a_function_is_a_call_or_says_that_there_is_none() {
        assert_eq!(code(Some(13)).len(), 18);
        assert_eq!(code(None), [0xb8, 0xda, 0xff, 0xff, 0xff, 0xc3]);
    }
}
