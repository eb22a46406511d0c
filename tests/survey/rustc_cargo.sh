#!/bin/bash
# cargo and rustc build a library with a binary, with several code generators, and run its tests.
# needs: cargo rustc
# limit: 400
# stderr varies: cargo prints times
# varies: the test's run prints times
# setup
mkdir -p p/src && cd p && printf '[package]\nname = "p"\nversion = "0.1.0"\nedition = "2021"\n[workspace]\n' > Cargo.toml
cat > src/lib.rs <<'END'
use std::collections::HashMap;
pub fn count(text: &str) -> HashMap<&str, usize> { let mut m = HashMap::new(); for w in text.split(' ') { *m.entry(w).or_default() += 1; } m }
#[cfg(test)] mod tests { #[test] fn counts() { assert_eq!(super::count("a b a")["a"], 2); } #[test] fn threads() { let t: Vec<_> = (0..4).map(|i| std::thread::spawn(move || i * 2)).collect(); assert_eq!(t.into_iter().map(|t| t.join().unwrap()).sum::<i32>(), 12); } }
END
echo 'fn main() { println!("{}", p::count("x y x")["x"]) }' > src/main.rs
# record
cd p && cargo build --offline 2>&1 && cargo test --offline 2>&1 && ./target/debug/p
# check
tail -1 "$OUT" | grep -q '^2$'
