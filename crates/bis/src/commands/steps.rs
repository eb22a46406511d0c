//! `bis replay -t EVENT`: the registers in front of each instruction, from an event on. And `bis replay
//! --compare-steps`: those behind each instruction, compared with what was recorded.

use std::io::{self, BufWriter, Write};

use bis_debug::{Step, StepDifference};
use bis_trace::{Trace, types::REGISTER_NAMES};

use super::{debug, replay::no_more};
use crate::{
    args::Replay,
    failure::{Failure, Result, status},
    folder, human, output,
};

pub fn run(args: &Replay, from: u64) -> Result<u8> {
    let trace = Trace::open(&folder::find(&args.trace.name)?)?;
    let options = debug::options(args, None)?;
    let mut out = BufWriter::new(io::stderr());
    let whole = bis_debug::steps(&trace, &options, from, &mut |step| show(step, &mut out));
    out.flush()?;
    match whole.map_err(|error| Failure::usage(error.to_string()))? {
        true => Ok(0),
        false => {
            output::note(&format!("bis: replayed all that there is of this trace; {}", no_more(&trace)));
            Ok(status::CUT)
        }
    }
}

fn show(step: &Step, out: &mut impl Write) -> io::Result<()> {
    let regs = &step.registers;
    let named = [
        ("rip", regs.rip),
        ("rax", regs.rax),
        ("rbx", regs.rbx),
        ("rcx", regs.rcx),
        ("rdx", regs.rdx),
        ("rsi", regs.rsi),
        ("rdi", regs.rdi),
        ("rbp", regs.rbp),
        ("rsp", regs.rsp),
        ("r8", regs.r8),
        ("r9", regs.r9),
        ("r10", regs.r10),
        ("r11", regs.r11),
        ("r12", regs.r12),
        ("r13", regs.r13),
        ("r14", regs.r14),
        ("r15", regs.r15),
        ("eflags", regs.eflags),
        ("fs_base", regs.fs_base),
    ];
    write!(out, "{} {}", step.tid, step.event)?;
    for (name, value) in named {
        write!(out, " {name}={value:x}")?;
    }
    writeln!(out)
}

pub fn compare(args: &Replay) -> Result<u8> {
    let trace = Trace::open(&folder::find(&args.trace.name)?)?;
    let options = debug::options(args, None)?;
    let compared = bis_debug::compare(&trace, &options).map_err(|error| Failure::usage(error.to_string()))?;
    let count = human::counted(compared.instructions, "instruction");
    if let Some(difference) = &compared.difference {
        return Err(Failure::new(status::DIVERGED, shown(difference)));
    }
    if let Some(divergence) = &compared.divergence {
        let text = format!("{divergence}\n  before: {count} with the recorded registers");
        return Err(Failure::new(status::DIVERGED, text));
    }
    output::note(&format!("bis: {count} compared, all with the recorded registers"));
    if compared.is_cut {
        output::note(&format!("bis: compared all that there is of this trace; {}", no_more(&trace)));
        return Ok(status::CUT);
    }
    Ok(0)
}

/// The report of a difference, of several lines.
fn shown(difference: &StepDifference) -> String {
    let StepDifference { pid, tid, event, done, number, instruction, recorded, replayed } = difference;
    let mut text =
        format!("divergence on the way from event {done} to event {event}: task {tid} of process {pid}");
    match instruction {
        Some((at, instruction)) => {
            text += &format!(" has other registers behind instruction {number} than when it was recorded");
            text += &format!("\n  instruction: {at:#x}  {instruction}");
        }
        None => text += &format!(" has other registers behind event {done} itself"),
    }
    text += &format!("\n  {:<10} {:>18} {:>18}", "register", "recorded", "replayed");
    // Selectors that 64-bit code does not use, and the number of a call, are not compared.
    let is_shown = |name: &str| !matches!(name, "ds" | "es" | "fs" | "gs" | "orig_rax");
    let pairs = recorded.words().into_iter().zip(replayed.words());
    for (name, (recorded, replayed)) in REGISTER_NAMES.iter().zip(pairs).filter(|(name, _)| is_shown(name)) {
        let mark = if recorded == replayed { "" } else { "  <- differs" };
        text += &format!("\n  {name:<10} {recorded:>#18x} {replayed:>#18x}{mark}");
    }
    text
}
