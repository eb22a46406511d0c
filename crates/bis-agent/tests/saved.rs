//! What the hook behind an `xsavec` does, in a program of its own (`saved.c`): with components of the state
//! that this processor need not have.

use std::{path::Path, process::Command};

#[test]
fn what_an_xsavec_leaves_out_is_filled_in() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("saved");
    let built = Command::new("gcc")
        .args(["-O2", "-Wall", "-I", env!("OUT_DIR"), "-I", "src/hooks"])
        .args(["tests/saved.c", "src/hooks/saved.c", "-o"])
        .arg(&program)
        .current_dir(folder)
        .status()
        .expect("gcc, with which the agent was built, is there");
    assert!(built.success());
    let ran = Command::new(&program).output().expect("it was just built");
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && said == "ok\n", "{said}");
}
