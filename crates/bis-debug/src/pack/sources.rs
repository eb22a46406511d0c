//! The source files that a program's line tables name.

use std::{
    borrow::Cow,
    collections::BTreeSet,
    ffi::OsStr,
    os::unix::ffi::OsStrExt as _,
    path::{Component, Path, PathBuf},
};

use gimli::{DwarfFileType, EndianSlice, LittleEndian, SectionId};
use object::{Object as _, ObjectSection as _};

use super::{Packed, SOURCES, copy, place};
use crate::options::DebugError;

type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// Puts the sources of a program into the trace, under their own paths. `bytes`: the file with its line
/// tables.
pub(super) fn keep(
    trace: &Path,
    program: &Path,
    bytes: &[u8],
    packed: &mut Packed,
) -> Result<(), DebugError> {
    let Ok(file) = object::File::parse(bytes) else { return Ok(()) };
    let Some(named) = Named::of(&file) else { return Ok(()) };
    if named.is_split {
        packed.split.insert(program.to_owned());
    }
    let folder = Path::new(SOURCES);
    for source in named.files {
        // A relative name is one of a folder that the compiler was told not to name.
        let Some(inside) = inside(&source).filter(|_| source.is_file()) else {
            packed.missing_sources.insert(source);
            continue;
        };
        if let Some(bytes) = copy(&source, trace, &folder.join(inside))? {
            packed.sources.add(bytes);
        }
    }
    for directory in named.directories {
        // Names that lead up and down again go through the folder in which it was compiled.
        if let Some(inside) =
            inside(&directory).filter(|inside| trace.join(folder).join(top(inside)).is_dir())
        {
            std::fs::create_dir_all(place(trace, &folder.join(inside))?)
                .map_err(|source| DebugError::Io { what: "make a folder in the trace", source })?;
        }
    }
    Ok(())
}

fn top(path: &Path) -> PathBuf {
    path.components().take(1).collect()
}

/// A path below `/`, without ways up; none if it is a relative one.
fn inside(path: &Path) -> Option<PathBuf> {
    let mut inside = PathBuf::new();
    if !path.is_absolute() {
        return None;
    }
    for component in path.components() {
        match component {
            Component::Normal(name) => inside.push(name),
            Component::ParentDir => drop(inside.pop()),
            _ => {}
        }
    }
    Some(inside)
}

/// What line tables name.
#[derive(Default)]
struct Named {
    files: BTreeSet<PathBuf>,
    /// In which it was compiled.
    directories: BTreeSet<PathBuf>,
    is_split: bool,
}

impl Named {
    /// None: the file's debugging information cannot be read.
    fn of(file: &object::File<'_>) -> Option<Named> {
        let load = |id: SectionId| -> Result<Cow<'_, [u8]>, object::Error> {
            file.section_by_name(id.name())
                .map_or(Ok(Cow::Borrowed(&[])), |section| section.uncompressed_data())
        };
        let sections = gimli::DwarfSections::load(load).ok()?;
        let mut dwarf = sections.borrow(|bytes| EndianSlice::new(bytes, LittleEndian));
        dwarf.file_type = DwarfFileType::Main;
        let mut named = Named::default();
        let mut units = dwarf.units();
        while let Ok(Some(header)) = units.next() {
            // A unit that cannot be read keeps nobody from reading the others.
            if let Ok(unit) = dwarf.unit(header) {
                named.add(&dwarf, &unit);
            }
        }
        Some(named)
    }

    fn add(&mut self, dwarf: &gimli::Dwarf<Slice<'_>>, unit: &gimli::Unit<Slice<'_>>) {
        self.is_split |= unit.dwo_id.is_some();
        let compiled_in = unit.comp_dir.map(|directory| path(&directory)).unwrap_or_default();
        self.directories.insert(compiled_in.clone());
        let Some(program) = &unit.line_program else { return };
        let header = program.header();
        let text = |value| dwarf.attr_string(unit, value).ok();
        for entry in header.file_names() {
            let Some(name) = text(entry.path_name()) else { continue };
            let directory = entry.directory(header).and_then(text).map(|directory| path(&directory));
            let whole = compiled_in.join(directory.unwrap_or_default()).join(path(&name));
            // Compilers have names for what is in no file: <built-in>.
            if !name.starts_with(b"<") {
                self.files.insert(whole);
            }
        }
    }
}

fn path(text: &[u8]) -> PathBuf {
    Path::new(OsStr::from_bytes(text)).to_owned()
}
