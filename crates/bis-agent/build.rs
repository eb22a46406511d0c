//! Assembles and links the agent, and tells the crate where its symbols lie.

use std::{env, fmt::Write, fs, path::Path, process::Command};

use object::{Object, ObjectSection, ObjectSymbol};

fn run(command: &mut Command) {
    let status = command.status().unwrap_or_else(|error| panic!("failed to start {command:?}: {error}"));
    assert!(status.success(), "{command:?} ended with {status}");
}

fn main() {
    println!("cargo:rerun-if-changed=src/agent.S");
    println!("cargo:rerun-if-changed=src/agent.lds");
    let out = env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    let out = Path::new(&out);
    let (object_file, elf) = (out.join("agent.o"), out.join("agent.elf"));
    let mut compiler = cc::Build::new().get_compiler().to_command();
    run(compiler.args(["-c", "src/agent.S", "-o"]).arg(&object_file));
    run(Command::new("ld")
        .args([
            "-static",
            "-z",
            "norelro",
            "-z",
            "noseparate-code",
            "--fatal-warnings",
            "-T",
            "src/agent.lds",
            "-o",
        ])
        .arg(&elf)
        .arg(&object_file));

    let bytes = fs::read(&elf).expect("ld wrote the agent");
    let file = object::File::parse(&*bytes).expect("ld writes ELF");
    let text = file.section_by_name(".text").expect("the agent has text");
    fs::write(out.join("agent.bin"), text.data().expect("text has data")).expect("OUT_DIR is writable");
    let mut symbols = format!("pub(crate) const TEXT_BASE: u64 = {:#x};\n", text.address());
    for symbol in file.symbols() {
        let name = symbol.name().unwrap_or("");
        if name.starts_with("bis_") {
            let name = name.to_uppercase();
            writeln!(symbols, "pub(crate) const {name}: u64 = {:#x};", symbol.address())
                .expect("to a string");
        }
    }
    fs::write(out.join("symbols.rs"), symbols).expect("OUT_DIR is writable");
}
