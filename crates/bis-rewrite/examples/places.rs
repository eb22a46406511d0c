//! What a recorder asks of a file before the program runs: what is at each place that may read the clock, or
//! ask the processor for chance. Prints how many places there are, by answer, and how long the slowest took.

use std::{collections::BTreeMap, error::Error, time::Instant};

use bis_rewrite::{Learned, Text, chance_bytes, clock_bytes, cpuid_bytes};
use object::{Object as _, ObjectSection as _, SectionKind};

fn main() -> Result<(), Box<dyn Error>> {
    for path in std::env::args().skip(1) {
        let elf = std::fs::read(&path)?;
        let text = Text::parse(&elf)?;
        let file = object::File::parse(&elf[..])?;
        let mut answers: BTreeMap<String, usize> = BTreeMap::new();
        let mut slow = Vec::new();
        let begin = Instant::now();
        for section in file.sections().filter(|section| section.kind() == SectionKind::Text) {
            let code = section.data()?;
            let mut ask = |what: &str, at: usize, answer: &dyn Fn(u64) -> Learned| {
                let (site, begin) = (section.address() + at as u64, Instant::now());
                let found = answer(site);
                slow.push((begin.elapsed(), site));
                let answer = match found {
                    Learned::Run(_) => "run".into(),
                    Learned::Clock { .. } => "short".into(),
                    Learned::Inside { .. } => "inside".into(),
                    Learned::Refused { reason, .. } => reason.to_string(),
                };
                *answers.entry(format!("{what}: {answer}")).or_default() += 1;
            };
            for at in clock_bytes(code) {
                ask("clock", at, &|site| text.clock_at(site));
            }
            for at in chance_bytes(code).into_iter().chain(cpuid_bytes(code)) {
                ask("chance", at, &|site| text.chance_at(site));
            }
        }
        println!("{path}: {:.2} s", begin.elapsed().as_secs_f64());
        for (answer, count) in answers {
            println!("  {count:6} {answer}");
        }
        slow.sort_unstable_by(|a, b| b.cmp(a));
        for (took, site) in slow.into_iter().take(12) {
            println!("  {:6.3} s at {site:#x}", took.as_secs_f64());
        }
    }
    Ok(())
}
