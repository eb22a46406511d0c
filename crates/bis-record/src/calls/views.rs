//! Private mappings of files that change: a domain that changes one by a call tells it, and a domain that
//! looks at one records what it shows (`views.rs` is about when and why). Of a small part of a large file,
//! nothing is kept but what it shows: in replay it is memory without a name.
//!
//! What it shows is read from the domain's own memory, so it is right whatever has happened to the file and
//! to the pages since, and also for pages that the process has made its own.
//!
//! A file that gets shorter takes the pages beyond its new end from all who have mapped it (an access is a
//! SIGBUS then), also those that a process has made its own. In replay, an empty file is mapped there, which
//! does the same. Where a file grows, replay gets anonymous memory: what was kept of the file is too short,
//! or shows what was before. So in replay one mapping may come to be several, and where the program moves it,
//! each is moved by itself.

use std::{
    fs::{self, File},
    os::linux::fs::MetadataExt,
    path::Path,
};

use bis_trace::{
    event::{Backing, Effect, FileEntry, MemWrite, Outcome},
    shared::Move,
    sparse,
    types::{Addr, Fd, PAGE, Tid},
};
use bis_tracee::{
    Memory,
    maps::{self, Mapping},
    pagemap::{Page, PageMap},
    proc,
};

use super::{entry::Touches, memory::MADV_REMOVE, objects::fallocated};
use crate::{
    calls::Exit,
    crew::Crew,
    error::{RecordError, Result},
    events::Recorder,
    process::Process,
    session::Session,
    space::Key,
    space::{self, View, key_of_mapping, open_mapped},
    task::InCall,
    views::Change,
};

/// Content is read and recorded in pieces of at most this many bytes.
const PIECE_LEN: u64 = 1 << 20;

/// Of a range longer than this, bytes, only what is not zero is recorded.
const SPARSE_MIN: u64 = 4 << 20;

fn page_up(value: u64) -> u64 {
    value.saturating_add(PAGE - 1) & !(PAGE - 1)
}

/// Maps something else over a part of a view, with the protection that each part of it has; it is then a view
/// of its own.
fn map_over(
    mappings: &[Mapping],
    pieces: &mut Vec<View>,
    range: Option<Shown>,
    backing: &Backing,
    outcome: &mut Outcome,
) {
    let Some((start, end)) = range else { return };
    space::split(pieces, [start, end]);
    for mapping in mappings.iter().filter(|mapping| mapping.start < end && start < mapping.end) {
        let addr = start.max(mapping.start);
        let (len, prot) = (end.min(mapping.end) - addr, mapping.prot);
        outcome.effects.push(Effect::Map { addr, len, prot, backing: backing.clone() });
    }
}

/// A range of memory (first address, end) whose content an event has to say.
pub type Shown = (Addr, Addr);

/// Moves what in replay are several mappings, and cuts off what is too long. What a view grows by is not
/// here.
fn move_pieces(by: &Move, sources: &[View], outcome: &mut Outcome) {
    let old_end = by.addr + by.old_len;
    let end = by.addr + by.old_len.min(by.new_len);
    let mut bounds: Vec<Addr> = sources.iter().flat_map(|view| [view.start, view.end]).collect();
    bounds.extend([by.addr, end]);
    bounds.retain(|bound| *bound <= end);
    bounds.sort_unstable();
    bounds.dedup();
    let more = by.new_len.saturating_sub(by.old_len);
    let more = if sources.iter().any(|view| view.end == old_end) { 0 } else { more };
    for pair in bounds.windows(2) {
        let more = if pair[1] == old_end { more } else { 0 };
        if by.new_addr != by.addr || more != 0 {
            outcome.effects.push(by.effect(pair[0], pair[1], more));
        }
    }
    if by.new_len < by.old_len && !by.keep {
        outcome.effects.push(Effect::Unmap { addr: end, len: old_end - end });
    }
}

impl Recorder<'_> {
    /// What views show anew is told at the exit of a call, in as many events as it takes.
    pub(crate) fn show_in_pieces(
        &mut self,
        tid: Tid,
        call: &mut InCall,
        shown: Vec<Shown>,
        outcome: &mut Outcome,
    ) -> Result<()> {
        for (start, end) in shown {
            let mut at = start;
            while at < end {
                self.spill(tid, call, outcome)?;
                let next = end.min(Addr(at.saturating_add(PIECE_LEN).0 & !(PIECE_LEN - 1)));
                show(&self.memory, (at, next), outcome);
                at = next;
            }
        }
        Ok(())
    }
}

impl Process {
    /// A new private mapping of a file that may change; keeps what the file shows now.
    pub(super) fn add_view(
        &mut self,
        (addr, map_len): (Addr, u64),
        key: Key,
        offset: u64,
        (file, name): (&File, &[u8]),
    ) -> Result<FileEntry> {
        // First: from here on, what is written is told to us.
        let looked_at =
            |source| RecordError::Os { what: "look at a file that the program has mapped", source };
        self.session.views.add(key, self.id, || file.try_clone()).map_err(looked_at)?;
        self.session.watch.watch_file(key);
        let len = file.metadata().map_err(looked_at)?.st_size();
        let entry = self.session.writer.files().keep(file, name)?;
        let (end, kept, kept_len) = (addr + map_len, entry.file, entry.len);
        let view = View { start: addr, end, key, offset, len, kept, kept_len, changed: false };
        self.space.views_mut().add([view]);
        Ok(entry)
    }

    /// A new private mapping of a small part of a large file that changes all the time: of the file nothing
    /// is kept, and the event says what the part shows. (Who maps parts of such a file again and again would
    /// have as many copies of it all.)
    pub(super) fn add_view_of_part(
        &mut self,
        tid: Tid,
        (addr, map_len): (Addr, u64),
        key: Key,
        offset: u64,
        file: &File,
        outcome: &mut Outcome,
    ) -> Result<()> {
        let looked_at =
            |source| RecordError::Os { what: "look at a file that the program has mapped", source };
        self.session.views.add(key, self.id, || file.try_clone()).map_err(looked_at)?;
        self.session.watch.watch_file(key);
        let len = file.metadata().map_err(looked_at)?.st_size();
        let kept = self.session.writer.files().keep_bytes(b"")?.file;
        let view =
            View { start: addr, end: addr + map_len, key, offset, len, kept, kept_len: 0, changed: true };
        self.back(tid, view, outcome)
    }

    /// The range is not mapped any more, or shows something else.
    pub(super) fn remove_views(&mut self, start: Addr, end: Addr) {
        self.space.forget_text(start, end);
        self.space.patches_mut().forget_shown(start, end);
        let gone = self.space.views_mut().cut(start, end);
        self.forget_files(&gone);
    }

    /// These views are gone, and the files perhaps with them.
    fn forget_files(&self, gone: &[View]) {
        for view in gone {
            if !self.space.views().has(view.key) {
                self.session.views.forget(view.key, self.id);
            }
        }
    }

    /// A mapping has moved, or has another length: the effects of that, whatever is mapped there.
    pub(super) fn move_views(&mut self, tid: Tid, by: &Move, outcome: &mut Outcome) -> Result<()> {
        let (old_end, new_end) = (by.addr + by.old_len, by.new_addr + by.new_len);
        if by.new_addr != by.addr {
            self.remove_views(by.new_addr, new_end);
        }
        let mut sources = self.space.views().parts(by.addr, old_end);
        if self.space.patches().shows_any(by.addr, old_end) {
            self.close_clock("text has moved");
        }
        let (from, to) = (by.addr..old_end, by.new_addr..new_end);
        let grown_text = self.space.patches_mut().move_shown(from, to, by.keep);
        if !by.keep {
            self.space.forget_text(by.addr, old_end);
        }
        let is_one = sources.len() == 1 && !sources[0].changed && sources[0].end == old_end;
        if sources.is_empty() || is_one {
            let (old_len, new_len) = (by.old_len, by.new_len);
            let (addr, new_addr, keep) = (by.addr, by.new_addr, by.keep);
            outcome.effects.push(Effect::Remap { addr, old_len, new_addr, new_len, keep });
        } else {
            sources.sort_by_key(|view| view.start);
            move_pieces(by, &sources, outcome);
        }
        let (mut moved, mut grown) = (Vec::new(), None);
        for view in &sources {
            let to = |addr: Addr| by.new_addr + (addr - by.addr);
            let view = View { start: to(view.start), end: to(view.end), ..*view };
            moved.extend(view.part(by.new_addr, new_end));
            if view.end == by.new_addr + by.old_len && view.end < new_end {
                let offset = view.offset + (view.end - view.start);
                grown = Some(View { start: view.end, end: new_end, offset, ..view });
            }
        }
        let gone = if by.keep { Vec::new() } else { self.space.views_mut().cut(by.addr, old_end) };
        self.space.views_mut().add(moved);
        match grown {
            Some(grown) if is_one => self.space.views_mut().add([grown]),
            Some(grown) => self.back(tid, grown, outcome)?,
            None => {}
        }
        self.forget_files(&gone);
        if by.keep {
            self.show_again(by.addr, old_end, outcome)?;
            self.show_own_text((by.addr, old_end), outcome)?;
        }
        match grown_text {
            Some(range) => self.show_own_text((range.start, range.end), outcome),
            None => Ok(()),
        }
    }

    /// A view has grown by this part, or is new, and its file has changed before: what replay has there.
    fn back(&mut self, tid: Tid, view: View, outcome: &mut Outcome) -> Result<()> {
        let accessible = page_up(view.len);
        let kept = page_up(view.kept_len).min(accessible);
        let mappings = maps::read(tid)?;
        let mut pieces = vec![view];
        let (file, offset) = (view.kept, view.offset);
        let backed = [
            (0, kept, Backing::File { file, offset }),
            (kept, accessible, Backing::Anonymous),
            (accessible, u64::MAX, nothing(&self.session)?),
        ];
        for (start, end, backing) in backed {
            map_over(&mappings, &mut pieces, view.addresses(start, end), &backing, outcome);
        }
        let mut shown = Vec::new();
        self.refresh(&mut pieces, &mappings, view.addresses(0, accessible), outcome, &mut shown)?;
        self.space.views_mut().add(pieces);
        self.show_all(shown, outcome);
        Ok(())
    }

    /// A second mapping of what another view shows.
    pub(super) fn add_second_view(
        &mut self,
        tid: Tid,
        view: View,
        prot: u32,
        outcome: &mut Outcome,
    ) -> Result<()> {
        if view.changed {
            return self.back(tid, view, outcome);
        }
        let (addr, len) = (view.start, view.end - view.start);
        let backing = Backing::File { file: view.kept, offset: view.offset };
        outcome.effects.push(Effect::Map { addr, len, prot, backing });
        self.space.views_mut().add([view]);
        Ok(())
    }

    /// Pages of this range may show the file again, and not what the process has written there
    /// (MADV_DONTNEED).
    pub(super) fn show_again(&mut self, start: Addr, end: Addr, outcome: &mut Outcome) -> Result<()> {
        let shows = |view: &View| view.changed && view.part(start, end).is_some();
        if !self.space.views().iter().any(shows) {
            return Ok(());
        }
        let mappings = maps::read(self.first_tid_alive())?;
        let again = self.space.views_mut().take(shows);
        let mut shown = Vec::new();
        for view in again {
            let mut pieces = vec![view];
            let range = view.part(start, end).and_then(|part| part.addresses(0, page_up(view.len)));
            self.refresh(&mut pieces, &mappings, range, outcome, &mut shown)?;
            self.space.views_mut().add(pieces);
        }
        self.show_all(shown, outcome);
        Ok(())
    }

    /// At an event: what has changed in files that this domain has mapped privately. The effects of it, and
    /// the ranges whose content is to be shown after them.
    pub(super) fn find_changes(&mut self, outcome: &mut Outcome) -> Result<Vec<Shown>> {
        let mut shown = Vec::new();
        let changes = self.session.views.take(self.id);
        let mut keys: Vec<Key> = changes.iter().map(|change| change.key).collect();
        keys.sort_unstable();
        keys.dedup();
        for key in keys {
            let views = self.space.views_mut().take(|view| view.key == key);
            let patches = self.space.patches();
            if views.iter().any(|view| patches.shows_any(view.start, view.end)) {
                self.close_clock("a file that is executed has changed");
            }
            let told: Vec<Change> = changes.iter().filter(|change| change.key == key).copied().collect();
            let pieces = self.show_file(views, &told, outcome, &mut shown)?;
            self.space.views_mut().add(pieces);
        }
        Ok(shown)
    }
}

impl Crew {
    /// A range of a view, up to the file's end, shows what it shows now, whatever it shows in replay. Where
    /// it is large it begins there with zeros, and only what is the process's own or there in the file is
    /// `shown`.
    fn refresh(
        &self,
        pieces: &mut Vec<View>,
        mappings: &[Mapping],
        range: Option<Shown>,
        outcome: &mut Outcome,
        shown: &mut Vec<Shown>,
    ) -> Result<()> {
        let Some((start, end)) = range else { return Ok(()) };
        let whole = (start.page_ceil(), end.page_floor());
        let key = pieces.first().map(|view| view.key);
        let Some(file) =
            key.filter(|_| end - start > SPARSE_MIN).and_then(|key| self.session.views.file(key))
        else {
            shown.push((start, end));
            return Ok(());
        };
        shown.extend([(start, whole.0), (whole.1, end)]);
        map_over(mappings, pieces, Some(whole), &Backing::Anonymous, outcome);
        let failed = |what| move |source| RecordError::Os { what, source };
        for view in pieces.iter().filter_map(|view| view.part(whole.0, whole.1)) {
            let place = |offset: u64| view.start + (offset - view.offset);
            let bytes = view.offset..view.offset + (view.end - view.start);
            let of_file = sparse::each_piece(&file, bytes, |offset, piece| {
                shown.push((place(offset), place(offset + piece.len() as u64)));
                Ok(())
            });
            of_file.map_err(failed("read a file that the program has mapped"))?;
            let own = PageMap::open(self.first_tid_alive()).and_then(|pages| {
                pages.each_run(view.start, view.end, Page::is_own, |from, to| shown.push((from, to)))
            });
            own.map_err(failed("read the page map"))?;
        }
        Ok(())
    }

    /// What these ranges hold, all at once.
    pub(super) fn show_all(&self, shown: Vec<Shown>, outcome: &mut Outcome) {
        for range in shown {
            show(&self.memory, range, outcome);
        }
    }

    /// These views of one file show it after these changes. Its length is what it is now, because that is
    /// what can be accessed now, and the changes may have been told late; but what it was cut off to in
    /// between tells which pages were lost.
    fn show_file(
        &self,
        views: Vec<View>,
        told: &[Change],
        outcome: &mut Outcome,
        shown_later: &mut Vec<Shown>,
    ) -> Result<Vec<View>> {
        let (Some(key), Some(last)) = (views.first().map(|view| view.key), told.last()) else {
            return Ok(views);
        };
        let file = self.session.views.file(key).and_then(|file| file.metadata().ok());
        let len = file.map_or(last.len, |meta| meta.st_size());
        let lowest = told.iter().map(|change| change.len).fold(len, u64::min);
        let mappings = maps::read(self.first_tid_alive())?;
        let mut result = Vec::new();
        for view in views {
            let (old, low) = (view.len, view.len.min(lowest));
            let mut pieces = vec![View { len, changed: true, ..view }];
            let resized = [
                (page_up(old.min(len)), page_up(old), nothing(&self.session)?),
                (page_up(low), page_up(old.min(len)), Backing::Anonymous),
                (page_up(old), page_up(len), Backing::Anonymous),
            ];
            for (start, end, backing) in resized.into_iter().filter(|(start, end, _)| start < end) {
                map_over(&mappings, &mut pieces, view.addresses(start, end), &backing, outcome);
            }
            let shown = |start: u64, end: u64| view.addresses(start, end.min(page_up(len)));
            // Lost, and there again.
            self.refresh(&mut pieces, &mappings, shown(page_up(low), page_up(old)), outcome, shown_later)?;
            // Zero behind the end, in a page that was there all the time.
            for end in [low, old] {
                shown_later.extend(shown(end, page_up(end)));
            }
            for change in told {
                let range = shown(change.start, change.end);
                self.refresh(&mut pieces, &mappings, range, outcome, shown_later)?;
            }
            result.append(&mut pieces);
        }
        Ok(result)
    }

    /// A task through which the kernel shows the address space.
    fn first_tid_alive(&self) -> Tid {
        self.tasks.keys().next().copied().unwrap_or(self.first_tid)
    }

    /// May somebody have a view of the file that this path names?
    pub(super) fn is_viewed(&self, path: &Path) -> bool {
        !self.session.views.is_empty()
            && fs::metadata(path).is_ok_and(|meta| self.session.views.has((meta.st_dev(), meta.st_ino())))
    }

    /// At the exit of a call that has changed a file: tells all who have it mapped privately.
    pub(super) fn tell_views(&mut self, touches: Touches, it: &Exit<'_>) -> Result<()> {
        if self.session.views.is_empty() {
            return Ok(());
        }
        let (tid, args) = (it.tid, it.args());
        let target = self.target_of(tid, it.call.entry.nr(), args);
        let path = match touches {
            Touches::Cloned => self.cloned_to(args).map(|_| proc::fd(tid, Fd::of_arg(args[0]))),
            Touches::Opened if self.truncates(it.call) => {
                Some(proc::fd(tid, Fd::made(it.result).unwrap_or(Fd::NONE)))
            }
            _ => target.as_ref().map(|(_, path)| path.clone()),
        };
        let Some(meta) = path.and_then(|path| fs::metadata(path).ok()) else { return Ok(()) };
        let (key, len) = ((meta.st_dev(), meta.st_ino()), meta.st_size());
        if !self.session.views.has(key) {
            return Ok(());
        }
        let (start, end) = match (touches, target) {
            (Touches::Length | Touches::Opened, _) => (len, len),
            (Touches::Fallocated, _) => fallocated(args),
            (Touches::Cloned, _) => self.cloned_to(args).unwrap_or((0, 0)),
            (_, None) => return Ok(()),
            (_, Some((target, _))) => {
                let written = it.value();
                let start = self.start_of(tid, &target, args, written, it.outcome)?;
                (start, start.saturating_add(written))
            }
        };
        self.tell(Change { key, start, end, len });
        Ok(())
    }

    /// Advice has made a hole in files, through their shared mappings: others may have them mapped privately.
    pub(super) fn tell_removed(&self, tid: Tid, args: [u64; 6]) {
        let [addr, len, advice, ..] = args;
        if advice != MADV_REMOVE || self.session.views.is_empty() {
            return;
        }
        let (from, to) = (Addr(addr), Addr(addr) + page_up(len));
        let mappings = maps::read(tid).unwrap_or_default();
        for m in mappings.iter().filter(|m| m.shared && m.start < to && from < m.end) {
            let Some(meta) = open_mapped(tid, m).and_then(|file| file.metadata().ok()) else { continue };
            let in_file = |at: Addr| m.offset + (at - m.start);
            let (start, end) = (in_file(from.max(m.start)), in_file(to.min(m.end)));
            self.tell(Change { key: key_of_mapping(m), start, end, len: meta.len() });
        }
    }

    /// Tells all who have the file mapped privately, if anybody has.
    pub(super) fn tell(&self, change: Change) {
        if self.session.views.has(change.key) {
            self.session.views.tell(change);
            self.session.watch.call_all();
        }
    }
}

/// What shows nothing at all: memory that is there, and cannot be accessed.
fn nothing(session: &Session) -> Result<Backing> {
    let file = session.writer.files().keep_bytes(b"")?.file;
    Ok(Backing::File { file, offset: 0 })
}

/// The memory of this range shows what it shows now.
fn show(memory: &Memory, (mut addr, end): Shown, outcome: &mut Outcome) {
    while addr < end {
        let next = end.min(Addr((addr + PIECE_LEN).0 & !(PIECE_LEN - 1)));
        let data = memory.read_upto(addr, usize::try_from(next - addr).unwrap_or(0));
        let is_short = (data.len() as u64) < next - addr;
        if !data.is_empty() {
            outcome.writes.push(MemWrite { addr, data });
        }
        if is_short {
            return;
        }
        addr = next;
    }
}
