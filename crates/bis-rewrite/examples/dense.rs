//! What the dense text of each file named would cover, why the rest is left, and how long that takes.
//!
//! `cargo run --release -p bis-rewrite --example dense FILE...`; with `-s` first, short loops are counted;
//! with `-v` first, each place that is left is named.

use std::time::Instant;

use bis_rewrite::{DenseLayout, DenseOptions, Reason, SiteKind, SiteKinds, Tally, Text};

fn main() {
    let mut files: Vec<String> = std::env::args().skip(1).collect();
    let mut flag = |name: &str| {
        let at = files.iter().position(|file| file == name);
        at.map(|at| files.remove(at)).is_some()
    };
    let (short_loops, verbose) = (flag("-s"), flag("-v"));
    for path in files {
        let Ok(bytes) = std::fs::read(&path) else { continue };
        let began = Instant::now();
        let text = match Text::parse(&bytes) {
            Ok(text) => text,
            Err(error) => {
                println!("{path}: {error}");
                continue;
            }
        };
        let kinds = [SiteKind::Syscall, SiteKind::Cpuid, SiteKind::Rdtsc, SiteKind::Rdtscp];
        let plan = text.dense(DenseOptions { short_loops, hooks: SiteKinds::of(&kinds) });
        let analysed = began.elapsed();
        let layout = DenseLayout {
            trampolines: 0x4000_0000,
            counter: 0x1000,
            save: 0x1008,
            hooks: kinds.map(|kind| (kind, 0x2000)).to_vec(),
            hook_save: None,
        };
        let began = Instant::now();
        let built = plan.build(0, &layout);
        let made = began.elapsed();
        let coverage = plan.coverage();
        println!(
            "{path}: {} KiB of text, {} of them unknown; analysed in {analysed:.1?}, built in {made:.1?}: {}",
            coverage.text >> 10,
            coverage.unknown >> 10,
            match built {
                Ok(dense) => format!("{} KiB of trampolines", dense.trampolines.len() >> 10),
                Err(error) => error.to_string(),
            },
        );
        line("backward", &coverage.backward);
        line("crossing", &coverage.crossing);
        line("calls", &coverage.calls);
        line("computed", &coverage.computed);
        line("hooks", &coverage.hooks);
        if verbose {
            plan.left().iter().for_each(|(at, reason)| println!("  {at:#x}: {reason}"));
        }
    }
}

fn line(name: &str, tally: &Tally) {
    let left: Vec<String> = Reason::ALL
        .into_iter()
        .filter(|reason| tally.left(*reason) != 0)
        .map(|reason| format!("{reason:?} {}", tally.left(reason)))
        .collect();
    let covered = 100.0 * (1.0 - tally.left_in_all() as f64 / tally.seen.max(1) as f64);
    println!(
        "  {name}: {} seen, {} taken ({} keep the flags), {} needless, {} short, {} left ({covered:.1}% covered): {}",
        tally.seen,
        tally.taken,
        tally.flags_kept,
        tally.needless,
        tally.short,
        tally.left_in_all(),
        left.join(", ")
    );
}
