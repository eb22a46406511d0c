//! `bis replay --trace-at`: prints at each arrival at some places, without a prompt. It is gdb that knows
//! what places and expressions are; the commands that it gets (`trace_at.gdb`) leave what they can to the
//! server, where an arrival costs some microseconds.

use std::{
    io::{self, Write},
    process::Stdio,
};

use bis_debug::News;

use super::debug::{self, Outputs};
use crate::{args::Replay, failure::Result};

pub fn run(args: &Replay) -> Result<u8> {
    let points: Vec<String> = args.trace_at.points.iter().map(|words| list(words)).collect();
    let commands = include_str!("trace_at.gdb");
    let points = format!("python BIS_POINTS = [{}]\n", points.join(", "));
    debug::with_gdb(args, &(points + commands), Outputs { listener: Some(tell), stdout: Stdio::null() })
}

/// A list of strings in Python, whatever is in them.
fn list(words: &[String]) -> String {
    let text = |word: &String| {
        let hex: String = word.bytes().map(|byte| format!("{byte:02x}")).collect();
        format!("bytes.fromhex('{hex}').decode()")
    };
    format!("[{}]", words.iter().map(text).collect::<Vec<_>>().join(", "))
}

/// What is printed goes to our output, behind its task and event; the rest to people.
fn tell(news: News<'_>) {
    // Nobody is left to read it: gdb ends soon, or the user ends it.
    let _ = match news {
        News::Printed { tid, event, text } => {
            let mut line = format!("{tid} {event} ").into_bytes();
            line.extend_from_slice(text);
            io::stdout().write_all(&line)
        }
        News::Said(text) => io::stderr().write_all(text),
    };
}
