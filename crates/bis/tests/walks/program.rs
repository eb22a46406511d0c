//! The programs that are walked through.

use std::{
    ffi::{OsStr, OsString},
    path::Path,
    process::Command,
};

use libtest_mimic::Failed;

use crate::common;

/// How a program is started, and addresses of it that are worth a stop: those of functions and of data.
#[derive(Default)]
pub struct Addresses {
    pub code: Vec<u64>,
    pub data: Vec<u64>,
}

/// The inner error is a program that is not there.
pub fn build(
    source: &Path,
    folder: &Path,
) -> Result<Result<(Vec<OsString>, Addresses), &'static str>, Failed> {
    let with = |program: &'static str| {
        if !common::installed(program) {
            return Ok(Err(program));
        }
        Ok(Ok((vec![program.into(), source.into()], Addresses::default())))
    };
    match source.extension().and_then(OsStr::to_str) {
        Some("c") => {
            let program = folder.join("program");
            let mut gcc = Command::new("gcc");
            gcc.args(["-O1", "-g", "-pthread", "-no-pie", "-o"]).arg(&program).arg(source);
            let output = gcc.output().map_err(|e| format!("failed to start gcc: {e}"))?;
            if !output.status.success() {
                return Err(format!("failed to compile: {}", String::from_utf8_lossy(&output.stderr)).into());
            }
            let addresses = symbols(&program);
            Ok(Ok((vec![program.into()], addresses)))
        }
        Some("sh") => with("sh"),
        Some("py") => with("python3"),
        Some("js") => with("node"),
        _ => Err(format!("{} is no program", source.display()).into()),
    }
}

fn symbols(program: &Path) -> Addresses {
    let mut addresses = Addresses::default();
    let Ok(output) = Command::new("nm").arg(program).output() else { return addresses };
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let mut words = line.split_whitespace();
        let (Some(addr), Some(kind), Some(name)) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        let Ok(addr) = u64::from_str_radix(addr, 16) else { continue };
        if name.starts_with('_') || name.contains('.') || name.ends_with("tm_clones") {
            continue;
        }
        match kind {
            "T" | "t" => addresses.code.push(addr),
            "B" | "b" | "D" | "d" => addresses.data.push(addr & !7),
            _ => {}
        }
    }
    addresses
}
