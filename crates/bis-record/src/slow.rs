//! The general slow path: what a call that bis does not know has changed is found by comparing all memory
//! that the program can write, before and after it. Only hashes are kept (16 bytes for each page of 4 KiB),
//! so the cost is two readings of the resident memory: about 0.2 s for each GiB.

use std::collections::HashMap;

use bis_trace::{
    event::MemWrite,
    types::{Addr, PAGE_LEN, Tid},
};
use bis_tracee::{
    Memory, checksum, maps,
    pagemap::{Page, PageMap},
};
use xxhash_rust::xxh3::xxh3_64;

use crate::error::{RecordError, Result};

/// The hashes of all present pages that the program may write.
#[derive(Debug, Default)]
pub struct PageHashes {
    pages: HashMap<u64, u64>,
}

fn for_each_page(tid: Tid, memory: &Memory, mut found: impl FnMut(u64, &[u8])) -> Result<()> {
    let os = |source| RecordError::Os { what: "read the page map", source };
    let pagemap = PageMap::open(tid).map_err(os)?;
    let mut page = vec![0u8; PAGE_LEN];
    for mapping in maps::writable(tid)?.into_iter().filter(checksum::is_summed) {
        let read = |start: Addr, end: Addr| {
            for addr in Addr::steps(start..end, PAGE_LEN) {
                if memory.read(addr, &mut page).is_ok() {
                    found(addr.0, &page);
                }
            }
        };
        pagemap.each_run(mapping.range.start, mapping.range.end, Page::is_there, read).map_err(os)?;
    }
    Ok(())
}

impl PageHashes {
    pub fn take(tid: Tid, memory: &Memory) -> Result<PageHashes> {
        let mut pages = HashMap::new();
        for_each_page(tid, memory, |addr, page| {
            pages.insert(addr, xxh3_64(page));
        })?;
        Ok(PageHashes { pages })
    }

    /// The pages that are not as they were, whole.
    pub fn changes(&self, tid: Tid, memory: &Memory) -> Result<Vec<MemWrite>> {
        let mut writes = Vec::new();
        for_each_page(tid, memory, |addr, page| {
            let same = match self.pages.get(&addr) {
                Some(hash) => *hash == xxh3_64(page),
                None => page.iter().all(|byte| *byte == 0),
            };
            if !same {
                writes.push(MemWrite { addr: Addr(addr), data: page.to_vec() });
            }
        })?;
        Ok(writes)
    }
}
