//! `bis completions` and `bis man`: what other programs need to know of the command line, made from it.

use std::{fs, io::Write};

use clap::CommandFactory;

use crate::{
    args::{Cli, Completions, Man},
    failure::{Failure, Result},
    output,
};

pub fn completions(args: &Completions) -> Result<u8> {
    // Through a buffer, because the generator panics when its writer fails.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "bis", &mut script);
    let mut out = output::page();
    out.write_all(&script)?;
    out.flush()?;
    Ok(0)
}

pub fn pages(args: &Man) -> Result<u8> {
    let Some(dir) = &args.dir else {
        let mut out = output::page();
        clap_mangen::Man::new(Cli::command()).render(&mut out)?;
        out.flush()?;
        return Ok(0);
    };
    let what = |error| Failure::of(format!("write the manual pages to {}", dir.display()), error);
    fs::create_dir_all(dir).map_err(what)?;
    clap_mangen::generate_to(Cli::command(), dir).map_err(what)?;
    Ok(0)
}
