//! The plan of a call: which memory it touches, made before the call; and after it, exactly which bytes the
//! kernel has written. Pure: the tracee's memory is a trait.
//!
//! A plan serves two uses. Without relocation every piece stays where the program put it. With relocation (a
//! call that may wait while another thread runs must not have the kernel write behind that thread's back) the
//! recorder gives each piece that is not `fixed` a place in scratch memory, copies the `In` and `InOut` ones
//! there, patches the pointer at each piece's slot, makes the call, and copies back what
//! [`Plan::outputs`] says. So a plan is complete in this sense: every pointer that the kernel follows to
//! memory that it writes, or to memory that holds such a pointer, is a piece with a slot. Memory that the
//! kernel only reads and that holds no such pointer (a path, a buffer to write) is left out.
//!
//! How exact the outputs are depends on the direction. Of an `Out` piece, what `outputs` says was written was
//! written. Of an `InOut` piece it may say a little more (a buffer that an error may have touched); bytes
//! that the kernel did not touch are then what was copied in, and recording them is harmless. A caller that
//! copies an `InOut` piece back from scratch should leave bytes alone that are still what was copied in,
//! because another thread may have changed them at home in the meantime. Relocation also hides a bad address
//! of the program from the kernel: before relocating, see that the homes of the pieces can be written.

use crate::errno::{EFAULT, EINTR, is_kernels_own};
use crate::model::{Arg, Call, Kind, Row, Size};

/// The memory of the task that makes the call.
pub trait Memory {
    /// Reads `buf.len()` bytes at `addr`; false if not all of them can be read.
    fn read(&self, addr: u64, buf: &mut [u8]) -> bool;
}

/// What is known of a call before it is made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Planned {
    /// The memory that it touches.
    Plan(Plan),
    /// Not known, and why: compare all memory before and after.
    Slow(&'static str),
    /// Make it fail with this errno (positive) without making it, and why.
    Refuse(i32, &'static str),
}

/// The pieces of memory that a call reads or writes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Plan {
    /// A piece's slot refers only to pieces before it.
    pub pieces: Vec<Piece>,
}

/// A run of bytes behind one pointer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// The address that the program gave; never 0.
    pub home: u64,
    /// Bytes; never 0. `home + len` is at most 2^56.
    pub len: u64,
    pub dir: Dir,
    /// Where the pointer to it lies.
    pub slot: Slot,
    pub written: Written,
    pub when: When,
    /// It must stay at home: the kernel uses the address itself (a futex word).
    pub fixed: bool,
}

/// Which way data goes, as the kernel sees it from the program's side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dir {
    In,
    Out,
    InOut,
}

/// Where the pointer to a piece lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Slot {
    /// In an argument's register, 0..=5.
    Arg(u8),
    /// In the 8 bytes at `offset` of another piece.
    In { piece: usize, offset: u64 },
}

/// How much of a piece the kernel writes, when it does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Written {
    Nothing,
    All,
    /// As many units of this many bytes from its start as the count says, at most all.
    Counted {
        count: Count,
        unit: u64,
    },
    /// The count's bytes fill all pieces with this group number in order.
    Spread {
        group: u32,
        count: Count,
    },
    /// These (offset, length) fields.
    Ranges(&'static [(u32, u32)]),
    /// The `len` bytes at `offset` of each of its elements of `stride` bytes.
    Every {
        stride: u64,
        offset: u64,
        len: u64,
    },
}

/// A number known after the call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Count {
    /// The call's result.
    Ret,
    /// The call's result and so many more.
    RetPlus(u64),
    /// A little-endian number of `width` (4 or 8) bytes that the kernel stored in a piece.
    Field { piece: usize, offset: u64, width: u8 },
    /// As `Field`, but nothing where the call's result is not more than `above` (a message that did not
    /// come).
    FieldIf { above: u32, piece: usize, offset: u64 },
}

/// With which results the kernel writes a piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// Those that are no error.
    Success,
    /// Any. After an error all of the piece may have been written.
    Always,
    /// EINTR and the kernel's own restart codes (512..=516), which a tracer sees.
    Interrupted,
    /// A result above this: element number so much of an array was handled.
    Above(u32),
}

/// Bytes that the kernel wrote.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Output {
    /// Index in [`Plan::pieces`].
    pub piece: usize,
    /// Bytes from the piece's start.
    pub offset: u64,
    /// Bytes; never 0. Inside the piece.
    pub len: u64,
}

/// The most bytes that one read or write moves (the kernel's MAX_RW_COUNT).
pub const RW_MAX: u64 = 0x7fff_f000;

/// No program has memory from here on (with five levels of page tables).
const USER_END: u64 = 1 << 56;

/// Pages that are looked at after an EFAULT, per piece.
const FAULT_PAGES_MAX: u64 = 1 << 16;

/// How far from a piece's begin it is looked at behind holes, pages.
const PAGES_NEAR: u64 = 16;

/// The longest of what a call returns some of: names in folders, events of inotify, siginfos.
const RECORD_MAX: u64 = 300;

/// The longest of what a stream is made of, of which the kernel copies as much as there is memory for and
/// tells nothing: a page of a pipe, a packet of a socket. Packets may be longer, but what is looked at takes
/// time.
const PACKET_MAX: usize = 1 << 14;

/// The longest control message that the kernel makes: 253 descriptors.
const CONTROL_MAX: u64 = 2048;

impl Plan {
    /// The bytes that the kernel wrote in a call that returned `ret` (the kernel's result, a negated errno on
    /// failure). `place` says where each piece was during the call, and `mem` is read there. Bytes that
    /// hold a pointer to another piece are never among them. Pieces at home may overlap; the outputs then do.
    pub fn outputs(&self, ret: i64, place: &dyn Fn(usize) -> u64, mem: &dyn Memory) -> Vec<Output> {
        let mut found = Vec::new();
        let pointers = self.pointers();
        let mut spread: Option<(u32, u64)> = None;
        for (i, piece) in self.pieces.iter().enumerate() {
            if piece.dir == Dir::In {
                continue;
            }
            if ret == -i64::from(EFAULT) && place(i) == piece.home {
                // The kernel may have stopped anywhere.
                for (offset, len) in readable_parts(piece.home, piece.len, mem) {
                    self.put(&mut found, &pointers, i, offset, len);
                }
                continue;
            }
            let failed = ret < 0;
            let applies = match piece.when {
                When::Success => !failed,
                When::Always => true,
                When::Interrupted => ret == -i64::from(EINTR) || is_kernels_own(ret),
                When::Above(n) => ret > i64::from(n),
            };
            if !applies {
                continue;
            }
            let count = |count: Count| self.count(count, ret, place, mem);
            match piece.written {
                Written::Nothing => {}
                // Nobody knows how much; and what cannot be read was not written.
                Written::All | Written::Counted { .. } | Written::Spread { .. } if failed => {
                    self.put(&mut found, &pointers, i, 0, readable(place(i), piece.len, mem));
                }
                Written::All => self.put(&mut found, &pointers, i, 0, piece.len),
                Written::Counted { count: of, unit } => {
                    self.put(&mut found, &pointers, i, 0, count(of).saturating_mul(unit).min(piece.len));
                }
                Written::Spread { group, count: of } => {
                    let left = match spread {
                        Some((g, left)) if g == group => left,
                        _ => count(of),
                    };
                    let here = left.min(piece.len);
                    self.put(&mut found, &pointers, i, 0, here);
                    spread = Some((group, left - here));
                }
                Written::Ranges(ranges) => {
                    for &(offset, len) in ranges {
                        self.put(&mut found, &pointers, i, u64::from(offset), u64::from(len));
                    }
                }
                Written::Every { stride, offset, len } => {
                    let mut at = offset;
                    while at < piece.len && stride > 0 {
                        self.put(&mut found, &pointers, i, at, len);
                        at += stride;
                    }
                }
            }
        }
        found
    }

    /// What the kernel may have written besides the outputs, in a call that succeeded with less than it was
    /// asked for: where memory cannot be written it stops, tells of what is whole, and leaves what it has
    /// begun (the next event of an `epoll_wait`, the next name in a folder, the message that `recvmmsg` does
    /// not count, a control message for which there is no room). What it writes elsewhere than at home has no
    /// such end. `is_writable` is asked about pages, and only where much would be said to be written
    /// otherwise.
    pub fn torn(
        &self,
        ret: i64,
        place: &dyn Fn(usize) -> u64,
        mem: &dyn Memory,
        is_writable: &mut dyn FnMut(u64) -> bool,
    ) -> Vec<Output> {
        let (mut found, pointers) = (Vec::new(), self.pointers());
        let at_home = self.pieces.iter().enumerate().filter(|(i, piece)| place(*i) == piece.home);
        for (i, piece) in at_home.filter(|(_, piece)| ret >= 0 && piece.dir != Dir::In) {
            let (from, max) = match (piece.when, piece.written) {
                (When::Above(n), _) if ret == i64::from(n) => (0, piece.len),
                (When::Above(n), _) if ret < i64::from(n) => continue,
                (_, Written::Counted { count, unit }) => {
                    let written = self.count(count, ret, place, mem).saturating_mul(unit);
                    (written, if matches!(piece.slot, Slot::Arg(_)) { RECORD_MAX } else { CONTROL_MAX })
                }
                _ => continue,
            };
            let begin = piece.home.saturating_add(from);
            let end = piece.home.saturating_add(piece.len).min(begin.saturating_add(max));
            let mut pages = (1..FAULT_PAGES_MAX).map(|n| (begin | 0xfff).saturating_add(1 + ((n - 1) << 12)));
            let stop = pages
                .by_ref()
                .take_while(|page| *page < end)
                .find(|page| max == RECORD_MAX || !is_writable(*page));
            let is_stream = matches!(piece.written, Written::Counted { count: Count::Ret, unit: 1 });
            let far = piece.home.saturating_add(piece.len).min(begin.saturating_add(PACKET_MAX as u64));
            let room = far.saturating_sub(begin);
            // Where all of that is there, nothing was begun. It mostly is: one read of it all says that
            // sooner than one of each page.
            let is_there = |len| mem.read(begin, &mut [0; PACKET_MAX][..len as usize]);
            let may_be_torn = is_stream && ret > 0 && room > 0 && !is_there(room);
            let torn = if may_be_torn { readable(begin, room, mem) } else { 0 };
            let len = torn.max(stop.map_or(0, |stop| stop - begin));
            if len > 0 {
                self.put(&mut found, &pointers, i, from, len);
            }
        }
        found
    }

    fn count(&self, count: Count, ret: i64, place: &dyn Fn(usize) -> u64, mem: &dyn Memory) -> u64 {
        let (piece, offset, width) = match count {
            Count::Ret => return u64::try_from(ret).unwrap_or(0),
            Count::RetPlus(more) => return u64::try_from(ret).unwrap_or(0).saturating_add(more),
            Count::Field { piece, offset, width } => (piece, offset, width),
            Count::FieldIf { above, .. } if ret <= i64::from(above) => return 0,
            Count::FieldIf { piece, offset, .. } => (piece, offset, 4),
        };
        let mut word = [0; 8];
        let read = mem.read(place(piece).wrapping_add(offset), &mut word[..usize::from(width.min(8))]);
        if read { u64::from_le_bytes(word) } else { 0 }
    }

    /// Where the pointers to pieces lie in other pieces: (piece, offset), sorted.
    fn pointers(&self) -> Vec<(usize, u64)> {
        let mut found: Vec<(usize, u64)> = self
            .pieces
            .iter()
            .filter_map(|p| match p.slot {
                Slot::In { piece, offset } => Some((piece, offset)),
                Slot::Arg(_) => None,
            })
            .collect();
        found.sort_unstable();
        found
    }

    /// Adds `len` bytes at `offset` of piece `i`, clamped to the piece, without the pointers in it.
    fn put(&self, found: &mut Vec<Output>, pointers: &[(usize, u64)], i: usize, offset: u64, len: u64) {
        let end = offset.saturating_add(len).min(self.pieces[i].len);
        let mut at = offset;
        let from = pointers.partition_point(|&(piece, _)| piece < i);
        for &(_, hole) in pointers[from..].iter().take_while(|&&(piece, _)| piece == i) {
            let before = hole.min(end);
            if at < before {
                found.push(Output { piece: i, offset: at, len: before - at });
                at = before;
            }
            // What is asked for may begin inside the pointer.
            if (hole..hole.saturating_add(8)).contains(&at) {
                at = hole.saturating_add(8);
            }
        }
        if at < end {
            found.push(Output { piece: i, offset: at, len: end - at });
        }
    }
}

/// How many of `len` bytes at `from` can be read, up to the first page that cannot.
fn readable(from: u64, len: u64, mem: &dyn Memory) -> u64 {
    let end = from.saturating_add(len);
    let mut at = from;
    for _ in 0..FAULT_PAGES_MAX {
        if at >= end || !mem.read(at, &mut [0]) {
            break;
        }
        at = (at | 0xfff).saturating_add(1);
    }
    at.min(end) - from
}

/// The parts that can be read, by their offsets and lengths: the first one, and what lies behind a hole near
/// the begin. Some calls write the end of a structure first, or a word behind what they could not write.
fn readable_parts(from: u64, len: u64, mem: &dyn Memory) -> Vec<(u64, u64)> {
    let near = len.min(PAGES_NEAR << 12);
    let mut parts = vec![(0, readable(from, len, mem))];
    let mut at = parts[0].1;
    while at < near {
        let next = ((from + at) | 0xfff).saturating_add(1) - from;
        let len = if next < near { readable(from + next, near - next, mem) } else { 0 };
        parts.push((next, len));
        at = next + len;
    }
    parts.retain(|(_, len)| *len > 0);
    parts
}

/// Why a family's function has no plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    Slow(&'static str),
    Refuse(i32, &'static str),
}

pub type Verdict = Result<(), Stop>;

/// A plan in the making.
pub struct Builder<'a> {
    pub(crate) call: &'a Call,
    pub(crate) row: &'static Row,
    mem: &'a dyn Memory,
    pieces: Vec<Piece>,
}

impl<'a> Builder<'a> {
    pub(crate) fn new(call: &'a Call, row: &'static Row, mem: &'a dyn Memory) -> Builder<'a> {
        Builder { call, row, mem, pieces: Vec::new() }
    }

    pub(crate) fn finish(self) -> Plan {
        Plan { pieces: self.pieces }
    }

    /// Adds a piece and says which number it has; none where there is nothing (a null pointer, no
    /// bytes, an address that no program has).
    pub(crate) fn piece(
        &mut self,
        slot: Slot,
        home: u64,
        len: u64,
        dir: Dir,
        written: Written,
        when: When,
    ) -> Option<usize> {
        let len = len.min(USER_END.saturating_sub(home));
        if home == 0 || len == 0 {
            return None;
        }
        // A structure that the program says is too short to hold the pointer: the kernel does not follow it.
        if let Slot::In { piece, offset } = slot
            && offset + 8 > self.pieces[piece].len
        {
            return None;
        }
        self.pieces.push(Piece { home, len, dir, slot, written, when, fixed: false });
        Some(self.pieces.len() - 1)
    }

    fn arg(&mut self, i: u8, len: u64, dir: Dir, written: Written, when: When) -> Option<usize> {
        self.piece(Slot::Arg(i), self.call.args[usize::from(i)], len, dir, written, when)
    }

    /// Memory of `len` bytes behind argument `i` that the kernel only reads, but finds pointers in.
    pub(crate) fn input(&mut self, i: u8, len: u64) -> Option<usize> {
        self.arg(i, len, Dir::In, Written::Nothing, When::Success)
    }

    /// `len` bytes behind argument `i` that a successful call writes.
    pub(crate) fn out(&mut self, i: u8, len: u64) -> Option<usize> {
        self.arg(i, len, Dir::Out, Written::All, When::Success)
    }

    /// `len` bytes behind argument `i` that the kernel reads, and may write if the call succeeds.
    pub(crate) fn inout(&mut self, i: u8, len: u64) -> Option<usize> {
        self.arg(i, len, Dir::InOut, Written::All, When::Success)
    }

    /// `len` bytes behind argument `i` that the kernel may write in any case.
    pub(crate) fn always(&mut self, i: u8, len: u64) -> Option<usize> {
        self.arg(i, len, Dir::InOut, Written::All, When::Always)
    }

    /// `len` bytes behind argument `i`, which the kernel reads, and of which it may write some fields.
    pub(crate) fn fields(&mut self, i: u8, len: u64, written: Written, when: When) -> Option<usize> {
        self.arg(i, len, Dir::InOut, written, when)
    }

    /// A futex word or the like: `len` bytes at `addr` that the kernel may write there and nowhere else.
    pub(crate) fn fixed(&mut self, slot: Slot, addr: u64, len: u64) {
        if let Some(i) = self.piece(slot, addr, len, Dir::InOut, Written::All, When::Always) {
            self.pieces[i].fixed = true;
        }
    }

    /// Makes a piece stay at home.
    pub(crate) fn pin(&mut self, piece: Option<usize>) {
        if let Some(i) = piece {
            self.pieces[i].fixed = true;
        }
    }

    /// Makes the piece of a slot InOut, since the kernel may write less of it than the result says.
    pub(crate) fn soften(&mut self, slot: Slot) {
        for piece in self.pieces.iter_mut().filter(|p| p.slot == slot) {
            piece.dir = Dir::InOut;
        }
    }

    /// The piece of a slot may have been written whatever the call returns.
    pub(crate) fn written_always(&mut self, slot: Slot) {
        for piece in self.pieces.iter_mut().filter(|p| p.slot == slot) {
            piece.when = When::Always;
        }
    }

    pub(crate) fn bytes<const N: usize>(&self, addr: u64) -> Option<[u8; N]> {
        let mut buf = [0; N];
        (addr != 0 && self.mem.read(addr, &mut buf)).then_some(buf)
    }

    pub(crate) fn u32_at(&self, addr: u64) -> Option<u32> {
        self.bytes(addr).map(u32::from_le_bytes)
    }

    pub(crate) fn u64_at(&self, addr: u64) -> Option<u64> {
        self.bytes(addr).map(u64::from_le_bytes)
    }

    /// Adds what the row's argument kinds say.
    pub(crate) fn by_kinds(&mut self) {
        let args = self.row.args;
        // Lengths before what they are the lengths of.
        for late in [false, true] {
            for (i, arg) in (0u8..).zip(args) {
                if late == matches!(size_of(arg), Some(Size::Deref(_))) {
                    self.by_kind(i, arg);
                }
            }
        }
    }

    fn by_kind(&mut self, i: u8, arg: &Arg) {
        let (dir, when) = match arg.kind {
            Kind::Out(_) => (Dir::Out, When::Success),
            Kind::InOut(_) => (Dir::InOut, When::Success),
            Kind::Always(_) => (Dir::InOut, When::Always),
            Kind::Rem(_) => (Dir::InOut, When::Interrupted),
            _ => return,
        };
        let Some(size) = size_of(arg) else { return };
        let ret = |unit| Written::Counted { count: Count::Ret, unit };
        let (len, written) = match size {
            Size::Fixed(n) => (n, Written::All),
            Size::Arg(a, unit) => (self.call.args[usize::from(a)].saturating_mul(unit), Written::All),
            Size::Arg32(a, unit) => {
                (u64::from(self.call.u32(usize::from(a))).saturating_mul(unit), Written::All)
            }
            Size::Ret(a, unit) => {
                (self.call.args[usize::from(a)].saturating_mul(unit).min(RW_MAX), ret(unit))
            }
            Size::Ret32(a, unit) => {
                let n = u64::try_from(self.call.i32(usize::from(a))).unwrap_or(0);
                (n.saturating_mul(unit).min(RW_MAX), ret(unit))
            }
            Size::Deref(a) => {
                let addr = self.call.args[usize::from(a)];
                let room = self.u32_at(addr).map_or(0, u64::from);
                match self.pieces.iter().position(|p| p.slot == Slot::Arg(a)) {
                    Some(piece) => {
                        let count = Count::Field { piece, offset: 0, width: 4 };
                        (room.min(i32::MAX.unsigned_abs().into()), Written::Counted { count, unit: 1 })
                    }
                    None => (0, Written::Nothing),
                }
            }
        };
        self.arg(i, len, dir, written, when);
    }
}

fn size_of(arg: &Arg) -> Option<Size> {
    match arg.kind {
        Kind::Out(s) | Kind::InOut(s) | Kind::Always(s) | Kind::Rem(s) => Some(s),
        _ => None,
    }
}
