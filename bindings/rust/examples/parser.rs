//! A parser that backtracks with checkpoints: each choice of the grammar is tried, and where it leads nowhere, all that
//! it did is taken back, and the next one is tried.
//!
//!     sum = product "+" sum | product
//!     product = atom "*" product | atom
//!     atom = "(" sum ")" | digit

use bis_checkpoint::checkpoint;

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
    /// What was read, which a way back shortens again.
    tree: Vec<String>,
}

impl Parser<'_> {
    fn eat(&mut self, byte: u8) -> bool {
        let is_there = self.text.get(self.at) == Some(&byte);
        self.at += usize::from(is_there);
        is_there
    }

    /// The first alternative that can be read.
    fn choice(&mut self, alternatives: &[fn(&mut Self) -> Option<u64>]) -> Option<u64> {
        // SAFETY: nobody else sees what this process does.
        let before = unsafe { checkpoint() }.expect("run me under `bis record`");
        let Some(alternative) = alternatives.get(before.times() as usize) else {
            before.discard().expect("it is ours");
            return None;
        };
        let Some(value) = alternative(self) else { panic!("{}", before.rollback()) };
        before.discard().expect("it is ours");
        Some(value)
    }

    fn sum(&mut self) -> Option<u64> {
        let more: fn(&mut Self) -> Option<u64> = |p| {
            let left = p.product()?;
            p.tree.push("+".into());
            if p.eat(b'+') { Some(left + p.sum()?) } else { None }
        };
        self.choice(&[more, Self::product])
    }

    fn product(&mut self) -> Option<u64> {
        let more: fn(&mut Self) -> Option<u64> = |p| {
            let left = p.atom()?;
            p.tree.push("*".into());
            if p.eat(b'*') { Some(left * p.product()?) } else { None }
        };
        self.choice(&[more, Self::atom])
    }

    fn atom(&mut self) -> Option<u64> {
        if self.eat(b'(') {
            let value = self.sum()?;
            return if self.eat(b')') { Some(value) } else { None };
        }
        let digit = self.text.get(self.at).filter(|byte| byte.is_ascii_digit())?;
        self.at += 1;
        self.tree.push(char::from(*digit).into());
        Some(u64::from(digit - b'0'))
    }
}

fn main() {
    let text = std::env::args().nth(1).unwrap_or_else(|| "2*(3+4)*5+6".into());
    let mut parser = Parser { text: text.as_bytes(), at: 0, tree: Vec::new() };
    let value = parser.sum();
    match value.filter(|_| parser.at == text.len()) {
        Some(value) => println!("{text} = {value}, by {}", parser.tree.join(" ")),
        None => println!("{text}: no sum"),
    }
}
