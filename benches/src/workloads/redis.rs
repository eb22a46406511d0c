//! A redis server that is recorded, under a `redis-benchmark` that is not: what counts is how long the
//! benchmark takes for a fixed number of requests. The time of the replay is that of the whole server, since
//! it has no client then.
//!
//! They talk over a Unix socket in the job's folder, so no port can be taken by somebody else.

use std::path::PathBuf;

use anyhow::{Result, ensure};

use crate::step::{Client, Step};
use crate::workload::{Job, Site};

const SOCKET: &str = "redis.socket";

pub fn prepare(site: &Site) -> Result<Job> {
    let words = |text: &str| text.split_whitespace().map(Into::into).collect();
    let requests = site.size(100_000, 1_000);
    let mut argv: Vec<std::ffi::OsString> = words(
        "redis-server --port 0 --unixsocket redis.socket --appendonly no --daemonize no --dir . --save",
    );
    argv.push("".into());
    let client = Client {
        socket: PathBuf::from(SOCKET),
        load: words(&format!("redis-benchmark -s {SOCKET} -t set,get -c 50 -n {requests} -r 10000 -q")),
        stop: words(&format!("redis-cli -s {SOCKET} shutdown nosave")),
    };
    let check = |step: &Step| {
        let log = String::from_utf8_lossy(&step.stdout);
        ensure!(log.contains("bye bye"), "the server did not say that it ends: {}", log.trim());
        Ok(())
    };
    // Its log has the process id and the time, so it differs from run to run.
    Ok(Job { client: Some(client), same_output: false, units: Some(2 * requests), ..Job::new(argv) }
        .check(check))
}
