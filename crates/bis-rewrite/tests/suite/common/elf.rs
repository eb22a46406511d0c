//! ELF files made by hand: code at [`CODE`], data at [`DATA`], functions named by symbols.

pub const CODE: u64 = 0x40_1000;
pub const DATA: u64 = 0x50_0000;

/// A file in the making.
#[derive(Clone, Default)]
pub struct Elf {
    /// Linked for one address.
    pub fixed: bool,
    pub entry: u64,
    pub code: Vec<u8>,
    pub data: Vec<u8>,
    /// (address, size, type)
    pub symbols: Vec<(u64, u64, u8)>,
    /// Addends of R_X86_64_RELATIVE.
    pub relocations: Vec<u64>,
    /// Content of a section of packed relocations.
    pub packed: Vec<u64>,
}

pub const FUNC: u8 = 2;
pub const NOTYPE: u8 = 0;
pub const OBJECT: u8 = 1;

impl Elf {
    /// One function that is `code`.
    pub fn function(code: &[u8]) -> Self {
        Self { entry: CODE, ..Self::default() }.with(code)
    }

    /// Adds a function right after what is there.
    pub fn with(mut self, code: &[u8]) -> Self {
        self.symbols.push((CODE + self.code.len() as u64, code.len() as u64, FUNC));
        self.code.extend(code);
        self
    }

    /// Adds code that belongs to no function.
    pub fn without_name(mut self, code: &[u8]) -> Self {
        self.code.extend(code);
        self
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut symtab = vec![0; 24];
        for (address, size, kind) in &self.symbols {
            symtab.extend(0_u32.to_le_bytes());
            symtab.extend([0x10 | kind, 0]);
            symtab.extend(1_u16.to_le_bytes());
            symtab.extend(address.to_le_bytes());
            symtab.extend(size.to_le_bytes());
        }
        let mut rela = Vec::new();
        for (index, addend) in self.relocations.iter().enumerate() {
            rela.extend((DATA + 0x8000 + 8 * index as u64).to_le_bytes());
            rela.extend(8_u64.to_le_bytes());
            rela.extend(addend.to_le_bytes());
        }
        let relr: Vec<u8> = self.packed.iter().flat_map(|word| word.to_le_bytes()).collect();
        let names = b"\0.text\0.data\0.symtab\0.names\0.rela\0.relr\0";
        let name = |wanted: &str| {
            let at = names.windows(wanted.len()).position(|window| window == wanted.as_bytes());
            u32::try_from(at.expect("a name")).expect("short")
        };
        // name, type, flags, address, content, link, entry size
        type Section<'a> = (&'a str, u32, u64, u64, &'a [u8], u32, u64);
        let sections: [Section; 6] = [
            (".text", 1, 0x2 | 0x4, CODE, &self.code, 0, 0),
            (".data", 1, 0x2 | 0x1, DATA, &self.data, 0, 0),
            (".symtab", 2, 0, 0, &symtab, 4, 24),
            (".names", 3, 0, 0, names, 0, 0),
            (".rela", 4, 0x2, DATA + 0x10_0000, &rela, 0, 24),
            (".relr", 19, 0x2, DATA + 0x20_0000, &relr, 0, 8),
        ];
        let mut file = vec![0; 64];
        let mut headers = vec![0; 64];
        for (section, kind, flags, address, content, link, entry) in sections {
            file.resize(file.len().next_multiple_of(16), 0);
            headers.extend(name(section).to_le_bytes());
            headers.extend(kind.to_le_bytes());
            for word in [flags, address, file.len() as u64, content.len() as u64] {
                headers.extend(word.to_le_bytes());
            }
            headers.extend(link.to_le_bytes());
            headers.extend(0_u32.to_le_bytes());
            headers.extend(16_u64.to_le_bytes());
            headers.extend(entry.to_le_bytes());
            file.extend(content);
        }
        file.resize(file.len().next_multiple_of(16), 0);
        let table = file.len() as u64;
        file.extend(headers);
        let mut header = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        header.extend((if self.fixed { 2_u16 } else { 3 }).to_le_bytes());
        header.extend(62_u16.to_le_bytes());
        header.extend(1_u32.to_le_bytes());
        for word in [self.entry, 0, table] {
            header.extend(word.to_le_bytes());
        }
        header.extend(0_u32.to_le_bytes());
        for half in [64_u16, 56, 0, 64, 7, 4] {
            header.extend(half.to_le_bytes());
        }
        file[..64].copy_from_slice(&header);
        file
    }
}

/// `opcode` with a displacement of 32 bits that leads from `at` to `to`.
pub fn rel32(opcode: &[u8], at: u64, to: u64) -> Vec<u8> {
    let end = at + opcode.len() as u64 + 4;
    let distance = i32::try_from(to.wrapping_sub(end) as i64).expect("near");
    [opcode, &distance.to_le_bytes()].concat()
}
