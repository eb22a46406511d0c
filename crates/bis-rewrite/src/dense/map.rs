//! What a supervisor asks about a dense text: what an address in the trampolines stands for, and where in
//! them a task goes on that stands in the middle of what was patched.
//!
//! All answers come from sorted arrays of small fixed-size pieces, which are also what is stored on disk.

use super::{count, form};
use crate::{
    run::{Error, SiteKind},
    trampoline::Builder,
};

/// Where a task is whose program counter is in the trampolines. Addresses are those of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// At an instruction of the program: its state is exactly that of a task that stands at this address of
    /// the original text. That includes the way to a hook, where the site has not begun (for
    /// [`crate::Entry::SavedRcx`], rcx may have its value elsewhere).
    Program {
        /// The address in the text.
        address: u64,
    },
    /// In a count, or at its trap. The branch, call or jump has been made (a call's return address is on the
    /// stack), and the program stands at `address`; what is left of the count can be done by hand: if it is
    /// not `taken`, take one count from the word; if `restore_rcx`, load rcx from the save word; if
    /// `loses_flags`, clear the status flags; then go on at `resume`.
    Count {
        /// Where the program stands: at the target; at the jump itself, if that is a computed one.
        address: u64,
        /// Where to go on. (A computed jump's own place in the trampolines, after the count.)
        resume: u64,
        /// One has been taken from the word.
        taken: bool,
        /// rcx is in the save word.
        restore_rcx: bool,
        /// The status flags are not the program's, which nobody looks at: they count as cleared
        /// ([`crate::STATUS_FLAGS`]).
        flags_lost: bool,
        /// They are not when the count has been done, even if they still are.
        loses_flags: bool,
        /// This is the address of the `int3`: the count went below zero. All has been done, but that the
        /// flags are to be cleared if they are lost.
        trap: bool,
    },
}

impl Place {
    /// The address in the text that the task stands at.
    #[must_use]
    pub fn address(&self) -> u64 {
        match self {
            Self::Program { address } | Self::Count { address, .. } => *address,
        }
    }
}

/// A hooked site. Addresses are the file's own: add the bias, for the trampolines' as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DenseSite {
    /// What it is.
    pub kind: SiteKind,
    /// Address of the instruction.
    pub site: u64,
    /// Where the way to its hook begins.
    pub entry: u64,
    /// As [`crate::Trampoline::traced`].
    pub traced: u64,
    /// As [`crate::Trampoline::done`].
    pub done: u64,
    /// As [`crate::Trampoline::abort`].
    pub abort: Option<u64>,
}

/// What a stretch of the trampolines is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// One instruction: that of the program at `original`, or a jump there.
    Moved = 0,
    /// A count before `original`.
    Count = 1,
    /// A count before `original`, with the flags kept.
    KeptCount = 2,
    /// A count, and the computed jump of `original`, which has `len` bytes.
    Jump = 3,
    /// As `Jump`, with the flags kept.
    KeptJump = 4,
    /// The way to the hook of the site at `original`; after `len` bytes, the instruction itself.
    Hook = 5,
}

impl Kind {
    pub const ALL: [Self; 6] =
        [Self::Moved, Self::Count, Self::KeptCount, Self::Jump, Self::KeptJump, Self::Hook];
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// Offset in the trampolines.
    pub at: u32,
    /// Offset from the first address of the text.
    pub original: u32,
    pub kind: Kind,
    pub len: u8,
}

/// Answers about one dense text, wherever it is loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DenseMap {
    /// First of the file's addresses.
    pub(super) base: u64,
    /// From the file's own addresses to the trampolines.
    pub(super) distance: u64,
    /// Bytes of trampolines.
    pub(super) len: u32,
    /// By `at`.
    pub(super) pieces: Vec<Piece>,
    /// (offset of an instruction of a run from `base`, offset in the trampolines), by the first.
    pub(super) enters: Vec<(u32, u32)>,
    /// By site.
    pub(super) sites: Vec<DenseSite>,
}

impl DenseMap {
    /// A map as [`super::DenseEntry::stored_map`] has it. None if it is damaged, or stored by a version that
    /// is not known here. Whatever the bytes, its answers do no harm.
    #[must_use]
    pub fn load(bytes: &[u8]) -> Option<Self> {
        form::decode(&form::name(bytes)?, bytes).map(|stored| stored.map)
    }

    /// The instruction of the program whose copy begins at `pc`, in the trampolines, in a process where the
    /// file is loaded `bias` above its own addresses: a task that comes there is about to execute it, and has
    /// all that the program has. The copy of a hooked site is the way to its hook, that of a counted branch
    /// begins with the count (if it is no conditional one).
    #[must_use]
    pub fn copy_of(&self, bias: u64, pc: u64) -> Option<u64> {
        let offset = u32::try_from(pc.wrapping_sub(bias).wrapping_sub(self.distance)).ok()?;
        // Trampolines are in the order of the text.
        let index = self.enters.binary_search_by_key(&offset, |(_, at)| *at).ok()?;
        Some(bias.wrapping_add(self.base).wrapping_add(self.enters[index].0.into()))
    }

    /// All instructions that have moved: address in the text, and of the copy.
    pub fn copies(&self, bias: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        let (text, trampolines) = (bias.wrapping_add(self.base), bias.wrapping_add(self.distance));
        let place = move |(original, at): &(u32, u32)| {
            (text.wrapping_add((*original).into()), trampolines.wrapping_add((*at).into()))
        };
        self.enters.iter().map(place)
    }

    /// Where a task is that stands at `pc`, in a process where the file is loaded `bias` above its own
    /// addresses. None outside of the trampolines, or between two instructions' starts.
    ///
    /// After a trap the program counter is one past the `int3`: ask for the address before it.
    #[must_use]
    pub fn place(&self, bias: u64, pc: u64) -> Option<Place> {
        let start = bias.wrapping_add(self.distance);
        let offset = u32::try_from(pc.wrapping_sub(start)).ok().filter(|offset| *offset < self.len)?;
        let index = self.pieces.partition_point(|piece| piece.at <= offset).checked_sub(1)?;
        let piece = self.pieces[index];
        let within = (offset - piece.at) as usize;
        let address = bias.wrapping_add(self.base).wrapping_add(u64::from(piece.original));
        let keep = matches!(piece.kind, Kind::KeptCount | Kind::KeptJump);
        let (exit_len, resume) = match piece.kind {
            Kind::Moved => return (within == 0).then_some(Place::Program { address }),
            Kind::Hook => return (within <= usize::from(piece.len)).then_some(Place::Program { address }),
            Kind::Count | Kind::KeptCount => (5, address),
            Kind::Jump | Kind::KeptJump => {
                let exit = start.wrapping_add(u64::from(piece.at)).wrapping_add(count::exit(keep) as u64);
                (usize::from(piece.len), exit)
            }
        };
        let stage = count::stage(keep, exit_len, within)?;
        Some(Place::Count {
            address,
            resume,
            taken: stage.taken,
            restore_rcx: stage.restore,
            flags_lost: !keep && stage.taken,
            loses_flags: !keep,
            trap: stage.trap,
        })
    }

    /// The address in the text that `pc`, in the trampolines, stands for.
    #[must_use]
    pub fn original(&self, bias: u64, pc: u64) -> Option<u64> {
        self.place(bias, pc).map(|place| place.address())
    }

    /// Where a task goes on that stands at `address`, at an instruction whose bytes have given way to a jump.
    /// None for all others: those are where they were.
    #[must_use]
    pub fn enter(&self, bias: u64, address: u64) -> Option<u64> {
        let offset = u32::try_from(address.wrapping_sub(bias).wrapping_sub(self.base)).ok()?;
        let index = self.enters.binary_search_by_key(&offset, |(original, _)| *original).ok()?;
        Some(bias.wrapping_add(self.distance).wrapping_add(u64::from(self.enters[index].1)))
    }

    /// The hooked sites, by address.
    #[must_use]
    pub fn sites(&self) -> &[DenseSite] {
        &self.sites
    }

    /// The hooked site whose hook, entered, has `done` to return to ([`DenseSite::done`] with the bias
    /// added).
    #[must_use]
    pub fn site_of(&self, bias: u64, done: u64) -> Option<&DenseSite> {
        let wanted = done.wrapping_sub(bias);
        // Trampolines are in the order of the text, and so are the sites.
        let key = |address: u64| address.wrapping_sub(self.distance);
        let index = self.sites.binary_search_by_key(&key(wanted), |site| key(site.done)).ok()?;
        Some(&self.sites[index])
    }

    /// How many trampolines' bytes it is about.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "there is always the table of hooks")]
    pub fn len(&self) -> usize {
        self.len as usize
    }
}

/// A map in the making.
pub(super) struct MapBuilder {
    map: DenseMap,
    pub sites: Vec<DenseSite>,
    too_large: bool,
}

impl MapBuilder {
    pub fn new(base: u64, distance: u64, patches: usize) -> Self {
        let pieces = Vec::with_capacity(patches * 2);
        let map = DenseMap { base, distance, len: 0, pieces, enters: Vec::new(), sites: Vec::new() };
        Self { map, sites: Vec::new(), too_large: false }
    }

    fn offset(&mut self, value: u64) -> u32 {
        u32::try_from(value).unwrap_or_else(|_| {
            self.too_large = true;
            0
        })
    }

    /// What comes next in the trampolines; the answer is its number.
    pub fn piece(&mut self, out: &Builder, kind: Kind, original: u64, len: u8) -> usize {
        let at = self.offset(out.bytes.len() as u64);
        let original = self.offset(original.wrapping_sub(self.map.base));
        let piece = Piece { at, original, kind, len };
        match self.map.pieces.last_mut() {
            // The start of a moved branch may be the start of its count.
            Some(last) if last.at == at => *last = piece,
            _ => self.map.pieces.push(piece),
        }
        self.map.pieces.len() - 1
    }

    /// An instruction of a run comes next.
    pub fn boundary(&mut self, out: &Builder, original: u64) {
        self.piece(out, Kind::Moved, original, 0);
        let at = self.offset(out.bytes.len() as u64);
        let offset = self.offset(original.wrapping_sub(self.map.base));
        self.map.enters.push((offset, at));
    }

    pub fn set_len(&mut self, piece: usize, len: u8) {
        self.map.pieces[piece].len = len;
    }

    pub fn finish(mut self, len: usize) -> Result<DenseMap, Error> {
        self.map.len = self.offset(len as u64);
        if self.too_large {
            return Err(Error::TooLarge(len as u64));
        }
        // Runs come in the order of the text, and so do their trampolines.
        debug_assert!(self.map.enters.is_sorted());
        debug_assert!(self.map.enters.is_sorted_by_key(|(_, at)| *at));
        self.map.sites = self.sites;
        Ok(self.map)
    }
}
