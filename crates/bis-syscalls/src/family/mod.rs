//! The rows of the table, a file for each family of calls, with the functions that know the memory of those
//! calls whose arguments' kinds are not enough. What the families share is the words in which rows are
//! written (`words.rs`).

mod fcntl;
mod files;
pub mod futex;
mod ioctl;
mod ipc;
mod links;
mod memory;
mod mounts;
mod poll;
mod prctl;
mod process;
mod sched;
mod security;
mod signals;
mod sockets;
mod system;
mod time;
mod vectors;
mod words;

use crate::model::Row;

/// The rows of all families, in no order.
pub(crate) static FAMILIES: &[&[Row]] = &[
    fcntl::ROWS,
    files::ROWS,
    futex::ROWS,
    ioctl::ROWS,
    ipc::ROWS,
    links::ROWS,
    memory::ROWS,
    mounts::ROWS,
    poll::ROWS,
    prctl::ROWS,
    process::ROWS,
    sched::ROWS,
    security::ROWS,
    signals::ROWS,
    sockets::ROWS,
    system::ROWS,
    time::ROWS,
    vectors::ROWS,
];

pub(crate) use ioctl::{REQUESTS as IOCTL_REQUESTS, name as ioctl_name};
