//! The kept files that answers come from: the programs' own text where it counts, the maps of what does, and
//! what is patched in text that shows a file of ours.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    sync::{Arc, Mutex, PoisonError},
};

use bis_rewrite::DenseMap;
use bis_trace::{TraceError, codec, ours::PatchSet, types::FileId};

/// No map has this many bytes.
const MAP_BYTES_MAX: u64 = 1 << 30;

/// Why the program's text cannot be told.
#[derive(Debug, thiserror::Error)]
pub enum TextError {
    #[error(transparent)]
    Open(#[from] TraceError),
    #[error("failed to read kept file {file}: {source}")]
    Read { file: FileId, source: io::Error },
    #[error("kept file {0} is no map of a text that counts, or was made by another version of bis")]
    NoMap(FileId),
    #[error("kept file {file} does not say from {at:#x} on what is patched in a text: {why}")]
    NoSet { file: FileId, at: u64, why: String },
}

/// Files of one trace, opened once for all address spaces that show them.
#[derive(Clone, Debug, Default)]
pub struct TextFiles(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    originals: HashMap<FileId, Arc<File>>,
    maps: HashMap<FileId, Arc<DenseMap>>,
    /// By file, and from where on.
    sets: HashMap<(FileId, u64), Arc<PatchSet>>,
}

impl TextFiles {
    /// A program's own file.
    pub(super) fn original(
        &self,
        file: FileId,
        open: &impl Fn(FileId) -> Result<File, TraceError>,
    ) -> Result<Arc<File>, TextError> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(opened) = known.originals.get(&file) {
            return Ok(Arc::clone(opened));
        }
        let opened = Arc::new(open(file)?);
        known.originals.insert(file, Arc::clone(&opened));
        Ok(opened)
    }

    /// What addresses in trampolines mean.
    pub(super) fn map(
        &self,
        file: FileId,
        open: &impl Fn(FileId) -> Result<File, TraceError>,
    ) -> Result<Arc<DenseMap>, TextError> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(map) = known.maps.get(&file) {
            return Ok(Arc::clone(map));
        }
        let mut bytes = Vec::new();
        let read = open(file)?.take(MAP_BYTES_MAX).read_to_end(&mut bytes);
        read.map_err(|source| TextError::Read { file, source })?;
        let map = Arc::new(DenseMap::load(&bytes).ok_or(TextError::NoMap(file))?);
        known.maps.insert(file, Arc::clone(&map));
        Ok(map)
    }

    /// What is patched in a text.
    pub(super) fn set(
        &self,
        file: FileId,
        at: u64,
        open: &impl Fn(FileId) -> Result<File, TraceError>,
    ) -> Result<Arc<PatchSet>, TextError> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(set) = known.sets.get(&(file, at)) {
            return Ok(Arc::clone(set));
        }
        let mut opened = open(file)?;
        let mut bytes = Vec::new();
        let read =
            opened.seek(SeekFrom::Start(at)).and_then(|_| opened.take(MAP_BYTES_MAX).read_to_end(&mut bytes));
        read.map_err(|source| TextError::Read { file, source })?;
        let set =
            codec::read_set(&bytes).map_err(|why| TextError::NoSet { file, at, why: why.to_string() })?;
        let set = Arc::new(set);
        known.sets.insert((file, at), Arc::clone(&set));
        Ok(set)
    }
}
