//! Big programs that people start again and again: compilers and what drives them. Each builds from nothing,
//! without a network.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::step;
use crate::workload::{Job, Site};

/// Removes what a run has made.
fn without(made: Vec<PathBuf>) -> impl Fn() -> Result<()> {
    move || {
        for path in &made {
            let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
            match removed {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(error).with_context(|| format!("failed to remove {}", path.display()));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// The program that was built prints this.
fn prints(folder: &Path, program: &str, expected: &str) -> Result<()> {
    let printed = step::prepare(folder, &[program], None)?;
    ensure!(printed == expected.as_bytes(), "{program} prints {printed:?}, not {expected:?}");
    Ok(())
}

/// `rustc -O` of ten lines: nearly all of it is the compiler's own beginning.
pub fn rustc(site: &Site) -> Result<Job> {
    let source = "use std::collections::BTreeMap;\n\nfn main() {\n    let mut counts = BTreeMap::new();\n    \
                  for n in 1..100u64 {\n        *counts.entry(n % 7).or_insert(0u64) += n * n;\n    }\n    let \
                  sums: Vec<String> = counts.values().map(u64::to_string).collect();\n    println!(\"{}\", \
                  sums.join(\" \"));\n}\n";
    fs::write(site.folder.join("main.rs"), source)?;
    let mut sums = [0u64; 7];
    (1..100u64).for_each(|n| sums[(n % 7) as usize] += n * n);
    let expected = format!("{}\n", sums.map(|sum| sum.to_string()).join(" "));
    let folder = site.folder.to_owned();
    Ok(Job::new(["rustc", "-O", "-o", "program", "main.rs"])
        .on_one_core()
        .reset(without(vec![site.folder.join("program")]))
        .check(move |_| prints(&folder, "./program", &expected)))
}

/// `cargo build` of a program with dependencies, each a crate of its own in the same folder. Every third one
/// needs the one before.
pub fn cargo(site: &Site) -> Result<Job> {
    let crates = site.size(30, 3);
    let mut needs = String::new();
    let mut sum = String::new();
    for index in 0..crates {
        let folder = site.folder.join(format!("part{index}"));
        fs::create_dir_all(folder.join("src"))?;
        let before = (index % 3 == 2).then(|| index - 1);
        let manifest = format!(
            "[package]\nname = \"part{index}\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[dependencies]\n{}",
            before.map_or_else(String::new, |before| format!(
                "part{before} = {{ path = \"../part{before}\" }}\n"
            ))
        );
        fs::write(folder.join("Cargo.toml"), manifest)?;
        let more = before.map_or_else(|| "0".to_owned(), |before| format!("part{before}::value(x)"));
        let mut source = format!(
            "use std::collections::HashMap;\n\npub fn value(x: u64) -> u64 {{\n    parts(x).values().sum::<u64>() \
             + {more}\n}}\n"
        );
        source.push_str("\nfn parts(x: u64) -> HashMap<String, u64> {\n    let mut map = HashMap::new();\n");
        for step in 0..20 {
            writeln!(source, "    map.insert(format!(\"{{}}-{step}\", x), x * {step} + {index});")?;
        }
        source.push_str("    map\n}\n");
        fs::write(folder.join("src/lib.rs"), source)?;
        writeln!(needs, "part{index} = {{ path = \"part{index}\" }}")?;
        writeln!(sum, "    sum += part{index}::value(3);")?;
    }
    fs::create_dir_all(site.folder.join("src"))?;
    fs::write(
        site.folder.join("Cargo.toml"),
        format!(
            "[package]\nname = \"program\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[dependencies]\n{needs}\n\
             [workspace]\n"
        ),
    )?;
    fs::write(
        site.folder.join("src/main.rs"),
        format!("fn main() {{\n    let mut sum = 0u64;\n{sum}    println!(\"{{sum}}\");\n}}\n"),
    )?;
    let value = |index: u64| (0..20).map(|step| 3 * step + index).sum::<u64>();
    let whole = |index: u64| value(index) + if index % 3 == 2 { value(index - 1) } else { 0 };
    let expected = format!("{}\n", (0..crates).map(whole).sum::<u64>());
    let folder = site.folder.to_owned();
    Ok(Job::new(["cargo", "build", "--quiet", "--offline"])
        .reset(without(vec![site.folder.join("target")]))
        .check(move |_| prints(&folder, "target/debug/program", &expected)))
}

/// `go build` of a program that uses `net/http`, with an empty cache: the standard library is compiled, too.
/// With small sizes, one that needs hardly any of it.
pub fn go(site: &Site) -> Result<Job> {
    let (imports, use_it) = match site.quick {
        true => ("\"os\"", "os.Stdout.WriteString(\"built\\n\")"),
        false => ("\"fmt\"\n\t\"net/http\"", "fmt.Println(\"built\", http.StatusText(http.StatusTeapot))"),
    };
    let source = format!("package main\n\nimport (\n\t{imports}\n)\n\nfunc main() {{\n\t{use_it}\n}}\n");
    fs::write(site.folder.join("main.go"), source)?;
    let expected = if site.quick { "built\n" } else { "built I'm a teapot\n" };
    let (folder, cache) = (site.folder.to_owned(), site.folder.join("cache"));
    let set = format!("GOCACHE={}", cache.display());
    let argv = ["env", &set, "GO111MODULE=off", "GOFLAGS=", "go", "build", "-o", "program", "main.go"];
    Ok(Job::new(argv)
        .reset(without(vec![cache, site.folder.join("program")]))
        .check(move |_| prints(&folder, "./program", expected)))
}
