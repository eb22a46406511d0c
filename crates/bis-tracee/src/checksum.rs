//! Checksums of a task's memory that do not depend on which pages the kernel happens to have allocated: a zero
//! page counts like a page that is not there.

use std::{fs::File, os::unix::fs::FileExt};

use bis_trace::{event::RangeSum, types::Tid};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::{
    error::{Result, TraceeError},
    maps::Mapping,
    memory::Memory,
};

const PAGE: usize = 4096;
/// Pages looked at in one go.
const BATCH: usize = 256;

/// The checksum of `len` bytes (a multiple of the page size) from `addr`; see [`RangeSum::sum`].
///
/// # Errors
/// Where the task is gone. Pages that cannot be read count as zero.
pub fn sum_range(tid: Tid, memory: &Memory, addr: u64, len: u64) -> Result<RangeSum> {
    let os = |source| TraceeError::Os { what: "read the page map", tid, source };
    let pagemap = File::open(format!("/proc/{tid}/pagemap")).map_err(os)?;
    let mut sum = 0u64;
    let mut entries = vec![0u8; 8 * BATCH];
    let mut data = vec![0u8; PAGE * BATCH];
    let page_count = usize::try_from(len / PAGE as u64).unwrap_or(usize::MAX);
    for first in (0..page_count).step_by(BATCH) {
        let count = BATCH.min(page_count - first);
        let base = addr + (first * PAGE) as u64;
        pagemap.read_exact_at(&mut entries[..8 * count], base / PAGE as u64 * 8).map_err(os)?;
        // Bit 63: present; bit 62: swapped out (Documentation/admin-guide/mm/pagemap.rst).
        let present = |page: usize| entries[8 * page + 7] & 0xc0 != 0;
        let mut page = 0;
        while page < count {
            let run = (page..count).take_while(|p| present(*p)).count();
            if run == 0 {
                page += 1;
                continue;
            }
            let bytes = &mut data[..run * PAGE];
            let at = base + (page * PAGE) as u64;
            if memory.read(at, bytes).is_ok() {
                for (index, content) in bytes.chunks_exact(PAGE).enumerate() {
                    if content.iter().any(|byte| *byte != 0) {
                        let seed = at + (index * PAGE) as u64;
                        sum = sum.wrapping_add(xxh3_64_with_seed(content, seed));
                    }
                }
            }
            page += run;
        }
    }
    Ok(RangeSum { addr, len, sum })
}

/// Is this a mapping whose content the program can change, so that it belongs into a checksum? Bis's own
/// memory does not.
pub fn is_summed(mapping: &Mapping) -> bool {
    let ours = mapping.start >= bis_agent::SCRATCH_BASE
        && mapping.end <= bis_agent::AGENT_BASE + bis_agent::AGENT_LEN;
    mapping.prot & 2 != 0 && !mapping.is_vvar() && !ours
}
