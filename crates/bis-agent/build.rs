//! Assembles and links the agent's two parts, the stub and the hooks, and tells the crate where their symbols
//! lie.

use std::{
    env,
    fmt::Write,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use object::{Object, ObjectSection, ObjectSymbol};

#[path = "src/shared.rs"]
#[allow(dead_code, reason = "the build needs the header of it only")]
mod shared;

fn run(command: &mut Command) {
    let status = command.status().unwrap_or_else(|error| panic!("failed to start {command:?}: {error}"));
    assert!(status.success(), "{command:?} ended with {status}");
}

/// The hooks run without a stack protector, vector registers, relocations, or anything of a C library; and no
/// jump tables, so that each of their conditional branches is one that a reader of the source sees.
const HOOKS_FLAGS: [&str; 17] = [
    "-std=gnu11",
    "-O2",
    "-g0",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-ffreestanding",
    "-fno-stack-protector",
    "-fno-pic",
    "-fno-pie",
    "-mcmodel=small",
    "-mgeneral-regs-only",
    "-mno-red-zone",
    "-fcf-protection=none",
    "-fno-asynchronous-unwind-tables",
    "-fno-jump-tables",
    "-fno-tree-loop-distribute-patterns",
];

/// Where a task is killed behind an `xsavec`, what a function would have to give back are the program's
/// registers still.
const SAVED_FLAGS: [&str; 6] =
    ["-ffixed-rbx", "-ffixed-rbp", "-ffixed-r12", "-ffixed-r13", "-ffixed-r14", "-ffixed-r15"];

/// The hooks' sources, beside their ways in and out.
const HOOKS: [&str; 11] = [
    "quick", "general", "log", "classes", "shapes", "vectors", "waits", "clock", "chance", "saved", "memory",
];

struct Build {
    out: PathBuf,
}

impl Build {
    fn compile(&self, source: &str, flags: &[&str]) -> PathBuf {
        let name = Path::new(source).with_extension("o");
        let object = self.out.join(name.file_name().expect("a source has a name"));
        // Not the flags that cargo wants for code of the host.
        let mut compiler = Command::new(cc::Build::new().get_compiler().path());
        run(compiler.arg("-I").arg(&self.out).args(flags).args(["-c", source, "-o"]).arg(&object));
        object
    }

    /// Links to `NAME.elf`; writes `NAME.bin`, its text, and `NAME_symbols.rs`.
    fn link(&self, name: &str, script: &str, objects: &[PathBuf], prefix: &str) {
        let elf = self.out.join(format!("{name}.elf"));
        let flags =
            ["-static", "-z", "norelro", "-z", "noseparate-code", "--fatal-warnings", "-T", script, "-o"];
        run(Command::new("ld").args(flags).arg(&elf).args(objects));
        let bytes = fs::read(&elf).expect("ld wrote the file");
        let file = object::File::parse(&*bytes).expect("ld writes ELF");
        let text = file.section_by_name(".text").expect("there is text");
        fs::write(self.out.join(format!("{name}.bin")), text.data().expect("text has data"))
            .expect("OUT_DIR is writable");
        let mut symbols = format!("pub(crate) const TEXT_BASE: u64 = {:#x};\n", text.address());
        for symbol in file.symbols() {
            if let Some(short) = symbol.name().unwrap_or("").strip_prefix(prefix) {
                let (name, address) = (short.to_uppercase(), symbol.address());
                writeln!(symbols, "pub(crate) const {name}: u64 = {address:#x};").expect("to a string");
            }
        }
        fs::write(self.out.join(format!("{name}_symbols.rs")), symbols).expect("OUT_DIR is writable");
    }
}

fn main() {
    println!("cargo:rerun-if-changed=src");
    let build = Build { out: PathBuf::from(env::var("OUT_DIR").expect("cargo sets OUT_DIR")) };
    let stub = build.compile("src/agent.S", &[]);
    build.link("agent", "src/agent.lds", &[stub], "bis_");
    fs::write(build.out.join("shared.h"), shared::header()).expect("OUT_DIR is writable");
    let mut hooks = vec![build.compile("src/hooks/entry.S", &[])];
    hooks.extend(HOOKS.map(|name| {
        let more: &[&str] = match name {
            "saved" => &SAVED_FLAGS,
            // There is little room, other compilers make other lengths, and these are hardly ever in a hurry.
            "chance" | "classes" | "waits" | "memory" | "vectors" | "shapes" => &["-Os"],
            _ => &[],
        };
        build.compile(&format!("src/hooks/{name}.c"), &[&HOOKS_FLAGS, more].concat())
    }));
    let stand_in = build.compile("src/stand_in.c", &HOOKS_FLAGS);
    let elf = build.out.join("stand_in.elf");
    let flags = ["-static", "-z", "norelro", "-z", "noseparate-code", "--fatal-warnings", "-o"];
    run(Command::new("ld").args(flags).arg(elf).arg(stand_in));
    build.link("hooks", "src/hooks/hooks.lds", &hooks, "hooks_");
}
