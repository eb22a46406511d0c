//! `make` of a C project: a hundred small files with their headers, each a run of gcc, cc1 and as; then a
//! link.
//!
//! The built program is run (never recorded), and must give the number that the same arithmetic gives here.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::step;
use crate::workload::{Job, Site};

const FUNCTIONS: u32 = 8;

pub fn prepare(site: &Site, jobs: u32) -> Result<Job> {
    let files = site.size(100, 4) as u32;
    write(site.folder, files).context("failed to write the project")?;
    let (folder, clean) = (site.folder.to_owned(), site.folder.to_owned());
    let expected = format!("{}\n", result(files));
    let job = Job::new(["make".to_owned(), "--silent".to_owned(), format!("-j{jobs}")]);
    Ok(job.reset(move || step::prepare(&clean, &["make", "--silent", "clean"], None).map(drop)).check(
        move |_| {
            let printed = step::prepare(&folder, &["./program"], None)?;
            ensure!(printed == expected.as_bytes(), "the program gives {printed:?}, not {expected:?}");
            Ok(())
        },
    ))
}

fn write(folder: &Path, files: u32) -> Result<()> {
    let names: Vec<String> = (0..files).map(|file| format!("part{file}.o")).collect();
    let makefile = format!(
        "CFLAGS = -O1 -g\nCC = gcc\nOBJECTS = main.o {}\n\
         program: $(OBJECTS)\n\t$(CC) -o $@ $(OBJECTS)\n\
         %.o: %.c parts.h\n\t$(CC) $(CFLAGS) -c -o $@ $<\n\
         clean:\n\trm -f program $(OBJECTS)\n.PHONY: clean\n",
        names.join(" ")
    );
    let mut header = String::from("#include <stdint.h>\n");
    let mut main =
        String::from("#include <stdio.h>\n#include \"parts.h\"\nint main(void) {\n  uint32_t x = 1;\n");
    for file in 0..files {
        let mut part = String::from("#include <stdlib.h>\n#include <string.h>\n#include \"parts.h\"\n");
        writeln!(header, "uint32_t part{file}(uint32_t x);")?;
        writeln!(main, "  x = part{file}(x);")?;
        for function in 0..FUNCTIONS {
            let (factor, add, turns) = constants(file, function);
            writeln!(
                part,
                "static uint32_t step{function}(uint32_t x) {{\n  for (int i = 0; i < {turns}; i++) {{\n    \
                 if (x & 1) x = x * {factor}u + {add}u; else x = (x >> 1) ^ {add}u;\n  }}\n  return x;\n}}"
            )?;
        }
        let calls = (0..FUNCTIONS).fold("x".to_owned(), |inner, function| format!("step{function}({inner})"));
        writeln!(part, "uint32_t part{file}(uint32_t x) {{\n  return {calls};\n}}")?;
        fs::write(folder.join(format!("part{file}.c")), part)?;
    }
    main.push_str("  printf(\"%u\\n\", x);\n  return 0;\n}\n");
    for (name, text) in [("Makefile", makefile), ("parts.h", header), ("main.c", main)] {
        fs::write(folder.join(name), text)?;
    }
    Ok(())
}

/// What the functions of the project have for factor, addend and turns.
fn constants(file: u32, function: u32) -> (u32, u32, u32) {
    (2 * file + 3, 17 * function + file, function + 5)
}

/// What the project's program prints: the same steps, here.
fn result(files: u32) -> u32 {
    let mut x = 1u32;
    for file in 0..files {
        for function in 0..FUNCTIONS {
            let (factor, add, turns) = constants(file, function);
            for _ in 0..turns {
                x = if x & 1 == 1 { x.wrapping_mul(factor).wrapping_add(add) } else { (x >> 1) ^ add };
            }
        }
    }
    x
}
