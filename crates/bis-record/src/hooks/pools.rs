//! Where the trampolines of a dense text lie: those that are mapped for it, or where they may begin.

use std::{
    fs::File,
    os::unix::ffi::OsStrExt,
    path::Path,
    sync::{Arc, LazyLock},
};

use bis_agent::hooks;
use bis_rewrite::{DenseEntry, DenseLayout, SiteKind, SiteKinds};
use bis_trace::types::{Addr, PAGE};
use bis_tracee::{cpu, image::USER_END, maps::Mapping};

use crate::{
    process::Process,
    space::{AddressSpace, Pool, TextRange},
};

const GIB: i64 = 1 << 30;

/// How far trampolines may lie from the file's own addresses, as they are tried. Files keep their distances
/// from one another, so their trampolines do, too.
const DISTANCES: [i64; 7] = [-GIB, -GIB / 4 * 5, -GIB / 2, -GIB / 2 * 3, GIB / 4, GIB / 2, GIB];

/// Programs that lie low have theirs here, behind the hooks' area.
const LOW: Addr = Addr(0x7040_0000);

/// The kinds of sites that lead to hooks: of instructions that the processor has. Others are illegal for the
/// program, as they would be for a hook.
pub(super) fn hooked() -> Vec<(SiteKind, u64)> {
    static HOOKED: LazyLock<Vec<(SiteKind, u64)>> = LazyLock::new(|| {
        let all = [
            (SiteKind::Syscall, hooks::ENTER),
            (SiteKind::Cpuid, hooks::CPUID),
            (SiteKind::Rdtsc, hooks::RDTSC),
            (SiteKind::Rdtscp, hooks::RDTSCP),
        ];
        all.into_iter().filter(|(kind, _)| *kind != SiteKind::Rdtscp || cpu::has_rdtscp()).collect()
    });
    HOOKED.clone()
}

/// The kinds of sites that lead to hooks, without where they lead to.
pub(super) fn hooked_kinds() -> SiteKinds {
    SiteKinds::of(&hooked().iter().map(|(kind, _)| *kind).collect::<Vec<_>>())
}

impl AddressSpace {
    /// The trampolines that are mapped for a text.
    fn own_pool(&self, range: &TextRange) -> Option<&Pool> {
        let is_it = |pool: &&Pool| pool.bias == range.bias && Arc::ptr_eq(&pool.text, &range.file);
        self.patches().dense.pools.iter().find(is_it)
    }
}

impl Process {
    /// The trampolines for a text: those that are mapped, or (true) new ones with a place for them.
    pub(super) fn pool(&self, range: &TextRange, mappings: &[Mapping]) -> Option<(Pool, bool)> {
        if let Some(known) = self.space.own_pool(range) {
            return Some((known.clone(), false));
        }
        let cache = self.session.texts.dense()?;
        let kinds = hooked_kinds();
        for (start, layout) in self.layouts(range, mappings) {
            let keep_one = |file: &File, path: &Path| {
                let kept = self.session.keep_linked(file, path.as_os_str().as_bytes());
                kept.inspect_err(|error| tracing::warn!(%error, "failed to keep a dense text")).ok()
            };
            let keep = |entry: &DenseEntry| {
                Some((keep_one(&entry.text, &entry.path)?, keep_one(&entry.stored_map, &entry.map_path)?))
            };
            let Some(file) = range.file.dense(cache, kinds, &layout, keep) else { continue };
            let len = file.entry.trampolines_len.next_multiple_of(PAGE);
            if is_free(mappings, start, len) {
                let (text, bias) = (Arc::clone(&range.file), range.bias);
                return Some((Pool { start, end: start + len, bias, text, file }, true));
            }
        }
        None
    }

    /// Where trampolines for a text may begin that has none yet, and all that its dense text depends on then;
    /// the best first.
    pub(super) fn layouts<'a>(
        &self,
        range: &TextRange,
        mappings: &'a [Mapping],
    ) -> impl Iterator<Item = (Addr, DenseLayout)> + use<'a> {
        // A program that maps a part of its own text again elsewhere (V8 does, for each of its threads) would
        // need one more text for it.
        let loaded = self.space.patches().texts.iter().find(|text| Arc::ptr_eq(&text.file, &range.file));
        let is_one =
            loaded.is_none_or(|text| text.bias == range.bias) && self.space.own_pool(range).is_none();
        let (first, end) = range.file.extent();
        let (first, end) = (range.mapped(first), range.mapped(end));
        let low = (end < LOW).then_some(LOW);
        let far = DISTANCES.into_iter().filter(move |_| low.is_none());
        let far = far.filter_map(move |distance| first.page_floor().0.checked_add_signed(distance).map(Addr));
        let free =
            low.into_iter().chain(far).filter(move |start| is_free(mappings, *start, (end - first) / 4));
        let bias = range.bias;
        let layout = move |start: Addr| {
            let layout = DenseLayout {
                trampolines: start.0.wrapping_sub(bias),
                counter: u32::try_from(hooks::COUNTDOWN).ok()?,
                save: u32::try_from(hooks::COUNT_RCX).ok()?,
                hooks: hooked(),
                hook_save: None,
            };
            Some((start, layout))
        };
        free.filter(move |_| is_one).filter_map(layout)
    }
}

/// Is there room for so many bytes?
fn is_free(mappings: &[Mapping], start: Addr, len: u64) -> bool {
    let end = start.saturating_add(len);
    start >= Addr(PAGE) && end <= Addr(USER_END) && !mappings.iter().any(|m| m.start < end && start < m.end)
}
