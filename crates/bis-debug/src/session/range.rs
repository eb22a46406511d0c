//! Steps through the instructions of a line in which a task goes round many times.
//!
//! A client that steps over a line asks for steps as long as the task is in a range of instructions. A loop
//! that is written on one line takes millions of them, each of which is a stop. So after some steps the task
//! runs, with breakpoints where it can leave the range: the places behind it to which its instructions lead,
//! and those of its instructions of which only their execution tells where they lead.

use std::collections::BTreeSet;

use bis_replay::Replica;
use bis_trace::types::{Addr, Tid};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic};

/// So many steps are made one by one before.
pub(super) const STEPS: u64 = 200;

/// Ranges with more bytes, or with more places where they can be left, are not run through.
const LEN_MAX: u64 = 4096;
const EXITS_MAX: usize = 32;

/// Where a task can leave a range of instructions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Exits {
    pub tid: Tid,
    pub places: BTreeSet<Addr>,
}

/// Where execution can leave these instructions, which begin at `start`: addresses outside of them, and
/// instructions of which nobody knows where they lead. None: they cannot be understood, or lead to too many
/// places.
fn exits(start: Addr, code: &[u8]) -> Option<BTreeSet<Addr>> {
    let end = start.checked_add(code.len() as u64)?;
    let mut places = BTreeSet::new();
    let mut decoder = Decoder::with_ip(64, code, start.0, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        let [own, next, target] =
            [instruction.ip(), instruction.next_ip(), instruction.near_branch_target()].map(Addr);
        let is_outside = |addr: &Addr| !(start..end).contains(addr);
        let is_known = !target.is_null() && instruction.mnemonic() != Mnemonic::Syscall;
        match instruction.flow_control() {
            _ if instruction.is_invalid() => return None,
            FlowControl::Next => places.extend([next].into_iter().filter(is_outside)),
            FlowControl::ConditionalBranch if is_known => {
                places.extend([next, target].into_iter().filter(is_outside));
            }
            FlowControl::UnconditionalBranch | FlowControl::Call if is_known => {
                places.extend([target].into_iter().filter(is_outside));
            }
            _ => {
                places.insert(own);
            }
        }
    }
    (places.len() <= EXITS_MAX).then_some(places)
}

impl Exits {
    /// Where this task can leave a range of the program's text, if it is worth it to wait for it there.
    pub(super) fn of(replica: &Replica<'_>, tid: Tid, (start, end): (Addr, Addr)) -> Option<Exits> {
        let len = end.checked_since(start).filter(|len| *len <= LEN_MAX)?;
        let code = replica.read_program(start, usize::try_from(len).ok()?);
        let places = exits(start, &code).filter(|_| code.len() as u64 == len)?;
        Some(Exits { tid, places })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(code: &[u8]) -> Option<Vec<u64>> {
        exits(Addr(0x1000), code).map(|places| places.into_iter().map(|place| place.0).collect())
    }

    #[test]
    fn a_loop_is_left_behind_it() {
        // add eax, 1; cmp eax, 9; jne -8
        assert_eq!(of(&[0x83, 0xc0, 0x01, 0x83, 0xf8, 0x09, 0x75, 0xf8]), Some(vec![0x1008]));
        // The same with a jump out in its middle: je +16.
        let code = [0x83, 0xc0, 0x01, 0x74, 0x10, 0x83, 0xf8, 0x09, 0x75, 0xf6];
        assert_eq!(of(&code), Some(vec![0x100a, 0x1015]));
    }

    #[test]
    fn a_call_leaves_the_line_and_so_does_what_nobody_knows() {
        // call +0x100; inc eax; nothing leads behind the end but the last one.
        assert_eq!(of(&[0xe8, 0x00, 0x01, 0x00, 0x00, 0xff, 0xc0]), Some(vec![0x1007, 0x1105]));
        // ret; call rax; jmp rax; syscall; int3
        assert_eq!(of(&[0xc3]), Some(vec![0x1000]));
        assert_eq!(of(&[0xff, 0xd0]), Some(vec![0x1000]));
        assert_eq!(of(&[0xff, 0xe0]), Some(vec![0x1000]));
        assert_eq!(of(&[0x0f, 0x05]), Some(vec![0x1000]));
        assert_eq!(of(&[0xcc]), Some(vec![0x1000]));
        // What is no instruction, or not all of one.
        assert_eq!((of(&[0x06]), of(&[0xe8, 0x00])), (None, None));
    }
}
