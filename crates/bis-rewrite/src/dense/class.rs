//! What a pass over all instructions asks of each, in one byte for each opcode: the tables of the decoder
//! that say the same are larger than the processor's first cache.

use std::sync::LazyLock;

use iced_x86::{Code, FlowControl, Instruction};

use crate::run::SiteKind;

/// What an instruction is to the flow of execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Class {
    /// Goes on.
    Plain,
    /// A conditional branch, or `loop` and the like.
    Branch,
    /// A direct jump.
    Jump,
    /// A computed jump.
    Computed,
    /// A direct call.
    Call,
    /// A call through a pointer, and whatever else comes back.
    Away,
    /// A special instruction: goes on, or (for `xbegin`) may lead elsewhere.
    Site,
    /// Goes on nowhere.
    Return,
    /// Anything else: traps, ends of transactions. May go on.
    Other,
}

impl Class {
    pub fn of(it: &Instruction) -> Self {
        static CLASSES: LazyLock<Vec<Class>> = LazyLock::new(|| Code::values().map(Class::compute).collect());
        CLASSES[it.code() as usize]
    }

    fn compute(code: Code) -> Self {
        let mut it = Instruction::default();
        it.set_code(code);
        if SiteKind::of(&it).is_some() {
            return Self::Site;
        }
        match code.flow_control() {
            FlowControl::Next => Self::Plain,
            FlowControl::ConditionalBranch => Self::Branch,
            FlowControl::UnconditionalBranch => Self::Jump,
            FlowControl::IndirectBranch => Self::Computed,
            FlowControl::Call if code.is_call_near() => Self::Call,
            FlowControl::Call | FlowControl::IndirectCall => Self::Away,
            FlowControl::Return => Self::Return,
            _ => Self::Other,
        }
    }

    /// Whether a stretch of instructions that are executed one after the other ends with it.
    pub fn ends(self) -> bool {
        !matches!(self, Self::Plain | Self::Call | Self::Away | Self::Site)
    }

    /// Whether what follows may be executed after it.
    pub fn goes_on(self) -> bool {
        !matches!(self, Self::Jump | Self::Computed | Self::Return)
    }
}
