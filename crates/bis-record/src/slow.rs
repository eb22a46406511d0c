//! The general slow path: what a call that bis does not know has changed is found by comparing all memory that
//! the program can write, before and after it. Only hashes are kept (16 bytes for each page of 4 KiB), so the
//! cost is two readings of the resident memory: about 0.2 s for each GiB.

use std::{collections::HashMap, fs::File, os::unix::fs::FileExt};

use bis_trace::{event::MemWrite, types::Tid};
use bis_tracee::{Memory, checksum, maps};
use xxhash_rust::xxh3::xxh3_64;

use crate::error::{RecordError, Result};

const PAGE: u64 = 4096;

/// The hashes of all present pages that the program may write.
#[derive(Debug, Default)]
pub struct PageHashes {
    pages: HashMap<u64, u64>,
}

fn for_each_page(tid: Tid, memory: &Memory, mut found: impl FnMut(u64, &[u8])) -> Result<()> {
    let os = |source| RecordError::Os { what: "read the page map", source };
    let pagemap = File::open(format!("/proc/{tid}/pagemap")).map_err(os)?;
    let mut page = vec![0u8; 4096];
    for mapping in maps::read(tid)?.iter().filter(|m| checksum::is_summed(m)) {
        let mut entries = vec![0u8; usize::try_from(mapping.len() / PAGE * 8).unwrap_or(0)];
        pagemap.read_exact_at(&mut entries, mapping.start / PAGE * 8).map_err(os)?;
        for (index, entry) in entries.chunks_exact(8).enumerate() {
            // Present or swapped out.
            if entry[7] & 0xc0 != 0 {
                let addr = mapping.start + index as u64 * PAGE;
                if memory.read(addr, &mut page).is_ok() {
                    found(addr, &page);
                }
            }
        }
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
                writes.push(MemWrite { addr, data: page.to_vec() });
            }
        })?;
        Ok(writes)
    }
}
