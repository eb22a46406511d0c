//! `bis replay -t EVENT`: the registers in front of each instruction, from an event on.

use std::io::{self, BufWriter, Write};

use bis_debug::Step;
use bis_trace::Trace;

use super::debug;
use crate::{
    args::Replay,
    failure::{Failure, Result, status},
    folder, output,
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
            output::note("bis: replayed all that there is of this trace; it was cut short");
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
