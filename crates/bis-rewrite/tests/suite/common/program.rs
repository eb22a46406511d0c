//! Static programs made of random functions. A function is a random tree of statements (arithmetic,
//! conditions, loops of all shapes, recursion, jump tables, blocks out of line, looks at the flags); each
//! ends, whatever the registers hold. The program calls each with random registers, writes what comes out to
//! its standard output, and exits.
//!
//! For the dense text there may be a handler of SIGTRAP in it, which goes on where a table says, so that a
//! program can trap at every count and must still give the same answers.

use super::elf::rel32;

pub const CODE: u64 = 0x40_1000;
const TABLES: u64 = 0x60_0000;
pub const DATA: u64 = 0x70_0000;
/// In the data: the answers.
const OUT: u64 = DATA + 0x1000;
/// In the data: how often functions may still call themselves.
const FUEL: u64 = DATA + 0x100;
/// In the data: how often it trapped.
const TRAPS: u64 = DATA + 0x108;
const STACK: u64 = DATA + 0x4000;
/// What the handler reads: the number of traps, then for each the address after it and where to go on.
pub const RESUME: u64 = 0x7000_3000;
/// What the handler sets the counter to.
pub const AGAIN: u64 = RESUME - 8;

/// A source of choices: numbers that a test framework made.
pub struct Choices<'c> {
    numbers: &'c [u32],
    at: usize,
}

impl Choices<'_> {
    fn next(&mut self, below: u32) -> u32 {
        let number = self.numbers.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        number % below
    }
}

enum Item {
    Bytes(Vec<u8>),
    Label(usize),
    /// A jump (condition, or none) to a label; with 8 bits if that reaches and it wants to be short.
    Jump(Option<u8>, bool, usize),
    Call(usize),
    /// lea r10, [table of these labels]
    Table(Vec<usize>),
}

pub struct Program {
    items: Vec<Item>,
    labels: usize,
    functions: Vec<(usize, usize)>,
    /// Blocks that are to come after the function that is made: label, label to go back to.
    cold: Vec<(usize, usize)>,
}

/// Registers that loops of each depth count in: rbx, rbp, r12, r13.
const COUNTERS: [u8; 4] = [3, 5, 12, 13];
/// Registers that arithmetic uses: rax, rcx, rdx, rsi, rdi, r8, r9, r11.
const WORK: [u8; 8] = [0, 1, 2, 6, 7, 8, 9, 11];

fn rex(wide: bool, reg: u8, rm: u8) -> u8 {
    0x40 | u8::from(wide) << 3 | (reg >> 3) << 2 | rm >> 3
}

fn two(opcode: u8, reg: u8, rm: u8) -> Vec<u8> {
    vec![rex(true, reg, rm), opcode, 0xc0 | (reg & 7) << 3 | rm & 7]
}

impl Program {
    /// The code of a program, its tables, and its functions (address, length).
    pub fn random(numbers: &[u32], handler: bool) -> (Vec<u8>, Vec<u8>, Vec<(u64, u64)>) {
        let mut choices = Choices { numbers, at: 0 };
        let mut program = Self { items: Vec::new(), labels: 0, functions: Vec::new(), cold: Vec::new() };
        let count = 2 + choices.next(4) as usize;
        let mut starts: Vec<usize> = Vec::new();
        for _ in 0..count {
            let start = program.function(&mut choices, &starts);
            starts.push(start);
        }
        let entry = program.main(&mut choices, &starts, handler);
        program.finish(entry)
    }

    fn label(&mut self) -> usize {
        self.labels += 1;
        self.labels - 1
    }

    fn put(&mut self, bytes: impl Into<Vec<u8>>) {
        self.items.push(Item::Bytes(bytes.into()));
    }

    fn function(&mut self, choices: &mut Choices<'_>, others: &[usize]) -> usize {
        let (start, end) = (self.label(), self.label());
        self.items.push(Item::Label(start));
        self.functions.push((start, end));
        // push rbx, rbp, r12, r13
        self.put([0x53, 0x55, 0x41, 0x54, 0x41, 0x55]);
        // test rax, rax: nobody hands it flags. Without that the carry, which few instructions set, could be
        // read further on than anybody looks.
        self.put(two(0x85, 0, 0));
        let statements = 2 + choices.next(6);
        for _ in 0..statements {
            self.statement(choices, 0, others, start);
        }
        self.put([0x41, 0x5d, 0x41, 0x5c, 0x5d, 0x5b, 0xc3]);
        for (label, back) in std::mem::take(&mut self.cold) {
            self.items.push(Item::Label(label));
            self.arithmetic(choices);
            self.items.push(Item::Jump(None, false, back));
        }
        self.items.push(Item::Label(end));
        start
    }

    fn statement(&mut self, choices: &mut Choices<'_>, depth: usize, others: &[usize], own: usize) {
        match choices.next(12) {
            0..=3 => self.arithmetic(choices),
            4 => self.observe(choices),
            5 => {
                let over = self.label();
                self.arithmetic(choices);
                self.items.push(Item::Jump(Some(choices.next(16) as u8), choices.next(2) == 0, over));
                self.statement(choices, depth, others, own);
                self.items.push(Item::Label(over));
            }
            6..=8 if depth < COUNTERS.len() => self.repeat(choices, depth, others, own),
            9 => self.switch(choices),
            10 => {
                let (cold, back) = (self.label(), self.label());
                self.arithmetic(choices);
                self.items.push(Item::Jump(Some(choices.next(16) as u8), false, cold));
                self.items.push(Item::Label(back));
                self.cold.push((cold, back));
            }
            _ => {
                let to = match others.len() {
                    len if len > 0 && choices.next(2) == 0 => others[choices.next(len as u32) as usize],
                    _ => own,
                };
                let over = self.label();
                // sub qword [FUEL], 1; js over; call; test rax, rax: flags are handed to nobody, and by
                // nobody.
                let word = (FUEL as u32).to_le_bytes();
                self.put([&[0x48, 0x83, 0x2c, 0x25][..], &word, &[1]].concat());
                self.items.push(Item::Jump(Some(8), choices.next(2) == 0, over));
                self.items.push(Item::Call(to));
                self.put(two(0x85, 0, 0));
                self.items.push(Item::Label(over));
            }
        }
    }

    /// A loop that turns a few times.
    fn repeat(&mut self, choices: &mut Choices<'_>, depth: usize, others: &[usize], own: usize) {
        let counter = COUNTERS[depth];
        let (top, out, short) = (self.label(), self.label(), choices.next(2) == 0);
        let turns = 1 + choices.next(5);
        // mov counter, turns; dec counter
        self.put(
            [vec![rex(true, 0, counter), 0xc7, 0xc0 | counter & 7], turns.to_le_bytes().to_vec()].concat(),
        );
        let less = vec![rex(true, 0, counter), 0xff, 0xc8 | counter & 7];
        let shape = choices.next(5);
        let statements = choices.next(3);
        match shape {
            // At the end: while (--counter != 0), or > 0.
            0 | 1 => {
                self.items.push(Item::Label(top));
                if shape == 1 {
                    self.observe(choices);
                }
                (0..statements).for_each(|_| self.statement(choices, depth + 1, others, own));
                if choices.next(2) == 0 {
                    self.put([0x90]);
                }
                self.put(less);
                self.items.push(Item::Jump(Some(if choices.next(2) == 0 { 5 } else { 15 }), short, top));
            }
            // At the start, with a jump back.
            2 => {
                self.items.push(Item::Label(top));
                self.put(less);
                self.items.push(Item::Jump(Some(8), short, out));
                (0..statements).for_each(|_| self.statement(choices, depth + 1, others, own));
                self.items.push(Item::Jump(None, short, top));
                self.items.push(Item::Label(out));
            }
            // A jump to the condition at the end, first.
            3 => {
                self.items.push(Item::Jump(None, short, out));
                self.items.push(Item::Label(top));
                (0..=statements).for_each(|_| self.statement(choices, depth + 1, others, own));
                self.items.push(Item::Label(out));
                self.put(less);
                self.items.push(Item::Jump(Some(9), short, top));
            }
            // With two ways back.
            _ => {
                self.items.push(Item::Label(top));
                (0..statements).for_each(|_| self.statement(choices, depth + 1, others, own));
                self.put(less.clone());
                self.items.push(Item::Jump(Some(8), short, out));
                self.put(two(0x85, 0, 0));
                self.items.push(Item::Jump(Some(choices.next(16) as u8), short, top));
                self.arithmetic(choices);
                self.put(less);
                self.items.push(Item::Jump(Some(9), short, top));
                self.items.push(Item::Label(out));
            }
        }
    }

    /// lea r10, [table]; and eax, 3 (or: cmp, ja); movsxd r14, [r10 + rax * 4]; add r14, r10; jmp r14
    fn switch(&mut self, choices: &mut Choices<'_>) {
        let labels: Vec<usize> = (0..4).map(|_| self.label()).collect();
        let end = self.label();
        if choices.next(2) == 0 {
            self.put([0x83, 0xe0, 0x03]);
        } else {
            self.put([0x89, 0xc0, 0x48, 0x83, 0xf8, 0x03]);
            self.items.push(Item::Jump(Some(7), choices.next(2) == 0, end));
        }
        self.items.push(Item::Table(labels.clone()));
        self.put([0x4d, 0x63, 0x34, 0x82, 0x4d, 0x01, 0xd6, 0x41, 0xff, 0xe6]);
        for label in labels {
            self.items.push(Item::Label(label));
            self.arithmetic(choices);
            if choices.next(3) != 0 {
                self.items.push(Item::Jump(None, choices.next(2) == 0, end));
            }
        }
        self.items.push(Item::Label(end));
    }

    fn arithmetic(&mut self, choices: &mut Choices<'_>) {
        for _ in 0..=choices.next(3) {
            let a = WORK[choices.next(8) as usize];
            let b = WORK[choices.next(8) as usize];
            let bytes = match choices.next(12) {
                0 => two(0x01, a, b),
                1 => two(0x29, a, b),
                2 => two(0x31, a, b),
                3 => two(0x11, a, b),
                4 => two(0x39, a, b),
                5 => two(0x85, a, b),
                6 => two(0x89, a, b),
                // lea b, [a + a * 2 + 5]
                7 => vec![
                    rex(true, b, a) | (a >> 3) << 1,
                    0x8d,
                    0x44 | (b & 7) << 3,
                    0x40 | (a & 7) << 3 | a & 7,
                    5,
                ],
                // shl a, cl; rol a, 5; neg a
                8 => vec![rex(true, 0, a), 0xd3, 0xe0 | a & 7],
                9 => vec![rex(true, 0, a), 0xc1, 0xc0 | a & 7, 5],
                10 => vec![rex(true, 0, a), 0xf7, 0xd8 | a & 7],
                // mov [DATA + 0x200], a; add a, [DATA + 0x200]
                _ => {
                    let word = (DATA as u32 + 0x200).to_le_bytes();
                    let operand = [0x04 | (a & 7) << 3, 0x25];
                    let store = [&[rex(true, a, 0), 0x89][..], &operand, &word].concat();
                    [store, vec![rex(true, a, 0), 0x03], operand.to_vec(), word.to_vec()].concat()
                }
            };
            self.put(bytes);
        }
    }

    /// Puts what the flags say into a register, without the adjust flag, which instructions may leave
    /// undefined.
    fn observe(&mut self, choices: &mut Choices<'_>) {
        match choices.next(4) {
            // setcc r8b; add rax, r8 (which sets them anew)
            0 => self.put([0x41, 0x0f, 0x90 | choices.next(16) as u8, 0xc0, 0x4c, 0x01, 0xc0]),
            // adc rsi, rdi
            1 => self.put(two(0x11, 7, 6)),
            // pushfq; pop r9; and r9, OF SF ZF PF CF; add rdx, r9
            2 => self.put([0x9c, 0x41, 0x59, 0x49, 0x81, 0xe1, 0xc5, 0x08, 0, 0, 0x4c, 0x01, 0xca]),
            // cmovcc rcx, rdx
            _ => self.put([0x48, 0x0f, 0x40 | choices.next(16) as u8, 0xca]),
        }
    }

    fn main(&mut self, choices: &mut Choices<'_>, starts: &[usize], handler: bool) -> usize {
        let (start, end) = (self.label(), self.label());
        let (on_trap, restorer) = (self.label(), self.label());
        self.functions.push((start, end));
        self.items.push(Item::Label(start));
        if handler {
            self.install(on_trap, restorer);
        }
        let mut at = OUT as u32;
        for _ in 0..3 {
            for function in starts {
                for register in WORK {
                    let value = u64::from(choices.next(u32::MAX)) << 20 ^ u64::from(choices.next(99));
                    self.put(
                        [vec![rex(true, 0, register), 0xb8 | register & 7], value.to_le_bytes().to_vec()]
                            .concat(),
                    );
                }
                // mov qword [FUEL], 6
                self.put(
                    [&[0x48, 0xc7, 0x04, 0x25][..], &(FUEL as u32).to_le_bytes(), &[6, 0, 0, 0]].concat(),
                );
                self.items.push(Item::Call(*function));
                // The flags on return are nobody's.
                for register in WORK {
                    let operand = [0x04 | (register & 7) << 3, 0x25];
                    self.put([&[rex(true, register, 0), 0x89][..], &operand, &at.to_le_bytes()].concat());
                    at += 8;
                }
            }
        }
        let len = at - OUT as u32;
        // write(1, OUT, len); exit(traps != 0)
        self.put([&[0xb8, 1, 0, 0, 0, 0xbf, 1, 0, 0, 0, 0xbe][..], &(OUT as u32).to_le_bytes()].concat());
        self.put([&[0xba][..], &len.to_le_bytes(), &[0x0f, 0x05]].concat());
        self.put([&[0x31, 0xff, 0x48, 0x83, 0x3c, 0x25][..], &(TRAPS as u32).to_le_bytes(), &[0]].concat());
        self.put([0x40, 0x0f, 0x95, 0xc7, 0xb8, 60, 0, 0, 0, 0x0f, 0x05]);
        self.items.push(Item::Label(end));
        if handler {
            self.on_trap(on_trap, restorer);
        }
        start
    }

    /// rt_sigaction(SIGTRAP, {on_trap, SA_SIGINFO | SA_RESTORER | SA_ONSTACK, restorer, 0}, 0, 8), with a
    /// stack of its own.
    fn install(&mut self, on_trap: usize, restorer: usize) {
        let at = DATA as u32 + 0x300;
        // A call that pushes the address of what follows: pop it, and it is the handler's address.
        for (offset, label) in [(0, on_trap), (16, restorer)] {
            // call label's address getter: `call label` with label: pop rax; jmp back is not needed: lea by a
            // table entry.
            self.items.push(Item::Table(vec![label]));
            // movsxd rax, [r10]; add rax, r10; mov [at + offset], rax
            self.put([0x49, 0x63, 0x02, 0x4c, 0x01, 0xd0, 0x48, 0x89, 0x04, 0x25]);
            self.put((at + offset).to_le_bytes());
        }
        self.put(
            [&[0x48, 0xc7, 0x04, 0x25][..], &(at + 8).to_le_bytes(), &0x0c00_0004_u32.to_le_bytes()].concat(),
        );
        // sigaltstack: {STACK, 0, size}
        self.put(
            [&[0x48, 0xc7, 0x04, 0x25][..], &(at + 64).to_le_bytes(), &(STACK as u32).to_le_bytes()].concat(),
        );
        self.put(
            [&[0x48, 0xc7, 0x04, 0x25][..], &(at + 80).to_le_bytes(), &0x4000_u32.to_le_bytes()].concat(),
        );
        self.put(
            [&[0xb8, 131, 0, 0, 0, 0xbf][..], &(at + 64).to_le_bytes(), &[0x31, 0xf6, 0x0f, 0x05]].concat(),
        );
        self.put([&[0xb8, 13, 0, 0, 0, 0xbf, 5, 0, 0, 0, 0xbe][..], &at.to_le_bytes()].concat());
        self.put([0x31, 0xd2, 0x41, 0xba, 8, 0, 0, 0, 0x0f, 0x05]);
    }

    fn on_trap(&mut self, on_trap: usize, restorer: usize) {
        let (again, found) = (self.label(), self.label());
        // It is told of by nothing, so that it is not counted itself.
        self.items.push(Item::Label(on_trap));
        // mov rax, [rdx + 168] (rip); mov ecx, RESUME + 8
        self.put([0x48, 0x8b, 0x82, 168, 0, 0, 0, 0xb9]);
        self.put((RESUME as u32 + 8).to_le_bytes());
        self.items.push(Item::Label(again));
        // cmp [rcx], rax; je found; add rcx, 16; cmp qword [rcx], 0; jne again; hlt
        self.put([0x48, 0x39, 0x01]);
        self.items.push(Item::Jump(Some(4), true, found));
        self.put([0x48, 0x83, 0xc1, 16, 0x48, 0x83, 0x39, 0]);
        self.items.push(Item::Jump(Some(5), true, again));
        self.put([0xf4]);
        self.items.push(Item::Label(found));
        // mov rax, [rcx + 8]; mov [rdx + 168], rax; inc qword [TRAPS]; mov rax, [AGAIN]; mov [counter], rax;
        // ret
        self.put([0x48, 0x8b, 0x41, 8, 0x48, 0x89, 0x82, 168, 0, 0, 0]);
        self.put([&[0x48, 0xff, 0x04, 0x25][..], &(TRAPS as u32).to_le_bytes()].concat());
        self.put([&[0x48, 0x8b, 0x04, 0x25][..], &(AGAIN as u32).to_le_bytes()].concat());
        self.put([&[0x48, 0x89, 0x04, 0x25][..], &0x7000_1000_u32.to_le_bytes(), &[0xc3]].concat());
        self.items.push(Item::Label(restorer));
        self.put([0xb8, 15, 0, 0, 0, 0x0f, 0x05]);
    }

    /// Assembles. Jumps that want to be short become long until all reach.
    fn finish(self, entry: usize) -> (Vec<u8>, Vec<u8>, Vec<(u64, u64)>) {
        let mut long: Vec<bool> =
            self.items.iter().map(|item| !matches!(item, Item::Jump(_, true, _))).collect();
        loop {
            let mut labels = vec![0; self.labels];
            let mut ends = Vec::new();
            let mut at = CODE + 5;
            for (item, long) in self.items.iter().zip(&long) {
                at += match item {
                    Item::Bytes(bytes) => bytes.len() as u64,
                    Item::Label(label) => {
                        labels[*label] = at;
                        0
                    }
                    Item::Jump(condition, ..) if *long => 5 + u64::from(condition.is_some()),
                    Item::Jump(..) => 2,
                    Item::Call(_) => 5,
                    Item::Table(_) => 7,
                };
                ends.push(at);
            }
            let mut fits = true;
            for (index, item) in self.items.iter().enumerate() {
                if let Item::Jump(_, _, label) = item
                    && !long[index]
                    && i8::try_from(labels[*label].wrapping_sub(ends[index]) as i64).is_err()
                {
                    long[index] = true;
                    fits = false;
                }
            }
            if fits {
                return self.bytes(&labels, &ends, &long, entry);
            }
        }
    }

    fn bytes(
        &self,
        labels: &[u64],
        ends: &[u64],
        long: &[bool],
        entry: usize,
    ) -> (Vec<u8>, Vec<u8>, Vec<(u64, u64)>) {
        let mut code = rel32(&[0xe9], CODE, labels[entry]);
        let mut tables = Vec::new();
        for (index, item) in self.items.iter().enumerate() {
            let at = CODE + code.len() as u64;
            match item {
                Item::Bytes(bytes) => code.extend(bytes),
                Item::Label(_) => {}
                Item::Jump(Some(condition), ..) if long[index] => {
                    let Item::Jump(_, _, label) = item else { continue };
                    code.extend(rel32(&[0x0f, 0x80 | condition], at, labels[*label]));
                }
                Item::Jump(None, _, label) if long[index] => code.extend(rel32(&[0xe9], at, labels[*label])),
                Item::Jump(condition, _, label) => {
                    let distance = labels[*label].wrapping_sub(ends[index]) as i8;
                    code.extend([condition.map_or(0xeb, |condition| 0x70 | condition), distance as u8]);
                }
                Item::Call(label) => code.extend(rel32(&[0xe8], at, labels[*label])),
                Item::Table(entries) => {
                    let table = TABLES + tables.len() as u64;
                    code.extend(rel32(&[0x4c, 0x8d, 0x15], at, table));
                    for label in entries {
                        tables.extend((labels[*label].wrapping_sub(table) as i32).to_le_bytes());
                    }
                }
            }
        }
        let functions =
            self.functions.iter().map(|(start, end)| (labels[*start], labels[*end] - labels[*start]));
        (code, tables, functions.collect())
    }
}

/// The program as a file.
pub fn elf(code: &[u8], tables: &[u8], functions: &[(u64, u64)]) -> Vec<u8> {
    let mut symtab = vec![0; 24];
    for (address, size) in functions {
        symtab.extend(0_u32.to_le_bytes());
        symtab.extend([0x12, 0]);
        symtab.extend(1_u16.to_le_bytes());
        symtab.extend(address.to_le_bytes());
        symtab.extend(size.to_le_bytes());
    }
    let names = b"\0.text\0.rodata\0.symtab\0.names\0";
    let mut file = vec![0; 0x1000];
    file.extend(code);
    file.resize(file.len().next_multiple_of(0x1000), 0);
    let tables_at = file.len() as u64;
    file.extend(tables);
    file.resize(file.len().next_multiple_of(0x1000), 0);
    let symbols_at = file.len() as u64;
    file.extend(&symtab);
    let names_at = file.len() as u64;
    file.extend(names);
    file.resize(file.len().next_multiple_of(16), 0);
    let sections_at = file.len() as u64;
    // name, type, flags, address, offset, size, link, entry size
    let sections: [[u64; 8]; 5] = [
        [0; 8],
        [1, 1, 6, CODE, 0x1000, code.len() as u64, 0, 0],
        [7, 1, 2, TABLES, tables_at, tables.len() as u64, 0, 0],
        [15, 2, 0, 0, symbols_at, symtab.len() as u64, 4, 24],
        [23, 3, 0, 0, names_at, names.len() as u64, 0, 0],
    ];
    for [name, kind, flags, address, offset, size, link, entry] in sections {
        file.extend((name as u32).to_le_bytes());
        file.extend((kind as u32).to_le_bytes());
        for word in [flags, address, offset, size] {
            file.extend(word.to_le_bytes());
        }
        file.extend((link as u32).to_le_bytes());
        file.extend(0_u32.to_le_bytes());
        file.extend(16_u64.to_le_bytes());
        file.extend(entry.to_le_bytes());
    }
    let mut header =
        vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 62, 0, 1, 0, 0, 0];
    for word in [CODE, 64, sections_at] {
        header.extend(word.to_le_bytes());
    }
    header.extend(0_u32.to_le_bytes());
    for half in [64_u16, 56, 4, 64, 5, 4] {
        header.extend(half.to_le_bytes());
    }
    // type and flags, offset, address, twice the size
    for [kind, offset, address, in_file, in_memory] in [
        [1 | 5 << 32, 0x1000, CODE, code.len() as u64, code.len() as u64],
        [1 | 4 << 32, tables_at, TABLES, tables.len() as u64, tables.len() as u64],
        [1 | 6 << 32, 0, DATA, 0, 0x1_0000],
        // To spare.
        [4, 0, 0, 0, 0],
    ] {
        for word in [kind, offset, address, address, in_file, in_memory, 0x1000] {
            header.extend(word.to_le_bytes());
        }
    }
    file[..header.len()].copy_from_slice(&header);
    file
}
