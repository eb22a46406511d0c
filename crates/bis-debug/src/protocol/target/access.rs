//! Reading and writing of registers, where they live.

use bis_trace::types::Registers;
use thiserror::Error;

use super::{
    Place,
    table::{Register, component},
    x87::CONTROL_INITIAL,
};

/// A register that was not written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum WriteError {
    #[error("there is no register with this number")]
    NoRegister,
    #[error("the value has {found} bytes instead of {expected}")]
    Length { expected: usize, found: usize },
}

/// The x87 part of the legacy area.
const X87_LEN: usize = 160;
/// The legacy area and the header; the header begins with the bits of the components in use.
const IN_USE: usize = 512;
const HEADER_END: usize = 576;

/// What MXCSR is at first: every exception masked.
const MXCSR_INITIAL: u32 = 0x1f80;

/// The initial value of a byte of the extended state: zero, but in two control words.
fn initial(offset: usize) -> u8 {
    match offset {
        0 | 1 => CONTROL_INITIAL.to_le_bytes()[offset],
        24..28 => MXCSR_INITIAL.to_le_bytes()[offset - 24],
        _ => 0,
    }
}

fn byte(extended: &[u8], offset: usize) -> u8 {
    extended.get(offset).copied().unwrap_or_else(|| initial(offset))
}

fn legacy(extended: &[u8]) -> [u8; X87_LEN] {
    std::array::from_fn(|offset| byte(extended, offset))
}

pub(super) fn read(register: &Register, registers: &Registers, extended: &[u8]) -> Vec<u8> {
    match register.place {
        Place::Word(index) => registers.words()[index].to_le_bytes()[..register.len].to_vec(),
        Place::Extended { offset, .. } => {
            (0..register.len).map(|at| byte(extended, offset.saturating_add(at))).collect()
        }
        Place::X87(field) => field.read(&legacy(extended)).to_le_bytes().to_vec(),
    }
}

pub(super) fn write(
    register: &Register,
    bytes: &[u8],
    registers: &mut Registers,
    extended: &mut Vec<u8>,
) -> Result<(), WriteError> {
    if bytes.len() != register.len {
        return Err(WriteError::Length { expected: register.len, found: bytes.len() });
    }
    match register.place {
        Place::Word(index) => {
            let mut words = registers.words();
            let mut word = words[index].to_le_bytes();
            word[..bytes.len()].copy_from_slice(bytes);
            words[index] = u64::from_le_bytes(word);
            *registers = Registers::from_words(words);
        }
        Place::Extended { offset, component } => {
            grow(extended, offset + bytes.len());
            extended[offset..offset + bytes.len()].copy_from_slice(bytes);
            use_component(extended, component);
        }
        Place::X87(field) => {
            let mut x87 = legacy(extended);
            let value = u32::from_le_bytes(std::array::from_fn(|at| bytes[at]));
            field.write(value, &mut x87);
            grow(extended, X87_LEN);
            extended[..X87_LEN].copy_from_slice(&x87);
            use_component(extended, component::X87);
        }
    }
    Ok(())
}

/// Makes room up to this offset, and for the header, with initial values.
fn grow(extended: &mut Vec<u8>, end: usize) {
    extended.extend((extended.len()..end.max(HEADER_END)).map(initial));
}

/// Says in the header that this component has been written: the kernel takes initial values for others.
fn use_component(extended: &mut [u8], component: u8) {
    extended[IN_USE + usize::from(component / 8)] |= 1 << (component % 8);
}
