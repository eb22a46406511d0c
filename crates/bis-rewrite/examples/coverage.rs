//! Counts, for each file named, the sites that can be patched, and why the others cannot; and says how long
//! that took.
//!
//! `cargo run --release -p bis-rewrite --example coverage FILE...`, with `-v` first: each refused site.

use std::{collections::BTreeMap, time::Instant};

use bis_rewrite::Text;

fn main() {
    let mut files: Vec<String> = std::env::args().skip(1).collect();
    let verbose = files.first().is_some_and(|first| first == "-v");
    if verbose {
        files.remove(0);
    }
    let mut totals: BTreeMap<String, usize> = BTreeMap::new();
    for path in files {
        let Ok(bytes) = std::fs::read(&path) else { continue };
        let began = Instant::now();
        let text = match Text::parse(&bytes) {
            Ok(text) => text,
            Err(error) => {
                if verbose {
                    println!("{path}: {error}");
                }
                continue;
            }
        };
        let sites: Vec<_> = text.sites().collect();
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        let listed = began.elapsed();
        for (site, kind) in &sites {
            let outcome = match text.run_at(*site) {
                Ok(run) if run.start() == run.site() => format!("{kind:?}: from the site on"),
                Ok(_) => format!("{kind:?}: from before the site"),
                Err(reason) => {
                    if verbose {
                        println!("{path}: {site:#x}: {kind:?}: {reason}");
                    }
                    format!("{kind:?}: refused: {reason:?}")
                }
            };
            *counts.entry(outcome.clone()).or_default() += 1;
            *totals.entry(outcome).or_default() += 1;
        }
        let all = began.elapsed();
        let began = Instant::now();
        if let Some((site, _)) = sites.last() {
            let _ = Text::parse(&bytes).map(|text| text.run_at(*site));
        }
        let one = began.elapsed();
        println!(
            "{path}: {} sites {counts:?}; listed {listed:.1?}, all {all:.1?}, one {one:.1?}",
            sites.len()
        );
    }
    println!("in all: {totals:#?}");
}
