//! The list of workloads. Each file prepares one kind; a job's results are checked where they are known.
//!
//! All content is made here, by fixed rules, so every machine measures the same work; but tools of different
//! versions (compilers, interpreters) do it differently, so figures compare only within one machine.

mod chromium;
mod content;
mod git;
mod programs;
mod project;
mod redis;
mod scripts;
mod sqlite;
mod suite;
mod toolchains;
mod tree;

use crate::workload::Workload;

/// All, in the order in which they run.
pub fn all() -> Vec<Workload> {
    let workload = |name, about, needs, prepare| Workload { name, about, needs, prepare };
    vec![
        workload("cp-a", "cp -a of 10,000 files, 300 MB", &["cp"], tree::prepare),
        workload("make-j2", "make -j2 of a C project of 100 files", &["make", "gcc"], |site| {
            project::prepare(site, 2)
        }),
        workload("make-j1", "make -j1 of the same", &["make", "gcc"], |site| project::prepare(site, 1)),
        workload("fork-exec", "200 times fork and exec of /bin/true", &["gcc"], programs::fork_exec),
        workload(
            "true",
            "/bin/true itself, there and back, 20 times a round",
            &["true"],
            programs::just_true,
        ),
        workload("cpu-mix", "a mix of computing, one thread", &["gcc"], programs::cpu_mix),
        workload(
            "cpu-threads",
            "computing in four threads with locks; natively on one core",
            &["gcc", "taskset"],
            programs::cpu_threads,
        ),
        workload("python", "JSON, regular expressions, objects and files", &["python3"], scripts::python),
        workload("node", "the like in JavaScript", &["node"], scripts::node),
        workload("sqlite", "a database on the disk, and one in memory", &["sqlite3"], sqlite::prepare),
        workload(
            "sqlite-reads",
            "250,000 lookups at random in a database of 40 MB",
            &["sqlite3"],
            sqlite::reads,
        ),
        workload(
            "redis",
            "a server under redis-benchmark, which is not recorded",
            &["redis-server", "redis-benchmark", "redis-cli"],
            redis::prepare,
        ),
        workload("git", "status and log of 20,000 files and 500 commits", &["git"], git::prepare),
        workload("git-clone", "a clone of the same repository, by git's protocol", &["git"], git::clone),
        workload(
            "suite",
            "a test suite of 40 programs in Python, again and again",
            &["python3", "cmp"],
            suite::prepare,
        ),
        workload(
            "rustc",
            "rustc -O of ten lines; natively on one core",
            &["rustc", "gcc", "taskset"],
            toolchains::rustc,
        ),
        workload(
            "cargo",
            "cargo build of a program with 30 dependencies",
            &["cargo", "gcc"],
            toolchains::cargo,
        ),
        workload("go-build", "go build of net/http with an empty cache", &["go"], toolchains::go),
        workload(
            "chromium",
            "headless, prints a local page after its script",
            &["chromium"],
            chromium::prepare,
        ),
        workload(
            "gettimeofday",
            "a million, natively without a system call",
            &["gcc"],
            programs::gettimeofday,
        ),
        workload("read1", "a million reads of one byte", &["gcc"], programs::read1),
        workload("getppid", "a million", &["gcc"], programs::getppid),
        workload("pipe-pingpong", "two processes take turns over pipes", &["gcc"], programs::pipe_pingpong),
        workload("futex-pingpong", "two threads take turns over a futex", &["gcc"], programs::futex_pingpong),
        workload("traced-calls", "500,000 calls that are never hooked", &["gcc"], programs::traced_calls),
    ]
}
