//! `bis make-texts`, which a recording starts and nobody else: makes the dense texts of large programs in the
//! background, for the recordings to come. And what the recording does to start it.
//!
//! Whatever goes wrong here costs nothing but the time of the next one. What is stored is whole or not there
//! (`bis_rewrite::DenseCache`); a process that is killed leaves a file that later ones remove.

use std::{
    fs,
    os::{fd::AsRawFd, unix::fs::MetadataExt, unix::process::CommandExt},
    path::Path,
    process,
    time::Duration,
};

use bis_record::{TextMakers, TextOrders};
use bis_rewrite::DenseCache;
use bis_tracee::{background, sys};

use crate::{
    args::{MakeTexts, Order},
    env,
    failure::{Failure, Result},
};

/// Time for a large browser, on a busy machine.
const LIFE: Duration = Duration::from_secs(1800);

/// A text is made only where the filesystem has this many times the bytes of its file left: nobody's disk
/// shall be filled by what can be made again.
const ROOM: u64 = 4;

/// How recordings have texts made: as the environment asks for.
pub fn makers() -> Result<Option<TextMakers>> {
    let value = env::BIS_TEXTS.get();
    match value.as_ref().map(|value| value.to_str()) {
        None | Some(Some("background")) => Ok(Some(TextMakers::new(begin))),
        Some(Some("wait")) => Ok(None),
        _ => Err(Failure::usage(format!(
            "failed to read {}={}: it is background or wait",
            env::BIS_TEXTS.name,
            value.unwrap_or_default().display()
        ))),
    }
}

fn begin(orders: TextOrders) -> std::io::Result<()> {
    // What we are, even if another one has been installed meanwhile.
    let mut command = process::Command::new("/proc/self/exe");
    command.arg0("bis").arg("make-texts").arg("--folder").arg(&orders.folder);
    command.arg("--limit").arg(orders.limit_bytes.to_string());
    let (files, orders): (Vec<_>, Vec<_>) = orders.texts.into_iter().unzip();
    for (file, order) in files.iter().zip(&orders) {
        command.arg(format!("{}={order}", file.as_raw_fd()));
    }
    background::spawn(command, files)
}

pub fn run(args: &MakeTexts) -> Result<u8> {
    let failed = |error| Failure::of("make texts", error);
    let identity = |folder: &Path| fs::metadata(folder).ok().map(|meta| (meta.dev(), meta.ino()));
    // A process that has removed the folder wants nothing in it: so it is if that was before we began, too.
    let Some(cache) = DenseCache::open_made(&args.folder, args.limit).map_err(failed)? else {
        return Ok(0);
    };
    let (folder, ours) = (args.folder.clone(), identity(&args.folder));
    background::live_no_longer_than(LIFE, move || identity(&folder) == ours).map_err(failed)?;
    let mut locked = Vec::new();
    for Order { fd, order } in &args.orders {
        let file = sys::adopt_fd(*fd).map_err(failed)?;
        // What others make already is not waited for.
        if let Some(lock) = cache.lock(&order.name()).map_err(failed)? {
            locked.push((file, order, lock));
        }
    }
    // Small ones first: if all is to end soon, much of the program has been made.
    locked.sort_by_key(|(file, ..)| file.metadata().map_or(0, |meta| meta.len()));
    let _turn = cache.turn().map_err(failed)?;
    let mut made = 0;
    for (file, order, lock) in locked {
        let len = file.metadata().map_err(failed)?.len();
        if made + len > args.limit || cache.room() / ROOM < len {
            continue;
        }
        let elf = sys::map_file(&file).map_err(failed)?;
        order.fill(&cache, elf.bytes()).map_err(failed)?;
        made += cache.size(&order.name());
        drop(lock);
    }
    Ok(0)
}
