//! Memory that programs share with the servers of a desktop, which are not recorded: each file of
//! `tests/desktop` is a server and its client (`desktop.h`).

use std::{
    ffi::OsStr,
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Stdio},
    time::Duration,
};

use crate::{
    common::{self, Folder},
    trial,
};
use libtest_mimic::{Failed, Trial};

const LIMIT: Duration = Duration::from_secs(60);

pub fn trials() -> Vec<Trial> {
    let missing = (!common::installed("gcc")).then_some("gcc");
    if let Some(program) = missing {
        println!("ignored: everything: not installed (apt-get install {})", common::package_of(program));
    }
    let modes: [(&str, &[&str]); 2] = [("hooks", &[]), ("no-hooks", &["-n"])];
    let trials = sources().into_iter().flat_map(|source| {
        let name = source.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        modes.map(|(mode, flags)| {
            let (source, name) = (source.clone(), format!("{name}::{mode}"));
            let run = {
                let name = name.clone();
                move || common::repeated(|| shared(&source, &name, flags))
            };
            trial(module_path!(), name, run).with_ignored_flag(missing.is_some())
        })
    });
    trials.collect()
}

fn sources() -> Vec<PathBuf> {
    let folder = common::tree().join("tests/desktop");
    let files = fs::read_dir(folder).expect("the tree has its tests").map_while(Result::ok);
    let mut sources: Vec<PathBuf> =
        files.map(|file| file.path()).filter(|path| path.extension() == Some("c".as_ref())).collect();
    sources.sort();
    sources
}

/// A server that runs as long as it is used.
struct Server(Child);

impl Server {
    fn start(program: &Path, folder: &Path) -> Result<Server, Failed> {
        let mut command = common::command(program, folder);
        let mut child = command.arg("serve").arg(folder).stdout(Stdio::piped()).spawn()?;
        let said = child.stdout.take().ok_or("the server has no output")?;
        let server = Server(child);
        let mut line = String::new();
        BufReader::new(said).read_line(&mut line)?;
        if line == "ready\n" { Ok(server) } else { Err(format!("the server says {line:?}").into()) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn shared(source: &Path, name: &str, flags: &[&str]) -> Result<(), Failed> {
    let folder = Folder::new(&format!("desktop/{}", name.replace("::", "_")))?;
    let (program, trace) = (folder.path().join("program"), folder.path().join("trace"));
    common::compile(source, &program)?;
    let server = Server::start(&program, folder.path())?;

    let mut native = common::command(&program, folder.path());
    native.arg("native").arg(folder.path());
    succeeded(&common::run(native, "native", folder.path(), None, LIMIT)?)?;

    let argv = [program.as_os_str(), OsStr::new("recorded"), folder.path().as_os_str()];
    let record = common::record_command(&trace, flags, &argv, folder.path());
    let recorded = common::run(record, "record", folder.path(), None, LIMIT)?;
    succeeded(&recorded)?;
    drop(server);
    common::replay_and_compare(&trace, &recorded, folder.path(), LIMIT)?;
    folder.done();
    Ok(())
}

fn succeeded(step: &common::Step) -> Result<(), Failed> {
    if step.status == 0 { Ok(()) } else { Err(step.shown().into()) }
}
