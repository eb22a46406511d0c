//! Dense texts of large programs are made by another process, while the recording goes on: making one takes
//! about a second for each 40 MB of text, and the program would wait.
//!
//! They are asked for as soon as a domain with much text has had one pause by its state (`--ticks=auto`).
//! When they are needed (`need.rs`) and all there, the text is changed for them; until then, and mostly until
//! the next recording of the same program, the text stays as it is, and tasks are stopped by their state.
//! What there is of texts is on the disk, by name, so nobody has to be told that one is made.
//!
//! With little text, or where counts are asked for (`--ticks=software`), or where nobody makes texts, the
//! recorder makes them itself, and the program waits.

use std::{fmt, fs::File, io, path::PathBuf, sync::Arc};

use bis_rewrite::DenseOrder;
use bis_trace::types::Tid;
use bis_tracee::maps::{self, Mapping};

use super::pools::hooked_kinds;
use crate::{Counting, crew::Crew, hooks::texts::Lacks, process::Process, space::TextRange};

/// Dense texts that are to be made.
#[derive(Debug)]
pub struct TextOrders {
    /// Where they are kept.
    pub folder: PathBuf,
    /// What all in there may have together, bytes.
    pub limit_bytes: u64,
    /// Each with the content of its file, which nobody changes.
    pub texts: Vec<(File, DenseOrder)>,
}

/// What makes dense texts while a recording goes on: it begins to, and comes back at once.
#[derive(Clone)]
pub struct TextMakers(Arc<Begin>);

type Begin = dyn Fn(TextOrders) -> io::Result<()> + Send + Sync;

impl TextMakers {
    pub fn new(begin: impl Fn(TextOrders) -> io::Result<()> + Send + Sync + 'static) -> TextMakers {
        TextMakers(Arc::new(begin))
    }
}

impl fmt::Debug for TextMakers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TextMakers")
    }
}

impl Process {
    /// Does the domain take only dense texts that somebody has made already?
    pub(super) fn leaves_making(&self) -> bool {
        self.session.options.counts == Counting::WhereNeeded
            && self.session.options.text_makers.is_some()
            && !self.space.patches().is_small()
    }

    /// Asks for the dense texts that the domain would have to wait for, and that are not there. True: all are
    /// there.
    pub(super) fn order_dense_texts(&mut self, tid: Tid) -> bool {
        if !self.leaves_making() {
            return true;
        }
        let Some(hooks) = self.hooks.as_mut().filter(|hooks| hooks.counts.need.looks_for_texts()) else {
            return false;
        };
        let Ok(mappings) = maps::read(tid) else { return false };
        hooks.counts.need.note_look();
        let texts = self.space.patches().texts.iter();
        let missing: Vec<_> = texts
            .filter(|text| !text.is_changed)
            .filter_map(|text| Some((text, self.missing(text, &mappings)?)))
            .collect();
        self.order(&missing);
        missing.is_empty()
    }

    /// The domain has had to be stopped by its state for the first time: its dense texts may be needed.
    pub fn foresee_need(&mut self, tid: Tid) {
        if self.session.texts.dense().is_some() && !self.space.clock().forbidden && self.leaves_making() {
            self.order_dense_texts(tid);
        }
    }

    /// The dense text that has to be made before this text can count; none: it is there, or there can be
    /// none.
    pub(super) fn missing(&self, range: &TextRange, mappings: &[Mapping]) -> Option<DenseOrder> {
        let cache = self.session.texts.dense()?;
        let kinds = hooked_kinds();
        for (_, layout) in self.layouts(range, mappings) {
            match range.file.lacks(cache, kinds, layout) {
                Lacks::Nothing => return None,
                Lacks::All => {}
                Lacks::One(order) => return Some(order),
            }
        }
        None
    }
}

impl Crew {
    /// Asks for texts, once in a recording.
    pub(super) fn order(&self, missing: &[(&TextRange, DenseOrder)]) {
        let (Some(makers), Some(cache)) = (&self.session.options.text_makers, self.session.texts.dense())
        else {
            return;
        };
        let mut texts: Vec<(File, DenseOrder)> = Vec::new();
        for (range, order) in missing {
            let name = order.name();
            if self.session.texts.note_asked(name)
                && !cache.is_being_made(&name)
                && let Some((_, content)) = self.session.writer.files().content(range.kept)
            {
                texts.push((content, order.clone()));
            }
        }
        if texts.is_empty() {
            return;
        }
        let count = texts.len();
        let (folder, limit_bytes) = (cache.dir().to_owned(), cache.limit());
        match makers.0(TextOrders { folder, limit_bytes, texts }) {
            Ok(()) => tracing::info!(domain = %self.id, count, "dense texts are being made"),
            Err(error) => tracing::warn!(%error, "failed to begin to make dense texts"),
        }
    }
}
