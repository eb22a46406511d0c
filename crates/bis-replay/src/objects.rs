//! The memory that several domains map: one file in memory for each shared object, and whose turn it is.
//!
//! A thread that replays one domain knows only its own stream; the turns of the run tokens are all that
//! domains replayed side by side have to agree on. Turn n of an object begins when turn n-1 was released;
//! turn 0 belongs to the domain that the object came from. This file keeps the books; waiting is
//! [`crate::job::Board`]'s.

use std::{collections::HashMap, fs::File, io, os::unix::fs::FileExt, sync::Arc};

use bis_trace::{
    event::Turn,
    sparse,
    types::{DomainId, FileId, ObjectId},
};
use bis_tracee::sys;
use rustix::fs::FallocateFlags;

#[derive(Debug)]
struct Object {
    /// None: nobody maps it any more, or ever will.
    file: Option<Arc<File>>,
    /// How many turns were released: the number of the one that may be held now.
    turn: u64,
}

/// Which domains still need which objects: an object's memory is given back when none does.
#[derive(Debug, Default)]
pub(crate) struct Sharers {
    /// With how often the trace says that the domain has the object.
    objects_of: HashMap<DomainId, HashMap<ObjectId, usize>>,
    counts: HashMap<ObjectId, usize>,
}

impl Sharers {
    /// From (object, domain) pairs; the same one comes again where a domain has an object again.
    pub(crate) fn new(shares: impl Iterator<Item = (ObjectId, DomainId)>) -> Sharers {
        let mut sharers = Sharers::default();
        for (object, domain) in shares {
            let times = sharers.objects_of.entry(domain).or_default().entry(object).or_default();
            if *times == 0 {
                *sharers.counts.entry(object).or_default() += 1;
            }
            *times += 1;
        }
        sharers
    }

    /// The domain has ended: the objects that it was the last to need.
    pub(crate) fn leave(&mut self, domain: DomainId) -> Vec<ObjectId> {
        let objects = self.objects_of.remove(&domain).unwrap_or_default();
        objects.into_keys().filter(|object| self.drop_one(*object)).collect()
    }

    /// The domain has unmapped an object. Was it the last to need that? One that has the object more than
    /// once, by the trace, may need it until its end.
    pub(crate) fn unmap(&mut self, domain: DomainId, object: ObjectId) -> bool {
        let Some(objects) = self.objects_of.get_mut(&domain) else { return false };
        if objects.get(&object) != Some(&1) {
            return false;
        }
        objects.remove(&object);
        self.drop_one(object)
    }

    /// One domain less needs the object. True: it was the last.
    fn drop_one(&mut self, object: ObjectId) -> bool {
        let Some(count) = self.counts.get_mut(&object) else { return false };
        *count -= 1;
        *count == 0
    }
}

/// Does an address space show an object?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mapped {
    Now,
    /// It has shown it.
    NoMore,
    Never,
}

/// The shared objects of a replay.
#[derive(Debug, Default)]
pub struct Objects {
    all: HashMap<ObjectId, Object>,
}

/// What the kernel would not let a program do either.
fn checked_len(len: u64) -> io::Result<u64> {
    if i64::try_from(len).is_ok() { Ok(len) } else { Err(io::ErrorKind::FileTooLarge.into()) }
}

fn missing(object: ObjectId) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("shared object {object} does not exist yet"))
}

/// Makes the file of an object, with the first `len` bytes of `content`.
pub(crate) fn make(object: ObjectId, len: u64, content: Option<&File>) -> io::Result<File> {
    let name = std::ffi::CString::new(format!("{OBJECT_PREFIX}{object}")).map_err(io::Error::other)?;
    let file = File::from(sys::memfd(&name)?);
    if let Some(content) = content {
        sparse::each_piece(content, 0..len, |offset, piece| file.write_all_at(piece, offset))?;
    }
    file.set_len(checked_len(len)?)?;
    Ok(file)
}

/// What the names of objects' files begin with, after the kernel's `/memfd:`; their number follows.
pub(crate) const OBJECT_PREFIX: &str = "bis-object-";

/// The object whose file has this name in `/proc/PID/maps`.
pub(crate) fn object_of(name: &[u8]) -> Option<ObjectId> {
    let rest = name.strip_prefix(b"/memfd:")?.strip_prefix(OBJECT_PREFIX.as_bytes())?;
    let digits = rest.split(|byte| *byte == b' ').next()?;
    std::str::from_utf8(digits).ok()?.parse().ok().map(ObjectId)
}

impl Objects {
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// A new object, in its turn 0.
    pub(crate) fn add(&mut self, object: ObjectId, file: File) -> io::Result<()> {
        if self.all.contains_key(&object) {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                format!("shared object {object} exists already"),
            ));
        }
        self.all.insert(object, Object { file: Some(Arc::new(file)), turn: 0 });
        Ok(())
    }

    /// Nobody will ask for this object any more.
    pub(crate) fn forget(&mut self, object: ObjectId) {
        self.all.remove(&object);
    }

    pub(crate) fn file(&self, object: ObjectId) -> io::Result<Arc<File>> {
        self.all.get(&object).and_then(|found| found.file.clone()).ok_or_else(|| missing(object))
    }

    /// These objects with files of their own, each with the content that it has now.
    pub(crate) fn copy(&self) -> io::Result<Objects> {
        let copy = |(object, known): (&ObjectId, &Object)| {
            let of_its_own =
                |file: &Arc<File>| make(*object, file.metadata()?.len(), Some(file)).map(Arc::new);
            let file = known.file.as_ref().map(of_its_own).transpose()?;
            Ok((*object, Object { file, turn: known.turn }))
        };
        Ok(Objects { all: self.all.iter().map(copy).collect::<io::Result<_>>()? })
    }

    /// Have all these turns come?
    pub(crate) fn have_come(&self, turns: &[Turn]) -> bool {
        turns.iter().all(|turn| self.all.get(&turn.object).is_some_and(|object| object.turn >= turn.turn))
    }

    /// Announces the end of a turn. `is_over`: nobody will map the object any more, and its memory is given
    /// back. Not so its turns, which are asked for where they have come long ago.
    pub(crate) fn release(&mut self, turn: Turn, is_over: bool) -> io::Result<()> {
        let object = self.all.get_mut(&turn.object).ok_or_else(|| missing(turn.object))?;
        if object.turn != turn.turn {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!(
                    "turn {} of shared object {} ends while it is in turn {}",
                    turn.turn, turn.object, object.turn
                ),
            ));
        }
        object.turn = turn
            .turn
            .checked_add(1)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a turn's number is too large"))?;
        if is_over {
            object.file = None;
        }
        Ok(())
    }
}

/// A call's write to the object.
pub(crate) fn write(file: &File, offset: u64, data: &[u8]) -> io::Result<()> {
    checked_len(offset.saturating_add(data.len() as u64))?;
    file.write_all_at(data, offset)
}

/// ftruncate.
pub(crate) fn resize(file: &File, len: u64) -> io::Result<()> {
    file.set_len(checked_len(len)?)
}

/// A hole.
pub(crate) fn clear(file: &File, offset: u64, len: u64) -> io::Result<()> {
    checked_len(offset.saturating_add(len))?;
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    Ok(rustix::fs::fallocate(file, hole, offset, len)?)
}

/// A copy in memory of a kept file, for traces on a file system from which nothing may be executed.
pub(crate) fn copy_of(file: FileId, content: &File) -> io::Result<File> {
    let name = std::ffi::CString::new(format!("bis-file-{file}")).map_err(io::Error::other)?;
    let copy = File::from(sys::memfd(&name)?);
    let len = content.metadata()?.len();
    copy.set_len(len)?;
    // Holes stay: it is mapped privately, so nothing is ever stored there.
    sparse::each_piece(content, 0..len, |offset, piece| copy.write_all_at(piece, offset))?;
    Ok(copy)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OBJECT: ObjectId = ObjectId(4);

    fn turn(turn: u64) -> Turn {
        Turn { object: OBJECT, turn }
    }

    #[test]
    fn turns_go_in_order() {
        let mut objects = Objects::default();
        assert!(!objects.have_come(&[turn(0)]));
        objects.add(OBJECT, make(OBJECT, 100, None).unwrap()).unwrap();
        assert!(objects.have_come(&[turn(0)]) && !objects.have_come(&[turn(1)]));
        assert!(objects.release(turn(1), false).is_err());
        objects.release(turn(0), false).unwrap();
        assert!(objects.have_come(&[turn(1)]));
        assert!(objects.add(OBJECT, make(OBJECT, 1, None).unwrap()).is_err());
        assert!(objects.file(OBJECT).is_ok());
        objects.release(turn(1), true).unwrap();
        assert!(objects.file(OBJECT).is_err() && objects.copy().unwrap().have_come(&[turn(2)]));
    }

    #[test]
    fn the_last_domain_to_end_gives_an_object_back() {
        let (a, b) = (DomainId(1), DomainId(2));
        let other = ObjectId(9);
        let mut sharers = Sharers::new([(OBJECT, a), (OBJECT, b), (OBJECT, a), (other, a)].into_iter());
        assert!(!sharers.unmap(a, OBJECT) && !sharers.unmap(b, other));
        assert_eq!(sharers.leave(a), [other]);
        assert_eq!(sharers.leave(a), []);
        assert_eq!(sharers.leave(b), [OBJECT]);
    }

    #[test]
    fn the_last_domain_to_unmap_an_object_gives_it_back() {
        let (a, b) = (DomainId(1), DomainId(2));
        let mut sharers = Sharers::new([(OBJECT, a), (OBJECT, b)].into_iter());
        assert!(!sharers.unmap(b, OBJECT) && !sharers.unmap(b, OBJECT));
        assert_eq!(sharers.leave(b), []);
        assert!(sharers.unmap(a, OBJECT));
        assert_eq!(sharers.leave(a), []);
    }

    #[test]
    fn a_hole_is_zero_and_the_length_stays() {
        let file = make(OBJECT, 0, None).unwrap();
        write(&file, 0, &[7; 20000]).unwrap();
        clear(&file, 100, 10000).unwrap();
        clear(&file, 19000, 1 << 40).unwrap();
        let mut found = vec![0; 20000];
        file.read_exact_at(&mut found, 0).unwrap();
        let expected = |at: usize| if (100..10100).contains(&at) || at >= 19000 { 0 } else { 7 };
        assert!((0..20000).all(|at| found[at] == expected(at)));
        assert_eq!(file.metadata().unwrap().len(), 20000);
        assert!(clear(&file, u64::MAX, 2).is_err() && clear(&file, 0, 0).is_err());
    }

    #[test]
    fn content_is_cut_and_filled_to_the_length() {
        let content = make(ObjectId(1), 0, None).unwrap();
        write(&content, 0, b"abcdef").unwrap();
        for (len, expected) in [(3, &b"abc"[..]), (8, b"abcdef\0\0")] {
            let file = make(OBJECT, len, Some(&content)).unwrap();
            let mut found = vec![0xff; expected.len()];
            file.read_exact_at(&mut found, 0).unwrap();
            assert_eq!((file.metadata().unwrap().len(), &found[..]), (len, expected));
        }
        assert!(make(OBJECT, u64::MAX, None).is_err());
        assert!(write(&content, u64::MAX - 2, b"abcdef").is_err());
    }
}
