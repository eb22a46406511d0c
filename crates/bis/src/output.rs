//! Writing to people: lines on standard error, pages on standard output, tables. Writing never panics; a
//! reader that went away is an `io::Error` that `failure.rs` makes silent.

use std::io::{self, BufWriter, StdoutLock, Write};

/// A line on standard error; if nobody can read it, it is lost.
pub fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Buffered standard output. Flush it when done: an error at drop would be lost.
pub fn page() -> BufWriter<StdoutLock<'static>> {
    BufWriter::with_capacity(64 * 1024, io::stdout().lock())
}

/// Rows of text in columns; the last column is as wide as it is.
#[derive(Debug, Default)]
pub struct Table {
    rows: Vec<Vec<String>>,
    /// Columns that are aligned at their right end.
    right: Vec<usize>,
}

impl Table {
    pub fn new<const N: usize>(head: [&str; N], right: &[usize]) -> Table {
        Table { rows: vec![head.map(str::to_owned).to_vec()], right: right.to_vec() }
    }

    pub fn push<const N: usize>(&mut self, row: [String; N]) {
        self.rows.push(row.to_vec());
    }

    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |i: usize| {
            self.rows.iter().filter_map(|row| row.get(i)).map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.rows {
            let mut line = String::new();
            for (i, cell) in row.iter().enumerate() {
                let pad = " ".repeat(widths[i] - cell.chars().count());
                let gap = if i > 0 { "  " } else { "" };
                line.push_str(gap);
                if self.right.contains(&i) {
                    line.push_str(&pad);
                    line.push_str(cell);
                } else {
                    line.push_str(cell);
                    line.push_str(&pad);
                }
            }
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Table;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(["NAME", "SIZE", "WHAT"], &[1]);
        table.push(["a".into(), "1000".into(), "x y".into()]);
        table.push(["größer".into(), "5".into(), String::new()]);
        let mut text = Vec::new();
        table.write(&mut text).unwrap();
        assert_eq!(String::from_utf8(text).unwrap(), "NAME    SIZE  WHAT\na       1000  x y\ngrößer     5\n");
    }
}
