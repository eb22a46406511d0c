//! What memory holds, page by page, as writes that an outcome can tell.

use std::ops::Range;

use bis_trace::{
    event::MemWrite,
    types::{Addr, PAGE_LEN, Tid},
};
use bis_tracee::{
    Memory,
    maps::Mapping,
    pagemap::{Page, PageMap},
};

use crate::error::{RecordError, Result};

/// What a mapping holds, but for pages of zeros: each run of pages.
pub fn content(tid: Tid, memory: &Memory, mapping: &Mapping) -> Result<Vec<MemWrite>> {
    content_within(tid, memory, mapping, mapping.start..mapping.end)
}

/// What a part of a mapping holds, but for pages of zeros, in whole pages.
pub fn content_within(
    tid: Tid,
    memory: &Memory,
    mapping: &Mapping,
    part: Range<Addr>,
) -> Result<Vec<MemWrite>> {
    // A page of plain memory that is not there is zero; not so one of the vdso, or of a file that cannot be
    // opened.
    let is_plain = mapping.inode == 0 && mapping.name != b"[vdso]";
    let is_told = |page: &[u8]| page.iter().any(|byte| *byte != 0);
    pages(tid, memory, part, |page| !is_plain || page.is_there(), is_told)
}

/// The pages of a private mapping of a file that are the process's own: it has written to them.
pub fn own_pages(tid: Tid, memory: &Memory, mapping: &Mapping) -> Result<Vec<MemWrite>> {
    pages(tid, memory, mapping.start..mapping.end, Page::is_own, |_| true)
}

fn pages(
    tid: Tid,
    memory: &Memory,
    part: Range<Addr>,
    wanted: impl Fn(Page) -> bool,
    is_told: impl Fn(&[u8]) -> bool,
) -> Result<Vec<MemWrite>> {
    let mut writes: Vec<MemWrite> = Vec::new();
    let found = |from: Addr, to: Addr| {
        for addr in Addr::steps(from..to, PAGE_LEN) {
            let page = memory.read_upto(addr, PAGE_LEN);
            if !is_told(&page) {
                continue;
            }
            match writes.last_mut() {
                Some(last) if last.addr + last.data.len() as u64 == addr => last.data.extend(page),
                _ => writes.push(MemWrite { addr, data: page }),
            }
        }
    };
    let read = PageMap::open(tid).and_then(|pages| pages.each_run(part.start, part.end, wanted, found));
    read.map_err(|source| RecordError::Os { what: "read the page map", source })?;
    Ok(writes)
}
