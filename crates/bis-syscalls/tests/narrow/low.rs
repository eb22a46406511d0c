//! Memory below 4 GiB, full of poison, in which a case lays out what a call reads and writes; and the 32-bit
//! call itself.

use bis_syscalls::Memory as _;
use bis_syscalls::narrow::{NarrowCall, ROOM_LEN};
use std::arch::asm;

use crate::native::Native;

/// Where cases lie.
const BASE: usize = 0x1000_0000;
const LEN: usize = 1 << 17;
/// Where the room lies.
const ROOM: usize = 0x2000_0000;
const GAP: usize = 72;

pub struct Low {
    used: usize,
}

impl Drop for Low {
    fn drop(&mut self) {
        for (at, len) in [(BASE, LEN), (ROOM, room_len())] {
            // SAFETY: `new` mapped it, and nothing refers to it.
            unsafe { libc::munmap(std::ptr::with_exposed_provenance_mut(at), len) };
        }
    }
}

fn room_len() -> usize {
    usize::try_from(ROOM_LEN).unwrap()
}

impl Low {
    pub fn new(poison: u8) -> Low {
        for (at, len, fill) in [(BASE, LEN, poison), (ROOM, room_len(), 0xee)] {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
            let prot = libc::PROT_READ | libc::PROT_WRITE;
            // SAFETY: a new mapping where nothing is, which is then filled.
            unsafe {
                let got = libc::mmap(std::ptr::with_exposed_provenance_mut(at), len, prot, flags, -1, 0);
                assert_eq!(got.expose_provenance(), at);
                std::ptr::write_bytes(got.cast::<u8>(), fill, len);
            }
        }
        Low { used: GAP }
    }

    pub fn room(&self) -> u64 {
        ROOM as u64
    }

    pub fn fill_room(&mut self, bytes: &[u8]) {
        assert!(bytes.len() <= room_len());
        poke(ROOM, bytes);
    }

    /// Writes what the recorder would; false where the case has no memory.
    pub fn write(&mut self, to: u64, bytes: &[u8]) -> bool {
        let to = usize::try_from(to).unwrap();
        let is_ours = (BASE..BASE + LEN).contains(&to) && to + bytes.len() <= BASE + LEN;
        if is_ours {
            poke(to, bytes);
        }
        is_ours
    }

    /// The address of `len` poisoned bytes.
    pub fn space(&mut self, len: usize) -> u32 {
        let at = self.used;
        self.used = (at + len + GAP).next_multiple_of(8);
        assert!(self.used <= LEN);
        u32::try_from(BASE + at).unwrap()
    }

    pub fn put(&mut self, bytes: &[u8]) -> u32 {
        let at = self.space(bytes.len());
        poke(at as usize, bytes);
        at
    }

    /// The address of these words.
    pub fn words(&mut self, words: &[u32]) -> u32 {
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        self.put(&bytes)
    }

    pub fn text(&mut self, text: &str) -> u32 {
        self.put(&[text.as_bytes(), &[0]].concat())
    }

    pub fn copy(&self) -> Vec<u8> {
        let mut bytes = vec![0; LEN];
        assert!(Native.read(BASE as u64, &mut bytes));
        bytes
    }
}

fn poke(at: usize, bytes: &[u8]) {
    // SAFETY: callers have checked that it is inside of what `new` mapped.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), std::ptr::with_exposed_provenance_mut(at), bytes.len());
    }
}

/// The call of the i386 table.
pub fn int80(call: &NarrowCall) -> i64 {
    let result: u64;
    // SAFETY: the cases pass addresses in low memory only, with room for what the call writes. The kernel
    // keeps all registers but those named; rbx and rbp, which cannot be named, are kept on the stack.
    unsafe {
        asm!(
            "push rbx",
            "push rbp",
            "mov ebx, [rdi]",
            "mov ecx, [rdi + 4]",
            "mov edx, [rdi + 8]",
            "mov esi, [rdi + 12]",
            "mov ebp, [rdi + 20]",
            "mov edi, [rdi + 16]",
            "int 0x80",
            "pop rbp",
            "pop rbx",
            inout("rax") u64::from(call.nr) => result,
            inout("rdi") call.args.as_ptr() => _,
            out("rcx") _, out("rdx") _, out("rsi") _,
            out("r8") _, out("r9") _, out("r10") _, out("r11") _,
        );
    }
    let result = result.cast_signed();
    // An error is 32 bits wide or 64.
    let short = i64::from(i32::from_le_bytes(result.to_le_bytes()[..4].try_into().unwrap()));
    if (-4095..0).contains(&short) { short } else { result }
}

/// A kernel without 32-bit calls kills whoever makes one.
pub fn has_int80() -> bool {
    // SAFETY: the child makes two system calls and nothing else.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            // getpid
            let ok = int80(&NarrowCall { nr: 20, args: [0; 6] }) > 0;
            libc::_exit(if ok { 0 } else { 1 });
        }
        let mut status = 0;
        libc::waitpid(child, &raw mut status, 0);
        status == 0
    }
}
