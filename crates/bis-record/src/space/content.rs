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
    let mut writes = Vec::new();
    let mut tell = |from: Addr, to: Addr| {
        add_pages(memory, from..to, |page| page.iter().any(|byte| *byte != 0), &mut writes);
    };
    if is_plain {
        each_run(tid, part, Page::is_there, tell)?;
    } else {
        tell(part.start, part.end);
    }
    Ok(writes)
}

/// The pages of a private mapping of a file that are the process's own: it has written to them.
pub fn own_pages(tid: Tid, memory: &Memory, mapping: &Mapping) -> Result<Vec<MemWrite>> {
    let mut writes = Vec::new();
    let tell = |from, to| add_pages(memory, from..to, |_| true, &mut writes);
    each_run(tid, mapping.start..mapping.end, Page::is_own, tell)?;
    Ok(writes)
}

fn each_run(
    tid: Tid,
    part: Range<Addr>,
    wanted: impl Fn(Page) -> bool,
    found: impl FnMut(Addr, Addr),
) -> Result<()> {
    let read = PageMap::open(tid).and_then(|pages| pages.each_run(part.start, part.end, wanted, found));
    read.map_err(|source| RecordError::Os { what: "read the page map", source })
}

/// Adds what these pages hold, of those that are to be told.
fn add_pages(
    memory: &Memory,
    pages: Range<Addr>,
    is_told: impl Fn(&[u8]) -> bool,
    writes: &mut Vec<MemWrite>,
) {
    for addr in Addr::steps(pages, PAGE_LEN) {
        let page = memory.read_upto(addr, PAGE_LEN);
        if !is_told(&page) {
            continue;
        }
        match writes.last_mut() {
            Some(last) if last.addr + last.data.len() as u64 == addr => last.data.extend(page),
            _ => writes.push(MemWrite { addr, data: page }),
        }
    }
}
