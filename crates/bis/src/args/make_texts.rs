//! `bis make-texts`, which recordings start.

use std::path::PathBuf;

use bis_rewrite::DenseOrder;
use clap::Args;

/// Make dense texts for recordings to come (started by a recording)
#[derive(Debug, Args)]
pub struct MakeTexts {
    /// Where they are kept
    #[arg(long)]
    pub folder: PathBuf,
    /// What all in there may have together, bytes
    #[arg(long)]
    pub limit: u64,
    /// The number of the descriptor of a program's file, and what to make of it
    #[arg(value_name = "FD=ORDER", required = true, value_parser = order)]
    pub orders: Vec<Order>,
}

/// A text that is to be made of the file that is open there.
#[derive(Clone, Debug)]
pub struct Order {
    pub fd: i32,
    pub order: DenseOrder,
}

fn order(text: &str) -> Result<Order, String> {
    let (fd, order) = text.split_once('=').ok_or("give it as FD=ORDER")?;
    let fd = fd.parse().map_err(|_| "a descriptor is a number".to_owned())?;
    Ok(Order { fd, order: order.parse::<DenseOrder>().map_err(|error| error.to_string())? })
}
