//! How much of a call the kernel is asked for. A value.

use bis_trace::types::Addr;

#[derive(Default, Debug)]
pub enum Asked {
    /// All of it, as the program does.
    #[default]
    All,
    /// It is asked with other arguments: for fewer bytes, or for another program to execute.
    Otherwise,
    /// Some bytes have been moved, and it is asked for the rest.
    Rest {
        moved: u64,
        /// What is left of a call that names its bytes in pieces. The first of them is asked for.
        pieces: Vec<(Addr, u64)>,
    },
}

impl Asked {
    /// The kernel is asked with other arguments than the program's.
    pub fn ask_otherwise(&mut self) {
        if let Asked::All = self {
            *self = Asked::Otherwise;
        }
    }

    /// So many bytes have been moved in all, and these pieces are left.
    pub fn ask_for_rest(&mut self, moved: u64, pieces: Vec<(Addr, u64)>) {
        *self = Asked::Rest { moved, pieces };
    }

    /// Are the arguments others than the program's?
    pub fn is_otherwise(&self) -> bool {
        !matches!(self, Asked::All)
    }

    /// The bytes that were moved before the kernel was asked for what is left.
    pub fn moved(&self) -> u64 {
        match self {
            Asked::Rest { moved, .. } => *moved,
            Asked::All | Asked::Otherwise => 0,
        }
    }

    /// What was left in pieces when it was asked last. None of them: the call names all of them.
    pub fn left(&self) -> &[(Addr, u64)] {
        match self {
            Asked::Rest { pieces, .. } => pieces,
            Asked::All | Asked::Otherwise => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_asks_for_its_rest_has_other_arguments() {
        let mut asked = Asked::default();
        assert!(!asked.is_otherwise());
        assert_eq!((asked.moved(), asked.left()), (0, &[][..]));
        asked.ask_for_rest(10, vec![(Addr(0x1000), 5)]);
        assert!(asked.is_otherwise());
        assert_eq!((asked.moved(), asked.left()), (10, &[(Addr(0x1000), 5)][..]));
    }

    #[test]
    fn what_was_moved_is_not_forgotten_for_other_arguments() {
        let mut asked = Asked::default();
        asked.ask_otherwise();
        assert!(asked.is_otherwise() && asked.moved() == 0);
        asked.ask_for_rest(10, Vec::new());
        asked.ask_otherwise();
        assert_eq!(asked.moved(), 10);
    }
}
