//! What is measured: a recorder, as the two command lines that record and replay.
//!
//! The first is always bis; then come bis with other flags (`--columns`), then the other recorder (`--vs`).

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::args::Args;

pub struct Subject {
    /// As in the table's head; `bis` for the first.
    pub name: String,
    record: Template,
    replay: Template,
    /// Replays with the program's outputs, where that is another command.
    replay_aloud: Template,
    /// Whether it is bis, of which more is asked: what it replays is compared.
    pub ours: bool,
}

/// The words of a command line, with places for the trace and the program.
#[derive(Clone)]
struct Template(Vec<String>);

impl Subject {
    /// All that the command line asks for, and notes about what was left out.
    pub fn all(args: &Args, bis: &Path) -> Result<(Vec<Subject>, Vec<String>)> {
        let bis = bis.to_str().context("the path of bis is not UTF-8")?;
        let help = Command::new(bis).args(["record", "--help"]).output();
        let help = help.with_context(|| format!("failed to start {bis}"))?.stdout;
        let help = String::from_utf8_lossy(&help);
        let mut subjects = vec![ours(bis, "bis", None)];
        let mut notes = Vec::new();
        for (at, column) in args.columns.iter().enumerate() {
            if args.columns[..at].contains(column) {
                continue;
            }
            if help.contains(column.flag()) {
                subjects.push(ours(bis, column.name(), Some(column.flag())));
            } else {
                notes.push(format!(
                    "the column `{}` is left out: `bis record` has no flag {}",
                    column.name(),
                    column.flag()
                ));
            }
        }
        if let [record, replay] = args.vs.as_slice() {
            let record = Template::parse(record)?.needs(&["{trace}", "{cmd}"])?;
            let replay = Template::parse(replay)?.needs(&["{trace}"])?;
            let name = Path::new(&record.0[0]).file_name().unwrap_or_default().to_string_lossy().into_owned();
            let name =
                if subjects.iter().any(|subject| subject.name == name) { "other".into() } else { name };
            subjects.push(Subject {
                name,
                record,
                replay: replay.clone(),
                replay_aloud: replay,
                ours: false,
            });
        }
        Ok((subjects, notes))
    }

    pub fn record(&self, trace: &Path, program: &[OsString]) -> Vec<OsString> {
        self.record.fill(trace, program)
    }

    pub fn replay(&self, trace: &Path, aloud: bool) -> Vec<OsString> {
        if aloud { &self.replay_aloud } else { &self.replay }.fill(trace, &[])
    }

    /// The command lines as they were given, for the report: recording, replaying.
    pub fn shown(&self) -> (String, String) {
        (self.record.0.join(" "), self.replay.0.join(" "))
    }
}

fn ours(bis: &str, name: &str, flag: Option<&str>) -> Subject {
    let words = |words: &[&str]| Template([&[bis], words].concat().iter().map(ToString::to_string).collect());
    let record = [&["record", "-o", "{trace}"], flag.as_slice(), &["--", "{cmd}"]].concat();
    Subject {
        name: name.to_owned(),
        record: words(&record),
        replay: words(&["replay", "-a", "--quiet", "{trace}"]),
        replay_aloud: words(&["replay", "-a", "{trace}"]),
        ours: true,
    }
}

impl Template {
    /// Splits as a shell does; nothing is expanded.
    fn parse(text: &str) -> Result<Template> {
        match shlex::split(text) {
            Some(words) if !words.is_empty() => Ok(Template(words)),
            _ => bail!("`{text}` is no command line: it is empty, or a quote is not closed"),
        }
    }

    fn needs(self, places: &[&str]) -> Result<Template> {
        for place in places {
            // {cmd} is several words, so it must be a word; {trace} may be a part of one.
            let found = |word: &String| if *place == "{cmd}" { word == place } else { word.contains(place) };
            if !self.0.iter().any(found) {
                bail!("`{}` does not say where {place} goes (as a word of its own)", self.0.join(" "));
            }
        }
        Ok(self)
    }

    fn fill(&self, trace: &Path, program: &[OsString]) -> Vec<OsString> {
        let mut filled = Vec::new();
        for word in &self.0 {
            if word == "{cmd}" {
                filled.extend_from_slice(program);
                continue;
            }
            let mut whole = OsString::new();
            for (at, part) in word.split("{trace}").enumerate() {
                if at > 0 {
                    whole.push(trace);
                }
                whole.push(part);
            }
            filled.push(whole);
        }
        filled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_filled() {
        let template = Template::parse("env 'A=b c' rec --dir={trace} -- {cmd}").unwrap();
        let filled = template.fill(Path::new("/t/1"), &["ls".into(), "-l a".into()]);
        assert_eq!(filled, ["env", "A=b c", "rec", "--dir=/t/1", "--", "ls", "-l a"]);
    }

    #[test]
    fn missing_places_are_errors() {
        assert!(Template::parse("rec 'open").is_err());
        assert!(Template::parse("rec {cmd}").unwrap().needs(&["{trace}", "{cmd}"]).is_err());
        assert!(Template::parse("rec {trace} x{cmd}").unwrap().needs(&["{trace}", "{cmd}"]).is_err());
        assert!(Template::parse("rec {trace} {cmd}").unwrap().needs(&["{trace}", "{cmd}"]).is_ok());
    }

    #[test]
    fn flags_come_before_the_program() {
        let subject = ours("/b/bis", "-n", Some("--no-hooks"));
        let argv = subject.record(Path::new("/t"), &["true".into()]);
        assert_eq!(argv, ["/b/bis", "record", "-o", "/t", "--no-hooks", "--", "true"]);
        assert_eq!(subject.replay(Path::new("/t"), false), ["/b/bis", "replay", "-a", "--quiet", "/t"]);
    }
}
