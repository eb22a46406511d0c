//! What a debugger has shown, beside what the transcript wants of it.

use std::fmt::Write as _;

use libtest_mimic::Failed;

use crate::{
    pids::Pids,
    transcript::{Transcript, Wanted},
};

/// What stands in gdb's output in front of what command number N shows.
pub const MARK: &str = "@@bis-transcript-";

/// The mark as LLDB shows it.
pub const LLDB_MARK: &str = "(lldb) # @@bis-transcript-";

/// What newer gdbs say otherwise, in the words of gdb 13, which the transcripts want. Only whole texts that
/// stand for whole texts are here.
const OTHER_WORDS: [(&str, &str); 2] = [
    // Of gdb 16: at the end of the recording, and at its begin (which it calls an end, too).
    (
        "\nReached end of recorded history; stopping.\n\
         Following forward execution will be added to history.\n",
        "\nNo more reverse-execution history.\n",
    ),
    (
        "\nReached end of recorded history; stopping.\n\
         Backward execution from here not possible.\n",
        "\nNo more reverse-execution history.\n",
    ),
];

/// What a debugger has shown, in the words that the transcripts want.
pub fn in_known_words(output: &[u8]) -> String {
    let mut shown = String::from_utf8_lossy(output).replace(LLDB_MARK, MARK);
    for (new, old) in OTHER_WORDS {
        shown = shown.replace(new, old);
    }
    shown
}

impl Transcript {
    /// Each command's output must have what is wanted.
    pub fn check(&self, shown: &str, pids: &Pids) -> Result<(), String> {
        for (number, command) in self.commands.iter().enumerate() {
            let begin = format!("\n{MARK}{number}\n");
            let end = format!("\n{MARK}{}\n", number + 1);
            let told = |what: String| format!("line {}, `{}`: {what}", command.line, command.text);
            let Some((_, rest)) = shown.split_once(&begin) else {
                return Err(told("the session had ended before this".into()));
            };
            let (mut rest, is_whole) = match rest.split_once(&end) {
                Some((part, _)) => (part, true),
                None => (rest, false),
            };
            let mut absent: Vec<&Wanted> = Vec::new();
            for wanted in &command.wanted {
                if matches!(wanted, Wanted::Absent(_)) {
                    absent.push(wanted);
                    continue;
                }
                let Some(found) = wanted.find(rest, pids) else {
                    return Err(told(format!("does not show\n    {}", wanted.shown())));
                };
                if let Some(bad) = absent.drain(..).find(|bad| bad.find(&rest[..found.start], pids).is_some())
                {
                    return Err(told(format!("shows what it should not:\n    {}", bad.shown())));
                }
                rest = &rest[found.end..];
            }
            if let Some(bad) = absent.iter().find(|bad| bad.find(rest, pids).is_some()) {
                return Err(told(format!("shows what it should not:\n    {}", bad.shown())));
            }
            if !is_whole {
                return Err(told("the session ends here".into()));
            }
        }
        Ok(())
    }

    /// A failure with all that gdb has shown, as if the commands had been typed.
    pub fn failure(&self, why: &str, shown: &str, again: &str) -> Failed {
        let mut text = String::new();
        for line in shown.lines() {
            let number = line.strip_prefix(MARK).and_then(|number| number.parse::<usize>().ok());
            let _ = match number {
                Some(number) => match self.commands.get(number) {
                    Some(command) => writeln!(text, "(gdb) {}", command.text),
                    None => writeln!(text, "(gdb) (the end)"),
                },
                None => writeln!(text, "{line}"),
            };
        }
        format!("{why}\n--- all that gdb has shown\n{text}---\n{again}").into()
    }
}
