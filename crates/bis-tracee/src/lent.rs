//! Bytes of an address space that are lent to us for a moment. What they were comes back, also where
//! something in between has failed: the memory may be other tasks', too, which live on.

use bis_trace::types::Addr;

use crate::{error::Result, memory::Memory};

/// A guard: while it is there, anything may be at its address. When it is given back, or dropped, what was
/// there before is there again.
#[derive(Debug)]
pub struct Lent<'a> {
    memory: &'a Memory,
    addr: Addr,
    /// What was there; empty: it is again.
    own: Vec<u8>,
}

impl<'a> Lent<'a> {
    /// So many bytes, which stay as they are for now.
    ///
    /// # Errors
    /// Where there is no such memory.
    pub fn begin(memory: &'a Memory, addr: Addr, len: usize) -> Result<Lent<'a>> {
        Ok(Lent { memory, addr, own: memory.read_vec(addr, len)? })
    }

    /// As many bytes as these, which take their place.
    ///
    /// # Errors
    /// Where there is no such memory, or it cannot be written.
    pub fn with(memory: &'a Memory, addr: Addr, bytes: &[u8]) -> Result<Lent<'a>> {
        let lent = Lent::begin(memory, addr, bytes.len())?;
        memory.write(addr, bytes)?;
        Ok(lent)
    }

    /// What was there before is there again.
    ///
    /// # Errors
    /// Where the memory is gone.
    pub fn give_back(mut self) -> Result<()> {
        self.put_back()
    }

    fn put_back(&mut self) -> Result<()> {
        self.memory.write(self.addr, &std::mem::take(&mut self.own))
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        // Memory that is gone meanwhile needs nothing.
        let _ = self.put_back();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of this process, and its memory.
    fn bytes() -> (Addr, Memory) {
        let bytes: &'static mut [u8] = vec![1u8, 2, 3, 4].leak();
        (Addr(bytes.as_ptr() as u64), Memory::open(crate::ours::thread_id()).unwrap())
    }

    #[test]
    fn bytes_are_there_again_when_they_are_given_back_and_when_something_fails() {
        let (addr, memory) = bytes();
        let now = || memory.read_vec(addr, 4).unwrap();
        let lent = Lent::with(&memory, addr, &[9, 8]).unwrap();
        assert_eq!(now(), [9, 8, 3, 4]);
        lent.give_back().unwrap();
        assert_eq!(now(), [1, 2, 3, 4]);
        let fails = || {
            let _lent = Lent::with(&memory, addr, &[9])?;
            memory.read_vec(Addr(8), 1)
        };
        fails().unwrap_err();
        assert_eq!(now(), [1, 2, 3, 4]);
    }

    #[test]
    fn what_is_given_back_is_the_programs_again() {
        let (addr, memory) = bytes();
        Lent::begin(&memory, addr, 4).unwrap().give_back().unwrap();
        memory.write(addr, &[7]).unwrap();
        assert_eq!(memory.read_vec(addr, 4).unwrap(), [7, 2, 3, 4]);
    }

    #[test]
    fn where_there_is_no_memory_nothing_is_lent() {
        let (_, memory) = bytes();
        assert!(Lent::begin(&memory, Addr(8), 1).is_err());
        assert!(Lent::with(&memory, Addr(8), &[1]).is_err());
    }
}
