//! The report as a table, for people: one line a workload, and what failed or was left out below it.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use crate::measure::{Figures, Outcome, Side, State};
use crate::stats;
use crate::subject::Subject;

/// The whole text, with a line feed at its end.
pub fn render(subjects: &[Subject], outcomes: &[Outcome]) -> String {
    let mut table = Table::new();
    // As Markdown, so that it can be put into a note; wider than the terminal is better than broken within
    // figures.
    table.load_style(presets::ASCII_MARKDOWN).set_content_arrangement(ContentArrangement::Disabled);
    let head = head(subjects);
    table.set_header(head);
    let mut below = Vec::new();
    for outcome in outcomes {
        let name = outcome.name;
        match &outcome.state {
            State::LeftOut(why) => below.push(format!("{name}: left out: {why}")),
            State::Failing(why) => below.push(format!("{name}: FAILING: {why}")),
            State::Measured(figures) => {
                table.add_row(row(name, figures, subjects));
                for (subject, state) in subjects.iter().zip(&figures.subjects) {
                    if let Err(why) = state {
                        below.push(format!("{name}: {}: FAILING: {why}", subject.name));
                    }
                }
                below.extend(figures.note.as_ref().map(|note| format!("{name}: {note}")));
            }
        }
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let mut text = table.to_string();
    text.push_str("\n\n");
    text.push_str("record, replay: ratio to native, median (least..greatest)\n");
    text.push_str("MB/s: what the trace weighs for each second of native time, without what it has in common with other files\n");
    text.push_str("peak MB: of all processes, PSS: native, recorded, replayed; each: time of one call or turn, likewise\n");
    for line in below {
        writeln!(text, "{line}").expect("a string takes everything");
    }
    text
}

fn head(subjects: &[Subject]) -> Vec<String> {
    let mut head = vec!["workload".to_owned(), "native".to_owned()];
    for (at, subject) in subjects.iter().enumerate() {
        let name = if at == 0 { String::new() } else { format!("{} ", subject.name) };
        head.extend([format!("{name}record"), format!("{name}replay"), format!("{name}MB/s")]);
        if has_details(at, subject) {
            head.extend([format!("{name}peak MB"), format!("{name}each")]);
        }
    }
    head
}

/// Our other flags are there for their ratios and traces; the first subject and the other recorder have all
/// columns.
fn has_details(at: usize, subject: &Subject) -> bool {
    at == 0 || !subject.ours
}

fn row(name: &str, figures: &Figures, subjects: &[Subject]) -> Vec<String> {
    let mut row = vec![name.to_owned(), time(figures.native())];
    for (at, (subject, state)) in subjects.iter().zip(&figures.subjects).enumerate() {
        let cells = match state {
            Err(_) => ["failing", "failing", "", "", ""].map(str::to_owned),
            Ok(pair) => {
                let each = [&figures.native_s, &pair.record.seconds, &pair.replay.seconds];
                [
                    ratio(&pair.record),
                    ratio(&pair.replay),
                    number(figures.trace_mb_per_s(pair)),
                    peaks([figures.native_peak, pair.record.peak, pair.replay.peak]),
                    figures.units.map_or(String::new(), |_| {
                        each.map(|seconds| time(figures.each(stats::median(seconds)))).join(", ")
                    }),
                ]
            }
        };
        row.extend(cells.into_iter().take(if has_details(at, subject) { 5 } else { 3 }));
    }
    row
}

/// As `1.52 (1.48..1.60)`.
fn ratio(side: &Side) -> String {
    let median = number(stats::median(&side.ratios));
    match stats::spread(&side.ratios) {
        Some((least, greatest)) => format!("{median} ({}..{})", number(Some(least)), number(Some(greatest))),
        None => median,
    }
}

fn peaks(bytes: [Option<u64>; 3]) -> String {
    bytes.map(|bytes| number(bytes.map(|bytes| bytes as f64 / 1e6))).join(", ")
}

/// Three digits that say something, `-` for none.
pub fn number(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if value < 10.0 => format!("{value:.2}"),
        Some(value) if value < 100.0 => format!("{value:.1}"),
        Some(value) => format!("{value:.0}"),
    }
}

/// A time in the unit that fits.
pub fn time(seconds: Option<f64>) -> String {
    match seconds {
        None => "-".to_owned(),
        Some(seconds) if seconds >= 1.0 => format!("{} s", number(Some(seconds))),
        Some(seconds) if seconds >= 1e-3 => format!("{} ms", number(Some(seconds * 1e3))),
        Some(seconds) => format!("{} µs", number(Some(seconds * 1e6))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        assert_eq!(number(Some(1.036)), "1.04");
        assert_eq!(number(Some(24.51)), "24.5");
        assert_eq!(number(Some(312.4)), "312");
        assert_eq!(number(None), "-");
    }

    #[test]
    fn times_have_fitting_units() {
        assert_eq!(time(Some(2.5)), "2.50 s");
        assert_eq!(time(Some(0.0123)), "12.3 ms");
        assert_eq!(time(Some(0.000_009_1)), "9.10 µs");
    }
}
