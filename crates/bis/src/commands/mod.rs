//! What each command does, a file for each. A command gives its exit status, or a failure to show.

mod cache;
mod debug;
mod doctor;
mod doctor_text;
mod dump;
mod dump_text;
mod gdbinit;
mod guided;
mod info;
mod ls;
mod make_texts;
mod manual;
mod on_replay;
mod pack;
mod profile;
mod ps;
mod record;
mod replay;
mod rm;
mod steps;
mod stops;
mod syscalls;
mod trace_at;
mod written;

use crate::{args::Command, failure::Result};

pub fn run(command: Command) -> Result<u8> {
    match command {
        Command::Record(args) => record::run(args),
        Command::Run(args) => record::run_live(args),
        Command::Replay(args) => replay::run(&args),
        Command::Ps(args) => ps::run(&args),
        Command::Dump(args) => dump::run(&args),
        Command::Output(args) => written::run(&args),
        Command::Info(args) if args.cache => cache::show(),
        Command::Info(args) => info::run(&args),
        Command::Ls(args) => ls::run(&args),
        Command::Rm(args) if args.cache => cache::empty(),
        Command::Rm(args) => rm::run(&args),
        Command::Pack(args) => pack::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Syscalls(args) => syscalls::run(&args),
        Command::Completions(args) => manual::completions(&args),
        Command::Man(args) => manual::pages(&args),
        Command::Gdbinit(_) => gdbinit::run(),
        Command::MakeTexts(args) => make_texts::run(&args),
    }
}
